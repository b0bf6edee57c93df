/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary, four lanes in ARM NEON registers: ARMv7 and
 * AArch64. The words are documented in vec_scalar.h. ARMv7 NEON flushes
 * subnormals to zero, also in comparisons.
 */
#ifndef CANNERY_VEC_NEON_H
#define CANNERY_VEC_NEON_H

#include "vec_types.h"

#if !defined(__ARM_NEON)
#error "cannery: vec_neon.h needs NEON; on ARMv7 compile with -mfpu=neon and a hard or softfp ABI"
#endif

#include <arm_neon.h>

typedef float32x4_t f32x4;
typedef int32x4_t i32x4;
typedef uint32x4_t m32x4; /* all bits of a lane set or none */

#define CANNERY_HAS_F32X4 1
#define CANNERY_HAS_LANE_FMA 1
#define CANNERY_PAIRS_APART 1

/* ---- memory ------------------------------------------------------------ */

/* gcc turns unaligned vectors into two loads of halves for ARMv7. */
#define CANNERY_OWN_LOADS 1
CANNERY_WORD1(f32x4, f32x4_load, const float *, vld1q_f32(a))
CANNERY_WORD1(i32x4, i32x4_load, const int32_t *, vld1q_s32(a))
CANNERY_WORD1(f32x4, f32x4_load_aligned, const float *,
              vld1q_f32((const float *)CANNERY_ASSUME_ALIGNED(a, 16)))

CANNERY_INLINE void f32x4_store(float *p, f32x4 v)
{
    vst1q_f32(p, v);
}

CANNERY_INLINE void f32x4_store_aligned(float *p, f32x4 v)
{
    vst1q_f32((float *)CANNERY_ASSUME_ALIGNED(p, 16), v);
}

CANNERY_INLINE void i32x4_store(int32_t *p, i32x4 v)
{
    vst1q_s32(p, v);
}

#define CANNERY_OWN_LOAD1 1
CANNERY_WORD1(f32x4, f32x4_load1, const float *, vld1q_dup_f32(a))

#define CANNERY_OWN_PARTS 1
CANNERY_INLINE f32x4 f32x4_load_n(const float *p, int n)
{
    const float32x4_t zero = vdupq_n_f32(0.0f);
    switch (n) {
    case 0:
        return zero;
    case 1:
        return vld1q_lane_f32(p, zero, 0);
    case 2:
        return vcombine_f32(vld1_f32(p), vget_low_f32(zero));
    case 3:
        return vcombine_f32(vld1_f32(p), vld1_lane_f32(p + 2, vget_low_f32(zero), 0));
    default:
        return vld1q_f32(p);
    }
}

CANNERY_INLINE void f32x4_store_n(float *p, f32x4 v, int n)
{
    switch (n) {
    case 0:
        break;
    case 1:
        vst1q_lane_f32(p, v, 0);
        break;
    case 2:
        vst1_f32(p, vget_low_f32(v));
        break;
    case 3:
        vst1_f32(p, vget_low_f32(v));
        vst1q_lane_f32(p + 2, v, 2);
        break;
    default:
        vst1q_f32(p, v);
        break;
    }
}

#define CANNERY_OWN_ZIP 1
CANNERY_INLINE void f32x4_unzip(f32x4 a, f32x4 b, f32x4 *even, f32x4 *odd)
{
    const float32x4x2_t pair = vuzpq_f32(a, b);
    *even = pair.val[0];
    *odd = pair.val[1];
}

CANNERY_INLINE void f32x4_zip(f32x4 a, f32x4 b, f32x4 *lo, f32x4 *hi)
{
    const float32x4x2_t pair = vzipq_f32(a, b);
    *lo = pair.val[0];
    *hi = pair.val[1];
}

#define CANNERY_OWN_TWOS 1
CANNERY_INLINE void f32x4_load2(const float *p, f32x4 *even, f32x4 *odd)
{
    const float32x4x2_t pair = vld2q_f32(p);
    *even = pair.val[0];
    *odd = pair.val[1];
}

CANNERY_INLINE void f32x4_store2(float *p, f32x4 even, f32x4 odd)
{
    float32x4x2_t pair;
    pair.val[0] = even;
    pair.val[1] = odd;
    vst2q_f32(p, pair);
}

#define CANNERY_OWN_FOURS 1
CANNERY_INLINE void f32x4_load4(const float *p, f32x4 *a, f32x4 *b, f32x4 *c, f32x4 *d)
{
    const float32x4x4_t four = vld4q_f32(p);
    *a = four.val[0];
    *b = four.val[1];
    *c = four.val[2];
    *d = four.val[3];
}

CANNERY_INLINE void f32x4_store4(float *p, f32x4 a, f32x4 b, f32x4 c, f32x4 d)
{
    float32x4x4_t four;
    four.val[0] = a;
    four.val[1] = b;
    four.val[2] = c;
    four.val[3] = d;
    vst4q_f32(p, four);
}

#define CANNERY_OWN_LOAD_STRIDE 1
CANNERY_INLINE f32x4 f32x4_load_stride(const float *p, ptrdiff_t stride)
{
    float32x4_t v = vdupq_n_f32(p[0]);
    v = vld1q_lane_f32(p + stride, v, 1);
    v = vld1q_lane_f32(p + 2 * stride, v, 2);
    return vld1q_lane_f32(p + 3 * stride, v, 3);
}

#define CANNERY_OWN_STORE_STRIDE 1
CANNERY_INLINE void f32x4_store_stride(float *p, ptrdiff_t stride, f32x4 v)
{
    vst1q_lane_f32(p, v, 0);
    vst1q_lane_f32(p + stride, v, 1);
    vst1q_lane_f32(p + 2 * stride, v, 2);
    vst1q_lane_f32(p + 3 * stride, v, 3);
}

#define CANNERY_OWN_LOOKUP 1
CANNERY_INLINE f32x4 f32x4_lookup(const float *table, i32x4 k)
{
    float32x4_t v = vdupq_n_f32(table[vgetq_lane_s32(k, 0)]);
    v = vld1q_lane_f32(table + vgetq_lane_s32(k, 1), v, 1);
    v = vld1q_lane_f32(table + vgetq_lane_s32(k, 2), v, 2);
    return vld1q_lane_f32(table + vgetq_lane_s32(k, 3), v, 3);
}

CANNERY_INLINE i32x4 i32x4_lookup(const int32_t *table, i32x4 k)
{
    int32x4_t v = vdupq_n_s32(table[vgetq_lane_s32(k, 0)]);
    v = vld1q_lane_s32(table + vgetq_lane_s32(k, 1), v, 1);
    v = vld1q_lane_s32(table + vgetq_lane_s32(k, 2), v, 2);
    return vld1q_lane_s32(table + vgetq_lane_s32(k, 3), v, 3);
}

