/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary for Arm's DSP extension (Cortex-M4, M7, M33): pairs of int16
 * and fours of int8 are words of 32 bits, and there are tiles of products for integer layers.
 * Floats are those of vec_scalar.h, which says what each word means.
 *
 * SXTB16 takes the bytes 0 and 2 of a word, and after a rotation by 8 bits those at 1 and 3. So
 * groups of four numbers k are kept as two pairs, k0 k2 and k1 k3, on both sides of a product.
 * Without a GNU compiler the same words are plain C.
 */
#ifndef CANNERY_VEC_DSP_H
#define CANNERY_VEC_DSP_H

#define CANNERY_OWN_PAIRS
#include "vec_scalar.h"

/* ---- instructions -------------------------------------------------------- */

/* Words that are one instruction of one operand, or the same in plain C. */
#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP) && defined(__thumb2__)
#if defined(__OPTIMIZE__)
#define CANNERY_DSP_TILES 1 /* without, compilers have no registers for them */
#endif
#define CANNERY_DSP1(word, instruction, plain)                                                     \
    CANNERY_INLINE int32_t word(int32_t a)                                                         \
    {                                                                                              \
        int32_t r;                                                                                 \
        __asm__(instruction : "=r"(r) : "r"(a));                                                   \
        return r;                                                                                  \
    }
#define CANNERY_DSP2(word, instruction, plain)                                                     \
    CANNERY_INLINE int32_t word(int32_t a, int32_t b)                                              \
    {                                                                                              \
        int32_t r;                                                                                 \
        __asm__(instruction : "=r"(r) : "r"(a), "r"(b));                                           \
        return r;                                                                                  \
    }
#define CANNERY_DSP3(word, instruction, plain)                                                     \
    CANNERY_INLINE int32_t word(int32_t a, int32_t b, int32_t c)                                   \
    {                                                                                              \
        int32_t r;                                                                                 \
        __asm__(instruction : "=r"(r) : "r"(a), "r"(b), "r"(c));                                   \
        return r;                                                                                  \
    }
#else
#define CANNERY_DSP1(word, instruction, plain)                                                     \
    CANNERY_INLINE int32_t word(int32_t a)                                                         \
    {                                                                                              \
        return plain;                                                                              \
    }
#define CANNERY_DSP2(word, instruction, plain)                                                     \
    CANNERY_INLINE int32_t word(int32_t a, int32_t b)                                              \
    {                                                                                              \
        return plain;                                                                              \
    }
#define CANNERY_DSP3(word, instruction, plain)                                                     \
    CANNERY_INLINE int32_t word(int32_t a, int32_t b, int32_t c)                                   \
    {                                                                                              \
        return plain;                                                                              \
    }
#endif

#define CANNERY_LOW(a) ((int16_t)((uint32_t)(a)&0xffffu))
#define CANNERY_HIGH(a) ((int16_t)((uint32_t)(a) >> 16))
#define CANNERY_BYTE(a, k) ((uint32_t)(a) >> (8 * (k)) & 0xffu)
#define CANNERY_PAIR(a, b) ((int32_t)(((uint32_t)(a)&0xffffu) | (uint32_t)(b) << 16))

/* Bytes 0 and 2, or 1 and 3, as a pair: signed; unsigned. */
CANNERY_DSP1(cannery_even_i8, "sxtb16 %0, %1",
             CANNERY_PAIR((int8_t)CANNERY_BYTE(a, 0), (int8_t)CANNERY_BYTE(a, 2)))
CANNERY_DSP1(cannery_odd_i8, "sxtb16 %0, %1, ror #8",
             CANNERY_PAIR((int8_t)CANNERY_BYTE(a, 1), (int8_t)CANNERY_BYTE(a, 3)))
CANNERY_DSP1(cannery_even_u8, "uxtb16 %0, %1", CANNERY_PAIR(CANNERY_BYTE(a, 0), CANNERY_BYTE(a, 2)))
CANNERY_DSP1(cannery_odd_u8, "uxtb16 %0, %1, ror #8",
             CANNERY_PAIR(CANNERY_BYTE(a, 1), CANNERY_BYTE(a, 3)))
