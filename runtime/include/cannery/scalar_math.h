/* SPDX-License-Identifier: MIT-0
 *
 * Elementary functions of single floats that networks rarely need, without libm. They compute in
 * double precision and round once: within 0.51 ulp of float, a little more near the zeros of sine
 * and cosine of huge numbers. NaN gives NaN, infinities give limits or NaN, zeros keep signs.
 */
#ifndef CANNERY_SCALAR_MATH_H
#define CANNERY_SCALAR_MATH_H

#include <stdint.h>
#include <string.h>

#include "vec_scalar.h"

CANNERY_INLINE double cannery_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

CANNERY_INLINE uint64_t cannery_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Square root of x >= 0 with about 50 bits, NaN below: Newton's step from the root of a
 * float between 1/2 and 2. */
CANNERY_INLINE double cannery_sqrt(double x)
{
    double scaled, root;
    int e;
    if (!(x > 0.0) || x - x != 0.0) {
        return x < 0.0 ? (x - x) / 0.0 * 0.0 : x;
    }
    e = (int)(cannery_bits(x) >> 52) - 1023;
    e -= e & 1;
    scaled = x * cannery_from_bits((uint64_t)(1023 - e) << 52);
    root = (double)f32x1_sqrt((float)scaled);
    root = 0.5 * (root + scaled / root);
    return root * cannery_from_bits((uint64_t)(1023 + e / 2) << 52);
}

