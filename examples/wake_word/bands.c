#include "bands.h"

#include <math.h>
#include <string.h>

/* Bands are triangles of equal width on the mel scale, each from the middle of the one before to
 * the middle of the next; the lowest begins and the highest ends at these frequencies. */
#define LOWEST 100.0f
#define HIGHEST 7600.0f

/* Keeps the logarithm of silence finite: less than the noise of a microphone. */
#define QUIET 1e-4f
#define SCALE 0.2f

static float mel(float frequency)
{
    return logf(1.0f + frequency / 700.0f);
}

void bands_init(bands *b)
{
    const float width = (mel(HIGHEST) - mel(LOWEST)) / (float)(BANDS_COUNT + 1);
    fft_init(&b->transform);
    memset(b->past, 0, sizeof b->past);
    for (int k = 0; k < FFT_BINS; ++k) {
        const float frequency = (float)k * (float)BANDS_RATE / (float)FFT_SIZE;
        b->place[k] = (mel(frequency) - mel(LOWEST)) / width;
    }
}

void bands_next(bands *b, const float samples[BANDS_HOP], float loudness[BANDS_COUNT])
{
    float window[FFT_SIZE], re[FFT_BINS], im[FFT_BINS];
    float sums[BANDS_COUNT + 2] = {0.0f}; /* the first and the last are not used */
    memmove(b->past, b->past + BANDS_HOP, (FFT_SIZE - BANDS_HOP) * sizeof(float));
    memcpy(b->past + FFT_SIZE - BANDS_HOP, samples, BANDS_HOP * sizeof(float));
    for (int k = 0; k < FFT_SIZE; ++k) { /* Hann's */
        window[k] = (0.5f - 0.5f * b->transform.cosine[k]) * b->past[k];
    }
    fft_forward(&b->transform, window, re, im);
    for (int k = 0; k < FFT_BINS; ++k) {
        if (b->place[k] > 0.0f && b->place[k] < (float)(BANDS_COUNT + 1)) {
            const int band = (int)b->place[k];
            const float part = b->place[k] - (float)band, energy = re[k] * re[k] + im[k] * im[k];
            sums[band] += (1.0f - part) * energy;
            sums[band + 1] += part * energy;
        }
    }
    for (int k = 0; k < BANDS_COUNT; ++k) {
        loudness[k] = SCALE * logf(sums[k + 1] + QUIET);
    }
}