/* The low halves of two words as a pair; the high ones. */
CANNERY_DSP2(cannery_lows, "pkhbt %0, %1, %2, lsl #16", CANNERY_PAIR(a, b))
CANNERY_DSP2(cannery_highs, "pkhtb %0, %2, %1, asr #16",
             CANNERY_PAIR(CANNERY_HIGH(a), CANNERY_HIGH(b)))
CANNERY_DSP2(cannery_add_pairs, "sadd16 %0, %1, %2",
             CANNERY_PAIR(CANNERY_LOW(a) + CANNERY_LOW(b), CANNERY_HIGH(a) + CANNERY_HIGH(b)))
CANNERY_DSP2(cannery_sub_pairs, "ssub16 %0, %1, %2",
             CANNERY_PAIR(CANNERY_LOW(a) - CANNERY_LOW(b), CANNERY_HIGH(a) - CANNERY_HIGH(b)))
/* c + the products of both halves; of the high one of a and the low one of b; of low and high. */
CANNERY_DSP3(cannery_dot, "smlad %0, %1, %2, %3",
             (int32_t)((uint32_t)c + (uint32_t)(CANNERY_LOW(a) * CANNERY_LOW(b)) +
                       (uint32_t)(CANNERY_HIGH(a) * CANNERY_HIGH(b))))
CANNERY_DSP3(cannery_high_low, "smlatb %0, %1, %2, %3", c + CANNERY_HIGH(a) * CANNERY_LOW(b))
CANNERY_DSP3(cannery_low_high, "smlabt %0, %1, %2, %3", c + CANNERY_LOW(a) * CANNERY_HIGH(b))

CANNERY_DSP1(cannery_held_i8, "ssat %0, #8, %1", cannery_held(a, -128, 127))

/* Clamped to +-127. */
CANNERY_INLINE int32_t cannery_held_127(int32_t k)
{
    k = cannery_held_i8(k);
    return k < -127 ? -127 : k;
}

