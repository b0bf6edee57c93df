/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary, eight lanes in AVX2 registers. The words are
 * documented in vec_scalar.h.
 */
#ifndef CANNERY_VEC_X86_256_H
#define CANNERY_VEC_X86_256_H

#include "vec_x86_128.h"

#if !defined(__AVX2__)
#error "cannery: vec_x86_256.h needs AVX2; compile with -mavx2 (and -mfma)"
#endif

CANNERY_VECTOR_TYPES(8)
#define CANNERY_HAS_F32X8 1

/* ---- halves ------------------------------------------------------------ */

#define CANNERY_OWN_HALVES 1
CANNERY_WORD1(f32x4, f32x8_lo, f32x8, _mm256_castps256_ps128(a))
CANNERY_WORD1(f32x4, f32x8_hi, f32x8, _mm256_extractf128_ps(a, 1))
CANNERY_WORD1(i32x4, i32x8_lo, i32x8, (i32x4)_mm256_castsi256_si128((__m256i)a))
CANNERY_WORD1(i32x4, i32x8_hi, i32x8, (i32x4)_mm256_extracti128_si256((__m256i)a, 1))
CANNERY_WORD2(f32x8, f32x8_join, f32x4, _mm256_insertf128_ps(_mm256_castps128_ps256(a), b, 1))

/* ---- memory ------------------------------------------------------------ */

#define CANNERY_OWN_LOAD1 1
CANNERY_WORD1(f32x8, f32x8_load1, const float *, _mm256_broadcast_ss(a))

#define CANNERY_OWN_REPEATS 1
CANNERY_WORD1(f32x8, f32x8_broadcast4, const float *,
              _mm256_broadcast_ps((const __m128 *)(const void *)a))
CANNERY_WORD1(f32x8, f32x8_broadcast2, const float *,
              _mm256_castsi256_ps(
                  _mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)(const void *)a))))

#define CANNERY_OWN_PARTS 1
#if defined(__AVX512VL__)
CANNERY_INLINE f32x8 f32x8_load_n(const float *p, int n)
{
    return _mm256_maskz_loadu_ps((__mmask8)((1u << n) - 1u), p);
}

CANNERY_INLINE void f32x8_store_n(float *p, f32x8 v, int n)
{
    _mm256_mask_storeu_ps(p, (__mmask8)((1u << n) - 1u), v);
}
#else
CANNERY_INLINE f32x8 f32x8_load_n(const float *p, int n)
{
    if (n <= 4) {
        return _mm256_insertf128_ps(_mm256_setzero_ps(), f32x4_load_n(p, n), 0);
    }
    return f32x8_join(_mm_loadu_ps(p), f32x4_load_n(p + 4, n - 4));
}

CANNERY_INLINE void f32x8_store_n(float *p, f32x8 v, int n)
{
    if (n <= 4) {
        f32x4_store_n(p, f32x8_lo(v), n);
    } else {
        _mm_storeu_ps(p, f32x8_lo(v));
        f32x4_store_n(p + 4, f32x8_hi(v), n - 4);
    }
}
#endif

/* Shuffles stay within 128-bit halves: the middle two 64-bit quarters of the
 * result must change places. */
CANNERY_INLINE f32x8 f32x8_swap_middle(f32x8 v)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
}

#define CANNERY_OWN_ZIP 1
CANNERY_INLINE void f32x8_unzip(f32x8 a, f32x8 b, f32x8 *even, f32x8 *odd)
{
    *even = f32x8_swap_middle(_mm256_shuffle_ps(a, b, 0x88));
    *odd = f32x8_swap_middle(_mm256_shuffle_ps(a, b, 0xdd));
}

CANNERY_INLINE void f32x8_zip(f32x8 a, f32x8 b, f32x8 *lo, f32x8 *hi)
{
    const __m256 first = _mm256_unpacklo_ps(a, b);
    const __m256 second = _mm256_unpackhi_ps(a, b);
    *lo = _mm256_permute2f128_ps(first, second, 0x20);
    *hi = _mm256_permute2f128_ps(first, second, 0x31);
}

