/* SPDX-License-Identifier: MIT-0
 *
 * Functions by table, in integers, so that every processor gets the same bits.
 * Include the vec_*.h headers first: it is defined for each width that exists.
 *
 * A table cuts [-limit, limit) into equal pieces of 2^14 steps; limit and t are counted in steps. An
 * entry holds the function at the piece's beginning (high half) and how much it rises (low half), in
 * units of 1/32767. Tables are named by the entry of 0, in their middle.
 *
 *   f32xL_by_table(table, limit, t)       the function at t times 32767 * 2^14, linear between
 *                                         entries; outside of the table its last values
 */
#ifndef CANNERY_VEC_TABLE_H
#define CANNERY_VEC_TABLE_H

#include "vec_scalar.h"

#define CANNERY_BY_TABLE(F, I)                                                                     \
    CANNERY_INLINE F F##_by_table(const int32_t *table, int32_t limit, F t)                        \
    {                                                                                              \
        const F high = F##_set1((float)(limit - 1)), low = F##_set1((float)-limit);                \
        const I place = F##_to_i32_round(F##_min(F##_max(t, low), high));                          \
        const I entry = I##_lookup(table, I##_sra14(place));                                       \
        return F##_from_i32(I##_interpolate(entry, I##_and(place, I##_set1(0x3fff))));             \
    }

CANNERY_BY_TABLE(f32x1, i32x1)
#if defined(CANNERY_HAS_F32X4)
CANNERY_BY_TABLE(f32x4, i32x4)
#endif
#if defined(CANNERY_HAS_F32X8)
CANNERY_BY_TABLE(f32x8, i32x8)
#endif
#if defined(CANNERY_HAS_F32X16)
CANNERY_BY_TABLE(f32x16, i32x16)
#endif

#endif
