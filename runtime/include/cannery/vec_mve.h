/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary, four lanes in the registers of Arm's M-profile vector extension
 * (Helium: Cortex-M55, M85). The words are documented in vec_scalar.h. Vector arithmetic flushes
 * subnormals to zero, also in comparisons; that of one lane does not.
 *
 * Lanes of a comparison are bits of the predicate register VPR. gcc 12 takes predicates through a
 * core register after every intrinsic, so words that use one within themselves are assembly.
 */
#ifndef CANNERY_VEC_MVE_H
#define CANNERY_VEC_MVE_H

#if !defined(__ARM_FEATURE_MVE) || !(__ARM_FEATURE_MVE & 2)
#error "cannery: vec_mve.h needs MVE with floats, such as -mcpu=cortex-m55 -mfloat-abi=hard"
#endif

#include <arm_mve.h>

#define CANNERY_COPY(to, from, bytes) cannery_mve_copy(to, from, bytes)
#include "vec_types.h"

typedef float32x4_t f32x4;
typedef int32x4_t i32x4;
typedef mve_pred16_t m32x4;

#define CANNERY_HAS_F32X4 1
#define CANNERY_PAIRS_APART 1
#define CANNERY_HAS_LOW_BYTES 1

/* ---- memory ------------------------------------------------------------ */

/* A load of the first n numbers, zeros after them; a store of them; a where `more` > `less`, else
 * b. Forms that widen or narrow know only the low registers as addresses. */
