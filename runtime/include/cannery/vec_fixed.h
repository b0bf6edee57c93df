/* SPDX-License-Identifier: MIT-0
 *
 * Integers times real numbers in the fixed-point arithmetic of TensorFlow Lite, lane by lane, and
 * integers stored as narrower ones. Include the vec_*.h headers first: words are defined for each
 * width that exists. The one-lane words are their meaning.
 *
 *   I_high(a, b)             a * b / 2^31, halves up; -2^30 <= a < 2^30, 0 <= b
 *   I_shifted(a, h, r)       (a + h - (a < 0)) / 2^r, rounded down; 1 <= r <= 31, and a + h - 1
 *                            fits int32. With h = 2^(r-1) halves go away from zero
 *   I_long_product(a, f, h, r)   ((a * f >> 32) + h) >> r; only with MVE
 *   I_times_double(a, bits)  a times the double with the bits bits[i], to the nearest integer,
 *                            halves away from zero; it is below 2^30
 *   I_store_u8(p, v), I_store_i8, I_store_s16   saturate; also _n(p, v, n)
 *
 * Only on x86 (and with one lane):
 *   I_sll(a, n), I_sra(a, n)   a * 2^n, and a / 2^n rounded down; n is a constant
 *   I_srav(a, r)             a / 2^r rounded down, lane by lane; only with AVX2
 *   I_mulhi(a, p)            a * p[i] / 2^32, rounded down; 0 <= p[i]. May read one number more
 *   I_outward(a, b)          a + b if a > 0, a - b if a < 0, and 0 if a is 0
 *   I_store2_u8(p, a, b), I_store4_u8(p, a, b, c, d), I_store2_i8, I_store4_i8, I_store2_s16
 *                            the same as a store of each of four or eight lanes
 */
#ifndef CANNERY_VEC_FIXED_H
#define CANNERY_VEC_FIXED_H

#include "scalar_math.h"
#include "vec_scalar.h"

/* ---- one lane ---------------------------------------------------------- */

#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
CANNERY_INLINE i32x1 i32x1_high(i32x1 a, i32x1 b)
{
    int32_t r; /* 2 a b / 2^32 */
    __asm__("smmulr %0, %1, %2" : "=r"(r) : "r"(2 * a), "r"(b));
    return r;
}
#else
CANNERY_INLINE i32x1 i32x1_high(i32x1 a, i32x1 b)
{
    return cannery_high(a, b);
}
#endif

CANNERY_INLINE i32x1 i32x1_shifted(i32x1 a, i32x1 h, i32x1 r)
{
    return (a + (a >> 31) + h) >> r;
}

CANNERY_INLINE i32x1 i32x1_sll(i32x1 a, int n)
{
    return (i32x1)((uint32_t)a << n);
}

CANNERY_INLINE i32x1 i32x1_sra(i32x1 a, int n)
{
    return a >> n;
}

CANNERY_INLINE i32x1 i32x1_srav(i32x1 a, i32x1 r)
{
    return a >> r;
}

CANNERY_INLINE i32x1 i32x1_mulhi(i32x1 a, const int32_t *p)
{
    return (i32x1)((int64_t)a * p[0] >> 32);
}

CANNERY_INLINE i32x1 i32x1_outward(i32x1 a, i32x1 b)
{
    return a + (a > 0 ? b : a < 0 ? -b : 0);
}

CANNERY_INLINE i32x1 i32x1_times_double(i32x1 a, const int64_t *bits)
{
    const double v = (double)a * cannery_from_bits((uint64_t)bits[0]);
    const int32_t whole = (int32_t)v;
    const double rest = v - (double)whole;
    return whole + (rest >= 0.5) - (rest <= -0.5);
}

CANNERY_INLINE void i32x1_store_u8(uint8_t *p, i32x1 v)
{
    p[0] = (uint8_t)cannery_held(v, 0, 255);
}

CANNERY_INLINE void i32x1_store_i8(int8_t *p, i32x1 v)
{
    p[0] = (int8_t)cannery_held(v, -128, 127);
}

CANNERY_INLINE void i32x1_store_s16(int16_t *p, i32x1 v)
{
    p[0] = (int16_t)cannery_held(v, -32768, 32767);
}

CANNERY_INLINE void i32x1_store_u8_n(uint8_t *p, i32x1 v, int n)
{
    if (n > 0) {
        i32x1_store_u8(p, v);
    }
}

