/* Tells when somebody has said the wake words. */
#ifndef LISTENER_H
#define LISTENER_H

#include "bands.h"
#include "wake.h"

typedef struct listener {
    bands hearing;
    double state[WAKE_STATE_BYTES / 8];
    float likely;  /* probability, evened out over some steps */
    int32_t pause; /* steps for which it does not answer again */
} listener;

void listener_init(listener *l);

/* Takes the next 20 ms of sound, from -1 to 1. Returns 1 if the words have just ended, else 0. */
int listener_hears(listener *l, const float samples[BANDS_HOP]);

#endif
