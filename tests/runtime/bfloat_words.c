/* Computes every word of vec_bfloat.h on the arrays of bfloat_values.h, and prints a line for each: the
 * word, and the bits of what it made of them. bfloat_values.h is written by the test: X and Y are any
 * floats, A and B the bits of pairs of bfloat16, C sums. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cannery/vec_neon.h"
#include "cannery/vec_bfloat.h"

#include "bfloat_values.h"

static float made[COUNT];

static void show(const char *word)
{
    printf("%s", word);
    for (int i = 0; i < COUNT; ++i) {
        uint32_t bits;
        memcpy(&bits, made + i, sizeof bits);
        printf(" %lx", (unsigned long)bits);
    }
    printf("\n");
}

static f32x4 loaded(const uint32_t *bits)
{
    float x[4];
    memcpy(x, bits, sizeof x);
    return f32x4_load(x);
}

#define EACH(word, value)                                                                          \
    for (int i = 0; i < COUNT; i += 4) {                                                           \
        const f32x4 x = loaded(X + i), y = loaded(Y + i);                                          \
        const f32x4 a = loaded(A + i), b = loaded(B + i), c = loaded(C + i);                       \
        (void)x, (void)y, (void)a, (void)b, (void)c;                                               \
        f32x4_store(made + i, value);                                                              \
    }                                                                                              \
    show(word)

int main(void)
{
    EACH("bfloat", f32x4_bfloat(x, y));
    EACH("dot", f32x4_dot(a, b, c));
    EACH("dot_lane0", f32x4_dot_lane0(a, b, c));
    EACH("dot_lane1", f32x4_dot_lane1(a, b, c));
    EACH("dot_lane2", f32x4_dot_lane2(a, b, c));
    EACH("dot_lane3", f32x4_dot_lane3(a, b, c));
    EACH("dot_matrix", f32x4_dot_matrix(a, b, c));
    EACH("first_halves", f32x4_first_halves(x, y));
    EACH("last_halves", f32x4_last_halves(x, y));
    return 0;
}
