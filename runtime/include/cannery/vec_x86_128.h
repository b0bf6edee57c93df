/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary, four lanes in x86 SSE registers. The words are
 * documented in vec_scalar.h. SSE2 is enough; SSSE3, SSE4.1, FMA and AVX-512VL
 * are used where the compiler was told that they exist.
 */
#ifndef CANNERY_VEC_X86_128_H
#define CANNERY_VEC_X86_128_H

#include "vec_scalar.h"

#if !defined(__SSE2__)
#error "cannery: vec_x86_128.h needs SSE2; compile with -msse2 or more"
#endif

/* What compilers read of their own headers takes longer than most networks: no more than there is.
 * g++ before 13 warns of the undefined values inside its own intrinsics. */
#if defined(__cplusplus) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE4_1__)
#include <smmintrin.h>
#elif defined(__SSSE3__)
#include <tmmintrin.h>
#endif
#if defined(__cplusplus) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#define CANNERY_HAS_F32X4 1

typedef __m128 f32x4;
typedef __m128i i32x4;
typedef __m128 m32x4; /* all bits of a lane set or none */

#if defined(__AVX512VL__)
#define CANNERY_HAS_MASKS 1
#endif

/* ---- memory ------------------------------------------------------------ */

CANNERY_INLINE f32x4 f32x4_zero(void)
{
    return _mm_setzero_ps();
}

CANNERY_INLINE f32x4 f32x4_set1(float x)
{
    return _mm_set1_ps(x);
}

CANNERY_INLINE f32x4 f32x4_load(const float *p)
{
    return _mm_loadu_ps(p);
}

CANNERY_INLINE void f32x4_store(float *p, f32x4 v)
{
    _mm_storeu_ps(p, v);
}

CANNERY_INLINE f32x4 f32x4_load_aligned(const float *p)
{
    return _mm_load_ps(p);
}

CANNERY_INLINE void f32x4_store_aligned(float *p, f32x4 v)
{
    _mm_store_ps(p, v);
}

CANNERY_INLINE f32x4 f32x4_load1(const float *p)
{
#if defined(__AVX__)
    return _mm_broadcast_ss(p); /* beside wider ones: gcc would share a scalar load, and shuffle */
#else
    return _mm_set1_ps(p[0]);
#endif
}

#if defined(__AVX512VL__)
CANNERY_INLINE f32x4 f32x4_load_n(const float *p, int n)
{
    return _mm_maskz_loadu_ps((__mmask8)((1u << n) - 1u), p);
}

CANNERY_INLINE void f32x4_store_n(float *p, f32x4 v, int n)
{
    _mm_mask_storeu_ps(p, (__mmask8)((1u << n) - 1u), v);
}
#else
/* Branches: n is a literal in most kernels, and vmaskmov stores are slow. */
CANNERY_INLINE f32x4 f32x4_load_n(const float *p, int n)
{
    const __m128 zero = _mm_setzero_ps();
    switch (n) {
    case 0:
        return zero;
    case 1:
        return _mm_load_ss(p);
    case 2:
        return _mm_loadl_pi(zero, (const __m64 *)(const void *)p);
    case 3:
        return _mm_movelh_ps(_mm_loadl_pi(zero, (const __m64 *)(const void *)p),
                             _mm_load_ss(p + 2));
    default:
        return _mm_loadu_ps(p);
    }
}

CANNERY_INLINE void f32x4_store_n(float *p, f32x4 v, int n)
{
    switch (n) {
    case 0:
        break;
    case 1:
        _mm_store_ss(p, v);
        break;
    case 2:
        _mm_storel_pi((__m64 *)(void *)p, v);
        break;
    case 3:
        _mm_storel_pi((__m64 *)(void *)p, v);
        _mm_store_ss(p + 2, _mm_movehl_ps(v, v));
        break;
    default:
        _mm_storeu_ps(p, v);
        break;
    }
}
#endif

CANNERY_INLINE void f32x4_unzip(f32x4 a, f32x4 b, f32x4 *even, f32x4 *odd)
{
    *even = _mm_shuffle_ps(a, b, 0x88);
    *odd = _mm_shuffle_ps(a, b, 0xdd);
}

CANNERY_INLINE void f32x4_load2(const float *p, f32x4 *even, f32x4 *odd)
{
    f32x4_unzip(_mm_loadu_ps(p), _mm_loadu_ps(p + 4), even, odd);
}

