/* What this core does per cycle with vectors of one width, and what its caches give: one JSON object.
 *
 *   figures NEAR_BYTES THIRD_BYTES FAR_BYTES    what fits the second level, the third, neither
 *
 * FIGURES_VEC is the vocabulary's prefix (f32x8), FIGURES_HEADER its header, FIGURES_LANES its width.
 * A cycle is the time of an addition that waits for the one before. Each figure is the best of many
 * passes: others may use the machine. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include FIGURES_HEADER
#include "machine.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define T FIGURES_VEC
#define WORD(name) JOIN(FIGURES_VEC, name)

#if defined(__AVX512F__)
#define OPAQUE(v) __asm__ volatile("" : "+v"(v))
#elif defined(__SSE2__)
#define OPAQUE(v) __asm__ volatile("" : "+x"(v))
#else
#define OPAQUE(v) __asm__ volatile("" : "+w"(v))
#endif

#if defined(__i386__)
#define SUMS(X) X(0) X(1) X(2) X(3) X(4) X(5)
enum { COUNT = 6 };
#else
#define SUMS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
enum { COUNT = 12 };
#endif

enum { PASSES = 2000, LINES = 64 * 1024 * 1024 / 4 };

static float *memory;
static volatile float sink;
static float x_value = 0.999f, y_value = 0.001f;

#define DECLARE(k) T a##k = WORD(_set1)((float)k);
#define JOINED(k) x = WORD(_add)(x, a##k);
#define FINISH SUMS(JOINED) sink = WORD(_hsum)(x);
#define START                                                                                        \
    T x = WORD(_set1)(x_value), y = WORD(_set1)(y_value);                                            \
    SUMS(DECLARE)                                                                                    \
    OPAQUE(x);                                                                                       \
    OPAQUE(y);

/* Each function does COUNT things of a kind PASSES times. */
static void cycle(void)
{
    intptr_t sum = (intptr_t)memory;
    for (int i = 0; i < PASSES; ++i) {
#define STEP(k)                                                                                      \
    sum += 3;                                                                                        \
    __asm__ volatile("" : "+r"(sum));
        SUMS(STEP)
#undef STEP
    }
    sink = (float)sum;
}

static void macs(void)
{
    START
    for (int i = 0; i < PASSES; ++i) {
#define STEP(k)                                                                                      \
    {                                                                                                \
        T m = x;                                                                                     \
        OPAQUE(m);                                                                                   \
        a##k = WORD(_fma)(m, y, a##k);                                                               \
    }
        SUMS(STEP)
#undef STEP
    }
    FINISH
}

static void latency(void)
{
    START
    for (int i = 0; i < PASSES; ++i) {
#define STEP(k)                                                                                      \
    a0 = WORD(_fma)(x, y, a0);                                                                       \
    OPAQUE(a0);
        SUMS(STEP)
#undef STEP
    }
    FINISH
}

