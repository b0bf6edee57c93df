/* Checks every word of the vector vocabulary, on all widths of the ISA that this is
 * compiled for, against plain C. Memory words work next to inaccessible pages.
 *
 * Compile with -DVEC_HEADER="...", where vectors flush subnormals with -DFLUSHES_SUBNORMALS, and
 * where there is no mmap with -DNO_PAGES. Prints the failures; the exit code tells. */
#define _DEFAULT_SOURCE /* mmap's MAP_ANONYMOUS */

#include VEC_HEADER
#include "cannery/vec_fixed.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#if !defined(NO_PAGES)
#include <sys/mman.h>
#include <unistd.h>
#endif

#define CANNERY_PASTE_(a, lanes, b, c) a##lanes##b##c
#define CANNERY_PASTE(a, lanes, b, c) CANNERY_PASTE_(a, lanes, b, c)

static long failures = 0;

static int32_t bits_of(float v)
{
    int32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* The same bits; any NaN will do for a NaN. */
static void expect_float(const char *word, int lanes, int lane, float got, float expected)
{
    if ((isnan(got) && isnan(expected)) || bits_of(got) == bits_of(expected)) {
        return;
    }
    if (++failures <= 20) {
        printf("f32x%d %s, lane %d: got %a, expected %a\n", lanes, word, lane, (double)got,
               (double)expected);
    }
}

static void expect_int(const char *word, int lanes, int lane, int32_t got, int32_t expected)
{
    if (got != expected && ++failures <= 20) {
        printf("x%d %s, lane %d: got %ld, expected %ld\n", lanes, word, lane, (long)got,
               (long)expected);
    }
}

static int32_t held(int32_t k, int32_t low, int32_t high)
{
    return k < low ? low : k > high ? high : k;
}

/* Halves away from zero, without libm's round. */
static double round_away(double v)
{
    const double size = floor(fabs(v)), rest = fabs(v) - size;
    return (v < 0.0 ? -1.0 : 1.0) * (rest < 0.5 ? size : size + 1.0);
}

static void expect_reciprocal(int lanes, float x, float got)
{
    const double exact = 1.0 / (double)x;
    const double size = fabs(exact);
    if (!(fabsf(x) >= FLT_MIN) || !(size >= (double)FLT_MIN) || !(size <= (double)FLT_MAX)) {
        return;
    }
    if (!(fabs((double)got - exact) <= 4.0 * size * (double)FLT_EPSILON / 2.0)) {
        if (++failures <= 20) {
            printf("f32x%d recip_fast(%a): got %a\n", lanes, (double)x, (double)got);
        }
    }
}

/* ---- memory between inaccessible pages --------------------------------- */

static void *fenced[3];
static int fenced_count = 0;

#if defined(NO_PAGES)
/* A board without memory protection: what words store beyond a block is found when it is released. */
#define FENCE 64
static size_t fenced_bytes[3];

static void *guarded(size_t bytes, int at_end)
{
    unsigned char *base = (unsigned char *)malloc(bytes + 2 * FENCE);
    if (!base) {
        exit(2);
    }
    (void)at_end;
    memset(base, 0xa5, bytes + 2 * FENCE);
    memset(base + FENCE, 0, bytes);
    fenced_bytes[fenced_count] = bytes;
    fenced[fenced_count++] = base;
    return base + FENCE;
}

static void release_guarded(void)
{
    while (fenced_count > 0) {
        unsigned char *base = (unsigned char *)fenced[--fenced_count];
        const size_t end = FENCE + fenced_bytes[fenced_count];
        size_t i;
        for (i = 0; i < FENCE; ++i) {
            expect_int("beyond a block", 1, (int)i, base[i], 0xa5);
            expect_int("beyond a block", 1, (int)i, base[end + i], 0xa5);
        }
        free(base);
    }
}
#else
static void *guarded(size_t bytes, int at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *base = (char *)mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == (char *)MAP_FAILED || mprotect(base + page, page, PROT_READ | PROT_WRITE) != 0) {
        perror("mmap");
        exit(2);
    }
    fenced[fenced_count++] = base;
    return base + page + (at_end ? page - bytes : 0);
}

static void release_guarded(void)
{
    while (fenced_count > 0) {
        (void)munmap(fenced[--fenced_count], 3 * (size_t)sysconf(_SC_PAGESIZE));
    }
}
#endif

