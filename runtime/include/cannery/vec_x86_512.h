/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary, sixteen lanes in AVX-512 registers. The words are
 * documented in vec_scalar.h.
 */
#ifndef CANNERY_VEC_X86_512_H
#define CANNERY_VEC_X86_512_H

#include "vec_x86_256.h"

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) ||                   \
    !defined(__AVX512VL__)
#error "cannery: vec_x86_512.h needs -mavx512f -mavx512bw -mavx512dq -mavx512vl"
#endif

typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef __mmask16 m32x16; /* a bit per lane */
#define CANNERY_HAS_F32X16 1

/* Bits 0 .. n-1. */
CANNERY_INLINE m32x16 m32x16_first_n(int n)
{
    return (m32x16)((1u << n) - 1u);
}

/* ---- halves ------------------------------------------------------------ */

#define CANNERY_OWN_HALVES 1
CANNERY_WORD1(f32x8, f32x16_lo, f32x16, _mm512_castps512_ps256(a))
CANNERY_WORD1(f32x8, f32x16_hi, f32x16, _mm512_extractf32x8_ps(a, 1))
CANNERY_WORD1(i32x8, i32x16_lo, i32x16, (i32x8)_mm512_castsi512_si256((__m512i)a))
CANNERY_WORD1(i32x8, i32x16_hi, i32x16, (i32x8)_mm512_extracti64x4_epi64((__m512i)a, 1))
CANNERY_WORD2(f32x16, f32x16_join, f32x8, _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1))

/* ---- memory and lanes -------------------------------------------------- */

#define CANNERY_OWN_REPEATS 1
CANNERY_WORD1(f32x16, f32x16_broadcast4, const float *, _mm512_broadcast_f32x4(_mm_loadu_ps(a)))
CANNERY_WORD1(f32x16, f32x16_broadcast2, const float *,
              _mm512_castsi512_ps(
                  _mm512_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)(const void *)a))))

#define CANNERY_OWN_PARTS 1
CANNERY_INLINE f32x16 f32x16_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(m32x16_first_n(n), p);
}

CANNERY_INLINE void f32x16_store_n(float *p, f32x16 v, int n)
{
    _mm512_mask_storeu_ps(p, m32x16_first_n(n), v);
}

#define CANNERY_OWN_LOAD_STRIDE 1
#define CANNERY_OWN_STORE_STRIDE 1
CANNERY_INLINE f32x16 f32x16_load_stride(const float *p, ptrdiff_t stride)
{
    return f32x16_join(f32x8_load_stride(p, stride), f32x8_load_stride(p + 8 * stride, stride));
}

CANNERY_INLINE void f32x16_store_stride(float *p, ptrdiff_t stride, f32x16 v)
{
    f32x8_store_stride(p, stride, f32x16_lo(v));
    f32x8_store_stride(p + 8 * stride, stride, f32x16_hi(v));
}

CANNERY_INLINE f32x16 f32x16_pick(f32x16 a, f32x16 b, i32x16 k)
{
    return _mm512_permutex2var_ps(a, (__m512i)k, b);
}

#define CANNERY_OWN_ZIP 1
CANNERY_INLINE void f32x16_unzip(f32x16 a, f32x16 b, f32x16 *even, f32x16 *odd)
{
    const __m512i first =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(1));
    *even = _mm512_permutex2var_ps(a, first, b);
    *odd = _mm512_permutex2var_ps(a, second, b);
}

/* The elements of a and b alternately. */
CANNERY_INLINE void f32x16_zip(f32x16 a, f32x16 b, f32x16 *lo, f32x16 *hi)
{
    const __m512i of_lo = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i of_hi = _mm512_add_epi32(of_lo, _mm512_set1_epi32(8));
    *lo = _mm512_permutex2var_ps(a, of_lo, b);
    *hi = _mm512_permutex2var_ps(a, of_hi, b);
}

/* ---- arithmetic -------------------------------------------------------- */