/* A word anywhere in memory. */
CANNERY_INLINE int32_t cannery_word(const void *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* ---- pairs of int16 ------------------------------------------------------ */

typedef int32_t p16x1;

CANNERY_INLINE p16x1 p16x1_load(const int16_t *p)
{
    return cannery_word(p);
}

CANNERY_INLINE p16x1 p16x1_load1(const int16_t *p)
{
    return cannery_word(p);
}

CANNERY_INLINE p16x1 p16x1_load1_n(const int16_t *p, int n)
{
    return n > 1 ? cannery_word(p) : CANNERY_PAIR(p[0], 0);
}

CANNERY_INLINE p16x1 p16x1_pair(const int16_t *p, const int16_t *q)
{
    return cannery_lows(p[0], q[0]);
}

CANNERY_INLINE p16x1 p16x1_pair_n(const int16_t *p, const int16_t *q, int n)
{
    return n > 0 ? p16x1_pair(p, q) : 0;
}

CANNERY_INLINE void p16x1_pair2(const int16_t *p, const int16_t *q, p16x1 *a, p16x1 *b)
{
    const int32_t first = cannery_word(p), second = cannery_word(q);
    *a = cannery_lows(first, second);
    *b = cannery_highs(first, second);
}

CANNERY_INLINE p16x1 p16x1_load_u8(const uint8_t *p)
{
    return CANNERY_PAIR(p[0], p[1]);
}

CANNERY_INLINE p16x1 p16x1_load_i8(const int8_t *p)
{
    return CANNERY_PAIR(p[0], p[1]);
}

CANNERY_INLINE p16x1 p16x1_add(p16x1 a, p16x1 b)
{
    return cannery_add_pairs(a, b);
}

CANNERY_INLINE p16x1 p16x1_sub(p16x1 a, p16x1 b)
{
    return cannery_sub_pairs(a, b);
}

CANNERY_INLINE void p16x1_store(int16_t *p, p16x1 v)
{
    memcpy(p, &v, sizeof v);
}

CANNERY_INLINE i32x1 i32x1_dot(p16x1 a, p16x1 b, i32x1 acc)
{
    return cannery_dot(a, b, acc);
}

/* ---- fours of int8 ------------------------------------------------------- */

typedef int32_t q8x1;

CANNERY_INLINE q8x1 q8x1_load(const int8_t *p)
{
    return cannery_word(p);
}

CANNERY_INLINE q8x1 q8x1_load1(const int8_t *p)
{
    return cannery_word(p);
}

CANNERY_INLINE q8x1 q8x1_load1_n(const int8_t *p, int n)
{
    return cannery_bytes4(p, n);
}

CANNERY_INLINE q8x1 q8x1_flip(q8x1 a)
{
    return (int32_t)((uint32_t)a ^ 0x80808080u);
}

CANNERY_INLINE i32x1 i32x1_dot4(q8x1 a, q8x1 b, i32x1 acc)
{
    acc = cannery_dot(cannery_even_i8(a), cannery_even_i8(b), acc);
    return cannery_dot(cannery_odd_i8(a), cannery_odd_i8(b), acc);
}

CANNERY_INLINE i32x1 i32x1_dot4u(q8x1 a, q8x1 b, i32x1 acc)
{
    acc = cannery_dot(cannery_even_u8(a), cannery_even_i8(b), acc);
    return cannery_dot(cannery_odd_u8(a), cannery_odd_i8(b), acc);
}

CANNERY_INLINE i32x1 i32x1_dot4w(q8x1 a, q8x1 b, i32x1 acc)
{
    return i32x1_dot4(a, b, acc);
}

/* ---- tiles of products of bytes -------------------------------------------
 *
 * Numbers of a row are widened to pairs once, as [group of four k][row][2 pairs]; weights stay
 * bytes, as [group][output][4]. A tile adds the products of all groups to its sums, which stay in
 * registers: two rows times two outputs, or one row times four. Thumb has 13 registers for both.
 *
 * `joined`, for numbers from -127 to 127: the bytes 2i and 2i + 1 of a group of weights, k0 and k1,
 * are one number j = 256 w1 + w0, and its pair of numbers is k1 and 256 k0 - k1. Then
 * j k1 + w0 (256 k0 - k1) = 256 (w0 k0 + w1 k1), so the second pair of weights needs no
 * instruction, and sums are 256 times as large. */

#define CANNERY_HIGH_BYTES ((int32_t)0xff00ff00u)

CANNERY_INLINE int32_t cannery_joined_pairs(int32_t bytes, int32_t odd)
{
    return cannery_sub_pairs((int32_t)((uint32_t)bytes << 8) & CANNERY_HIGH_BYTES, odd);
}

/* The two pairs of a group of int8, or of uint8. */
CANNERY_INLINE void cannery_widen(int32_t bytes, int32_t *to, int is_signed, int joined)
{
    const int32_t odd = is_signed ? cannery_odd_i8(bytes) : cannery_odd_u8(bytes);
    if (joined) {
        to[0] = cannery_joined_pairs(bytes, odd);
    } else {
        to[0] = is_signed ? cannery_even_i8(bytes) : cannery_even_u8(bytes);
    }
    to[1] = odd;
}

/* `groups` of them, `step` words apart. Returns where the next one goes. */
CANNERY_INLINE int32_t *cannery_widen_run(const void *p, int groups, int32_t *to, int step,
                                          int is_signed, int joined)
{
    const char *from = (const char *)p;
    int k;
    for (k = groups / 4; k > 0; --k) {
        cannery_widen(cannery_word(from), to, is_signed, joined);
        cannery_widen(cannery_word(from + 4), to + step, is_signed, joined);
        cannery_widen(cannery_word(from + 8), to + 2 * step, is_signed, joined);
        cannery_widen(cannery_word(from + 12), to + 3 * step, is_signed, joined);
        from += 16;
        to += 4 * step;
    }
    for (k = groups % 4; k > 0; --k) {
        cannery_widen(cannery_word(from), to, is_signed, joined);
        from += 4;
        to += step;
    }
    return to;
}

CANNERY_INLINE int32_t cannery_group(const int32_t *x, int32_t w, int32_t sum, int joined)
{
    sum = cannery_dot(cannery_even_i8(w), x[0], sum);
    return cannery_dot(joined ? w : cannery_odd_i8(w), x[1], sum);
}

#if defined(CANNERY_DSP_TILES)
#define CANNERY_DSP_ODD(w) "sxtb16 " w ", " w ", ror #8\n\t"
#define CANNERY_DSP_ROWS(w, sum0, sum1, odd)                                                       \
    "sxtb16 %[t], " w "\n\t"                                                                       \
    "smlad " sum0 ", %[t], r0, " sum0 "\n\t"                                                       \
    "smlad " sum1 ", %[t], r2, " sum1 "\n\t" odd                                                   \
    "smlad " sum0 ", " w ", r1, " sum0 "\n\t"                                                      \
    "smlad " sum1 ", " w ", r3, " sum1 "\n\t"
#define CANNERY_DSP_OUTPUT(w, sum, odd)                                                            \
    "sxtb16 %[t], " w "\n\t"                                                                       \
    "smlad " sum ", %[t], %[x0], " sum "\n\t" odd                                                  \
    "smlad " sum ", " w ", %[x1], " sum "\n\t"
/* One group; x and w move on. */
#define CANNERY_DSP_2X2(odd0, odd1)                                                                \
    __asm__("ldmia %[x]!, {r0, r1, r2, r3}\n\t"                                                    \
            "ldrd %[w0], %[w1], [%[w]], #8\n\t"                                                    \
            CANNERY_DSP_ROWS("%[w0]", "%[a]", "%[c]", odd0)                                        \
            CANNERY_DSP_ROWS("%[w1]", "%[b]", "%[d]", odd1)                                        \
            : [x] "+r"(x), [w] "+r"(w), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d),        \
              [w0] "=&r"(w0), [w1] "=&r"(w1), [t] "=&r"(t)                                         \
            :                                                                                      \
            : "r0", "r1", "r2", "r3", "memory")
