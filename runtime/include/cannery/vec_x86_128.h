/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary, four lanes in x86 SSE registers. The words are
 * documented in vec_scalar.h. SSE2 is enough; SSSE3, SSE4.1, FMA and AVX-512VL
 * are used if the compiler's flags enable them.
 */
#ifndef CANNERY_VEC_X86_128_H
#define CANNERY_VEC_X86_128_H

#include "vec_types.h"

#if !defined(__SSE2__)
#error "cannery: vec_x86_128.h needs SSE2; compile with -msse2 or more"
#endif

/* Compilers take longer to read their own headers than most networks: include no more than
 * needed. g++ before 13 warns about undefined values inside its own intrinsics. */
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

CANNERY_VECTOR_TYPES(4)
#define CANNERY_HAS_F32X4 1

#if defined(__AVX512VL__)
#define CANNERY_HAS_MASKS 1
#endif

/* ---- memory ------------------------------------------------------------ */

#if defined(__AVX__) /* next to wider ones: gcc would share a scalar load, and shuffle */
#define CANNERY_OWN_LOAD1 1
CANNERY_WORD1(f32x4, f32x4_load1, const float *, _mm_broadcast_ss(a))
#endif

#define CANNERY_OWN_PARTS 1
#if defined(__AVX512VL__)
/* One or two, if the compiler knows it, without a mask: a load soon after a masked store waits until
 * that has reached the cache. */
CANNERY_INLINE f32x4 f32x4_load_n(const float *p, int n)
{
    if (__builtin_constant_p(n) && n == 1) {
        return _mm_load_ss(p);
    }
    if (__builtin_constant_p(n) && n == 2) {
        return _mm_loadl_pi(_mm_setzero_ps(), (const __m64 *)(const void *)p);
    }
    return _mm_maskz_loadu_ps((__mmask8)((1u << n) - 1u), p);
}