/* e^x for |x| <= 200: 2^k times the Taylor series of the remainder. */
CANNERY_INLINE double cannery_exp(double x)
{
    const double scaled = x * 1.4426950408889634;
    const int k = (int)(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
    const double r = (x - (double)k * 0.6931471803691238) - (double)k * 1.9082149292705877e-10;
    double y = 1.0;
    for (int n = 14; n > 0; --n) {
        y = 1.0 + y * r / (double)n;
    }
    return y * cannery_from_bits((uint64_t)(1023 + k) << 52);
}

/* Natural logarithm of a normal positive number: k ln 2 + 2 atanh((m - 1) / (m + 1)). */
CANNERY_INLINE double cannery_log(double x)
{
    const uint64_t bits = cannery_bits(x);
    int k = (int)(bits >> 52) - 1023;
    double m = cannery_from_bits((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    double s, y = 0.0;
    if (m > 1.4142135623730951) {
        m *= 0.5;
        k += 1;
    }
    s = (m - 1.0) / (m + 1.0);
    for (int n = 23; n > 0; n -= 2) {
        y = y * s * s + 1.0 / (double)n;
    }
    return (double)k * 0.6931471805599453 + 2.0 * s * y;
}

/* Inverse tangent of x >= 0, infinity included. */
CANNERY_INLINE double cannery_atan_of(double x)
{
    const int turned = x > 1.0;
    const double t = turned ? 1.0 / x : x;
    const int moved = t > 0.41421356237309503; /* by pi / 4 */
    const double z = moved ? (t - 1.0) / (t + 1.0) : t;
    double y = 0.0;
    for (int n = 27; n > 0; n -= 2) {
        y = 1.0 / (double)n - y * z * z;
    }
    y = y * z + (moved ? 0.78539816339744831 : 0.0);
    return turned ? 1.5707963267948966 - y : y;
}

/* |x| as a number of quarter turns and the rest, within an eighth of a turn. */
CANNERY_INLINE double cannery_quarters(float x, int *count)
{
    /* 2^e * 2/pi modulo 4, in units of 2^-62 and 2^-94 */
    static const uint64_t high[105] = {
        0x28be60db9391054au, 0x517cc1b727220a94u, 0xa2f9836e4e441529u, 0x45f306dc9c882a53u,
        0x8be60db9391054a7u, 0x17cc1b727220a94fu, 0x2f9836e4e441529fu, 0x5f306dc9c882a53fu,
        0xbe60db9391054a7fu, 0x7cc1b727220a94feu, 0xf9836e4e441529fcu, 0xf306dc9c882a53f8u,
        0xe60db9391054a7f0u, 0xcc1b727220a94fe1u, 0x9836e4e441529fc2u, 0x306dc9c882a53f84u,
        0x60db9391054a7f09u, 0xc1b727220a94fe13u, 0x836e4e441529fc27u, 0x06dc9c882a53f84eu,
        0x0db9391054a7f09du, 0x1b727220a94fe13au, 0x36e4e441529fc275u, 0x6dc9c882a53f84eau,
        0xdb9391054a7f09d5u, 0xb727220a94fe13abu, 0x6e4e441529fc2757u, 0xdc9c882a53f84eafu,
        0xb9391054a7f09d5fu, 0x727220a94fe13abeu, 0xe4e441529fc2757du, 0xc9c882a53f84eafau,
        0x9391054a7f09d5f4u, 0x27220a94fe13abe8u, 0x4e441529fc2757d1u, 0x9c882a53f84eafa3u,
        0x391054a7f09d5f47u, 0x7220a94fe13abe8fu, 0xe441529fc2757d1fu, 0xc882a53f84eafa3eu,
        0x91054a7f09d5f47du, 0x220a94fe13abe8fau, 0x441529fc2757d1f5u, 0x882a53f84eafa3eau,
        0x1054a7f09d5f47d4u, 0x20a94fe13abe8fa9u, 0x41529fc2757d1f53u, 0x82a53f84eafa3ea6u,
        0x054a7f09d5f47d4du, 0x0a94fe13abe8fa9au, 0x1529fc2757d1f534u, 0x2a53f84eafa3ea69u,
        0x54a7f09d5f47d4d3u, 0xa94fe13abe8fa9a6u, 0x529fc2757d1f534du, 0xa53f84eafa3ea69bu,
        0x4a7f09d5f47d4d37u, 0x94fe13abe8fa9a6eu, 0x29fc2757d1f534ddu, 0x53f84eafa3ea69bbu,
        0xa7f09d5f47d4d377u, 0x4fe13abe8fa9a6eeu, 0x9fc2757d1f534ddcu, 0x3f84eafa3ea69bb8u,
        0x7f09d5f47d4d3770u, 0xfe13abe8fa9a6ee0u, 0xfc2757d1f534ddc0u, 0xf84eafa3ea69bb81u,
        0xf09d5f47d4d37703u, 0xe13abe8fa9a6ee06u, 0xc2757d1f534ddc0du, 0x84eafa3ea69bb81bu,
        0x09d5f47d4d377036u, 0x13abe8fa9a6ee06du, 0x2757d1f534ddc0dbu, 0x4eafa3ea69bb81b6u,
        0x9d5f47d4d377036du, 0x3abe8fa9a6ee06dbu, 0x757d1f534ddc0db6u, 0xeafa3ea69bb81b6cu,
        0xd5f47d4d377036d8u, 0xabe8fa9a6ee06db1u, 0x57d1f534ddc0db62u, 0xafa3ea69bb81b6c5u,
        0x5f47d4d377036d8au, 0xbe8fa9a6ee06db14u, 0x7d1f534ddc0db629u, 0xfa3ea69bb81b6c52u,
        0xf47d4d377036d8a5u, 0xe8fa9a6ee06db14au, 0xd1f534ddc0db6295u, 0xa3ea69bb81b6c52bu,
        0x47d4d377036d8a56u, 0x8fa9a6ee06db14acu, 0x1f534ddc0db62959u, 0x3ea69bb81b6c52b3u,
        0x7d4d377036d8a566u, 0xfa9a6ee06db14accu, 0xf534ddc0db629599u, 0xea69bb81b6c52b32u,
        0xd4d377036d8a5664u, 0xa9a6ee06db14acc9u, 0x534ddc0db6295993u, 0xa69bb81b6c52b327u,
        0x4d377036d8a5664fu
    };
    static const uint32_t low[105] = {
        0x7f09d5f4u, 0xfe13abe8u, 0xfc2757d1u, 0xf84eafa3u, 0xf09d5f47u, 0xe13abe8fu,
        0xc2757d1fu, 0x84eafa3eu, 0x09d5f47du, 0x13abe8fau, 0x2757d1f5u, 0x4eafa3eau,
        0x9d5f47d4u, 0x3abe8fa9u, 0x757d1f53u, 0xeafa3ea6u, 0xd5f47d4du, 0xabe8fa9au,
        0x57d1f534u, 0xafa3ea69u, 0x5f47d4d3u, 0xbe8fa9a6u, 0x7d1f534du, 0xfa3ea69bu,
        0xf47d4d37u, 0xe8fa9a6eu, 0xd1f534ddu, 0xa3ea69bbu, 0x47d4d377u, 0x8fa9a6eeu,
        0x1f534ddcu, 0x3ea69bb8u, 0x7d4d3770u, 0xfa9a6ee0u, 0xf534ddc0u, 0xea69bb81u,
        0xd4d37703u, 0xa9a6ee06u, 0x534ddc0du, 0xa69bb81bu, 0x4d377036u, 0x9a6ee06du,
        0x34ddc0dbu, 0x69bb81b6u, 0xd377036du, 0xa6ee06dbu, 0x4ddc0db6u, 0x9bb81b6cu,
        0x377036d8u, 0x6ee06db1u, 0xddc0db62u, 0xbb81b6c5u, 0x77036d8au, 0xee06db14u,
        0xdc0db629u, 0xb81b6c52u, 0x7036d8a5u, 0xe06db14au, 0xc0db6295u, 0x81b6c52bu,
        0x036d8a56u, 0x06db14acu, 0x0db62959u, 0x1b6c52b3u, 0x36d8a566u, 0x6db14accu,
        0xdb629599u, 0xb6c52b32u, 0x6d8a5664u, 0xdb14acc9u, 0xb6295993u, 0x6c52b327u,
        0xd8a5664fu, 0xb14acc9eu, 0x6295993cu, 0xc52b3278u, 0x8a5664f1u, 0x14acc9e2u,
        0x295993c4u, 0x52b32788u, 0xa5664f10u, 0x4acc9e21u, 0x95993c43u, 0x2b327887u,
        0x5664f10eu, 0xacc9e21cu, 0x5993c439u, 0xb3278872u, 0x664f10e4u, 0xcc9e21c8u,
        0x993c4390u, 0x32788720u, 0x64f10e41u, 0xc9e21c82u, 0x93c43904u, 0x27887208u,
        0x4f10e410u, 0x9e21c820u, 0x3c439041u, 0x78872083u, 0xf10e4107u, 0xe21c820fu,
        0xc439041fu, 0x8872083fu, 0x10e4107fu
    };
    if (x < 8388608.0f) {
        const double wide = (double)x;
        const int n = (int)(wide * 0.63661977236758138 + 0.5);
        *count = n & 3;
        /* the first part of pi / 2 has 30 bits */
        return (wide - (double)n * 1.570796325802803) - (double)n * 9.920935796805404e-10;
    } else {
        const uint32_t bits = (uint32_t)f32x1_as_i32(x);
        const uint64_t m = (bits & 0x7fffffu) | 0x800000u;
        const int e = (int)(bits >> 23) - 150;
        const uint64_t turns = m * high[e] + (m * low[e] >> 32);
        const uint64_t rounded = turns + 0x2000000000000000u;
        const uint64_t rest = turns - (rounded & 0xc000000000000000u);
        const double part =
            rest >> 63 ? -(double)(0u - rest) : (double)rest; /* in units of 2^-62 */
        *count = (int)(rounded >> 62);
        return part * (1.5707963267948966 / 4611686018427387904.0);
    }
}

CANNERY_INLINE double cannery_sin_near(double r)
{
    double y = 0.0;
    for (int n = 17; n > 0; n -= 2) {
        y = 1.0 - y * r * r / (double)((n + 1) * (n + 2));
    }
    return r * y;
}

CANNERY_INLINE double cannery_cos_near(double r)
{
    double y = 0.0;
    for (int n = 16; n >= 0; n -= 2) {
        y = 1.0 - y * r * r / (double)((n + 1) * (n + 2));
    }
    return y;
}

CANNERY_INLINE int cannery_is_finite(float x)
{
    return x - x == 0.0f;
}

CANNERY_INLINE float cannery_sin(float x)
{
    int count;
    double r, y;
    if (!cannery_is_finite(x) || x == 0.0f) {
        return x == 0.0f ? x : x - x;
    }
    r = cannery_quarters(f32x1_abs(x), &count);
    y = count & 1 ? cannery_cos_near(r) : cannery_sin_near(r);
    return (float)((count & 2 ? -1.0 : 1.0) * (x < 0.0f ? -y : y));
}

CANNERY_INLINE float cannery_cos(float x)
{
    int count;
    double r, y;
    if (!cannery_is_finite(x)) {
        return x - x;
    }
    r = cannery_quarters(f32x1_abs(x), &count);
    y = count & 1 ? -cannery_sin_near(r) : cannery_cos_near(r);
    return (float)(count & 2 ? -y : y);
}

CANNERY_INLINE float cannery_tan(float x)
{
    int count;
    double r, y;
    if (!cannery_is_finite(x) || x == 0.0f) {
        return x == 0.0f ? x : x - x;
    }
    r = cannery_quarters(f32x1_abs(x), &count);
    y = cannery_sin_near(r) / cannery_cos_near(r);
    y = count & 1 ? -1.0 / y : y;
    return (float)(x < 0.0f ? -y : y);
}

CANNERY_INLINE float cannery_atan(float x)
{
    const double y = cannery_atan_of((double)f32x1_abs(x));
    return x != x || x == 0.0f ? x : (float)(x < 0.0f ? -y : y);
}

/* The angle of the point (x, y), from -pi to pi; a zero has a sign. */
CANNERY_INLINE float cannery_atan2(float y, float x)
{
    const double a = (double)f32x1_abs(y);
    const double b = (double)f32x1_abs(x);
    double angle = 0.0;
    if (x != x || y != y) {
        return x + y;
    }
    if (a == b) {
        angle = a == 0.0 ? 0.0 : 0.78539816339744831; /* infinities are equal, too */
    } else {
        angle = b == 0.0 ? 1.5707963267948966 : cannery_atan_of(a / b);
    }
    if (cannery_bits((double)x) >> 63) {
        angle = 3.1415926535897932 - angle;
    }
    return (float)(cannery_bits((double)y) >> 63 ? -angle : angle);
}

CANNERY_INLINE float cannery_asin(float x)
{
    const double a = (double)f32x1_abs(x);
    double y;
    if (!(a <= 1.0) || x == 0.0f) {
        return x == 0.0f ? x : (x - x) / (x - x);
    }
    y = a == 1.0 ? 1.5707963267948966 : cannery_atan_of(a / cannery_sqrt((1.0 - a) * (1.0 + a)));
    return (float)(x < 0.0f ? -y : y);
}

CANNERY_INLINE float cannery_acos(float x)
{
    const double wide = (double)x;
    if (!(x >= -1.0f && x <= 1.0f)) {
        return (x - x) / (x - x);
    }
    if (x == -1.0f) {
        return 3.14159265f;
    }
    return (float)(2.0 * cannery_atan_of(cannery_sqrt((1.0 - wide) / (1.0 + wide))));
}

CANNERY_INLINE float cannery_sinh(float x)
{
    const double a = (double)f32x1_abs(x);
    const double e = cannery_exp(a < 100.0 ? a : 100.0);
    const double y = a < 1e-4 ? a + a * a * a / 6.0 : 0.5 * (e - 1.0 / e);
    if (x != x || x == 0.0f) {
        return x;
    }
    if (a > 89.5) {
        return x * 3.4028235e+38f; /* infinite */
    }
    return (float)(x < 0.0f ? -y : y);
}

CANNERY_INLINE float cannery_cosh(float x)
{
    const double a = (double)f32x1_abs(x);
    const double e = cannery_exp(a < 100.0 ? a : 100.0);
    if (x != x || a > 89.5) {
        return x * x * 3.4028235e+38f;
    }
    return (float)(0.5 * (e + 1.0 / e));
}

CANNERY_INLINE float cannery_asinh(float x)
{
    const double a = (double)f32x1_abs(x);
    double y;
    if (!cannery_is_finite(x) || x == 0.0f) {
        return x;
    }
    y = a < 1e-4 ? a - a * a * a / 6.0 : cannery_log(a + cannery_sqrt(a * a + 1.0));
    return (float)(x < 0.0f ? -y : y);
}

CANNERY_INLINE float cannery_acosh(float x)
{
    const double a = (double)x;
    if (!(x >= 1.0f)) {
        return (x - x) / (x - x);
    }
    if (!cannery_is_finite(x)) {
        return x;
    }
    return (float)cannery_log(a + cannery_sqrt((a - 1.0) * (a + 1.0)));
}

CANNERY_INLINE float cannery_atanh(float x)
{
    const double a = (double)f32x1_abs(x);
    double y;
    if (!(a < 1.0) || x == 0.0f) {
        return x == 0.0f ? x : a == 1.0 ? x / 0.0f : (x - x) / (x - x);
    }
    y = a < 1e-4 ? a + a * a * a / 3.0 : 0.5 * cannery_log((1.0 + a) / (1.0 - a));
    return (float)(x < 0.0f ? -y : y);
}

/* The remainder of a / b with the sign of a, exact: long division of the significands. */
CANNERY_INLINE float cannery_fmod(float a, float b)
{
    uint32_t ua = (uint32_t)f32x1_as_i32(a) & 0x7fffffffu;
    uint32_t ub = (uint32_t)f32x1_as_i32(b) & 0x7fffffffu;
    const uint32_t sign = (uint32_t)f32x1_as_i32(a) & 0x80000000u;
    int ea, eb;
    uint32_t rest;
    if (ua >= 0x7f800000u || ub > 0x7f800000u || ub == 0u) {
        return (a * b) * 0.0f / ((a * b) * 0.0f);
    }
    if (ua < ub) {
        return a;
    }
    ea = ua >> 23 ? (int)(ua >> 23) : 1;
    eb = ub >> 23 ? (int)(ub >> 23) : 1;
    ua = ua >> 23 ? (ua & 0x7fffffu) | 0x800000u : ua;
    ub = ub >> 23 ? (ub & 0x7fffffu) | 0x800000u : ub;
    rest = ua % ub;
    for (; ea > eb; --ea) {
        rest = (rest << 1) % ub;
    }
    while (rest && rest < 0x800000u && eb > 1) {
        rest <<= 1;
        eb -= 1;
    }
    rest = rest >= 0x800000u ? (rest & 0x7fffffu) | (uint32_t)eb << 23 : rest;
    return i32x1_as_f32((int32_t)(sign | rest));
}

/* The weights of Keys' cubic with a = -0.75: at a distance of at most 1, and of 1 to 2. */
CANNERY_INLINE float cannery_cubic_near(float t)
{
    return (1.25f * t - 2.25f) * t * t + 1.0f;
}

CANNERY_INLINE float cannery_cubic_far(float t)
{
    return ((-0.75f * t + 3.75f) * t - 6.0f) * t + 3.0f;
}

/* An index within 0..size-1: the nearest one, or the one where i falls when the row is mirrored at
 * its ends, again and again; with `shared` the outermost elements are not repeated. */
CANNERY_INLINE int cannery_clamped(int i, int size)
{
    return i < 0 ? 0 : i < size ? i : size - 1;
}

CANNERY_INLINE int cannery_mirrored(int i, int size, int shared)
{
    const int period = shared ? (size > 1 ? 2 * size - 2 : 1) : 2 * size;
    const int rest = i % period;
    const int turned = rest < 0 ? rest + period : rest;
    return turned < size ? turned : period - (shared ? 0 : 1) - turned;
}

/* One channel of a channels-last image at a position between pixels, interpolated linearly: 0
 * beyond the outermost pixels, or the nearest one; and the greatest of the four weighted
 * pixels. */
CANNERY_INLINE float cannery_between(
    const float *x, int height, int width, int channels, float h, float w)
{
    float sum = 0.0f;
    if (!(h > -1.0f && h < (float)height && w > -1.0f && w < (float)width)) {
        return 0.0f;
    }
    for (int k = 0; k < 4; ++k) {
        const int row = (int)f32x1_floor(h) + k / 2, column = (int)f32x1_floor(w) + k % 2;
        const float weight =
            (1.0f - f32x1_abs(h - (float)row)) * (1.0f - f32x1_abs(w - (float)column));
        if (row >= 0 && row < height && column >= 0 && column < width) {
            sum += weight * x[(row * width + column) * channels];
        }
    }
    return sum;
}

CANNERY_INLINE void cannery_corners(
    const float *x, int height, int width, int channels, float h, float w, float *parts)
{
    const float below = (float)(height - 1), right = (float)(width - 1);
    const float y = h > 0.0f ? (h < below ? h : below) : 0.0f;
    const float z = w > 0.0f ? (w < right ? w : right) : 0.0f;
    const int top = (int)y, left = (int)z;
    for (int k = 0; k < 4; ++k) {
        const int row = k / 2 && top + 1 < height ? top + 1 : top;
        const int column = k % 2 && left + 1 < width ? left + 1 : left;
        const float a = y - (float)top, b = z - (float)left;
        const float weight = (k / 2 ? a : 1.0f - a) * (k % 2 ? b : 1.0f - b);
        parts[k] = weight * x[(row * width + column) * channels];
    }
}

CANNERY_INLINE float cannery_inner(
    const float *x, int height, int width, int channels, float h, float w)
{
    float parts[4];
    cannery_corners(x, height, width, channels, h, w, parts);
    return parts[0] + parts[1] + parts[2] + parts[3];
}

CANNERY_INLINE float cannery_greatest(
    const float *x, int height, int width, int channels, float h, float w)
{
    float parts[4], most;
    cannery_corners(x, height, width, channels, h, w, parts);
    most = parts[0];
    for (int k = 1; k < 4; ++k) {
        most = parts[k] > most ? parts[k] : most;
    }
    return most;
}

/* The remainder of a / b with the sign of b. */
CANNERY_INLINE float cannery_mod(float a, float b)
{
    const float rest = cannery_fmod(a, b);
    if (rest == 0.0f) {
        return b < 0.0f ? -0.0f : 0.0f;
    }
    return (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

/* v to nearest even, plus zero, within low..high (of 16 bits at most); NaN gives low. */
CANNERY_INLINE int32_t cannery_quantised(float v, int32_t zero, int32_t low, int32_t high)
{
    const float r = f32x1_round(v);
    if (!(r > (float)(low - zero))) {
        return low;
    }
    return r < (float)(high - zero) ? (int32_t)r + zero : high;
}

/* v within low..high. */
CANNERY_INLINE int32_t cannery_bounded(int32_t v, int32_t low, int32_t high)
{
    return v < low ? low : v > high ? high : v;
}

/* v to the nearest integer, halves away from zero, plus zero, within low..high; NaN gives low. */
CANNERY_INLINE int32_t cannery_rounded_away(float v, int32_t zero, int32_t low, int32_t high)
{
    int32_t whole;
    float rest;
    if (!(v > (float)(low - zero))) {
        return low;
    }
    if (v >= (float)(high - zero)) {
        return high;
    }
    whole = (int32_t)v;
    rest = v - (float)whole;
    return cannery_bounded(whole + (rest >= 0.5f) - (rest <= -0.5f) + zero, low, high);
}

/* a * b / 2^31, halves up. */
CANNERY_INLINE int32_t cannery_high(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

/* x / 2^right for 0 <= right <= 31, halves away from zero. */
CANNERY_INLINE int32_t cannery_shifted(int32_t x, int32_t right)
{
    const int32_t mask = (int32_t)((1u << right) - 1u);
    return (x >> right) + ((x & mask) > (mask >> 1) + (x < 0));
}

/* x * multiplier * 2^(shift - 31) for -31 <= shift <= 31, rounded after the product and after a
 * shift to the right. A shift to the left wraps around. */
CANNERY_INLINE int32_t cannery_rescaled(int32_t x, int32_t multiplier, int32_t shift)
{
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t wide = (int32_t)((uint32_t)x << left);
    return cannery_shifted(cannery_high(wide, multiplier), left - shift);
}

/* v within low..high. */
CANNERY_INLINE int32_t cannery_bounded_wide(int64_t v, int32_t low, int32_t high)
{
    return v < low ? low : v > high ? high : (int32_t)v;
}

/* x * multiplier * 2^(shift - 15) for |x| < 2^47, 0 <= multiplier < 2^15 and -31 <= shift <= 14,
 * halves up. */
CANNERY_INLINE int64_t cannery_rescaled_wide(int64_t x, int32_t multiplier, int32_t shift)
{
    const int32_t right = 15 - shift;
    return (x * multiplier + ((int64_t)1 << (right - 1))) >> right;
}

/* x times the double with these bits, to the nearest integer, halves away from zero; at most 2^40
 * on each side. */
CANNERY_INLINE int64_t cannery_product_away(int64_t x, int64_t bits)
{
    const double product = (double)x * cannery_from_bits((uint64_t)bits);
    const double size = product < 0.0 ? -product : product;
    int64_t whole = (int64_t)1 << 40;
    if (size < (double)whole) {
        whole = (int64_t)size;
        whole += size - (double)whole >= 0.5;
    }
    return product < 0.0 ? -whole : whole;
}

/* What one of 127 units on each side of 0 is worth, and its inverse; the zero point is 0. */
CANNERY_INLINE float cannery_symmetric_unit(float low, float high, float *inverse, float *zero)
{
    const float largest = -low > high ? -low : high;
    *zero = 0.0f;
    *inverse = largest == 0.0f ? 0.0f : 127.0f / largest;
    return largest == 0.0f ? 1.0f : largest / 127.0f;
}

/* What one of 255 units from low <= 0 to high >= 0 is worth, its inverse, and the zero point. */
CANNERY_INLINE float cannery_asymmetric_unit(float low, float high, float *inverse, float *zero)
{
    const double wide = ((double)high - (double)low) / 255.0;
    double below, above, found;
    float unit;
    *inverse = *zero = 0.0f;
    if (low == high) {
        return 1.0f;
    }
    below = (double)low / wide;
    above = (double)high / wide;
    found = 128.0 - below < 127.0 + above ? -128.0 - below : 127.0 - above;
    found = found < -128.0 ? -128.0 : found > 127.0 ? 127.0 : found;
    *zero = (float)(int)(found < 0.0 ? found - 0.5 : found + 0.5);
    unit = (float)wide;
    *inverse = 1.0f / unit;
    return unit;
}

/* 1 / total in units of 2^-31, times 2^over, by Newton's steps; total > 0 is in units of
 * 2^(bits - 31). */
CANNERY_INLINE int32_t cannery_reciprocal(int32_t total, int32_t bits, int32_t *over)
{
    uint32_t found = (uint32_t)total;
    int32_t half, x;
    *over = bits;
    for (; !(found & 0x80000000u); found <<= 1) {
        --*over;
    }
    half = (int32_t)(found >> 1);
    x = 1515870810 + cannery_high(half, -1010580540);
    for (int n = 0; n < 3; ++n) {
        x += (int32_t)((uint32_t)cannery_high(x, (1 << 29) - cannery_high(half, x)) << 2);
    }
    return x > 0x3fffffff ? 0x7fffffff : (int32_t)((uint32_t)x << 1);
}

/* a / b * multiplier * 2^(shift - 31), rounded in each step; largest or least if b is 0. The shift
 * leaves the last one to the right, which gives 0 beyond 31 bits. */
CANNERY_INLINE int32_t cannery_quotient(int32_t a, int32_t b, int32_t multiplier, int32_t shift)
{
    const int32_t top = b < 0 ? -a : a;
    int32_t inverse, over, right, room = 0;
    if (b == 0) {
        return a < 0 ? INT32_MIN : INT32_MAX;
    }
    inverse = cannery_reciprocal(b < 0 ? -b : b, 31, &over);
    for (uint32_t size = (uint32_t)(top < 0 ? ~top : top); room < 31 && !(size & 0x40000000u);
         size <<= 1) {
        ++room;
    }
    right = over + room - shift;
    inverse = cannery_high((int32_t)((uint32_t)top << room), inverse);
    return right > 31 ? 0 : cannery_shifted(cannery_high(inverse, multiplier), right);
}

/* Bits before the first one that is set, of which there is one. */
CANNERY_INLINE int32_t cannery_leading_zeros(int32_t x)
{
    int32_t found = 0;
    for (uint32_t v = (uint32_t)x; !(v & 0x80000000u); v <<= 1) {
        ++found;
    }
    return found;
}

/* x * 2^bits for a positive x, at most the largest number. */
CANNERY_INLINE int32_t cannery_doubled(int32_t x, int32_t bits)
{
    return x > (INT32_MAX >> bits) ? INT32_MAX : (int32_t)((uint32_t)x << bits);
}

/* log x in units of 2^-26, for an x >= 1 in units of 2^(bits - 31): a power of two, and a rational
 * function around 2^(-1/4). */
CANNERY_INLINE int32_t cannery_logarithm(int32_t x, int32_t bits)
{
    const int32_t root = 1518500250, fourth_root = 1805811301;
    const int32_t lead = cannery_leading_zeros(x);
    const int32_t rooted = cannery_leading_zeros(cannery_high(x, root)) - 1;
    const int32_t first = cannery_doubled(cannery_high(cannery_doubled(x, lead - 1), root), 1);
    const int32_t second = cannery_doubled(x, rooted);
    const int32_t power_first = (bits - lead) * (1 << 25) + (1 << 23);
    const int32_t power_second = (bits - rooted) * (1 << 25) - (1 << 23);
    const int32_t r = first < second ? first : second;
    const int32_t q = 2 * (r - fourth_root);
    const int32_t square = cannery_high(q, q);
    const int32_t above = cannery_high(q, r) + cannery_high(cannery_high(q, square), 117049297);
    const int32_t half = (int32_t)(((uint32_t)r + (uint32_t)fourth_root + 1u) >> 1);
    const int32_t below = cannery_high(half, 1057819769 + q + cannery_high(square, 127690142)) +
                          cannery_high(q, 638450708);
    int32_t over, found = power_first > power_second ? power_first : power_second;
    found = cannery_high(found, 1488522236);
    found += cannery_high(cannery_shifted(above, 6),
                          cannery_reciprocal((int32_t)((uint32_t)below | 0x80000000u), 0, &over));
    return found < 0 ? 2 * found : cannery_doubled(found, 1);
}

/* x * 2^bits, within int32. */
CANNERY_INLINE int32_t cannery_raised(int64_t x, int32_t bits)
{
    return cannery_bounded_wide(x * ((int64_t)1 << bits), INT32_MIN, INT32_MAX);
}

/* The inverse root of x as a factor for cannery_rescaled, by Newton's steps; that of 0 is that of 1. */
CANNERY_INLINE int32_t cannery_inverse_root(int32_t x, int32_t *shift)
{
    int32_t over = 11, half, y = 1 << 28;
    *shift = 0;
    if (x <= 1) {
        return INT32_MAX;
    }
    for (; x >= 1 << 29; x /= 4) {
        ++over;
    }
    for (; x < 1 << 27; x *= 4) {
        --over;
    }
    half = ((x >> 1) + 1) >> 1;
    for (int n = 0; n < 5; ++n) {
        const int32_t cube = cannery_raised(cannery_high(cannery_high(y, y), y), 6);
        y = cannery_raised((int64_t)cannery_high(3 << 27, y) - cannery_high(half, cube), 3);
    }
    y = cannery_high(y, 1518500250);
    if (over < 0) {
        return (int32_t)((uint32_t)y << -over);
    }
    *shift = -over;
    return y;
}

/* The function of int16 whose 513 entries a table has, one for every 128 numbers. */
CANNERY_INLINE int16_t cannery_looked_up(int16_t x, const int16_t *table)
{
    const int at = 256 + (x >> 7);
    const int16_t slope = (int16_t)(table[at + 1] - table[at]);
    return (int16_t)(table[at] + ((slope * (x & 127) + 64) >> 7));
}

/* The inverse of a sum >= 2^14, in units of 2^-15 by a table of 1 / (1 + x), for a sum between 2^right
 * and twice that. */
CANNERY_INLINE int32_t cannery_inverse_of_shorts(int32_t sum, const int16_t *table, int *right)
{
    int32_t ones;
    for (*right = 14; *right < 30 && sum >> *right > 1; ++*right) {
    }
    ones = (int32_t)((((int64_t)sum << (30 - *right)) + (1 << 13)) >> 14);
    return cannery_looked_up(
        (int16_t)cannery_bounded(ones - (1 << 15) - (1 << 16), -32768, 32767), table);
}

/* Where |x| multiplier / 2^shift is among the sigmoids of a table, in units of 2^-(16 + bits), and
 * whether x is below 0. */
CANNERY_INLINE int32_t cannery_sigmoid_at(
    int16_t x, const uint16_t *table, int32_t multiplier, int32_t shift, int bits, int *below)
{
    const int32_t half = (int32_t)(((int64_t)1 << shift) >> 1);
    const int32_t at = (x * multiplier + half) >> shift;
    const int32_t size = at < 0 ? -at : at;
    const int32_t place = size >> bits;
    *below = at < 0;
    if (place >= 255) {
        return bits == 8 ? 0xffff << 8 : 0x7fff << 10;
    }
    return (table[place] << bits)
         + (size & ((1 << bits) - 1)) * (table[place + 1] - table[place]);
}

CANNERY_INLINE int16_t cannery_sigmoid_of_shorts(
    int16_t x, const uint16_t *table, int32_t multiplier, int32_t shift)
{
    int below;
    const int32_t y = cannery_sigmoid_at(x, table, multiplier, shift, 9, &below);
    return (int16_t)((below ? (1 << 25) - y + 511 : y + 512) >> 10);
}

CANNERY_INLINE int16_t cannery_tanh_of_shorts(
    int16_t x, const uint16_t *table, int32_t multiplier, int32_t shift)
{
    int below;
    const int32_t y = cannery_sigmoid_at(x, table, multiplier, shift, 8, &below);
    return (int16_t)((below ? (1 << 23) - y + 127 : y - (1 << 23) + 128) >> 8);
}

/* base^exponent modulo 2^64; for a negative exponent the integer part, and 0 for base 0. */
CANNERY_INLINE int64_t cannery_ipow(int64_t base, int64_t exponent)
{
    uint64_t y = 1, square = (uint64_t)base;
    if (exponent < 0) {
        return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    }
    for (; exponent; exponent >>= 1) {
        y = exponent & 1 ? y * square : y;
        square *= square;
    }
    return (int64_t)y;
}

#endif
