/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary in half precision: four and eight lanes of float16 in the registers of
 * AArch64 with FEAT_FP16 (-march=armv8.2-a+fp16).
 *
 * Types: T = f16x4, f16x8; M = m16x4, m16x8 (lane masks). A word means what the one of the same name
 * in vec_scalar.h means, with numbers of half precision: each operation rounds its result once, to
 * the nearest float16, ties to even; fma and fnma round once as well. In memory, float16 is the
 * uint16_t of its bits. Include vec_neon.h and, for the functions at the end, vec_math.h first.
 *
 *   f16x4_fma_lane0 .. 3(a, b, c), f16x8_fma_lane0 .. 3(a, f16x4 b, c)   c + a*b[k]
 *   T_set1(x)               x is a float
 *   f16x4_store1(p, v)      p[0] = v[0]; with load1, four lanes serve for one number
 *   T_from_f32(p), T_from_f32_n(p, n)          like load and load_n, of floats, rounded
 *   T_store_f32(p, v), T_store_f32_n(p, v, n)  like store and store_n, to floats, exactly
 *   f32x1_store_f16(p, v), f32x4_store_f16(p, v), f32x4_store_f16_n(p, v, n)
 *                                              like store and store_n, of floats, rounded
 */
#ifndef CANNERY_VEC_HALF_H
#define CANNERY_VEC_HALF_H

#include "vec_neon.h"

#if !defined(__aarch64__) || !defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
#error "cannery: vec_half.h needs AArch64 with float16 arithmetic; compile with -march=armv8.2-a+fp16"
#endif

typedef float16x4_t f16x4;
typedef float16x8_t f16x8;
typedef uint16x4_t m16x4;
typedef uint16x8_t m16x8;

/* ---- both widths: `q` is in the names of intrinsics for eight lanes ------- */

