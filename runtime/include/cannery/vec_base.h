/* SPDX-License-Identifier: MIT-0
 *
 * The vector vocabulary of one width, written with the vector types of gcc and clang: every
 * word for which a register family has no line of its own. The family's header includes this
 * file once per width, the narrowest first, with CANNERY_LANES set; hence no include guard.
 *
 * Words that a family does better come before the #include, and CANNERY_OWN_<GROUP> says so. They
 * need types: CANNERY_VECTOR_TYPES(L), or the family's own. The words are documented in vec_scalar.h.
 */

#include "vec_types.h"

CANNERY_HELPER_TYPES(CANNERY_LANES)

/* ---- memory ------------------------------------------------------------ */

#if !defined(CANNERY_OWN_SET)
CANNERY_INLINE CANNERY_FT CANNERY_F(set1)(float x)
{
#define CANNERY_PLACE(i) x
    const CANNERY_FT v = {CANNERY_EACH(CANNERY_PLACE)};
    return v;
}

CANNERY_INLINE CANNERY_IT CANNERY_I(set1)(int32_t x)
{
    const CANNERY_IT v = {CANNERY_EACH(CANNERY_PLACE)};
#undef CANNERY_PLACE
    return v;
}

CANNERY_INLINE CANNERY_FT CANNERY_F(zero)(void)
{
    return CANNERY_F(set1)(0.0f);
}

CANNERY_INLINE CANNERY_IT CANNERY_I(zero)(void)
{
    return CANNERY_I(set1)(0);
}
#endif

#if !defined(CANNERY_OWN_LOADS)
CANNERY_WORD1(CANNERY_FT, CANNERY_F(load), const float *, CANNERY_CONST_AT(f32, a))
CANNERY_WORD1(CANNERY_IT, CANNERY_I(load), const int32_t *, CANNERY_CONST_AT(i32, a))
CANNERY_WORD1(CANNERY_FT, CANNERY_F(load_aligned), const float *, *(const CANNERY_T(cannery_whole_f32x) *)(const void *)a)

CANNERY_INLINE void CANNERY_F(store)(float *p, CANNERY_FT v)
{
    CANNERY_AT(f32, p) = v;
}

CANNERY_INLINE void CANNERY_F(store_aligned)(float *p, CANNERY_FT v)
{
    *(CANNERY_T(cannery_whole_f32x) *)(void *)p = v;
}

CANNERY_INLINE void CANNERY_I(store)(int32_t *p, CANNERY_IT v)
{
    CANNERY_AT(i32, p) = v;
}
#endif

#if !defined(CANNERY_OWN_LOAD1)
CANNERY_WORD1(CANNERY_FT, CANNERY_F(load1), const float *, CANNERY_F(set1)(a[0]))
#endif

#if !defined(CANNERY_OWN_PARTS)
CANNERY_INLINE CANNERY_FT CANNERY_F(load_n)(const float *p, int n)
{
    float x[CANNERY_LANES] = {0.0f};
    CANNERY_COPY(x, p, (size_t)n * sizeof *p);
    return CANNERY_F(load)(x);
}

CANNERY_INLINE void CANNERY_F(store_n)(float *p, CANNERY_FT v, int n)
{
    CANNERY_COPY(p, &v, (size_t)n * sizeof *p);
}
#endif

#if !defined(CANNERY_OWN_LOOKUP)
#define CANNERY_PLACE(i) table[k[i]]
CANNERY_INLINE CANNERY_FT CANNERY_F(lookup)(const float *table, CANNERY_IT k)
{
    const CANNERY_FT v = {CANNERY_EACH(CANNERY_PLACE)};
    return v;
}

CANNERY_INLINE CANNERY_IT CANNERY_I(lookup)(const int32_t *table, CANNERY_IT k)
{
    const CANNERY_IT v = {CANNERY_EACH(CANNERY_PLACE)};
    return v;
}
#undef CANNERY_PLACE
#endif

#if !defined(CANNERY_OWN_LOAD_STRIDE)
CANNERY_INLINE CANNERY_FT CANNERY_F(load_stride)(const float *p, ptrdiff_t stride)
{
#define CANNERY_PLACE(i) p[i * stride]
    const CANNERY_FT v = {CANNERY_EACH(CANNERY_PLACE)};
#undef CANNERY_PLACE
    return v;
}
#endif

#if !defined(CANNERY_OWN_STORE_STRIDE)
CANNERY_INLINE void CANNERY_F(store_stride)(float *p, ptrdiff_t stride, CANNERY_FT v)
{
#define CANNERY_PLACE(i) p[i * stride] = v[i]
    CANNERY_EACH(CANNERY_PLACE);
#undef CANNERY_PLACE
}
#endif

/* ---- between lanes ----------------------------------------------------- */

#if CANNERY_LANES > 4 && !defined(CANNERY_OWN_HALVES)
#define CANNERY_HALVES(type, full)                                                                 \
    CANNERY_INLINE CANNERY_HALF(type) CANNERY_PASTE(type, CANNERY_LANES, _, lo)(full v)            \
    {                                                                                              \
        CANNERY_HALF(type) half;                                                                   \
        memcpy(&half, &v, sizeof half);                                                            \
        return half;                                                                               \
    }                                                                                              \
    CANNERY_INLINE CANNERY_HALF(type) CANNERY_PASTE(type, CANNERY_LANES, _, hi)(full v)            \
    {                                                                                              \
        CANNERY_HALF(type) half;                                                                   \
        memcpy(&half, (const char *)&v + sizeof half, sizeof half);                                \
        return half;                                                                               \
    }