/* Multiplications and additions that are not joined, in turn. */
static void arithmetic(void)
{
    START
    for (int i = 0; i < PASSES; ++i) {
#define STEP(k)                                                                                      \
    if (k % 2)                                                                                       \
        a##k = WORD(_add)(a##k, y);                                                                  \
    else                                                                                             \
        a##k = WORD(_mul)(a##k, x);                                                                  \
    OPAQUE(a##k);
        SUMS(STEP)
#undef STEP
    }
    FINISH
}

static inline void loads_from(const float *first)
{
    START
    for (int i = 0; i < PASSES; ++i) {
        const float *p = first + i % 4 * 512;
        __asm__ volatile("" : "+r"(p));
#define STEP(k)                                                                                      \
    a##k = WORD(_load)(p + k * FIGURES_LANES);                                                       \
    OPAQUE(a##k);
        SUMS(STEP)
#undef STEP
    }
    FINISH
}

static void loads(void)
{
    loads_from(memory);
}

/* From addresses that are no multiples of a vector. */
static void unaligned(void)
{
    loads_from(memory + 1);
}

static void stores(void)
{
    START
    for (int i = 0; i < PASSES; ++i) {
        float *p = memory + i % 4 * 512;
        __asm__ volatile("" : "+r"(p)::"memory");
#define STEP(k) WORD(_store)(p + k * FIGURES_LANES, a##k);
        SUMS(STEP)
#undef STEP
    }
    FINISH
}

/* Additions of vectors and of integers and loads of these, in turn: of each kind so few that what
 * limits them together is how many instructions start. */
static void issue(void)
{
    START
    intptr_t n0 = (intptr_t)memory, n1 = n0, n2 = n0, n3 = n0;
    const volatile int *const p = (const volatile int *)memory;
    for (int i = 0; i < PASSES; ++i) {
#define STEP(k)                                                                                      \
    a##k = WORD(_add)(a##k, y);                                                                      \
    OPAQUE(a##k);                                                                                    \
    if (k % 2)                                                                                       \
        (void)p[k];                                                                                  \
    if (k % 3 == 0) {                                                                                \
        n0 += 3;                                                                                     \
        n1 += 5;                                                                                     \
        __asm__ volatile("" : "+r"(n0), "+r"(n1));                                                   \
    } else if (k % 3 == 1) {                                                                         \
        n2 += 7;                                                                                     \
        n3 += 9;                                                                                     \
        __asm__ volatile("" : "+r"(n2), "+r"(n3));                                                   \
    }
        SUMS(STEP)
#undef STEP
    }
    sink = (float)(n0 + n1 + n2 + n3);
    FINISH
}

/* Instructions of a pass of `issue` for each sum; the loop's own are two. */
static double issued(void)
{
    double count = 2;
    for (int k = 0; k < COUNT; ++k)
        count += 1 + k % 2 + (k % 3 == 2 ? 0 : 2);
    return count / COUNT;
}

static size_t read_bytes;

static void reading(void)
{
    T x = WORD(_zero)(), a0 = x, a1 = x, a2 = x, a3 = x;
    const float *const end = memory + read_bytes / 4;
    for (const float *p = memory; p + 4 * FIGURES_LANES <= end; p += 4 * FIGURES_LANES) {
        a0 = WORD(_add)(a0, WORD(_load)(p));
        a1 = WORD(_add)(a1, WORD(_load)(p + FIGURES_LANES));
        a2 = WORD(_add)(a2, WORD(_load)(p + 2 * FIGURES_LANES));
        a3 = WORD(_add)(a3, WORD(_load)(p + 3 * FIGURES_LANES));
    }
    sink = WORD(_hsum)(WORD(_add)(WORD(_add)(a0, a1), WORD(_add)(a2, a3)));
}

/* Follows a path through lines in an order that no prefetcher knows. */
static void waiting(void)
{
    void **p = (void **)memory;
    for (int i = 0; i < PASSES; ++i) {
#define STEP(k) p = (void **)*p;
        SUMS(STEP)
#undef STEP
    }
    sink = (float)(intptr_t)p;
}

/* A path through all lines of so many bytes. */
static void lay_path(size_t bytes)
{
    const size_t lines = bytes / 64, step = lines / 8 * 5 + 1; /* coprime to a power of two */
    size_t at = 0;
    for (size_t k = 0; k < lines; ++k) {
        const size_t next = (at + step) % lines;
        memcpy((char *)memory + at * 64, &(void *){ (char *)memory + next * 64 }, sizeof(void *));
        at = next;
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of a call: of all in order, that of this rank. */
static double timed(void (*work)(void), int calls, int rank)
{
    enum { MOST = 64 };
    double found[MOST];
    work();
    for (int k = 0; k < calls; ++k) {
        const double start = seconds();
        work();
        found[k] = seconds() - start;
    }
    qsort(found, (size_t)calls, sizeof *found, by_size);
    return found[rank];
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*work)(void);
    } kinds[] = {
        { "macs", macs },   { "arithmetic", arithmetic }, { "loads", loads },
        { "stores", stores }, { "unaligned", unaligned },
    };
    double one;
    if (argc != 4)
        return 2;
    memory = aligned_alloc(64, (size_t)LINES * 4);
    if (!memory)
        return 1;
    memset(memory, 0, (size_t)LINES * 4);
    stay_on_one_core();
    one = timed(cycle, 64, 0) / PASSES / COUNT;
    printf("{\"ghz\": %.4g, \"latency\": %.4g", 1e-9 / one,
           timed(latency, 64, 0) / PASSES / COUNT / one);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k)
        printf(", \"%s\": %.4g", kinds[k].name, one / (timed(kinds[k].work, 64, 0) / PASSES / COUNT));
    printf(", \"issue\": %.4g, \"reads\": [", issued() * one / (timed(issue, 64, 0) / PASSES / COUNT));
    for (int k = 1; k < 4; ++k) {
        read_bytes = (size_t)atol(argv[k]);
        printf("%s%.4g", k > 1 ? ", " : "",
               (double)read_bytes * one / timed(reading, k == 3 ? 16 : 64, k == 3 ? 8 : 16));
    }
    lay_path((size_t)atol(argv[1]));
    printf("], \"l2_latency\": %.4g}\n", timed(waiting, 64, 16) / PASSES / COUNT / one);
    return 0;
}
