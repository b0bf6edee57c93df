#include "fft.h"

#include <math.h>

/* Even samples are the real parts of so many complex numbers, odd samples the imaginary parts. */
enum { PAIRS = FFT_SIZE / 2 };

void fft_init(fft *f)
{
    for (int k = 0; k < FFT_SIZE; ++k) {
        f->cosine[k] = cosf(6.2831853f / (float)FFT_SIZE * (float)k);
    }
}

static float cosine(const fft *f, int k)
{
    return f->cosine[k % FFT_SIZE];
}

static float sine(const fft *f, int k)
{
    return cosine(f, k + 3 * (FFT_SIZE / 4));
}

/* Moves each point to the place with its bits the other way round. */
static void reorder(float *re, float *im)
{
    for (int k = 1, other = 0; k < PAIRS; ++k) {
        int bit = PAIRS / 2;
        for (; other & bit; bit /= 2) {
            other -= bit;
        }
        other += bit;
        if (k < other) {
            const float x = re[k], y = im[k];
            re[k] = re[other], im[k] = im[other];
            re[other] = x, im[other] = y;
        }
    }
}

/* The transform of PAIRS complex numbers, in place (Cooley and Tukey, radix 2). */
static void transform(const fft *f, float *re, float *im)
{
    reorder(re, im);
    for (int half = 1; half < PAIRS; half *= 2) {
        for (int k = 0; k < half; ++k) {
            const float c = cosine(f, k * (PAIRS / half)), s = sine(f, k * (PAIRS / half));
            for (int i = k; i < PAIRS; i += 2 * half) {
                const int j = i + half;
                const float x = c * re[j] + s * im[j], y = c * im[j] - s * re[j];
                re[j] = re[i] - x, im[j] = im[i] - y;
                re[i] += x, im[i] += y;
            }
        }
    }
}

void fft_forward(const fft *f, const float samples[FFT_SIZE], float re[FFT_BINS], float im[FFT_BINS])
{
    for (int k = 0; k < PAIRS; ++k) {
        re[k] = samples[2 * k];
        im[k] = samples[2 * k + 1];
    }
    transform(f, re, im);
    re[PAIRS] = re[0], im[PAIRS] = im[0];
    for (int i = 0, j = PAIRS; i <= j; ++i, --j) { /* even samples, and odd ones, apart; both ends at once */
        const float even_re = 0.5f * (re[i] + re[j]), even_im = 0.5f * (im[i] - im[j]);
        const float odd_re = 0.5f * (im[i] + im[j]), odd_im = 0.5f * (re[j] - re[i]);
        const float c = cosine(f, i), s = sine(f, i);
        const float x = c * odd_re + s * odd_im, y = c * odd_im - s * odd_re;
        re[i] = even_re + x, im[i] = even_im + y;
        re[j] = even_re - x, im[j] = y - even_im;
    }
}

void fft_inverse(const fft *f, const float re[FFT_BINS], const float im[FFT_BINS], float samples[FFT_SIZE])
{
    float pairs_re[PAIRS], pairs_im[PAIRS];
    for (int k = 0; k < PAIRS; ++k) {
        const int j = PAIRS - k;
        const float even_re = re[k] + re[j], even_im = im[k] - im[j], x = re[k] - re[j], y = im[k] + im[j];
        const float c = cosine(f, k), s = sine(f, k);
        const float odd_re = c * x - s * y, odd_im = s * x + c * y;
        pairs_re[k] = even_re - odd_im;
        pairs_im[k] = even_im + odd_re;
    }
    transform(f, pairs_im, pairs_re); /* exchanged: the other way round */
    for (int k = 0; k < PAIRS; ++k) {
        samples[2 * k] = pairs_re[k] / (float)FFT_SIZE;
        samples[2 * k + 1] = pairs_im[k] / (float)FFT_SIZE;
    }
}