#if defined(__clang__)
#define CANNERY_MVE_LOAD_N(word, vector, type, bits, form, load, store)                            \
    CANNERY_INLINE vector word(const type *p, int n)                                               \
    {                                                                                              \
        return load(p, vctp##bits##q((uint32_t)n));                                                \
    }
#define CANNERY_MVE_STORE_N(word, vector, type, bits, form, load, store)                           \
    CANNERY_INLINE void word(type *p, vector v, int n)                                             \
    {                                                                                              \
        store(p, v, vctp##bits##q((uint32_t)n));                                                   \
    }
#define CANNERY_MVE_CHOSEN(word, less, more)                                                       \
    CANNERY_WORD2(f32x4, word, f32x4, vpselq_f32(a, b, vcmpgtq_f32(more, less)))
#else
#define CANNERY_MVE_LOAD_N(word, vector, type, bits, form, load, store)                            \
    CANNERY_INLINE vector word(const type *p, int n)                                               \
    {                                                                                              \
        vector v;                                                                                  \
        __asm__("vctp." #bits " %1\n\tvpst\n\tvldr" form " %q0, [%2]"                              \
                : "=w"(v)                                                                          \
                : "r"(n), "l"(p)                                                                   \
                : "p0", "memory");                                                                 \
        return v;                                                                                  \
    }
#define CANNERY_MVE_STORE_N(word, vector, type, bits, form, load, store)                           \
    CANNERY_INLINE void word(type *p, vector v, int n)                                             \
    {                                                                                              \
        __asm__ volatile("vctp." #bits " %0\n\tvpst\n\tvstr" form " %q2, [%1]"                     \
                         :                                                                         \
                         : "r"(n), "l"(p), "w"(v)                                                  \
                         : "p0", "memory");                                                        \
    }
#define CANNERY_MVE_CHOSEN(word, less, more)                                                       \
    CANNERY_INLINE f32x4 word(f32x4 a, f32x4 b)                                                    \
    {                                                                                              \
        f32x4 v;                                                                                   \
        __asm__("vcmp.f32 gt, %q[" #more "], %q[" #less "]\n\tvpsel %q[v], %q[a], %q[b]"           \
                : [v] "=w"(v)                                                                      \
                : [a] "w"(a), [b] "w"(b)                                                           \
                : "p0");                                                                           \
        return v;                                                                                  \
    }
#endif

CANNERY_MVE_LOAD_N(cannery_mve_load_bytes, uint8x16_t, uint8_t, 8, "bt.8", vldrbq_z_u8, )
CANNERY_MVE_STORE_N(cannery_mve_store_bytes, uint8x16_t, uint8_t, 8, "bt.8", , vstrbq_p_u8)

/* Up to 16 bytes. */
CANNERY_INLINE void cannery_mve_copy(void *to, const void *from, size_t bytes)
{
    const int n = (int)bytes;
    cannery_mve_store_bytes((uint8_t *)to, cannery_mve_load_bytes((const uint8_t *)from, n), n);
}

#define CANNERY_OWN_SET 1
CANNERY_WORD1(f32x4, f32x4_set1, float, vdupq_n_f32(a))
CANNERY_WORD1(i32x4, i32x4_set1, int32_t, vdupq_n_s32(a))

CANNERY_INLINE i32x4 i32x4_zero(void)
{
    return vdupq_n_s32(0);
}

CANNERY_INLINE f32x4 f32x4_zero(void)
{
    return vreinterpretq_f32_s32(i32x4_zero());
}

#define CANNERY_OWN_LOADS 1
CANNERY_WORD1(f32x4, f32x4_load, const float *, vldrwq_f32(a))
CANNERY_WORD1(i32x4, i32x4_load, const int32_t *, vldrwq_s32(a))
CANNERY_WORD1(f32x4, f32x4_load_aligned, const float *, vldrwq_f32(a))

CANNERY_INLINE void f32x4_store(float *p, f32x4 v)
{
    vstrwq_f32(p, v);
}

CANNERY_INLINE void f32x4_store_aligned(float *p, f32x4 v)
{
    vstrwq_f32(p, v);
}

CANNERY_INLINE void i32x4_store(int32_t *p, i32x4 v)
{
    vstrwq_s32(p, v);
}

#define CANNERY_OWN_PARTS 1
CANNERY_MVE_LOAD_N(f32x4_load_n, f32x4, float, 32, "wt.32", vldrwq_z_f32, )
CANNERY_MVE_STORE_N(f32x4_store_n, f32x4, float, 32, "wt.32", , vstrwq_p_f32)

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

/* Offsets of lanes in steps of `stride` numbers of 4 bytes, modulo 2^32. */
CANNERY_INLINE uint32x4_t cannery_mve_offsets(ptrdiff_t stride)
{
    return vmulq_n_u32(vidupq_n_u32(0, 4), (uint32_t)stride);
}

#define CANNERY_OWN_LOAD_STRIDE 1
CANNERY_INLINE f32x4 f32x4_load_stride(const float *p, ptrdiff_t stride)
{
    return vldrwq_gather_offset_f32(p, cannery_mve_offsets(stride));
}

#define CANNERY_OWN_STORE_STRIDE 1
CANNERY_INLINE void f32x4_store_stride(float *p, ptrdiff_t stride, f32x4 v)
{
    vstrwq_scatter_offset_f32(p, cannery_mve_offsets(stride), v);
}

#define CANNERY_OWN_LOOKUP 1
CANNERY_INLINE f32x4 f32x4_lookup(const float *table, i32x4 k)
{
    return vldrwq_gather_shifted_offset_f32(table, vreinterpretq_u32_s32(k));
}

CANNERY_INLINE i32x4 i32x4_lookup(const int32_t *table, i32x4 k)
{
    return vldrwq_gather_shifted_offset_s32(table, vreinterpretq_u32_s32(k));
}

/* ---- between lanes: through memory -------------------------------------- */

#define CANNERY_OWN_ZIP 1
CANNERY_INLINE void f32x4_unzip(f32x4 a, f32x4 b, f32x4 *even, f32x4 *odd)
{
    float x[8];
    f32x4_store(x, a);
    f32x4_store(x + 4, b);
    f32x4_load2(x, even, odd);
}

CANNERY_INLINE void f32x4_zip(f32x4 a, f32x4 b, f32x4 *lo, f32x4 *hi)
{
    float x[8];
    f32x4_store2(x, a, b);
    *lo = f32x4_load(x);
    *hi = f32x4_load(x + 4);
}

#define CANNERY_OWN_TRANSPOSE 1
CANNERY_INLINE void f32x4_transpose4(f32x4 *a, f32x4 *b, f32x4 *c, f32x4 *d)
{
    float x[16];
    f32x4_store4(x, *a, *b, *c, *d);
    *a = f32x4_load(x);
    *b = f32x4_load(x + 4);
    *c = f32x4_load(x + 8);
    *d = f32x4_load(x + 12);
}

CANNERY_INLINE f32x4 cannery_mve_slide(f32x4 a, f32x4 b, int by)
{
    float x[8];
    f32x4_store(x, a);
    f32x4_store(x + 4, b);
    return f32x4_load(x + by);
}

#define CANNERY_OWN_SLIDES 1
CANNERY_WORD2(f32x4, f32x4_slide1, f32x4, cannery_mve_slide(a, b, 1))
CANNERY_WORD2(f32x4, f32x4_slide2, f32x4, cannery_mve_slide(a, b, 2))
CANNERY_WORD2(f32x4, f32x4_slide3, f32x4, cannery_mve_slide(a, b, 3))

#define CANNERY_OWN_MOVES 1
CANNERY_WORD1(f32x4, f32x4_rotate1, f32x4, cannery_mve_slide(a, a, 1))
CANNERY_WORD1(f32x4, f32x4_rotate2, f32x4, cannery_mve_slide(a, a, 2))
CANNERY_WORD1(f32x4, f32x4_rotate3, f32x4, cannery_mve_slide(a, a, 3))
CANNERY_WORD1(f32x4, f32x4_lane0, f32x4, vdupq_n_f32(vgetq_lane_f32(a, 0)))
CANNERY_WORD1(f32x4, f32x4_lane1, f32x4, vdupq_n_f32(vgetq_lane_f32(a, 1)))
CANNERY_WORD1(f32x4, f32x4_lane2, f32x4, vdupq_n_f32(vgetq_lane_f32(a, 2)))
CANNERY_WORD1(f32x4, f32x4_lane3, f32x4, vdupq_n_f32(vgetq_lane_f32(a, 3)))

/* ---- arithmetic -------------------------------------------------------- */

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
CANNERY_WORD2(i32x4, i32x4_min, i32x4, vminq_s32(a, b))
CANNERY_WORD2(i32x4, i32x4_max, i32x4, vmaxq_s32(a, b))
CANNERY_WORD1(f32x4, f32x4_from_i32, i32x4, vcvtq_f32_s32(a))

CANNERY_INLINE f32x4 f32x4_copysign(f32x4 magnitude, f32x4 sign)
{
    const int32x4_t top = vdupq_n_s32(INT32_MIN), bits = vreinterpretq_s32_f32(sign);
    const int32x4_t size = vbicq_s32(vreinterpretq_s32_f32(magnitude), top);
    return vreinterpretq_f32_s32(vorrq_s32(size, vandq_s32(bits, top)));
}

CANNERY_MVE_CHOSEN(f32x4_min, a, b)
CANNERY_MVE_CHOSEN(f32x4_max, b, a)
#undef CANNERY_MVE_CHOSEN

/* The FPU divides and takes roots, one lane after the other: s0 to s3 are the lanes of q0. */
#define CANNERY_OWN_DIVISION 1
CANNERY_INLINE f32x4 f32x4_div(f32x4 a, f32x4 b)
{
    register f32x4 x __asm__("q0") = a;
    register f32x4 y __asm__("q1") = b;
    __asm__("vdiv.f32 s0, s0, s4\n\tvdiv.f32 s1, s1, s5\n\t"
            "vdiv.f32 s2, s2, s6\n\tvdiv.f32 s3, s3, s7"
            : "+w"(x)
            : "w"(y));
    return x;
}

#define CANNERY_OWN_SQRT 1
CANNERY_INLINE f32x4 f32x4_sqrt(f32x4 v)
{
    register f32x4 x __asm__("q0") = v;
    __asm__("vsqrt.f32 s0, s0\n\tvsqrt.f32 s1, s1\n\tvsqrt.f32 s2, s2\n\tvsqrt.f32 s3, s3"
            : "+w"(x));
    return x;
}

#define CANNERY_OWN_FMA 1
CANNERY_INLINE f32x4 f32x4_fma(f32x4 a, f32x4 b, f32x4 c)
{
    return vfmaq_f32(c, a, b);
}

#define CANNERY_HAS_SCALAR_FMA 1
CANNERY_INLINE f32x4 f32x4_fma1(float a, f32x4 b, f32x4 c)
{
    return vfmaq_n_f32(c, b, a);
}

CANNERY_INLINE f32x4 f32x4_fnma(f32x4 a, f32x4 b, f32x4 c)
{
    return vfmsq_f32(c, a, b);
}

/* 1/x by its exponent, within 1/8, and three Newton steps: each squares the error. */
#define CANNERY_OWN_RECIPROCAL 1
CANNERY_INLINE f32x4 f32x4_recip_fast(f32x4 x)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    const int32x4_t start = vsubq_s32(vdupq_n_s32(0x7ef311c7), vreinterpretq_s32_f32(x));
    float32x4_t r = vreinterpretq_f32_s32(start);
    r = vfmaq_f32(r, r, vfmsq_f32(one, x, r));
    r = vfmaq_f32(r, r, vfmsq_f32(one, x, r));
    return vfmaq_f32(r, r, vfmsq_f32(one, x, r));
}

/* ---- masks: `lt` and `le` of the instruction are true for NaN --------------- */

#define CANNERY_OWN_MASKS 1
#define CANNERY_OWN_SELECT 1
CANNERY_WORD2(m32x4, f32x4_lt, f32x4, vcmpgtq_f32(b, a))
CANNERY_WORD2(m32x4, f32x4_le, f32x4, vcmpgeq_f32(b, a))
CANNERY_WORD2(m32x4, f32x4_gt, f32x4, vcmpgtq_f32(a, b))
CANNERY_WORD2(m32x4, f32x4_ge, f32x4, vcmpgeq_f32(a, b))
CANNERY_WORD2(m32x4, f32x4_eq, f32x4, vcmpeqq_f32(a, b))
CANNERY_WORD2(m32x4, m32x4_and, m32x4, (m32x4)(a & b))
CANNERY_WORD2(m32x4, m32x4_or, m32x4, (m32x4)(a | b))
CANNERY_WORD1(m32x4, m32x4_not, m32x4, (m32x4)(~(unsigned)a & 0xffffu))

CANNERY_INLINE f32x4 f32x4_select(m32x4 m, f32x4 a, f32x4 b)
{
    return vpselq_f32(a, b, m);
}

/* ---- integers, conversion and rounding ----------------------------------- */

#define CANNERY_OWN_INTEGERS 1
CANNERY_WORD2(i32x4, i32x4_add, i32x4, vaddq_s32(a, b))
CANNERY_WORD2(i32x4, i32x4_sub, i32x4, vsubq_s32(a, b))
CANNERY_WORD2(i32x4, i32x4_and, i32x4, vandq_s32(a, b))
CANNERY_WORD2(i32x4, i32x4_or, i32x4, vorrq_s32(a, b))
CANNERY_WORD2(i32x4, i32x4_xor, i32x4, veorq_s32(a, b))
CANNERY_WORD1(i32x4, i32x4_shl23, i32x4, vshlq_n_s32(a, 23))
CANNERY_WORD1(i32x4, i32x4_shr23, i32x4,
              vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), 23)))
