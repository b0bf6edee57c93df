/* SPDX-License-Identifier: MIT-0
 *
 * The words of vec_rvv.h for one width, CANNERY_LANES; hence no include guard. The types are those
 * of the intrinsics, which clang treats like any vectors: most words are those of vec_base.h.
 */

#define CANNERY_V(name, tail) CANNERY_PASTE(name, CANNERY_PART, tail, )
#define CANNERY_BITS __attribute__((riscv_rvv_vector_bits(32 * CANNERY_LANES)))

typedef CANNERY_V(vfloat32, _t) CANNERY_FT CANNERY_BITS;
typedef CANNERY_V(vint32, _t) CANNERY_IT CANNERY_BITS;
typedef CANNERY_IT CANNERY_MT; /* all bits of a lane set or none */

/* ---- memory: lengths are those of instructions -------------------------- */

#define CANNERY_OWN_PARTS 1
CANNERY_INLINE CANNERY_FT CANNERY_F(load_n)(const float *p, int n)
{
    const CANNERY_FT none = CANNERY_V(__riscv_vfmv_v_f_f32, )(0.0f, CANNERY_LANES);
    return CANNERY_V(__riscv_vle32_v_f32, _tu)(none, p, (size_t)n);
}

CANNERY_INLINE void CANNERY_F(store_n)(float *p, CANNERY_FT v, int n)
{
    CANNERY_V(__riscv_vse32_v_f32, )(p, v, (size_t)n);
}

#define CANNERY_OWN_TWOS 1
#define CANNERY_OF_2(v, k) CANNERY_V(CANNERY_V(__riscv_vget_v_f32, x2_f32), )(v, k)
CANNERY_INLINE void CANNERY_F(load2)(const float *p, CANNERY_FT *even, CANNERY_FT *odd)
{
    const CANNERY_V(vfloat32, x2_t) v = CANNERY_V(__riscv_vlseg2e32_v_f32, x2)(p, CANNERY_LANES);
    *even = CANNERY_OF_2(v, 0);
    *odd = CANNERY_OF_2(v, 1);
}

CANNERY_INLINE void CANNERY_F(store2)(float *p, CANNERY_FT even, CANNERY_FT odd)
{
    const CANNERY_V(vfloat32, x2_t) v = CANNERY_V(__riscv_vcreate_v_f32, x2)(even, odd);
    CANNERY_V(__riscv_vsseg2e32_v_f32, x2)(p, v, CANNERY_LANES);
}

#define CANNERY_OWN_FOURS 1
#define CANNERY_OF_4(v, k) CANNERY_V(CANNERY_V(__riscv_vget_v_f32, x4_f32), )(v, k)
CANNERY_INLINE void CANNERY_F(load4)(const float *p, CANNERY_FT *a, CANNERY_FT *b, CANNERY_FT *c,
                                     CANNERY_FT *d)
{
    const CANNERY_V(vfloat32, x4_t) v = CANNERY_V(__riscv_vlseg4e32_v_f32, x4)(p, CANNERY_LANES);
    *a = CANNERY_OF_4(v, 0);
    *b = CANNERY_OF_4(v, 1);
    *c = CANNERY_OF_4(v, 2);
    *d = CANNERY_OF_4(v, 3);
}

CANNERY_INLINE void CANNERY_F(store4)(float *p, CANNERY_FT a, CANNERY_FT b, CANNERY_FT c,
                                      CANNERY_FT d)
{
    const CANNERY_V(vfloat32, x4_t) v = CANNERY_V(__riscv_vcreate_v_f32, x4)(a, b, c, d);
    CANNERY_V(__riscv_vsseg4e32_v_f32, x4)(p, v, CANNERY_LANES);
}

/* ---- between lanes: through memory -------------------------------------- */

#define CANNERY_OWN_ZIP 1
CANNERY_INLINE void CANNERY_F(unzip)(CANNERY_FT a, CANNERY_FT b, CANNERY_FT *even, CANNERY_FT *odd)
{
    float x[2 * CANNERY_LANES];
    memcpy(x, &a, sizeof a);
    memcpy(x + CANNERY_LANES, &b, sizeof b);
    CANNERY_F(load2)(x, even, odd);
}

