/* Computes every word of vec_half.h on the arrays of half_values.h, bits of float16, and prints a
 * line for each: the word, and what it made of them. half_values.h is written by the test. */
#include <stdint.h>
#include <stdio.h>

#include "cannery/vec_neon.h"
#include "cannery/vec_math.h"
#include "cannery/vec_half.h"

#include "half_values.h"

static uint16_t made[COUNT];

static void show(const char *word)
{
    printf("%s", word);
    for (int i = 0; i < COUNT; ++i) {
        printf(" %x", (unsigned)made[i]);
    }
    printf("\n");
}

/* `value` may use x, y and z, the vectors from element i on, and xs, their memory. */
#define EACH(T, lanes, word, value)                                                                \
    for (int i = 0; i < COUNT; i += lanes) {                                                       \
        const uint16_t *xs = X + i;                                                                \
        const T x = T##_load(xs), y = T##_load(Y + i), z = T##_load(Z + i);                        \
        (void)x, (void)y, (void)z;                                                                 \
        T##_store(made + i, value);                                                                \
    }                                                                                              \
    show(#T "_" word)

#define ONE(T, lanes, word) EACH(T, lanes, #word, T##_##word(x))
#define TWO(T, lanes, word) EACH(T, lanes, #word, T##_##word(x, y))
#define MASK(T, lanes, word) EACH(T, lanes, #word, T##_select(T##_##word(x, y), T##_set1(1.0f), T##_zero()))
#define LANE(T, lanes, k) EACH(T, lanes, "fma_lane" #k, T##_fma_lane##k(x, f16x4_load(Y + i), z))

#define WIDTH(T, M, lanes)                                                                         \
    static void T##_words(void)                                                                    \
    {                                                                                              \
        float floats[COUNT];                                                                       \
        TWO(T, lanes, add);                                                                        \
        TWO(T, lanes, sub);                                                                        \
        TWO(T, lanes, mul);                                                                        \
        TWO(T, lanes, div);                                                                        \
        TWO(T, lanes, min);                                                                        \
        TWO(T, lanes, max);                                                                        \
        TWO(T, lanes, copysign);                                                                   \
        ONE(T, lanes, abs);                                                                        \
        ONE(T, lanes, neg);                                                                        \
        ONE(T, lanes, sqrt);                                                                       \
        ONE(T, lanes, round);                                                                      \
        ONE(T, lanes, floor);                                                                      \
        ONE(T, lanes, ceil);                                                                       \
        ONE(T, lanes, trunc);                                                                      \
        MASK(T, lanes, lt);                                                                        \
        MASK(T, lanes, le);                                                                        \
        MASK(T, lanes, gt);                                                                        \
        MASK(T, lanes, ge);                                                                        \
        MASK(T, lanes, eq);                                                                        \
        EACH(T, lanes, "not_le", T##_select(M##_not(T##_le(x, y)), T##_set1(1.0f), T##_zero()));   \
        EACH(T, lanes, "ge_and_le",                                                                \
             T##_select(M##_and(T##_ge(x, y), T##_le(x, y)), T##_set1(1.0f), T##_zero()));         \
        EACH(T, lanes, "lt_or_gt",                                                                 \
             T##_select(M##_or(T##_lt(x, y), T##_gt(x, y)), T##_set1(1.0f), T##_zero()));          \
        EACH(T, lanes, "fma", T##_fma(x, y, z));                                                   \
        EACH(T, lanes, "fnma", T##_fnma(x, y, z));                                                 \
        LANE(T, lanes, 0);                                                                         \
        LANE(T, lanes, 1);                                                                         \
        LANE(T, lanes, 2);                                                                         \
        LANE(T, lanes, 3);                                                                         \
        EACH(T, lanes, "lane0", T##_lane0(f16x4_load(xs)));                                        \
        EACH(T, lanes, "lane1", T##_lane1(f16x4_load(xs)));                                        \
        EACH(T, lanes, "lane2", T##_lane2(f16x4_load(xs)));                                        \
        EACH(T, lanes, "lane3", T##_lane3(f16x4_load(xs)));                                        \
        EACH(T, lanes, "load1", T##_load1(xs + 1));                                                \
        EACH(T, lanes, "load_aligned", T##_load_aligned(xs));                                      \
        EACH(T, lanes, "load_n", T##_load_n(xs, i / lanes % (lanes + 1)));                         \
        EACH(T, lanes, "load_stride", T##_load_stride(xs + lanes - 1, -1));                        \
        for (int i = 0; i < COUNT; i += lanes) {                                                   \
            T##_store_aligned(made + i, T##_zero());                                               \
            T##_store_n(made + i, T##_load(X + i), i / lanes % (lanes + 1));                       \
        }                                                                                          \
        show(#T "_store_n");                                                                       \
        for (int i = 0; i < COUNT; i += lanes) {                                                   \
            T##_store_stride(made + i + lanes - 1, -1, T##_load(X + i));                           \
        }                                                                                          \
        show(#T "_store_stride");                                                                  \
        for (int i = 0; i < COUNT; i += 2 * lanes) {                                               \
            T even, odd;                                                                           \
            T##_load2(X + i, &even, &odd);                                                         \
            T##_store(made + i, even);                                                             \
            T##_store(made + i + lanes, odd);                                                      \
        }                                                                                          \
        show(#T "_load2");                                                                         \
        for (int i = 0; i < COUNT; i += 2 * lanes) {                                               \
            T even, odd;                                                                           \
            T##_unzip(T##_load(X + i), T##_load(X + i + lanes), &even, &odd);                      \
            T##_store(made + i, even);                                                             \
            T##_store(made + i + lanes, odd);                                                      \
        }                                                                                          \
        show(#T "_unzip");                                                                         \
        for (int i = 0; i < COUNT; i += 2 * lanes) {                                               \
            T##_store2(made + i, T##_load(X + i), T##_load(X + i + lanes));                        \
        }                                                                                          \
        show(#T "_store2");                                                                        \
        for (int i = 0; i < COUNT; i += lanes) {                                                   \
            T##_store_f32(floats + i, T##_load(X + i));                                            \
            T##_store(made + i, T##_from_f32(floats + i));                                         \
        }                                                                                          \
        show(#T "_store_f32");                                                                     \
        for (int i = 0; i < COUNT; i += lanes) {                                                   \
            const int n = i / lanes % (lanes + 1);                                                 \
            T##_store_f32(floats + i, T##_zero());                                                 \
            T##_store_f32_n(floats + i, T##_load(X + i), n);                                       \
            T##_store(made + i, T##_from_f32(floats + i));                                         \
        }                                                                                          \
        show(#T "_store_f32_n");                                                                   \
        for (int i = 0; i < COUNT; i += lanes) {                                                   \
            T##_store(made + i, T##_from_f32(W + i));                                              \
        }                                                                                          \
        show(#T "_from_f32");                                                                      \
        for (int i = 0; i < COUNT; i += lanes) {                                                   \
            T##_store(made + i, T##_from_f32_n(W + i, i / lanes % (lanes + 1)));                   \
        }                                                                                          \
        show(#T "_from_f32_n");                                                                    \
        EACH(T, lanes, "elu", T##_elu(z, 0.5f));                                                   \
        EACH(T, lanes, "erf", T##_erf(z));                                                         \
        EACH(T, lanes, "exp", T##_exp(z));                                                         \
        EACH(T, lanes, "expm1", T##_expm1(z));                                                     \
        EACH(T, lanes, "log", T##_log(T##_abs(z)));                                                \
        EACH(T, lanes, "sigmoid", T##_sigmoid(z));                                                 \
        EACH(T, lanes, "silu", T##_silu(z));                                                       \
        EACH(T, lanes, "sigmoid_inverse", T##_sigmoid_inverse(z));                                 \
        EACH(T, lanes, "sigmoid_tanh", T##_sigmoid_tanh(z, y));                                    \
        EACH(T, lanes, "gru_output", T##_gru_output(z, y, x));                                     \
        EACH(T, lanes, "lstm_cell", T##_lstm_cell(z, y, x, z));                                    \
        EACH(T, lanes, "tanh", T##_tanh(z));                                                       \
        EACH(T, lanes, "softplus", T##_softplus(z));                                               \
        EACH(T, lanes, "softsign", T##_softsign(z));                                               \
        EACH(T, lanes, "mish", T##_mish(z));                                                       \
        EACH(T, lanes, "gelu_erf", T##_gelu_erf(z));                                               \
        EACH(T, lanes, "gelu_tanh", T##_gelu_tanh(z));                                             \
    }

WIDTH(f16x4, m16x4, 4)
WIDTH(f16x8, m16x8, 8)

int main(void)
{
    f16x4_words();
    f16x8_words();
    for (int i = 0; i < COUNT; i += 8) {
        const f16x8 x = f16x8_load(X + i);
        f16x8_store(made + i, f16x8_join(f16x8_hi(x), f16x8_lo(x)));
    }
    show("f16x8_join");
    for (int i = 0; i < COUNT; ++i) {
        f16x4_store1(made + i, f16x4_load1(X + i));
    }
    show("f16x4_store1");
    for (int i = 0; i < COUNT; i += 4) {
        f32x4_store_f16(made + i, f32x4_load(W + i));
    }
    show("f32x4_store_f16");
    for (int i = 0; i < COUNT; i += 4) {
        f32x4_store_f16(made + i, f32x4_zero());
        f32x4_store_f16_n(made + i, f32x4_load(W + i), i / 4 % 5);
    }
    show("f32x4_store_f16_n");
    for (int i = 0; i < COUNT; ++i) {
        f32x1_store_f16(made + i, W[i]);
    }
    show("f32x1_store_f16");
    return 0;
}
