/* Takes the noise out of a sound file with speech, 16 ms at a time, as a telephone would.
 *
 *     enhance noisy.wav out.wav [clean.wav]
 *
 * Prints how many times faster than real time that was and, if it knows the clean speech, by how
 * many dB (SI-SDR) the result is nearer to it than the noisy file. The result is not late: the
 * program drops the delay. Exit code 0; 2: a file is bad. */

#include "cannery/subnormals.h"
#include "enhancer.h"
#include "wav.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static enhancer ears;

/* Seconds that all calls take; `out` has room for `count` samples. */
static double process(const float *in, float *out, int32_t count)
{
    const uint64_t mode = cannery_flush_subnormals();
    const clock_t start = clock();
    float noisy[ENHANCER_HOP], speech[ENHANCER_HOP];
    enhancer_init(&ears);
    for (int32_t at = 0; at < count + ENHANCER_HOP; at += ENHANCER_HOP) {
        for (int32_t k = 0; k < ENHANCER_HOP; ++k) { /* silence after the end */
            noisy[k] = at + k < count ? in[at + k] : 0.0f;
        }
        enhancer_next(&ears, noisy, speech);
        for (int32_t k = 0; k < ENHANCER_HOP; ++k) {
            const int32_t place = at - ENHANCER_HOP + k;
            if (place >= 0 && place < count) {
                out[place] = speech[k];
            }
        }
    }
    cannery_restore_subnormals(mode);
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

/* The ratio of the part of `made` that is `clean`, however loud, to the rest, in dB. */
static double si_sdr(const float *made, const float *clean, int32_t count)
{
    double both = 0.0, energy = 1e-30, whole = 0.0, same;
    for (int32_t k = 0; k < count; ++k) {
        both += (double)made[k] * (double)clean[k];
        energy += (double)clean[k] * (double)clean[k];
        whole += (double)made[k] * (double)made[k];
    }
    same = both * both / energy;
    return 10.0 * log10((same + 1e-30) / (whole - same + 1e-30));
}

static int bad_file(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    return 2;
}

static int run(char **paths, int files)
{
    static const char unread[] = "cannot be read, or is not a WAV file of one channel with 16 bits and 16000 Hz";
    float *in = NULL, *clean = NULL, *out = NULL;
    uint32_t rate = 0, clean_rate = ENHANCER_RATE;
    const int32_t count = wav_read(paths[0], &in, &rate);
    int result;
    if (count < 0 || rate != ENHANCER_RATE) {
        result = bad_file(paths[0], unread);
    } else if (files > 2 && (wav_read(paths[2], &clean, &clean_rate) != count || clean_rate != rate)) {
        result = bad_file(paths[2], "cannot be read, or is not as long as the first file");
    } else if (!(out = (float *)malloc((size_t)count * sizeof(float) + 1))) {
        result = bad_file(paths[0], "there is no memory for it");
    } else {
        const double seconds = process(in, out, count);
        printf("%.0f times real time", count / (double)rate / (seconds > 0.0 ? seconds : 1e-6));
        if (clean) {
            printf(", SI-SDR %.1f dB, before %.1f dB", si_sdr(out, clean, count), si_sdr(in, clean, count));
        }
        printf("\n");
        result = wav_write(paths[1], out, count, rate) ? bad_file(paths[1], "cannot be written") : 0;
    }
    free(in);
    free(clean);
    free(out);
    return result;
}

int main(int argc, char **argv)
{
    if (argc == 3 || argc == 4) {
        return run(argv + 1, argc - 1);
    }
    fprintf(stderr, "usage: enhance noisy.wav out.wav [clean.wav]\n");
    return 2;
}
