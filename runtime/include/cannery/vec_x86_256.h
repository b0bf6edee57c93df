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

#define CANNERY_HAS_F32X8 1

typedef __m256 f32x8;
typedef __m256i i32x8;
typedef __m256 m32x8; /* all bits of a lane set or none */

/* ---- halves ------------------------------------------------------------ */

CANNERY_INLINE f32x4 f32x8_lo(f32x8 v)
{
    return _mm256_castps256_ps128(v);
}

CANNERY_INLINE f32x4 f32x8_hi(f32x8 v)
{
    return _mm256_extractf128_ps(v, 1);
}

CANNERY_INLINE f32x8 f32x8_join(f32x4 lo, f32x4 hi)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(lo), hi, 1);
}

/* ---- memory ------------------------------------------------------------ */

CANNERY_INLINE f32x8 f32x8_zero(void)
{
    return _mm256_setzero_ps();
}

CANNERY_INLINE f32x8 f32x8_set1(float x)
{
    return _mm256_set1_ps(x);
}

CANNERY_INLINE f32x8 f32x8_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

CANNERY_INLINE void f32x8_store(float *p, f32x8 v)
{
    _mm256_storeu_ps(p, v);
}

CANNERY_INLINE f32x8 f32x8_load_aligned(const float *p)
{
    return _mm256_load_ps(p);
}

CANNERY_INLINE void f32x8_store_aligned(float *p, f32x8 v)
{
    _mm256_store_ps(p, v);
}

CANNERY_INLINE f32x8 f32x8_load1(const float *p)
{
    return _mm256_broadcast_ss(p);
}

CANNERY_INLINE f32x8 f32x8_broadcast2(const float *p)
{
    return _mm256_castsi256_ps(_mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

CANNERY_INLINE f32x8 f32x8_broadcast4(const float *p)
{
    return _mm256_broadcast_ps((const __m128 *)(const void *)p);
}

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
 * result have to change places. */
CANNERY_INLINE f32x8 f32x8_swap_middle(f32x8 v)
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
}

CANNERY_INLINE void f32x8_unzip(f32x8 a, f32x8 b, f32x8 *even, f32x8 *odd)
{
    *even = f32x8_swap_middle(_mm256_shuffle_ps(a, b, 0x88));
    *odd = f32x8_swap_middle(_mm256_shuffle_ps(a, b, 0xdd));
}

CANNERY_INLINE void f32x8_load2(const float *p, f32x8 *even, f32x8 *odd)
{
    f32x8_unzip(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), even, odd);
}

CANNERY_INLINE void f32x8_store2(float *p, f32x8 even, f32x8 odd)
{
    const __m256 lo = _mm256_unpacklo_ps(even, odd);
    const __m256 hi = _mm256_unpackhi_ps(even, odd);
    _mm256_storeu_ps(p, _mm256_permute2f128_ps(lo, hi, 0x20));
    _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(lo, hi, 0x31));
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

CANNERY_INLINE f32x8 f32x8_load_stride(const float *p, ptrdiff_t stride)
{
    return f32x8_join(f32x4_load_stride(p, stride), f32x4_load_stride(p + 4 * stride, stride));
}

CANNERY_INLINE void f32x8_store_stride(float *p, ptrdiff_t stride, f32x8 v)
{
    f32x4_store_stride(p, stride, f32x8_lo(v));
    f32x4_store_stride(p + 4 * stride, stride, f32x8_hi(v));
}

CANNERY_INLINE i32x8 i32x8_load(const int32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

CANNERY_INLINE void i32x8_store(int32_t *p, i32x8 v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, v);
}

CANNERY_INLINE f32x8 f32x8_lookup(const float *table, i32x8 k)
{
    return _mm256_i32gather_ps(table, k, 4);
}

/* ---- integers ---------------------------------------------------------- */

CANNERY_INLINE i32x8 i32x8_set1(int32_t x)
{
    return _mm256_set1_epi32(x);
}

CANNERY_INLINE i32x8 i32x8_add(i32x8 a, i32x8 b)
{
    return _mm256_add_epi32(a, b);
}

