/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary: portable macros and the one-lane words.
 *
 * Kernels are written once over a small set of words; a header per register
 * family defines them. This header is the reference: each word is documented
 * here once, and its one-lane form below is its meaning.
 *
 *   header          lanes L        included by
 *   vec_scalar.h    1              everything (plain C, every CPU)
 *   vec_x86_128.h   4              SSE2, SSSE3, SSE4.1 (and wider x86 headers)
 *   vec_x86_256.h   8              AVX2 (FMA if the compiler has it on)
 *   vec_x86_512.h   16             AVX-512 F+BW+DQ+VL
 *   vec_neon.h      4              ARMv7 NEON and AArch64; vec_half.h has float16 in 4 and 8
 *   vec_mve.h       4              Arm's MVE (Helium) of Cortex-M55 and M85
 *   vec_rvv.h       4, 8           RISC-V's V extension with registers of 128, 256 bits
 *   vec_base.h      any            all of these: the words that compilers make of vector types
 *
 * Types: T = f32xL (floats), I = i32xL (int32), M = m32xL (lane mask, opaque).
 * Every word is `static inline` and takes no immediates. Pointers may be
 * unaligned. No word reads or writes an element that its row does not name.
 *
 * Memory (lane i of T is written v[i])
 *   T_load(p)               v[i] = p[i]
 *   T_store(p, v)           p[i] = v[i]
 *   T_load_aligned(p), T_store_aligned(p, v)  the same, p a multiple of 4L bytes:
 *                           before AVX the way to memory operands and, on an
 *                           Atom, to undivided loads
 *   T_load_n(p, n)          like load for i < n, other lanes 0; 0 <= n <= L
 *   T_store_n(p, v, n)      like store for i < n; nothing else is touched
 *   T_load1(p)              v[i] = p[0]
 *   T_load2(p, &e, &o)      e[i] = p[2i], o[i] = p[2i+1]        (2L floats)
 *   T_store2(p, e, o)       p[2i] = e[i], p[2i+1] = o[i]        (2L floats)
 *   T_load4(p, &a, &b, &c, &d)   a[i] = p[4i], b[i] = p[4i+1] ...  (4L floats)
 *   T_store4(p, a, b, c, d)      p[4i] = a[i], p[4i+1] = b[i] ...  (4L floats)
 *   T_load_stride(p, s)     v[i] = p[i*s]; s in floats, any sign
 *   T_store_stride(p, s, v) p[i*s] = v[i], in order of i
 *   T_lookup(table, I k)    v[i] = table[k[i]]
 *   T_load_u8(p), T_load_i8(p)            v[i] = (float)p[i]
 *   T_load_u8_n(p, n), T_load_i8_n(p, n)  likewise for i < n, other lanes 0
 *   T_store_u8(p, v), T_store_i8(p, v)    round to nearest even, saturate; NaN
 *                                         stores 0; also _n(p, v, n)
 *   T_load_s16, T_store_s16 and with _n   the same for int16
 *   T_load_f16(p), T_load_f16_n(p, n), T_load1_f16(p)   like load, load_n and load1, of float16 in
 *                           the bits of uint16; exact, but only for finite ones
 *   T_put_u8(p, v, zero), T_put_i8, T_put_s16   round to nearest even, add an int32, saturate;
 *                           |v| and |zero| below 2^30, no NaN; also _n(p, v, zero, n)
 *   T_put2_u8(p, v, w, zero) ...   L > 1: the same of two vectors, one after the other
 *   f32x4_put2_i8_held(p, v, w, low, high)   the same without a zero point, clamped to two numbers;
 * *                           v and w may be of any size; f32x4_put2_i8_positive(p, v, w)   the
 *                           same to 0 .. 127, for v and w below 2^15. These only on AArch64
 *   T_zero(), T_set1(x)
 *
 * Between lanes
 *   T_unzip(a, b, &e, &o)   of a then b as 2L floats p: e[i] = p[2i], o[i] = p[2i+1]
 *
 * Arithmetic, per lane (IEEE single, round to nearest even)
 *   T_add, T_sub, T_mul, T_div, T_sqrt    correctly rounded
 *   T_fma(a, b, c)          a*b + c: fused if CANNERY_HAS_FMA, else mul then add
 *   T_fnma(a, b, c)         c - a*b, likewise
 *   T_fma1(float a, b, c)   a*b + c, likewise; only if CANNERY_HAS_SCALAR_FMA
 *   T_recip_fast(x)         1/x within 4 ulp; x and 1/x finite and normal
 *   T_min(a, b), T_max(a, b)  `a < b ? a : b`, `a > b ? a : b`, so the second
 *                           operand if either is NaN or both are zeros; but
 *                           NEON: NaN if either is NaN, -0 < +0. Hence
 *                           T_max(zero, x) is NaN for a NaN x everywhere.
 *   T_abs, T_neg, T_copysign(magnitude, sign)     bit operations
 *   T_round (nearest even), T_floor, T_ceil, T_trunc   for every x; sign of zero
 *                           kept, NaN and infinities pass
 *   T_lt, T_le, T_gt, T_ge, T_eq(a, b) -> M       ordered: false for NaN
 *   M_and(a, b), M_or(a, b), M_not(a)
 *   T_select(m, a, b)       m[i] ? a[i] : b[i]
 *
 * Across lanes, in a fixed order: halves are folded onto each other (lane i with
 * lane i + L/2) until one is left, so L alone determines the result's bits.
 *   T_hsum, T_hmax, T_hmin -> float               hmax, hmin: lanes not NaN
 *
 * Integers
 *   T_to_i32(v) truncates, T_to_i32_round(v) to nearest even; outside int32 the
 *                           value is unspecified (never undefined behaviour)
 *   T_from_i32(k)           nearest float
 *   T_as_i32(v), I_as_f32(k)  the same bits
 *   I_load, I_store, I_set1, I_add, I_sub (wrap), I_and, I_or, I_xor, I_min, I_max
 *   I_zero, I_shl23, I_shr23 (zeros come in), I_sra23, I_sra14, I_sra1 (sign comes in)
 *   T_pow2i(k)              2^k for -126 <= k <= 127; 0 for k = -127
 *   I_lookup(table, k)      table[k[i]]
 *   I_interpolate(e, f)     e[i] holds int16 base (high half) and slope (low half):
 *                           base * 2^14 + slope * f[i], 0 <= f[i] < 2^14
 *
 * Products of int16, P = p16xL (L pairs of int16)
 *   P_load(p)               2L numbers as `pack_groups` lays them out: pair by pair on
 *                           x86, else (CANNERY_PAIRS_APART) the first ones of all pairs, then the second;
 *                           p is a multiple of 4L bytes (16 at least)
 *   P_load1(p)              every pair = p[0], p[1]
 *   P_load1_n(p, n)         the same of the first n numbers, 0 for the others
 *   I_dot(P a, P b, I acc)  acc[i] + the product of pairs i; must not leave int32
 *   P_pair(p, q), P_pair_n(p, q, n)   pair i = p[i], q[i]; of the first n, 0, 0 for the others
 *   P_pair2(p, q, &a, &b)   the 2L pairs p[k], q[k] in two vectors, by turns of four where L
 *                           is over four: pair i of a is that of k = 8 (i / 4) + i % 4, and of b
 *                           that of four more. See `turns` of quantized/depthwise_pairs.py
 *   P_pair_u8(p, q), P_pair_i8, _n, P_pair2_u8, P_pair2_i8   the same of bytes; only on x86
 *   I_unturn(&a, &b)        lanes in that order become the first L of 2L and the others
 *   P_load_u8(p), P_load_i8(p)   2L bytes, in order
 *   P_add, P_sub (wrap), P_store(p, v)   each of the 2L numbers; in order
 * Products of int8, Q = q8xL (L times four int8, from -127 to 127)
 *   Q_load(p)               4L numbers, four by four, or (CANNERY_TWOS_APART) the first two of
 *                           all fours, then the other two; p as for P
 *   Q_load1(p), Q_load1_n(p, n)   all fours = p[0] .. p[3]; n of them, 0 for the others
 *   Q_flip(a)               the highest bit of each number flipped: plus or minus 128
 *   I_dot4(Q a, Q b, I acc) acc[i] + the product of fours i; a may hold -128
 *   I_dot4u, I_dot4w        likewise where a is unsigned, and the products of neighbours add
 *                           up in int16 (x86 and scalar); where b may also hold -128 (also Arm)
 *
 * Four lanes only
 *   f32x4_transpose4(&a, &b, &c, &d)      rows become columns, in place
 *   f32x4_rotate1, 2, 3(v)  lane i = v[(i + k) % 4]
 *   f32x4_slide1, 2, 3(a, b)   lanes k .. 3 of a, then 0 .. k - 1 of b
 *   f32x4_lane0 .. 3(v)     every lane = v[k]
 *   f32x4_fma_lane0 .. 3(a, b, c)  c + a*b[k]; only if CANNERY_HAS_LANE_FMA
 *   f32x4_load_ordered(p), f32x4_store_ordered(p, a), f32x4_fma_lane0_ordered .. 3(a, b, c),
 *   f32x4_add_ordered ... (sub, mul, max, min, fma, fnma)   the same; compilers keep these in the
 *                           order in which they are written, for processors that do
 *   f32x4_mul_lane0_ordered .. 3(a, b)   a*b[k]; f32x4_mask_ordered(a, mask)   a, 0 where mask is
 *   f32x4_load_low_ordered(p)   p[0], p[1], and anything; f32x4_load_high_ordered(p) -> uint64_t,
 *                           the bits of p[2], p[3]; f32x4_join_ordered(low, high)  both;
 *                           q8x4_load_low_ordered ... likewise. These
 *                           only if CANNERY_HAS_ORDERED
 *   p16x4_load4(p), q8x4_load4(p)  four groups at any address, as they are in memory
 *   p16x4_load4_n(p, n), q8x4_load4_n(p, n)   n of their numbers, 0 for the others
 *   i32x4_dot_lane0 .. 3(a, b, acc)   like I_dot with group k of such an a in all lanes;
 *                           i32x4_dot4_lane0 ..., i32x4_dot4w_lane0 ... likewise. These and
 *                           load4 only if CANNERY_HAS_LANE_DOT
 *   q8x4_first_two0_ordered .. 3(a), q8x4_second_two0_ordered .. 3(a)   bytes 4k and 4k + 1 of a,
 *                           or 4k + 2 and 4k + 3, in all pairs: p16x4_mul_low_ordered(first, b),
 *                           p16x4_mul_high_ordered(second, b) are their products with the halves
 *                           of b, p16x4_mla_high_ordered(second, b, c) adds those to c, and
 *                           i32x4_add_pairs_ordered(c, acc) adds neighbours in c to acc. With SDOT,
 *                           i32x4_dot4_lane0_ordered .. 3(a, b, acc). Compilers keep their order
 *   f32x4_bytes_by_table(y, x, n, table)   y[i] = table[x[i]] for i < n, unsigned bytes from 256;
 *                           y may be x; only if CANNERY_HAS_BYTE_TABLE
 *   q8x4_two_rows(p, q), q8x4_two_rows_n(p, q, n)   eight bytes of each, or n and zeros
 *   i32x4_mmla(a, b, acc)   acc[2i + j] + the product of eight bytes i of a and j of b
 *   i32x4_to_rows(&a, &b), q8x4_to_rows(&a, &b)   the first halves of both, and the second
 *                           ones. These from q8x4_two_rows on only if CANNERY_HAS_MMLA
 *   b8x8_load(p), b8x8_flip(a)   eight bytes at any address; the highest bit of each flipped
 *   p16x4_mul_bytes(a, b), p16x4_mla_bytes(a, b, acc)   their eight products, and added to acc;
 *                           must not leave int16
 *   i32x4_low_u8(p, k), i32x4_low_i8, i32x4_low_s16   p[i] = the lowest bits of k[i]; also _n(p, k,
 *                           n); only if CANNERY_HAS_LOW_BYTES
 *   i32x4_add_first(a, acc), i32x4_add_second(a, acc)   acc[i] + a[i]; acc[i] + a[i + 4]. These
 *                           from b8x8 on only if CANNERY_HAS_BYTE_PRODUCTS
 * Eight and sixteen lanes
 *   f32x8_lo, f32x8_hi -> f32x4; f32x8_join(lo, hi); f32x16 likewise of f32x8; i32x8_lo ...
 *   f32x8_broadcast4(p), f32x16_broadcast4(p)     v[i] = p[i % 4]
 *   f32x8_broadcast2(p), f32x16_broadcast2(p)     v[i] = p[i % 2]
 *   f32x8_rotate1, 2, 3(v), f32x16_rotate1, 2, 3(v)     like f32x4_rotate1 in each four lanes
 *   f32x16_pick(a, b, I k)  v[i] = k[i] < 16 ? a[k[i]] : b[k[i] - 16]; 0 <= k[i] < 32
 *   f32x8_add_pairs(v) -> f32x4; f32x16 likewise to f32x8     v[2i] + v[2i+1]
 *   f32x8_transpose8(r)     r[0..7], rows become columns, in place
 *
 * Capabilities: CANNERY_HAS_FMA (fma rounds once), CANNERY_HAS_LANE_FMA,
 * CANNERY_HAS_MASKS (load_n and store_n cost one instruction), CANNERY_HAS_BYTE_TABLE.
 *
 * Subnormals: arithmetic of ARMv7 NEON and of MVE flushes them to zero; all else keeps them.
 * Needs float evaluation in float: on 32-bit x86 compile with -mfpmath=sse.
 */