static float *guarded_floats(int count, int at_end)
{
    return (float *)guarded((size_t)count * sizeof(float), at_end);
}

static uint8_t *guarded_bytes(int count, int at_end)
{
    return (uint8_t *)guarded((size_t)count, at_end);
}

/* ---- plain C counterparts ---------------------------------------------- */

static int32_t wrap(uint32_t v)
{
    int32_t k;
    memcpy(&k, &v, sizeof k);
    return k;
}

static int32_t shifted_right(int32_t v, int bits)
{
    const int64_t divisor = (int64_t)1 << bits;
    return (int32_t)((v - (v % divisor + divisor) % divisor) / divisor);
}

static int fits_i32(float v)
{
    return v >= -2147483648.0f && v < 2147483648.0f;
}

static int32_t saturated(float v, float low, float high)
{
    const float x = isnan(v) ? 0.0f : (v < low ? low : (v > high ? high : v));
    return (int32_t)nearbyintf(x);
}

/* volatile: rounded on the spot, neither contracted nor folded. */
static float plus(float a, float b)
{
    volatile float r = a + b;
    return r;
}

static float times(float a, float b)
{
    volatile float r = a * b;
    return r;
}

static float quotient(float a, float b)
{
    volatile float r = a / b;
    return r;
}

static float multiply_add(float a, float b, float c)
{
#ifdef CANNERY_HAS_FMA
    return fmaf(a, b, c);
#else
    return plus(times(a, b), c);
#endif
}

/* NEON propagates NaN and orders the zeros, but only in its four lanes. */
static int is_neon(int lanes)
{
#ifdef __ARM_NEON
    return lanes == 4;
#else
    (void)lanes;
    return 0;
#endif
}

static float smaller(float a, float b, int lanes)
{
    if (is_neon(lanes) && (isnan(a) || isnan(b))) {
        return NAN;
    }
    if (is_neon(lanes) && a == b) {
        return signbit(a) ? a : b;
    }
    return a < b ? a : b;
}

static float larger(float a, float b, int lanes)
{
    if (is_neon(lanes) && (isnan(a) || isnan(b))) {
        return NAN;
    }
    if (is_neon(lanes) && a == b) {
        return signbit(a) ? b : a;
    }
    return a > b ? a : b;
}

/* A finite float16 by its definition, IEEE 754. */
static float half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return (float)(bits & 0x8000 ? -size : size);
}

/* ---- inputs ------------------------------------------------------------ */

static const float edges[] = {
    0.0f,         -0.0f,         0.25f,          -0.3f,         0.5f,          -0.5f,
    0.49999997f,  -0.50000006f,  1.0f,           -1.0f,         1.5f,          -1.5f,
    2.5f,         -2.5f,         3.7f,           126.5f,        127.5f,        -128.5f,
    254.5f,       255.5f,        256.0f,         -129.0f,       1e4f,          -1e4f,
    4194303.5f,   -4194304.5f,   8388607.5f,     -8388607.5f,   8388608.0f,    8388609.0f,
    -16777216.0f, 2147483520.0f, -2147483648.0f, 2147483648.0f, -4294967296.0f, 1e10f,
    -1e20f,       3.40282347e38f, -3.40282347e38f, 1e-37f,        -1e-30f,   1e30f,
    INFINITY,     -INFINITY,     NAN,            -NAN,          1.17549435e-38f, 1e-40f,
    -1.4e-45f,
};
enum { EDGE_COUNT = sizeof edges / sizeof edges[0], TINY_COUNT = 3 };

/* Without the last, tiny ones where the vectors flush subnormals. */
static float edge(int i, int lanes)
{
    int count = EDGE_COUNT;
#ifdef FLUSHES_SUBNORMALS
    count -= lanes > 1 ? TINY_COUNT : 0;
#else
    (void)lanes;
#endif
    return edges[i % count];
}

/* Magnitudes around 1, 2^23 or 2^31, by turns; products are never subnormal. */
static float random_float(uint32_t *state, int turn)
{
    const double scales[] = {1.0, 10.0, 1e7, 2.5e9};
    *state = *state * 1664525u + 1013904223u;
    return (float)(((double)*state / 2147483648.0 - 1.0) * scales[turn % 4] + 1e-6);
}

