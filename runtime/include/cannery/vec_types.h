/* SPDX-License-Identifier: MIT-0
 *
 * The building blocks of vec_base.h and the headers of register families: vector types of gcc
 * and clang, shuffles, and one-line words.
 */
#ifndef CANNERY_VEC_TYPES_H
#define CANNERY_VEC_TYPES_H

#include "vec_scalar.h"

#if !defined(__GNUC__)
#error "cannery: vectors need gcc or clang"
#endif

/* Words that are one expression: of a; of a and b. */
#define CANNERY_WORD1(result, word, type, expression)                                              \
    CANNERY_INLINE result word(type a)                                                             \
    {                                                                                              \
        return expression;                                                                         \
    }
#define CANNERY_WORD2(result, word, type, expression)                                              \
    CANNERY_INLINE result word(type a, type b)                                                     \
    {                                                                                              \
        return expression;                                                                         \
    }
#define CANNERY_FLOATS(word, expression)                                                           \
    CANNERY_WORD2(CANNERY_FT, CANNERY_F(word), CANNERY_FT, expression)
#define CANNERY_INTEGERS(word, expression)                                                         \
    CANNERY_WORD2(CANNERY_IT, CANNERY_I(word), CANNERY_IT, expression)

/* The types of words for this many lanes. A mask has all bits of a lane set or none. */
#define CANNERY_VECTOR_TYPES(lanes)                                                                \
    typedef float f32x##lanes __attribute__((vector_size(4 * lanes)));                             \
    typedef int32_t i32x##lanes __attribute__((vector_size(4 * lanes)));                           \
    typedef i32x##lanes m32x##lanes;

/* Other vectors of this many lanes, or bytes; those at a multiple of their size in memory. */
#define CANNERY_HELPER_TYPES(lanes) CANNERY_HELPER_TYPES_(lanes)
#define CANNERY_HELPER_TYPES_(lanes)                                                               \
    typedef uint32_t cannery_u32x##lanes __attribute__((vector_size(4 * lanes)));                  \
    typedef int16_t cannery_s16x##lanes __attribute__((vector_size(2 * lanes)));                   \
    typedef uint16_t cannery_u16x##lanes __attribute__((vector_size(2 * lanes)));                  \
    typedef int16_t cannery_words_of_##lanes __attribute__((vector_size(4 * lanes)));              \
    typedef float cannery_whole_f32x##lanes __attribute__((vector_size(4 * lanes), may_alias));    \
    typedef int32_t cannery_groups_of_##lanes                                                      \
        __attribute__((vector_size(4 * lanes), aligned(16), may_alias));                           \
    CANNERY_MEMORY_TYPE(lanes, f32, float, 4)                                                      \
    CANNERY_MEMORY_TYPE(lanes, i32, int32_t, 4)                                                    \
    CANNERY_MEMORY_TYPE(lanes, s16, int16_t, 2)                                                    \
    CANNERY_MEMORY_TYPE(lanes, i8, int8_t, 1)                                                      \
    CANNERY_MEMORY_TYPE(lanes, u8, uint8_t, 1)
/* Numbers anywhere in memory. */
#define CANNERY_MEMORY_TYPE(lanes, name, type, bytes)                                              \
    typedef type cannery_at_##name##x##lanes                                                       \
        __attribute__((vector_size(bytes * lanes), aligned(bytes), may_alias));

/* The same for CANNERY_LANES; and for int16_t and float with half as many lanes. */
#define CANNERY_UT CANNERY_T(cannery_u32x)
#define CANNERY_ST CANNERY_T(cannery_s16x)
#define CANNERY_NT CANNERY_T(cannery_u16x)
#define CANNERY_WT CANNERY_T(cannery_words_of_)
#define CANNERY_AT(name, p) (*(CANNERY_PASTE(cannery_at_##name##x, CANNERY_LANES, , ) *)(void *)(p))
#define CANNERY_CONST_AT(name, p)                                                                  \
    (*(const CANNERY_PASTE(cannery_at_##name##x, CANNERY_LANES, , ) *)(const void *)(p))
#define CANNERY_HALF_OF_8 4
#define CANNERY_HALF_OF_16 8
#define CANNERY_HALF(type) CANNERY_PASTE(type, CANNERY_T(CANNERY_HALF_OF_), , )
#define CANNERY_HALF_WORD(word) CANNERY_PASTE(f32x, CANNERY_T(CANNERY_HALF_OF_), _, word)

/* m(0), m(1) .. for each lane. */
#define CANNERY_EACH_4(m) m(0), m(1), m(2), m(3)
#define CANNERY_EACH_8(m) CANNERY_EACH_4(m), m(4), m(5), m(6), m(7)
#define CANNERY_EACH_16(m)                                                                         \
    CANNERY_EACH_8(m), m(8), m(9), m(10), m(11), m(12), m(13), m(14), m(15)
#define CANNERY_EACH(m) CANNERY_T(CANNERY_EACH_)(m)
#define CANNERY_EVEN(i) 2 * (i)
#define CANNERY_ODD(i) 2 * (i) + 1

/* Copies less than a vector; a family may do it another way. */
#if !defined(CANNERY_COPY)
#define CANNERY_COPY(to, from, bytes) memcpy(to, from, bytes)
#endif

/* Lanes of a and b as one list, by their places in it; `index` is a vector of places. */
#if defined(__clang__) || __GNUC__ >= 12
#define CANNERY_SHUFFLE(index, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define CANNERY_SHUFFLE(index, a, b, ...)                                                          \
    __builtin_shuffle(a, b, __extension__(index){__VA_ARGS__})
#endif

#define CANNERY_SHUFFLED(index, a, b, place) CANNERY_SHUFFLE(index, a, b, CANNERY_EACH(place))

/* Whether the compiler has functions of each lane; without them they are made of other words. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_fma) && __has_builtin(__builtin_elementwise_sqrt)
#define CANNERY_ELEMENTWISE 1
#endif
#endif

#endif