CANNERY_INLINE void f32x4_store2(float *p, f32x4 even, f32x4 odd)
{
    _mm_storeu_ps(p, _mm_unpacklo_ps(even, odd));
    _mm_storeu_ps(p + 4, _mm_unpackhi_ps(even, odd));
}

CANNERY_INLINE f32x4 f32x4_load_stride(const float *p, ptrdiff_t stride)
{
    return _mm_setr_ps(p[0], p[stride], p[2 * stride], p[3 * stride]);
}

CANNERY_INLINE void f32x4_store_stride(float *p, ptrdiff_t stride, f32x4 v)
{
    _mm_store_ss(p, v);
    _mm_store_ss(p + stride, _mm_shuffle_ps(v, v, 0x55));
    _mm_store_ss(p + 2 * stride, _mm_movehl_ps(v, v));
    _mm_store_ss(p + 3 * stride, _mm_shuffle_ps(v, v, 0xff));
}

CANNERY_INLINE i32x4 i32x4_load(const int32_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

CANNERY_INLINE void i32x4_store(int32_t *p, i32x4 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, v);
}

CANNERY_INLINE f32x4 f32x4_lookup(const float *table, i32x4 k)
{
    int32_t index[4];
    i32x4_store(index, k);
    return _mm_setr_ps(table[index[0]], table[index[1]], table[index[2]], table[index[3]]);
}

/* ---- integers ---------------------------------------------------------- */

CANNERY_INLINE i32x4 i32x4_set1(int32_t x)
{
    return _mm_set1_epi32(x);
}

CANNERY_INLINE i32x4 i32x4_add(i32x4 a, i32x4 b)
{
    return _mm_add_epi32(a, b);
}

CANNERY_INLINE i32x4 i32x4_sub(i32x4 a, i32x4 b)
{
    return _mm_sub_epi32(a, b);
}

CANNERY_INLINE i32x4 i32x4_and(i32x4 a, i32x4 b)
{
    return _mm_and_si128(a, b);
}

CANNERY_INLINE i32x4 i32x4_or(i32x4 a, i32x4 b)
{
    return _mm_or_si128(a, b);
}

CANNERY_INLINE i32x4 i32x4_xor(i32x4 a, i32x4 b)
{
    return _mm_xor_si128(a, b);
}

CANNERY_INLINE i32x4 i32x4_min(i32x4 a, i32x4 b)
{
#if defined(__SSE4_1__)
    return _mm_min_epi32(a, b);
#else
    const __m128i less = _mm_cmpgt_epi32(b, a);
    return _mm_or_si128(_mm_and_si128(less, a), _mm_andnot_si128(less, b));
#endif
}

CANNERY_INLINE i32x4 i32x4_max(i32x4 a, i32x4 b)
{
#if defined(__SSE4_1__)
    return _mm_max_epi32(a, b);
#else
    const __m128i greater = _mm_cmpgt_epi32(a, b);
    return _mm_or_si128(_mm_and_si128(greater, a), _mm_andnot_si128(greater, b));
#endif
}

CANNERY_INLINE i32x4 i32x4_shl23(i32x4 a)
{
    return _mm_slli_epi32(a, 23);
}

CANNERY_INLINE i32x4 i32x4_shr23(i32x4 a)
{
    return _mm_srli_epi32(a, 23);
}

CANNERY_INLINE i32x4 i32x4_sra23(i32x4 a)
{
    return _mm_srai_epi32(a, 23);
}

CANNERY_INLINE i32x4 i32x4_sra1(i32x4 a)
{
    return _mm_srai_epi32(a, 1);
}

CANNERY_INLINE f32x4 i32x4_as_f32(i32x4 k)
{
    return _mm_castsi128_ps(k);
}

CANNERY_INLINE i32x4 f32x4_as_i32(f32x4 v)
{
    return _mm_castps_si128(v);
}

CANNERY_INLINE i32x4 f32x4_to_i32(f32x4 v)
{
    return _mm_cvttps_epi32(v);
}

CANNERY_INLINE i32x4 f32x4_to_i32_round(f32x4 v)
{
    return _mm_cvtps_epi32(v);
}

CANNERY_INLINE f32x4 f32x4_from_i32(i32x4 k)
{
    return _mm_cvtepi32_ps(k);
}

CANNERY_INLINE f32x4 f32x4_pow2i(i32x4 k)
{
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_add_epi32(k, _mm_set1_epi32(127)), 23));
}

