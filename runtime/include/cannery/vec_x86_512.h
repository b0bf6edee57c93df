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

#define CANNERY_HAS_F32X16 1

typedef __m512 f32x16;
typedef __m512i i32x16;
typedef __mmask16 m32x16; /* a bit per lane */

/* Bits 0 .. n-1. */
CANNERY_INLINE m32x16 m32x16_first_n(int n)
{
    return (m32x16)((1u << n) - 1u);
}

/* ---- halves ------------------------------------------------------------ */

CANNERY_INLINE f32x8 f32x16_lo(f32x16 v)
{
    return _mm512_castps512_ps256(v);
}

CANNERY_INLINE f32x8 f32x16_hi(f32x16 v)
{
    return _mm512_extractf32x8_ps(v, 1);
}

CANNERY_INLINE f32x16 f32x16_join(f32x8 lo, f32x8 hi)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(lo), hi, 1);
}

/* ---- memory ------------------------------------------------------------ */

CANNERY_INLINE f32x16 f32x16_zero(void)
{
    return _mm512_setzero_ps();
}

CANNERY_INLINE f32x16 f32x16_set1(float x)
{
    return _mm512_set1_ps(x);
}

CANNERY_INLINE f32x16 f32x16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

CANNERY_INLINE void f32x16_store(float *p, f32x16 v)
{
    _mm512_storeu_ps(p, v);
}

CANNERY_INLINE f32x16 f32x16_load_aligned(const float *p)
{
    return _mm512_load_ps(p);
}

CANNERY_INLINE void f32x16_store_aligned(float *p, f32x16 v)
{
    _mm512_store_ps(p, v);
}

CANNERY_INLINE f32x16 f32x16_load1(const float *p)
{
    return _mm512_set1_ps(p[0]);
}

CANNERY_INLINE f32x16 f32x16_broadcast4(const float *p)
{
    return _mm512_broadcast_f32x4(_mm_loadu_ps(p));
}

CANNERY_INLINE f32x16 f32x16_broadcast2(const float *p)
{
    return _mm512_castsi512_ps(_mm512_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

CANNERY_INLINE f32x16 f32x16_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(m32x16_first_n(n), p);
}

CANNERY_INLINE void f32x16_store_n(float *p, f32x16 v, int n)
{
    _mm512_mask_storeu_ps(p, m32x16_first_n(n), v);
}

CANNERY_INLINE void f32x16_unzip(f32x16 a, f32x16 b, f32x16 *even, f32x16 *odd)
{
    const __m512i first =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(1));
    *even = _mm512_permutex2var_ps(a, first, b);
    *odd = _mm512_permutex2var_ps(a, second, b);
}

CANNERY_INLINE void f32x16_load2(const float *p, f32x16 *even, f32x16 *odd)
{
    f32x16_unzip(_mm512_loadu_ps(p), _mm512_loadu_ps(p + 16), even, odd);
}

/* The elements of a and b by turns. */
CANNERY_INLINE void f32x16_zip(f32x16 a, f32x16 b, f32x16 *first, f32x16 *second)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    *first = _mm512_permutex2var_ps(a, low, b);
    *second = _mm512_permutex2var_ps(a, high, b);
}

CANNERY_INLINE void f32x16_store2(float *p, f32x16 even, f32x16 odd)
{
    f32x16 first, second;
    f32x16_zip(even, odd, &first, &second);
    _mm512_storeu_ps(p, first);
    _mm512_storeu_ps(p + 16, second);
}

CANNERY_INLINE void f32x16_load4(const float *p, f32x16 *a, f32x16 *b, f32x16 *c, f32x16 *d)
{
    f32x16 even0, odd0, even1, odd1;
    f32x16_load2(p, &even0, &odd0);
    f32x16_load2(p + 32, &even1, &odd1);
    f32x16_unzip(even0, even1, a, c);
    f32x16_unzip(odd0, odd1, b, d);
}

CANNERY_INLINE void f32x16_store4(float *p, f32x16 a, f32x16 b, f32x16 c, f32x16 d)
{
    f32x16 even0, odd0, even1, odd1;
    f32x16_zip(a, c, &even0, &even1);
    f32x16_zip(b, d, &odd0, &odd1);
    f32x16_store2(p, even0, odd0);
    f32x16_store2(p + 32, even1, odd1);
}

CANNERY_INLINE f32x16 f32x16_load_stride(const float *p, ptrdiff_t stride)
{
    return f32x16_join(f32x8_load_stride(p, stride), f32x8_load_stride(p + 8 * stride, stride));
}