CANNERY_INLINE void f32x4_store_n(float *p, f32x4 v, int n)
{
    if (__builtin_constant_p(n) && n == 1) {
        _mm_store_ss(p, v);
    } else if (__builtin_constant_p(n) && n == 2) {
        _mm_storel_pi((__m64 *)(void *)p, v);
    } else {
        _mm_mask_storeu_ps(p, (__mmask8)((1u << n) - 1u), v);
    }
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

#define CANNERY_OWN_STORE_STRIDE 1
CANNERY_INLINE void f32x4_store_stride(float *p, ptrdiff_t stride, f32x4 v)
{
    _mm_store_ss(p, v);
    _mm_store_ss(p + stride, _mm_shuffle_ps(v, v, 0x55));
    _mm_store_ss(p + 2 * stride, _mm_movehl_ps(v, v));
    _mm_store_ss(p + 3 * stride, _mm_shuffle_ps(v, v, 0xff));
}

#define CANNERY_OWN_LOOKUP 1
CANNERY_INLINE f32x4 f32x4_lookup(const float *table, i32x4 k)
{
    int32_t index[4];
    _mm_storeu_si128((__m128i *)(void *)index, (__m128i)k);
    return _mm_setr_ps(table[index[0]], table[index[1]], table[index[2]], table[index[3]]);
}

CANNERY_INLINE i32x4 i32x4_lookup(const int32_t *table, i32x4 k)
{
    int32_t index[4];
    _mm_storeu_si128((__m128i *)(void *)index, (__m128i)k);
    CANNERY_OPAQUE_MEM(index); /* through memory: shuffles are scarce */
    return (i32x4)_mm_setr_epi32(table[index[0]], table[index[1]], table[index[2]], table[index[3]]);
}

/* ---- arithmetic -------------------------------------------------------- */

#define CANNERY_OWN_SIGNS 1
#define CANNERY_OWN_BOUNDS 1
#define CANNERY_OWN_SQRT 1
CANNERY_WORD1(f32x4, f32x4_abs, f32x4, _mm_andnot_ps(_mm_set1_ps(-0.0f), a))
CANNERY_WORD1(f32x4, f32x4_neg, f32x4, _mm_xor_ps(_mm_set1_ps(-0.0f), a))
CANNERY_WORD2(f32x4, f32x4_copysign, f32x4,
              _mm_or_ps(f32x4_abs(a), _mm_and_ps(_mm_set1_ps(-0.0f), b)))
CANNERY_WORD2(f32x4, f32x4_min, f32x4, _mm_min_ps(a, b))
CANNERY_WORD2(f32x4, f32x4_max, f32x4, _mm_max_ps(a, b))
CANNERY_WORD1(f32x4, f32x4_sqrt, f32x4, _mm_sqrt_ps(a))

#if defined(CANNERY_HAS_FMA)
#define CANNERY_OWN_FMA 1
CANNERY_INLINE f32x4 f32x4_fma(f32x4 a, f32x4 b, f32x4 c)
{
    return _mm_fmadd_ps(a, b, c);
}

CANNERY_INLINE f32x4 f32x4_fnma(f32x4 a, f32x4 b, f32x4 c)
{
    return _mm_fnmadd_ps(a, b, c);
}
#endif

#define CANNERY_OWN_MASKS 1
CANNERY_WORD2(m32x4, f32x4_lt, f32x4, (m32x4)_mm_cmplt_ps(a, b))
CANNERY_WORD2(m32x4, f32x4_le, f32x4, (m32x4)_mm_cmple_ps(a, b))
CANNERY_WORD2(m32x4, f32x4_gt, f32x4, (m32x4)_mm_cmpgt_ps(a, b))
CANNERY_WORD2(m32x4, f32x4_ge, f32x4, (m32x4)_mm_cmpge_ps(a, b))
CANNERY_WORD2(m32x4, f32x4_eq, f32x4, (m32x4)_mm_cmpeq_ps(a, b))
CANNERY_WORD2(m32x4, m32x4_and, m32x4, (m32x4)_mm_and_ps((__m128)a, (__m128)b))
CANNERY_WORD2(m32x4, m32x4_or, m32x4, (m32x4)_mm_or_ps((__m128)a, (__m128)b))
CANNERY_WORD1(m32x4, m32x4_not, m32x4, ~a)

#define CANNERY_OWN_SELECT 1
CANNERY_INLINE f32x4 f32x4_select(m32x4 m, f32x4 a, f32x4 b)
{
#if defined(__SSE4_1__)
    return _mm_blendv_ps(b, a, (__m128)m);
#else
    return _mm_or_ps(_mm_and_ps((__m128)m, a), _mm_andnot_ps((__m128)m, b));
#endif
}

#if !defined(__AVX__) && !defined(__clang__)
/* One instruction, which preserves its operand; gcc uses palignr or shufps, after a copy. */
#define CANNERY_OWN_MOVES 1
#define CANNERY_MOVED(word, places)                                                                \
    CANNERY_WORD1(f32x4, f32x4_##word, f32x4, (f32x4)_mm_shuffle_epi32((__m128i)a, places))
CANNERY_MOVED(rotate1, 0x39)
CANNERY_MOVED(rotate2, 0x4e)
CANNERY_MOVED(rotate3, 0x93)
CANNERY_MOVED(lane0, 0x00)
CANNERY_MOVED(lane1, 0x55)
CANNERY_MOVED(lane2, 0xaa)
CANNERY_MOVED(lane3, 0xff)
#undef CANNERY_MOVED
#endif

/* ---- conversion and rounding ------------------------------------------- */

#define CANNERY_OWN_CONVERSION 1
CANNERY_WORD1(i32x4, f32x4_to_i32, f32x4, (i32x4)_mm_cvttps_epi32(a))
CANNERY_WORD1(i32x4, f32x4_to_i32_round, f32x4, (i32x4)_mm_cvtps_epi32(a))

#define CANNERY_OWN_ROUNDING 1
#if defined(__SSE4_1__)
#define CANNERY_OWN_INTEGER_BOUNDS 1
CANNERY_WORD2(i32x4, i32x4_min, i32x4, (i32x4)_mm_min_epi32((__m128i)a, (__m128i)b))
CANNERY_WORD2(i32x4, i32x4_max, i32x4, (i32x4)_mm_max_epi32((__m128i)a, (__m128i)b))
CANNERY_WORD1(f32x4, f32x4_round, f32x4, _mm_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
CANNERY_WORD1(f32x4, f32x4_floor, f32x4, _mm_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))
CANNERY_WORD1(f32x4, f32x4_ceil, f32x4, _mm_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC))
CANNERY_WORD1(f32x4, f32x4_trunc, f32x4, _mm_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
#else
/* `integral` where |v| < 2^23, with the sign of v; else v, which is an integer,
 * an infinity or NaN. */
CANNERY_INLINE f32x4 f32x4_integral_or_self(f32x4 integral, f32x4 v)
{
    const m32x4 small = f32x4_lt(f32x4_abs(v), _mm_set1_ps(8388608.0f));
    const __m128 sign = _mm_and_ps(_mm_set1_ps(-0.0f), v);
    return f32x4_select(small, _mm_or_ps(integral, sign), v);
}

CANNERY_WORD1(f32x4, f32x4_round, f32x4,
              f32x4_integral_or_self(_mm_cvtepi32_ps(_mm_cvtps_epi32(a)), a))
CANNERY_WORD1(f32x4, f32x4_trunc, f32x4,
              f32x4_integral_or_self(_mm_cvtepi32_ps(_mm_cvttps_epi32(a)), a))

CANNERY_INLINE f32x4 f32x4_floor(f32x4 v)
{
    const __m128 t = f32x4_trunc(v);
    return _mm_sub_ps(t, _mm_and_ps(_mm_cmpgt_ps(t, v), _mm_set1_ps(1.0f)));
}

CANNERY_WORD1(f32x4, f32x4_ceil, f32x4, f32x4_neg(f32x4_floor(f32x4_neg(a))))
#endif

/* ---- bytes and int16 as floats ----------------------------------------- */

#define CANNERY_OWN_NARROW_LOADS 1
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

CANNERY_INLINE f32x4 f32x4_load_s16(const int16_t *p)
{
    const __m128i words = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm_cvtepi32_ps(_mm_srai_epi32(_mm_unpacklo_epi16(words, words), 16));
}

/* ---- float16 ----------------------------------------------------------- */

/* All processors with AVX2 have F16C, but flags may not name it. */
#if defined(__F16C__) || defined(__AVX2__)
#define CANNERY_OWN_LOAD_F16 1
#define CANNERY_OWN_LOAD1_F16 1
CANNERY_INLINE f32x4 f32x4_of_f16(__m128i halves)
{
#if defined(__F16C__)
    return _mm_cvtph_ps(halves);
#else
    f32x4 v;
    __asm__("vcvtph2ps {%1, %0|%0, %1}" : "=x"(v) : "x"(halves));
    return v;
#endif
}

CANNERY_WORD1(f32x4, f32x4_load_f16, const uint16_t *,
              f32x4_of_f16(_mm_loadl_epi64((const __m128i *)(const void *)a)))
CANNERY_WORD1(f32x4, f32x4_load1_f16, const uint16_t *,
              f32x4_of_f16(_mm_set1_epi16((short)a[0])))
#endif

/* ---- bytes and int16 from floats ---------------------------------------- */

/* Bounded before the conversion, where 2^31 and more would wrap. NaN becomes 0:
 * it compares unordered to itself. */
CANNERY_INLINE __m128i f32x4_to_i32_saturate(f32x4 v, float low, float high)
{
    const __m128 x = _mm_and_ps(v, _mm_cmpeq_ps(v, v));
    return _mm_cvtps_epi32(_mm_min_ps(_mm_max_ps(x, _mm_set1_ps(low)), _mm_set1_ps(high)));
}

CANNERY_INLINE __m128i f32x4_to_i32_from(f32x4 v, int32_t zero)
{
    return _mm_add_epi32(_mm_cvtps_epi32(v), _mm_set1_epi32(zero));
}

/* Four numbers k, saturated by `pack`. */
#define CANNERY_STORE_BYTES(p, pack, k)                                                            \
    do {                                                                                           \
        const __m128i k_ = k;                                                                      \
        const __m128i words_ = _mm_packs_epi32(k_, k_);                                            \
        const int32_t bytes_ = _mm_cvtsi128_si32(pack(words_, words_));                            \
        memcpy(p, &bytes_, sizeof bytes_);                                                         \
    } while (0)

#define CANNERY_OWN_NARROW_STORES 1
CANNERY_INLINE void f32x4_store_u8(uint8_t *p, f32x4 v)
{
    CANNERY_STORE_BYTES(p, _mm_packus_epi16, f32x4_to_i32_saturate(v, 0.0f, 255.0f));
}

CANNERY_INLINE void f32x4_store_i8(int8_t *p, f32x4 v)
{
    CANNERY_STORE_BYTES(p, _mm_packs_epi16, f32x4_to_i32_saturate(v, -128.0f, 127.0f));
}

CANNERY_INLINE void f32x4_put_u8(uint8_t *p, f32x4 v, int32_t zero)
{
    CANNERY_STORE_BYTES(p, _mm_packus_epi16, f32x4_to_i32_from(v, zero));
}

CANNERY_INLINE void f32x4_put_i8(int8_t *p, f32x4 v, int32_t zero)
{
    CANNERY_STORE_BYTES(p, _mm_packs_epi16, f32x4_to_i32_from(v, zero));
}

CANNERY_INLINE void f32x4_store_s16(int16_t *p, f32x4 v)
{
    const __m128i k = f32x4_to_i32_saturate(v, -32768.0f, 32767.0f);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi32(k, k));
}

CANNERY_INLINE void f32x4_put_s16(int16_t *p, f32x4 v, int32_t zero)
{
    const __m128i k = f32x4_to_i32_from(v, zero);
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi32(k, k));
}