/* ---- arithmetic -------------------------------------------------------- */

CANNERY_INLINE f32x4 f32x4_add(f32x4 a, f32x4 b)
{
    return _mm_add_ps(a, b);
}

CANNERY_INLINE f32x4 f32x4_sub(f32x4 a, f32x4 b)
{
    return _mm_sub_ps(a, b);
}

CANNERY_INLINE f32x4 f32x4_mul(f32x4 a, f32x4 b)
{
    return _mm_mul_ps(a, b);
}

CANNERY_INLINE f32x4 f32x4_div(f32x4 a, f32x4 b)
{
    return _mm_div_ps(a, b);
}

CANNERY_INLINE f32x4 f32x4_sqrt(f32x4 v)
{
    return _mm_sqrt_ps(v);
}

CANNERY_INLINE f32x4 f32x4_fma(f32x4 a, f32x4 b, f32x4 c)
{
#ifdef CANNERY_HAS_FMA
    return _mm_fmadd_ps(a, b, c);
#else
    return _mm_add_ps(_mm_mul_ps(a, b), c);
#endif
}

CANNERY_INLINE f32x4 f32x4_fnma(f32x4 a, f32x4 b, f32x4 c)
{
#ifdef CANNERY_HAS_FMA
    return _mm_fnmadd_ps(a, b, c);
#else
    return _mm_sub_ps(c, _mm_mul_ps(a, b));
#endif
}

/* Twelve bits from the CPU, one Newton step: r + r*(1 - x*r). */
CANNERY_INLINE f32x4 f32x4_recip_fast(f32x4 x)
{
    const __m128 r = _mm_rcp_ps(x);
    return f32x4_fma(r, f32x4_fnma(x, r, _mm_set1_ps(1.0f)), r);
}

CANNERY_INLINE f32x4 f32x4_min(f32x4 a, f32x4 b)
{
    return _mm_min_ps(a, b);
}

CANNERY_INLINE f32x4 f32x4_max(f32x4 a, f32x4 b)
{
    return _mm_max_ps(a, b);
}

CANNERY_INLINE f32x4 f32x4_abs(f32x4 v)
{
    return _mm_andnot_ps(_mm_set1_ps(-0.0f), v);
}

CANNERY_INLINE f32x4 f32x4_neg(f32x4 v)
{
    return _mm_xor_ps(_mm_set1_ps(-0.0f), v);
}

CANNERY_INLINE f32x4 f32x4_copysign(f32x4 magnitude, f32x4 sign)
{
    const __m128 bit = _mm_set1_ps(-0.0f);
    return _mm_or_ps(_mm_andnot_ps(bit, magnitude), _mm_and_ps(bit, sign));
}

CANNERY_INLINE m32x4 f32x4_lt(f32x4 a, f32x4 b)
{
    return _mm_cmplt_ps(a, b);
}

CANNERY_INLINE m32x4 f32x4_le(f32x4 a, f32x4 b)
{
    return _mm_cmple_ps(a, b);
}

CANNERY_INLINE m32x4 f32x4_gt(f32x4 a, f32x4 b)
{
    return _mm_cmpgt_ps(a, b);
}

CANNERY_INLINE m32x4 f32x4_ge(f32x4 a, f32x4 b)
{
    return _mm_cmpge_ps(a, b);
}

CANNERY_INLINE m32x4 f32x4_eq(f32x4 a, f32x4 b)
{
    return _mm_cmpeq_ps(a, b);
}

CANNERY_INLINE m32x4 m32x4_and(m32x4 a, m32x4 b)
{
    return _mm_and_ps(a, b);
}

CANNERY_INLINE m32x4 m32x4_or(m32x4 a, m32x4 b)
{
    return _mm_or_ps(a, b);
}

CANNERY_INLINE m32x4 m32x4_not(m32x4 a)
{
    return _mm_castsi128_ps(_mm_xor_si128(_mm_castps_si128(a), _mm_set1_epi32(-1)));
}

CANNERY_INLINE f32x4 f32x4_select(m32x4 m, f32x4 a, f32x4 b)
{
#if defined(__SSE4_1__)
    return _mm_blendv_ps(b, a, m);
#else
    return _mm_or_ps(_mm_and_ps(m, a), _mm_andnot_ps(m, b));
#endif
}

/* ---- rounding ---------------------------------------------------------- */