#define CANNERY_OWN_SIGNS 1
#define CANNERY_OWN_BOUNDS 1
#define CANNERY_OWN_INTEGER_BOUNDS 1
#define CANNERY_OWN_SQRT 1
#define CANNERY_OWN_FMA 1
CANNERY_WORD1(f32x16, f32x16_abs, f32x16, _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a))
CANNERY_WORD1(f32x16, f32x16_neg, f32x16, _mm512_xor_ps(_mm512_set1_ps(-0.0f), a))
CANNERY_WORD2(f32x16, f32x16_copysign, f32x16,
              _mm512_or_ps(f32x16_abs(a), _mm512_and_ps(_mm512_set1_ps(-0.0f), b)))
CANNERY_WORD2(f32x16, f32x16_min, f32x16, _mm512_min_ps(a, b))
CANNERY_WORD2(f32x16, f32x16_max, f32x16, _mm512_max_ps(a, b))
CANNERY_WORD2(i32x16, i32x16_min, i32x16, (i32x16)_mm512_min_epi32((__m512i)a, (__m512i)b))
CANNERY_WORD2(i32x16, i32x16_max, i32x16, (i32x16)_mm512_max_epi32((__m512i)a, (__m512i)b))
CANNERY_WORD1(f32x16, f32x16_sqrt, f32x16, _mm512_sqrt_ps(a))

/* AVX-512F has fused multiply-add of its own, also without -mfma. */
CANNERY_INLINE f32x16 f32x16_fma(f32x16 a, f32x16 b, f32x16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

CANNERY_INLINE f32x16 f32x16_fnma(f32x16 a, f32x16 b, f32x16 c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

#define CANNERY_OWN_RECIPROCAL 1
CANNERY_INLINE f32x16 f32x16_recip_fast(f32x16 x)
{
    const __m512 r = _mm512_rcp14_ps(x);
    return _mm512_fmadd_ps(r, _mm512_fnmadd_ps(x, r, _mm512_set1_ps(1.0f)), r);
}

#define CANNERY_OWN_MASKS 1
CANNERY_WORD2(m32x16, f32x16_lt, f32x16, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ))
CANNERY_WORD2(m32x16, f32x16_le, f32x16, _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ))
CANNERY_WORD2(m32x16, f32x16_gt, f32x16, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ))
CANNERY_WORD2(m32x16, f32x16_ge, f32x16, _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ))
CANNERY_WORD2(m32x16, f32x16_eq, f32x16, _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ))
CANNERY_WORD2(m32x16, m32x16_and, m32x16, (m32x16)(a & b))
CANNERY_WORD2(m32x16, m32x16_or, m32x16, (m32x16)(a | b))
CANNERY_WORD1(m32x16, m32x16_not, m32x16, (m32x16)~a)