CANNERY_INLINE void f32x16_store_stride(float *p, ptrdiff_t stride, f32x16 v)
{
    f32x8_store_stride(p, stride, f32x16_lo(v));
    f32x8_store_stride(p + 8 * stride, stride, f32x16_hi(v));
}

CANNERY_INLINE i32x16 i32x16_load(const int32_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

CANNERY_INLINE void i32x16_store(int32_t *p, i32x16 v)
{
    _mm512_storeu_si512((void *)p, v);
}

CANNERY_INLINE f32x16 f32x16_pick(f32x16 a, f32x16 b, i32x16 k)
{
    return _mm512_permutex2var_ps(a, k, b);
}

/* ---- integers ---------------------------------------------------------- */

CANNERY_INLINE i32x16 i32x16_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}

CANNERY_INLINE i32x16 i32x16_add(i32x16 a, i32x16 b)
{
    return _mm512_add_epi32(a, b);
}

CANNERY_INLINE i32x16 i32x16_sub(i32x16 a, i32x16 b)
{
    return _mm512_sub_epi32(a, b);
}

CANNERY_INLINE i32x16 i32x16_and(i32x16 a, i32x16 b)
{
    return _mm512_and_si512(a, b);
}

CANNERY_INLINE i32x16 i32x16_or(i32x16 a, i32x16 b)
{
    return _mm512_or_si512(a, b);
}

CANNERY_INLINE i32x16 i32x16_xor(i32x16 a, i32x16 b)
{
    return _mm512_xor_si512(a, b);
}

CANNERY_INLINE i32x16 i32x16_min(i32x16 a, i32x16 b)
{
    return _mm512_min_epi32(a, b);
}

CANNERY_INLINE i32x16 i32x16_max(i32x16 a, i32x16 b)
{
    return _mm512_max_epi32(a, b);
}

CANNERY_INLINE i32x16 i32x16_shl23(i32x16 a)
{
    return _mm512_slli_epi32(a, 23);
}

CANNERY_INLINE i32x16 i32x16_shr23(i32x16 a)
{
    return _mm512_srli_epi32(a, 23);
}

CANNERY_INLINE i32x16 i32x16_sra23(i32x16 a)
{
    return _mm512_srai_epi32(a, 23);
}

CANNERY_INLINE i32x16 i32x16_sra1(i32x16 a)
{
    return _mm512_srai_epi32(a, 1);
}

CANNERY_INLINE f32x16 i32x16_as_f32(i32x16 k)
{
    return _mm512_castsi512_ps(k);
}

CANNERY_INLINE i32x16 f32x16_as_i32(f32x16 v)
{
    return _mm512_castps_si512(v);
}

CANNERY_INLINE i32x16 f32x16_to_i32(f32x16 v)
{
    return _mm512_cvttps_epi32(v);
}

CANNERY_INLINE i32x16 f32x16_to_i32_round(f32x16 v)
{
    return _mm512_cvtps_epi32(v);
}

CANNERY_INLINE f32x16 f32x16_from_i32(i32x16 k)
{
    return _mm512_cvtepi32_ps(k);
}

CANNERY_INLINE f32x16 f32x16_pow2i(i32x16 k)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(k, _mm512_set1_epi32(127)), 23));
}

/* ---- arithmetic -------------------------------------------------------- */

CANNERY_INLINE f32x16 f32x16_add(f32x16 a, f32x16 b)
{
    return _mm512_add_ps(a, b);
}

CANNERY_INLINE f32x16 f32x16_sub(f32x16 a, f32x16 b)
{
    return _mm512_sub_ps(a, b);
}

CANNERY_INLINE f32x16 f32x16_mul(f32x16 a, f32x16 b)
{
    return _mm512_mul_ps(a, b);
}

CANNERY_INLINE f32x16 f32x16_div(f32x16 a, f32x16 b)
{
    return _mm512_div_ps(a, b);
}

CANNERY_INLINE f32x16 f32x16_sqrt(f32x16 v)
{
    return _mm512_sqrt_ps(v);
}