CANNERY_INLINE void i32x1_store_i8_n(int8_t *p, i32x1 v, int n)
{
    if (n > 0) {
        i32x1_store_i8(p, v);
    }
}

CANNERY_INLINE void i32x1_store_s16_n(int16_t *p, i32x1 v, int n)
{
    if (n > 0) {
        i32x1_store_s16(p, v);
    }
}

/* ---- what families have no instructions for ------------------------------ */

/* A word by that of one lane; as one loop, so that no compiler makes vectors of doubles, for whose
 * conversion some emulators of RISC-V fail. */
#define CANNERY_TIMES_DOUBLE(lanes)                                                                \
    CANNERY_INLINE i32x##lanes i32x##lanes##_times_double(i32x##lanes a, const int64_t *bits)      \
    {                                                                                              \
        int32_t x[lanes];                                                                          \
        i32x##lanes##_store(x, a);                                                                 \
        for (int i = 0; i < lanes; ++i) {                                                          \
            x[i] = i32x1_times_double(x[i], bits + i);                                             \
            CANNERY_OPAQUE_MEM(x);                                                                 \
        }                                                                                          \
        return i32x##lanes##_load(x);                                                              \
    }

#define CANNERY_STORES_LANES(lanes, name, type)                                                    \
    CANNERY_INLINE void i32x##lanes##_store_##name(type *p, i32x##lanes v)                         \
    {                                                                                              \
        int32_t x[lanes];                                                                          \
        i32x##lanes##_store(x, v);                                                                 \
        for (int i = 0; i < lanes; ++i) {                                                          \
            i32x1_store_##name(p + i, x[i]);                                                       \
        }                                                                                          \
    }

#define CANNERY_FIXED_LANES(lanes)                                                                 \
    CANNERY_INLINE i32x##lanes i32x##lanes##_high(i32x##lanes a, i32x##lanes b)                    \
    {                                                                                              \
        int32_t x[lanes], y[lanes];                                                                \
        i32x##lanes##_store(x, a);                                                                 \
        i32x##lanes##_store(y, b);                                                                 \
        for (int i = 0; i < lanes; ++i) {                                                          \
            x[i] = i32x1_high(x[i], y[i]);                                                         \
        }                                                                                          \
        return i32x##lanes##_load(x);                                                              \
    }                                                                                              \
    CANNERY_INLINE i32x##lanes i32x##lanes##_shifted(i32x##lanes a, i32x##lanes h, i32x##lanes r)  \
    {                                                                                              \
        int32_t x[lanes], y[lanes], z[lanes];                                                      \
        i32x##lanes##_store(x, a);                                                                 \
        i32x##lanes##_store(y, h);                                                                 \
        i32x##lanes##_store(z, r);                                                                 \
        for (int i = 0; i < lanes; ++i) {                                                          \
            x[i] = i32x1_shifted(x[i], y[i], z[i]);                                                \
        }                                                                                          \
        return i32x##lanes##_load(x);                                                              \
    }                                                                                              \
    CANNERY_TIMES_DOUBLE(lanes)                                                                    \
    CANNERY_STORES_LANES(lanes, u8, uint8_t)                                                       \
    CANNERY_STORES_LANES(lanes, i8, int8_t)                                                        \
    CANNERY_STORES_LANES(lanes, s16, int16_t)

/* The first n numbers, by way of a whole vector. */
#define CANNERY_STORES_PART(lanes, name, type)                                                     \
    CANNERY_INLINE void i32x##lanes##_store_##name##_n(type *p, i32x##lanes v, int n)              \
    {                                                                                              \
        type x[lanes];                                                                             \
        i32x##lanes##_store_##name(x, v);                                                          \
        CANNERY_COPY(p, x, (size_t)n * sizeof x[0]);                                               \
    }
#define CANNERY_STORES_PARTS(lanes)                                                                \
    CANNERY_STORES_PART(lanes, u8, uint8_t)                                                        \
    CANNERY_STORES_PART(lanes, i8, int8_t)                                                         \
    CANNERY_STORES_PART(lanes, s16, int16_t)

/* ---- four lanes ---------------------------------------------------------- */