CANNERY_WORD1(i32x4, i32x4_sra23, i32x4, vshrq_n_s32(a, 23))
CANNERY_WORD1(i32x4, i32x4_sra14, i32x4, vshrq_n_s32(a, 14))
CANNERY_WORD1(i32x4, i32x4_sra1, i32x4, vshrq_n_s32(a, 1))
CANNERY_WORD1(f32x4, i32x4_as_f32, i32x4, vreinterpretq_f32_s32(a))
CANNERY_WORD1(i32x4, f32x4_as_i32, f32x4, vreinterpretq_s32_f32(a))

#define CANNERY_OWN_CONVERSION 1
CANNERY_WORD1(i32x4, f32x4_to_i32, f32x4, vcvtq_s32_f32(a))
CANNERY_WORD1(i32x4, f32x4_to_i32_round, f32x4, vcvtnq_s32_f32(a))

#define CANNERY_OWN_ROUNDING 1
CANNERY_WORD1(f32x4, f32x4_round, f32x4, vrndnq_f32(a))
CANNERY_WORD1(f32x4, f32x4_floor, f32x4, vrndmq_f32(a))
CANNERY_WORD1(f32x4, f32x4_ceil, f32x4, vrndpq_f32(a))
CANNERY_WORD1(f32x4, f32x4_trunc, f32x4, vrndq_f32(a))