/* Rows become columns within each half. */
CANNERY_INLINE void f32x8_transpose_halves(f32x8 *a, f32x8 *b, f32x8 *c, f32x8 *d)
{
    const __m256 ab_lo = _mm256_unpacklo_ps(*a, *b);
    const __m256 ab_hi = _mm256_unpackhi_ps(*a, *b);
    const __m256 cd_lo = _mm256_unpacklo_ps(*c, *d);
    const __m256 cd_hi = _mm256_unpackhi_ps(*c, *d);
    *a = _mm256_shuffle_ps(ab_lo, cd_lo, 0x44);
    *b = _mm256_shuffle_ps(ab_lo, cd_lo, 0xee);
    *c = _mm256_shuffle_ps(ab_hi, cd_hi, 0x44);
    *d = _mm256_shuffle_ps(ab_hi, cd_hi, 0xee);
}

#define CANNERY_OWN_FOURS 1
CANNERY_INLINE void f32x8_load4(const float *p, f32x8 *a, f32x8 *b, f32x8 *c, f32x8 *d)
{
    *a = f32x8_join(_mm_loadu_ps(p), _mm_loadu_ps(p + 16));
    *b = f32x8_join(_mm_loadu_ps(p + 4), _mm_loadu_ps(p + 20));
    *c = f32x8_join(_mm_loadu_ps(p + 8), _mm_loadu_ps(p + 24));
    *d = f32x8_join(_mm_loadu_ps(p + 12), _mm_loadu_ps(p + 28));
    f32x8_transpose_halves(a, b, c, d);
}

CANNERY_INLINE void f32x8_store4(float *p, f32x8 a, f32x8 b, f32x8 c, f32x8 d)
{
    f32x8_transpose_halves(&a, &b, &c, &d);
    _mm_storeu_ps(p, f32x8_lo(a));
    _mm_storeu_ps(p + 4, f32x8_lo(b));
    _mm_storeu_ps(p + 8, f32x8_lo(c));
    _mm_storeu_ps(p + 12, f32x8_lo(d));
    _mm_storeu_ps(p + 16, f32x8_hi(a));
    _mm_storeu_ps(p + 20, f32x8_hi(b));
    _mm_storeu_ps(p + 24, f32x8_hi(c));
    _mm_storeu_ps(p + 28, f32x8_hi(d));
}

#define CANNERY_OWN_LOAD_STRIDE 1
#define CANNERY_OWN_STORE_STRIDE 1
CANNERY_INLINE f32x8 f32x8_load_stride(const float *p, ptrdiff_t stride)
{
    return f32x8_join(f32x4_load_stride(p, stride), f32x4_load_stride(p + 4 * stride, stride));
}

CANNERY_INLINE void f32x8_store_stride(float *p, ptrdiff_t stride, f32x8 v)
{
    f32x4_store_stride(p, stride, f32x8_lo(v));
    f32x4_store_stride(p + 4 * stride, stride, f32x8_hi(v));
}

#define CANNERY_OWN_LOOKUP 1
CANNERY_INLINE f32x8 f32x8_lookup(const float *table, i32x8 k)
{
    return _mm256_i32gather_ps(table, (__m256i)k, 4);
}

CANNERY_INLINE i32x8 i32x8_lookup(const int32_t *table, i32x8 k)
{
    return (i32x8)_mm256_i32gather_epi32((const int *)table, (__m256i)k, 4);
}

/* ---- arithmetic -------------------------------------------------------- */

#define CANNERY_OWN_SIGNS 1
#define CANNERY_OWN_BOUNDS 1
#define CANNERY_OWN_INTEGER_BOUNDS 1
#define CANNERY_OWN_SQRT 1
CANNERY_WORD1(f32x8, f32x8_abs, f32x8, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a))
CANNERY_WORD1(f32x8, f32x8_neg, f32x8, _mm256_xor_ps(_mm256_set1_ps(-0.0f), a))
CANNERY_WORD2(f32x8, f32x8_copysign, f32x8,
              _mm256_or_ps(f32x8_abs(a), _mm256_and_ps(_mm256_set1_ps(-0.0f), b)))
