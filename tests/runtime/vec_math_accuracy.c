/* Measures every function of vec_math.h against the double libm, on all widths
 * of the ISA it is compiled for.
 *
 *   vec_math_accuracy COUNT          that many samples, and all edges
 *   vec_math_accuracy all [NAME]     all 2^32 floats
 *
 * Prints one JSON line per function and width: the largest error in ulp, and the
 * largest ratio of an error to its stated bound (at most 1 is right). Compile with
 * -DVEC_HEADER="..." and, where NEON flushes subnormals, -DFLUSHES_SUBNORMALS.
 */
#include VEC_HEADER
#include "cannery/vec_math.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096 };

static double ref_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double ref_softplus(double x)
{
    return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double ref_elu_1_5(double x)
{
    return x > 0.0 ? x : 1.5 * expm1(x);
}

static double ref_elu_1_0(double x)
{
    return x > 0.0 ? x : expm1(x);
}

/* erfc on the negative side, for the sake of the reference's own accuracy. */
static double ref_gelu_erf(double x)
{
    return x < -40.0 ? -0.0 : 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static double ref_gelu_tanh(double x)
{
    const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    return x < -40.0 ? -0.0 : x / (1.0 + exp(-2.0 * u));
}

static double ref_silu(double x)
{
    return x < -700.0 ? -0.0 : x / (1.0 + exp(-x));
}

static double ref_mish(double x)
{
    return x < -700.0 ? -0.0 : x * tanh(ref_softplus(x));
}

static double ref_softsign(double x)
{
    return isinf(x) ? (x > 0.0 ? 1.0 : -1.0) : x / (1.0 + fabs(x));
}

/* The range of exp_normal. */
static double ref_exp_normal(double x)
{
    return exp(x > 88.0 ? 88.0 : (x < -87.0 ? -87.0 : x));
}

/* The range in which the trick is meant to work. */
static double ref_exp_bounded(double x)
{
    return exp(x > 88.7 ? 88.7 : (x < -87.3 ? -87.3 : x));
}

typedef struct {
    const char *name;
    double (*reference)(double);
    double ulp;      /* bound in ulp, or 0: */
    double absolute; /* |error| <= absolute + relative * |exact| */
    double relative;
} function_t;

/* The table at the top of vec_math.h states the same bounds. */
#define FUNCTIONS(X, L)                                                                            \
    X(L, exp, exp, 1.5, 0.0, 0.0)                                                                  \
    X(L, exp_normal_87, ref_exp_normal, 1.5, 0.0, 0.0)                                             \
    X(L, expm1, expm1, 2.0, 0.0, 0.0)                                                              \
    X(L, log, log, 1.5, 0.0, 0.0)                                                                  \
    X(L, log1p, log1p, 2.0, 0.0, 0.0)                                                              \
    X(L, tanh, tanh, 6.0, 0.0, 0.0)                                                                \
    X(L, sigmoid, ref_sigmoid, 3.0, 0.0, 0.0)                                                      \
    X(L, erf, erf, 2.0, 0.0, 0.0)                                                                  \
    X(L, softplus, ref_softplus, 0.0, 5e-38, 2.5e-7)                                               \
    X(L, elu_1_5, ref_elu_1_5, 0.0, 5e-38, 2e-7)                                                   \
    X(L, elu_1_0, ref_elu_1_0, 0.0, 5e-38, 2e-7)                                                   \
    X(L, gelu_erf, ref_gelu_erf, 0.0, 3e-8, 5e-7)                                                  \
    X(L, gelu_tanh, ref_gelu_tanh, 0.0, 5e-8, 3e-7)                                                \
    X(L, silu, ref_silu, 0.0, 2e-36, 3e-7)                                                         \
    X(L, mish, ref_mish, 0.0, 2e-36, 4e-7)                                                         \
    X(L, softsign, ref_softsign, 0.0, 5e-38, 1.5e-7)                                               \
    X(L, tanh_rational, tanh, 0.0, 5.2e-5, 0.0)                                                    \
    X(L, sigmoid_rational, ref_sigmoid, 0.0, 2.6e-5, 0.0)                                          \
    X(L, exp_schraudolph, ref_exp_bounded, 0.0, 0.0, 3e-2)                                         \
    X(L, tanh_table, tanh, 0.0, 1.4e-6, 0.0)

#define ROW(L, name, reference, ulp, absolute, relative)                                           \
    {#name, reference, ulp, absolute, relative},
static const function_t functions[] = {FUNCTIONS(ROW, _)};
enum { FUNCTION_COUNT = sizeof functions / sizeof functions[0] };

#define NUMBER(L, name, reference, ulp, absolute, relative) FN_##name,
enum { FUNCTIONS(NUMBER, _) FN_END };

#define CASE(L, name, reference, ulp, absolute, relative)                                          \
    case FN_##name:                                                                                \
        for (i = 0; i < CHUNK; i += L) {                                                           \
            f32x##L##_store(y + i, f32x##L##_##name(f32x##L##_load(x + i)));                       \
        }                                                                                          \
        break;

#define EVALUATE(L)                                                                                \
    static inline f32x##L f32x##L##_elu_1_5(f32x##L x)                                             \
    {                                                                                              \
        return f32x##L##_elu(x, 1.5f);                                                             \
    }                                                                                              \
    static inline f32x##L f32x##L##_elu_1_0(f32x##L x)                                             \
    {                                                                                              \
        return f32x##L##_elu(x, 1.0f);                                                             \
    }                                                                                              \
    static inline f32x##L f32x##L##_exp_normal_87(f32x##L x)                                       \
    {                                                                                              \
        const f32x##L least = f32x##L##_max(f32x##L##_set1(-87.0f), x);                            \
        return f32x##L##_exp_normal(f32x##L##_min(f32x##L##_set1(88.0f), least));                  \
    }                                                                                              \
    static void evaluate_##L(int function, const float *x, float *y)                               \
    {                                                                                              \
        int i;                                                                                     \
        switch (function) {                                                                        \
            FUNCTIONS(CASE, L)                                                                     \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }

typedef struct {
    int lanes;
    void (*evaluate)(int function, const float *x, float *y);
} width_t;

EVALUATE(1)
#ifdef CANNERY_VEC_MATH_F32X4
EVALUATE(4)
#endif
#ifdef CANNERY_VEC_MATH_F32X8
EVALUATE(8)
#endif
#ifdef CANNERY_VEC_MATH_F32X16
EVALUATE(16)
#endif

static const width_t widths[] = {
    {1, evaluate_1},
#ifdef CANNERY_VEC_MATH_F32X4
    {4, evaluate_4},
#endif
#ifdef CANNERY_VEC_MATH_F32X8
    {8, evaluate_8},
#endif
#ifdef CANNERY_VEC_MATH_F32X16
    {16, evaluate_16},
#endif
};
enum { WIDTH_COUNT = sizeof widths / sizeof widths[0] };

typedef struct {
    double ulp, ulp_at;
    double ratio, ratio_at;
    double absolute, absolute_at;
    long wrong; /* NaN, infinity or sign not as it must be */
    double wrong_at;
} worst_t;

/* Distance of adjacent floats around v; of the subnormal ones below 2^-126. */
static double ulp_of(double v)
{
    int e;
    if (fabs(v) < (double)FLT_MIN) {
        return ldexp(1.0, -149);
    }
    (void)frexp(v, &e);
    return ldexp(1.0, e - 24);
}

static double error_of(double exact, float got)
{
    /* An overflow is right from half an ulp beyond the largest float. */
    const double limit = ldexp(1.0, 128);
    double y = (double)got;
    if (isinf(y)) {
        y = y > 0.0 ? limit : -limit;
    }
    if (fabs(exact) > limit) {
        exact = exact > 0.0 ? limit : -limit;
    }
    return fabs(y - exact);
}

static int is_wrong(double exact, float got)
{
    if (isnan(exact) || isnan(got)) {
        return isnan(exact) != isnan(got);
    }
    if (isinf(exact)) {
        return (double)got != exact;
    }
    return got != 0.0f && exact != 0.0 && (got < 0.0f) != (exact < 0.0);
}

/* Where subnormals are flushed, x may count as zero, and an error of a few 2^-126
 * arises whatever the function. */
static int is_flushed(const function_t *f, float x, double exact, float got)
{
#ifdef FLUSHES_SUBNORMALS
    const double tolerance = 4.0 * (double)FLT_MIN;
    const double zero = x < 0.0f ? -0.0 : 0.0;
    if (!is_wrong(exact, got) && error_of(exact, got) <= tolerance) {
        return 1;
    }
    if (fabsf(x) >= FLT_MIN) {
        return 0;
    }
    exact = f->reference(zero);
    return !is_wrong(exact, got) && (isinf(exact) || error_of(exact, got) <= tolerance);
#else
    (void)f;
    (void)x;
    (void)exact;
    (void)got;
    return 0;
#endif
}

static void keep_larger(double *worst, double *worst_at, double value, double at)
{
    if (value > *worst) {
        *worst = value;
        *worst_at = at;
    }
}

static void judge(const function_t *f, float x, double exact, float got, worst_t *w)
{
    double error, ulp, ratio;
    if (is_flushed(f, x, exact, got)) {
        return;
    }
    if (is_wrong(exact, got) || (exact == 0.0 && x == 0.0f && !signbit(exact) != !signbit(got))) {
        w->wrong += 1;
        w->wrong_at = (double)x;
        return;
    }
    if (isnan(exact) || isinf(exact)) {
        return;
    }
    error = error_of(exact, got);
    ulp = error / ulp_of(exact);
    ratio = f->ulp > 0.0 ? ulp / f->ulp : error / (f->absolute + f->relative * fabs(exact));
    keep_larger(&w->ulp, &w->ulp_at, ulp, (double)x);
    keep_larger(&w->ratio, &w->ratio_at, ratio, (double)x);
    keep_larger(&w->absolute, &w->absolute_at, error, (double)x);
}

static void merge(worst_t *into, const worst_t *w)
{
    keep_larger(&into->ulp, &into->ulp_at, w->ulp, w->ulp_at);
    keep_larger(&into->ratio, &into->ratio_at, w->ratio, w->ratio_at);
    keep_larger(&into->absolute, &into->absolute_at, w->absolute, w->absolute_at);
    if (w->wrong > 0) {
        into->wrong += w->wrong;
        into->wrong_at = w->wrong_at;
    }
}

/* Widths mostly agree to the bit: then the verdict on the narrower one holds. */
static void measure_chunk(int function, const float *x, worst_t *worst)
{
    static double exact[CHUNK];
    static float y[WIDTH_COUNT][CHUNK];
    const function_t *f = &functions[function];
    worst_t here;
    int i, k;
    for (i = 0; i < CHUNK; ++i) {
        exact[i] = f->reference((double)x[i]);
    }
    for (k = 0; k < WIDTH_COUNT; ++k) {
        widths[k].evaluate(function, x, y[k]);
        if (k == 0 || memcmp(y[k], y[k - 1], sizeof y[k]) != 0) {
            memset(&here, 0, sizeof here);
            for (i = 0; i < CHUNK; ++i) {
                judge(f, x[i], exact[i], y[k][i], &here);
            }
        }
        merge(&worst[k], &here);
    }
}

static float from_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Sixty-four neighbours of each: ends of the formats, and where the functions
 * change their behaviour. */
static const float edges[] = {
    0.0f,        1.17549435e-38f, 3.40282347e38f, 1.0f,        0.5f,        0.346573590f,
    0.693147181f, 0.707106781f,   1.41421356f,    2.0f,        3.93f,       5.697f,
    8.0f,        9.05f,           10.0f,          11.394f,     17.3286795f, 20.0f,
    30.0f,       87.3f,           87.3365448f,    88.0f,       88.3762626f, 88.7f,
    88.7228391f, 89.0f,           103.278929f,    103.972077f, 104.0f,      110.0f,
    8388608.0f,  1073741824.0f,
};
enum { EDGE_COUNT = sizeof edges / sizeof edges[0] };

static float edge_sample(int i)
{
    const float edge = edges[(i / 64) % EDGE_COUNT];
    const uint32_t sign = i / 64 / EDGE_COUNT % 2 ? 0x80000000u : 0u;
    uint32_t bits;
    memcpy(&bits, &edge, sizeof bits);
    if (i % 64 == 0) {
        return from_bits(sign | 0x7f800000u);
    }
    if (i % 64 == 1) {
        return from_bits(sign | 0x7fc00000u);
    }
    bits += (uint32_t)(i % 64) - 33u; /* 0 - 1 becomes a NaN: welcome */
    return from_bits(bits ^ sign);
}

/* A third over all bit patterns, two thirds where the functions live. */
static float sample(uint32_t *state, long i)
{
    double unit;
    *state = *state * 1664525u + 1013904223u;
    unit = (double)*state / 4294967296.0 * 2.0 - 1.0;
    switch (i % 3) {
    case 0:
        return from_bits(*state);
    case 1:
        return (float)(unit * 110.0);
    default:
        return (float)(unit * 10.0);
    }
}

static void report(int function, const worst_t *worst)
{
    const function_t *f = &functions[function];
    int k;
    for (k = 0; k < WIDTH_COUNT; ++k) {
        const worst_t *w = &worst[k];
        printf("{\"function\": \"%s\", \"lanes\": %d, ", f->name, widths[k].lanes);
        printf("\"bound_ulp\": %g, \"bound_absolute\": %g, \"bound_relative\": %g, ", f->ulp,
               f->absolute, f->relative);
        printf("\"ulp\": %.3f, \"ulp_at\": \"%a\", ", w->ulp, w->ulp_at);
        printf("\"ratio\": %.4f, \"ratio_at\": \"%a\", ", w->ratio, w->ratio_at);
        printf("\"absolute\": %.3g, \"absolute_at\": \"%a\", ", w->absolute, w->absolute_at);
        printf("\"wrong\": %ld, \"wrong_at\": \"%a\"}\n", w->wrong, w->wrong_at);
    }
    fflush(stdout);
}

static void measure_sampled(int function, long count)
{
    static float x[CHUNK];
    worst_t worst[WIDTH_COUNT];
    uint32_t state = 1u;
    long done;
    int i;
    memset(worst, 0, sizeof worst);
    for (i = 0; i < CHUNK; ++i) {
        x[i] = edge_sample(i);
    }
    measure_chunk(function, x, worst);
    for (done = 0; done < count; done += CHUNK) {
        for (i = 0; i < CHUNK; ++i) {
            x[i] = sample(&state, done + i);
        }
        measure_chunk(function, x, worst);
    }
    report(function, worst);
}

static void measure_all(int function)
{
    static float x[CHUNK];
    worst_t worst[WIDTH_COUNT];
    uint32_t chunk;
    int i;
    memset(worst, 0, sizeof worst);
    for (chunk = 0; chunk < 0x100000u; ++chunk) {
        for (i = 0; i < CHUNK; ++i) {
            x[i] = from_bits(chunk << 12 | (uint32_t)i);
        }
        measure_chunk(function, x, worst);
    }
    report(function, worst);
}

int main(int argc, char **argv)
{
    const int all = argc > 1 && strcmp(argv[1], "all") == 0;
    const long count = all || argc < 2 ? 0 : atol(argv[1]);
    int function;
    for (function = 0; function < FUNCTION_COUNT; ++function) {
        if (argc > 2 && strcmp(argv[2], functions[function].name) != 0) {
            continue;
        }
        if (all) {
            measure_all(function);
        } else {
            measure_sampled(function, count);
        }
    }
    return 0;
}