/* ---- int16 ------------------------------------------------------------- */

typedef __m128i p16x4;

#define CANNERY_OWN_INTERPOLATE 1
CANNERY_WORD2(i32x4, i32x4_interpolate, i32x4,
              (i32x4)_mm_madd_epi16((__m128i)a, (__m128i)(b | 0x40000000)))

#define CANNERY_OWN_PAIRS 1
CANNERY_WORD1(p16x4, p16x4_load, const int16_t *, _mm_load_si128((const __m128i *)(const void *)a))
CANNERY_WORD1(p16x4, p16x4_load1, const int16_t *,
              _mm_set1_epi32(cannery_bytes4((const int8_t *)(const void *)a, 4)))
CANNERY_WORD2(p16x4, p16x4_add, p16x4, _mm_add_epi16(a, b))
CANNERY_WORD2(p16x4, p16x4_sub, p16x4, _mm_sub_epi16(a, b))

CANNERY_INLINE p16x4 p16x4_load1_n(const int16_t *p, int n)
{
    return n > 1 ? p16x4_load1(p) : _mm_set1_epi32((uint16_t)p[0]);
}

CANNERY_INLINE p16x4 p16x4_pair(const int16_t *p, const int16_t *q)
{
    return _mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i *)(const void *)p),
                              _mm_loadl_epi64((const __m128i *)(const void *)q));
}