#ifndef CANNERY_VEC_SCALAR_H
#define CANNERY_VEC_SCALAR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ == 2
#error "cannery: float arithmetic has excess precision (x87); compile with -msse2 -mfpmath=sse"
#endif

/* ---- cannery_macros ---------------------------------------------------- */

/* The section of functions, where the generated file has one. */
#ifndef CANNERY_CODE
#define CANNERY_CODE
#endif
#if defined(__GNUC__)
#define CANNERY_UNUSED __attribute__((unused))
#define CANNERY_INLINE static inline __attribute__((always_inline, unused))
#define CANNERY_APART CANNERY_CODE static __attribute__((noinline)) /* a piece of a long function */
#define CANNERY_ALIGN(n) __attribute__((aligned(n)))
#define CANNERY_RESTRICT __restrict
/* Hides where p comes from: stops the compiler from hoisting address
 * computations and reloaded values out of a block. */
#define CANNERY_OPAQUE_PTR(p) __asm__("" : "+r"(p))
#define CANNERY_ASSUME_ALIGNED(p, n) __builtin_assume_aligned((p), (n))
/* Prefetches the cache line this many bytes after p, which need not exist. It goes to the
 * second-level cache: the first level has no room for it next to what is read now. */
#define CANNERY_PREFETCH(p, bytes) __builtin_prefetch((const void *)((uintptr_t)(p) + (bytes)), 0, 2)
/* The same to the first level, for what is read only once. */
#define CANNERY_PREFETCH_NEAR(p, bytes) __builtin_prefetch((const void *)((uintptr_t)(p) + (bytes)), 0, 3)
/* What is stored there must be loaded again. */
#define CANNERY_OPAQUE_MEM(array) __asm__("" : "+m"(array))
/* Like CANNERY_OPAQUE_PTR for a vector: computations from it stay in this order, and in its
 * register. */
