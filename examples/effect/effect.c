/* Lets a sound through a network, block by block, as an audio interface would.
 *
 *     effect wavenet|lstm in.wav out.wav [wanted.wav]
 *
 * Prints how many times faster than real time that was and, if it knows what is wanted, the error:
 * energy of the difference, as a part of what is wanted. Exit code 0; 2: a file is bad. */

#include "cannery/subnormals.h"
#include "lstm.h"
#include "wav.h"
#include "wavenet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK = 64 };

typedef struct effect {
    const char *name;
    void *state;
    void (*reset)(void *state);
    int32_t (*steps)(void *state, int32_t n, const float *dry, float *wet);
} effect;

static double wavenet_state[WAVENET_STATE_BYTES / 8], lstm_state[LSTM_STATE_BYTES / 8];

static const effect effects[] = {
    {"wavenet", wavenet_state, wavenet_reset, wavenet_steps},
    {"lstm", lstm_state, lstm_reset, lstm_steps},
};

/* Seconds that all blocks take. */
static double process(const effect *chosen, const float *in, float *out, int32_t count)
{
    const uint64_t mode = cannery_flush_subnormals();
    const clock_t start = clock();
    chosen->reset(chosen->state);
    for (int32_t at = 0; at < count; at += BLOCK) {
        const int32_t n = count - at < BLOCK ? count - at : BLOCK;
        chosen->steps(chosen->state, n, in + at, out + at);
    }
    cannery_restore_subnormals(mode);
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static double error(const float *out, const float *wanted, int32_t count)
{
    double difference = 0.0, energy = 1e-30;
    for (int32_t k = 0; k < count; ++k) {
        const double d = (double)out[k] - (double)wanted[k];
        difference += d * d;
        energy += (double)wanted[k] * (double)wanted[k];
    }
    return difference / energy;
}

static int bad_file(const char *path)
{
    fprintf(stderr, "%s: cannot be read, or is not a WAV file of one channel with 16 bits per sample\n", path);
    return 2;
}

static int run(const effect *chosen, char **paths, int files)
{
    float *in = NULL, *wanted = NULL, *out = NULL;
    uint32_t rate = 0;
    const int32_t count = wav_read(paths[0], &in, &rate);
    int result = 2;
    if (count < 0 || rate == 0) {
        result = bad_file(paths[0]);
    } else if (files > 2 && wav_read(paths[2], &wanted, &rate) != count) {
        fprintf(stderr, "%s: cannot be read, or is not as long as %s\n", paths[2], paths[0]);
    } else if (!(out = (float *)malloc((size_t)count * sizeof(float) + 1))) {
        fprintf(stderr, "%s: there is no memory for %d samples\n", paths[0], (int)count);
    } else {
        const double seconds = process(chosen, in, out, count);
        printf("%s: %.0f times real time", chosen->name, count / (double)rate / (seconds > 0.0 ? seconds : 1e-6));
        if (wanted) {
            printf(", error %.4f", error(out, wanted, count));
        }
        printf("\n");
        result = 0;
        if (wav_write(paths[1], out, count, rate)) {
            fprintf(stderr, "%s: cannot be written\n", paths[1]);
            result = 2;
        }
    }
    free(in);
    free(wanted);
    free(out);
    return result;
}

int main(int argc, char **argv)
{
    for (size_t k = 0; (argc == 4 || argc == 5) && k < sizeof effects / sizeof *effects; ++k) {
        if (!strcmp(argv[1], effects[k].name)) {
            return run(&effects[k], argv + 2, argc - 2);
        }
    }
    fprintf(stderr, "usage: effect wavenet|lstm in.wav out.wav [wanted.wav]\n");
    return 2;
}