CANNERY_INLINE i32x8 i32x8_sub(i32x8 a, i32x8 b)
{
    return _mm256_sub_epi32(a, b);
}

CANNERY_INLINE i32x8 i32x8_and(i32x8 a, i32x8 b)
{
    return _mm256_and_si256(a, b);
}

CANNERY_INLINE i32x8 i32x8_or(i32x8 a, i32x8 b)
{
    return _mm256_or_si256(a, b);
}

CANNERY_INLINE i32x8 i32x8_xor(i32x8 a, i32x8 b)
{
    return _mm256_xor_si256(a, b);
}

CANNERY_INLINE i32x8 i32x8_min(i32x8 a, i32x8 b)
{
    return _mm256_min_epi32(a, b);
}

CANNERY_INLINE i32x8 i32x8_max(i32x8 a, i32x8 b)
{
    return _mm256_max_epi32(a, b);
}

CANNERY_INLINE i32x8 i32x8_shl23(i32x8 a)
{
    return _mm256_slli_epi32(a, 23);
}

CANNERY_INLINE i32x8 i32x8_shr23(i32x8 a)
{
    return _mm256_srli_epi32(a, 23);
}

CANNERY_INLINE i32x8 i32x8_sra23(i32x8 a)
{
    return _mm256_srai_epi32(a, 23);
}

CANNERY_INLINE i32x8 i32x8_sra1(i32x8 a)
{
    return _mm256_srai_epi32(a, 1);
}

CANNERY_INLINE f32x8 i32x8_as_f32(i32x8 k)
{
    return _mm256_castsi256_ps(k);
}

CANNERY_INLINE i32x8 f32x8_as_i32(f32x8 v)
{
    return _mm256_castps_si256(v);
}

CANNERY_INLINE i32x8 f32x8_to_i32(f32x8 v)
{
    return _mm256_cvttps_epi32(v);
}

CANNERY_INLINE i32x8 f32x8_to_i32_round(f32x8 v)
{
    return _mm256_cvtps_epi32(v);
}

CANNERY_INLINE f32x8 f32x8_from_i32(i32x8 k)
{
    return _mm256_cvtepi32_ps(k);
}

CANNERY_INLINE f32x8 f32x8_pow2i(i32x8 k)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(k, _mm256_set1_epi32(127)), 23));
}

/* ---- arithmetic -------------------------------------------------------- */

CANNERY_INLINE f32x8 f32x8_add(f32x8 a, f32x8 b)
{
    return _mm256_add_ps(a, b);
}

CANNERY_INLINE f32x8 f32x8_sub(f32x8 a, f32x8 b)
{
    return _mm256_sub_ps(a, b);
}

CANNERY_INLINE f32x8 f32x8_mul(f32x8 a, f32x8 b)
{
    return _mm256_mul_ps(a, b);
}

CANNERY_INLINE f32x8 f32x8_div(f32x8 a, f32x8 b)
{
    return _mm256_div_ps(a, b);
}

CANNERY_INLINE f32x8 f32x8_sqrt(f32x8 v)
{
    return _mm256_sqrt_ps(v);
}

CANNERY_INLINE f32x8 f32x8_fma(f32x8 a, f32x8 b, f32x8 c)
{
#ifdef CANNERY_HAS_FMA
    return _mm256_fmadd_ps(a, b, c);
#else
    return _mm256_add_ps(_mm256_mul_ps(a, b), c);
#endif
}

CANNERY_INLINE f32x8 f32x8_fnma(f32x8 a, f32x8 b, f32x8 c)
{
#ifdef CANNERY_HAS_FMA
    return _mm256_fnmadd_ps(a, b, c);
#else
    return _mm256_sub_ps(c, _mm256_mul_ps(a, b));
#endif
}

CANNERY_INLINE f32x8 f32x8_recip_fast(f32x8 x)
{
    const __m256 r = _mm256_rcp_ps(x);
    return f32x8_fma(r, f32x8_fnma(x, r, _mm256_set1_ps(1.0f)), r);
}

CANNERY_INLINE f32x8 f32x8_min(f32x8 a, f32x8 b)
{
    return _mm256_min_ps(a, b);
}