#if defined(__SSE2__)
#define CANNERY_OPAQUE_VEC(v) __asm__("" : "+v"(v))
#elif defined(__ARM_NEON) || defined(__ARM_FEATURE_MVE)
#define CANNERY_OPAQUE_VEC(v) __asm__("" : "+w"(v))
#endif
#elif defined(_MSC_VER)
#define CANNERY_UNUSED
#define CANNERY_INLINE static __forceinline
#define CANNERY_APART static __declspec(noinline)
#define CANNERY_ALIGN(n) __declspec(align(n))
#define CANNERY_RESTRICT __restrict
#define CANNERY_OPAQUE_PTR(p) ((void)(p))
#define CANNERY_ASSUME_ALIGNED(p, n) (p)
#else
#define CANNERY_UNUSED
#define CANNERY_INLINE static inline
#define CANNERY_APART static
#define CANNERY_ALIGN(n)
#ifdef __cplusplus
#define CANNERY_RESTRICT
#else
#define CANNERY_RESTRICT restrict
#endif
#define CANNERY_OPAQUE_PTR(p) ((void)(p))
#define CANNERY_ASSUME_ALIGNED(p, n) (p)
#endif

#if !defined(CANNERY_PREFETCH)
#define CANNERY_PREFETCH(p, bytes) ((void)(p), (void)(bytes))
#define CANNERY_PREFETCH_NEAR(p, bytes) CANNERY_PREFETCH(p, bytes)
#endif
#if !defined(CANNERY_OPAQUE_MEM)
#define CANNERY_OPAQUE_MEM(array) ((void)(array))
#endif
#if !defined(CANNERY_OPAQUE_VEC)
#define CANNERY_OPAQUE_VEC(v) ((void)(v))
#endif

/* Compilers should say so with __FP_FAST_FMAF, but clang does not. ARMv7 with NEON does without:
 * fused multiply-adds (VFPv4) take as long as others there, and have no form with a lane operand. */
#if defined(__GNUC__) && !(defined(__ARM_NEON) && !defined(__aarch64__)) &&                        \
    (defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA) ||                  \
     defined(__aarch64__) || defined(__riscv_flen))