/* AVX-512F has fused multiply-add of its own, also without -mfma. */
CANNERY_INLINE f32x16 f32x16_fma(f32x16 a, f32x16 b, f32x16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

CANNERY_INLINE f32x16 f32x16_fnma(f32x16 a, f32x16 b, f32x16 c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

CANNERY_INLINE f32x16 f32x16_recip_fast(f32x16 x)
{
    const __m512 r = _mm512_rcp14_ps(x);
    return _mm512_fmadd_ps(r, _mm512_fnmadd_ps(x, r, _mm512_set1_ps(1.0f)), r);
}

CANNERY_INLINE f32x16 f32x16_min(f32x16 a, f32x16 b)
{
    return _mm512_min_ps(a, b);
}

CANNERY_INLINE f32x16 f32x16_max(f32x16 a, f32x16 b)
{
    return _mm512_max_ps(a, b);
}

CANNERY_INLINE f32x16 f32x16_abs(f32x16 v)
{
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), v);
}

CANNERY_INLINE f32x16 f32x16_neg(f32x16 v)
{
    return _mm512_xor_ps(_mm512_set1_ps(-0.0f), v);
}

CANNERY_INLINE f32x16 f32x16_copysign(f32x16 magnitude, f32x16 sign)
{
    const __m512 bit = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(bit, magnitude), _mm512_and_ps(bit, sign));
}

CANNERY_INLINE m32x16 f32x16_lt(f32x16 a, f32x16 b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

CANNERY_INLINE m32x16 f32x16_le(f32x16 a, f32x16 b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}

CANNERY_INLINE m32x16 f32x16_gt(f32x16 a, f32x16 b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

CANNERY_INLINE m32x16 f32x16_ge(f32x16 a, f32x16 b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}

CANNERY_INLINE m32x16 f32x16_eq(f32x16 a, f32x16 b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}

CANNERY_INLINE m32x16 m32x16_and(m32x16 a, m32x16 b)
{
    return (m32x16)(a & b);
}

CANNERY_INLINE m32x16 m32x16_or(m32x16 a, m32x16 b)
{
    return (m32x16)(a | b);
}

CANNERY_INLINE m32x16 m32x16_not(m32x16 a)
{
    return (m32x16)~a;
}

CANNERY_INLINE f32x16 f32x16_select(m32x16 m, f32x16 a, f32x16 b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

/* At -O0 gcc's own macros for these pass an all-ones mask as a short. */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif
CANNERY_INLINE f32x16 f32x16_lookup(const float *table, i32x16 k)
{
    return _mm512_i32gather_ps(k, (const void *)table, 4);
}

CANNERY_INLINE f32x16 f32x16_round(f32x16 v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

CANNERY_INLINE f32x16 f32x16_floor(f32x16 v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

CANNERY_INLINE f32x16 f32x16_ceil(f32x16 v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

CANNERY_INLINE f32x16 f32x16_trunc(f32x16 v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* ---- across lanes ------------------------------------------------------ */

CANNERY_INLINE float f32x16_hsum(f32x16 v)
{
    return f32x8_hsum(_mm256_add_ps(f32x16_lo(v), f32x16_hi(v)));
}

CANNERY_INLINE float f32x16_hmax(f32x16 v)
{
    return f32x8_hmax(_mm256_max_ps(f32x16_lo(v), f32x16_hi(v)));
}

CANNERY_INLINE float f32x16_hmin(f32x16 v)
{
    return f32x8_hmin(_mm256_min_ps(f32x16_lo(v), f32x16_hi(v)));
}

CANNERY_INLINE f32x8 f32x16_add_pairs(f32x16 v)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14);
    const __m512 sums = _mm512_add_ps(v, _mm512_permute_ps(v, 0xb1));
    return _mm512_castps512_ps256(_mm512_permutexvar_ps(even, sums));
}

/* ---- bytes ------------------------------------------------------------- */

CANNERY_INLINE f32x16 f32x16_load_u8_n(const uint8_t *p, int n)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m32x16_first_n(n), p)));
}

CANNERY_INLINE f32x16 f32x16_load_i8_n(const int8_t *p, int n)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(m32x16_first_n(n), p)));
}

CANNERY_INLINE f32x16 f32x16_load_u8(const uint8_t *p)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}

CANNERY_INLINE f32x16 f32x16_load_i8(const int8_t *p)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

/* The sixteen bytes of v, rounded and saturated; a NaN lane is masked to 0. */
CANNERY_INLINE __m128i f32x16_to_bytes(f32x16 v, float low, float high)
{
    const __m512 x = _mm512_maskz_mov_ps(f32x16_eq(v, v), v);
    const __m512 bounded =
        _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(low)), _mm512_set1_ps(high));
    return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(bounded));
}

