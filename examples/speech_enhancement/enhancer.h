/* Speech without the noise, as it comes. */
#ifndef ENHANCER_H
#define ENHANCER_H

#include "denoise.h"
#include "fft.h"

/* Samples per second, and of a call: 16 ms. */
enum { ENHANCER_RATE = 16000, ENHANCER_HOP = FFT_SIZE / 2 };

typedef struct enhancer {
    fft transform;
    float window[FFT_SIZE];    /* the root of Hann's: once before the transform, once after */
    float past[FFT_SIZE];      /* the last samples that came in */
    float tail[ENHANCER_HOP];  /* what the last call has of the next result */
    double state[DENOISE_STATE_BYTES / 8];
} enhancer;

void enhancer_init(enhancer *e);

/* Takes the next samples, from -1 to 1, and gives as many, which are one call (256 samples) late. */
void enhancer_next(enhancer *e, const float noisy[ENHANCER_HOP], float speech[ENHANCER_HOP]);

#endif