/* ---- across lanes ------------------------------------------------------ */

#define CANNERY_OWN_FOLDS 1
#define CANNERY_MVE_FOLD(word, fold)                                                               \
    CANNERY_INLINE float f32x4_##word(f32x4 v)                                                     \
    {                                                                                              \
        float x[4];                                                                                \
        f32x4_store(x, v);                                                                         \
        return f32x1_##fold(f32x1_##fold(x[0], x[2]), f32x1_##fold(x[1], x[3]));                   \
    }
CANNERY_MVE_FOLD(hsum, add)
CANNERY_MVE_FOLD(hmax, max)
CANNERY_MVE_FOLD(hmin, min)
#undef CANNERY_MVE_FOLD

/* ---- narrow integers ----------------------------------------------------- */

#define CANNERY_OWN_NARROW_LOADS 1
CANNERY_WORD1(f32x4, f32x4_load_u8, const uint8_t *, vcvtq_f32_u32(vldrbq_u32(a)))
CANNERY_WORD1(f32x4, f32x4_load_i8, const int8_t *, vcvtq_f32_s32(vldrbq_s32(a)))
CANNERY_WORD1(f32x4, f32x4_load_s16, const int16_t *, vcvtq_f32_s32(vldrhq_s32(a)))

/* The lowest part of each lane is the number, saturated. */
CANNERY_INLINE uint32x4_t cannery_mve_u8(i32x4 k)
{
    const uint16x8_t words = vqmovunbq_s32(vreinterpretq_u16_s32(k), k);
    return vreinterpretq_u32_u8(vqmovnbq_u16(vreinterpretq_u8_u16(words), words));
}