CANNERY_INLINE void f32x16_store_u8(uint8_t *p, f32x16 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, f32x16_to_bytes(v, 0.0f, 255.0f));
}

CANNERY_INLINE void f32x16_store_i8(int8_t *p, f32x16 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, f32x16_to_bytes(v, -128.0f, 127.0f));
}

CANNERY_INLINE void f32x16_store_u8_n(uint8_t *p, f32x16 v, int n)
{
    _mm_mask_storeu_epi8(p, m32x16_first_n(n), f32x16_to_bytes(v, 0.0f, 255.0f));
}

CANNERY_INLINE void f32x16_store_i8_n(int8_t *p, f32x16 v, int n)
{
    _mm_mask_storeu_epi8(p, m32x16_first_n(n), f32x16_to_bytes(v, -128.0f, 127.0f));
}

CANNERY_INLINE __m128i f32x16_to_u8(f32x16 v, int32_t zero)
{
    const __m512i k = _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(zero));
    return _mm512_cvtusepi32_epi8(_mm512_max_epi32(k, _mm512_setzero_si512()));
}

CANNERY_INLINE __m128i f32x16_to_i8(f32x16 v, int32_t zero)
{
    return _mm512_cvtsepi32_epi8(
        _mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(zero)));
}

CANNERY_INLINE void f32x16_put_u8(uint8_t *p, f32x16 v, int32_t zero)
{
    _mm_storeu_si128((__m128i *)(void *)p, f32x16_to_u8(v, zero));
}

CANNERY_INLINE void f32x16_put_u8_n(uint8_t *p, f32x16 v, int32_t zero, int n)
{
    _mm_mask_storeu_epi8(p, m32x16_first_n(n), f32x16_to_u8(v, zero));
}

CANNERY_INLINE void f32x16_put_i8(int8_t *p, f32x16 v, int32_t zero)
{
    _mm_storeu_si128((__m128i *)(void *)p, f32x16_to_i8(v, zero));
}

CANNERY_INLINE void f32x16_put_i8_n(int8_t *p, f32x16 v, int32_t zero, int n)
{
    _mm_mask_storeu_epi8(p, m32x16_first_n(n), f32x16_to_i8(v, zero));
}

/* ---- int16 ------------------------------------------------------------- */

typedef __m512i p16x16;

CANNERY_INLINE i32x16 i32x16_zero(void)
{
    return _mm512_setzero_si512();
}

CANNERY_INLINE i32x8 i32x16_lo(i32x16 v)
{
    return _mm512_castsi512_si256(v);
}

CANNERY_INLINE i32x8 i32x16_hi(i32x16 v)
{
    return _mm512_extracti64x4_epi64(v, 1);
}

CANNERY_INLINE i32x16 i32x16_sra14(i32x16 a)
{
    return _mm512_srai_epi32(a, 14);
}

CANNERY_INLINE i32x16 i32x16_lookup(const int32_t *table, i32x16 k)
{
#ifdef __OPTIMIZE__
    return _mm512_i32gather_epi32(k, (const void *)table, 4);
#else /* there gcc's is a macro, whose mask -Wsign-conversion warns of */
    const __m256i lo = _mm256_i32gather_epi32((const int *)table, _mm512_castsi512_si256(k), 4);
    const __m256i hi = _mm256_i32gather_epi32((const int *)table, _mm512_extracti64x4_epi64(k, 1), 4);
    return _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
#endif
}

CANNERY_INLINE i32x16 i32x16_interpolate(i32x16 entry, i32x16 fraction)
{
    return _mm512_madd_epi16(entry, _mm512_or_si512(fraction, _mm512_set1_epi32(0x40000000)));
}

CANNERY_INLINE p16x16 p16x16_load(const int16_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

CANNERY_INLINE p16x16 p16x16_load1(const int16_t *p)
{
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return _mm512_set1_epi32(pair);
}

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

CANNERY_INLINE void i32x16_unturn(i32x16 *a, i32x16 *b)
{
    const __m512i of_lo = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i of_hi = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const __m512i lo = _mm512_permutex2var_epi64(*a, of_lo, *b);
    *b = _mm512_permutex2var_epi64(*a, of_hi, *b);
    *a = lo;
}

CANNERY_INLINE p16x16 p16x16_load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

CANNERY_INLINE p16x16 p16x16_load_i8(const int8_t *p)
{
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

CANNERY_INLINE p16x16 p16x16_add(p16x16 a, p16x16 b)
{
    return _mm512_add_epi16(a, b);
}

CANNERY_INLINE p16x16 p16x16_sub(p16x16 a, p16x16 b)
{
    return _mm512_sub_epi16(a, b);
}

CANNERY_INLINE void p16x16_store(int16_t *p, p16x16 v)
{
    _mm512_storeu_si512((void *)p, v);
}

CANNERY_INLINE i32x16 i32x16_dot(p16x16 a, p16x16 b, i32x16 acc)
{
#if defined(__AVX512VNNI__)
    return _mm512_dpwssd_epi32(acc, a, b);
#else
    return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b));
#endif
}