/* ---- arithmetic: gcc splits vectors of floats for ARMv7, which flushes -- */

#define CANNERY_OWN_ARITHMETIC 1
#define CANNERY_OWN_SIGNS 1
#define CANNERY_OWN_BOUNDS 1
#define CANNERY_OWN_INTEGER_BOUNDS 1
#define CANNERY_OWN_FROM_I32 1
CANNERY_WORD2(f32x4, f32x4_add, f32x4, vaddq_f32(a, b))
CANNERY_WORD2(f32x4, f32x4_sub, f32x4, vsubq_f32(a, b))
CANNERY_WORD2(f32x4, f32x4_mul, f32x4, vmulq_f32(a, b))
CANNERY_WORD1(f32x4, f32x4_abs, f32x4, vabsq_f32(a))
CANNERY_WORD1(f32x4, f32x4_neg, f32x4, vnegq_f32(a))
CANNERY_WORD2(f32x4, f32x4_copysign, f32x4, vbslq_f32(vdupq_n_u32(0x80000000u), b, a))
CANNERY_WORD2(f32x4, f32x4_min, f32x4, vminq_f32(a, b))
CANNERY_WORD2(f32x4, f32x4_max, f32x4, vmaxq_f32(a, b))
CANNERY_WORD2(i32x4, i32x4_min, i32x4, vminq_s32(a, b))
CANNERY_WORD2(i32x4, i32x4_max, i32x4, vmaxq_s32(a, b))
CANNERY_WORD1(f32x4, f32x4_from_i32, i32x4, vcvtq_f32_s32(a))

#define CANNERY_OWN_DIVISION 1
#define CANNERY_OWN_SQRT 1
/* ARMv7 NEON cannot divide or take roots: the VFP does it lane by lane. */
CANNERY_INLINE f32x4 f32x4_div(f32x4 a, f32x4 b)
{
#if defined(__aarch64__)
    return vdivq_f32(a, b);
#else
    float32x4_t v = vdupq_n_f32(vgetq_lane_f32(a, 0) / vgetq_lane_f32(b, 0));
    v = vsetq_lane_f32(vgetq_lane_f32(a, 1) / vgetq_lane_f32(b, 1), v, 1);
    v = vsetq_lane_f32(vgetq_lane_f32(a, 2) / vgetq_lane_f32(b, 2), v, 2);
    return vsetq_lane_f32(vgetq_lane_f32(a, 3) / vgetq_lane_f32(b, 3), v, 3);
#endif
}

CANNERY_INLINE f32x4 f32x4_sqrt(f32x4 x)
{
#if defined(__aarch64__)
    return vsqrtq_f32(x);
#else
    float32x4_t v = vdupq_n_f32(f32x1_sqrt(vgetq_lane_f32(x, 0)));
    v = vsetq_lane_f32(f32x1_sqrt(vgetq_lane_f32(x, 1)), v, 1);
    v = vsetq_lane_f32(f32x1_sqrt(vgetq_lane_f32(x, 2)), v, 2);
    return vsetq_lane_f32(f32x1_sqrt(vgetq_lane_f32(x, 3)), v, 3);
#endif
}

#define CANNERY_OWN_FMA 1
CANNERY_INLINE f32x4 f32x4_fma(f32x4 a, f32x4 b, f32x4 c)
{
#ifdef CANNERY_HAS_FMA
    return vfmaq_f32(c, a, b);
#else
    return vmlaq_f32(c, a, b);
#endif
}

CANNERY_INLINE f32x4 f32x4_fnma(f32x4 a, f32x4 b, f32x4 c)
{
#ifdef CANNERY_HAS_FMA
    return vfmsq_f32(c, a, b);
#else
    return vmlsq_f32(c, a, b);
#endif
}

#define CANNERY_OWN_RECIPROCAL 1
/* Eight bits from the CPU, two Newton steps. */
CANNERY_INLINE f32x4 f32x4_recip_fast(f32x4 x)
{
    float32x4_t r = vrecpeq_f32(x);
    r = vmulq_f32(r, vrecpsq_f32(x, r));
    return vmulq_f32(r, vrecpsq_f32(x, r));
}

#define CANNERY_OWN_MASKS 1
#if defined(__aarch64__) || defined(__clang__)
CANNERY_WORD2(m32x4, f32x4_gt, f32x4, vcgtq_f32(a, b))
CANNERY_WORD2(m32x4, f32x4_ge, f32x4, vcgeq_f32(a, b))
CANNERY_WORD2(m32x4, f32x4_eq, f32x4, vceqq_f32(a, b))
#else
/* gcc compares lane by lane on the VFP, as the intrinsics flush subnormals. */
#define CANNERY_COMPARISON(word, instruction)                                                      \
    CANNERY_INLINE m32x4 word(f32x4 a, f32x4 b)                                                    \
    {                                                                                              \
        m32x4 m;                                                                                   \
        __asm__(instruction " %q0, %q1, %q2" : "=w"(m) : "w"(a), "w"(b));                          \
        return m;                                                                                  \
    }
CANNERY_COMPARISON(f32x4_gt, "vcgt.f32")
CANNERY_COMPARISON(f32x4_ge, "vcge.f32")
CANNERY_COMPARISON(f32x4_eq, "vceq.f32")
#undef CANNERY_COMPARISON
#endif
CANNERY_WORD2(m32x4, f32x4_lt, f32x4, f32x4_gt(b, a))
CANNERY_WORD2(m32x4, f32x4_le, f32x4, f32x4_ge(b, a))
CANNERY_WORD2(m32x4, m32x4_and, m32x4, a & b)
CANNERY_WORD2(m32x4, m32x4_or, m32x4, a | b)
CANNERY_WORD1(m32x4, m32x4_not, m32x4, ~a)

#define CANNERY_OWN_SELECT 1
CANNERY_INLINE f32x4 f32x4_select(m32x4 m, f32x4 a, f32x4 b)
{
    return vbslq_f32(m, a, b);
}

/* ---- lane_fma ---------------------------------------------------------- */

#define CANNERY_LANE_FMA(k, product)                                                               \
    CANNERY_INLINE f32x4 f32x4_fma_lane##k(f32x4 a, f32x4 b, f32x4 c)                              \
    {                                                                                              \
        return product;                                                                            \
    }
