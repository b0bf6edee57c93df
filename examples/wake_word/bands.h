/* What a network hears of sound: the loudness of 32 bands, 50 times a second. */
#ifndef BANDS_H
#define BANDS_H

#include "fft.h"

/* Samples per second, and between two results; results. */
enum { BANDS_RATE = 16000, BANDS_HOP = 320, BANDS_COUNT = 32 };

typedef struct bands {
    fft transform;
    float place[FFT_BINS]; /* where each frequency is, in bands */
    float past[FFT_SIZE];  /* the last samples */
} bands;

/* Makes the tables, and begins with silence. */
void bands_init(bands *b);

/* Takes the next samples, from -1 to 1; fills `loudness`, from about -2 for silence to 2. */
void bands_next(bands *b, const float samples[BANDS_HOP], float loudness[BANDS_COUNT]);

#endif