CANNERY_INLINE f32x16 f32x16_load_s16(const int16_t *p)
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p)));
}

CANNERY_INLINE f32x16 f32x16_load_s16_n(const int16_t *p, int n)
{
    const __m256i words = _mm256_maskz_loadu_epi16(m32x16_first_n(n), p);
    return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(words));
}

/* The sixteen numbers of v, rounded and saturated; a NaN lane is masked to 0. */
CANNERY_INLINE __m256i f32x16_to_words(f32x16 v)
{
    const __m512 x = _mm512_maskz_mov_ps(f32x16_eq(v, v), v);
    const __m512 bounded =
        _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-32768.0f)), _mm512_set1_ps(32767.0f));
    return _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(bounded));
}

CANNERY_INLINE void f32x16_store_s16(int16_t *p, f32x16 v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, f32x16_to_words(v));
}

CANNERY_INLINE void f32x16_store_s16_n(int16_t *p, f32x16 v, int n)
{
    _mm256_mask_storeu_epi16(p, m32x16_first_n(n), f32x16_to_words(v));
}

CANNERY_INLINE __m256i f32x16_to_s16(f32x16 v, int32_t zero)
{
    return _mm512_cvtsepi32_epi16(_mm512_add_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(zero)));
}

CANNERY_INLINE void f32x16_put_s16(int16_t *p, f32x16 v, int32_t zero)
{
    _mm256_storeu_si256((__m256i *)(void *)p, f32x16_to_s16(v, zero));
}

CANNERY_INLINE void f32x16_put_s16_n(int16_t *p, f32x16 v, int32_t zero, int n)
{
    _mm256_mask_storeu_epi16(p, m32x16_first_n(n), f32x16_to_s16(v, zero));
}

/* ---- int8 -------------------------------------------------------------- */

typedef __m512i q8x16;

CANNERY_INLINE q8x16 q8x16_load(const int8_t *p)
{
    return _mm512_loadu_si512((const void *)p);
}

CANNERY_INLINE q8x16 q8x16_load1(const int8_t *p)
{
    return _mm512_set1_epi32(cannery_bytes4(p, 4));
}

CANNERY_INLINE q8x16 q8x16_load1_n(const int8_t *p, int n)
{
    return _mm512_set1_epi32(cannery_bytes4(p, n));
}

CANNERY_INLINE q8x16 q8x16_flip(q8x16 a)
{
    return _mm512_xor_si512(a, _mm512_set1_epi8(-128));
}

CANNERY_INLINE i32x16 i32x16_dot4w(q8x16 a, q8x16 b, i32x16 acc)
{
    const __m512i odd = _mm512_madd_epi16(_mm512_srai_epi16(a, 8), _mm512_srai_epi16(b, 8));
    const __m512i even = _mm512_madd_epi16(_mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8),
                                           _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
    return _mm512_add_epi32(acc, _mm512_add_epi32(odd, even));
}

CANNERY_INLINE i32x16 i32x16_dot4u(q8x16 a, q8x16 b, i32x16 acc)
{
#if defined(__AVX512VNNI__)
    return _mm512_dpbusd_epi32(acc, a, b);
#else
    const __m512i pairs = _mm512_maddubs_epi16(a, b);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}

CANNERY_INLINE i32x16 i32x16_dot4(q8x16 a, q8x16 b, i32x16 acc)
{
    const __m512i sizes = _mm512_abs_epi8(a);
    const __m512i signed_b =
        _mm512_mask_sub_epi8(b, _mm512_movepi8_mask(a), _mm512_setzero_si512(), b);
#if defined(__AVX512VNNI__)
    return _mm512_dpbusd_epi32(acc, sizes, signed_b);
#else
    const __m512i pairs = _mm512_maddubs_epi16(sizes, signed_b);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}

#endif