#if defined(__aarch64__)
CANNERY_LANE_FMA(0, vfmaq_laneq_f32(c, a, b, 0))
CANNERY_LANE_FMA(1, vfmaq_laneq_f32(c, a, b, 1))
CANNERY_LANE_FMA(2, vfmaq_laneq_f32(c, a, b, 2))
CANNERY_LANE_FMA(3, vfmaq_laneq_f32(c, a, b, 3))
#else
CANNERY_LANE_FMA(0, vmlaq_lane_f32(c, a, vget_low_f32(b), 0))
CANNERY_LANE_FMA(1, vmlaq_lane_f32(c, a, vget_low_f32(b), 1))
CANNERY_LANE_FMA(2, vmlaq_lane_f32(c, a, vget_high_f32(b), 0))
CANNERY_LANE_FMA(3, vmlaq_lane_f32(c, a, vget_high_f32(b), 1))
#endif
#undef CANNERY_LANE_FMA

/* ---- ordered ----------------------------------------------------------- */

#if defined(__aarch64__) && !defined(__AARCH64EB__)
#define CANNERY_HAS_ORDERED 1
#if defined(__GNUC__)
/* Volatile statements keep their order, and the registers are left to the compiler. */
typedef float cannery_two_floats __attribute__((vector_size(8), may_alias, aligned(4)));
typedef float cannery_four_floats __attribute__((vector_size(16), may_alias, aligned(4)));

CANNERY_INLINE f32x4 f32x4_load_ordered(const float *p)
{
    f32x4 v;
    __asm__ volatile("ldr %q0, %1" : "=w"(v) : "m"(*(const cannery_four_floats *)p));
    return v;
}

CANNERY_INLINE f32x4 f32x4_load_low_ordered(const float *p)
{
    f32x4 v;
    __asm__ volatile("ldr %d0, %1" : "=w"(v) : "m"(*(const cannery_two_floats *)p));
    return v;
}

CANNERY_INLINE uint64_t f32x4_load_high_ordered(const float *p)
{
    uint64_t high;
    __asm__ volatile("ldr %0, %1" : "=r"(high) : "m"(*(const cannery_two_floats *)(p + 2)));
    return high;
}

CANNERY_INLINE f32x4 f32x4_join_ordered(f32x4 low, uint64_t high)
{
    __asm__ volatile("ins %0.d[1], %1" : "+w"(low) : "r"(high));
    return low;
}

#define CANNERY_ORDERED_FMA(k)                                                                     \
    CANNERY_INLINE f32x4 f32x4_fma_lane##k##_ordered(f32x4 a, f32x4 b, f32x4 c)                    \
    {                                                                                              \
        __asm__ volatile("fmla %0.4s, %1.4s, %2.s[" #k "]" : "+w"(c) : "w"(a), "w"(b));            \
        return c;                                                                                  \
    }                                                                                              \
    CANNERY_ORDERED(mul_lane##k, f32x4, "fmul %0.4s, %1.4s, %2.s[" #k "]")
#define CANNERY_ORDERED(word, T, instruction)                                                      \
    CANNERY_INLINE f32x4 f32x4_##word##_ordered(f32x4 a, T b)                                      \
    {                                                                                              \
        f32x4 v;                                                                                   \
        __asm__ volatile(instruction : "=w"(v) : "w"(a), "w"(b));                                  \
        return v;                                                                                  \
    }
CANNERY_ORDERED(add, f32x4, "fadd %0.4s, %1.4s, %2.4s")
CANNERY_ORDERED(sub, f32x4, "fsub %0.4s, %1.4s, %2.4s")
CANNERY_ORDERED(mul, f32x4, "fmul %0.4s, %1.4s, %2.4s")
CANNERY_ORDERED(max, f32x4, "fmax %0.4s, %1.4s, %2.4s")
CANNERY_ORDERED(min, f32x4, "fmin %0.4s, %1.4s, %2.4s")
CANNERY_ORDERED(mask, i32x4, "and %0.16b, %1.16b, %2.16b")

CANNERY_INLINE f32x4 f32x4_fma_ordered(f32x4 a, f32x4 b, f32x4 c)
{
    __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
    return c;
}

CANNERY_INLINE f32x4 f32x4_fnma_ordered(f32x4 a, f32x4 b, f32x4 c)
{
    __asm__ volatile("fmls %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
    return c;
}

CANNERY_INLINE void f32x4_store_ordered(float *p, f32x4 a)
{
    __asm__ volatile("str %q1, %0" : "=m"(*(cannery_four_floats *)p) : "w"(a));
}

#else
CANNERY_WORD1(f32x4, f32x4_load_ordered, const float *, vld1q_f32(a))
CANNERY_WORD1(f32x4, f32x4_load_low_ordered, const float *,
              vcombine_f32(vld1_f32(a), vdup_n_f32(0.0f)))
CANNERY_WORD1(uint64_t, f32x4_load_high_ordered, const float *,
              vget_lane_u64(vreinterpret_u64_f32(vld1_f32(a + 2)), 0))

CANNERY_INLINE f32x4 f32x4_join_ordered(f32x4 low, uint64_t high)
{
    return vreinterpretq_f32_u64(vsetq_lane_u64(high, vreinterpretq_u64_f32(low), 1));
}

#define CANNERY_ORDERED_FMA(k)                                                                     \
    CANNERY_INLINE f32x4 f32x4_fma_lane##k##_ordered(f32x4 a, f32x4 b, f32x4 c)                    \
    {                                                                                              \
        return f32x4_fma_lane##k(a, b, c);                                                         \
    }                                                                                              \
    CANNERY_INLINE f32x4 f32x4_mul_lane##k##_ordered(f32x4 a, f32x4 b)                             \
    {                                                                                              \
        return vmulq_laneq_f32(a, b, k);                                                           \
    }
CANNERY_WORD2(f32x4, f32x4_add_ordered, f32x4, f32x4_add(a, b))
CANNERY_WORD2(f32x4, f32x4_sub_ordered, f32x4, f32x4_sub(a, b))
CANNERY_WORD2(f32x4, f32x4_mul_ordered, f32x4, f32x4_mul(a, b))
CANNERY_WORD2(f32x4, f32x4_max_ordered, f32x4, f32x4_max(a, b))
CANNERY_WORD2(f32x4, f32x4_min_ordered, f32x4, f32x4_min(a, b))

CANNERY_INLINE f32x4 f32x4_mask_ordered(f32x4 a, i32x4 b)
{
    return vreinterpretq_f32_s32(vandq_s32(vreinterpretq_s32_f32(a), b));
}

CANNERY_INLINE f32x4 f32x4_fma_ordered(f32x4 a, f32x4 b, f32x4 c)
{
    return f32x4_fma(a, b, c);
}

CANNERY_INLINE f32x4 f32x4_fnma_ordered(f32x4 a, f32x4 b, f32x4 c)
{
    return f32x4_fnma(a, b, c);
}

CANNERY_INLINE void f32x4_store_ordered(float *p, f32x4 a)
{
    f32x4_store(p, a);
}
#endif
CANNERY_ORDERED_FMA(0)
CANNERY_ORDERED_FMA(1)
CANNERY_ORDERED_FMA(2)
CANNERY_ORDERED_FMA(3)
#undef CANNERY_ORDERED_FMA
#undef CANNERY_ORDERED
#endif

/* ---- conversion and rounding ------------------------------------------- */

#define CANNERY_OWN_CONVERSION 1
CANNERY_WORD1(i32x4, f32x4_to_i32, f32x4, vcvtq_s32_f32(a))

#define CANNERY_OWN_ROUNDING 1
#if defined(__aarch64__)
CANNERY_WORD1(f32x4, f32x4_round, f32x4, vrndnq_f32(a))
CANNERY_WORD1(f32x4, f32x4_floor, f32x4, vrndmq_f32(a))
CANNERY_WORD1(f32x4, f32x4_ceil, f32x4, vrndpq_f32(a))
CANNERY_WORD1(f32x4, f32x4_trunc, f32x4, vrndq_f32(a))
CANNERY_WORD1(i32x4, f32x4_to_i32_round, f32x4, vcvtnq_s32_f32(a))
#else
/* `integral` where |v| < 2^23, with the sign of v; else v, which is an integer,
 * an infinity or NaN. */
CANNERY_INLINE f32x4 f32x4_integral_or_self(f32x4 integral, f32x4 v)
{
    const uint32x4_t small = f32x4_lt(vabsq_f32(v), vdupq_n_f32(8388608.0f));
    return vbslq_f32(small, f32x4_copysign(integral, v), v);
}

/* 2^23 pushes the fraction out, to the nearest even: NEON always rounds so. */
CANNERY_INLINE f32x4 f32x4_round(f32x4 v)
{
    const float32x4_t big = vdupq_n_f32(8388608.0f);
    return f32x4_integral_or_self(vsubq_f32(vaddq_f32(vabsq_f32(v), big), big), v);
}

CANNERY_INLINE f32x4 f32x4_trunc(f32x4 v)
{
    return f32x4_integral_or_self(vcvtq_f32_s32(vcvtq_s32_f32(v)), v);
}

CANNERY_INLINE f32x4 f32x4_floor(f32x4 v)
{
    const float32x4_t t = f32x4_trunc(v);
    const uint32x4_t one = vreinterpretq_u32_f32(vdupq_n_f32(1.0f));
    return vsubq_f32(t, vreinterpretq_f32_u32(vandq_u32(f32x4_gt(t, v), one)));
}

CANNERY_INLINE f32x4 f32x4_ceil(f32x4 v)
{
    return vnegq_f32(f32x4_floor(vnegq_f32(v)));
}

CANNERY_INLINE i32x4 f32x4_to_i32_round(f32x4 v)
{
    return vcvtq_s32_f32(f32x4_round(v));
}
#endif

/* ---- across lanes ------------------------------------------------------ */

#define CANNERY_OWN_FOLDS 1
CANNERY_INLINE float f32x4_hsum(f32x4 v)
{
    const float32x2_t pair = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpadd_f32(pair, pair), 0);
}

CANNERY_INLINE float f32x4_hmax(f32x4 v)
{
    const float32x2_t pair = vmax_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpmax_f32(pair, pair), 0);
}

CANNERY_INLINE float f32x4_hmin(f32x4 v)
{
    const float32x2_t pair = vmin_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpmin_f32(pair, pair), 0);
}