#define CANNERY_OWN_SELECT 1
CANNERY_INLINE f32x16 f32x16_select(m32x16 m, f32x16 a, f32x16 b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

/* ---- conversion and rounding ------------------------------------------- */

#define CANNERY_OWN_CONVERSION 1
CANNERY_WORD1(i32x16, f32x16_to_i32, f32x16, (i32x16)_mm512_cvttps_epi32(a))
CANNERY_WORD1(i32x16, f32x16_to_i32_round, f32x16, (i32x16)_mm512_cvtps_epi32(a))

#define CANNERY_OWN_LOOKUP 1
#define CANNERY_OWN_ROUNDING 1
#define CANNERY_ROUNDED(word, way)                                                                 \
    CANNERY_WORD1(f32x16, f32x16_##word, f32x16, _mm512_roundscale_ps(a, way | _MM_FROUND_NO_EXC))
/* At -O0 gcc's own macros for these pass an all-ones mask as a short. */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
CANNERY_ROUNDED(round, _MM_FROUND_TO_NEAREST_INT)
CANNERY_ROUNDED(floor, _MM_FROUND_TO_NEG_INF)
CANNERY_ROUNDED(ceil, _MM_FROUND_TO_POS_INF)
CANNERY_ROUNDED(trunc, _MM_FROUND_TO_ZERO)
#undef CANNERY_ROUNDED

CANNERY_INLINE f32x16 f32x16_lookup(const float *table, i32x16 k)
{
    return _mm512_i32gather_ps((__m512i)k, (const void *)table, 4);
}
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

CANNERY_INLINE i32x16 i32x16_lookup(const int32_t *table, i32x16 k)
{
#ifdef __OPTIMIZE__
    return (i32x16)_mm512_i32gather_epi32((__m512i)k, (const void *)table, 4);
#else /* gcc's is a macro there, and -Wsign-conversion warns about its mask */
    const __m256i lo = (__m256i)i32x8_lookup(table, i32x16_lo(k));
    const __m256i hi = (__m256i)i32x8_lookup(table, i32x16_hi(k));
    return (i32x16)_mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
#endif
}

/* ---- bytes and int16 as floats ----------------------------------------- */

#define CANNERY_OWN_NARROW_LOADS 1
#define CANNERY_OWN_NARROW_STORES 1
#define CANNERY_OWN_NARROW_PARTS 1

/* Sixteen numbers loaded by `load` or by one with a mask, widened. */
#define CANNERY_LOAD_16(name, type, all, some, widened)                                            \
    CANNERY_INLINE f32x16 f32x16_load_##name(const type *p)                                        \
    {                                                                                              \
        return _mm512_cvtepi32_ps(widened(all));                                                   \
    }                                                                                              \
    CANNERY_INLINE f32x16 f32x16_load_##name##_n(const type *p, int n)                             \
    {                                                                                              \
        return _mm512_cvtepi32_ps(widened(some(m32x16_first_n(n), p)));                            \
    }
#define CANNERY_16_BYTES _mm_loadu_si128((const __m128i *)(const void *)p)
#define CANNERY_16_WORDS _mm256_loadu_si256((const __m256i *)(const void *)p)
CANNERY_LOAD_16(u8, uint8_t, CANNERY_16_BYTES, _mm_maskz_loadu_epi8, _mm512_cvtepu8_epi32)
CANNERY_LOAD_16(i8, int8_t, CANNERY_16_BYTES, _mm_maskz_loadu_epi8, _mm512_cvtepi8_epi32)
CANNERY_LOAD_16(s16, int16_t, CANNERY_16_WORDS, _mm256_maskz_loadu_epi16, _mm512_cvtepi16_epi32)

/* ---- float16 ----------------------------------------------------------- */

#define CANNERY_OWN_LOAD_F16 1
#define CANNERY_OWN_LOAD1_F16 1
#define CANNERY_OWN_LOAD_F16_PARTS 1
CANNERY_WORD1(f32x16, f32x16_load_f16, const uint16_t *,
              _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)a)))
CANNERY_WORD1(f32x16, f32x16_load1_f16, const uint16_t *,
              _mm512_cvtph_ps(_mm256_set1_epi16((short)a[0])))

CANNERY_INLINE f32x16 f32x16_load_f16_n(const uint16_t *p, int n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m32x16_first_n(n), p));
}

/* ---- bytes and int16 from floats ---------------------------------------- */

/* Rounded and clamped to bounds; a NaN lane is masked to 0. */
CANNERY_INLINE __m512i f32x16_held(f32x16 v, float low, float high)
{
    const __m512 x = _mm512_maskz_mov_ps(f32x16_eq(v, v), v);
    return _mm512_cvtps_epi32(
        _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(low)), _mm512_set1_ps(high)));
}

CANNERY_INLINE __m512i f32x16_from(f32x16 v, int32_t zero)
{
    return _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(zero));
}

CANNERY_INLINE __m128i f32x16_to_u8(f32x16 v, int32_t zero)
{
    return _mm512_cvtusepi32_epi8(_mm512_max_epi32(f32x16_from(v, zero), _mm512_setzero_si512()));
}

/* Numbers that `stored` and `put` narrow, stored by `all` or with a mask by `some`. */
#define CANNERY_STORE_16(name, type, to, stored, put, all, some)                                   \
    CANNERY_INLINE void f32x16_store_##name(type *p, f32x16 v)                                     \
    {                                                                                              \
        all((to *)(void *)p, stored);                                                              \
    }                                                                                              \
    CANNERY_INLINE void f32x16_store_##name##_n(type *p, f32x16 v, int n)                          \
    {                                                                                              \
        some(p, m32x16_first_n(n), stored);                                                        \
    }                                                                                              \
    CANNERY_INLINE void f32x16_put_##name(type *p, f32x16 v, int32_t zero)                         \
    {                                                                                              \
        all((to *)(void *)p, put);                                                                 \
    }                                                                                              \
    CANNERY_INLINE void f32x16_put_##name##_n(type *p, f32x16 v, int32_t zero, int n)              \
    {                                                                                              \
        some(p, m32x16_first_n(n), put);                                                           \
    }