#define CANNERY_DSP_1X4(odd0, odd1, odd2, odd3)                                                    \
    __asm__("ldmia %[w]!, {r0, r1, r2, r3}\n\t"                                                    \
            "ldrd %[x0], %[x1], [%[x]], #8\n\t"                                                    \
            CANNERY_DSP_OUTPUT("r0", "%[a]", odd0) CANNERY_DSP_OUTPUT("r1", "%[b]", odd1)          \
            CANNERY_DSP_OUTPUT("r2", "%[c]", odd2) CANNERY_DSP_OUTPUT("r3", "%[d]", odd3)          \
            : [x] "+r"(x), [w] "+r"(w), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d),        \
              [x0] "=&r"(x0), [x1] "=&r"(x1), [t] "=&r"(t)                                         \
            :                                                                                      \
            : "r0", "r1", "r2", "r3", "memory")
#define CANNERY_DSP_LOOP(groups, group)                                                            \
    for (k = (groups) / 4; k > 0; --k) {                                                           \
        group;                                                                                     \
        group;                                                                                     \
        group;                                                                                     \
        group;                                                                                     \
    }                                                                                              \
    for (k = (groups) % 4; k > 0; --k) {                                                           \
        group;                                                                                     \
    }
#endif

/* sums[row][output] */
CANNERY_INLINE void cannery_tile2x2(const int32_t *x, const int8_t *w, int groups, int joined,
                                    int32_t sums[4])
{
    int k;
#if defined(CANNERY_DSP_TILES)
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3], w0, w1, t;
    if (joined) {
        CANNERY_DSP_LOOP(groups, CANNERY_DSP_2X2("", ""))
    } else {
        CANNERY_DSP_LOOP(groups, CANNERY_DSP_2X2(CANNERY_DSP_ODD("%[w0]"), CANNERY_DSP_ODD("%[w1]")))
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#else
    for (k = 0; k < groups; ++k) {
        const int32_t w0 = cannery_word(w + 8 * k), w1 = cannery_word(w + 8 * k + 4);
        sums[0] = cannery_group(x + 4 * k, w0, sums[0], joined);
        sums[1] = cannery_group(x + 4 * k, w1, sums[1], joined);
        sums[2] = cannery_group(x + 4 * k + 2, w0, sums[2], joined);
        sums[3] = cannery_group(x + 4 * k + 2, w1, sums[3], joined);
    }
#endif
}