CANNERY_HALVES(f32x, CANNERY_FT)
CANNERY_HALVES(i32x, CANNERY_IT)

CANNERY_INLINE CANNERY_FT CANNERY_F(join)(CANNERY_HALF(f32x) lo, CANNERY_HALF(f32x) hi)
{
    CANNERY_FT v;
    memcpy(&v, &lo, sizeof lo);
    memcpy((char *)&v + sizeof lo, &hi, sizeof hi);
    return v;
}
#endif

#if !defined(CANNERY_OWN_ZIP)
CANNERY_INLINE void CANNERY_F(unzip)(CANNERY_FT a, CANNERY_FT b, CANNERY_FT *even, CANNERY_FT *odd)
{
    *even = CANNERY_SHUFFLED(CANNERY_IT, a, b, CANNERY_EVEN);
    *odd = CANNERY_SHUFFLED(CANNERY_IT, a, b, CANNERY_ODD);
}

/* The elements of a and b alternately. */
#define CANNERY_TURN(i) (i) / 2 + (i) % 2 * CANNERY_LANES
#define CANNERY_TURN_HIGH(i) CANNERY_TURN(i) + CANNERY_LANES / 2
CANNERY_INLINE void CANNERY_F(zip)(CANNERY_FT a, CANNERY_FT b, CANNERY_FT *lo, CANNERY_FT *hi)
{
    *lo = CANNERY_SHUFFLED(CANNERY_IT, a, b, CANNERY_TURN);
    *hi = CANNERY_SHUFFLED(CANNERY_IT, a, b, CANNERY_TURN_HIGH);
}
#endif

#if !defined(CANNERY_OWN_TWOS)
CANNERY_INLINE void CANNERY_F(load2)(const float *p, CANNERY_FT *even, CANNERY_FT *odd)
{
    CANNERY_F(unzip)(CANNERY_F(load)(p), CANNERY_F(load)(p + CANNERY_LANES), even, odd);
}

CANNERY_INLINE void CANNERY_F(store2)(float *p, CANNERY_FT even, CANNERY_FT odd)
{
    CANNERY_FT lo, hi;
    CANNERY_F(zip)(even, odd, &lo, &hi);
    CANNERY_F(store)(p, lo);
    CANNERY_F(store)(p + CANNERY_LANES, hi);
}
#endif

#if !defined(CANNERY_OWN_FOURS)
CANNERY_INLINE void CANNERY_F(load4)(const float *p, CANNERY_FT *a, CANNERY_FT *b, CANNERY_FT *c,
                                     CANNERY_FT *d)
{
    CANNERY_FT even0, odd0, even1, odd1;
    CANNERY_F(load2)(p, &even0, &odd0);
    CANNERY_F(load2)(p + 2 * CANNERY_LANES, &even1, &odd1);
    CANNERY_F(unzip)(even0, even1, a, c);
    CANNERY_F(unzip)(odd0, odd1, b, d);
}

CANNERY_INLINE void CANNERY_F(store4)(float *p, CANNERY_FT a, CANNERY_FT b, CANNERY_FT c,
                                      CANNERY_FT d)
{
    CANNERY_FT even0, odd0, even1, odd1;
    CANNERY_F(zip)(a, c, &even0, &even1);
    CANNERY_F(zip)(b, d, &odd0, &odd1);
    CANNERY_F(store2)(p, even0, odd0);
    CANNERY_F(store2)(p + 2 * CANNERY_LANES, even1, odd1);
}
#endif

/* ---- integers: unsigned, so that overflow wraps ------------------------- */

#if !defined(CANNERY_OWN_INTEGERS)
CANNERY_INTEGERS(add, (CANNERY_IT)((CANNERY_UT)a + (CANNERY_UT)b))
CANNERY_INTEGERS(sub, (CANNERY_IT)((CANNERY_UT)a - (CANNERY_UT)b))
CANNERY_INTEGERS(and, a & b)
CANNERY_INTEGERS(or, a | b)
CANNERY_INTEGERS(xor, a ^ b)
CANNERY_WORD1(CANNERY_IT, CANNERY_I(shl23), CANNERY_IT, (CANNERY_IT)((CANNERY_UT)a << 23))
CANNERY_WORD1(CANNERY_IT, CANNERY_I(shr23), CANNERY_IT, (CANNERY_IT)((CANNERY_UT)a >> 23))
CANNERY_WORD1(CANNERY_IT, CANNERY_I(sra23), CANNERY_IT, a >> 23)
CANNERY_WORD1(CANNERY_IT, CANNERY_I(sra14), CANNERY_IT, a >> 14)
CANNERY_WORD1(CANNERY_IT, CANNERY_I(sra1), CANNERY_IT, a >> 1)
CANNERY_WORD1(CANNERY_FT, CANNERY_I(as_f32), CANNERY_IT, (CANNERY_FT)a)
CANNERY_WORD1(CANNERY_IT, CANNERY_F(as_i32), CANNERY_FT, (CANNERY_IT)a)
#endif