#if defined(CANNERY_VEC_X86_128_H)
/* Products of the lanes 0 and 2, plus 2^30. */
CANNERY_INLINE __m128i cannery_even_products(__m128i a, __m128i b)
{
#if defined(__SSE4_1__)
    const __m128i product = _mm_mul_epi32(a, b);
#else /* of unsigned numbers: a negative a is 2^32 too large */
    const __m128i less = _mm_slli_epi64(_mm_and_si128(_mm_srai_epi32(a, 31), b), 32);
    const __m128i product = _mm_sub_epi64(_mm_mul_epu32(a, b), less);
#endif
    return _mm_add_epi64(product, _mm_set1_epi64x(1 << 30));
}

CANNERY_INLINE i32x4 i32x4_high(i32x4 a, i32x4 b)
{
    const __m128i x = (__m128i)a, y = (__m128i)b;
    const __m128i even = _mm_srli_epi64(cannery_even_products(x, y), 31);
    const __m128i odd = cannery_even_products(_mm_srli_epi64(x, 32), _mm_srli_epi64(y, 32));
#if defined(__SSE4_1__)
    return (i32x4)_mm_blend_epi16(even, _mm_slli_epi64(odd, 1), 0xcc);
#else
    return (i32x4)_mm_unpacklo_epi32(_mm_shuffle_epi32(even, 0x08),
                                     _mm_shuffle_epi32(_mm_srli_epi64(odd, 31), 0x08));
#endif
}

#if defined(__AVX2__)
CANNERY_INLINE i32x4 i32x4_shifted(i32x4 a, i32x4 h, i32x4 r)
{
    const __m128i x = (__m128i)a;
    const __m128i sum = _mm_add_epi32(_mm_add_epi32(x, _mm_srai_epi32(x, 31)), (__m128i)h);
    return (i32x4)_mm_srav_epi32(sum, (__m128i)r);
}
#else
/* Before AVX2 all lanes are shifted by the same number: x / 2^r is x * 2^(32-r) / 2^32, of
 * x + 2^31, which is not negative. */
CANNERY_INLINE i32x4 i32x4_shifted(i32x4 a, i32x4 h, i32x4 r)
{
    const __m128i x = (__m128i)a, most = _mm_set1_epi32(INT32_MIN);
    const __m128i sum = _mm_add_epi32(_mm_add_epi32(x, _mm_srai_epi32(x, 31)), (__m128i)h);
    const __m128i wide = _mm_xor_si128(sum, most);
    const __m128i exponent = _mm_sub_epi32(_mm_set1_epi32(127 + 31), (__m128i)r);
    /* 2^(32-r) itself may be 2^31, which compilers convert to another integer than processors. */
    const __m128i half = _mm_cvttps_epi32(_mm_castsi128_ps(_mm_slli_epi32(exponent, 23)));
    const __m128i power = _mm_slli_epi32(half, 1);
    const __m128i even = _mm_mul_epu32(wide, power);
    const __m128i odd = _mm_mul_epu32(_mm_srli_epi64(wide, 32), _mm_srli_epi64(power, 32));
    const __m128i quotient = _mm_unpacklo_epi32(_mm_shuffle_epi32(even, 0x0d),
                                                _mm_shuffle_epi32(odd, 0x0d));
    return (i32x4)_mm_sub_epi32(quotient, half);
}
#endif

#define CANNERY_HAS_MULHI 1
#define i32x4_sll(a, n) ((i32x4)_mm_slli_epi32((__m128i)(a), n))
#define i32x4_sra(a, n) ((i32x4)_mm_srai_epi32((__m128i)(a), n))

#if defined(__AVX2__)
#define CANNERY_HAS_SRAV 1
CANNERY_INLINE i32x4 i32x4_srav(i32x4 a, i32x4 r)
{
    return (i32x4)_mm_srav_epi32((__m128i)a, (__m128i)r);
}
#endif

CANNERY_INLINE i32x4 i32x4_mulhi(i32x4 a, const int32_t *p)
{
    const __m128i x = (__m128i)a, y = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i z = _mm_loadu_si128((const __m128i *)(const void *)(p + 1));
#if defined(__SSE4_1__)
    const __m128i even = _mm_mul_epi32(x, y), odd = _mm_mul_epi32(_mm_srli_epi64(x, 32), z);
    return (i32x4)_mm_blend_epi16(_mm_srli_epi64(even, 32), odd, 0xcc);
#else /* of unsigned numbers: the high half of a negative a is p too large */
    const __m128 even = _mm_castsi128_ps(_mm_mul_epu32(x, y));
    const __m128 odd = _mm_castsi128_ps(_mm_mul_epu32(_mm_srli_epi64(x, 32), z));
    const __m128i turned = _mm_castps_si128(_mm_shuffle_ps(even, odd, 0xdd));
    const __m128i more = _mm_and_si128(_mm_srai_epi32(x, 31), y);
    return (i32x4)_mm_sub_epi32(_mm_shuffle_epi32(turned, 0xd8), more);
#endif
}