/* sums[output] */
CANNERY_INLINE void cannery_tile1x4(const int32_t *x, const int8_t *w, int groups, int joined,
                                    int32_t sums[4])
{
    int k;
#if defined(CANNERY_DSP_TILES)
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3], x0, x1, t;
    if (joined) {
        CANNERY_DSP_LOOP(groups, CANNERY_DSP_1X4("", "", "", ""))
    } else {
        CANNERY_DSP_LOOP(groups, CANNERY_DSP_1X4(CANNERY_DSP_ODD("r0"), CANNERY_DSP_ODD("r1"),
                                                 CANNERY_DSP_ODD("r2"), CANNERY_DSP_ODD("r3")))
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#else
    int n;
    for (k = 0; k < groups; ++k) {
        for (n = 0; n < 4; ++n) {
            const int32_t four = cannery_word(w + 16 * k + 4 * n);
            sums[n] = cannery_group(x + 2 * k, four, sums[n], joined);
        }
    }
#endif
}

/* The rest: `outputs` outputs (up to three) of `rows` rows, one or two; sums[row][output]. */
CANNERY_INLINE void cannery_tile_rest(const int32_t *x, const int8_t *w, int groups, int joined,
                                      int rows, int outputs, int32_t *sums)
{
    int k, m, n;
    for (k = 0; k < groups; ++k) {
        for (n = 0; n < outputs; ++n) {
            const int32_t four = cannery_word(w + 4 * n);
            for (m = 0; m < rows; ++m) {
                sums[m * outputs + n] =
                    cannery_group(x + 2 * m, four, sums[m * outputs + n], joined);
            }
        }
        x += 2 * rows;
        w += 4 * outputs;
    }
}

/* ---- tiles whose weights are codes ------------------------------------------
 *
 * Codes of 4 bits: two are a byte, those of k0 and k2, then those of k1 and k3 of a group; codes of
 * 2 bits: all four of a group are a byte, k0 and k2 in its low half. `pairs` has the two weights of
 * each such pair of codes as a pair of int16, so weights need no SXTB16. The order of groups and
 * outputs is that of weights as bytes. */

CANNERY_INLINE void cannery_make_pairs(int32_t *pairs, const int8_t *levels, int bits)
{
    int high, low;
    for (high = 0; high < 1 << bits; ++high) {
        const int32_t second = levels[high];
        for (low = 0; low < 1 << bits; ++low) {
            *pairs++ = CANNERY_PAIR(levels[low], second);
        }
    }
}

/* The pairs k0 k2 and k1 k3 of a group; w moves on. */
CANNERY_INLINE const uint8_t *cannery_coded_group(const uint8_t *w, int bits, const int32_t *pairs,
                                                  int32_t *even, int32_t *odd)
{
    *even = pairs[bits == 4 ? w[0] : w[0] & 15];
    *odd = pairs[bits == 4 ? w[1] : w[0] >> 4];
    return w + bits / 2;
}

#if defined(CANNERY_DSP_TILES)
#define CANNERY_CODED_ROWS(x0, x1, sum0, sum1)                                                     \
    "smlad " sum0 ", %[t], " x0 ", " sum0 "\n\t"                                                   \
    "smlad " sum1 ", %[t], " x1 ", " sum1 "\n\t"
#define CANNERY_CODED4 "ldrb %[t], [%[w]], #1\n\tldr %[t], [%[pairs], %[t], lsl #2]\n\t"
#define CANNERY_CODED2_EVEN                                                                        \
    "ldrb %[u], [%[w]], #1\n\tand %[t], %[u], #15\n\tldr %[t], [%[pairs], %[t], lsl #2]\n\t"
#define CANNERY_CODED2_ODD "lsr %[u], %[u], #4\n\tldr %[t], [%[pairs], %[u], lsl #2]\n\t"
#define CANNERY_CODED_2X2(even, odd)                                                               \
    __asm__("ldmia %[x]!, {r0, r1, r2, r3}\n\t" even CANNERY_CODED_ROWS("r0", "r2", "%[a]", "%[c]") \
                odd CANNERY_CODED_ROWS("r1", "r3", "%[a]", "%[c]")                                 \
                    even CANNERY_CODED_ROWS("r0", "r2", "%[b]", "%[d]")                            \
                        odd CANNERY_CODED_ROWS("r1", "r3", "%[b]", "%[d]")                         \
            : [x] "+r"(x), [w] "+r"(w), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d),        \
              [t] "=&r"(t), [u] "=&r"(u)                                                           \
            : [pairs] "r"(pairs)                                                                   \
            : "r0", "r1", "r2", "r3", "memory")