CANNERY_WORD2(f32x8, f32x8_min, f32x8, _mm256_min_ps(a, b))
CANNERY_WORD2(f32x8, f32x8_max, f32x8, _mm256_max_ps(a, b))
CANNERY_WORD2(i32x8, i32x8_min, i32x8, (i32x8)_mm256_min_epi32((__m256i)a, (__m256i)b))
CANNERY_WORD2(i32x8, i32x8_max, i32x8, (i32x8)_mm256_max_epi32((__m256i)a, (__m256i)b))
CANNERY_WORD1(f32x8, f32x8_sqrt, f32x8, _mm256_sqrt_ps(a))

#if defined(CANNERY_HAS_FMA)
#define CANNERY_OWN_FMA 1
CANNERY_INLINE f32x8 f32x8_fma(f32x8 a, f32x8 b, f32x8 c)
{
    return _mm256_fmadd_ps(a, b, c);
}

CANNERY_INLINE f32x8 f32x8_fnma(f32x8 a, f32x8 b, f32x8 c)
{
    return _mm256_fnmadd_ps(a, b, c);
}
#endif

#define CANNERY_OWN_MASKS 1
CANNERY_WORD2(m32x8, f32x8_lt, f32x8, (m32x8)_mm256_cmp_ps(a, b, _CMP_LT_OQ))
CANNERY_WORD2(m32x8, f32x8_le, f32x8, (m32x8)_mm256_cmp_ps(a, b, _CMP_LE_OQ))
CANNERY_WORD2(m32x8, f32x8_gt, f32x8, (m32x8)_mm256_cmp_ps(a, b, _CMP_GT_OQ))
CANNERY_WORD2(m32x8, f32x8_ge, f32x8, (m32x8)_mm256_cmp_ps(a, b, _CMP_GE_OQ))
CANNERY_WORD2(m32x8, f32x8_eq, f32x8, (m32x8)_mm256_cmp_ps(a, b, _CMP_EQ_OQ))
CANNERY_WORD2(m32x8, m32x8_and, m32x8, (m32x8)_mm256_and_ps((__m256)a, (__m256)b))
CANNERY_WORD2(m32x8, m32x8_or, m32x8, (m32x8)_mm256_or_ps((__m256)a, (__m256)b))
CANNERY_WORD1(m32x8, m32x8_not, m32x8, ~a)

#define CANNERY_OWN_SELECT 1
CANNERY_INLINE f32x8 f32x8_select(m32x8 m, f32x8 a, f32x8 b)
{
    return _mm256_blendv_ps(b, a, (__m256)m);
}

/* ---- conversion and rounding ------------------------------------------- */

