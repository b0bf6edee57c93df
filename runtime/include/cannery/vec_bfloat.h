/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary for products of bfloat16: sums of float32 in the registers of AArch64 with
 * FEAT_BF16 (-march=armv8.2-a+bf16).
 *
 * bfloat16 is the upper half of a float32: eight bits of precision, the exponents of float32. An f32x4
 * also holds eight of them, two per lane; the first of a pair is the lower half of its lane. Such
 * vectors, and the floats that hold a pair in memory, are loaded and stored with the words for float32,
 * which keep all bits. They mean something to the words below only.
 *
 *   f32x4_bfloat(f32x4 a, f32x4 b)    eight bfloat16: those nearest to a, then to b, ties to even
 *   f32x4_dot(a, b, c)                c[i] + both products of pair i of a and pair i of b
 *   f32x4_dot_lane0 .. 3(a, b, c)     the same with pair k of b in place of pair i
 *   f32x4_dot_matrix(a, b, c)         c is a matrix of 2x2 sums, a and b have two rows of four numbers:
 *                                     c[2*i + j] + the four products of row i of a and row j of b
 *   f32x4_first_halves(a, b), f32x4_last_halves(a, b)   a[0], a[1], b[0], b[1]; a[2], a[3], b[2], b[3]
 *
 * With FPCR.EBF = 0, as systems start programs, processors round so, whatever else FPCR says: the two
 * products of a pair are added to each other, then to c; each addition rounds to odd (toward zero, and
 * the last bit is set if anything was lost). Subnormal bfloat16 and sums count as zero. f32x4_dot_matrix
 * adds the first pair of each row, then the second.
 */
#ifndef CANNERY_VEC_BFLOAT_H
#define CANNERY_VEC_BFLOAT_H

#include "vec_neon.h"

#if !defined(__aarch64__) || !defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#error "cannery: vec_bfloat.h needs AArch64 with bfloat16; compile with -march=armv8.2-a+bf16"
#endif

CANNERY_WORD1(bfloat16x8_t, cannery_pairs, f32x4, vreinterpretq_bf16_f32(a))

CANNERY_WORD2(f32x4, f32x4_bfloat, f32x4,
              vreinterpretq_f32_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(a), b)))

CANNERY_INLINE f32x4 f32x4_dot(f32x4 a, f32x4 b, f32x4 c)
{
    return vbfdotq_f32(c, cannery_pairs(a), cannery_pairs(b));
}

CANNERY_INLINE f32x4 f32x4_dot_lane0(f32x4 a, f32x4 b, f32x4 c)
{
    return vbfdotq_laneq_f32(c, cannery_pairs(a), cannery_pairs(b), 0);
}

CANNERY_INLINE f32x4 f32x4_dot_lane1(f32x4 a, f32x4 b, f32x4 c)
{
    return vbfdotq_laneq_f32(c, cannery_pairs(a), cannery_pairs(b), 1);
}

CANNERY_INLINE f32x4 f32x4_dot_lane2(f32x4 a, f32x4 b, f32x4 c)
{
    return vbfdotq_laneq_f32(c, cannery_pairs(a), cannery_pairs(b), 2);
}

CANNERY_INLINE f32x4 f32x4_dot_lane3(f32x4 a, f32x4 b, f32x4 c)
{
    return vbfdotq_laneq_f32(c, cannery_pairs(a), cannery_pairs(b), 3);
}

CANNERY_INLINE f32x4 f32x4_dot_matrix(f32x4 a, f32x4 b, f32x4 c)
{
    return vbfmmlaq_f32(c, cannery_pairs(a), cannery_pairs(b));
}

CANNERY_WORD2(f32x4, f32x4_first_halves, f32x4,
              vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b))))
CANNERY_WORD2(f32x4, f32x4_last_halves, f32x4,
              vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b))))

#endif