CANNERY_INLINE i32x4 i32x4_outward(i32x4 a, i32x4 b)
{
#if defined(__SSSE3__)
    return (i32x4)_mm_add_epi32((__m128i)a, _mm_sign_epi32((__m128i)b, (__m128i)a));
#else
    const __m128i x = (__m128i)a, y = (__m128i)b, zero = _mm_setzero_si128();
    const __m128i more = _mm_and_si128(_mm_cmpgt_epi32(x, zero), y);
    const __m128i less = _mm_and_si128(_mm_cmpgt_epi32(zero, x), y);
    return (i32x4)_mm_sub_epi32(_mm_add_epi32(x, more), less);
#endif
}

/* Two integers times doubles, halves away from zero, in the low half. */
CANNERY_INLINE __m128i cannery_times_doubles(__m128i a, const int64_t *bits)
{
    const __m128i factors = _mm_loadu_si128((const __m128i *)(const void *)bits);
    const __m128d v = _mm_mul_pd(_mm_cvtepi32_pd(a), _mm_castsi128_pd(factors));
    /* The number before 1/2, so that what is below a half stays there. */
    const __m128d half = _mm_set1_pd(0.49999999999999994);
    const __m128d sign = _mm_and_pd(v, _mm_set1_pd(-0.0));
    return _mm_cvttpd_epi32(_mm_add_pd(v, _mm_or_pd(sign, half)));
}

CANNERY_INLINE i32x4 i32x4_times_double(i32x4 a, const int64_t *bits)
{
    const __m128i x = (__m128i)a;
    return (i32x4)_mm_unpacklo_epi64(
        cannery_times_doubles(x, bits),
        cannery_times_doubles(_mm_shuffle_epi32(x, 0xee), bits + 2));
}

CANNERY_INLINE void i32x4_store_u8(uint8_t *p, i32x4 v)
{
    CANNERY_STORE_BYTES(p, _mm_packus_epi16, (__m128i)v);
}

CANNERY_INLINE void i32x4_store_i8(int8_t *p, i32x4 v)
{
    CANNERY_STORE_BYTES(p, _mm_packs_epi16, (__m128i)v);
}

CANNERY_INLINE void i32x4_store_s16(int16_t *p, i32x4 v)
{
    const __m128i k = (__m128i)v;
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi32(k, k));
}

#define CANNERY_FIXED_STORES_4(name, type, pack)                                                   \
    CANNERY_INLINE void i32x4_store2_##name(type *p, i32x4 a, i32x4 b)                             \
    {                                                                                              \
        const __m128i k = _mm_packs_epi32((__m128i)a, (__m128i)b);                                 \
        _mm_storel_epi64((__m128i *)(void *)p, pack(k, k));                                        \
    }                                                                                              \
    CANNERY_INLINE void i32x4_store4_##name(type *p, i32x4 a, i32x4 b, i32x4 c, i32x4 d)           \
    {                                                                                              \
        const __m128i k = _mm_packs_epi32((__m128i)a, (__m128i)b);                                 \
        const __m128i l = _mm_packs_epi32((__m128i)c, (__m128i)d);                                 \
        _mm_storeu_si128((__m128i *)(void *)p, pack(k, l));                                        \
    }
CANNERY_FIXED_STORES_4(u8, uint8_t, _mm_packus_epi16)
CANNERY_FIXED_STORES_4(i8, int8_t, _mm_packs_epi16)
#undef CANNERY_FIXED_STORES_4

CANNERY_INLINE void i32x4_store2_s16(int16_t *p, i32x4 a, i32x4 b)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packs_epi32((__m128i)a, (__m128i)b));
}

CANNERY_STORES_PARTS(4)
#elif defined(CANNERY_VEC_MVE_H)
CANNERY_WORD2(i32x4, i32x4_high, i32x4, vqrdmulhq_s32(a, b))

