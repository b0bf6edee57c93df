/* Times ways to run one ensemble of trees, one sample at a time, in turns.
 *
 * `ways.h` declares them: struct way { name; void (*run)(const float *, const double *, float *); }.
 * Samples differ from call to call, so that a processor cannot learn the branches of one of them.
 * Prints for each way the median nanoseconds of a call over all rounds.
 */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ways.h"

enum { ROUNDS = 41 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float singles[SAMPLES][FEATURES], outputs[OUTPUTS];
static double doubles[SAMPLES][FEATURES];

int main(int argc, char **argv)
{
    static double times[WAYS][ROUNDS];
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : 0;
    if (!file || fread(singles, sizeof singles, 1, file) != 1) {
        fprintf(stderr, "usage: forests SAMPLES\n");
        return 2;
    }
    fclose(file);
    for (int i = 0; i < SAMPLES; ++i) {
        for (int k = 0; k < FEATURES; ++k) {
            doubles[i][k] = singles[i][k];
        }
    }
    for (int r = -1; r < ROUNDS; ++r) {
        for (int w = 0; w < WAYS; ++w) {
            const double start = seconds();
            for (int i = 0; i < SAMPLES; ++i) {
                ways[w].run(singles[i], doubles[i], outputs);
            }
            if (r >= 0) {
                times[w][r] = 1e9 * (seconds() - start) / SAMPLES;
            }
        }
    }
    for (int w = 0; w < WAYS; ++w) {
        ways[w].run(singles[0], doubles[0], outputs);
        qsort(times[w], ROUNDS, sizeof times[w][0], ascending);
        printf("%s %.1f %.7g\n", ways[w].name, times[w][ROUNDS / 2], (double)outputs[OUTPUTS - 1]);
    }
    return 0;
}
