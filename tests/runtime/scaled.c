/* cannery_scaled against floats: every 997th number or fewer, and those around halves. Then words of
 * biases. Prints how many there were and how many differed, for each factor or fraction. */
#include "cannery/vec_scalar.h"
#include <stdio.h>

static int32_t by_floats(float v, float factor, int32_t bound)
{
    const float low = (float)-bound, high = (float)bound, x = v * factor;
    return x != x ? 0 : f32x1_to_i32_round(x < low ? low : x > high ? high : x);
}

static int differs(int32_t bits, float factor, int32_t mantissa, int shift, int32_t bound)
{
    const float v = i32x1_as_f32(bits);
    return cannery_scaled(v, factor, mantissa, shift, bound) != by_floats(v, factor, bound);
}

static void check(float factor, int32_t bound, long step)
{
    /* The words as the generator makes them. */
    const int32_t bits = f32x1_as_i32(factor);
    const int32_t mantissa = ((bits & 0x7fffff) | 0x800000) << 6;
    const int shift = 125 - ((bits >> 23) - 126 - 30);
    long count = 0, wrong = 0;
    int32_t half;
    for (int64_t k = INT32_MIN; k <= INT32_MAX; k += step, ++count) {
        wrong += differs((int32_t)k, factor, mantissa, shift, bound);
    }
    for (half = -2 * bound - 1; half <= 2 * bound + 1; half += bound / 100) {
        const int32_t around = f32x1_as_i32((float)half * 0.5f / factor);
        for (int32_t near = -50; near <= 50; ++near, ++count) {
            wrong += differs(around + near, factor, mantissa, shift, bound);
        }
    }
    printf("{\"count\": %ld, \"wrong\": %ld}\n", count, wrong);
}

/* Words of biases against what they stand for. */
static void check_words(int fraction)
{
    long count = 0, wrong = 0;
    int32_t m, s;
    for (m = -(1 << 24) + 1; m < 1 << 24; m += 9973) {
        for (s = 0; s < 32; ++s, ++count) {
            const int32_t word = m * 128 + s;
            const double bias = (double)m * 128.0 / (double)(1LL << s);
            const double fixed = (double)cannery_word_fixed(word), off = bias - fixed;
            wrong += off < -0.5 || off >= 1.0;
            wrong += cannery_word_float(word, fraction) * (float)(1L << fraction) != (float)bias;
        }
    }
    printf("{\"count\": %ld, \"wrong\": %ld}\n", count, wrong);
}

int main(int argc, char **argv)
{
    const float factors[] = { 90.0f, 0.37f, 1.0f, 127.5f, 3.0e-9f, 1.7e9f };
    const long step = argc > 1 ? 1 << (argv[1][0] - 'a') : 1;
    for (int k = 0; k < 6; ++k) {
        check(factors[k], 127, 997 * step);
        check(factors[k], 32767, 9973 * step);
    }
    check_words(1);
    check_words(23);
    return 0;
}