#if !defined(CANNERY_OWN_INTEGER_BOUNDS)
CANNERY_INTEGERS(min, (a & (CANNERY_IT)(a < b)) | (b & ~(CANNERY_IT)(a < b)))
CANNERY_INTEGERS(max, (a & (CANNERY_IT)(a > b)) | (b & ~(CANNERY_IT)(a > b)))
#endif

CANNERY_INLINE CANNERY_FT CANNERY_F(pow2i)(CANNERY_IT k)
{
    return CANNERY_I(as_f32)(CANNERY_I(shl23)(CANNERY_I(add)(k, CANNERY_I(set1)(127))));
}

/* ---- masks ------------------------------------------------------------- */

#if !defined(CANNERY_OWN_MASKS)
CANNERY_WORD2(CANNERY_MT, CANNERY_F(lt), CANNERY_FT, (CANNERY_MT)(a < b))
CANNERY_WORD2(CANNERY_MT, CANNERY_F(le), CANNERY_FT, (CANNERY_MT)(a <= b))
CANNERY_WORD2(CANNERY_MT, CANNERY_F(gt), CANNERY_FT, (CANNERY_MT)(a > b))
CANNERY_WORD2(CANNERY_MT, CANNERY_F(ge), CANNERY_FT, (CANNERY_MT)(a >= b))
CANNERY_WORD2(CANNERY_MT, CANNERY_F(eq), CANNERY_FT, (CANNERY_MT)(a == b))
CANNERY_WORD2(CANNERY_MT, CANNERY_M(and), CANNERY_MT, a & b)
CANNERY_WORD2(CANNERY_MT, CANNERY_M(or), CANNERY_MT, a | b)
CANNERY_WORD1(CANNERY_MT, CANNERY_M(not), CANNERY_MT, ~a)
#endif

#if !defined(CANNERY_OWN_SELECT)
CANNERY_INLINE CANNERY_FT CANNERY_F(select)(CANNERY_MT m, CANNERY_FT a, CANNERY_FT b)
{
    return (CANNERY_FT)((m & (CANNERY_MT)a) | (~m & (CANNERY_MT)b));
}
#endif

/* ---- arithmetic -------------------------------------------------------- */

#if !defined(CANNERY_OWN_ARITHMETIC)
CANNERY_FLOATS(add, a + b)
CANNERY_FLOATS(sub, a - b)
CANNERY_FLOATS(mul, a * b)
#endif

#if !defined(CANNERY_OWN_DIVISION)
CANNERY_FLOATS(div, a / b)
#endif

#if !defined(CANNERY_OWN_SQRT)
CANNERY_INLINE CANNERY_FT CANNERY_F(sqrt)(CANNERY_FT v)
{
#if defined(CANNERY_ELEMENTWISE)
    return __builtin_elementwise_sqrt(v);
#else
#define CANNERY_PLACE(i) f32x1_sqrt(v[i])
    const CANNERY_FT roots = {CANNERY_EACH(CANNERY_PLACE)};
#undef CANNERY_PLACE
    return roots;
#endif
}
#endif

#if !defined(CANNERY_OWN_RECIPROCAL)
CANNERY_WORD1(CANNERY_FT, CANNERY_F(recip_fast), CANNERY_FT, CANNERY_F(set1)(1.0f) / a)
#endif

#if !defined(CANNERY_OWN_FMA)
CANNERY_INLINE CANNERY_FT CANNERY_F(fma)(CANNERY_FT a, CANNERY_FT b, CANNERY_FT c)
{
#if defined(CANNERY_HAS_FMA) && defined(CANNERY_ELEMENTWISE)
    return __builtin_elementwise_fma(a, b, c);
#elif defined(CANNERY_HAS_FMA)
#define CANNERY_PLACE(i) f32x1_fma(a[i], b[i], c[i])
    const CANNERY_FT v = {CANNERY_EACH(CANNERY_PLACE)};
#undef CANNERY_PLACE
    return v;
#else
    return a * b + c;
#endif
}

CANNERY_INLINE CANNERY_FT CANNERY_F(fnma)(CANNERY_FT a, CANNERY_FT b, CANNERY_FT c)
{
#if defined(CANNERY_HAS_FMA)
    return CANNERY_F(fma)(-a, b, c);
#else
    return c - a * b;
#endif
}
#endif

#if !defined(CANNERY_OWN_BOUNDS)
CANNERY_FLOATS(min, CANNERY_F(select)(CANNERY_F(lt)(a, b), a, b))
CANNERY_FLOATS(max, CANNERY_F(select)(CANNERY_F(gt)(a, b), a, b))
#endif

#if !defined(CANNERY_OWN_SIGNS)
CANNERY_WORD1(CANNERY_FT, CANNERY_F(neg), CANNERY_FT, -a)
CANNERY_WORD1(CANNERY_FT, CANNERY_F(abs), CANNERY_FT, (CANNERY_FT)((CANNERY_IT)a & INT32_MAX))

CANNERY_INLINE CANNERY_FT CANNERY_F(copysign)(CANNERY_FT magnitude, CANNERY_FT sign)
{
#if defined(CANNERY_ELEMENTWISE)
    return __builtin_elementwise_copysign(magnitude, sign);
#else
    const CANNERY_IT bits = (CANNERY_IT)magnitude & INT32_MAX;
    return (CANNERY_FT)(bits | ((CANNERY_IT)sign & INT32_MIN));
#endif
}
#endif