CANNERY_INLINE void p16x4_pair2(const int16_t *p, const int16_t *q, p16x4 *a, p16x4 *b)
{
    const __m128i first = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i second = _mm_loadu_si128((const __m128i *)(const void *)q);
    *a = _mm_unpacklo_epi16(first, second);
    *b = _mm_unpackhi_epi16(first, second);
}

CANNERY_INLINE p16x4 p16x4_load_u8(const uint8_t *p)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm_unpacklo_epi8(bytes, _mm_setzero_si128());
}

CANNERY_INLINE p16x4 p16x4_load_i8(const int8_t *p)
{
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)p);
#if defined(__SSE4_1__)
    return _mm_cvtepi8_epi16(bytes);
#else
    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
#endif
}

/* Pairs of bytes of p and q, channel by channel; and those of a vector and the next one. */
#define CANNERY_BYTE_PAIRS_4(name, type, widened)                                                  \
    CANNERY_INLINE p16x4 p16x4_pair_##name(const type *p, const type *q)                           \
    {                                                                                              \
        const __m128i x = _mm_cvtsi32_si128(cannery_bytes4((const int8_t *)(const void *)p, 4));   \
        const __m128i y = _mm_cvtsi32_si128(cannery_bytes4((const int8_t *)(const void *)q, 4));   \
        const __m128i z = _mm_unpacklo_epi8(x, y);                                                 \
        return widened;                                                                            \
    }                                                                                              \
    CANNERY_INLINE p16x4 p16x4_pair_##name##_n(const type *p, const type *q, int n)                \
    {                                                                                              \
        type first[4] = {0}, second[4] = {0};                                                      \
        CANNERY_COPY(first, p, (size_t)n);                                                         \
        CANNERY_COPY(second, q, (size_t)n);                                                        \
        return p16x4_pair_##name(first, second);                                                   \
    }                                                                                              \
    CANNERY_INLINE void p16x4_pair2_##name(const type *p, const type *q, p16x4 *a, p16x4 *b)       \
    {                                                                                              \
        const __m128i x = p16x4_load_##name(p), y = p16x4_load_##name(q);                          \
        *a = _mm_unpacklo_epi16(x, y);                                                             \
        *b = _mm_unpackhi_epi16(x, y);                                                             \
    }