#if defined(__SSE4_1__)
CANNERY_INLINE f32x4 f32x4_round(f32x4 v)
{
    return _mm_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

CANNERY_INLINE f32x4 f32x4_floor(f32x4 v)
{
    return _mm_round_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

CANNERY_INLINE f32x4 f32x4_ceil(f32x4 v)
{
    return _mm_round_ps(v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

CANNERY_INLINE f32x4 f32x4_trunc(f32x4 v)
{
    return _mm_round_ps(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
#else
/* `integral` where |v| < 2^23, with the sign of v; else v, which is an integer,
 * an infinity or NaN. */
CANNERY_INLINE f32x4 f32x4_integral_or_self(f32x4 integral, f32x4 v)
{
    const __m128 small = _mm_cmplt_ps(f32x4_abs(v), _mm_set1_ps(8388608.0f));
    const __m128 sign = _mm_and_ps(_mm_set1_ps(-0.0f), v);
    return f32x4_select(small, _mm_or_ps(integral, sign), v);
}

CANNERY_INLINE f32x4 f32x4_round(f32x4 v)
{
    return f32x4_integral_or_self(_mm_cvtepi32_ps(_mm_cvtps_epi32(v)), v);
}

CANNERY_INLINE f32x4 f32x4_trunc(f32x4 v)
{
    return f32x4_integral_or_self(_mm_cvtepi32_ps(_mm_cvttps_epi32(v)), v);
}

CANNERY_INLINE f32x4 f32x4_floor(f32x4 v)
{
    const __m128 t = f32x4_trunc(v);
    return _mm_sub_ps(t, _mm_and_ps(_mm_cmpgt_ps(t, v), _mm_set1_ps(1.0f)));
}

CANNERY_INLINE f32x4 f32x4_ceil(f32x4 v)
{
    return f32x4_neg(f32x4_floor(f32x4_neg(v)));
}
#endif

/* ---- across lanes ------------------------------------------------------ */

CANNERY_INLINE float f32x4_hsum(f32x4 v)
{
    const __m128 pair = _mm_add_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 0x55)));
}

CANNERY_INLINE float f32x4_hmax(f32x4 v)
{
    const __m128 pair = _mm_max_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_max_ss(pair, _mm_shuffle_ps(pair, pair, 0x55)));
}

CANNERY_INLINE float f32x4_hmin(f32x4 v)
{
    const __m128 pair = _mm_min_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_min_ss(pair, _mm_shuffle_ps(pair, pair, 0x55)));
}

CANNERY_INLINE f32x4 f32x4_rotate1(f32x4 v)
{
    return _mm_shuffle_ps(v, v, 0x39);
}

CANNERY_INLINE f32x4 f32x4_rotate2(f32x4 v)
{
    return _mm_shuffle_ps(v, v, 0x4e);
}

CANNERY_INLINE f32x4 f32x4_rotate3(f32x4 v)
{
    return _mm_shuffle_ps(v, v, 0x93);
}

CANNERY_INLINE f32x4 f32x4_lane0(f32x4 v)
{
    return _mm_shuffle_ps(v, v, 0x00);
}

CANNERY_INLINE f32x4 f32x4_lane1(f32x4 v)
{
    return _mm_shuffle_ps(v, v, 0x55);
}

CANNERY_INLINE f32x4 f32x4_lane2(f32x4 v)
{
    return _mm_shuffle_ps(v, v, 0xaa);
}

CANNERY_INLINE f32x4 f32x4_lane3(f32x4 v)
{
    return _mm_shuffle_ps(v, v, 0xff);
}

CANNERY_INLINE void f32x4_transpose4(f32x4 *a, f32x4 *b, f32x4 *c, f32x4 *d)
{
    const __m128 ab_lo = _mm_unpacklo_ps(*a, *b);
    const __m128 ab_hi = _mm_unpackhi_ps(*a, *b);
    const __m128 cd_lo = _mm_unpacklo_ps(*c, *d);
    const __m128 cd_hi = _mm_unpackhi_ps(*c, *d);
    *a = _mm_movelh_ps(ab_lo, cd_lo);
    *b = _mm_movehl_ps(cd_lo, ab_lo);
    *c = _mm_movelh_ps(ab_hi, cd_hi);
    *d = _mm_movehl_ps(cd_hi, ab_hi);
}

CANNERY_INLINE void f32x4_load4(const float *p, f32x4 *a, f32x4 *b, f32x4 *c, f32x4 *d)
{
    *a = _mm_loadu_ps(p);
    *b = _mm_loadu_ps(p + 4);
    *c = _mm_loadu_ps(p + 8);
    *d = _mm_loadu_ps(p + 12);
    f32x4_transpose4(a, b, c, d);
}

CANNERY_INLINE void f32x4_store4(float *p, f32x4 a, f32x4 b, f32x4 c, f32x4 d)
{
    f32x4_transpose4(&a, &b, &c, &d);
    _mm_storeu_ps(p, a);
    _mm_storeu_ps(p + 4, b);
    _mm_storeu_ps(p + 8, c);
    _mm_storeu_ps(p + 12, d);
}

/* ---- bytes ------------------------------------------------------------- */

CANNERY_INLINE f32x4 f32x4_load_u8(const uint8_t *p)
{
    int32_t bytes;
    __m128i v;
    memcpy(&bytes, p, sizeof bytes);
    v = _mm_cvtsi32_si128(bytes);
#if defined(__SSE4_1__)
    v = _mm_cvtepu8_epi32(v);
#else
    v = _mm_unpacklo_epi8(v, _mm_setzero_si128());
    v = _mm_unpacklo_epi16(v, _mm_setzero_si128());
#endif
    return _mm_cvtepi32_ps(v);
}

CANNERY_INLINE f32x4 f32x4_load_i8(const int8_t *p)
{
    int32_t bytes;
    __m128i v;
    memcpy(&bytes, p, sizeof bytes);
    v = _mm_cvtsi32_si128(bytes);
#if defined(__SSE4_1__)
    v = _mm_cvtepi8_epi32(v);
#else
    v = _mm_unpacklo_epi8(v, v); /* the byte on top of its lane, then sign shift */
    v = _mm_srai_epi32(_mm_unpacklo_epi16(v, v), 24);
#endif
    return _mm_cvtepi32_ps(v);
}

CANNERY_INLINE f32x4 f32x4_load_u8_n(const uint8_t *p, int n)
{
    uint8_t bytes[4] = {0, 0, 0, 0};
    memcpy(bytes, p, (size_t)n);
    return f32x4_load_u8(bytes);
}

CANNERY_INLINE f32x4 f32x4_load_i8_n(const int8_t *p, int n)
{
    int8_t bytes[4] = {0, 0, 0, 0};
    memcpy(bytes, p, (size_t)n);
    return f32x4_load_i8(bytes);
}

/* Bounded before the conversion, where 2^31 and more would wrap. NaN becomes 0:
 * it compares unordered to itself. */
CANNERY_INLINE i32x4 f32x4_to_i32_saturate(f32x4 v, float low, float high)
{
    const __m128 x = _mm_and_ps(v, _mm_cmpeq_ps(v, v));
    return _mm_cvtps_epi32(_mm_min_ps(_mm_max_ps(x, _mm_set1_ps(low)), _mm_set1_ps(high)));
}

CANNERY_INLINE void f32x4_store_u8(uint8_t *p, f32x4 v)
{
    const __m128i k = f32x4_to_i32_saturate(v, 0.0f, 255.0f);
    const __m128i words = _mm_packs_epi32(k, k);
    const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(p, &bytes, sizeof bytes);
}

CANNERY_INLINE void f32x4_store_i8(int8_t *p, f32x4 v)
{
    const __m128i k = f32x4_to_i32_saturate(v, -128.0f, 127.0f);
    const __m128i words = _mm_packs_epi32(k, k);
    const int32_t bytes = _mm_cvtsi128_si32(_mm_packs_epi16(words, words));
    memcpy(p, &bytes, sizeof bytes);
}

CANNERY_INLINE void f32x4_store_u8_n(uint8_t *p, f32x4 v, int n)
{
    uint8_t bytes[4];
    f32x4_store_u8(bytes, v);
    memcpy(p, bytes, (size_t)n);
}

CANNERY_INLINE void f32x4_store_i8_n(int8_t *p, f32x4 v, int n)
{
    int8_t bytes[4];
    f32x4_store_i8(bytes, v);
    memcpy(p, bytes, (size_t)n);
}

CANNERY_INLINE void f32x4_put_u8(uint8_t *p, f32x4 v, int32_t zero)
{
    const __m128i k = _mm_add_epi32(_mm_cvtps_epi32(v), _mm_set1_epi32(zero));
    const __m128i words = _mm_packs_epi32(k, k);
    const int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(p, &bytes, sizeof bytes);
}

CANNERY_INLINE void f32x4_put_i8(int8_t *p, f32x4 v, int32_t zero)
{
    const __m128i k = _mm_add_epi32(_mm_cvtps_epi32(v), _mm_set1_epi32(zero));
    const __m128i words = _mm_packs_epi32(k, k);
    const int32_t bytes = _mm_cvtsi128_si32(_mm_packs_epi16(words, words));
    memcpy(p, &bytes, sizeof bytes);
}

CANNERY_INLINE void f32x4_put_u8_n(uint8_t *p, f32x4 v, int32_t zero, int n)
{
    uint8_t bytes[4];
    f32x4_put_u8(bytes, v, zero);
    memcpy(p, bytes, (size_t)n);
}

CANNERY_INLINE void f32x4_put_i8_n(int8_t *p, f32x4 v, int32_t zero, int n)
{
    int8_t bytes[4];
    f32x4_put_i8(bytes, v, zero);
    memcpy(p, bytes, (size_t)n);
}

/* ---- int16 ------------------------------------------------------------- */

typedef __m128i p16x4;

CANNERY_INLINE i32x4 i32x4_zero(void)
{
    return _mm_setzero_si128();
}

CANNERY_INLINE i32x4 i32x4_sra14(i32x4 a)
{
    return _mm_srai_epi32(a, 14);
}

CANNERY_INLINE i32x4 i32x4_lookup(const int32_t *table, i32x4 k)
{
    int32_t index[4];
    i32x4_store(index, k);
    CANNERY_OPAQUE_MEM(index); /* through memory: shuffles are scarce */
    return _mm_setr_epi32(table[index[0]], table[index[1]], table[index[2]], table[index[3]]);
}

CANNERY_INLINE i32x4 i32x4_interpolate(i32x4 entry, i32x4 fraction)
{
    return _mm_madd_epi16(entry, _mm_or_si128(fraction, _mm_set1_epi32(0x40000000)));
}

CANNERY_INLINE p16x4 p16x4_load(const int16_t *p)
{
    return _mm_load_si128((const __m128i *)(const void *)p);
}

CANNERY_INLINE p16x4 p16x4_load1(const int16_t *p)
{
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return _mm_set1_epi32(pair);
}

CANNERY_INLINE p16x4 p16x4_load1_n(const int16_t *p, int n)
{
    return n > 1 ? p16x4_load1(p) : _mm_set1_epi32((uint16_t)p[0]);
}

CANNERY_INLINE p16x4 p16x4_pair(const int16_t *p, const int16_t *q)
{
    return _mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i *)(const void *)p),
                              _mm_loadl_epi64((const __m128i *)(const void *)q));
}