#define LANES 1
#include "vec_words_body.h"
#undef LANES
#ifdef CANNERY_HAS_F32X4
#define LANES 4
#include "vec_words_body.h"
#undef LANES
#endif
#ifdef CANNERY_HAS_F32X8
#define LANES 8
#include "vec_words_body.h"
#undef LANES
#endif
#ifdef CANNERY_HAS_F32X16
#define LANES 16
#include "vec_words_body.h"
#undef LANES
#endif

/* ---- words of one width only ------------------------------------------- */

static void check_sqrt_digits(void)
{
    uint32_t state = 99u;
    int i;
    for (i = 0; i < EDGE_COUNT; ++i) {
        expect_float("sqrt_digits", 1, i, f32x1_sqrt_digits(edges[i]), sqrtf(edges[i]));
    }
    for (i = 0; i < 20000; ++i) {
        float v;
        state = state * 1664525u + 1013904223u;
        memcpy(&v, &state, sizeof v);
        expect_float("sqrt_digits", 1, i, f32x1_sqrt_digits(v), sqrtf(v));
    }
}

#ifdef CANNERY_HAS_F32X4
static void expect_lanes(const char *word, f32x4 got, float v0, float v1, float v2, float v3)
{
    float v[4];
    f32x4_store(v, got);
    expect_float(word, 4, 0, v[0], v0);
    expect_float(word, 4, 1, v[1], v1);
    expect_float(word, 4, 2, v[2], v2);
    expect_float(word, 4, 3, v[3], v3);
}