CANNERY_INLINE i32x4 i32x4_shifted(i32x4 a, i32x4 h, i32x4 r)
{
    return vshlq_s32(vaddq_s32(vaddq_s32(a, vshrq_n_s32(a, 31)), h), vnegq_s32(r));
}

CANNERY_INLINE i32x4 i32x4_long_product(i32x4 a, i32x4 f, i32x4 h, i32x4 r)
{
    return vshlq_s32(vaddq_s32(vmulhq_s32(a, f), h), vnegq_s32(r));
}

CANNERY_TIMES_DOUBLE(4)

#define CANNERY_MVE_STORES(name, type, store)                                                      \
    CANNERY_INLINE void i32x4_store_##name(type *p, i32x4 v)                                       \
    {                                                                                              \
        store(p, cannery_mve_##name(v));                                                           \
    }                                                                                              \
    CANNERY_INLINE void i32x4_store_##name##_n(type *p, i32x4 v, int n)                            \
    {                                                                                              \
        cannery_mve_store_##name##_n(p, cannery_mve_##name(v), n);                                 \
    }
CANNERY_MVE_STORES(u8, uint8_t, vstrbq_u32)
CANNERY_MVE_STORES(i8, int8_t, vstrbq_s32)
CANNERY_MVE_STORES(s16, int16_t, vstrhq_s32)
#undef CANNERY_MVE_STORES

#elif defined(CANNERY_VEC_NEON_H)
CANNERY_INLINE i32x4 i32x4_high(i32x4 a, i32x4 b)
{
    return vqrdmulhq_s32(a, b);
}

CANNERY_INLINE i32x4 i32x4_shifted(i32x4 a, i32x4 h, i32x4 r)
{
    return vshlq_s32(vaddq_s32(vsraq_n_s32(a, a, 31), h), vnegq_s32(r));
}

#if defined(__aarch64__)
CANNERY_INLINE int32x2_t cannery_times_doubles(int32x2_t a, const int64_t *bits)
{
    const float64x2_t factors = vreinterpretq_f64_s64(vld1q_s64(bits));
    return vmovn_s64(vcvtaq_s64_f64(vmulq_f64(vcvtq_f64_s64(vmovl_s32(a)), factors)));
}

CANNERY_INLINE i32x4 i32x4_times_double(i32x4 a, const int64_t *bits)
{
    return vcombine_s32(cannery_times_doubles(vget_low_s32(a), bits),
                        cannery_times_doubles(vget_high_s32(a), bits + 2));
}
#else
CANNERY_TIMES_DOUBLE(4)
#endif

CANNERY_INLINE void i32x4_store_u8(uint8_t *p, i32x4 v)
{
    f32x4_u8_of(p, v);
}

CANNERY_INLINE void i32x4_store_i8(int8_t *p, i32x4 v)
{
    f32x4_i8_of(p, v);
}

CANNERY_INLINE void i32x4_store_s16(int16_t *p, i32x4 v)
{
    vst1_s16(p, vqmovn_s32(v));
}

CANNERY_STORES_PARTS(4)
#elif defined(CANNERY_HAS_F32X4)
CANNERY_FIXED_LANES(4)
CANNERY_STORES_PARTS(4)
#endif

/* ---- eight lanes --------------------------------------------------------- */

#if defined(CANNERY_VEC_X86_256_H)
CANNERY_INLINE i32x8 i32x8_high(i32x8 a, i32x8 b)
{
    const __m256i x = (__m256i)a, y = (__m256i)b, half = _mm256_set1_epi64x(1 << 30);
    const __m256i even = _mm256_mul_epi32(x, y);
    const __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32));
    return (i32x8)_mm256_blend_epi32(_mm256_srli_epi64(_mm256_add_epi64(even, half), 31),
                                     _mm256_slli_epi64(_mm256_add_epi64(odd, half), 1), 0xaa);
}

CANNERY_INLINE i32x8 i32x8_shifted(i32x8 a, i32x8 h, i32x8 r)
{
    const __m256i x = (__m256i)a;
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(x, _mm256_srai_epi32(x, 31)), (__m256i)h);
    return (i32x8)_mm256_srav_epi32(sum, (__m256i)r);
}

#define i32x8_sll(a, n) ((i32x8)_mm256_slli_epi32((__m256i)(a), n))
#define i32x8_sra(a, n) ((i32x8)_mm256_srai_epi32((__m256i)(a), n))