#define CANNERY_CODED_OUTPUT(even, odd, sum)                                                       \
    even "smlad " sum ", %[t], %[x0], " sum "\n\t" odd "smlad " sum ", %[t], %[x1], " sum "\n\t"
#define CANNERY_CODED_1X4(even, odd)                                                               \
    __asm__("ldrd %[x0], %[x1], [%[x]], #8\n\t" CANNERY_CODED_OUTPUT(even, odd, "%[a]")            \
                CANNERY_CODED_OUTPUT(even, odd, "%[b]") CANNERY_CODED_OUTPUT(even, odd, "%[c]")    \
                    CANNERY_CODED_OUTPUT(even, odd, "%[d]")                                        \
            : [x] "+r"(x), [w] "+r"(w), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d),        \
              [x0] "=&r"(x0), [x1] "=&r"(x1), [t] "=&r"(t), [u] "=&r"(u)                           \
            : [pairs] "r"(pairs)                                                                   \
            : "memory")
#endif

/* sums[row][output] */
CANNERY_INLINE void cannery_coded_tile2x2(const int32_t *x, const uint8_t *w, int groups, int bits,
                                          const int32_t *pairs, int32_t sums[4])
{
    int k;
#if defined(CANNERY_DSP_TILES)
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3], t, u;
    if (bits == 4) {
        CANNERY_DSP_LOOP(groups, CANNERY_CODED_2X2(CANNERY_CODED4, CANNERY_CODED4))
    } else {
        CANNERY_DSP_LOOP(groups, CANNERY_CODED_2X2(CANNERY_CODED2_EVEN, CANNERY_CODED2_ODD))
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#else
    int n;
    for (k = 0; k < groups; ++k) {
        for (n = 0; n < 2; ++n) {
            int32_t even, odd;
            w = cannery_coded_group(w, bits, pairs, &even, &odd);
            sums[n] = cannery_dot(odd, x[1], cannery_dot(even, x[0], sums[n]));
            sums[2 + n] = cannery_dot(odd, x[3], cannery_dot(even, x[2], sums[2 + n]));
        }
        x += 4;
    }
#endif
}

/* sums[output] */
CANNERY_INLINE void cannery_coded_tile1x4(const int32_t *x, const uint8_t *w, int groups, int bits,
                                          const int32_t *pairs, int32_t sums[4])
{
    int k;
#if defined(CANNERY_DSP_TILES)
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3], x0, x1, t, u;
    if (bits == 4) {
        CANNERY_DSP_LOOP(groups, CANNERY_CODED_1X4(CANNERY_CODED4, CANNERY_CODED4))
    } else {
        CANNERY_DSP_LOOP(groups, CANNERY_CODED_1X4(CANNERY_CODED2_EVEN, CANNERY_CODED2_ODD))
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#else
    int n;
    for (k = 0; k < groups; ++k) {
        for (n = 0; n < 4; ++n) {
            int32_t even, odd;
            w = cannery_coded_group(w, bits, pairs, &even, &odd);
            sums[n] = cannery_dot(odd, x[1], cannery_dot(even, x[0], sums[n]));
        }
        x += 2;
    }
#endif
}

/* The rest: `outputs` outputs (up to three) of `rows` rows, one or two; sums[row][output]. */
CANNERY_INLINE void cannery_coded_rest(const int32_t *x, const uint8_t *w, int groups, int bits,
                                       const int32_t *pairs, int rows, int outputs, int32_t *sums)
{
    int k, m, n;
    for (k = 0; k < groups; ++k) {
        for (n = 0; n < outputs; ++n) {
            int32_t even, odd;
            w = cannery_coded_group(w, bits, pairs, &even, &odd);
            for (m = 0; m < rows; ++m) {
                int32_t *const sum = sums + (m * outputs + n);
                *sum = cannery_dot(odd, x[2 * m + 1], cannery_dot(even, x[2 * m], *sum));
            }
        }
        x += 2 * rows;
    }
}

#endif