#define CANNERY_HALF_WORDS(T, M, q, U)                                                             \
    CANNERY_WORD1(T, T##_load, const uint16_t *, vreinterpret##q##_f16_u16(vld1##q##_u16(a)))      \
    CANNERY_WORD1(T, T##_load_aligned, const uint16_t *, T##_load(a))                              \
    CANNERY_INLINE void T##_store(uint16_t *p, T v)                                                \
    {                                                                                              \
        vst1##q##_u16(p, vreinterpret##q##_u16_f16(v));                                            \
    }                                                                                              \
    CANNERY_INLINE void T##_store_aligned(uint16_t *p, T v)                                        \
    {                                                                                              \
        T##_store(p, v);                                                                           \
    }                                                                                              \
    CANNERY_WORD1(T, T##_set1, float, vdup##q##_n_f16((float16_t)a))                               \
    CANNERY_INLINE T T##_zero(void)                                                                \
    {                                                                                              \
        return vreinterpret##q##_f16_u16(vdup##q##_n_u16(0));                                      \
    }                                                                                              \
    CANNERY_WORD2(T, T##_add, T, vadd##q##_f16(a, b))                                              \
    CANNERY_WORD2(T, T##_sub, T, vsub##q##_f16(a, b))                                              \
    CANNERY_WORD2(T, T##_mul, T, vmul##q##_f16(a, b))                                              \
    CANNERY_WORD2(T, T##_div, T, vdiv##q##_f16(a, b))                                              \
    CANNERY_WORD2(T, T##_min, T, vmin##q##_f16(a, b))                                              \
    CANNERY_WORD2(T, T##_max, T, vmax##q##_f16(a, b))                                              \
    CANNERY_WORD1(T, T##_abs, T, vabs##q##_f16(a))                                                 \
    CANNERY_WORD1(T, T##_neg, T, vneg##q##_f16(a))                                                 \
    CANNERY_WORD1(T, T##_sqrt, T, vsqrt##q##_f16(a))                                               \
    CANNERY_WORD1(T, T##_round, T, vrndn##q##_f16(a))                                              \
    CANNERY_WORD1(T, T##_floor, T, vrndm##q##_f16(a))                                              \
    CANNERY_WORD1(T, T##_ceil, T, vrndp##q##_f16(a))                                               \
    CANNERY_WORD1(T, T##_trunc, T, vrnd##q##_f16(a))                                               \
    CANNERY_WORD2(M, T##_lt, T, vclt##q##_f16(a, b))                                               \
    CANNERY_WORD2(M, T##_le, T, vcle##q##_f16(a, b))                                               \
    CANNERY_WORD2(M, T##_gt, T, vcgt##q##_f16(a, b))                                               \
    CANNERY_WORD2(M, T##_ge, T, vcge##q##_f16(a, b))                                               \
    CANNERY_WORD2(M, T##_eq, T, vceq##q##_f16(a, b))                                               \
    CANNERY_WORD2(M, M##_and, M, vand##q##_u16(a, b))                                              \
    CANNERY_WORD2(M, M##_or, M, vorr##q##_u16(a, b))                                               \
    CANNERY_WORD1(M, M##_not, M, vmvn##q##_u16(a))                                                 \
    CANNERY_INLINE T T##_select(M m, T a, T b)                                                     \
    {                                                                                              \
        return vbsl##q##_f16(m, a, b);                                                             \
    }                                                                                              \
    CANNERY_INLINE T T##_copysign(T magnitude, T sign)                                             \
    {                                                                                              \
        return vbsl##q##_f16(vdup##q##_n_u16(0x8000u), sign, magnitude);                           \
    }                                                                                              \
    CANNERY_INLINE T T##_fma(T a, T b, T c)                                                        \
    {                                                                                              \
        return vfma##q##_f16(c, a, b);                                                             \
    }                                                                                              \
    CANNERY_INLINE T T##_fnma(T a, T b, T c)                                                       \
    {                                                                                              \
        return vfms##q##_f16(c, a, b);                                                             \
    }                                                                                              \
    CANNERY_INLINE void T##_unzip(T a, T b, T *even, T *odd)                                       \
    {                                                                                              \
        *even = vuzp1##q##_f16(a, b);                                                              \
        *odd = vuzp2##q##_f16(a, b);                                                               \
    }                                                                                              \
    CANNERY_INLINE void T##_load2(const uint16_t *p, T *even, T *odd)                              \
    {                                                                                              \
        const U##x2_t two = vld2##q##_u16(p);                                                      \
        *even = vreinterpret##q##_f16_u16(two.val[0]);                                             \
        *odd = vreinterpret##q##_f16_u16(two.val[1]);                                              \
    } \
    CANNERY_INLINE void T##_store2(uint16_t *p, T even, T odd)                                     \
    {                                                                                              \
        U##x2_t two;                                                                               \
        two.val[0] = vreinterpret##q##_u16_f16(even);                                              \
        two.val[1] = vreinterpret##q##_u16_f16(odd);                                               \
        vst2##q##_u16(p, two);                                                                     \
    }

CANNERY_HALF_WORDS(f16x4, m16x4, , uint16x4)
CANNERY_HALF_WORDS(f16x8, m16x8, q, uint16x8)

/* gcc 12 makes two instructions of each of these intrinsics; clang makes one, and knows no constraint
 * for v0 to v15, whose lanes these are, of vectors with 64 bits. */
#if defined(__clang__)
#define CANNERY_HALF_BY_LANE(T, q, k, form)                                                        \
    CANNERY_INLINE T T##_fma_lane##k(T a, f16x4 b, T c)                                            \
    {                                                                                              \
        return vfma##q##_lane_f16(c, a, b, k);                                                     \
    }
#else
#define CANNERY_HALF_BY_LANE(T, q, k, form)                                                        \
    CANNERY_INLINE T T##_fma_lane##k(T a, f16x4 b, T c)                                            \
    {                                                                                              \
        __asm__("fmla %0." form ", %1." form ", %2.h[" #k "]" : "+w"(c) : "w"(a), "x"(b));         \
        return c;                                                                                  \
    }
#endif
CANNERY_HALF_BY_LANE(f16x4, , 0, "4h")
CANNERY_HALF_BY_LANE(f16x4, , 1, "4h")
CANNERY_HALF_BY_LANE(f16x4, , 2, "4h")
CANNERY_HALF_BY_LANE(f16x4, , 3, "4h")
CANNERY_HALF_BY_LANE(f16x8, q, 0, "8h")
CANNERY_HALF_BY_LANE(f16x8, q, 1, "8h")
CANNERY_HALF_BY_LANE(f16x8, q, 2, "8h")
CANNERY_HALF_BY_LANE(f16x8, q, 3, "8h")
#undef CANNERY_HALF_BY_LANE

#define CANNERY_HALF_LOAD1(T, form)                                                                \
    CANNERY_INLINE T T##_load1(const uint16_t *p)                                                  \
    {                                                                                              \
        T v;                                                                                       \
        __asm__("ld1r {%0." form "}, %1" : "=w"(v) : "Q"(*p));                                     \
        return v;                                                                                  \
    }
CANNERY_HALF_LOAD1(f16x4, "4h")
CANNERY_HALF_LOAD1(f16x8, "8h")
#undef CANNERY_HALF_LOAD1

/* ---- parts of vectors ---------------------------------------------------- */

CANNERY_INLINE f16x4 f16x4_load_n(const uint16_t *p, int n)
{
    uint16_t x[4] = {0};
    CANNERY_COPY(x, p, (size_t)n * sizeof *p);
    return f16x4_load(x);
}

CANNERY_INLINE void f16x4_store_n(uint16_t *p, f16x4 v, int n)
{
    CANNERY_COPY(p, &v, (size_t)n * sizeof *p);
}

CANNERY_INLINE void f16x4_store1(uint16_t *p, f16x4 v)
{
    vst1_lane_u16(p, vreinterpret_u16_f16(v), 0);
}

CANNERY_WORD1(f16x4, f16x8_lo, f16x8, vget_low_f16(a))
CANNERY_WORD1(f16x4, f16x8_hi, f16x8, vget_high_f16(a))

CANNERY_INLINE f16x8 f16x8_join(f16x4 lo, f16x4 hi)
{
    return vcombine_f16(lo, hi);
}

CANNERY_INLINE f16x8 f16x8_load_n(const uint16_t *p, int n)
{
    if (n >= 4) {
        return f16x8_join(f16x4_load(p), f16x4_load_n(p + 4, n - 4));
    }
    return f16x8_join(f16x4_load_n(p, n), f16x4_zero());
}

CANNERY_INLINE void f16x8_store_n(uint16_t *p, f16x8 v, int n)
{
    if (n >= 4) {
        f16x4_store(p, f16x8_lo(v));
        f16x4_store_n(p + 4, f16x8_hi(v), n - 4);
    } else {
        f16x4_store_n(p, f16x8_lo(v), n);
    }
}

/* ---- between lanes ------------------------------------------------------- */

CANNERY_INLINE f16x4 f16x4_load_stride(const uint16_t *p, ptrdiff_t stride)
{
    uint16x4_t v = vdup_n_u16(p[0]);
    v = vld1_lane_u16(p + stride, v, 1);
    v = vld1_lane_u16(p + 2 * stride, v, 2);
    return vreinterpret_f16_u16(vld1_lane_u16(p + 3 * stride, v, 3));
}

CANNERY_INLINE f16x8 f16x8_load_stride(const uint16_t *p, ptrdiff_t stride)
{
    return f16x8_join(f16x4_load_stride(p, stride), f16x4_load_stride(p + 4 * stride, stride));
}

CANNERY_INLINE void f16x4_store_stride(uint16_t *p, ptrdiff_t stride, f16x4 v)
{
    const uint16x4_t bits = vreinterpret_u16_f16(v);
    vst1_lane_u16(p, bits, 0);
    vst1_lane_u16(p + stride, bits, 1);
    vst1_lane_u16(p + 2 * stride, bits, 2);
    vst1_lane_u16(p + 3 * stride, bits, 3);
}

CANNERY_INLINE void f16x8_store_stride(uint16_t *p, ptrdiff_t stride, f16x8 v)
{
    f16x4_store_stride(p, stride, f16x8_lo(v));
    f16x4_store_stride(p + 4 * stride, stride, f16x8_hi(v));
}

CANNERY_WORD1(f16x4, f16x4_lane0, f16x4, vdup_lane_f16(a, 0))
CANNERY_WORD1(f16x4, f16x4_lane1, f16x4, vdup_lane_f16(a, 1))
CANNERY_WORD1(f16x4, f16x4_lane2, f16x4, vdup_lane_f16(a, 2))
CANNERY_WORD1(f16x4, f16x4_lane3, f16x4, vdup_lane_f16(a, 3))
CANNERY_WORD1(f16x8, f16x8_lane0, f16x4, vdupq_lane_f16(a, 0))
CANNERY_WORD1(f16x8, f16x8_lane1, f16x4, vdupq_lane_f16(a, 1))
CANNERY_WORD1(f16x8, f16x8_lane2, f16x4, vdupq_lane_f16(a, 2))
CANNERY_WORD1(f16x8, f16x8_lane3, f16x4, vdupq_lane_f16(a, 3))

/* ---- from float32 and back ------------------------------------------------ */

CANNERY_WORD1(f32x4, cannery_f32_of_f16, f16x4, vcvt_f32_f16(a))
CANNERY_WORD1(f16x4, cannery_f16_of_f32, f32x4, vcvt_f16_f32(a))

CANNERY_WORD1(f16x4, f16x4_from_f32, const float *, cannery_f16_of_f32(f32x4_load(a)))
CANNERY_WORD1(f16x8, f16x8_from_f32, const float *,
              f16x8_join(f16x4_from_f32(a), f16x4_from_f32(a + 4)))

CANNERY_INLINE void f16x4_store_f32(float *p, f16x4 v)
{
    f32x4_store(p, cannery_f32_of_f16(v));
}

CANNERY_INLINE void f16x8_store_f32(float *p, f16x8 v)
{
    f16x4_store_f32(p, f16x8_lo(v));
    f16x4_store_f32(p + 4, f16x8_hi(v));
}

CANNERY_INLINE f16x4 f16x4_from_f32_n(const float *p, int n)
{
    return cannery_f16_of_f32(f32x4_load_n(p, n));
}

CANNERY_INLINE f16x8 f16x8_from_f32_n(const float *p, int n)
{
    if (n >= 4) {
        return f16x8_join(f16x4_from_f32(p), f16x4_from_f32_n(p + 4, n - 4));
    }
    return f16x8_join(f16x4_from_f32_n(p, n), f16x4_zero());
}

CANNERY_INLINE void f16x4_store_f32_n(float *p, f16x4 v, int n)
{
    f32x4_store_n(p, cannery_f32_of_f16(v), n);
}

CANNERY_INLINE void f16x8_store_f32_n(float *p, f16x8 v, int n)
{
    if (n >= 4) {
        f16x4_store_f32(p, f16x8_lo(v));
        f16x4_store_f32_n(p + 4, f16x8_hi(v), n - 4);
    } else {
        f16x4_store_f32_n(p, f16x8_lo(v), n);
    }
}

CANNERY_INLINE void f32x4_store_f16(uint16_t *p, f32x4 v)
{
    f16x4_store(p, cannery_f16_of_f32(v));
}

CANNERY_INLINE void f32x4_store_f16_n(uint16_t *p, f32x4 v, int n)
{
    f16x4_store_n(p, cannery_f16_of_f32(v), n);
}

CANNERY_INLINE void f32x1_store_f16(uint16_t *p, f32x1 v)
{
    f16x4_store1(p, cannery_f16_of_f32(f32x4_set1(v)));
}

/* ---- functions: computed in float32, rounded once -------------------------- */

#if defined(CANNERY_VEC_MATH_F32X4)
#define CANNERY_HALF_FUNCTION(word)                                                                \
    CANNERY_WORD1(f16x4, f16x4_##word, f16x4,                                                      \
                  cannery_f16_of_f32(f32x4_##word(cannery_f32_of_f16(a))))                         \
    CANNERY_WORD1(f16x8, f16x8_##word, f16x8,                                                      \
                  f16x8_join(f16x4_##word(f16x8_lo(a)), f16x4_##word(f16x8_hi(a))))
CANNERY_HALF_FUNCTION(erf)
CANNERY_HALF_FUNCTION(exp)
CANNERY_HALF_FUNCTION(expm1)
CANNERY_HALF_FUNCTION(gelu_erf)
CANNERY_HALF_FUNCTION(gelu_tanh)
CANNERY_HALF_FUNCTION(log)
CANNERY_HALF_FUNCTION(mish)
CANNERY_HALF_FUNCTION(sigmoid)
CANNERY_HALF_FUNCTION(sigmoid_inverse)
CANNERY_HALF_FUNCTION(silu)
CANNERY_HALF_FUNCTION(softplus)
CANNERY_HALF_FUNCTION(softsign)
CANNERY_HALF_FUNCTION(tanh)
#undef CANNERY_HALF_FUNCTION

/* Of recurrent layers: of two, three and four numbers. */
#define CANNERY_HALF_FUNCTION2(word)                                                               \
    CANNERY_INLINE f16x4 f16x4_##word(f16x4 a, f16x4 b)                                            \
    {                                                                                              \
        return cannery_f16_of_f32(                                                                 \
            f32x4_##word(cannery_f32_of_f16(a), cannery_f32_of_f16(b)));                           \
    }                                                                                              \
    CANNERY_INLINE f16x8 f16x8_##word(f16x8 a, f16x8 b)                                            \
    {                                                                                              \
        return f16x8_join(f16x4_##word(f16x8_lo(a), f16x8_lo(b)),                                  \
                          f16x4_##word(f16x8_hi(a), f16x8_hi(b)));                                 \
    }
#define CANNERY_HALF_FUNCTION3(word)                                                               \
    CANNERY_INLINE f16x4 f16x4_##word(f16x4 a, f16x4 b, f16x4 c)                                   \
    {                                                                                              \
        return cannery_f16_of_f32(f32x4_##word(cannery_f32_of_f16(a), cannery_f32_of_f16(b),       \
                                               cannery_f32_of_f16(c)));                            \
    }                                                                                              \
    CANNERY_INLINE f16x8 f16x8_##word(f16x8 a, f16x8 b, f16x8 c)                                   \
    {                                                                                              \
        return f16x8_join(f16x4_##word(f16x8_lo(a), f16x8_lo(b), f16x8_lo(c)),                     \
                          f16x4_##word(f16x8_hi(a), f16x8_hi(b), f16x8_hi(c)));                    \
    }
#define CANNERY_HALF_FUNCTION4(word)                                                               \
    CANNERY_INLINE f16x4 f16x4_##word(f16x4 a, f16x4 b, f16x4 c, f16x4 d)                          \
    {                                                                                              \
        return cannery_f16_of_f32(f32x4_##word(cannery_f32_of_f16(a), cannery_f32_of_f16(b),       \
                                               cannery_f32_of_f16(c), cannery_f32_of_f16(d)));     \
    }                                                                                              \
    CANNERY_INLINE f16x8 f16x8_##word(f16x8 a, f16x8 b, f16x8 c, f16x8 d)                          \
    {                                                                                              \
        return f16x8_join(                                                                         \
            f16x4_##word(f16x8_lo(a), f16x8_lo(b), f16x8_lo(c), f16x8_lo(d)),                      \
            f16x4_##word(f16x8_hi(a), f16x8_hi(b), f16x8_hi(c), f16x8_hi(d)));                     \
    }
CANNERY_HALF_FUNCTION2(sigmoid_tanh)
CANNERY_HALF_FUNCTION3(gru_output)
CANNERY_HALF_FUNCTION4(lstm_cell)
#undef CANNERY_HALF_FUNCTION2
#undef CANNERY_HALF_FUNCTION3
#undef CANNERY_HALF_FUNCTION4

CANNERY_INLINE f16x4 f16x4_elu(f16x4 x, float alpha)
{
    return cannery_f16_of_f32(f32x4_elu(cannery_f32_of_f16(x), alpha));
}

CANNERY_INLINE f16x8 f16x8_elu(f16x8 x, float alpha)
{
    return f16x8_join(f16x4_elu(f16x8_lo(x), alpha), f16x4_elu(f16x8_hi(x), alpha));
}
#endif

#endif