#define CANNERY_OWN_CONVERSION 1
#define CANNERY_OWN_ROUNDING 1
#define CANNERY_ROUNDED(word, way)                                                                 \
    CANNERY_WORD1(f32x8, f32x8_##word, f32x8, _mm256_round_ps(a, way | _MM_FROUND_NO_EXC))
CANNERY_WORD1(i32x8, f32x8_to_i32, f32x8, (i32x8)_mm256_cvttps_epi32(a))
CANNERY_WORD1(i32x8, f32x8_to_i32_round, f32x8, (i32x8)_mm256_cvtps_epi32(a))
CANNERY_ROUNDED(round, _MM_FROUND_TO_NEAREST_INT)
CANNERY_ROUNDED(floor, _MM_FROUND_TO_NEG_INF)
CANNERY_ROUNDED(ceil, _MM_FROUND_TO_POS_INF)
CANNERY_ROUNDED(trunc, _MM_FROUND_TO_ZERO)
#undef CANNERY_ROUNDED

/* ---- across lanes ------------------------------------------------------ */

#define CANNERY_OWN_TRANSPOSE 1
/* Row pairs, then row quadruples within the halves, then the halves. */
CANNERY_INLINE void f32x8_transpose8(f32x8 *r)
{
    const __m256 a0 = _mm256_unpacklo_ps(r[0], r[1]);
    const __m256 a1 = _mm256_unpackhi_ps(r[0], r[1]);
    const __m256 a2 = _mm256_unpacklo_ps(r[2], r[3]);
    const __m256 a3 = _mm256_unpackhi_ps(r[2], r[3]);
    const __m256 a4 = _mm256_unpacklo_ps(r[4], r[5]);
    const __m256 a5 = _mm256_unpackhi_ps(r[4], r[5]);
    const __m256 a6 = _mm256_unpacklo_ps(r[6], r[7]);
    const __m256 a7 = _mm256_unpackhi_ps(r[6], r[7]);
    const __m256 b0 = _mm256_shuffle_ps(a0, a2, 0x44);
    const __m256 b1 = _mm256_shuffle_ps(a0, a2, 0xee);
    const __m256 b2 = _mm256_shuffle_ps(a1, a3, 0x44);
    const __m256 b3 = _mm256_shuffle_ps(a1, a3, 0xee);
    const __m256 b4 = _mm256_shuffle_ps(a4, a6, 0x44);
    const __m256 b5 = _mm256_shuffle_ps(a4, a6, 0xee);
    const __m256 b6 = _mm256_shuffle_ps(a5, a7, 0x44);
    const __m256 b7 = _mm256_shuffle_ps(a5, a7, 0xee);
    r[0] = _mm256_permute2f128_ps(b0, b4, 0x20);
    r[1] = _mm256_permute2f128_ps(b1, b5, 0x20);
    r[2] = _mm256_permute2f128_ps(b2, b6, 0x20);
    r[3] = _mm256_permute2f128_ps(b3, b7, 0x20);
    r[4] = _mm256_permute2f128_ps(b0, b4, 0x31);
    r[5] = _mm256_permute2f128_ps(b1, b5, 0x31);
    r[6] = _mm256_permute2f128_ps(b2, b6, 0x31);
    r[7] = _mm256_permute2f128_ps(b3, b7, 0x31);
}

/* ---- bytes and int16 as floats ----------------------------------------- */

#define CANNERY_OWN_NARROW_LOADS 1
CANNERY_INLINE f32x8 f32x8_load_u8(const uint8_t *p)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}

CANNERY_INLINE f32x8 f32x8_load_i8(const int8_t *p)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

CANNERY_INLINE f32x8 f32x8_load_s16(const int16_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

/* ---- float16 ----------------------------------------------------------- */

#define CANNERY_OWN_LOAD_F16 1
#define CANNERY_OWN_LOAD1_F16 1
CANNERY_INLINE f32x8 f32x8_of_f16(__m128i halves)
{
#if defined(__F16C__)
    return _mm256_cvtph_ps(halves);
#else
    f32x8 v;
    __asm__("vcvtph2ps {%1, %0|%0, %1}" : "=x"(v) : "x"(halves));
    return v;
#endif
}

CANNERY_INLINE f32x8 f32x8_load_f16(const uint16_t *p)
{
#if defined(__F16C__)
    return f32x8_of_f16(_mm_loadu_si128((const __m128i *)(const void *)p));
#else
    f32x8 v;
    __asm__("vcvtph2ps {%1, %0|%0, %1}" : "=x"(v) : "m"(*(const __m128i_u *)(const void *)p));
    return v;
#endif
}

CANNERY_WORD1(f32x8, f32x8_load1_f16, const uint16_t *,
              f32x8_of_f16(_mm_set1_epi16((short)a[0])))

/* ---- bytes and int16 from floats ---------------------------------------- */

/* Eight numbers, rounded and saturated. */
CANNERY_INLINE __m128i f32x8_saturated(f32x8 v, float low, float high)
{
    return _mm_packs_epi32(f32x4_to_i32_saturate(f32x8_lo(v), low, high),
                           f32x4_to_i32_saturate(f32x8_hi(v), low, high));
}

CANNERY_INLINE __m128i f32x8_to_words(f32x8 v, int32_t zero)
{
    const __m256i k = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(zero));
    return _mm_packs_epi32(_mm256_castsi256_si128(k), _mm256_extracti128_si256(k, 1));
}