#define CANNERY_OWN_MOVES 1
CANNERY_WORD1(f32x4, f32x4_rotate1, f32x4, vextq_f32(a, a, 1))
CANNERY_WORD1(f32x4, f32x4_rotate2, f32x4, vextq_f32(a, a, 2))
CANNERY_WORD1(f32x4, f32x4_rotate3, f32x4, vextq_f32(a, a, 3))
CANNERY_WORD1(f32x4, f32x4_lane0, f32x4, vdupq_lane_f32(vget_low_f32(a), 0))
CANNERY_WORD1(f32x4, f32x4_lane1, f32x4, vdupq_lane_f32(vget_low_f32(a), 1))
CANNERY_WORD1(f32x4, f32x4_lane2, f32x4, vdupq_lane_f32(vget_high_f32(a), 0))
CANNERY_WORD1(f32x4, f32x4_lane3, f32x4, vdupq_lane_f32(vget_high_f32(a), 1))

#define CANNERY_OWN_TRANSPOSE 1
CANNERY_INLINE void f32x4_transpose4(f32x4 *a, f32x4 *b, f32x4 *c, f32x4 *d)
{
    const float32x4x2_t ab = vtrnq_f32(*a, *b);
    const float32x4x2_t cd = vtrnq_f32(*c, *d);
    *a = vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(cd.val[0]));
    *b = vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(cd.val[1]));
    *c = vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(cd.val[0]));
    *d = vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(cd.val[1]));
}

/* ---- bytes and int16 as floats ----------------------------------------- */

#define CANNERY_OWN_NARROW_LOADS 1
CANNERY_INLINE f32x4 f32x4_load_u8(const uint8_t *p)
{
    uint32_t bytes;
    uint16x8_t words;
    memcpy(&bytes, p, sizeof bytes);
    words = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(bytes)));
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(words)));
}

CANNERY_INLINE f32x4 f32x4_load_i8(const int8_t *p)
{
    uint32_t bytes;
    int16x8_t words;
    memcpy(&bytes, p, sizeof bytes);
    words = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(bytes)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
}

CANNERY_INLINE f32x4 f32x4_load_s16(const int16_t *p)
{
    return vcvtq_f32_s32(vmovl_s16(vld1_s16(p)));
}

/* ---- float16 ----------------------------------------------------------- */

#if defined(__aarch64__) || defined(CANNERY_HAS_ARM_F16)
#define CANNERY_OWN_LOAD_F16 1
#define CANNERY_OWN_LOAD1_F16 1
CANNERY_INLINE f32x4 f32x4_of_f16(uint16x4_t halves)
{
#if defined(__aarch64__)
    return vcvt_f32_f16(vreinterpret_f16_u16(halves));
#else
    f32x4 v; /* the intrinsic needs -mfp16-format=ieee */
    __asm__("vcvt.f32.f16 %q0, %P1" : "=w"(v) : "w"(halves));
    return v;
#endif
}