CANNERY_INLINE p16x4 p16x4_pair_n(const int16_t *p, const int16_t *q, int n)
{
    int16_t first[4] = {0}, second[4] = {0};
    memcpy(first, p, (size_t)n * sizeof *p);
    memcpy(second, q, (size_t)n * sizeof *q);
    return p16x4_pair(first, second);
}

CANNERY_INLINE void p16x4_pair2(const int16_t *p, const int16_t *q, p16x4 *a, p16x4 *b)
{
    const __m128i first = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i second = _mm_loadu_si128((const __m128i *)(const void *)q);
    *a = _mm_unpacklo_epi16(first, second);
    *b = _mm_unpackhi_epi16(first, second);
}

CANNERY_INLINE void i32x4_unturn(i32x4 *a, i32x4 *b)
{
    (void)a;
    (void)b;
}

CANNERY_INLINE p16x4 p16x4_load_u8(const uint8_t *p)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm_unpacklo_epi8(bytes, _mm_setzero_si128());
}

CANNERY_INLINE p16x4 p16x4_load_i8(const int8_t *p)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}

CANNERY_INLINE p16x4 p16x4_add(p16x4 a, p16x4 b)
{
    return _mm_add_epi16(a, b);
}

CANNERY_INLINE p16x4 p16x4_sub(p16x4 a, p16x4 b)
{
    return _mm_sub_epi16(a, b);
}