CANNERY_BYTE_PAIRS_4(u8, uint8_t, _mm_unpacklo_epi8(z, _mm_setzero_si128()))
CANNERY_BYTE_PAIRS_4(i8, int8_t, _mm_srai_epi16(_mm_unpacklo_epi8(z, z), 8))
#undef CANNERY_BYTE_PAIRS_4

CANNERY_INLINE void p16x4_store(int16_t *p, p16x4 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, v);
}

CANNERY_INLINE i32x4 i32x4_dot(p16x4 a, p16x4 b, i32x4 acc)
{
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return (i32x4)_mm_dpwssd_epi32((__m128i)acc, a, b);
#else
    return (i32x4)_mm_add_epi32((__m128i)acc, _mm_madd_epi16(a, b));
#endif
}

/* ---- int8 -------------------------------------------------------------- */

#define CANNERY_OWN_DOT4 1
CANNERY_INLINE i32x4 i32x4_dot4w(i32x4 a, i32x4 b, i32x4 acc)
{
    const __m128i x = (__m128i)a, y = (__m128i)b;
    const __m128i odd = _mm_madd_epi16(_mm_srai_epi16(x, 8), _mm_srai_epi16(y, 8));
    const __m128i even = _mm_madd_epi16(_mm_srai_epi16(_mm_slli_epi16(x, 8), 8),
                                        _mm_srai_epi16(_mm_slli_epi16(y, 8), 8));
    return (i32x4)_mm_add_epi32((__m128i)acc, _mm_add_epi32(odd, even));
}

CANNERY_INLINE i32x4 i32x4_dot4u(i32x4 a, i32x4 b, i32x4 acc)
{
    const __m128i x = (__m128i)a, y = (__m128i)b;
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return (i32x4)_mm_dpbusd_epi32((__m128i)acc, x, y);
#elif defined(__SSSE3__)
    const __m128i pairs = _mm_maddubs_epi16(x, y);
    return (i32x4)_mm_add_epi32((__m128i)acc, _mm_madd_epi16(pairs, _mm_set1_epi16(1)));
#else
    const __m128i odd = _mm_madd_epi16(_mm_srli_epi16(x, 8), _mm_srai_epi16(y, 8));
    const __m128i even = _mm_madd_epi16(_mm_and_si128(x, _mm_set1_epi16(255)),
                                        _mm_srai_epi16(_mm_slli_epi16(y, 8), 8));
    return (i32x4)_mm_add_epi32((__m128i)acc, _mm_add_epi32(odd, even));
#endif
}

/* Signs move to the weights, so that the first factor is unsigned: two products of numbers up
 * to 128 and up to 127 do not exceed int16. */
CANNERY_INLINE i32x4 i32x4_dot4(i32x4 a, i32x4 b, i32x4 acc)
{
#if defined(__SSSE3__)
    const i32x4 sizes = (i32x4)_mm_abs_epi8((__m128i)a);
    return i32x4_dot4u(sizes, (i32x4)_mm_sign_epi8((__m128i)b, (__m128i)a), acc);
#else
    return i32x4_dot4w(a, b, acc);
#endif
}

#define CANNERY_OWN_RECIPROCAL 1
#define CANNERY_LANES 4
#include "vec_base.h"

/* Twelve bits from the CPU, one Newton step: r + r*(1 - x*r). */
CANNERY_INLINE f32x4 f32x4_recip_fast(f32x4 x)
{
    const __m128 r = _mm_rcp_ps(x);
    return f32x4_fma(r, f32x4_fnma(x, r, _mm_set1_ps(1.0f)), r);
}

#undef CANNERY_LANES

#endif