CANNERY_WORD1(f32x4, f32x4_load_f16, const uint16_t *, f32x4_of_f16(vld1_u16(a)))
CANNERY_WORD1(f32x4, f32x4_load1_f16, const uint16_t *, f32x4_of_f16(vld1_dup_u16(a)))
#endif

/* ---- bytes and int16 from floats ---------------------------------------- */

/* Conversions and narrowing saturate, and turn NaN into 0, on their own. Those of AArch64 leave
 * zeros after what they narrow. */
#if defined(__aarch64__)
#define CANNERY_WIDER_S16(words) vcombine_s16(words, vdup_n_s16(0))
#define CANNERY_WIDER_U16(words) vcombine_u16(words, vdup_n_u16(0))
#else
#define CANNERY_WIDER_S16(words) vcombine_s16(words, words)
#define CANNERY_WIDER_U16(words) vcombine_u16(words, words)
#endif
CANNERY_INLINE void f32x4_u8_of(uint8_t *p, i32x4 k)
{
    const uint16x4_t words = vqmovun_s32(k);
    const uint8x8_t narrow = vqmovn_u16(CANNERY_WIDER_U16(words));
    const uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(narrow), 0);
    memcpy(p, &bytes, sizeof bytes);
}

CANNERY_INLINE void f32x4_i8_of(int8_t *p, i32x4 k)
{
    const int16x4_t words = vqmovn_s32(k);
    const int8x8_t narrow = vqmovn_s16(CANNERY_WIDER_S16(words));
    const uint32_t bytes = vget_lane_u32(vreinterpret_u32_s8(narrow), 0);
    memcpy(p, &bytes, sizeof bytes);
}
#undef CANNERY_WIDER_S16
#undef CANNERY_WIDER_U16

#define CANNERY_OWN_NARROW_STORES 1
#define CANNERY_OWN_PUT2 1
#define CANNERY_NARROW(name, type, store, both)                                                    \
    CANNERY_INLINE void f32x4_store_##name(type *p, f32x4 v)                                       \
    {                                                                                              \
        const i32x4 k = f32x4_to_i32_round(v);                                                     \
        store;                                                                                     \
    }                                                                                              \
    CANNERY_INLINE void f32x4_put_##name(type *p, f32x4 v, int32_t zero)                           \
    {                                                                                              \
        const i32x4 k = vaddq_s32(f32x4_to_i32_round(v), vdupq_n_s32(zero));                       \
        store;                                                                                     \
    }                                                                                              \
    CANNERY_INLINE void f32x4_put2_##name(type *p, f32x4 v, f32x4 w, int32_t zero)                 \
    {                                                                                              \
        const i32x4 k = vaddq_s32(f32x4_to_i32_round(v), vdupq_n_s32(zero));                       \
        const i32x4 l = vaddq_s32(f32x4_to_i32_round(w), vdupq_n_s32(zero));                       \
        both;                                                                                      \
    }
CANNERY_NARROW(u8, uint8_t, f32x4_u8_of(p, k),
               vst1_u8(p, vqmovun_s16(vcombine_s16(vqmovn_s32(k), vqmovn_s32(l)))))
CANNERY_NARROW(i8, int8_t, f32x4_i8_of(p, k),
               vst1_s8(p, vqmovn_s16(vcombine_s16(vqmovn_s32(k), vqmovn_s32(l)))))
CANNERY_NARROW(s16, int16_t, vst1_s16(p, vqmovn_s32(k)),
               vst1q_s16(p, vcombine_s16(vqmovn_s32(k), vqmovn_s32(l))))
#undef CANNERY_NARROW

#if defined(__aarch64__)
CANNERY_INLINE void f32x4_put2_i8_held(int8_t *p, f32x4 v, f32x4 w, int8_t low, int8_t high)
{
    const int16x4_t first = vqmovn_s32(f32x4_to_i32_round(v));
    int8x8_t bytes = vqmovn_s16(vqmovn_high_s32(first, f32x4_to_i32_round(w)));
    if (low > -128) {
        bytes = vmax_s8(bytes, vdup_n_s8(low));
    }
    if (high < 127) {
        bytes = vmin_s8(bytes, vdup_n_s8(high));
    }
    vst1_s8(p, bytes);
}

CANNERY_INLINE void f32x4_put2_i8_positive(int8_t *p, f32x4 v, f32x4 w)
{
    const uint16x4_t first = vqmovun_s32(f32x4_to_i32_round(v));
    const uint16x8_t both = vqmovun_high_s32(first, f32x4_to_i32_round(w));
    vst1_s8(p, vqmovn_s16(vreinterpretq_s16_u16(both)));
}
#endif

/* ---- int16: the first numbers of four pairs, then the second ones ------- */

typedef int16x8_t p16x4;

#define CANNERY_OWN_INTERPOLATE 1
CANNERY_INLINE i32x4 i32x4_interpolate(i32x4 entry, i32x4 fraction)
{
    const int16x4_t base = vshrn_n_s32(entry, 16), delta = vmovn_s32(entry);
    return vmlal_s16(vshll_n_s16(base, 14), delta, vmovn_s32(fraction));
}

#define CANNERY_OWN_PAIRS 1
CANNERY_WORD1(p16x4, p16x4_load, const int16_t *, vld1q_s16(a))
CANNERY_WORD1(p16x4, p16x4_load1, const int16_t *,
              vcombine_s16(vld1_dup_s16(a), vld1_dup_s16(a + 1)))
CANNERY_WORD1(p16x4, p16x4_load_u8, const uint8_t *, vreinterpretq_s16_u16(vmovl_u8(vld1_u8(a))))
CANNERY_WORD1(p16x4, p16x4_load_i8, const int8_t *, vmovl_s8(vld1_s8(a)))
CANNERY_WORD2(p16x4, p16x4_add, p16x4, vaddq_s16(a, b))
CANNERY_WORD2(p16x4, p16x4_sub, p16x4, vsubq_s16(a, b))

CANNERY_INLINE p16x4 p16x4_load1_n(const int16_t *p, int n)
{
    return vcombine_s16(vld1_dup_s16(p), n > 1 ? vld1_dup_s16(p + 1) : vdup_n_s16(0));
}

CANNERY_INLINE p16x4 p16x4_pair(const int16_t *p, const int16_t *q)
{
    return vcombine_s16(vld1_s16(p), vld1_s16(q));
}