CANNERY_INLINE void p16x4_store(int16_t *p, p16x4 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, v);
}

CANNERY_INLINE i32x4 i32x4_dot(p16x4 a, p16x4 b, i32x4 acc)
{
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm_dpwssd_epi32(acc, a, b);
#else
    return _mm_add_epi32(acc, _mm_madd_epi16(a, b));
#endif
}

CANNERY_INLINE f32x4 f32x4_load_s16(const int16_t *p)
{
    const __m128i words = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(words, words), 16));
}

CANNERY_INLINE void f32x4_store_s16(int16_t *p, f32x4 v)
{
    const __m128i k = f32x4_to_i32_saturate(v, -32768.0f, 32767.0f);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi32(k, k));
}

CANNERY_INLINE f32x4 f32x4_load_s16_n(const int16_t *p, int n)
{
    int16_t words[4] = {0};
    memcpy(words, p, (size_t)n * sizeof *p);
    return f32x4_load_s16(words);
}

CANNERY_INLINE void f32x4_store_s16_n(int16_t *p, f32x4 v, int n)
{
    int16_t words[4];
    f32x4_store_s16(words, v);
    memcpy(p, words, (size_t)n * sizeof *p);
}

CANNERY_INLINE void f32x4_put_s16(int16_t *p, f32x4 v, int32_t zero)
{
    const __m128i k = _mm_add_epi32(_mm_cvtps_epi32(v), _mm_set1_epi32(zero));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi32(k, k));
}

