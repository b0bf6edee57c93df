/* Measures the cells of recurrent layers in vec_math.h against the double libm, on all widths.
 *
 *   vec_cells COUNT
 *
 * Prints one JSON line per function and width: the largest ratio of an error to the stated bound,
 * absolute + relative * |state|, and how many results were no numbers though they should be, or
 * numbers though an argument was none.
 */
#include VEC_HEADER
#include "cannery/vec_math.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double ref_lstm_cell(const float *v)
{
    return sigmoid(v[1]) * v[3] + sigmoid(v[0]) * tanh(v[2]);
}

static double ref_sigmoid_tanh(const float *v)
{
    return sigmoid(v[0]) * tanh(v[1]);
}

static double ref_gru_output(const float *v)
{
    return sigmoid(-(double)v[0]) * tanh(v[1]) + sigmoid(v[0]) * v[2];
}

struct function {
    const char *name;
    int arguments;
    int state; /* argument that may be large, 0 if there is none */
    double absolute, relative;
    double (*reference)(const float *v);
};

static const struct function functions[] = {
    { "lstm_cell", 4, 3, 5e-7, 5e-7, ref_lstm_cell },
    { "sigmoid_tanh", 2, 0, 5e-7, 0.0, ref_sigmoid_tanh },
    { "gru_output", 3, 2, 5e-7, 5e-7, ref_gru_output },
};

static uint32_t seed = 1;

static double uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / 16777216.0;
}

/* Mostly small, sometimes far away, an edge or no number. */
static float sample(int is_state)
{
    static const float edges[] = { 0.0f, -0.0f, 9.05f, -9.05f, 25.0f, -25.0f, 1e-38f, -1e-10f };
    const double u = uniform(), sign = uniform() < 0.5 ? -1.0 : 1.0;
    if (u < 0.1) {
        return edges[(int)(uniform() * 8.0)];
    }
    if (u < 0.11) {
        return NAN;
    }
    if (is_state) {
        return (float)(sign * exp(uniform() * 36.0 - 18.0));
    }
    return u < 0.13 ? (float)(sign * HUGE_VAL) : (float)(sign * exp(uniform() * 12.0 - 7.0));
}

#define MEASURE(lanes)                                                                           \
    static void measure_##lanes(int which, int count)                                            \
    {                                                                                            \
        const struct function *const f = &functions[which];                                     \
        double worst = 0.0;                                                                      \
        int wrong = 0;                                                                           \
        for (int n = 0; n < count; n += lanes) {                                                 \
            float v[4][lanes], y[lanes];                                                         \
            for (int i = 0; i < lanes; ++i) {                                                    \
                for (int k = 0; k < 4; ++k) {                                                    \
                    v[k][i] = sample(f->state && k == f->state);                                 \
                }                                                                                \
            }                                                                                    \
            const f32x##lanes a = f32x##lanes##_load(v[0]), b = f32x##lanes##_load(v[1]);        \
            const f32x##lanes c = f32x##lanes##_load(v[2]), d = f32x##lanes##_load(v[3]);        \
            f32x##lanes##_store(y, which == 0   ? f32x##lanes##_lstm_cell(a, b, c, d)            \
                                   : which == 1 ? f32x##lanes##_sigmoid_tanh(a, b)               \
                                                : f32x##lanes##_gru_output(a, b, c));            \
            for (int i = 0; i < lanes; ++i) {                                                    \
                const float one[4] = { v[0][i], v[1][i], v[2][i], v[3][i] };                     \
                const double expected = f->reference(one);                                       \
                const double state = f->state ? fabs(one[f->state]) : 0.0;                       \
                int none = 0;                                                                    \
                for (int k = 0; k < f->arguments; ++k) {                                         \
                    none |= one[k] != one[k];                                                    \
                }                                                                                \
                if (none || y[i] != y[i]) {                                                      \
                    wrong += none != (y[i] != y[i]);                                             \
                    continue;                                                                    \
                }                                                                                \
                const double bound = f->absolute + f->relative * state;                          \
                worst = fmax(worst, fabs(y[i] - expected) / bound);                              \
            }                                                                                    \
        }                                                                                        \
        printf("{\"function\": \"%s\", \"lanes\": %d, \"ratio\": %.9g, \"wrong\": %d}\n",        \
               f->name, lanes, worst, wrong);                                                    \
    }

MEASURE(1)
#ifdef CANNERY_VEC_MATH_F32X4
MEASURE(4)
#endif
#ifdef CANNERY_VEC_MATH_F32X8
MEASURE(8)
#endif
#ifdef CANNERY_VEC_MATH_F32X16
MEASURE(16)
#endif

int main(int argc, char **argv)
{
    const int count = argc > 1 ? atoi(argv[1]) : 1000;
    for (int which = 0; which < 3; ++which) {
        measure_1(which, count);
#ifdef CANNERY_VEC_MATH_F32X4
        measure_4(which, count);
#endif
#ifdef CANNERY_VEC_MATH_F32X8
        measure_8(which, count);
#endif
#ifdef CANNERY_VEC_MATH_F32X16
        measure_16(which, count);
#endif
    }
    return 0;
}