CANNERY_INLINE void p16x4_pair2(const int16_t *p, const int16_t *q, p16x4 *a, p16x4 *b)
{
    *a = p16x4_pair(p, q);
    *b = p16x4_pair(p + 4, q + 4);
}

CANNERY_INLINE void p16x4_store(int16_t *p, p16x4 v)
{
    vst1q_s16(p, v);
}

CANNERY_INLINE i32x4 i32x4_dot(p16x4 a, p16x4 b, i32x4 acc)
{
#if defined(__aarch64__)
    return vmlal_high_s16(vmlal_s16(acc, vget_low_s16(a), vget_low_s16(b)), a, b);
#else
    acc = vmlal_s16(acc, vget_low_s16(a), vget_low_s16(b));
    return vmlal_s16(acc, vget_high_s16(a), vget_high_s16(b));
#endif
}

/* ---- int8 -------------------------------------------------------------- */

#define CANNERY_OWN_BYTES 1
typedef int8x16_t q8x4;

CANNERY_WORD1(q8x4, q8x4_load, const int8_t *, vld1q_s8(a))
CANNERY_WORD1(q8x4, q8x4_flip, q8x4, veorq_s8(a, vdupq_n_s8(-128)))

#if defined(__ARM_FEATURE_DOTPROD)
CANNERY_INLINE q8x4 q8x4_load1_n(const int8_t *p, int n)
{
    return vreinterpretq_s8_s32(vdupq_n_s32(cannery_bytes4(p, n)));
}

CANNERY_INLINE i32x4 i32x4_dot4(q8x4 a, q8x4 b, i32x4 acc)
{
    return vdotq_s32(acc, a, b);
}
#else
/* The first two of each four numbers, then the other two. */
#define CANNERY_TWOS_APART 1
CANNERY_INLINE q8x4 q8x4_load1_n(const int8_t *p, int n)
{
    const int16x4_t four = vreinterpret_s16_s32(vdup_n_s32(cannery_bytes4(p, n)));
    return vreinterpretq_s8_s16(vcombine_s16(vdup_lane_s16(four, 0), vdup_lane_s16(four, 1)));
}

/* Two products fit int16: 2 * 128 * 127 = 32512. */
CANNERY_INLINE i32x4 i32x4_dot4(q8x4 a, q8x4 b, i32x4 acc)
{
    const int16x8_t first = vmull_s8(vget_low_s8(a), vget_low_s8(b));
#if defined(__aarch64__)
    return vpadalq_s16(acc, vmlal_high_s8(first, a, b));
#else
    return vpadalq_s16(acc, vmlal_s8(first, vget_high_s8(a), vget_high_s8(b)));
#endif
}
#endif