CANNERY_STORE_16(u8, uint8_t, __m128i, _mm512_cvtepi32_epi8(f32x16_held(v, 0.0f, 255.0f)),
                 f32x16_to_u8(v, zero), _mm_storeu_si128, _mm_mask_storeu_epi8)
CANNERY_STORE_16(i8, int8_t, __m128i, _mm512_cvtepi32_epi8(f32x16_held(v, -128.0f, 127.0f)),
                 _mm512_cvtsepi32_epi8(f32x16_from(v, zero)), _mm_storeu_si128,
                 _mm_mask_storeu_epi8)
CANNERY_STORE_16(s16, int16_t, __m256i, _mm512_cvtepi32_epi16(f32x16_held(v, -32768.0f, 32767.0f)),
                 _mm512_cvtsepi32_epi16(f32x16_from(v, zero)), _mm256_storeu_si256,
                 _mm256_mask_storeu_epi16)

/* ---- int16 ------------------------------------------------------------- */

typedef __m512i p16x16;

#define CANNERY_OWN_INTERPOLATE 1
CANNERY_WORD2(i32x16, i32x16_interpolate, i32x16,
              (i32x16)_mm512_madd_epi16((__m512i)a, (__m512i)(b | 0x40000000)))

#define CANNERY_OWN_PAIRS 1
CANNERY_WORD1(p16x16, p16x16_load, const int16_t *, _mm512_loadu_si512((const void *)a))
CANNERY_WORD1(p16x16, p16x16_load1, const int16_t *,
              _mm512_set1_epi32(cannery_bytes4((const int8_t *)(const void *)a, 4)))
CANNERY_WORD1(p16x16, p16x16_load_u8, const uint8_t *,
              _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)a)))
CANNERY_WORD1(p16x16, p16x16_load_i8, const int8_t *,
              _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)a)))
CANNERY_WORD2(p16x16, p16x16_add, p16x16, _mm512_add_epi16(a, b))
CANNERY_WORD2(p16x16, p16x16_sub, p16x16, _mm512_sub_epi16(a, b))

CANNERY_INLINE p16x16 p16x16_load1_n(const int16_t *p, int n)
{
    return n > 1 ? p16x16_load1(p) : _mm512_set1_epi32((uint16_t)p[0]);
}