CANNERY_INLINE i32x8 i32x8_srav(i32x8 a, i32x8 r)
{
    return (i32x8)_mm256_srav_epi32((__m256i)a, (__m256i)r);
}

CANNERY_INLINE i32x8 i32x8_mulhi(i32x8 a, const int32_t *p)
{
    const __m256i x = (__m256i)a, y = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i z = _mm256_loadu_si256((const __m256i *)(const void *)(p + 1));
    const __m256i even = _mm256_mul_epi32(x, y);
    const __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(x, 32), z);
    return (i32x8)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

CANNERY_INLINE i32x8 i32x8_outward(i32x8 a, i32x8 b)
{
    return (i32x8)_mm256_add_epi32((__m256i)a, _mm256_sign_epi32((__m256i)b, (__m256i)a));
}

/* Four integers times doubles, halves away from zero. */
CANNERY_INLINE __m128i cannery_times_4_doubles(__m128i a, const int64_t *bits)
{
    const __m256i factors = _mm256_loadu_si256((const __m256i *)(const void *)bits);
    const __m256d v = _mm256_mul_pd(_mm256_cvtepi32_pd(a), _mm256_castsi256_pd(factors));
    const __m256d half = _mm256_set1_pd(0.49999999999999994);
    const __m256d sign = _mm256_and_pd(v, _mm256_set1_pd(-0.0));
    return _mm256_cvttpd_epi32(_mm256_add_pd(v, _mm256_or_pd(sign, half)));
}

CANNERY_INLINE i32x8 i32x8_times_double(i32x8 a, const int64_t *bits)
{
    const __m128i lo = cannery_times_4_doubles((__m128i)i32x8_lo(a), bits);
    const __m128i hi = cannery_times_4_doubles((__m128i)i32x8_hi(a), bits + 4);
    return (i32x8)_mm256_inserti128_si256(_mm256_castsi128_si256(lo), hi, 1);
}

CANNERY_INLINE __m128i cannery_narrow_8(i32x8 v)
{
    return _mm_packs_epi32((__m128i)i32x8_lo(v), (__m128i)i32x8_hi(v));
}

CANNERY_INLINE void i32x8_store_u8(uint8_t *p, i32x8 v)
{
    CANNERY_STORE_8(p, _mm_packus_epi16, cannery_narrow_8(v));
}

CANNERY_INLINE void i32x8_store_i8(int8_t *p, i32x8 v)
{
    CANNERY_STORE_8(p, _mm_packs_epi16, cannery_narrow_8(v));
}

CANNERY_INLINE void i32x8_store_s16(int16_t *p, i32x8 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, cannery_narrow_8(v));
}

#define CANNERY_FIXED_STORES_8(name, type, pack)                                                   \
    CANNERY_INLINE void i32x8_store2_##name(type *p, i32x8 a, i32x8 b)                             \
    {                                                                                              \
        const __m256i k = _mm256_packs_epi32((__m256i)a, (__m256i)b);                              \
        const __m256i turn = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);                             \
        const __m256i l = _mm256_permutevar8x32_epi32(pack(k, k), turn);                           \
        _mm_storeu_si128((__m128i *)(void *)p, _mm256_castsi256_si128(l));                         \
    }                                                                                              \
    CANNERY_INLINE void i32x8_store4_##name(type *p, i32x8 a, i32x8 b, i32x8 c, i32x8 d)           \
    {                                                                                              \
        const __m256i k = _mm256_packs_epi32((__m256i)a, (__m256i)b);                              \
        const __m256i l = _mm256_packs_epi32((__m256i)c, (__m256i)d);                              \
        const __m256i turn = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);                             \
        _mm256_storeu_si256((__m256i *)(void *)p,                                                  \
                            _mm256_permutevar8x32_epi32(pack(k, l), turn));                        \
    }
CANNERY_FIXED_STORES_8(u8, uint8_t, _mm256_packus_epi16)
CANNERY_FIXED_STORES_8(i8, int8_t, _mm256_packs_epi16)
#undef CANNERY_FIXED_STORES_8

CANNERY_INLINE void i32x8_store2_s16(int16_t *p, i32x8 a, i32x8 b)
{
    const __m256i k = _mm256_packs_epi32((__m256i)a, (__m256i)b);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permute4x64_epi64(k, 0xd8));
}