CANNERY_INLINE i32x4 i32x4_dot4w(q8x4 a, q8x4 b, i32x4 acc)
{
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(acc, a, b);
#else
    acc = vpadalq_s16(acc, vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    return vpadalq_s16(acc, vmull_s8(vget_high_s8(a), vget_high_s8(b)));
#endif
}

CANNERY_WORD1(q8x4, q8x4_load1, const int8_t *, q8x4_load1_n(a, 4))

/* ---- products with group k of a, the same in all lanes ------------------ */

#define CANNERY_HAS_LANE_DOT 1
CANNERY_WORD1(p16x4, p16x4_load4, const int16_t *, vld1q_s16(a))
CANNERY_WORD1(q8x4, q8x4_load4, const int8_t *, vld1q_s8(a))

CANNERY_INLINE q8x4 q8x4_load4_n(const int8_t *p, int n)
{
    int32x4_t v = vdupq_n_s32(0);
    if (n >= 8) {
        v = vcombine_s32(vreinterpret_s32_s8(vld1_s8(p)), vdup_n_s32(0));
        if (n > 8) {
            v = vsetq_lane_s32(cannery_bytes4(p + 8, n < 12 ? n - 8 : 4), v, 2);
        }
        if (n > 12) {
            v = vsetq_lane_s32(cannery_bytes4(p + 12, n - 12), v, 3);
        }
    } else {
        v = vsetq_lane_s32(cannery_bytes4(p, n < 4 ? n : 4), v, 0);
        if (n > 4) {
            v = vsetq_lane_s32(cannery_bytes4(p + 4, n - 4), v, 1);
        }
    }
    return vreinterpretq_s8_s32(v);
}

CANNERY_INLINE p16x4 p16x4_load4_n(const int16_t *p, int n)
{
    return vreinterpretq_s16_s8(q8x4_load4_n((const int8_t *)p, 2 * n));
}

#define CANNERY_LANE_DOT(word, k, type, sum)                                                       \
    CANNERY_INLINE i32x4 i32x4_##word##_lane##k(type a, type b, i32x4 acc)                         \
    {                                                                                              \
        return sum;                                                                                \
    }
#if defined(__aarch64__)
#define CANNERY_LANE_PAIRS(k, half, first)                                                         \
    CANNERY_LANE_DOT(dot, k, p16x4,                                                                \
                     vmlal_high_laneq_s16(vmlal_laneq_s16(acc, vget_low_s16(b), a, 2 * k), b, a,   \
                                          2 * k + 1))
#else
#define CANNERY_LANE_PAIRS(k, half, first)                                                         \
    CANNERY_LANE_DOT(dot, k, p16x4,                                                                \
                     vmlal_lane_s16(vmlal_lane_s16(acc, vget_low_s16(b), half(a), first),          \
                                    vget_high_s16(b), half(a), first + 1))
#endif
#if defined(__ARM_FEATURE_DOTPROD)
#define CANNERY_LANE_FOURS(k, half, first)                                                         \
    CANNERY_LANE_DOT(dot4, k, q8x4, vdotq_laneq_s32(acc, b, a, k))                                 \
    CANNERY_LANE_DOT(dot4w, k, q8x4, vdotq_laneq_s32(acc, b, a, k))
#elif defined(__aarch64__)
#define CANNERY_TWO(k, a) vdupq_laneq_s16(vreinterpretq_s16_s8(a), k)
#define CANNERY_LOW_TWO(k, a) vreinterpret_s8_s16(vdup_laneq_s16(vreinterpretq_s16_s8(a), k))
#define CANNERY_FIRST(k) vmull_s8(CANNERY_LOW_TWO(2 * k, a), vget_low_s8(b))
#define CANNERY_SECOND(k) vreinterpretq_s8_s16(CANNERY_TWO(2 * k + 1, a)), b
#define CANNERY_LANE_FOURS(k, half, first)                                                         \
    CANNERY_LANE_DOT(dot4, k, q8x4,                                                                \
                     vpadalq_s16(acc, vmlal_high_s8(CANNERY_FIRST(k), CANNERY_SECOND(k))))         \
    CANNERY_LANE_DOT(dot4w, k, q8x4,                                                               \
                     vpadalq_s16(vpadalq_s16(acc, CANNERY_FIRST(k)),                               \
                                 vmull_high_s8(CANNERY_SECOND(k))))
#else
#define CANNERY_LANE_FOURS(k, half, first)                                                         \
    CANNERY_INLINE q8x4 q8x4_lane##k(q8x4 a)                                                       \
    {                                                                                              \
        const int16x4_t twos = half(vreinterpretq_s16_s8(a));                                      \
        return vreinterpretq_s8_s16(                                                               \
            vcombine_s16(vdup_lane_s16(twos, first), vdup_lane_s16(twos, first + 1)));             \
    }                                                                                              \
    CANNERY_LANE_DOT(dot4, k, q8x4, i32x4_dot4(q8x4_lane##k(a), b, acc))                           \
    CANNERY_LANE_DOT(dot4w, k, q8x4, i32x4_dot4w(q8x4_lane##k(a), b, acc))
#endif
#define CANNERY_LANE_GROUPS(k, half, first)                                                        \
    CANNERY_LANE_PAIRS(k, half, first)                                                             \
    CANNERY_LANE_FOURS(k, half, first)
CANNERY_LANE_GROUPS(0, vget_low_s16, 0)
CANNERY_LANE_GROUPS(1, vget_low_s16, 2)
CANNERY_LANE_GROUPS(2, vget_high_s16, 0)
CANNERY_LANE_GROUPS(3, vget_high_s16, 2)
#undef CANNERY_LANE_GROUPS
#undef CANNERY_LANE_FOURS
#undef CANNERY_LANE_PAIRS
#undef CANNERY_LANE_DOT
#undef CANNERY_SECOND
#undef CANNERY_FIRST
#undef CANNERY_LOW_TWO
#undef CANNERY_TWO

/* ---- ordered products of bytes ------------------------------------------ */

#if defined(CANNERY_HAS_ORDERED)
/* With vectors of first and of second twos, see CANNERY_TWOS_APART; compilers keep their order. */
#if defined(__GNUC__)
typedef int8_t cannery_eight_bytes __attribute__((vector_size(8), may_alias, aligned(1)));

CANNERY_INLINE q8x4 q8x4_load_low_ordered(const int8_t *p)
{
    q8x4 v;
    __asm__ volatile("ldr %d0, %1" : "=w"(v) : "m"(*(const cannery_eight_bytes *)p));
    return v;
}

CANNERY_INLINE uint64_t q8x4_load_high_ordered(const int8_t *p)
{
    uint64_t high;
    __asm__ volatile("ldr %0, %1" : "=r"(high) : "m"(*(const cannery_eight_bytes *)(p + 8)));
    return high;
}

CANNERY_INLINE q8x4 q8x4_join_ordered(q8x4 low, uint64_t high)
{
    __asm__ volatile("ins %0.d[1], %1" : "+w"(low) : "r"(high));
    return low;
}

CANNERY_INLINE p16x4 p16x4_mul_low_ordered(q8x4 a, q8x4 b)
{
    p16x4 v;
    __asm__ volatile("smull %0.8h, %1.8b, %2.8b" : "=w"(v) : "w"(a), "w"(b));
    return v;
}

CANNERY_INLINE p16x4 p16x4_mul_high_ordered(q8x4 a, q8x4 b)
{
    p16x4 v;
    __asm__ volatile("smull2 %0.8h, %1.16b, %2.16b" : "=w"(v) : "w"(a), "w"(b));
    return v;
}

CANNERY_INLINE p16x4 p16x4_mla_high_ordered(q8x4 a, q8x4 b, p16x4 c)
{
    __asm__ volatile("smlal2 %0.8h, %1.16b, %2.16b" : "+w"(c) : "w"(a), "w"(b));
    return c;
}

CANNERY_INLINE i32x4 i32x4_add_pairs_ordered(p16x4 a, i32x4 c)
{
    __asm__ volatile("sadalp %0.4s, %1.8h" : "+w"(c) : "w"(a));
    return c;
}

/* Bytes 4k and 4k + 1, to be multiplied by low halves, and 4k + 2 and 4k + 3, by high ones. */
#define CANNERY_ORDERED_BYTES(k, first, second)                                                    \
    CANNERY_INLINE q8x4 q8x4_first_two##k##_ordered(q8x4 a)                                        \
    {                                                                                              \
        q8x4 v;                                                                                    \
        __asm__ volatile("dup %0.4h, %1.h[" #first "]" : "=w"(v) : "w"(a));                        \
        return v;                                                                                  \
    }                                                                                              \
    CANNERY_INLINE q8x4 q8x4_second_two##k##_ordered(q8x4 a)                                       \
    {                                                                                              \
        q8x4 v;                                                                                    \
        __asm__ volatile("dup %0.8h, %1.h[" #second "]" : "=w"(v) : "w"(a));                       \
        return v;                                                                                  \
    }
#if defined(__ARM_FEATURE_DOTPROD)
#define CANNERY_ORDERED_DOT(k)                                                                     \
    CANNERY_INLINE i32x4 i32x4_dot4_lane##k##_ordered(q8x4 a, q8x4 b, i32x4 c)                     \
    {                                                                                              \
        __asm__ volatile("sdot %0.4s, %1.16b, %2.4b[" #k "]" : "+w"(c) : "w"(b), "w"(a));          \
        return c;                                                                                  \
    }
#endif
#else
CANNERY_WORD1(q8x4, q8x4_load_low_ordered, const int8_t *,
              vcombine_s8(vld1_s8(a), vdup_n_s8(0)))
CANNERY_WORD1(uint64_t, q8x4_load_high_ordered, const int8_t *,
              vget_lane_u64(vreinterpret_u64_s8(vld1_s8(a + 8)), 0))
CANNERY_WORD2(p16x4, p16x4_mul_low_ordered, q8x4,
              vmull_s8(vget_low_s8(a), vget_low_s8(b)))
CANNERY_WORD2(p16x4, p16x4_mul_high_ordered, q8x4, vmull_high_s8(a, b))

CANNERY_INLINE q8x4 q8x4_join_ordered(q8x4 low, uint64_t high)
{
    return vreinterpretq_s8_u64(vsetq_lane_u64(high, vreinterpretq_u64_s8(low), 1));
}

CANNERY_INLINE p16x4 p16x4_mla_high_ordered(q8x4 a, q8x4 b, p16x4 c)
{
    return vmlal_high_s8(c, a, b);
}

CANNERY_INLINE i32x4 i32x4_add_pairs_ordered(p16x4 a, i32x4 c)
{
    return vpadalq_s16(c, a);
}

#define CANNERY_ORDERED_BYTES(k, first, second)                                                    \
    CANNERY_WORD1(q8x4, q8x4_first_two##k##_ordered, q8x4,                                         \
                  vreinterpretq_s8_s16(vdupq_laneq_s16(vreinterpretq_s16_s8(a), first)))           \
    CANNERY_WORD1(q8x4, q8x4_second_two##k##_ordered, q8x4,                                        \
                  vreinterpretq_s8_s16(vdupq_laneq_s16(vreinterpretq_s16_s8(a), second)))
#if defined(__ARM_FEATURE_DOTPROD)
#define CANNERY_ORDERED_DOT(k)                                                                     \
    CANNERY_INLINE i32x4 i32x4_dot4_lane##k##_ordered(q8x4 a, q8x4 b, i32x4 c)                     \
    {                                                                                              \
        return vdotq_laneq_s32(c, b, a, k);                                                        \
    }
#endif
#endif
CANNERY_ORDERED_BYTES(0, 0, 1)
CANNERY_ORDERED_BYTES(1, 2, 3)
CANNERY_ORDERED_BYTES(2, 4, 5)
CANNERY_ORDERED_BYTES(3, 6, 7)
#undef CANNERY_ORDERED_BYTES
#if defined(__ARM_FEATURE_DOTPROD)
CANNERY_ORDERED_DOT(0)
CANNERY_ORDERED_DOT(1)
CANNERY_ORDERED_DOT(2)
CANNERY_ORDERED_DOT(3)
#undef CANNERY_ORDERED_DOT
#endif
#endif

/* ---- byte_table --------------------------------------------------------- */

#if defined(__aarch64__)
#define CANNERY_HAS_BYTE_TABLE 1
/* A quarter of a table. */
CANNERY_INLINE uint8x16x4_t cannery_load_64_bytes(const uint8_t *p)
{
#if defined(__clang__) || __GNUC__ >= 10
    return vld1q_u8_x4(p); /* what gcc keeps in registers */
#else
    const uint8x16x4_t quarter = { { vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48) } };
    return quarter;
#endif
}

/* The table lies in 16 registers. An instruction looks up 64 bytes of it: of places beyond them, `tbl`
 * makes zeros, and `tbx` what was there before. */
CANNERY_INLINE void f32x4_bytes_by_table(void *y, const void *x, ptrdiff_t n, const void *table)
{
    const uint8_t *const t = (const uint8_t *)table, *from = (const uint8_t *)x;
    uint8_t *to = (uint8_t *)y;
    const uint8x16x4_t first = cannery_load_64_bytes(t), second = cannery_load_64_bytes(t + 64);
    const uint8x16x4_t third = cannery_load_64_bytes(t + 128), last = cannery_load_64_bytes(t + 192);
    const uint8x16_t size = vdupq_n_u8(64);
    for (; n >= 16; n -= 16, from += 16, to += 16) {
        uint8x16_t k = vld1q_u8(from);
        uint8x16_t found = vqtbl4q_u8(first, k);
        k = vsubq_u8(k, size);
        found = vqtbx4q_u8(found, second, k);
        k = vsubq_u8(k, size);
        found = vqtbx4q_u8(found, third, k);
        k = vsubq_u8(k, size);
        vst1q_u8(to, vqtbx4q_u8(found, last, k));
    }
    for (; n > 0; --n) {
        *to++ = t[*from++];
    }
}
#endif

/* ---- products of matrices of bytes -------------------------------------- */

#if defined(__ARM_FEATURE_MATMUL_INT8)
#define CANNERY_HAS_MMLA 1
/* gcc would make one load into the second half, which needs an address of its own. */
CANNERY_INLINE q8x4 q8x4_two_rows(const int8_t *p, const int8_t *q)
{
    int8x8_t first = vld1_s8(p), second = vld1_s8(q);
    CANNERY_OPAQUE_VEC(first);
    CANNERY_OPAQUE_VEC(second);
    return vcombine_s8(first, second);
}

CANNERY_INLINE q8x4 q8x4_two_rows_n(const int8_t *p, const int8_t *q, int n)
{
    return vcombine_s8(vget_low_s8(q8x4_load4_n(p, n)), vget_low_s8(q8x4_load4_n(q, n)));
}

CANNERY_INLINE void q8x4_to_rows(q8x4 *a, q8x4 *b)
{
    const int64x2_t x = vreinterpretq_s64_s8(*a), y = vreinterpretq_s64_s8(*b);
    *a = vreinterpretq_s8_s64(vzip1q_s64(x, y));
    *b = vreinterpretq_s8_s64(vzip2q_s64(x, y));
}

CANNERY_INLINE i32x4 i32x4_mmla(q8x4 a, q8x4 b, i32x4 acc)
{
    return vmmlaq_s32(acc, a, b);
}

CANNERY_INLINE void i32x4_to_rows(i32x4 *a, i32x4 *b)
{
    const int64x2_t x = vreinterpretq_s64_s32(*a), y = vreinterpretq_s64_s32(*b);
    *a = vreinterpretq_s32_s64(vzip1q_s64(x, y));
    *b = vreinterpretq_s32_s64(vzip2q_s64(x, y));
}
#endif

/* ---- products of bytes in int16 ----------------------------------------- */

#define CANNERY_HAS_BYTE_PRODUCTS 1
typedef int8x8_t b8x8;

CANNERY_WORD1(b8x8, b8x8_load, const int8_t *, vld1_s8(a))
CANNERY_WORD1(b8x8, b8x8_flip, b8x8, veor_s8(a, vdup_n_s8(-128)))
CANNERY_WORD2(p16x4, p16x4_mul_bytes, b8x8, vmull_s8(a, b))

CANNERY_INLINE p16x4 p16x4_mla_bytes(b8x8 a, b8x8 b, p16x4 acc)
{
    return vmlal_s8(acc, a, b);
}

CANNERY_INLINE i32x4 i32x4_add_first(p16x4 a, i32x4 acc)
{
    return vaddw_s16(acc, vget_low_s16(a));
}

CANNERY_INLINE i32x4 i32x4_add_second(p16x4 a, i32x4 acc)
{
#if defined(__aarch64__)
    return vaddw_high_s16(acc, a);
#else
    return vaddw_s16(acc, vget_high_s16(a));
#endif
}

#define CANNERY_LANES 4
#include "vec_base.h"
#undef CANNERY_LANES

#endif