CANNERY_INLINE i32x4 cannery_mve_i8(i32x4 k)
{
    const int16x8_t words = vqmovnbq_s32(vreinterpretq_s16_s32(k), k);
    return vreinterpretq_s32_s8(vqmovnbq_s16(vreinterpretq_s8_s16(words), words));
}

CANNERY_INLINE i32x4 cannery_mve_s16(i32x4 k)
{
    return vreinterpretq_s32_s16(vqmovnbq_s32(vreinterpretq_s16_s32(k), k));
}

#define CANNERY_OWN_NARROW_STORES 1
#define CANNERY_OWN_NARROW_PARTS 1
#define CANNERY_MVE_NARROW(name, type, lanes, size, sign, of, as)                                  \
    CANNERY_MVE_LOAD_N(cannery_mve_load_##name##_n, lanes, type, 32, size "t." #sign "32",         \
                       CANNERY_MVE_OF(vldr, as, z, sign), )                                        \
    CANNERY_MVE_STORE_N(cannery_mve_store_##name##_n, lanes, type, 32, size "t.32", ,              \
                        CANNERY_MVE_OF(vstr, as, p, sign))                                         \
    CANNERY_INLINE void i32x4_low_##name(type *p, i32x4 k)                                         \
    {                                                                                              \
        vstr##as##q_##sign##32(p, CANNERY_MVE_AS_##sign(k));                                       \
    }                                                                                              \
    CANNERY_INLINE void i32x4_low_##name##_n(type *p, i32x4 k, int n)                              \
    {                                                                                              \
        cannery_mve_store_##name##_n(p, CANNERY_MVE_AS_##sign(k), n);                              \
    }                                                                                              \
    CANNERY_INLINE f32x4 f32x4_load_##name##_n(const type *p, int n)                               \
    {                                                                                              \
        return vcvtq_f32_##sign##32(cannery_mve_load_##name##_n(p, n));                            \
    }                                                                                              \
    CANNERY_INLINE void f32x4_store_##name(type *p, f32x4 v)                                       \
    {                                                                                              \
        vstr##as##q_##sign##32(p, of(f32x4_to_i32_round(v)));                                      \
    }                                                                                              \
    CANNERY_INLINE void f32x4_store_##name##_n(type *p, f32x4 v, int n)                            \
    {                                                                                              \
        cannery_mve_store_##name##_n(p, of(f32x4_to_i32_round(v)), n);                             \
    }                                                                                              \
    CANNERY_INLINE void f32x4_put_##name(type *p, f32x4 v, int32_t zero)                           \
    {                                                                                              \
        vstr##as##q_##sign##32(p, of(vaddq_n_s32(f32x4_to_i32_round(v), zero)));                   \
    }                                                                                              \
    CANNERY_INLINE void f32x4_put_##name##_n(type *p, f32x4 v, int32_t zero, int n)                \
    {                                                                                              \
        cannery_mve_store_##name##_n(p, of(vaddq_n_s32(f32x4_to_i32_round(v), zero)), n);          \
    }