CANNERY_INLINE f32x8 f32x8_max(f32x8 a, f32x8 b)
{
    return _mm256_max_ps(a, b);
}

CANNERY_INLINE f32x8 f32x8_abs(f32x8 v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

CANNERY_INLINE f32x8 f32x8_neg(f32x8 v)
{
    return _mm256_xor_ps(_mm256_set1_ps(-0.0f), v);
}

CANNERY_INLINE f32x8 f32x8_copysign(f32x8 magnitude, f32x8 sign)
{
    const __m256 bit = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign));
}

CANNERY_INLINE m32x8 f32x8_lt(f32x8 a, f32x8 b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

CANNERY_INLINE m32x8 f32x8_le(f32x8 a, f32x8 b)
{
    return _mm256_cmp_ps(a, b, _CMP_LE_OQ);
}

CANNERY_INLINE m32x8 f32x8_gt(f32x8 a, f32x8 b)
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

CANNERY_INLINE m32x8 f32x8_ge(f32x8 a, f32x8 b)
{
    return _mm256_cmp_ps(a, b, _CMP_GE_OQ);
}

CANNERY_INLINE m32x8 f32x8_eq(f32x8 a, f32x8 b)
{
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}

CANNERY_INLINE m32x8 m32x8_and(m32x8 a, m32x8 b)
{
    return _mm256_and_ps(a, b);
}

CANNERY_INLINE m32x8 m32x8_or(m32x8 a, m32x8 b)
{
    return _mm256_or_ps(a, b);
}

CANNERY_INLINE m32x8 m32x8_not(m32x8 a)
{
    return _mm256_castsi256_ps(_mm256_xor_si256(_mm256_castps_si256(a), _mm256_set1_epi32(-1)));
}

CANNERY_INLINE f32x8 f32x8_select(m32x8 m, f32x8 a, f32x8 b)
{
    return _mm256_blendv_ps(b, a, m);
}

CANNERY_INLINE f32x8 f32x8_round(f32x8 v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

CANNERY_INLINE f32x8 f32x8_floor(f32x8 v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

CANNERY_INLINE f32x8 f32x8_ceil(f32x8 v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

CANNERY_INLINE f32x8 f32x8_trunc(f32x8 v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

/* ---- across lanes ------------------------------------------------------ */

CANNERY_INLINE float f32x8_hsum(f32x8 v)
{
    return f32x4_hsum(_mm_add_ps(f32x8_lo(v), f32x8_hi(v)));
}

CANNERY_INLINE float f32x8_hmax(f32x8 v)
{
    return f32x4_hmax(_mm_max_ps(f32x8_lo(v), f32x8_hi(v)));
}

CANNERY_INLINE float f32x8_hmin(f32x8 v)
{
    return f32x4_hmin(_mm_min_ps(f32x8_lo(v), f32x8_hi(v)));
}

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

CANNERY_INLINE f32x4 f32x8_add_pairs(f32x8 v)
{
    const __m128 lo = _mm256_castps256_ps128(v), hi = _mm256_extractf128_ps(v, 1);
    return _mm_add_ps(_mm_shuffle_ps(lo, hi, 0x88), _mm_shuffle_ps(lo, hi, 0xdd));
}

/* ---- bytes ------------------------------------------------------------- */

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

CANNERY_INLINE f32x8 f32x8_load_u8_n(const uint8_t *p, int n)
{
    uint8_t bytes[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(bytes, p, (size_t)n);
    return f32x8_load_u8(bytes);
}

CANNERY_INLINE f32x8 f32x8_load_i8_n(const int8_t *p, int n)
{
    int8_t bytes[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(bytes, p, (size_t)n);
    return f32x8_load_i8(bytes);
}

CANNERY_INLINE void f32x8_store_u8(uint8_t *p, f32x8 v)
{
    const __m128i lo = f32x4_to_i32_saturate(f32x8_lo(v), 0.0f, 255.0f);
    const __m128i hi = f32x4_to_i32_saturate(f32x8_hi(v), 0.0f, 255.0f);
    const __m128i words = _mm_packs_epi32(lo, hi);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packus_epi16(words, words));
}

CANNERY_INLINE void f32x8_store_i8(int8_t *p, f32x8 v)
{
    const __m128i lo = f32x4_to_i32_saturate(f32x8_lo(v), -128.0f, 127.0f);
    const __m128i hi = f32x4_to_i32_saturate(f32x8_hi(v), -128.0f, 127.0f);
    const __m128i words = _mm_packs_epi32(lo, hi);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(words, words));
}

CANNERY_INLINE void f32x8_store_u8_n(uint8_t *p, f32x8 v, int n)
{
    uint8_t bytes[8];
    f32x8_store_u8(bytes, v);
    memcpy(p, bytes, (size_t)n);
}

CANNERY_INLINE void f32x8_store_i8_n(int8_t *p, f32x8 v, int n)
{
    int8_t bytes[8];
    f32x8_store_i8(bytes, v);
    memcpy(p, bytes, (size_t)n);
}

CANNERY_INLINE __m128i f32x8_to_words(f32x8 v, int32_t zero)
{
    const __m256i k = _mm256_add_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(zero));
    return _mm_packs_epi32(_mm256_castsi256_si128(k), _mm256_extracti128_si256(k, 1));
}

CANNERY_INLINE void f32x8_put_u8(uint8_t *p, f32x8 v, int32_t zero)
{
    const __m128i words = f32x8_to_words(v, zero);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packus_epi16(words, words));
}

CANNERY_INLINE void f32x8_put_i8(int8_t *p, f32x8 v, int32_t zero)
{
    const __m128i words = f32x8_to_words(v, zero);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(words, words));
}

CANNERY_INLINE void f32x8_put_u8_n(uint8_t *p, f32x8 v, int32_t zero, int n)
{
    uint8_t bytes[8];
    f32x8_put_u8(bytes, v, zero);
    memcpy(p, bytes, (size_t)n);
}

CANNERY_INLINE void f32x8_put_i8_n(int8_t *p, f32x8 v, int32_t zero, int n)
{
    int8_t bytes[8];
    f32x8_put_i8(bytes, v, zero);
    memcpy(p, bytes, (size_t)n);
}

/* ---- int16 ------------------------------------------------------------- */

typedef __m256i p16x8;

CANNERY_INLINE i32x8 i32x8_zero(void)
{
    return _mm256_setzero_si256();
}

CANNERY_INLINE i32x4 i32x8_lo(i32x8 v)
{
    return _mm256_castsi256_si128(v);
}

CANNERY_INLINE i32x4 i32x8_hi(i32x8 v)
{
    return _mm256_extracti128_si256(v, 1);
}

CANNERY_INLINE i32x8 i32x8_sra14(i32x8 a)
{
    return _mm256_srai_epi32(a, 14);
}

CANNERY_INLINE i32x8 i32x8_lookup(const int32_t *table, i32x8 k)
{
    return _mm256_i32gather_epi32((const int *)table, k, 4);
}

CANNERY_INLINE i32x8 i32x8_interpolate(i32x8 entry, i32x8 fraction)
{
    return _mm256_madd_epi16(entry, _mm256_or_si256(fraction, _mm256_set1_epi32(0x40000000)));
}

CANNERY_INLINE p16x8 p16x8_load(const int16_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

CANNERY_INLINE p16x8 p16x8_load1(const int16_t *p)
{
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return _mm256_set1_epi32(pair);
}

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

CANNERY_INLINE p16x8 p16x8_pair_n(const int16_t *p, const int16_t *q, int n)
{
    int16_t first[8] = {0}, second[8] = {0};
    memcpy(first, p, (size_t)n * sizeof *p);
    memcpy(second, q, (size_t)n * sizeof *q);
    return p16x8_pair(first, second);
}

CANNERY_INLINE void p16x8_pair2(const int16_t *p, const int16_t *q, p16x8 *a, p16x8 *b)
{
    const __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i second = _mm256_loadu_si256((const __m256i *)(const void *)q);
    *a = _mm256_unpacklo_epi16(first, second);
    *b = _mm256_unpackhi_epi16(first, second);
}

CANNERY_INLINE void i32x8_unturn(i32x8 *a, i32x8 *b)
{
    const __m256i lo = _mm256_permute2x128_si256(*a, *b, 0x20);
    *b = _mm256_permute2x128_si256(*a, *b, 0x31);
    *a = lo;
}

CANNERY_INLINE p16x8 p16x8_load_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

CANNERY_INLINE p16x8 p16x8_load_i8(const int8_t *p)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

CANNERY_INLINE p16x8 p16x8_add(p16x8 a, p16x8 b)
{
    return _mm256_add_epi16(a, b);
}

CANNERY_INLINE p16x8 p16x8_sub(p16x8 a, p16x8 b)
{
    return _mm256_sub_epi16(a, b);
}

CANNERY_INLINE void p16x8_store(int16_t *p, p16x8 v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, v);
}

CANNERY_INLINE i32x8 i32x8_dot(p16x8 a, p16x8 b, i32x8 acc)
{
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpwssd_epi32(acc, a, b);
#else
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
#endif
}

CANNERY_INLINE f32x8 f32x8_load_s16(const int16_t *p)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

CANNERY_INLINE void f32x8_store_s16(int16_t *p, f32x8 v)
{
    const __m128i lo = f32x4_to_i32_saturate(f32x8_lo(v), -32768.0f, 32767.0f);
    const __m128i hi = f32x4_to_i32_saturate(f32x8_hi(v), -32768.0f, 32767.0f);
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packs_epi32(lo, hi));
}

CANNERY_INLINE f32x8 f32x8_load_s16_n(const int16_t *p, int n)
{
    int16_t words[8] = {0};
    memcpy(words, p, (size_t)n * sizeof *p);
    return f32x8_load_s16(words);
}

CANNERY_INLINE void f32x8_store_s16_n(int16_t *p, f32x8 v, int n)
{
    int16_t words[8];
    f32x8_store_s16(words, v);
    memcpy(p, words, (size_t)n * sizeof *p);
}

CANNERY_INLINE void f32x8_put_s16(int16_t *p, f32x8 v, int32_t zero)
{
    _mm_storeu_si128((__m128i *)(void *)p, f32x8_to_words(v, zero));
}

CANNERY_INLINE void f32x8_put_s16_n(int16_t *p, f32x8 v, int32_t zero, int n)
{
    int16_t words[8];
    f32x8_put_s16(words, v, zero);
    memcpy(p, words, (size_t)n * sizeof *p);
}

/* ---- int8 -------------------------------------------------------------- */

typedef __m256i q8x8;

CANNERY_INLINE q8x8 q8x8_load(const int8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

CANNERY_INLINE q8x8 q8x8_load1(const int8_t *p)
{
    return _mm256_set1_epi32(cannery_bytes4(p, 4));
}

CANNERY_INLINE q8x8 q8x8_load1_n(const int8_t *p, int n)
{
    return _mm256_set1_epi32(cannery_bytes4(p, n));
}

CANNERY_INLINE q8x8 q8x8_flip(q8x8 a)
{
    return _mm256_xor_si256(a, _mm256_set1_epi8(-128));
}

CANNERY_INLINE i32x8 i32x8_dot4w(q8x8 a, q8x8 b, i32x8 acc)
{
    const __m256i odd = _mm256_madd_epi16(_mm256_srai_epi16(a, 8), _mm256_srai_epi16(b, 8));
    const __m256i even = _mm256_madd_epi16(_mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8),
                                           _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
    return _mm256_add_epi32(acc, _mm256_add_epi32(odd, even));
}

CANNERY_INLINE i32x8 i32x8_dot4u(q8x8 a, q8x8 b, i32x8 acc)
{
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpbusd_epi32(acc, a, b);
#else
    const __m256i pairs = _mm256_maddubs_epi16(a, b);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}

CANNERY_INLINE i32x8 i32x8_dot4(q8x8 a, q8x8 b, i32x8 acc)
{
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpbusd_epi32(acc, _mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
#else
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}

#endif