CANNERY_INLINE p16x16 p16x16_of_words(__m256i first, __m256i second)
{
    return _mm512_or_si512(_mm512_cvtepu16_epi32(first),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
}

CANNERY_INLINE p16x16 p16x16_pair(const int16_t *p, const int16_t *q)
{
    return p16x16_of_words(_mm256_loadu_si256((const __m256i *)(const void *)p),
                           _mm256_loadu_si256((const __m256i *)(const void *)q));
}

#define CANNERY_OWN_PAIR_N 1
CANNERY_INLINE p16x16 p16x16_pair_n(const int16_t *p, const int16_t *q, int n)
{
    return p16x16_of_words(_mm256_maskz_loadu_epi16(m32x16_first_n(n), p),
                           _mm256_maskz_loadu_epi16(m32x16_first_n(n), q));
}

CANNERY_INLINE void p16x16_pair2(const int16_t *p, const int16_t *q, p16x16 *a, p16x16 *b)
{
    const __m512i first = _mm512_loadu_si512((const void *)p);
    const __m512i second = _mm512_loadu_si512((const void *)q);
    *a = _mm512_unpacklo_epi16(first, second);
    *b = _mm512_unpackhi_epi16(first, second);
}

#define CANNERY_BYTE_PAIRS_16(name, type, widen)                                                   \
    CANNERY_INLINE p16x16 p16x16_pair_##name(const type *p, const type *q)                         \
    {                                                                                              \
        return p16x16_of_words(widen(_mm_loadu_si128((const __m128i *)(const void *)p)),           \
                               widen(_mm_loadu_si128((const __m128i *)(const void *)q)));          \
    }                                                                                              \
    CANNERY_INLINE p16x16 p16x16_pair_##name##_n(const type *p, const type *q, int n)              \
    {                                                                                              \
        return p16x16_of_words(widen(_mm_maskz_loadu_epi8(m32x16_first_n(n), p)),                  \
                               widen(_mm_maskz_loadu_epi8(m32x16_first_n(n), q)));                 \
    }                                                                                              \
    CANNERY_INLINE void p16x16_pair2_##name(const type *p, const type *q, p16x16 *a, p16x16 *b)    \
    {                                                                                              \
        const __m512i x = p16x16_load_##name(p), y = p16x16_load_##name(q);                        \
        *a = _mm512_unpacklo_epi16(x, y);                                                          \
        *b = _mm512_unpackhi_epi16(x, y);                                                          \
    }
CANNERY_BYTE_PAIRS_16(u8, uint8_t, _mm256_cvtepu8_epi16)
CANNERY_BYTE_PAIRS_16(i8, int8_t, _mm256_cvtepi8_epi16)
#undef CANNERY_BYTE_PAIRS_16

CANNERY_INLINE void p16x16_store(int16_t *p, p16x16 v)
{
    _mm512_storeu_si512((void *)p, v);
}

#define CANNERY_OWN_UNTURN 1
CANNERY_INLINE void i32x16_unturn(i32x16 *a, i32x16 *b)
{
    const __m512i of_lo = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i of_hi = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const __m512i x = (__m512i)*a, y = (__m512i)*b;
    *a = (i32x16)_mm512_permutex2var_epi64(x, of_lo, y);
    *b = (i32x16)_mm512_permutex2var_epi64(x, of_hi, y);
}

CANNERY_INLINE i32x16 i32x16_dot(p16x16 a, p16x16 b, i32x16 acc)
{
#if defined(__AVX512VNNI__)
    return (i32x16)_mm512_dpwssd_epi32((__m512i)acc, a, b);
#else
    return (i32x16)_mm512_add_epi32((__m512i)acc, _mm512_madd_epi16(a, b));
#endif
}

/* ---- int8 -------------------------------------------------------------- */

#define CANNERY_OWN_DOT4 1
CANNERY_INLINE i32x16 i32x16_dot4w(i32x16 a, i32x16 b, i32x16 acc)
{
    const __m512i x = (__m512i)a, y = (__m512i)b;
    const __m512i odd = _mm512_madd_epi16(_mm512_srai_epi16(x, 8), _mm512_srai_epi16(y, 8));
    const __m512i even = _mm512_madd_epi16(_mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8),
                                           _mm512_srai_epi16(_mm512_slli_epi16(y, 8), 8));
    return (i32x16)_mm512_add_epi32((__m512i)acc, _mm512_add_epi32(odd, even));
}

CANNERY_INLINE i32x16 i32x16_dot4u(i32x16 a, i32x16 b, i32x16 acc)
{
#if defined(__AVX512VNNI__)
    return (i32x16)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)a, (__m512i)b);
#else
    const __m512i pairs = _mm512_maddubs_epi16((__m512i)a, (__m512i)b);
    const __m512i sums = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
    return (i32x16)_mm512_add_epi32((__m512i)acc, sums);
#endif
}

CANNERY_INLINE i32x16 i32x16_dot4(i32x16 a, i32x16 b, i32x16 acc)
{
    const __m512i x = (__m512i)a, y = (__m512i)b;
    const __m512i signed_b =
        _mm512_mask_sub_epi8(y, _mm512_movepi8_mask(x), _mm512_setzero_si512(), y);
    return i32x16_dot4u((i32x16)_mm512_abs_epi8(x), (i32x16)signed_b, acc);
}

#define CANNERY_OWN_PAIR_SUMS 1
CANNERY_INLINE f32x8 f32x16_add_pairs(f32x16 v)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14);
    const __m512 sums = _mm512_add_ps(v, _mm512_permute_ps(v, 0xb1));
    return _mm512_castps512_ps256(_mm512_permutexvar_ps(even, sums));
}

#define CANNERY_LANES 16
#include "vec_base.h"
#undef CANNERY_LANES

#endif