#define CANNERY_MVE_AS_u(k) vreinterpretq_u32_s32(k)
#define CANNERY_MVE_AS_s(k) (k)
#define CANNERY_MVE_OF(word, size, part, sign) word##size##q_##part##_##sign##32
CANNERY_MVE_NARROW(u8, uint8_t, uint32x4_t, "b", u, cannery_mve_u8, b)
CANNERY_MVE_NARROW(i8, int8_t, int32x4_t, "b", s, cannery_mve_i8, b)
CANNERY_MVE_NARROW(s16, int16_t, int32x4_t, "h", s, cannery_mve_s16, h)
#undef CANNERY_MVE_AS_u
#undef CANNERY_MVE_AS_s
#undef CANNERY_MVE_OF
#undef CANNERY_MVE_NARROW

/* ---- float16 ----------------------------------------------------------- */

/* As in vec_base.h: the instruction may flush subnormals. */
#define CANNERY_OWN_LOAD_F16 1
CANNERY_INLINE f32x4 f32x4_load_f16(const uint16_t *p)
{
    const int32x4_t half = vreinterpretq_s32_u32(vldrhq_u32(p));
    const int32x4_t bits = vshlq_n_s32(vbicq_n_s32(half, 0x8000), 13);
    const int32x4_t sign = vshlq_n_s32(vshrq_n_s32(half, 15), 31);
    const int32x4_t offset = vdupq_n_s32(0x38800000);
    const float32x4_t least = vreinterpretq_f32_s32(offset);
    const float32x4_t small =
        vsubq_f32(vreinterpretq_f32_s32(vaddq_s32(bits, offset)), least);
    const float32x4_t large = vreinterpretq_f32_s32(vaddq_s32(bits, vdupq_n_s32(0x38000000)));
    const float32x4_t size = vpselq_f32(small, large, vcmpgtq_f32(least, large));
    return vreinterpretq_f32_s32(vorrq_s32(vreinterpretq_s32_f32(size), sign));
}

/* ---- products of int16: the first numbers of four pairs, then the second -- */

/* Numbers are widened where they are loaded. */
typedef struct {
    i32x4 first, second;
} p16x4;

#define CANNERY_OWN_PAIRS 1
CANNERY_INLINE p16x4 cannery_mve_pairs(i32x4 first, i32x4 second)
{
    p16x4 v;
    v.first = first;
    v.second = second;
    return v;
}

CANNERY_INLINE p16x4 p16x4_pair(const int16_t *p, const int16_t *q)
{
    return cannery_mve_pairs(vldrhq_s32(p), vldrhq_s32(q));
}

CANNERY_WORD1(p16x4, p16x4_load, const int16_t *, p16x4_pair(a, a + 4))
CANNERY_WORD1(p16x4, p16x4_load1, const int16_t *,
              cannery_mve_pairs(vdupq_n_s32(a[0]), vdupq_n_s32(a[1])))
CANNERY_WORD1(p16x4, p16x4_load_u8, const uint8_t *,
              cannery_mve_pairs(vreinterpretq_s32_u32(vldrbq_u32(a)),
                                vreinterpretq_s32_u32(vldrbq_u32(a + 4))))
CANNERY_WORD1(p16x4, p16x4_load_i8, const int8_t *,
              cannery_mve_pairs(vldrbq_s32(a), vldrbq_s32(a + 4)))

CANNERY_INLINE p16x4 p16x4_load1_n(const int16_t *p, int n)
{
    return cannery_mve_pairs(vdupq_n_s32(p[0]), vdupq_n_s32(n > 1 ? p[1] : 0));
}

CANNERY_INLINE void p16x4_pair2(const int16_t *p, const int16_t *q, p16x4 *a, p16x4 *b)
{
    *a = p16x4_pair(p, q);
    *b = p16x4_pair(p + 4, q + 4);
}

/* Of sums that leave int16, the lower half counts. */
CANNERY_INLINE i32x4 cannery_mve_wrapped(i32x4 sums)
{
    return vmovlbq_s16(vreinterpretq_s16_s32(sums));
}

CANNERY_INLINE p16x4 p16x4_add(p16x4 a, p16x4 b)
{
    return cannery_mve_pairs(cannery_mve_wrapped(vaddq_s32(a.first, b.first)),
                             cannery_mve_wrapped(vaddq_s32(a.second, b.second)));
}

CANNERY_INLINE p16x4 p16x4_sub(p16x4 a, p16x4 b)
{
    return cannery_mve_pairs(cannery_mve_wrapped(vsubq_s32(a.first, b.first)),
                             cannery_mve_wrapped(vsubq_s32(a.second, b.second)));
}