#define CANNERY_HAS_FMA 1
#endif

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Names of things that exist once per width, for the width CANNERY_LANES. */
#define CANNERY_PASTE_(a, lanes, b, c) a##lanes##b##c
#define CANNERY_PASTE(a, lanes, b, c) CANNERY_PASTE_(a, lanes, b, c)
#define CANNERY_T(type) CANNERY_PASTE(type, CANNERY_LANES, , )
#define CANNERY_F(word) CANNERY_PASTE(f32x, CANNERY_LANES, _, word)
#define CANNERY_I(word) CANNERY_PASTE(i32x, CANNERY_LANES, _, word)
#define CANNERY_M(word) CANNERY_PASTE(m32x, CANNERY_LANES, _, word)
#define CANNERY_P(word) CANNERY_PASTE(p16x, CANNERY_LANES, _, word)
#define CANNERY_Q(word) CANNERY_PASTE(q8x, CANNERY_LANES, _, word)
#define CANNERY_FT CANNERY_T(f32x)
#define CANNERY_IT CANNERY_T(i32x)
#define CANNERY_MT CANNERY_T(m32x)
#define CANNERY_PT CANNERY_T(p16x)
#define CANNERY_QT CANNERY_T(q8x)

/* ---- one lane ---------------------------------------------------------- */

typedef float f32x1;
typedef int32_t i32x1;
typedef int m32x1;

CANNERY_INLINE f32x1 f32x1_load(const float *p)
{
    return p[0];
}

CANNERY_INLINE void f32x1_store(float *p, f32x1 v)
{
    p[0] = v;
}

CANNERY_INLINE f32x1 f32x1_load_aligned(const float *p)
{
    return p[0];
}

CANNERY_INLINE void f32x1_store_aligned(float *p, f32x1 v)
{
    p[0] = v;
}

CANNERY_INLINE f32x1 f32x1_load_n(const float *p, int n)
{
    return n > 0 ? p[0] : 0.0f;
}

CANNERY_INLINE void f32x1_store_n(float *p, f32x1 v, int n)
{
    if (n > 0) {
        p[0] = v;
    }
}

CANNERY_INLINE f32x1 f32x1_zero(void)
{
    return 0.0f;
}

CANNERY_INLINE f32x1 f32x1_set1(float x)
{
    return x;
}

CANNERY_INLINE f32x1 f32x1_load1(const float *p)
{
    return p[0];
}

CANNERY_INLINE void f32x1_load2(const float *p, f32x1 *even, f32x1 *odd)
{
    *even = p[0];
    *odd = p[1];
}

CANNERY_INLINE void f32x1_store2(float *p, f32x1 even, f32x1 odd)
{
    p[0] = even;
    p[1] = odd;
}

CANNERY_INLINE void f32x1_load4(const float *p, f32x1 *a, f32x1 *b, f32x1 *c, f32x1 *d)
{
    *a = p[0];
    *b = p[1];
    *c = p[2];
    *d = p[3];
}

CANNERY_INLINE void f32x1_store4(float *p, f32x1 a, f32x1 b, f32x1 c, f32x1 d)
{
    p[0] = a;
    p[1] = b;
    p[2] = c;
    p[3] = d;
}

CANNERY_INLINE void f32x1_unzip(f32x1 a, f32x1 b, f32x1 *even, f32x1 *odd)
{
    *even = a;
    *odd = b;
}

CANNERY_INLINE f32x1 f32x1_load_stride(const float *p, ptrdiff_t stride)
{
    (void)stride;
    return p[0];
}

CANNERY_INLINE void f32x1_store_stride(float *p, ptrdiff_t stride, f32x1 v)
{
    (void)stride;
    p[0] = v;
}

CANNERY_INLINE f32x1 f32x1_lookup(const float *table, i32x1 k)
{
    return table[k];
}

/* Integers: unsigned arithmetic, so that overflow wraps. */

CANNERY_INLINE i32x1 i32x1_load(const int32_t *p)
{
    return p[0];
}

CANNERY_INLINE void i32x1_store(int32_t *p, i32x1 v)
{
    p[0] = v;
}

CANNERY_INLINE i32x1 i32x1_set1(int32_t x)
{
    return x;
}

