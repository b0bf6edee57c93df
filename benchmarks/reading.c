/* Times a network against loops that read the bytes of its weights, in turn; prints one JSON object:
 * microseconds (lower quartiles) of the network and of each width of loads.
 *
 *   reading SECONDS
 *
 * READING_MODEL is the network, READING_BLOB_BYTES the size of its large weights, which are read
 * where they lie (READING_BLOB), READING_REST_BYTES that of all others, which are read in a copy's
 * place. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cannery/cannery.h"
#include "machine.h"

extern const cannery_model READING_MODEL;
#if READING_BLOB_BYTES
extern const float READING_BLOB[];
#endif
static float rest[READING_REST_BYTES / 4 + 256] __attribute__((aligned(64)));

static const cannery_model *const model = &READING_MODEL;
static const void *inputs[16];
static void *outputs[16];
static unsigned char memory[1 << 22] __attribute__((aligned(64)));

static volatile float sink;

/* Adds up all numbers, in eight sums of vectors; those that fill no eight vectors are left out. */
#define READER(BYTES)                                                                                \
    typedef float v##BYTES __attribute__((vector_size(BYTES)));                                      \
    __attribute__((noinline)) static void read##BYTES(const float *from, size_t bytes)               \
    {                                                                                                \
        const v##BYTES *p = (const v##BYTES *)(const void *)from;                                    \
        const v##BYTES *const end = p + bytes / (8 * BYTES) * 8;                                     \
        v##BYTES a = { 0 }, b = a, c = a, d = a, e = a, f = a, g = a, h = a;                         \
        for (; p < end; p += 8) {                                                                    \
            a += p[0];                                                                               \
            b += p[1];                                                                               \
            c += p[2];                                                                               \
            d += p[3];                                                                               \
            e += p[4];                                                                               \
            f += p[5];                                                                               \
            g += p[6];                                                                               \
            h += p[7];                                                                               \
        }                                                                                            \
        a = ((a + b) + (c + d)) + ((e + f) + (g + h));                                               \
        sink = a[0] + a[1];                                                                          \
    }

READER(16)
#if defined(__AVX__)
READER(32)
#endif
#if defined(__AVX512F__)
READER(64)
#endif

static void run_network(void)
{
    model->run(memory, inputs, outputs);
}

#define PASS(BYTES)                                                                                  \
    static void pass##BYTES(void)                                                                    \
    {                                                                                                \
        READ_BLOB(BYTES);                                                                            \
        read##BYTES(rest, READING_REST_BYTES);                                                       \
    }
#if READING_BLOB_BYTES
#define READ_BLOB(BYTES) read##BYTES(READING_BLOB, READING_BLOB_BYTES)
#else
#define READ_BLOB(BYTES) (void)0
#endif

PASS(16)
#if defined(__AVX__)
PASS(32)
#endif
#if defined(__AVX512F__)
PASS(64)
#endif

static const struct {
    const char *name;
    void (*run)(void);
} contestants[] = {
    { "network", run_network },
    { "read16", pass16 },
#if defined(__AVX__)
    { "read32", pass32 },
#endif
#if defined(__AVX512F__)
    { "read64", pass64 },
#endif
};

enum { COUNT = sizeof contestants / sizeof contestants[0], MOST = 20000 };

static double times[COUNT][MOST];

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds of one call, from samples of some tenths of a millisecond. */
static double sample(int k)
{
    enum { CALLS = 32 };
    double start;
    contestants[k].run();
    contestants[k].run();
    start = seconds();
    for (int i = 0; i < CALLS; ++i) {
        contestants[k].run();
    }
    return (seconds() - start) / CALLS * 1e6;
}

int main(int argc, char **argv)
{
    const double end = seconds() + (argc > 1 ? atof(argv[1]) : 1.0);
    int rounds = 0;
    if (model->workspace_bytes > sizeof memory || model->input_count > 16 || model->output_count > 16) {
        return 2;
    }
    stay_on_one_core();
    for (int k = 0; k < model->input_count; ++k) {
        inputs[k] = calloc(1, model->inputs[k].bytes);
    }
    for (int k = 0; k < model->output_count; ++k) {
        outputs[k] = calloc(1, model->outputs[k].bytes);
    }
    for (; rounds < MOST && (rounds < 8 || seconds() < end); ++rounds) {
        for (int k = 0; k < COUNT; ++k) {
            const int turn = rounds % 2 ? COUNT - 1 - k : k;
            times[turn][rounds] = sample(turn);
        }
    }
    for (int k = 0; k < COUNT; ++k) {
        qsort(times[k], (size_t)rounds, sizeof times[k][0], compare);
        printf("%s\"%s\": %.5g", k ? ", " : "{", contestants[k].name, times[k][rounds / 4]);
    }
    printf("}\n");
    return 0;
}