/* Eight int16 become bytes by `pack`. */
#define CANNERY_STORE_8(p, pack, words)                                                            \
    do {                                                                                           \
        const __m128i words_ = words;                                                              \
        _mm_storel_epi64((__m128i *)(void *)p, pack(words_, words_));                              \
    } while (0)

#define CANNERY_OWN_NARROW_STORES 1
CANNERY_INLINE void f32x8_store_u8(uint8_t *p, f32x8 v)
{
    CANNERY_STORE_8(p, _mm_packus_epi16, f32x8_saturated(v, 0.0f, 255.0f));
}

CANNERY_INLINE void f32x8_store_i8(int8_t *p, f32x8 v)
{
    CANNERY_STORE_8(p, _mm_packs_epi16, f32x8_saturated(v, -128.0f, 127.0f));
}

CANNERY_INLINE void f32x8_put_u8(uint8_t *p, f32x8 v, int32_t zero)
{
    CANNERY_STORE_8(p, _mm_packus_epi16, f32x8_to_words(v, zero));
}

CANNERY_INLINE void f32x8_put_i8(int8_t *p, f32x8 v, int32_t zero)
{
    CANNERY_STORE_8(p, _mm_packs_epi16, f32x8_to_words(v, zero));
}

CANNERY_INLINE void f32x8_store_s16(int16_t *p, f32x8 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, f32x8_saturated(v, -32768.0f, 32767.0f));
}

CANNERY_INLINE void f32x8_put_s16(int16_t *p, f32x8 v, int32_t zero)
{
    _mm_storeu_si128((__m128i *)(void *)p, f32x8_to_words(v, zero));
}

/* ---- int16 ------------------------------------------------------------- */

typedef __m256i p16x8;

#define CANNERY_OWN_INTERPOLATE 1
CANNERY_WORD2(i32x8, i32x8_interpolate, i32x8,
              (i32x8)_mm256_madd_epi16((__m256i)a, (__m256i)(b | 0x40000000)))

#define CANNERY_OWN_PAIRS 1
CANNERY_WORD1(p16x8, p16x8_load, const int16_t *,
              _mm256_loadu_si256((const __m256i *)(const void *)a))
CANNERY_WORD1(p16x8, p16x8_load1, const int16_t *,
              _mm256_set1_epi32(cannery_bytes4((const int8_t *)(const void *)a, 4)))
CANNERY_WORD1(p16x8, p16x8_load_u8, const uint8_t *,
              _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)a)))
CANNERY_WORD1(p16x8, p16x8_load_i8, const int8_t *,
              _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)a)))
CANNERY_WORD2(p16x8, p16x8_add, p16x8, _mm256_add_epi16(a, b))
CANNERY_WORD2(p16x8, p16x8_sub, p16x8, _mm256_sub_epi16(a, b))

CANNERY_INLINE p16x8 p16x8_load1_n(const int16_t *p, int n)
{
    return n > 1 ? p16x8_load1(p) : _mm256_set1_epi32((uint16_t)p[0]);
}

CANNERY_INLINE p16x8 p16x8_pair(const int16_t *p, const int16_t *q)
{
    const __m256i first = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    const __m256i second = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)q));
    return _mm256_or_si256(first, _mm256_slli_epi32(second, 16));
}

CANNERY_INLINE void p16x8_pair2(const int16_t *p, const int16_t *q, p16x8 *a, p16x8 *b)
{
    const __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i second = _mm256_loadu_si256((const __m256i *)(const void *)q);
    *a = _mm256_unpacklo_epi16(first, second);
    *b = _mm256_unpackhi_epi16(first, second);
}