CANNERY_INLINE i32x1 i32x1_add(i32x1 a, i32x1 b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

CANNERY_INLINE i32x1 i32x1_sub(i32x1 a, i32x1 b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

CANNERY_INLINE i32x1 i32x1_and(i32x1 a, i32x1 b)
{
    return (int32_t)((uint32_t)a & (uint32_t)b);
}

CANNERY_INLINE i32x1 i32x1_or(i32x1 a, i32x1 b)
{
    return (int32_t)((uint32_t)a | (uint32_t)b);
}

CANNERY_INLINE i32x1 i32x1_xor(i32x1 a, i32x1 b)
{
    return (int32_t)((uint32_t)a ^ (uint32_t)b);
}

CANNERY_INLINE i32x1 i32x1_min(i32x1 a, i32x1 b)
{
    return a < b ? a : b;
}

CANNERY_INLINE i32x1 i32x1_max(i32x1 a, i32x1 b)
{
    return a > b ? a : b;
}

CANNERY_INLINE i32x1 i32x1_shl23(i32x1 a)
{
    return (int32_t)((uint32_t)a << 23);
}

CANNERY_INLINE i32x1 i32x1_shr23(i32x1 a)
{
    return (int32_t)((uint32_t)a >> 23);
}

CANNERY_INLINE i32x1 i32x1_sra23(i32x1 a)
{
    return a >> 23;
}

CANNERY_INLINE i32x1 i32x1_sra1(i32x1 a)
{
    return a >> 1;
}

CANNERY_INLINE f32x1 i32x1_as_f32(i32x1 k)
{
    float v;
    memcpy(&v, &k, sizeof v);
    return v;
}

CANNERY_INLINE i32x1 f32x1_as_i32(f32x1 v)
{
    int32_t k;
    memcpy(&k, &v, sizeof k);
    return k;
}

CANNERY_INLINE f32x1 f32x1_from_i32(i32x1 k)
{
    return (float)k;
}

CANNERY_INLINE f32x1 f32x1_pow2i(i32x1 k)
{
    return i32x1_as_f32(i32x1_shl23(i32x1_add(k, 127)));
}

/* Floats. */

CANNERY_INLINE f32x1 f32x1_add(f32x1 a, f32x1 b)
{
    return a + b;
}

CANNERY_INLINE f32x1 f32x1_sub(f32x1 a, f32x1 b)
{
    return a - b;
}

CANNERY_INLINE f32x1 f32x1_mul(f32x1 a, f32x1 b)
{
    return a * b;
}

CANNERY_INLINE f32x1 f32x1_div(f32x1 a, f32x1 b)
{
    return a / b;
}

CANNERY_INLINE f32x1 f32x1_recip_fast(f32x1 x)
{
    return 1.0f / x;
}

CANNERY_INLINE f32x1 f32x1_fma(f32x1 a, f32x1 b, f32x1 c)
{
#ifdef CANNERY_HAS_FMA
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

CANNERY_INLINE f32x1 f32x1_fnma(f32x1 a, f32x1 b, f32x1 c)
{
#ifdef CANNERY_HAS_FMA
    return __builtin_fmaf(-a, b, c);
#else
    return c - a * b;
#endif
}

CANNERY_INLINE f32x1 f32x1_min(f32x1 a, f32x1 b)
{
    return a < b ? a : b;
}

CANNERY_INLINE f32x1 f32x1_max(f32x1 a, f32x1 b)
{
    return a > b ? a : b;
}

CANNERY_INLINE f32x1 f32x1_abs(f32x1 v)
{
    return i32x1_as_f32(i32x1_and(f32x1_as_i32(v), INT32_MAX));
}

CANNERY_INLINE f32x1 f32x1_neg(f32x1 v)
{
    return -v;
}

CANNERY_INLINE f32x1 f32x1_copysign(f32x1 magnitude, f32x1 sign)
{
    const uint32_t bits = (uint32_t)f32x1_as_i32(sign) & 0x80000000u;
    return i32x1_as_f32((int32_t)((uint32_t)f32x1_as_i32(f32x1_abs(magnitude)) | bits));
}

CANNERY_INLINE m32x1 f32x1_lt(f32x1 a, f32x1 b)
{
    return a < b;
}

CANNERY_INLINE m32x1 f32x1_le(f32x1 a, f32x1 b)
{
    return a <= b;
}

CANNERY_INLINE m32x1 f32x1_gt(f32x1 a, f32x1 b)
{
    return a > b;
}

CANNERY_INLINE m32x1 f32x1_ge(f32x1 a, f32x1 b)
{
    return a >= b;
}

CANNERY_INLINE m32x1 f32x1_eq(f32x1 a, f32x1 b)
{
    return a == b;
}

CANNERY_INLINE m32x1 m32x1_and(m32x1 a, m32x1 b)
{
    return a & b;
}

CANNERY_INLINE m32x1 m32x1_or(m32x1 a, m32x1 b)
{
    return a | b;
}

CANNERY_INLINE m32x1 m32x1_not(m32x1 a)
{
    return !a;
}

CANNERY_INLINE f32x1 f32x1_select(m32x1 m, f32x1 a, f32x1 b)
{
    return m ? a : b;
}

/* Correctly rounded square root with integers, digit by digit: for a CPU
 * without the instruction. v = m * 2^(e - 150) with e odd and 25 bits for m
 * give 25 root bits, the last of which rounds. There are no ties: an odd
 * 25-bit root has a square with more bits than v. */
CANNERY_INLINE f32x1 f32x1_sqrt_digits(f32x1 v)
{
    uint32_t m, root = 0, rest = 0;
    int32_t e;
    int i;
    if (!(v > 0.0f)) {
        return v == 0.0f ? v : (v - v) / (v - v);
    }
    if (v - v != 0.0f) {
        return v; /* +infinity */
    }
    e = f32x1_as_i32(v) >> 23;
    m = (uint32_t)f32x1_as_i32(v) & 0x7fffffu;
    if (e == 0) {
        e = 1;
    } else {
        m |= 0x800000u;
    }
    while (m < 0x800000u) {
        m <<= 1;
        e -= 1;
    }
    if ((e & 1) == 0) {
        m <<= 1;
        e -= 1;
    }
    for (i = 0; i < 25; ++i) {
        rest = (rest << 2) | ((m >> 23) & 3u);
        m <<= 2;
        root <<= 1;
        if (rest >= 2u * root + 1u) {
            rest -= 2u * root + 1u;
            root += 1u;
        }
    }
    root = (root + 1u) >> 1;
    return i32x1_as_f32((int32_t)(root + ((uint32_t)((e + 125) / 2) << 23)));
}

/* By the CPU if it can; sqrtf() would be a libm call because of errno. */
CANNERY_INLINE f32x1 f32x1_sqrt(f32x1 v)
{
#if defined(__SSE2__)
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(v)));
#elif defined(__GNUC__) && defined(__aarch64__)
    float root;
    __asm__("fsqrt %s0, %s1" : "=w"(root) : "w"(v));
    return root;
#elif defined(__GNUC__) && defined(__ARM_FP) && (__ARM_FP & 4)
    float root;
    __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(v));
    return root;
#elif defined(__GNUC__) && defined(__riscv_flen)
    float root;
    __asm__("fsqrt.s %0, %1" : "=f"(root) : "f"(v));
    return root;
#else
    return f32x1_sqrt_digits(v);
#endif
}

CANNERY_INLINE i32x1 f32x1_to_i32(f32x1 v)
{
    return v >= -2147483648.0f && v < 2147483648.0f ? (int32_t)v : INT32_MIN;
}