CANNERY_INLINE void CANNERY_F(zip)(CANNERY_FT a, CANNERY_FT b, CANNERY_FT *lo, CANNERY_FT *hi)
{
    float x[2 * CANNERY_LANES];
    CANNERY_F(store2)(x, a, b);
    memcpy(lo, x, sizeof *lo);
    memcpy(hi, x + CANNERY_LANES, sizeof *hi);
}

#define CANNERY_OWN_TRANSPOSE 1
#if CANNERY_LANES == 4
CANNERY_INLINE void f32x4_transpose4(f32x4 *a, f32x4 *b, f32x4 *c, f32x4 *d)
{
    float x[16];
    f32x4_store4(x, *a, *b, *c, *d);
    memcpy(a, x, sizeof *a);
    memcpy(b, x + 4, sizeof *b);
    memcpy(c, x + 8, sizeof *c);
    memcpy(d, x + 12, sizeof *d);
}
#else
CANNERY_INLINE void f32x8_transpose8(f32x8 *r)
{
    float x[64];
    const vfloat32m1x8_t v =
        __riscv_vcreate_v_f32m1x8(r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]);
    __riscv_vsseg8e32_v_f32m1x8(x, v, 8);
    memcpy(r, x, sizeof x);
}
#endif

/* ---- conversion: with C's rounding, to the nearest even ------------------- */

#define CANNERY_OWN_CONVERSION 1
CANNERY_INLINE CANNERY_IT CANNERY_F(to_i32_round)(CANNERY_FT v)
{
    return CANNERY_V(__riscv_vfcvt_x_f_v_i32, )(v, CANNERY_LANES);
}

/* If it became larger, it goes back by one towards 0. The truncating instruction crashes QEMU
 * before 8.0. */
CANNERY_INLINE CANNERY_IT CANNERY_F(to_i32)(CANNERY_FT v)
{
    const CANNERY_IT k = CANNERY_F(to_i32_round)(v);
    const CANNERY_IT sizes = (CANNERY_IT)__builtin_convertvector(k, CANNERY_FT) & INT32_MAX;
    const CANNERY_IT over = (CANNERY_IT)(sizes > ((CANNERY_IT)v & INT32_MAX));
    return k - (over & ((k >> 31) | 1));
}

/* ---- products of int8 -------------------------------------------------- */

#define CANNERY_OWN_DOT4 1
typedef int8_t CANNERY_T(cannery_bytes_of_) __attribute__((vector_size(4 * CANNERY_LANES)));
typedef int16_t CANNERY_T(cannery_products_of_) __attribute__((vector_size(8 * CANNERY_LANES)));
typedef int32_t CANNERY_T(cannery_sums_of_) __attribute__((vector_size(8 * CANNERY_LANES)));
#define CANNERY_WIDE(v)                                                                            \
    __builtin_convertvector((CANNERY_T(cannery_bytes_of_))v, CANNERY_T(cannery_products_of_))
#define CANNERY_SUMS(v) __builtin_convertvector(v, CANNERY_T(cannery_sums_of_))
CANNERY_INLINE CANNERY_IT CANNERY_I(dot4)(CANNERY_IT a, CANNERY_IT b, CANNERY_IT acc)
{
    const CANNERY_T(cannery_products_of_) p = CANNERY_WIDE(a) * CANNERY_WIDE(b);
    const CANNERY_T(cannery_sums_of_) sums =
        CANNERY_SUMS(__builtin_shufflevector(p, p, CANNERY_EACH_TWO(CANNERY_EVEN))) +
        CANNERY_SUMS(__builtin_shufflevector(p, p, CANNERY_EACH_TWO(CANNERY_ODD)));
    acc += (CANNERY_IT)__builtin_shufflevector(sums, sums, CANNERY_EACH(CANNERY_EVEN));
    return acc + (CANNERY_IT)__builtin_shufflevector(sums, sums, CANNERY_EACH(CANNERY_ODD));
}

#include "vec_base.h"