#define CANNERY_BYTE_PAIRS_8(name, type, widen)                                                    \
    CANNERY_INLINE p16x8 p16x8_pair_##name(const type *p, const type *q)                           \
    {                                                                                              \
        const __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)p);                       \
        const __m128i y = _mm_loadl_epi64((const __m128i *)(const void *)q);                       \
        return widen(_mm_unpacklo_epi8(x, y));                                                     \
    }                                                                                              \
    CANNERY_INLINE p16x8 p16x8_pair_##name##_n(const type *p, const type *q, int n)                \
    {                                                                                              \
        type first[8] = {0}, second[8] = {0};                                                      \
        CANNERY_COPY(first, p, (size_t)n);                                                         \
        CANNERY_COPY(second, q, (size_t)n);                                                        \
        return p16x8_pair_##name(first, second);                                                   \
    }                                                                                              \
    CANNERY_INLINE void p16x8_pair2_##name(const type *p, const type *q, p16x8 *a, p16x8 *b)       \
    {                                                                                              \
        const __m256i x = p16x8_load_##name(p), y = p16x8_load_##name(q);                          \
        *a = _mm256_unpacklo_epi16(x, y);                                                          \
        *b = _mm256_unpackhi_epi16(x, y);                                                          \
    }
CANNERY_BYTE_PAIRS_8(u8, uint8_t, _mm256_cvtepu8_epi16)
CANNERY_BYTE_PAIRS_8(i8, int8_t, _mm256_cvtepi8_epi16)
#undef CANNERY_BYTE_PAIRS_8

CANNERY_INLINE void p16x8_store(int16_t *p, p16x8 v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, v);
}

#define CANNERY_OWN_UNTURN 1
CANNERY_INLINE void i32x8_unturn(i32x8 *a, i32x8 *b)
{
    const __m256i x = (__m256i)*a, y = (__m256i)*b;
    *a = (i32x8)_mm256_permute2x128_si256(x, y, 0x20);
    *b = (i32x8)_mm256_permute2x128_si256(x, y, 0x31);
}

CANNERY_INLINE i32x8 i32x8_dot(p16x8 a, p16x8 b, i32x8 acc)
{
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return (i32x8)_mm256_dpwssd_epi32((__m256i)acc, a, b);
#else
    return (i32x8)_mm256_add_epi32((__m256i)acc, _mm256_madd_epi16(a, b));
#endif
}

/* ---- int8 -------------------------------------------------------------- */

#define CANNERY_OWN_DOT4 1
CANNERY_INLINE i32x8 i32x8_dot4w(i32x8 a, i32x8 b, i32x8 acc)
{
    const __m256i x = (__m256i)a, y = (__m256i)b;
    const __m256i odd = _mm256_madd_epi16(_mm256_srai_epi16(x, 8), _mm256_srai_epi16(y, 8));
    const __m256i even = _mm256_madd_epi16(_mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8),
                                           _mm256_srai_epi16(_mm256_slli_epi16(y, 8), 8));
    return (i32x8)_mm256_add_epi32((__m256i)acc, _mm256_add_epi32(odd, even));
}

CANNERY_INLINE i32x8 i32x8_dot4u(i32x8 a, i32x8 b, i32x8 acc)
{
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return (i32x8)_mm256_dpbusd_epi32((__m256i)acc, (__m256i)a, (__m256i)b);
#else
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)a, (__m256i)b);
    const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    return (i32x8)_mm256_add_epi32((__m256i)acc, sums);
#endif
}

CANNERY_INLINE i32x8 i32x8_dot4(i32x8 a, i32x8 b, i32x8 acc)
{
    const i32x8 sizes = (i32x8)_mm256_abs_epi8((__m256i)a);
    return i32x8_dot4u(sizes, (i32x8)_mm256_sign_epi8((__m256i)b, (__m256i)a), acc);
}

#define CANNERY_OWN_RECIPROCAL 1
#define CANNERY_LANES 8
#include "vec_base.h"

CANNERY_INLINE f32x8 f32x8_recip_fast(f32x8 x)
{
    const __m256 r = _mm256_rcp_ps(x);
    return f32x8_fma(r, f32x8_fnma(x, r, _mm256_set1_ps(1.0f)), r);
}

#undef CANNERY_LANES

#endif