/* Floats of at least 2^23 are integers; the range test is false for NaN. */
CANNERY_INLINE f32x1 f32x1_trunc(f32x1 v)
{
    const float a = f32x1_abs(v);
    return a < 8388608.0f ? f32x1_copysign((float)(int32_t)a, v) : v;
}

CANNERY_INLINE f32x1 f32x1_floor(f32x1 v)
{
    const float t = f32x1_trunc(v);
    return t > v ? t - 1.0f : t;
}

CANNERY_INLINE f32x1 f32x1_ceil(f32x1 v)
{
    return -f32x1_floor(-v);
}

CANNERY_INLINE f32x1 f32x1_round(f32x1 v)
{
    const float a = f32x1_abs(v);
    int32_t k;
    float rest;
    if (!(a < 8388608.0f)) {
        return v;
    }
    k = (int32_t)a;
    rest = a - (float)k; /* exact */
    k += rest > 0.5f || (rest == 0.5f && (k & 1) != 0);
    return f32x1_copysign((float)k, v);
}

/* 32-bit Arm's FPU rounds as its status register says: to nearest even, as it does after sums and
 * products, unless a program changes that. */
CANNERY_INLINE i32x1 f32x1_to_i32_round(f32x1 v)
{
#if defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
    float k;
    __asm__("vcvtr.s32.f32 %0, %1" : "=t"(k) : "t"(v));
    return f32x1_as_i32(k);
#else
    return f32x1_to_i32(f32x1_round(v));
#endif
}

CANNERY_INLINE float f32x1_hsum(f32x1 v)
{
    return v;
}

CANNERY_INLINE float f32x1_hmax(f32x1 v)
{
    return v;
}

CANNERY_INLINE float f32x1_hmin(f32x1 v)
{
    return v;
}

/* Bytes. */

CANNERY_INLINE f32x1 f32x1_load_u8(const uint8_t *p)
{
    return (float)p[0];
}

CANNERY_INLINE f32x1 f32x1_load_u8_n(const uint8_t *p, int n)
{
    return n > 0 ? (float)p[0] : 0.0f;
}

CANNERY_INLINE f32x1 f32x1_load_i8(const int8_t *p)
{
    return (float)p[0];
}

CANNERY_INLINE f32x1 f32x1_load_i8_n(const int8_t *p, int n)
{
    return n > 0 ? (float)p[0] : 0.0f;
}

/* Value in [low, high]; low for a value below, and 0 for NaN. */
CANNERY_INLINE float f32x1_saturate(float v, float low, float high)
{
    const float x = v == v ? v : 0.0f;
    return x < low ? low : (x > high ? high : x);
}

CANNERY_INLINE void f32x1_store_u8(uint8_t *p, f32x1 v)
{
    p[0] = (uint8_t)f32x1_to_i32_round(f32x1_saturate(v, 0.0f, 255.0f));
}

CANNERY_INLINE void f32x1_store_u8_n(uint8_t *p, f32x1 v, int n)
{
    if (n > 0) {
        f32x1_store_u8(p, v);
    }
}

CANNERY_INLINE void f32x1_store_i8(int8_t *p, f32x1 v)
{
    p[0] = (int8_t)f32x1_to_i32_round(f32x1_saturate(v, -128.0f, 127.0f));
}

CANNERY_INLINE void f32x1_store_i8_n(int8_t *p, f32x1 v, int n)
{
    if (n > 0) {
        f32x1_store_i8(p, v);
    }
}

CANNERY_INLINE int32_t cannery_held(int32_t k, int32_t low, int32_t high)
{
    return k < low ? low : (k > high ? high : k);
}

/* a * b / 2^32, rounded down; processors that multiply no 64 bits may give up to 2 less. */
CANNERY_INLINE int32_t cannery_product_high(int32_t a, int32_t b)
{
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
    const int32_t a1 = a >> 16, b1 = b >> 16, a0 = a & 0xffff, b0 = b & 0xffff;
    return a1 * b1 + (a1 * b0 >> 16) + (a0 * b1 >> 16);
#else
    return (int32_t)((int64_t)a * b >> 32);
#endif
}

/* Whether k / 2^fraction is within near / 2^fraction of a whole number. */
CANNERY_INLINE int cannery_near(int32_t k, int fraction, int near)
{
    const uint32_t either = (uint32_t)near;
    return ((uint32_t)k + either) << (32 - fraction) < 2u * either << (32 - fraction);
}

/* A bias in one word, m * 2^7 + s, is m * 2^(7 - s - fraction): with `fraction` bits after the point,
 * rounded down (s adds at most 1/2), and as a float, exactly. */
CANNERY_INLINE int32_t cannery_word_fixed(int32_t word)
{
    return word >> (word & 31);
}

CANNERY_INLINE float cannery_word_float(int32_t word, int fraction)
{
    return (float)(word >> 7) * i32x1_as_f32((int32_t)(134 - fraction - (word & 31)) << 23);
}

#if !defined(CANNERY_OWN_PAIRS)
/* Clamped to +-127. */
CANNERY_INLINE int32_t cannery_held_127(int32_t k)
{
    return cannery_held(k, -127, 127);
}
#endif

/* f32x1_to_i32_round(v * factor) clamped to +-bound (NaN: 0), mostly without floats: factor is
 * mantissa * 2^(125 - shift) with a mantissa from 2^29 to 2^30, and 2^-60 < factor < 2^60.
 *
 * The mantissas' product has 28 or 29 bits, n of them after the point. Within 40 units of a half the
 * floats decide, whose product is rounded by up to 32 units. */