CANNERY_INLINE void p16x4_store(int16_t *p, p16x4 v)
{
    vstrhq_s32(p, v.first);
    vstrhq_s32(p + 4, v.second);
}

CANNERY_INLINE i32x4 i32x4_dot(p16x4 a, p16x4 b, i32x4 acc)
{
    acc = vaddq_s32(acc, vmulq_s32(a.first, b.first));
    return vaddq_s32(acc, vmulq_s32(a.second, b.second));
}

#define CANNERY_OWN_INTERPOLATE 1
CANNERY_INLINE i32x4 i32x4_interpolate(i32x4 entry, i32x4 fraction)
{
    const int32x4_t base = vshlq_n_s32(vshrq_n_s32(entry, 16), 14);
    return vaddq_s32(base, vmulq_s32(cannery_mve_wrapped(entry), fraction));
}

/* ---- products of int8 -------------------------------------------------- */

#define CANNERY_OWN_BYTES 1
typedef int8x16_t q8x4;

CANNERY_WORD1(q8x4, q8x4_load, const int8_t *, vldrbq_s8(a))
CANNERY_WORD1(q8x4, q8x4_flip, q8x4, veorq_s8(a, vdupq_n_s8(-128)))

CANNERY_INLINE q8x4 q8x4_load1_n(const int8_t *p, int n)
{
    return vreinterpretq_s8_s32(vdupq_n_s32(cannery_bytes4(p, n)));
}

CANNERY_WORD1(q8x4, q8x4_load1, const int8_t *, q8x4_load1_n(a, 4))

/* Products of numbers at even places, and of those at odd ones, each added in int32. */
CANNERY_INLINE i32x4 i32x4_dot4(q8x4 a, q8x4 b, i32x4 acc)
{
    const int16x8_t even = vmullbq_int_s8(a, b), odd = vmulltq_int_s8(a, b);
    acc = vaddq_s32(acc, vmovlbq_s16(even));
    acc = vaddq_s32(acc, vmovltq_s16(even));
    acc = vaddq_s32(acc, vmovlbq_s16(odd));
    return vaddq_s32(acc, vmovltq_s16(odd));
}

/* ---- runs of numbers for products, see quantized/mve.py --------------------- */

#if defined(__clang__)
#define CANNERY_MVE_PREDICATES /* no name for the predicate register */
#else
#define CANNERY_MVE_PREDICATES "p0",
#endif