static void check_shuffles_4(void)
{
    const float p[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    f32x4 a = f32x4_load(p), b = f32x4_load(p + 4), c = f32x4_load(p + 8), d = f32x4_load(p + 12);
    expect_lanes("rotate1", f32x4_rotate1(a), 2, 3, 4, 1);
    expect_lanes("rotate2", f32x4_rotate2(a), 3, 4, 1, 2);
    expect_lanes("rotate3", f32x4_rotate3(a), 4, 1, 2, 3);
    expect_lanes("slide1", f32x4_slide1(a, b), 2, 3, 4, 5);
    expect_lanes("slide2", f32x4_slide2(a, b), 3, 4, 5, 6);
    expect_lanes("slide3", f32x4_slide3(a, b), 4, 5, 6, 7);
    expect_lanes("lane0", f32x4_lane0(a), 1, 1, 1, 1);
    expect_lanes("lane1", f32x4_lane1(a), 2, 2, 2, 2);
    expect_lanes("lane2", f32x4_lane2(a), 3, 3, 3, 3);
    expect_lanes("lane3", f32x4_lane3(a), 4, 4, 4, 4);
#ifdef CANNERY_HAS_LANE_FMA
    expect_lanes("fma_lane0", f32x4_fma_lane0(a, b, c), 14, 20, 26, 32);
    expect_lanes("fma_lane1", f32x4_fma_lane1(a, b, c), 15, 22, 29, 36);
    expect_lanes("fma_lane2", f32x4_fma_lane2(a, b, c), 16, 24, 32, 40);
    expect_lanes("fma_lane3", f32x4_fma_lane3(a, b, c), 17, 26, 35, 44);
#endif
#ifdef CANNERY_HAS_ORDERED
    expect_lanes("load_ordered", f32x4_load_ordered(p + 1), 2, 3, 4, 5);
    expect_lanes("join_ordered",
                 f32x4_join_ordered(f32x4_load_low_ordered(p + 1), f32x4_load_high_ordered(p + 5)),
                 2, 3, 8, 9);
    expect_lanes("fma_lane0_ordered", f32x4_fma_lane0_ordered(a, b, c), 14, 20, 26, 32);
    expect_lanes("fma_lane1_ordered", f32x4_fma_lane1_ordered(a, b, c), 15, 22, 29, 36);
    expect_lanes("fma_lane2_ordered", f32x4_fma_lane2_ordered(a, b, c), 16, 24, 32, 40);
    expect_lanes("fma_lane3_ordered", f32x4_fma_lane3_ordered(a, b, c), 17, 26, 35, 44);
    expect_lanes("mul_lane0_ordered", f32x4_mul_lane0_ordered(a, b), 5, 10, 15, 20);
    expect_lanes("mul_lane1_ordered", f32x4_mul_lane1_ordered(a, b), 6, 12, 18, 24);
    expect_lanes("mul_lane2_ordered", f32x4_mul_lane2_ordered(a, b), 7, 14, 21, 28);
    expect_lanes("mul_lane3_ordered", f32x4_mul_lane3_ordered(a, b), 8, 16, 24, 32);
    expect_lanes("add_ordered", f32x4_add_ordered(a, b), 6, 8, 10, 12);
    expect_lanes("sub_ordered", f32x4_sub_ordered(a, b), -4, -4, -4, -4);
    expect_lanes("mul_ordered", f32x4_mul_ordered(a, b), 5, 12, 21, 32);
    expect_lanes("max_ordered", f32x4_max_ordered(a, b), 5, 6, 7, 8);
    expect_lanes("min_ordered", f32x4_min_ordered(a, b), 1, 2, 3, 4);
    expect_lanes("fma_ordered", f32x4_fma_ordered(a, b, c), 14, 22, 32, 44);
    expect_lanes("fnma_ordered", f32x4_fnma_ordered(a, b, c), 4, -2, -10, -20);
    {
        const int32_t bits[4] = {-1, 0, 0, -1};
        float stored[6] = {0};
        f32x4_store_ordered(stored + 1, f32x4_mask_ordered(a, i32x4_load(bits)));
        expect_lanes("mask_ordered", f32x4_load(stored + 1), 1, 0, 0, 4);
    }
#endif
    f32x4_transpose4(&a, &b, &c, &d);
    expect_lanes("transpose4", a, 1, 5, 9, 13);
    expect_lanes("transpose4", b, 2, 6, 10, 14);
    expect_lanes("transpose4", c, 3, 7, 11, 15);
    expect_lanes("transpose4", d, 4, 8, 12, 16);
}
#endif

#ifdef CANNERY_HAS_LANE_DOT
/* Group k of what load4 loads is what load1 loads from there, and numbers after n are zeros. */
#define EXPECT_LANE(k)                                                                             \
    do {                                                                                           \
        const q8x4 four = q8x4_load4_n(bytes, n);                                                  \
        const p16x4 two = p16x4_load4_n(words, n / 2);                                             \
        const int at = 4 * k < n ? 4 * k : 0, left = 4 * k < n ? n - at : 0;                       \
        const q8x4 one4 = q8x4_load1_n(bytes + at, left < 4 ? left : 4);                           \
        const p16x4 one2 = p16x4_load1_n(padded + 2 * k, 2);                                       \
        expect_sums("dot4_lane" #k, i32x4_dot4_lane##k(four, qw, acc), i32x4_dot4(one4, qw, acc)); \
        expect_sums("dot4w_lane" #k, i32x4_dot4w_lane##k(four, qw, acc),                           \
                    i32x4_dot4w(one4, qw, acc));                                                   \
        expect_sums("dot_lane" #k, i32x4_dot_lane##k(two, pw, acc), i32x4_dot(one2, pw, acc));     \
        if (n == 16) {                                                                             \
            expect_sums("load4", i32x4_dot4_lane##k(q8x4_load4(bytes), qw, acc),                   \
                        i32x4_dot4(one4, qw, acc));                                                \
            expect_sums("load4", i32x4_dot_lane##k(p16x4_load4(words), pw, acc),                   \
                        i32x4_dot(one2, pw, acc));                                                 \
            EXPECT_ORDERED(k);                                                                     \
        }                                                                                          \
    } while (0)

/* The same by the instructions that it consists of, with vectors that are loaded by halves. */
#if !defined(CANNERY_HAS_ORDERED)
#define EXPECT_ORDERED(k) (void)weights
#elif defined(__ARM_FEATURE_DOTPROD)
#define EXPECT_ORDERED(k)                                                                          \
    expect_sums("dot4_ordered", i32x4_dot4_lane##k##_ordered(halves(bytes), halves(weights), acc), \
                i32x4_dot4(one4, qw, acc))
#else
#define EXPECT_ORDERED(k)                                                                          \
    do {                                                                                           \
        const q8x4 u = halves(bytes), w = halves(weights);                                         \
        const q8x4 first = q8x4_first_two##k##_ordered(u);                                         \
        const q8x4 second = q8x4_second_two##k##_ordered(u);                                       \
        const p16x4 low = p16x4_mul_low_ordered(first, w);                                         \
        const i32x4 some = i32x4_add_pairs_ordered(low, acc);                                      \
        expect_sums("mul_high_ordered",                                                            \
                    i32x4_add_pairs_ordered(p16x4_mul_high_ordered(second, w), some),              \
                    i32x4_dot4w(one4, qw, acc));                                                   \
        expect_sums("mla_high_ordered",                                                            \
                    i32x4_add_pairs_ordered(p16x4_mla_high_ordered(second, w, low), acc),          \
                    i32x4_dot4(one4, qw, acc));                                                    \
    } while (0)
#endif

#ifdef CANNERY_HAS_ORDERED
static q8x4 halves(const int8_t *p)
{
    return q8x4_join_ordered(q8x4_load_low_ordered(p), q8x4_load_high_ordered(p));
}
#endif

static void expect_sums(const char *word, i32x4 got, i32x4 expected)
{
    int32_t a[4], b[4];
    int i;
    i32x4_store(a, got);
    i32x4_store(b, expected);
    for (i = 0; i < 4; ++i) {
        expect_int(word, 4, i, a[i], b[i]);
    }
}

static void check_lane_dots(void)
{
    int8_t weights[16] CANNERY_ALIGN(64);
    int16_t pairs[8] CANNERY_ALIGN(64);
    char *end = (char *)(void *)guarded_floats(4, 1) + 16;
    int n, j;
    for (j = 0; j < 16; ++j) {
        weights[j] = (int8_t)(17 * j - 127);
        pairs[j / 2] = (int16_t)(4001 * j - 32767);
    }
    for (n = 0; n <= 16; ++n) {
        const q8x4 qw = q8x4_load(weights);
        const p16x4 pw = p16x4_load(pairs);
        const i32x4 acc = i32x4_set1(1000 - n);
        const int8_t *bytes = (const int8_t *)(end - n);
        const int16_t *words = (const int16_t *)(const void *)(end - n / 2 * 2);
        int16_t padded[8] = {0};
        for (j = 0; j < n; ++j) {
            end[j - n] = (char)(j % 3 == 0 ? -128 : 31 * j - 90);
        }
        memcpy(padded, words, (size_t)(n / 2) * sizeof *words);
        EXPECT_LANE(0);
        EXPECT_LANE(1);
        EXPECT_LANE(2);
        EXPECT_LANE(3);
    }
    release_guarded();
}
#endif

#ifdef CANNERY_HAS_BYTE_TABLE
/* Every byte, in numbers that vectors divide or not, into other memory and in place. */
static void check_byte_table(void)
{
    static const int counts[] = {0, 1, 15, 16, 17, 256, 270};
    uint8_t *table = guarded_bytes(256, 1), *x = guarded_bytes(270, 1), *y = guarded_bytes(270, 1);
    int i, n, c, same;
    for (i = 0; i < 256; ++i) {
        table[i] = (uint8_t)(167 * i + 13);
    }
    for (c = 0; c < (int)(sizeof counts / sizeof counts[0]); ++c) {
        for (same = 0; same < 2; ++same) {
            n = counts[c];
            for (i = 0; i < 270; ++i) {
                x[i] = (uint8_t)(255 - i);
                y[i] = 77;
            }
            f32x4_bytes_by_table((same ? x : y) + 270 - n, x + 270 - n, n, table);
            for (i = 0; i < 270; ++i) {
                const int wanted = table[(uint8_t)(255 - i)];
                expect_int("bytes_by_table", 4, i, (same ? x : y)[i],
                           i >= 270 - n ? wanted : same ? (uint8_t)(255 - i) : 77);
            }
        }
    }
    release_guarded();
}
#endif

#ifdef CANNERY_HAS_BYTE_PRODUCTS
static void check_byte_products(void)
{
    int8_t *a = (int8_t *)(void *)guarded_floats(2, 1), b[8];
    int32_t low[4], high[4];
    p16x4 sums;
    int j;
    for (j = 0; j < 8; ++j) {
        a[j] = (int8_t)(j % 2 ? -128 : 127 - j);
        b[j] = (int8_t)(j % 3 ? 127 : -127);
    }
    sums = p16x4_mla_bytes(b8x8_flip(b8x8_load(a)), b8x8_load(b),
                           p16x4_mul_bytes(b8x8_load(a), b8x8_load(b)));
    i32x4_store(low, i32x4_add_first(sums, i32x4_set1(70000)));
    i32x4_store(high, i32x4_add_second(sums, i32x4_set1(-70000)));
    for (j = 0; j < 8; ++j) {
        const int flipped = a[j] < 0 ? a[j] + 128 : a[j] - 128;
        expect_int("mla_bytes", 4, j, j < 4 ? low[j] : high[j - 4],
                   (a[j] + flipped) * b[j] + (j < 4 ? 70000 : -70000));
    }
    release_guarded();
}
#endif

#ifdef CANNERY_HAS_MMLA
static void check_matrices(void)
{
    int8_t *end = (int8_t *)(void *)guarded_floats(4, 1) + 16, w[16] CANNERY_ALIGN(64), row[8] = {0};
    int32_t got[4];
    int n, i, j, k;
    for (k = 0; k < 16; ++k) {
        w[k] = (int8_t)(k % 3 ? 19 * k - 128 : -128);
    }
    for (n = 1; n <= 8; ++n) {
        const int8_t *p = end - 8, *q = end - n;
        q8x4 a;
        for (k = 1; k <= 8; ++k) {
            end[-k] = (int8_t)(k % 2 ? -128 : 127 - k);
        }
        a = n == 8 ? q8x4_two_rows(p, row) : q8x4_two_rows_n(p, q, n);
        i32x4_store(got, i32x4_mmla(a, q8x4_load(w), i32x4_set1(n)));
        for (i = 0; i < 2; ++i) {
            for (j = 0; j < 2; ++j) {
                int32_t sum = n;
                for (k = 0; k < n; ++k) {
                    sum += (n == 8 && i ? row : i ? q : p)[k] * w[8 * j + k];
                }
                expect_int("mmla", 4, 2 * i + j, got[2 * i + j], sum);
            }
        }
    }
    {
        const int32_t numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        i32x4 a = i32x4_load(numbers), b = i32x4_load(numbers + 4);
        i32x4_to_rows(&a, &b);
        i32x4_store(got, a);
        for (j = 0; j < 4; ++j) {
            expect_int("to_rows", 4, j, got[j], j < 2 ? 1 + j : 3 + j);
        }
        i32x4_store(got, b);
        for (j = 0; j < 4; ++j) {
            expect_int("to_rows", 4, j, got[j], j < 2 ? 3 + j : 5 + j);
        }
    }
    release_guarded();
}
#endif

#ifdef CANNERY_HAS_F32X8
static void check_shuffles_8(void)
{
    float p[64], v[8];
    f32x8 rows[8];
    int i, j;
    for (i = 0; i < 64; ++i) {
        p[i] = (float)i;
    }
    expect_lanes("f32x8_lo", f32x8_lo(f32x8_load(p)), 0, 1, 2, 3);
    expect_lanes("f32x8_hi", f32x8_hi(f32x8_load(p)), 4, 5, 6, 7);
    f32x8_store(v, f32x8_join(f32x4_load(p + 9), f32x4_load(p + 20)));
    for (i = 0; i < 8; ++i) {
        expect_float("join", 8, i, v[i], i < 4 ? p[9 + i] : p[16 + i]);
    }
    f32x8_store(v, f32x8_broadcast4(p + 3));
    for (i = 0; i < 8; ++i) {
        expect_float("broadcast4", 8, i, v[i], p[3 + i % 4]);
        rows[i] = f32x8_load(p + 8 * i);
    }
    f32x8_store(v, f32x8_broadcast2(p + 3));
    for (i = 0; i < 8; ++i) {
        expect_float("broadcast2", 8, i, v[i], p[3 + i % 2]);
    }
    f32x8_store(v, f32x8_rotate1(f32x8_load(p + 3)));
    for (i = 0; i < 8; ++i) {
        expect_float("rotate1", 8, i, v[i], p[3 + i - i % 4 + (i + 1) % 4]);
    }
    f32x8_store(v, f32x8_rotate2(f32x8_load(p + 3)));
    for (i = 0; i < 8; ++i) {
        expect_float("rotate2", 8, i, v[i], p[3 + i - i % 4 + (i + 2) % 4]);
    }
    f32x8_store(v, f32x8_rotate3(f32x8_load(p + 3)));
    for (i = 0; i < 8; ++i) {
        expect_float("rotate3", 8, i, v[i], p[3 + i - i % 4 + (i + 3) % 4]);
    }
    f32x4_store(v, f32x8_add_pairs(f32x8_load(p + 5)));
    for (i = 0; i < 4; ++i) {
        expect_float("add_pairs", 8, i, v[i], p[5 + 2 * i] + p[6 + 2 * i]);
    }
    f32x8_transpose8(rows);
    for (j = 0; j < 8; ++j) {
        f32x8_store(v, rows[j]);
        for (i = 0; i < 8; ++i) {
            expect_float("transpose8", 8, i, v[i], p[8 * i + j]);
        }
    }
}
#endif

#ifdef CANNERY_HAS_F32X16
static void check_shuffles_16(void)
{
    float p[40], v[16];
    int32_t lanes[16];
    int i;
    for (i = 0; i < 40; ++i) {
        p[i] = (float)i;
    }
    f32x8_store(v, f32x16_lo(f32x16_load(p)));
    f32x8_store(v + 8, f32x16_hi(f32x16_load(p)));
    for (i = 0; i < 16; ++i) {
        expect_float("lo, hi", 16, i, v[i], p[i]);
    }
    f32x16_store(v, f32x16_join(f32x8_load(p + 9), f32x8_load(p + 31)));
    for (i = 0; i < 16; ++i) {
        expect_float("join", 16, i, v[i], i < 8 ? p[9 + i] : p[23 + i]);
    }
    f32x16_store(v, f32x16_broadcast4(p + 3));
    for (i = 0; i < 16; ++i) {
        expect_float("broadcast4", 16, i, v[i], p[3 + i % 4]);
    }
    f32x16_store(v, f32x16_broadcast2(p + 3));
    for (i = 0; i < 16; ++i) {
        expect_float("broadcast2", 16, i, v[i], p[3 + i % 2]);
    }
    f32x16_store(v, f32x16_rotate1(f32x16_load(p + 3)));
    for (i = 0; i < 16; ++i) {
        expect_float("rotate1", 16, i, v[i], p[3 + i - i % 4 + (i + 1) % 4]);
    }
    f32x16_store(v, f32x16_rotate2(f32x16_load(p + 3)));
    for (i = 0; i < 16; ++i) {
        expect_float("rotate2", 16, i, v[i], p[3 + i - i % 4 + (i + 2) % 4]);
    }
    f32x16_store(v, f32x16_rotate3(f32x16_load(p + 3)));
    for (i = 0; i < 16; ++i) {
        expect_float("rotate3", 16, i, v[i], p[3 + i - i % 4 + (i + 3) % 4]);
    }
    for (i = 0; i < 16; ++i) {
        lanes[i] = 7 * i % 32;
    }
    f32x16_store(v, f32x16_pick(f32x16_load(p), f32x16_load(p + 20), i32x16_load(lanes)));
    for (i = 0; i < 16; ++i) {
        expect_float("pick", 16, i, v[i], lanes[i] < 16 ? p[lanes[i]] : p[4 + lanes[i]]);
    }
    f32x8_store(v, f32x16_add_pairs(f32x16_load(p + 5)));
    for (i = 0; i < 8; ++i) {
        expect_float("add_pairs", 16, i, v[i], p[5 + 2 * i] + p[6 + 2 * i]);
    }
}
#endif

int main(void)
{
    check_1_all();
    check_sqrt_digits();
#ifdef CANNERY_HAS_F32X4
    check_4_all();
    check_shuffles_4();
#ifdef CANNERY_HAS_MMLA
    check_matrices();
#endif
#ifdef CANNERY_HAS_BYTE_PRODUCTS
    check_byte_products();
#endif
#ifdef CANNERY_HAS_LANE_DOT
    check_lane_dots();
#endif
#endif
#ifdef CANNERY_HAS_BYTE_TABLE
    check_byte_table();
#endif
#ifdef CANNERY_HAS_F32X8
    check_8_all();
    check_shuffles_8();
#endif
#ifdef CANNERY_HAS_F32X16
    check_16_all();
    check_shuffles_16();
#endif
    printf("%ld failures\n", failures);
    return failures == 0 ? 0 : 1;
}