CANNERY_INLINE int32_t cannery_scaled(float v, float factor, int32_t mantissa, int shift,
                                      int32_t bound)
{
    const int32_t bits = f32x1_as_i32(v), size = bits & 0x7fffffff, n = shift - (size >> 23);
    int32_t whole = bound;
    if (n >= 30 || size > 0x7f800000) {
        return 0;
    }
    if (n >= 12) {
        const int32_t own = (size & 0x7fffff) | 0x800000;
        const int32_t fixed = cannery_product_high(own << 7, mantissa) + ((int32_t)1 << (n - 1));
        whole = fixed >> n;
        if (cannery_near(fixed, (int)n, 40)) {
            whole = f32x1_to_i32_round(f32x1_abs(v) * factor);
        }
        whole = whole < bound ? whole : bound;
    }
    return bits < 0 ? -whole : whole;
}

CANNERY_INLINE void f32x1_put_u8(uint8_t *p, f32x1 v, int32_t zero)
{
    p[0] = (uint8_t)cannery_held(f32x1_to_i32_round(v) + zero, 0, 255);
}

CANNERY_INLINE void f32x1_put_i8(int8_t *p, f32x1 v, int32_t zero)
{
    p[0] = (int8_t)cannery_held(f32x1_to_i32_round(v) + zero, -128, 127);
}

CANNERY_INLINE void f32x1_put_u8_n(uint8_t *p, f32x1 v, int32_t zero, int n)
{
    if (n > 0) {
        f32x1_put_u8(p, v, zero);
    }
}

CANNERY_INLINE void f32x1_put_i8_n(int8_t *p, f32x1 v, int32_t zero, int n)
{
    if (n > 0) {
        f32x1_put_i8(p, v, zero);
    }
}

/* ---- int16 ------------------------------------------------------------- */

CANNERY_INLINE i32x1 i32x1_zero(void)
{
    return 0;
}

CANNERY_INLINE i32x1 i32x1_sra14(i32x1 a)
{
    return a >> 14;
}

CANNERY_INLINE i32x1 i32x1_lookup(const int32_t *table, i32x1 k)
{
    return table[k];
}

CANNERY_INLINE i32x1 i32x1_interpolate(i32x1 entry, i32x1 fraction)
{
    return (entry >> 16) * 16384 + (int16_t)(entry & 0xffff) * fraction;
}

CANNERY_INLINE void i32x1_unturn(i32x1 *a, i32x1 *b)
{
    (void)a;
    (void)b;
}

/* A family of scalars may have pairs and fours of its own. */
#if !defined(CANNERY_OWN_PAIRS)
typedef struct {
    int16_t first, second;
} p16x1;

CANNERY_INLINE p16x1 p16x1_load(const int16_t *p)
{
    const p16x1 pair = {p[0], p[1]};
    return pair;
}

CANNERY_INLINE p16x1 p16x1_load1(const int16_t *p)
{
    return p16x1_load(p);
}

CANNERY_INLINE p16x1 p16x1_load1_n(const int16_t *p, int n)
{
    const p16x1 pair = {p[0], n > 1 ? p[1] : (int16_t)0};
    return pair;
}

CANNERY_INLINE p16x1 p16x1_pair(const int16_t *p, const int16_t *q)
{
    const p16x1 pair = {p[0], q[0]};
    return pair;
}

CANNERY_INLINE p16x1 p16x1_pair_n(const int16_t *p, const int16_t *q, int n)
{
    const p16x1 none = {0, 0};
    return n > 0 ? p16x1_pair(p, q) : none;
}

CANNERY_INLINE void p16x1_pair2(const int16_t *p, const int16_t *q, p16x1 *a, p16x1 *b)
{
    *a = p16x1_pair(p, q);
    *b = p16x1_pair(p + 1, q + 1);
}

#define CANNERY_BYTE_PAIRS_1(name, type)                                                           \
    CANNERY_INLINE p16x1 p16x1_pair_##name(const type *p, const type *q)                           \
    {                                                                                              \
        const p16x1 pair = {p[0], q[0]};                                                           \
        return pair;                                                                               \
    }                                                                                              \
    CANNERY_INLINE p16x1 p16x1_pair_##name##_n(const type *p, const type *q, int n)                \
    {                                                                                              \
        const p16x1 none = {0, 0};                                                                 \
        return n > 0 ? p16x1_pair_##name(p, q) : none;                                             \
    }                                                                                              \
    CANNERY_INLINE void p16x1_pair2_##name(const type *p, const type *q, p16x1 *a, p16x1 *b)       \
    {                                                                                              \
        *a = p16x1_pair_##name(p, q);                                                              \
        *b = p16x1_pair_##name(p + 1, q + 1);                                                      \
    }
CANNERY_BYTE_PAIRS_1(u8, uint8_t)
CANNERY_BYTE_PAIRS_1(i8, int8_t)
#undef CANNERY_BYTE_PAIRS_1

CANNERY_INLINE p16x1 p16x1_load_u8(const uint8_t *p)
{
    const p16x1 pair = {p[0], p[1]};
    return pair;
}

CANNERY_INLINE p16x1 p16x1_load_i8(const int8_t *p)
{
    const p16x1 pair = {p[0], p[1]};
    return pair;
}

CANNERY_INLINE p16x1 p16x1_add(p16x1 a, p16x1 b)
{
    const p16x1 sum = {(int16_t)(a.first + b.first), (int16_t)(a.second + b.second)};
    return sum;
}

CANNERY_INLINE p16x1 p16x1_sub(p16x1 a, p16x1 b)
{
    const p16x1 difference = {(int16_t)(a.first - b.first), (int16_t)(a.second - b.second)};
    return difference;
}

CANNERY_INLINE void p16x1_store(int16_t *p, p16x1 v)
{
    p[0] = v.first;
    p[1] = v.second;
}

CANNERY_INLINE i32x1 i32x1_dot(p16x1 a, p16x1 b, i32x1 acc)
{
    return acc + a.first * b.first + a.second * b.second;
}

#endif

/* ---- float16 ----------------------------------------------------------- */

/* Exponents move by 112. A subnormal is what its bits add to the least normal number, 2^-14; so no
 * step has subnormal floats, which the CPU might flush. */