/* Vectors of 16 bytes, or their first n numbers, n a constant; the greater of two numbers. */
#define CANNERY_MVE_VECTORS(name, type, vector, bits, size, intrinsic, suffix)                     \
    CANNERY_MVE_LOAD_N(cannery_mve_first_##name, vector, type, bits, size "t." #bits,              \
                       vldr##intrinsic##_z_##suffix, )                                             \
    CANNERY_MVE_STORE_N(cannery_mve_store_first_##name, vector, type, bits, size "t." #bits, ,     \
                        vstr##intrinsic##_p_##suffix)                                              \
    CANNERY_INLINE vector cannery_mve_load_##name(const type *p, int n)                            \
    {                                                                                              \
        return n < 128 / bits ? cannery_mve_first_##name(p, n) : vldr##intrinsic##_##suffix(p);    \
    }                                                                                              \
    CANNERY_INLINE void cannery_mve_store_##name(type *p, vector v, int n)                         \
    {                                                                                              \
        if (n < 128 / bits) {                                                                      \
            cannery_mve_store_first_##name(p, v, n);                                               \
        } else {                                                                                   \
            vstr##intrinsic##_##suffix(p, v);                                                      \
        }                                                                                          \
    }                                                                                              \
    CANNERY_WORD2(vector, cannery_mve_max_##name, vector, vmaxq_##suffix(a, b))
CANNERY_MVE_VECTORS(i8, int8_t, int8x16_t, 8, "b", bq, s8)
CANNERY_MVE_VECTORS(u8, uint8_t, uint8x16_t, 8, "b", bq, u8)
CANNERY_MVE_VECTORS(s16, int16_t, int16x8_t, 16, "h", hq, s16)
#undef CANNERY_MVE_VECTORS

/* Four bytes as floats; the pointer moves on. Written out: gcc would compute an address for each. */
CANNERY_INLINE f32x4 cannery_mve_next_four_i8(const int8_t **p)
{
    i32x4 k;
    __asm__("vldrb.s32 %q0, [%1], #4" : "=w"(k), "+l"(*p) : : "memory");
    return f32x4_from_i32(k);
}

/* Four vectors of bytes, interleaved: a byte of each, one after the other. In assembly: gcc 12 would
 * store the vectors once more. Bytes without a sign get one. */
#define CANNERY_MVE_INTERLEAVE(name, type, flip)                                                   \
    CANNERY_INLINE int8_t *cannery_mve_interleave_##name(int8_t *to, const type *a, const type *b, \
                                                         const type *c, const type *d)             \
    {                                                                                              \
        __asm__ volatile("vldrb.8 q0, [%[a]]\n\tvldrb.8 q1, [%[b]]\n\t"                            \
                         "vldrb.8 q2, [%[c]]\n\tvldrb.8 q3, [%[d]]\n\t" flip                       \
                         "vst40.8 {q0, q1, q2, q3}, [%[to]]\n\t"                                   \
                         "vst41.8 {q0, q1, q2, q3}, [%[to]]\n\t"                                   \
                         "vst42.8 {q0, q1, q2, q3}, [%[to]]\n\t"                                   \
                         "vst43.8 {q0, q1, q2, q3}, [%[to]]!"                                      \
                         : [to] "+r"(to)                                                           \
                         : [a] "r"(a), [b] "r"(b), [c] "r"(c), [d] "r"(d),                         \
                           [sign] "w"(vdupq_n_u8(128))                                             \
                         : "q0", "q1", "q2", "q3", "memory");                                      \
        return to;                                                                                 \
    }
CANNERY_MVE_INTERLEAVE(i8, int8_t, "")
CANNERY_MVE_INTERLEAVE(u8, uint8_t,
                       "veor q0, q0, %q[sign]\n\tveor q1, q1, %q[sign]\n\t"
                       "veor q2, q2, %q[sign]\n\tveor q3, q3, %q[sign]\n\t")
#undef CANNERY_MVE_INTERLEAVE

/* 16 integers as bytes, clamped: those whose places are 0, 4, 8 and 12, then 1, 5, 9 and 13 ... */
CANNERY_INLINE void cannery_mve_put16_i8(int8_t *p, i32x4 a, i32x4 b, i32x4 c, i32x4 d, int low,
                                         int high)
{
    const int16x8_t even = vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(a), a), c);
    const int16x8_t odd = vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(b), b), d);
    int8x16_t v = vqmovntq_s16(vqmovnbq_s16(vreinterpretq_s8_s16(even), even), odd);
    v = low > INT8_MIN ? vmaxq_s8(v, vdupq_n_s8((int8_t)low)) : v;
    vstrbq_s8(p, high < INT8_MAX ? vminq_s8(v, vdupq_n_s8((int8_t)high)) : v);
}

CANNERY_INLINE void cannery_mve_put16_u8(uint8_t *p, i32x4 a, i32x4 b, i32x4 c, i32x4 d, int low,
                                         int high)
{
    const int16x8_t even = vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(a), a), c);
    const int16x8_t odd = vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(b), b), d);
    uint8x16_t v = vqmovuntq_s16(vqmovunbq_s16(vreinterpretq_u8_s16(even), even), odd);
    v = low > 0 ? vmaxq_u8(v, vdupq_n_u8((uint8_t)low)) : v;
    vstrbq_u8(p, high < UINT8_MAX ? vminq_u8(v, vdupq_n_u8((uint8_t)high)) : v);
}

/* Copies n numbers in whole vectors: zeros may follow them, up to 15 bytes. */
#define CANNERY_MVE_GATHER(name, type, vector, numbers, store)                                     \
    CANNERY_INLINE type *cannery_mve_gather_##name(type *to, const type *from, int n)              \
    {                                                                                              \
        int i;                                                                                     \
        for (i = 0; i < n; i += numbers) {                                                         \
            store(to + i, cannery_mve_first_##name(from + i, n - i));                              \
        }                                                                                          \
        return to + n;                                                                             \
    }
CANNERY_MVE_GATHER(i8, int8_t, int8x16_t, 16, vstrbq_s8)
CANNERY_MVE_GATHER(u8, uint8_t, uint8x16_t, 16, vstrbq_u8)
CANNERY_MVE_GATHER(s16, int16_t, int16x8_t, 8, vstrhq_s16)
#undef CANNERY_MVE_GATHER

#define CANNERY_LANES 4
#include "vec_base.h"
#undef CANNERY_LANES

#endif