CANNERY_INLINE void f32x4_put_s16_n(int16_t *p, f32x4 v, int32_t zero, int n)
{
    int16_t words[4];
    f32x4_put_s16(words, v, zero);
    memcpy(p, words, (size_t)n * sizeof *p);
}

/* ---- int8 -------------------------------------------------------------- */

typedef __m128i q8x4;

CANNERY_INLINE q8x4 q8x4_load(const int8_t *p)
{
    return _mm_load_si128((const __m128i *)(const void *)p);
}

CANNERY_INLINE q8x4 q8x4_load1(const int8_t *p)
{
    return _mm_set1_epi32(cannery_bytes4(p, 4));
}

CANNERY_INLINE q8x4 q8x4_load1_n(const int8_t *p, int n)
{
    return _mm_set1_epi32(cannery_bytes4(p, n));
}

CANNERY_INLINE q8x4 q8x4_flip(q8x4 a)
{
    return _mm_xor_si128(a, _mm_set1_epi8(-128));
}

CANNERY_INLINE i32x4 i32x4_dot4w(q8x4 a, q8x4 b, i32x4 acc)
{
    const __m128i odd = _mm_madd_epi16(_mm_srai_epi16(a, 8), _mm_srai_epi16(b, 8));
    const __m128i even = _mm_madd_epi16(_mm_srai_epi16(_mm_slli_epi16(a, 8), 8),
                                        _mm_srai_epi16(_mm_slli_epi16(b, 8), 8));
    return _mm_add_epi32(acc, _mm_add_epi32(odd, even));
}

CANNERY_INLINE i32x4 i32x4_dot4u(q8x4 a, q8x4 b, i32x4 acc)
{
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm_dpbusd_epi32(acc, a, b);
#elif defined(__SSSE3__)
    return _mm_add_epi32(acc, _mm_madd_epi16(_mm_maddubs_epi16(a, b), _mm_set1_epi16(1)));
#else
    const __m128i odd = _mm_madd_epi16(_mm_srli_epi16(a, 8), _mm_srai_epi16(b, 8));
    const __m128i even = _mm_madd_epi16(_mm_and_si128(a, _mm_set1_epi16(255)),
                                        _mm_srai_epi16(_mm_slli_epi16(b, 8), 8));
    return _mm_add_epi32(acc, _mm_add_epi32(odd, even));
#endif
}

/* Signs move to the weights, so that the first factor has none: two products of numbers up to 128
 * and up to 127 do not leave int16. */
CANNERY_INLINE i32x4 i32x4_dot4(q8x4 a, q8x4 b, i32x4 acc)
{
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm_dpbusd_epi32(acc, _mm_abs_epi8(a), _mm_sign_epi8(b, a));
#elif defined(__SSSE3__)
    const __m128i pairs = _mm_maddubs_epi16(_mm_abs_epi8(a), _mm_sign_epi8(b, a));
    return _mm_add_epi32(acc, _mm_madd_epi16(pairs, _mm_set1_epi16(1)));
#else
    return i32x4_dot4w(a, b, acc);
#endif
}

#endif