CANNERY_STORES_PARTS(8)
#elif defined(CANNERY_HAS_F32X8)
CANNERY_FIXED_LANES(8)
CANNERY_STORES_PARTS(8)
#endif

/* ---- sixteen lanes ------------------------------------------------------- */

#if defined(CANNERY_VEC_X86_512_H)
CANNERY_INLINE i32x16 i32x16_high(i32x16 a, i32x16 b)
{
    const __m512i x = (__m512i)a, y = (__m512i)b, half = _mm512_set1_epi64(1 << 30);
    const __m512i even = _mm512_mul_epi32(x, y);
    const __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(y, 32));
    return (i32x16)_mm512_mask_blend_epi32((__mmask16)0xaaaa,
                                           _mm512_srli_epi64(_mm512_add_epi64(even, half), 31),
                                           _mm512_slli_epi64(_mm512_add_epi64(odd, half), 1));
}

CANNERY_INLINE i32x16 i32x16_shifted(i32x16 a, i32x16 h, i32x16 r)
{
    const __m512i x = (__m512i)a;
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(x, _mm512_srai_epi32(x, 31)), (__m512i)h);
    return (i32x16)_mm512_srav_epi32(sum, (__m512i)r);
}

#define i32x16_sll(a, n) ((i32x16)_mm512_slli_epi32((__m512i)(a), n))
#define i32x16_sra(a, n) ((i32x16)_mm512_srai_epi32((__m512i)(a), n))

CANNERY_INLINE i32x16 i32x16_srav(i32x16 a, i32x16 r)
{
    return (i32x16)_mm512_srav_epi32((__m512i)a, (__m512i)r);
}

CANNERY_INLINE i32x16 i32x16_mulhi(i32x16 a, const int32_t *p)
{
    const __m512i x = (__m512i)a, y = _mm512_loadu_si512(p), z = _mm512_loadu_si512(p + 1);
    const __m512i even = _mm512_mul_epi32(x, y);
    const __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(x, 32), z);
    return (i32x16)_mm512_mask_blend_epi32((__mmask16)0xaaaa, _mm512_srli_epi64(even, 32), odd);
}

CANNERY_INLINE i32x16 i32x16_outward(i32x16 a, i32x16 b)
{
    const __m512i x = (__m512i)a, y = (__m512i)b, zero = _mm512_setzero_si512();
    const __m512i up = _mm512_mask_add_epi32(x, _mm512_cmpgt_epi32_mask(x, zero), x, y);
    return (i32x16)_mm512_mask_sub_epi32(up, _mm512_cmplt_epi32_mask(x, zero), x, y);
}

CANNERY_INLINE i32x16 i32x16_times_double(i32x16 a, const int64_t *bits)
{
    const i32x8 lo = i32x8_times_double(i32x16_lo(a), bits);
    const i32x8 hi = i32x8_times_double(i32x16_hi(a), bits + 8);
    return (i32x16)_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)lo), (__m256i)hi, 1);
}

#define CANNERY_FIXED_STORE_16(name, type, to, narrow, all, some)                                  \
    CANNERY_INLINE void i32x16_store_##name(type *p, i32x16 v)                                     \
    {                                                                                              \
        all((to *)(void *)p, narrow);                                                              \
    }                                                                                              \
    CANNERY_INLINE void i32x16_store_##name##_n(type *p, i32x16 v, int n)                          \
    {                                                                                              \
        some(p, m32x16_first_n(n), narrow);                                                        \
    }
CANNERY_FIXED_STORE_16(
    u8, uint8_t, __m128i,
    _mm512_cvtusepi32_epi8(_mm512_max_epi32((__m512i)v, _mm512_setzero_si512())),
    _mm_storeu_si128, _mm_mask_storeu_epi8)
CANNERY_FIXED_STORE_16(i8, int8_t, __m128i, _mm512_cvtsepi32_epi8((__m512i)v), _mm_storeu_si128,
                       _mm_mask_storeu_epi8)
CANNERY_FIXED_STORE_16(s16, int16_t, __m256i, _mm512_cvtsepi32_epi16((__m512i)v),
                       _mm256_storeu_si256, _mm256_mask_storeu_epi16)
#undef CANNERY_FIXED_STORE_16
#elif defined(CANNERY_HAS_F32X16)
CANNERY_FIXED_LANES(16)
CANNERY_STORES_PARTS(16)
#endif

#endif
