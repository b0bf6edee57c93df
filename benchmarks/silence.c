/* Times a network step by step over noise and the silence after it, as it is and while subnormal
 * numbers are flushed; prints one JSON object: microseconds of a step in each window of steps.
 *
 *   silence SECONDS
 *
 * SILENCE_MODEL is the network. Each sequence is the same; of each window the fastest time counts. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cannery/cannery.h"
#include "cannery/subnormals.h"
#include "machine.h"

extern const cannery_model SILENCE_MODEL;

enum { WINDOW = 64, NOISE = 16, WINDOWS = 160, TENSORS = 16 };

static const cannery_model *const model = &SILENCE_MODEL;
static const void *inputs[TENSORS];
static void *outputs[TENSORS], *noise[TENSORS], *nothing[TENSORS];
static double times[2][WINDOWS];

static void *take(size_t bytes)
{
    void *const memory = calloc(1, bytes + 64);
    if (!memory) {
        exit(3);
    }
    return (char *)memory + (64 - (size_t)memory % 64) % 64;
}

/* Noise, then silence, with the time of each window of steps. */
static void run(void *workspace, void *state, double *fastest)
{
    model->reset(state);
    for (int w = 0; w < WINDOWS; ++w) {
        for (int k = 0; k < model->input_count - model->state_count; ++k) {
            inputs[k] = w < NOISE ? noise[k] : nothing[k];
        }
        const double start = seconds();
        for (int i = 0; i < WINDOW; ++i) {
            model->step(workspace, state, inputs, outputs);
        }
        const double us = (seconds() - start) / WINDOW * 1e6;
        fastest[w] = fastest[w] > 0.0 && fastest[w] < us ? fastest[w] : us;
    }
}

int main(int argc, char **argv)
{
    const double end = seconds() + (argc > 1 ? atof(argv[1]) : 1.0);
    void *const workspace = take(model->workspace_bytes), *const state = take(model->state_bytes);
    unsigned random = 1;
    if (model->input_count > TENSORS || model->output_count > TENSORS || !model->step) {
        return 2;
    }
    stay_on_one_core();
    for (int k = 0; k < model->input_count; ++k) {
        const size_t count = model->inputs[k].bytes / sizeof(float);
        float *const x = (float *)(noise[k] = take(model->inputs[k].bytes));
        nothing[k] = take(model->inputs[k].bytes);
        for (size_t i = 0; i < count; ++i) {
            random = random * 1103515245u + 12345u;
            x[i] = (float)(random >> 8) / 8388608.0f - 1.0f;
        }
    }
    for (int k = 0; k < model->output_count; ++k) {
        outputs[k] = take(model->outputs[k].bytes);
    }
    for (int round = 0; round < 4 || seconds() < end; ++round) {
        run(workspace, state, times[0]);
        const uint64_t mode = cannery_flush_subnormals();
        run(workspace, state, times[1]);
        cannery_restore_subnormals(mode);
    }
    printf("{\"noise\": %d", NOISE);
    for (int k = 0; k < 2; ++k) {
        printf(", \"%s\": [", k ? "flushed" : "as_it_is");
        for (int w = 0; w < WINDOWS; ++w) {
            printf("%s%.6g", w ? ", " : "", times[k][w]);
        }
        printf("]");
    }
    printf("}\n");
    return 0;
}