/* ---- rounding ---------------------------------------------------------- */

#if !defined(CANNERY_OWN_ROUNDING)
/* `integral` where |v| < 2^23, with the sign of v; else v, an integer, an infinity or NaN. */
CANNERY_INLINE CANNERY_FT CANNERY_F(integral_or_self)(CANNERY_FT integral, CANNERY_FT v)
{
    const CANNERY_MT small = CANNERY_F(lt)(CANNERY_F(abs)(v), CANNERY_F(set1)(8388608.0f));
    return CANNERY_F(select)(small, CANNERY_F(copysign)(integral, v), v);
}

/* 2^23 pushes the fraction out, to the nearest even. */
CANNERY_INLINE CANNERY_FT CANNERY_F(round)(CANNERY_FT v)
{
    const CANNERY_FT big = CANNERY_F(set1)(8388608.0f);
    const CANNERY_FT sum = CANNERY_F(add)(CANNERY_F(abs)(v), big);
    return CANNERY_F(integral_or_self)(CANNERY_F(sub)(sum, big), v);
}

/* If rounding made it larger than v, it becomes one less. */
CANNERY_INLINE CANNERY_FT CANNERY_F(floor)(CANNERY_FT v)
{
    const CANNERY_FT r = CANNERY_F(round)(v), one = CANNERY_F(set1)(1.0f);
    const CANNERY_FT less = CANNERY_F(select)(CANNERY_F(gt)(r, v), one, CANNERY_F(zero)());
    return CANNERY_F(sub)(r, less);
}

CANNERY_INLINE CANNERY_FT CANNERY_F(ceil)(CANNERY_FT v)
{
    return CANNERY_F(neg)(CANNERY_F(floor)(CANNERY_F(neg)(v)));
}

CANNERY_INLINE CANNERY_FT CANNERY_F(trunc)(CANNERY_FT v)
{
    return CANNERY_F(copysign)(CANNERY_F(floor)(CANNERY_F(abs)(v)), v);
}
#endif

#if !defined(CANNERY_OWN_CONVERSION)
/* Numbers out of range become 0: converting them is undefined in C. */
CANNERY_INLINE CANNERY_IT CANNERY_F(to_i32)(CANNERY_FT v)
{
    const CANNERY_FT end = CANNERY_F(set1)(2147483648.0f);
    const CANNERY_MT fits =
        CANNERY_M(and)(CANNERY_F(ge)(v, CANNERY_F(neg)(end)), CANNERY_F(lt)(v, end));
    return __builtin_convertvector(CANNERY_F(select)(fits, v, CANNERY_F(zero)()), CANNERY_IT);
}

CANNERY_INLINE CANNERY_IT CANNERY_F(to_i32_round)(CANNERY_FT v)
{
    return CANNERY_F(to_i32)(CANNERY_F(round)(v));
}
#endif

#if !defined(CANNERY_OWN_FROM_I32)
CANNERY_WORD1(CANNERY_FT, CANNERY_F(from_i32), CANNERY_IT, __builtin_convertvector(a, CANNERY_FT))
#endif

/* ---- across lanes ------------------------------------------------------ */

#if !defined(CANNERY_OWN_FOLDS)
#if CANNERY_LANES == 4
#define CANNERY_FOLD(word, fold)                                                                   \
    CANNERY_INLINE float f32x4_##word(f32x4 v)                                                     \
    {                                                                                              \
        const f32x4 pair = f32x4_##fold(v, CANNERY_SHUFFLE(i32x4, v, v, 2, 3, 2, 3));              \
        return f32x4_##fold(pair, CANNERY_SHUFFLE(i32x4, pair, pair, 1, 1, 1, 1))[0];              \
    }
#else
#define CANNERY_FOLD(word, fold)                                                                   \
    CANNERY_INLINE float CANNERY_F(word)(CANNERY_FT v)                                             \
    {                                                                                              \
        return CANNERY_HALF_WORD(word)(                                                            \
            CANNERY_HALF_WORD(fold)(CANNERY_F(lo)(v), CANNERY_F(hi)(v)));                          \
    }
#endif
CANNERY_FOLD(hsum, add)
CANNERY_FOLD(hmax, max)
CANNERY_FOLD(hmin, min)
#undef CANNERY_FOLD
#endif

