#include "enhancer.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static_assert((int)DENOISE_LOUDNESS_LEN == (int)FFT_BINS, "the network takes other frequencies");
static_assert((int)DENOISE_MASK_LEN == (int)FFT_BINS, "the network gives other frequencies");

/* The network reads SCALE * log(energy + QUIET); train.py has the same numbers. */
#define SCALE 0.2f
#define QUIET 1e-5f

void enhancer_init(enhancer *e)
{
    fft_init(&e->transform);
    for (int k = 0; k < FFT_SIZE; ++k) {
        e->window[k] = sqrtf(0.5f - 0.5f * e->transform.cosine[k]);
    }
    memset(e->past, 0, sizeof e->past);
    memset(e->tail, 0, sizeof e->tail);
    denoise_reset(e->state);
}

void enhancer_next(enhancer *e, const float noisy[ENHANCER_HOP], float speech[ENHANCER_HOP])
{
    float samples[FFT_SIZE], re[FFT_BINS], im[FFT_BINS], loudness[FFT_BINS], mask[FFT_BINS];
    memmove(e->past, e->past + ENHANCER_HOP, sizeof e->past / 2);
    memcpy(e->past + ENHANCER_HOP, noisy, sizeof e->past / 2);
    for (int k = 0; k < FFT_SIZE; ++k) {
        samples[k] = e->window[k] * e->past[k];
    }
    fft_forward(&e->transform, samples, re, im);
    for (int k = 0; k < FFT_BINS; ++k) {
        loudness[k] = SCALE * logf(re[k] * re[k] + im[k] * im[k] + QUIET);
    }
    denoise_step(e->state, loudness, mask);
    for (int k = 0; k < FFT_BINS; ++k) {
        re[k] *= mask[k], im[k] *= mask[k];
    }
    fft_inverse(&e->transform, re, im, samples);
    for (int k = 0; k < ENHANCER_HOP; ++k) { /* halves that overlap add up to the whole */
        speech[k] = e->tail[k] + e->window[k] * samples[k];
        e->tail[k] = e->window[k + ENHANCER_HOP] * samples[k + ENHANCER_HOP];
    }
}