CANNERY_INLINE f32x1 f32x1_of_f16_bits(uint16_t half)
{
    const int32_t bits = (int32_t)((uint32_t)(half & 0x7fffu) << 13);
    const float least = i32x1_as_f32(0x38800000), large = i32x1_as_f32(bits + 0x38000000);
    const float size = large < least ? i32x1_as_f32(bits + 0x38800000) - least : large;
    return (half & 0x8000u) != 0 ? -size : size;
}

/* VFPv4 and later have it with the fused multiply-add; gcc does not say so of FPUs without double. */
#if defined(__GNUC__) && defined(__arm__) && defined(__ARM_FP)
#if (__ARM_FP & 2) || defined(__ARM_FEATURE_FMA)
#define CANNERY_HAS_ARM_F16 1
#endif
#endif

/* By the CPU if it can. */
CANNERY_INLINE f32x1 f32x1_load_f16(const uint16_t *p)
{
#if defined(__GNUC__) && defined(__aarch64__)
    __fp16 half;
    memcpy(&half, p, sizeof half);
    return (float)half;
#elif defined(CANNERY_HAS_ARM_F16)
    float v;
    __asm__("vcvtb.f32.f16 %0, %1" : "=t"(v) : "t"(i32x1_as_f32((int32_t)p[0])));
    return v;
#else
    return f32x1_of_f16_bits(p[0]);
#endif
}

CANNERY_INLINE f32x1 f32x1_load_f16_n(const uint16_t *p, int n)
{
    return n > 0 ? f32x1_load_f16(p) : 0.0f;
}

CANNERY_INLINE f32x1 f32x1_load1_f16(const uint16_t *p)
{
    return f32x1_load_f16(p);
}

/* ---- int16 as floats --------------------------------------------------- */

CANNERY_INLINE f32x1 f32x1_load_s16(const int16_t *p)
{
    return (float)p[0];
}

CANNERY_INLINE f32x1 f32x1_load_s16_n(const int16_t *p, int n)
{
    return n > 0 ? (float)p[0] : 0.0f;
}

CANNERY_INLINE void f32x1_store_s16(int16_t *p, f32x1 v)
{
    p[0] = (int16_t)f32x1_to_i32_round(f32x1_saturate(v, -32768.0f, 32767.0f));
}

CANNERY_INLINE void f32x1_store_s16_n(int16_t *p, f32x1 v, int n)
{
    if (n > 0) {
        f32x1_store_s16(p, v);
    }
}

CANNERY_INLINE void f32x1_put_s16(int16_t *p, f32x1 v, int32_t zero)
{
    p[0] = (int16_t)cannery_held(f32x1_to_i32_round(v) + zero, -32768, 32767);
}

CANNERY_INLINE void f32x1_put_s16_n(int16_t *p, f32x1 v, int32_t zero, int n)
{
    if (n > 0) {
        f32x1_put_s16(p, v, zero);
    }
}

/* ---- int8 -------------------------------------------------------------- */

/* Four bytes as the number that they are in memory; if there are fewer, the others are 0. */
CANNERY_INLINE int32_t cannery_bytes4(const int8_t *p, int n)
{
    int32_t bytes = 0;
    memcpy(&bytes, p, (size_t)n);
    return bytes;
}

/* The code of 4 or 2 bits from bit `from` of a byte on, in two's complement. */
CANNERY_INLINE int32_t cannery_code4(uint8_t byte, int from)
{
    return (int8_t)(uint8_t)((uint32_t)byte << (4 - from)) >> 4;
}

CANNERY_INLINE int32_t cannery_code2(uint8_t byte, int from)
{
    return (int8_t)(uint8_t)((uint32_t)byte << (6 - from)) >> 6;
}

/* The levels of all codes of so many bytes; returns where they begin. */
CANNERY_INLINE const int8_t *cannery_decode(const uint8_t *codes, int bytes, int bits,
                                            const int8_t *levels, int8_t *to)
{
    int8_t *next = to;
    int k, from;
    for (k = 0; k < bytes; ++k) {
        for (from = 0; from < 8; from += bits) {
            *next++ = levels[codes[k] >> from & ((1 << bits) - 1)];
        }
    }
    return to;
}

#if !defined(CANNERY_OWN_PAIRS)
typedef struct {
    int8_t k[4];
} q8x1;

CANNERY_INLINE q8x1 q8x1_load(const int8_t *p)
{
    const q8x1 four = {{p[0], p[1], p[2], p[3]}};
    return four;
}

CANNERY_INLINE q8x1 q8x1_load1(const int8_t *p)
{
    return q8x1_load(p);
}

CANNERY_INLINE q8x1 q8x1_load1_n(const int8_t *p, int n)
{
    q8x1 four = {{0, 0, 0, 0}};
    memcpy(four.k, p, (size_t)n);
    return four;
}

CANNERY_INLINE q8x1 q8x1_flip(q8x1 a)
{
    int i;
    for (i = 0; i < 4; ++i) {
        a.k[i] = (int8_t)(a.k[i] < 0 ? a.k[i] + 128 : a.k[i] - 128);
    }
    return a;
}

CANNERY_INLINE i32x1 i32x1_dot4(q8x1 a, q8x1 b, i32x1 acc)
{
    return acc + a.k[0] * b.k[0] + a.k[1] * b.k[1] + a.k[2] * b.k[2] + a.k[3] * b.k[3];
}

CANNERY_INLINE i32x1 i32x1_dot4u(q8x1 a, q8x1 b, i32x1 acc)
{
    int i;
    for (i = 0; i < 4; ++i) {
        acc += (uint8_t)a.k[i] * b.k[i];
    }
    return acc;
}

CANNERY_INLINE i32x1 i32x1_dot4w(q8x1 a, q8x1 b, i32x1 acc)
{
    return i32x1_dot4(a, b, acc);
}
#endif

#endif