#if CANNERY_LANES == 4 && !defined(CANNERY_OWN_SLIDES)
#define CANNERY_SLID(word, ...)                                                                    \
    CANNERY_WORD2(f32x4, f32x4_##word, f32x4, CANNERY_SHUFFLE(i32x4, a, b, __VA_ARGS__))
CANNERY_SLID(slide1, 1, 2, 3, 4)
CANNERY_SLID(slide2, 2, 3, 4, 5)
CANNERY_SLID(slide3, 3, 4, 5, 6)
#undef CANNERY_SLID
#endif

#if CANNERY_LANES == 4 && !defined(CANNERY_OWN_MOVES)
#define CANNERY_MOVED(word, ...)                                                                   \
    CANNERY_WORD1(f32x4, f32x4_##word, f32x4, CANNERY_SHUFFLE(i32x4, a, a, __VA_ARGS__))
CANNERY_MOVED(rotate1, 1, 2, 3, 0)
CANNERY_MOVED(rotate2, 2, 3, 0, 1)
CANNERY_MOVED(rotate3, 3, 0, 1, 2)
CANNERY_MOVED(lane0, 0, 0, 0, 0)
CANNERY_MOVED(lane1, 1, 1, 1, 1)
CANNERY_MOVED(lane2, 2, 2, 2, 2)
CANNERY_MOVED(lane3, 3, 3, 3, 3)
#undef CANNERY_MOVED
#endif

#if CANNERY_LANES > 4
#if CANNERY_LANES == 8
#define CANNERY_MOVED(word, a0, a1, a2, a3)                                                        \
    CANNERY_WORD1(f32x8, f32x8_##word, f32x8,                                                      \
                  CANNERY_SHUFFLE(i32x8, a, a, a0, a1, a2, a3, a0 + 4, a1 + 4, a2 + 4, a3 + 4))
#else
#define CANNERY_MOVED(word, a0, a1, a2, a3)                                                        \
    CANNERY_WORD1(f32x16, f32x16_##word, f32x16,                                                   \
                  CANNERY_SHUFFLE(i32x16, a, a, a0, a1, a2, a3, a0 + 4, a1 + 4, a2 + 4, a3 + 4,    \
                                  a0 + 8, a1 + 8, a2 + 8, a3 + 8, a0 + 12, a1 + 12, a2 + 12,       \
                                  a3 + 12))
#endif
CANNERY_MOVED(rotate1, 1, 2, 3, 0)
CANNERY_MOVED(rotate2, 2, 3, 0, 1)
CANNERY_MOVED(rotate3, 3, 0, 1, 2)
#undef CANNERY_MOVED
#endif

#if CANNERY_LANES == 4 && !defined(CANNERY_OWN_TRANSPOSE)
CANNERY_INLINE void f32x4_transpose4(f32x4 *a, f32x4 *b, f32x4 *c, f32x4 *d)
{
    f32x4 ac_lo, ac_hi, bd_lo, bd_hi;
    f32x4_zip(*a, *c, &ac_lo, &ac_hi);
    f32x4_zip(*b, *d, &bd_lo, &bd_hi);
    f32x4_zip(ac_lo, bd_lo, a, b);
    f32x4_zip(ac_hi, bd_hi, c, d);
}
#endif

#if CANNERY_LANES > 4 && !defined(CANNERY_OWN_REPEATS)
CANNERY_INLINE CANNERY_FT CANNERY_F(broadcast4)(const float *p)
{
#if CANNERY_LANES == 8
    const f32x4 half = f32x4_load(p);
#else
    const f32x8 half = f32x8_broadcast4(p);
#endif
    return CANNERY_F(join)(half, half);
}

CANNERY_INLINE CANNERY_FT CANNERY_F(broadcast2)(const float *p)
{
#define CANNERY_PLACE(i) p[i % 2]
    const CANNERY_FT v = {CANNERY_EACH(CANNERY_PLACE)};
#undef CANNERY_PLACE
    return v;
}

#endif

#if CANNERY_LANES > 4 && !defined(CANNERY_OWN_PAIR_SUMS)
CANNERY_INLINE CANNERY_HALF(f32x) CANNERY_F(add_pairs)(CANNERY_FT v)
{
    CANNERY_HALF(f32x) even, odd;
    CANNERY_HALF_WORD(unzip)(CANNERY_F(lo)(v), CANNERY_F(hi)(v), &even, &odd);
    return CANNERY_HALF_WORD(add)(even, odd);
}
#endif

#if CANNERY_LANES == 8 && !defined(CANNERY_OWN_TRANSPOSE)
/* Row i goes beside row i + 4, three times. */
CANNERY_INLINE void f32x8_transpose8(f32x8 *r)
{
    f32x8 s[8];
    int round, i;
    for (round = 0; round < 3; ++round) {
        for (i = 0; i < 4; ++i) {
            f32x8_zip(r[i], r[i + 4], &s[2 * i], &s[2 * i + 1]);
        }
        memcpy(r, s, sizeof s);
    }
}
#endif

/* ---- bytes and int16 as floats ----------------------------------------- */

/* L numbers of a type; fewer through a copy. */
#define CANNERY_LOAD(name, type)                                                                   \
    CANNERY_INLINE CANNERY_FT CANNERY_F(load_##name)(const type *p)                                \
    {                                                                                              \
        return __builtin_convertvector(CANNERY_CONST_AT(name, p), CANNERY_FT);                     \
    }
#define CANNERY_LOAD_N(name, type)                                                                 \
    CANNERY_INLINE CANNERY_FT CANNERY_F(load_##name##_n)(const type *p, int n)                     \
    {                                                                                              \
        type x[CANNERY_LANES] = {0};                                                               \
        CANNERY_COPY(x, p, (size_t)n * sizeof *p);                                                       \
        return CANNERY_F(load_##name)(x);                                                          \
    }
/* Rounded and saturated; NaN becomes 0. */
#define CANNERY_STORE(name, type, low, high)                                                       \
    CANNERY_INLINE void CANNERY_F(store_##name)(type *p, CANNERY_FT v)                             \
    {                                                                                              \
        const CANNERY_FT x = CANNERY_F(select)(CANNERY_F(eq)(v, v), v, CANNERY_F(zero)());         \
        const CANNERY_FT least = CANNERY_F(max)(x, CANNERY_F(set1)(low));                          \
        const CANNERY_FT held = CANNERY_F(min)(least, CANNERY_F(set1)(high));                      \
        CANNERY_AT(name, p) = __builtin_convertvector(CANNERY_F(to_i32_round)(held),               \
                                                      CANNERY_T(cannery_at_##name##x));            \
    }
#define CANNERY_PUT(name, type, low, high)                                                         \
    CANNERY_INLINE void CANNERY_F(put_##name)(type *p, CANNERY_FT v, int32_t zero)                 \
    {                                                                                              \
        const CANNERY_IT k = CANNERY_I(add)(CANNERY_F(to_i32_round)(v), CANNERY_I(set1)(zero));    \
        const CANNERY_IT least = CANNERY_I(max)(k, CANNERY_I(set1)(low));                          \
        CANNERY_AT(name, p) = __builtin_convertvector(                                             \
            CANNERY_I(min)(least, CANNERY_I(set1)(high)), CANNERY_T(cannery_at_##name##x));        \
    }
#define CANNERY_STORE_N(name, type)                                                                \
    CANNERY_INLINE void CANNERY_F(store_##name##_n)(type *p, CANNERY_FT v, int n)                  \
    {                                                                                              \
        type x[CANNERY_LANES];                                                                     \
        CANNERY_F(store_##name)(x, v);                                                             \
        CANNERY_COPY(p, x, (size_t)n * sizeof *p);                                                       \
    }                                                                                              \
    CANNERY_INLINE void CANNERY_F(put_##name##_n)(type *p, CANNERY_FT v, int32_t zero, int n)      \
    {                                                                                              \
        type x[CANNERY_LANES];                                                                     \
        CANNERY_F(put_##name)(x, v, zero);                                                         \
        CANNERY_COPY(p, x, (size_t)n * sizeof *p);                                                       \
    }

#if !defined(CANNERY_OWN_NARROW_LOADS)
CANNERY_LOAD(u8, uint8_t)
CANNERY_LOAD(i8, int8_t)
CANNERY_LOAD(s16, int16_t)
#endif

/* ---- float16 ----------------------------------------------------------- */

#if !defined(CANNERY_OWN_LOAD_F16)
/* See f32x1_of_f16_bits. */
CANNERY_INLINE CANNERY_FT CANNERY_F(load_f16)(const uint16_t *p)
{
    const CANNERY_IT half = __builtin_convertvector(CANNERY_CONST_AT(s16, p), CANNERY_IT);
    const CANNERY_IT sign = CANNERY_I(and)(half, CANNERY_I(set1)(INT32_MIN));
    const CANNERY_IT bits = (CANNERY_IT)((CANNERY_UT)CANNERY_I(and)(half, CANNERY_I(set1)(0x7fff)) << 13);
    const CANNERY_IT offset = CANNERY_I(set1)(0x38800000);
    const CANNERY_FT least = CANNERY_I(as_f32)(offset);
    const CANNERY_FT small = CANNERY_F(sub)(CANNERY_I(as_f32)(CANNERY_I(add)(bits, offset)), least);
    const CANNERY_FT large = CANNERY_I(as_f32)(CANNERY_I(add)(bits, CANNERY_I(set1)(0x38000000)));
    const CANNERY_FT size = CANNERY_F(select)(CANNERY_F(lt)(large, least), small, large);
    return CANNERY_I(as_f32)(CANNERY_I(or)(CANNERY_F(as_i32)(size), sign));
}
#endif

#if !defined(CANNERY_OWN_LOAD1_F16)
CANNERY_WORD1(CANNERY_FT, CANNERY_F(load1_f16), const uint16_t *, CANNERY_F(set1)(f32x1_load_f16(a)))
#endif

#if !defined(CANNERY_OWN_LOAD_F16_PARTS)
CANNERY_LOAD_N(f16, uint16_t)
#endif

/* ---- stores of narrow integers ------------------------------------------ */

#if !defined(CANNERY_OWN_NARROW_STORES)
CANNERY_STORE(u8, uint8_t, 0.0f, 255.0f)
CANNERY_STORE(i8, int8_t, -128.0f, 127.0f)
CANNERY_STORE(s16, int16_t, -32768.0f, 32767.0f)
CANNERY_PUT(u8, uint8_t, 0, 255)
CANNERY_PUT(i8, int8_t, -128, 127)
CANNERY_PUT(s16, int16_t, -32768, 32767)
#endif

#if !defined(CANNERY_OWN_PUT2)
#define CANNERY_PUT2(name, type)                                                                   \
    CANNERY_INLINE void CANNERY_F(put2_##name)(type *p, CANNERY_FT v, CANNERY_FT w, int32_t zero)  \
    {                                                                                              \
        CANNERY_F(put_##name)(p, v, zero);                                                         \
        CANNERY_F(put_##name)(p + CANNERY_LANES, w, zero);                                         \
    }
CANNERY_PUT2(u8, uint8_t)
CANNERY_PUT2(i8, int8_t)
CANNERY_PUT2(s16, int16_t)
#undef CANNERY_PUT2
#endif

#if !defined(CANNERY_OWN_NARROW_PARTS)
CANNERY_LOAD_N(u8, uint8_t)
CANNERY_LOAD_N(i8, int8_t)
CANNERY_LOAD_N(s16, int16_t)
CANNERY_STORE_N(u8, uint8_t)
CANNERY_STORE_N(i8, int8_t)
CANNERY_STORE_N(s16, int16_t)
#endif

/* ---- products of int16 ------------------------------------------------- */

#if !defined(CANNERY_OWN_PAIRS)
/* The first numbers of all pairs, then the second; or 2L numbers in order. */
typedef struct {
    CANNERY_ST first, second;
} CANNERY_PT;

CANNERY_INLINE CANNERY_PT CANNERY_P(pair)(const int16_t *p, const int16_t *q)
{
    const CANNERY_PT v = {CANNERY_CONST_AT(s16, p), CANNERY_CONST_AT(s16, q)};
    return v;
}

CANNERY_WORD1(CANNERY_PT, CANNERY_P(load), const int16_t *,
              CANNERY_P(pair)(a, a + CANNERY_LANES))

CANNERY_INLINE CANNERY_PT CANNERY_P(of)(int16_t first, int16_t second)
{
#define CANNERY_FIRST(i) first
#define CANNERY_SECOND(i) second
    const CANNERY_PT v = {{CANNERY_EACH(CANNERY_FIRST)}, {CANNERY_EACH(CANNERY_SECOND)}};
#undef CANNERY_FIRST
#undef CANNERY_SECOND
    return v;
}

CANNERY_WORD1(CANNERY_PT, CANNERY_P(load1), const int16_t *, CANNERY_P(of)(a[0], a[1]))

CANNERY_INLINE CANNERY_PT CANNERY_P(load1_n)(const int16_t *p, int n)
{
    return CANNERY_P(of)(p[0], n > 1 ? p[1] : (int16_t)0);
}

/* Pairs of k = 0 .. 3, 8 .. 11 and so on; those between them. */
#define CANNERY_TURNS(i) 8 * ((i) / 4) + (i) % 4
#define CANNERY_OTHER_TURNS(i) CANNERY_TURNS(i) + 4
CANNERY_INLINE void CANNERY_P(pair2)(const int16_t *p, const int16_t *q, CANNERY_PT *a,
                                     CANNERY_PT *b)
{
    const CANNERY_PT x = CANNERY_P(load)(p), y = CANNERY_P(load)(q);
    a->first = CANNERY_SHUFFLED(CANNERY_ST, x.first, x.second, CANNERY_TURNS);
    a->second = CANNERY_SHUFFLED(CANNERY_ST, y.first, y.second, CANNERY_TURNS);
    b->first = CANNERY_SHUFFLED(CANNERY_ST, x.first, x.second, CANNERY_OTHER_TURNS);
    b->second = CANNERY_SHUFFLED(CANNERY_ST, y.first, y.second, CANNERY_OTHER_TURNS);
}

#define CANNERY_BYTE_PAIRS(name, type)                                                             \
    CANNERY_INLINE CANNERY_PT CANNERY_P(load_##name)(const type *p)                                \
    {                                                                                              \
        const CANNERY_PT v = {                                                                     \
            __builtin_convertvector(CANNERY_CONST_AT(name, p), CANNERY_ST),                        \
            __builtin_convertvector(CANNERY_CONST_AT(name, p + CANNERY_LANES), CANNERY_ST)};       \
        return v;                                                                                  \
    }
CANNERY_BYTE_PAIRS(u8, uint8_t)
CANNERY_BYTE_PAIRS(i8, int8_t)

CANNERY_INLINE CANNERY_PT CANNERY_P(add)(CANNERY_PT a, CANNERY_PT b)
{
    const CANNERY_PT sum = {(CANNERY_ST)((CANNERY_NT)a.first + (CANNERY_NT)b.first),
                            (CANNERY_ST)((CANNERY_NT)a.second + (CANNERY_NT)b.second)};
    return sum;
}

CANNERY_INLINE CANNERY_PT CANNERY_P(sub)(CANNERY_PT a, CANNERY_PT b)
{
    const CANNERY_PT difference = {(CANNERY_ST)((CANNERY_NT)a.first - (CANNERY_NT)b.first),
                                   (CANNERY_ST)((CANNERY_NT)a.second - (CANNERY_NT)b.second)};
    return difference;
}

CANNERY_INLINE void CANNERY_P(store)(int16_t *p, CANNERY_PT v)
{
    CANNERY_AT(s16, p) = v.first;
    CANNERY_AT(s16, p + CANNERY_LANES) = v.second;
}

CANNERY_INLINE CANNERY_IT CANNERY_I(dot)(CANNERY_PT a, CANNERY_PT b, CANNERY_IT acc)
{
    acc += __builtin_convertvector(a.first, CANNERY_IT) * __builtin_convertvector(b.first, CANNERY_IT);
    return acc + __builtin_convertvector(a.second, CANNERY_IT) *
                     __builtin_convertvector(b.second, CANNERY_IT);
}
#endif

#if !defined(CANNERY_OWN_UNTURN)
#define CANNERY_BACK(i) (i) / 8 * 4 + (i) % 4 + (i) / 4 % 2 * CANNERY_LANES
#define CANNERY_BACK_HIGH(i) CANNERY_BACK(i) + (CANNERY_LANES == 4 ? 4 : CANNERY_LANES / 2)
CANNERY_INLINE void CANNERY_I(unturn)(CANNERY_IT *a, CANNERY_IT *b)
{
    const CANNERY_IT lo = CANNERY_SHUFFLED(CANNERY_IT, *a, *b, CANNERY_BACK);
    *b = CANNERY_SHUFFLED(CANNERY_IT, *a, *b, CANNERY_BACK_HIGH);
    *a = lo;
}
#endif

#if !defined(CANNERY_OWN_PAIR_N)
CANNERY_INLINE CANNERY_PT CANNERY_P(pair_n)(const int16_t *p, const int16_t *q, int n)
{
    int16_t first[CANNERY_LANES] = {0}, second[CANNERY_LANES] = {0};
    CANNERY_COPY(first, p, (size_t)n * sizeof *p);
    CANNERY_COPY(second, q, (size_t)n * sizeof *q);
    return CANNERY_P(pair)(first, second);
}
#endif

#if !defined(CANNERY_OWN_INTERPOLATE)
CANNERY_INLINE CANNERY_IT CANNERY_I(interpolate)(CANNERY_IT entry, CANNERY_IT fraction)
{
    return (entry >> 16) * 16384 + ((CANNERY_IT)((CANNERY_UT)entry << 16) >> 16) * fraction;
}
#endif

/* ---- products of int8 -------------------------------------------------- */

#if !defined(CANNERY_OWN_BYTES)
typedef CANNERY_IT CANNERY_QT; /* four numbers in a lane */

CANNERY_WORD1(CANNERY_QT, CANNERY_Q(load), const int8_t *,
              (CANNERY_QT) * (const CANNERY_T(cannery_groups_of_) *)(const void *)a)
CANNERY_WORD1(CANNERY_QT, CANNERY_Q(load1), const int8_t *, CANNERY_I(set1)(cannery_bytes4(a, 4)))
CANNERY_WORD1(CANNERY_QT, CANNERY_Q(flip), CANNERY_QT, a ^ (int32_t)-2139062144)

CANNERY_INLINE CANNERY_QT CANNERY_Q(load1_n)(const int8_t *p, int n)
{
    return CANNERY_I(set1)(cannery_bytes4(p, n));
}

#if !defined(CANNERY_OWN_DOT4)
/* Numbers at odd places and at even ones become int16, and their products pairs of int16. */
CANNERY_INLINE CANNERY_IT CANNERY_I(dot4)(CANNERY_QT a, CANNERY_QT b, CANNERY_IT acc)
{
    const CANNERY_WT x = (CANNERY_WT)a, y = (CANNERY_WT)b;
    const CANNERY_IT odd = (CANNERY_IT)((x >> 8) * (y >> 8));
    const CANNERY_IT even = (CANNERY_IT)(((x << 8) >> 8) * ((y << 8) >> 8));
    acc += (odd >> 16) + (even >> 16);
    return acc + ((odd << 16) >> 16) + ((even << 16) >> 16);
}
#endif
#endif

#undef CANNERY_OWN_ARITHMETIC
#undef CANNERY_OWN_BOUNDS
#undef CANNERY_OWN_BYTES
#undef CANNERY_OWN_CONVERSION
#undef CANNERY_OWN_DIVISION
#undef CANNERY_OWN_DOT4
#undef CANNERY_OWN_FMA
#undef CANNERY_OWN_FOLDS
#undef CANNERY_OWN_FOURS
#undef CANNERY_OWN_FROM_I32
#undef CANNERY_OWN_HALVES
#undef CANNERY_OWN_INTEGERS
#undef CANNERY_OWN_INTEGER_BOUNDS
#undef CANNERY_OWN_INTERPOLATE
#undef CANNERY_OWN_LOAD1
#undef CANNERY_OWN_LOAD1_F16
#undef CANNERY_OWN_LOADS
#undef CANNERY_OWN_LOAD_F16
#undef CANNERY_OWN_LOAD_F16_PARTS
#undef CANNERY_OWN_LOAD_STRIDE
#undef CANNERY_OWN_LOOKUP
#undef CANNERY_OWN_MASKS
#undef CANNERY_OWN_MOVES
#undef CANNERY_OWN_NARROW_LOADS
#undef CANNERY_OWN_NARROW_PARTS
#undef CANNERY_OWN_NARROW_STORES
#undef CANNERY_OWN_PAIRS
#undef CANNERY_OWN_PAIR_N
#undef CANNERY_OWN_PAIR_SUMS
#undef CANNERY_OWN_PARTS
#undef CANNERY_OWN_PUT2
#undef CANNERY_OWN_RECIPROCAL
#undef CANNERY_OWN_REPEATS
#undef CANNERY_OWN_ROUNDING
#undef CANNERY_OWN_SELECT
#undef CANNERY_OWN_SET
#undef CANNERY_OWN_SIGNS
#undef CANNERY_OWN_SLIDES
#undef CANNERY_OWN_SQRT
#undef CANNERY_OWN_STORE_STRIDE
#undef CANNERY_OWN_TRANSPOSE
#undef CANNERY_OWN_TWOS
#undef CANNERY_OWN_UNTURN
#undef CANNERY_OWN_ZIP
