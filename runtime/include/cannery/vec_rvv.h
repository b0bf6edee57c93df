/* SPDX-License-Identifier: MIT-0
 *
 * Cannery vector vocabulary in registers of RISC-V's V extension, of 128 or 256 bits: four lanes,
 * and with 256 bits also eight. The words are documented in vec_scalar.h.
 */
#ifndef CANNERY_VEC_RVV_H
#define CANNERY_VEC_RVV_H

#if !defined(__riscv_v_fixed_vlen) || (__riscv_v_fixed_vlen != 128 && __riscv_v_fixed_vlen != 256)
#error "cannery: vec_rvv.h needs -march=rv64gcv -mrvv-vector-bits=zvl, or rv64gcv_zvl256b"
#endif

#include <riscv_vector.h>

#define CANNERY_COPY(to, from, bytes) cannery_rvv_copy(to, from, bytes)
#include "vec_types.h"

CANNERY_INLINE void cannery_rvv_copy(void *to, const void *from, size_t bytes)
{
    __riscv_vse8_v_u8m1((uint8_t *)to, __riscv_vle8_v_u8m1((const uint8_t *)from, bytes), bytes);
}

#define CANNERY_HAS_MASKS 1
#define CANNERY_PAIRS_APART 1
#define CANNERY_HAS_F32X4 1
#define CANNERY_LANES 4
#define CANNERY_EACH_TWO CANNERY_EACH_8

#if __riscv_v_fixed_vlen == 256
#define CANNERY_PART mf2 /* four lanes take half a register */
#include "vec_rvv_body.h"
#undef CANNERY_LANES
#undef CANNERY_PART
#define CANNERY_HAS_F32X8 1
#define CANNERY_LANES 8
#undef CANNERY_EACH_TWO
#define CANNERY_EACH_TWO CANNERY_EACH_16
#endif

#define CANNERY_PART m1
#include "vec_rvv_body.h"
#undef CANNERY_LANES
#undef CANNERY_PART

#endif
