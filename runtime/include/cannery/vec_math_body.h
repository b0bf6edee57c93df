/* SPDX-License-Identifier: MIT-0
 *
 * The functions of vec_math.h for one width. vec_math.h includes this file once
 * per width, with CANNERY_LANES set; hence no include guard. CANNERY_F(word) is
 * the word (or the function) of that width.
 */

/* One step of Horner's scheme: sum*x + c. */
CANNERY_INLINE CANNERY_FT CANNERY_F(horner)(CANNERY_FT sum, CANNERY_FT x, float c)
{
    return CANNERY_F(fma)(sum, x, CANNERY_F(set1)(c));
}

/* a*x + b for numbers a and b. */
CANNERY_INLINE CANNERY_FT CANNERY_F(linear)(CANNERY_FT x, float a, float b)
{
    return CANNERY_F(horner)(CANNERY_F(set1)(a), x, b);
}

/* ---- exp, expm1 -------------------------------------------------------- */

/* e^r - 1, |r| <= ln2/2 (a hair more): relative error of the polynomial 1.4e-8. */
CANNERY_INLINE CANNERY_FT CANNERY_F(expm1_reduced)(CANNERY_FT r)
{
    CANNERY_FT p = CANNERY_F(horner)(CANNERY_F(set1)(1.39406571e-3f), r, 8.36640596e-3f);
    p = CANNERY_F(horner)(p, r, 4.16664034e-2f);
    p = CANNERY_F(horner)(p, r, 1.66665450e-1f);
    p = CANNERY_F(horner)(p, r, 0.5f);
    return CANNERY_F(fma)(CANNERY_F(mul)(r, r), p, r);
}

/* x = k*ln2 + r: returns e^r - 1. Adding 1.5*2^23 rounds to an integer, which then
 * sits in the low bits. ln2 is in two parts: k times the first, nine bits long, is
 * exact. */
CANNERY_INLINE CANNERY_FT CANNERY_F(exp_reduced)(CANNERY_FT x, CANNERY_IT *k, CANNERY_FT *k_float)
{
    const CANNERY_FT shift = CANNERY_F(set1)(12582912.0f);
    const CANNERY_FT shifted = CANNERY_F(fma)(x, CANNERY_F(set1)(1.44269504f), shift);
    const CANNERY_FT kf = CANNERY_F(sub)(shifted, shift);
    CANNERY_FT r = CANNERY_F(fnma)(kf, CANNERY_F(set1)(0.693359375f), x);
    r = CANNERY_F(fnma)(kf, CANNERY_F(set1)(-2.12194440e-4f), r);
    *k = CANNERY_I(sub)(CANNERY_F(as_i32)(shifted), CANNERY_F(as_i32)(shift));
    *k_float = kf;
    return CANNERY_F(expm1_reduced)(r);
}

/* 2^k in two factors, so that subnormal results round once and the largest
 * finite ones do not overflow on the way. */
CANNERY_INLINE CANNERY_FT CANNERY_F(exp)(CANNERY_FT x)
{
    const CANNERY_FT bounded =
        CANNERY_F(min)(CANNERY_F(set1)(89.0f), CANNERY_F(max)(CANNERY_F(set1)(-104.0f), x));
    CANNERY_IT k, half;
    CANNERY_FT kf;
    const CANNERY_FT em1 = CANNERY_F(exp_reduced)(bounded, &k, &kf);
    const CANNERY_FT y = CANNERY_F(add)(em1, CANNERY_F(set1)(1.0f));
    half = CANNERY_I(sra1)(k);
    return CANNERY_F(mul)(CANNERY_F(mul)(y, CANNERY_F(pow2i)(half)),
                          CANNERY_F(pow2i)(CANNERY_I(sub)(k, half)));
}

/* Only for -87 <= x <= 88, where 2^k is a normal number: one factor. */
CANNERY_INLINE CANNERY_FT CANNERY_F(exp_normal)(CANNERY_FT x)
{
    CANNERY_IT k;
    CANNERY_FT kf;
    const CANNERY_FT em1 = CANNERY_F(exp_reduced)(x, &k, &kf);
    return CANNERY_F(mul)(CANNERY_F(add)(em1, CANNERY_F(set1)(1.0f)), CANNERY_F(pow2i)(k));
}

/* 2^k * (e^r - 1) + (2^k - 1), computed with 2^(k-1) and doubled because
 * 2^128 is not a float; unscaled where k = 0, to keep small results exact. */
CANNERY_INLINE CANNERY_FT CANNERY_F(expm1)(CANNERY_FT x)
{
    const CANNERY_FT bounded =
        CANNERY_F(min)(CANNERY_F(set1)(89.0f), CANNERY_F(max)(CANNERY_F(set1)(-20.0f), x));
    CANNERY_IT k;
    CANNERY_FT kf, scale, half, y;
    const CANNERY_FT em1 = CANNERY_F(exp_reduced)(bounded, &k, &kf);
    scale = CANNERY_F(pow2i)(CANNERY_I(sub)(k, CANNERY_I(set1)(1)));
    half = CANNERY_F(fma)(scale, em1, CANNERY_F(sub)(scale, CANNERY_F(set1)(0.5f)));
    y = CANNERY_F(select)(CANNERY_F(eq)(kf, CANNERY_F(zero)()), em1, CANNERY_F(add)(half, half));
    return CANNERY_F(copysign)(y, x); /* -0 */
}

/* ---- log, log1p -------------------------------------------------------- */

/* x = 2^k * m, sqrt(1/2) <= m < sqrt(2), for normal positive x. */
CANNERY_INLINE CANNERY_FT CANNERY_F(mantissa)(CANNERY_FT x, CANNERY_IT *k)
{
    const CANNERY_IT bits =
        CANNERY_I(add)(CANNERY_F(as_i32)(x), CANNERY_I(set1)(0x3f800000 - 0x3f3504f3));
    const CANNERY_IT fraction = CANNERY_I(and)(bits, CANNERY_I(set1)(0x007fffff));
    *k = CANNERY_I(sub)(CANNERY_I(sra23)(bits), CANNERY_I(set1)(127));
    return CANNERY_I(as_f32)(CANNERY_I(add)(fraction, CANNERY_I(set1)(0x3f3504f3)));
}

/* k*ln2 + log(1 + f), sqrt(1/2) - 1 <= f < sqrt(2) - 1: f - f^2/2 + f^3 P(f),
 * relative error of the polynomial 3.2e-8. */
CANNERY_INLINE CANNERY_FT CANNERY_F(log_sum)(CANNERY_FT k, CANNERY_FT f)
{
    const CANNERY_FT square = CANNERY_F(mul)(f, f);
    CANNERY_FT p = CANNERY_F(set1)(8.69929716e-2f);
    p = CANNERY_F(horner)(p, f, -1.42680854e-1f);
    p = CANNERY_F(horner)(p, f, 1.49154678e-1f);
    p = CANNERY_F(horner)(p, f, -1.65775687e-1f);
    p = CANNERY_F(horner)(p, f, 1.99629962e-1f);
    p = CANNERY_F(horner)(p, f, -2.50013351e-1f);
    p = CANNERY_F(horner)(p, f, 3.33339125e-1f);
    p = CANNERY_F(mul)(CANNERY_F(mul)(square, f), p);
    p = CANNERY_F(fma)(k, CANNERY_F(set1)(-2.12194440e-4f), p);
    p = CANNERY_F(fnma)(CANNERY_F(set1)(0.5f), square, p);
    return CANNERY_F(fma)(k, CANNERY_F(set1)(0.693359375f), CANNERY_F(add)(f, p));
}

/* y for pole < x < infinity; -infinity at the pole, NaN below it, else x. */
CANNERY_INLINE CANNERY_FT CANNERY_F(log_edges)(CANNERY_FT y, CANNERY_FT x, CANNERY_FT pole)
{
    const CANNERY_FT infinity = CANNERY_I(as_f32)(CANNERY_I(set1)(0x7f800000));
    const CANNERY_FT not_a_number = CANNERY_I(as_f32)(CANNERY_I(set1)(0x7fc00000));
    const CANNERY_MT inside = CANNERY_M(and)(CANNERY_F(gt)(x, pole), CANNERY_F(lt)(x, infinity));
    CANNERY_FT result = CANNERY_F(select)(CANNERY_F(lt)(x, pole), not_a_number, x);
    result = CANNERY_F(select)(inside, y, result);
    return CANNERY_F(select)(CANNERY_F(eq)(x, pole), CANNERY_F(neg)(infinity), result);
}

/* Subnormals are scaled into the normal range first. */
CANNERY_INLINE CANNERY_FT CANNERY_F(log)(CANNERY_FT x)
{
    const CANNERY_MT tiny = CANNERY_F(lt)(x, CANNERY_F(set1)(1.17549435e-38f));
    const CANNERY_FT scaled = CANNERY_F(mul)(x, CANNERY_F(set1)(8388608.0f));
    const CANNERY_FT correction =
        CANNERY_F(select)(tiny, CANNERY_F(set1)(-23.0f), CANNERY_F(zero)());
    CANNERY_IT k;
    const CANNERY_FT m = CANNERY_F(mantissa)(CANNERY_F(select)(tiny, scaled, x), &k);
    const CANNERY_FT kf = CANNERY_F(add)(CANNERY_F(from_i32)(k), correction);
    const CANNERY_FT y = CANNERY_F(log_sum)(kf, CANNERY_F(sub)(m, CANNERY_F(set1)(1.0f)));
    return CANNERY_F(log_edges)(y, x, CANNERY_F(zero)());
}

/* For x > -1, finite (or NaN). u = 1 + x is rounded; the part it lost (two-sum)
 * is added back to the reduced mantissa: lost * 2^-k as lost/2 * 2^(1-k), since
 * k may be 128. */
CANNERY_INLINE CANNERY_FT CANNERY_F(log1p_inside)(CANNERY_FT x)
{
    const CANNERY_FT one = CANNERY_F(set1)(1.0f);
    const CANNERY_FT u = CANNERY_F(add)(one, x);
    const CANNERY_FT x_part = CANNERY_F(sub)(u, one);
    const CANNERY_FT one_lost = CANNERY_F(sub)(one, CANNERY_F(sub)(u, x_part));
    const CANNERY_FT lost = CANNERY_F(add)(one_lost, CANNERY_F(sub)(x, x_part));
    CANNERY_IT k;
    const CANNERY_FT m = CANNERY_F(mantissa)(u, &k);
    const CANNERY_FT scale = CANNERY_F(pow2i)(CANNERY_I(sub)(CANNERY_I(set1)(1), k));
    const CANNERY_FT half = CANNERY_F(mul)(CANNERY_F(set1)(0.5f), lost);
    const CANNERY_FT f = CANNERY_F(fma)(half, scale, CANNERY_F(sub)(m, one));
    return CANNERY_F(log_sum)(CANNERY_F(from_i32)(k), f);
}

CANNERY_INLINE CANNERY_FT CANNERY_F(log1p)(CANNERY_FT x)
{
    const CANNERY_FT y = CANNERY_F(log1p_inside)(x);
    return CANNERY_F(copysign)(CANNERY_F(log_edges)(y, x, CANNERY_F(set1)(-1.0f)), x); /* -0 */
}

/* ---- tanh, erf --------------------------------------------------------- */

/* x P(x^2) / Q(x^2), both of degree 4 in x^2: off by 4e-8, with their coefficients rounded; from 9
 * on tanh is 1 in float. Returns x P and sets Q. Even and odd terms apart (Estrin's scheme), as
 * layers often wait for this. */
CANNERY_INLINE CANNERY_FT CANNERY_F(tanh_quotient)(CANNERY_FT x, CANNERY_FT *below)
{
    const CANNERY_FT a =
        CANNERY_F(max)(CANNERY_F(set1)(-9.0f), CANNERY_F(min)(CANNERY_F(set1)(9.0f), x));
    const CANNERY_FT s = CANNERY_F(mul)(a, a);
    const CANNERY_FT s2 = CANNERY_F(mul)(s, s);
    CANNERY_FT p = CANNERY_F(linear)(s, 2.06483874e-5f, 3.49821732e-3f);
    CANNERY_FT q = CANNERY_F(linear)(s, 3.28976224e-4f, 2.58872472e-2f);
    const CANNERY_FT p0 = CANNERY_F(linear)(s, 1.33833244e-1f, 1.0f);
    const CANNERY_FT q0 = CANNERY_F(linear)(s, 4.67166424e-1f, 1.0f);
    p = CANNERY_F(fma)(s2, CANNERY_F(set1)(1.34020306e-8f), p);
    q = CANNERY_F(fma)(s2, CANNERY_F(set1)(7.79741413e-7f), q);
    *below = CANNERY_F(fma)(q, s2, q0);
    return CANNERY_F(mul)(CANNERY_F(fma)(p, s2, p0), a);
}

CANNERY_INLINE CANNERY_FT CANNERY_F(tanh)(CANNERY_FT x)
{
    const CANNERY_FT one = CANNERY_F(set1)(1.0f), minus_one = CANNERY_F(set1)(-1.0f);
    CANNERY_FT q;
    const CANNERY_FT p = CANNERY_F(tanh_quotient)(x, &q);
    return CANNERY_F(max)(minus_one, CANNERY_F(min)(one, CANNERY_F(div)(p, q)));
}

/* |x| < 1: |x| + |x| P(x^2), relative error of the polynomial 4.1e-8. Beyond:
 * 1 - e^Q(|x|), which errs by 1.7e-8; from 3.93 on erf is 1 in float. */
CANNERY_INLINE CANNERY_FT CANNERY_F(erf)(CANNERY_FT x)
{
    const CANNERY_FT one = CANNERY_F(set1)(1.0f);
    const CANNERY_FT a = CANNERY_F(min)(CANNERY_F(set1)(3.93f), CANNERY_F(abs)(x));
    const CANNERY_FT s = CANNERY_F(mul)(a, a);
    CANNERY_FT p = CANNERY_F(set1)(-5.61996421e-4f);
    CANNERY_FT q = CANNERY_F(set1)(-1.15825341e-3f);
    CANNERY_IT k;
    CANNERY_FT kf, em1, scale;
    p = CANNERY_F(horner)(p, s, 4.91491565e-3f);
    q = CANNERY_F(horner)(q, a, 1.48401344e-2f);
    p = CANNERY_F(horner)(p, s, -2.67092176e-2f);
    q = CANNERY_F(horner)(q, a, -8.88257921e-2f);
    p = CANNERY_F(horner)(p, s, 1.12801135e-1f);
    q = CANNERY_F(horner)(q, a, -6.54199898e-1f);
    p = CANNERY_F(horner)(p, s, -3.76123190e-1f);
    q = CANNERY_F(horner)(q, a, -1.11765158f);
    p = CANNERY_F(horner)(p, s, 1.28379121e-1f);
    q = CANNERY_F(horner)(q, a, -2.61019752e-3f);
    em1 = CANNERY_F(exp_reduced)(q, &k, &kf);
    scale = CANNERY_F(pow2i)(k);
    q = CANNERY_F(sub)(one, CANNERY_F(fma)(scale, em1, scale));
    p = CANNERY_F(fma)(a, p, a);
    return CANNERY_F(copysign)(CANNERY_F(select)(CANNERY_F(lt)(a, one), p, q), x);
}

/* ---- sigmoid and compositions ------------------------------------------ */

/* 1 / (1 + e) or e / (1 + e), e = exp(-|x|): no cancellation on either side. */
CANNERY_INLINE CANNERY_FT CANNERY_F(sigmoid)(CANNERY_FT x)
{
    const CANNERY_FT one = CANNERY_F(set1)(1.0f);
    const CANNERY_FT e = CANNERY_F(exp)(CANNERY_F(neg)(CANNERY_F(abs)(x)));
    const CANNERY_FT num = CANNERY_F(select)(CANNERY_F(ge)(x, CANNERY_F(zero)()), one, e);
    return CANNERY_F(div)(num, CANNERY_F(add)(one, e));
}

/* log(1 + e^x) = max(x, 0) + log1p(e^-|x|). */
CANNERY_INLINE CANNERY_FT CANNERY_F(softplus)(CANNERY_FT x)
{
    const CANNERY_FT e = CANNERY_F(exp)(CANNERY_F(neg)(CANNERY_F(abs)(x)));
    return CANNERY_F(add)(CANNERY_F(max)(CANNERY_F(zero)(), x), CANNERY_F(log1p_inside)(e));
}

/* x for x > 0, else alpha * (e^x - 1). Like expm1, but only for x <= 0: nothing overflows, and
 * 1 * (e^r - 1) + 0 is exact where k = 0. With alpha <= 1 that is never below x, so the result
 * is the larger of both. */
CANNERY_INLINE CANNERY_FT CANNERY_F(elu)(CANNERY_FT x, float alpha)
{
    const CANNERY_FT zero = CANNERY_F(zero)();
    const CANNERY_FT bounded = CANNERY_F(min)(zero, CANNERY_F(max)(CANNERY_F(set1)(-20.0f), x));
    CANNERY_IT k;
    CANNERY_FT kf, scale, y;
    const CANNERY_FT em1 = CANNERY_F(exp_reduced)(bounded, &k, &kf);
    scale = CANNERY_F(pow2i)(k);
    y = CANNERY_F(fma)(scale, em1, CANNERY_F(sub)(scale, CANNERY_F(set1)(1.0f)));
    y = CANNERY_F(mul)(CANNERY_F(set1)(alpha), y);
#if !defined(__ARM_NEON) /* where the larger of -0 and 0 is 0 */
    if (alpha <= 1.0f) {
        return CANNERY_F(max)(y, x);
    }
#endif
    return CANNERY_F(select)(CANNERY_F(gt)(zero, x), y, x);
}

/* 2^y = 2^k + 2^k * (2^r - 1), y = k + r, |r| <= 1/2: returns 2^r - 1, whose polynomial is off by
 * 9.2e-8 relative to 2^r, and 2^k as the scale; |y| <= 126. Adding 1.5*2^23 leaves k in the low
 * bits; those above it are shifted out. */
CANNERY_INLINE CANNERY_FT CANNERY_F(exp2_reduced)(CANNERY_FT y, CANNERY_FT *scale)
{
    const CANNERY_FT shift = CANNERY_F(set1)(12582912.0f);
    const CANNERY_FT shifted = CANNERY_F(add)(y, shift);
    const CANNERY_FT r = CANNERY_F(sub)(y, CANNERY_F(sub)(shifted, shift));
    CANNERY_FT p = CANNERY_F(horner)(CANNERY_F(set1)(1.3264591e-3f), r, 9.671619e-3f);
    p = CANNERY_F(horner)(p, r, 5.550735e-2f);
    p = CANNERY_F(horner)(p, r, 2.4022241e-1f);
    p = CANNERY_F(horner)(p, r, 6.93147e-1f);
    *scale = CANNERY_F(pow2i)(CANNERY_F(as_i32)(shifted));
    return CANNERY_F(mul)(r, p);
}

/* erfc(a / sqrt(2)) / 2, 0 <= a <= 8: the probability of more than a. Its base-2 logarithm is a
 * polynomial, which is off by 1.9e-7 near 0 and further on only by rounding, 1e-7 of itself. It is
 * computed by Estrin's scheme: twelve steps of Horner's would be the longer part of the way. */
CANNERY_INLINE CANNERY_FT CANNERY_F(normal_tail)(CANNERY_FT a)
{
    const CANNERY_FT a2 = CANNERY_F(mul)(a, a);
    const CANNERY_FT a4 = CANNERY_F(mul)(a2, a2);
    const CANNERY_FT p0 = CANNERY_F(linear)(a, -1.1511097f, -1.0f);
    const CANNERY_FT p2 = CANNERY_F(linear)(a, -5.25840707e-2f, -0.459172398f);
    const CANNERY_FT p4 = CANNERY_F(linear)(a, -1.48656633e-4f, 7.14510772e-3f);
    const CANNERY_FT p6 = CANNERY_F(linear)(a, 6.09695562e-5f, -2.15974782e-4f);
    const CANNERY_FT p8 = CANNERY_F(linear)(a, 8.07901074e-7f, -9.0637368e-6f);
    const CANNERY_FT p10 = CANNERY_F(linear)(a, 8.89063101e-10f, -4.06459328e-8f);
    const CANNERY_FT q0 = CANNERY_F(fma)(p2, a2, p0);
    const CANNERY_FT q4 = CANNERY_F(fma)(p6, a2, p4);
    const CANNERY_FT q8 = CANNERY_F(fma)(p10, a2, p8);
    const CANNERY_FT y = CANNERY_F(fma)(CANNERY_F(fma)(q8, a4, q4), a4, q0);
    CANNERY_FT scale;
    const CANNERY_FT em1 = CANNERY_F(exp2_reduced)(y, &scale);
    return CANNERY_F(fma)(scale, em1, scale);
}

/* x/2 * (1 + erf(x / sqrt(2))) = max(x, 0) - |x| * normal_tail(|x|): nothing cancels on either
 * side. Below -8 it stays at -5e-15, also for -infinity. The larger of -0 and x keeps -0. */
CANNERY_INLINE CANNERY_FT CANNERY_F(gelu_erf)(CANNERY_FT x)
{
    const CANNERY_FT a = CANNERY_F(min)(CANNERY_F(set1)(8.0f), CANNERY_F(abs)(x));
    const CANNERY_FT positive = CANNERY_F(max)(CANNERY_F(set1)(-0.0f), x);
    return CANNERY_F(fnma)(a, CANNERY_F(normal_tail)(a), positive);
}

/* 1 + e^x = 1 / sigmoid(-x), -87 <= x <= 88. */
CANNERY_INLINE CANNERY_FT CANNERY_F(exp_plus_1)(CANNERY_FT x)
{
    CANNERY_IT k;
    CANNERY_FT kf;
    const CANNERY_FT em1 = CANNERY_F(exp_reduced)(x, &k, &kf);
    const CANNERY_FT scale = CANNERY_F(pow2i)(k);
    return CANNERY_F(fma)(scale, em1, CANNERY_F(add)(scale, CANNERY_F(set1)(1.0f)));
}

/* x/2 * (1 + tanh(u)) = x * sigmoid(2u), u = sqrt(2/pi) * (x + 0.044715 x^3); y is -2u.
 * Below -9.9 it stays at -1e-36. */
CANNERY_INLINE CANNERY_FT CANNERY_F(gelu_tanh)(CANNERY_FT x)
{
    const CANNERY_FT z = CANNERY_F(max)(CANNERY_F(set1)(-9.9f), x);
    const CANNERY_FT square = CANNERY_F(mul)(z, z);
    const CANNERY_FT factor =
        CANNERY_F(horner)(square, CANNERY_F(set1)(-0.0713548163f), -1.59576912f);
    const CANNERY_FT y = CANNERY_F(max)(CANNERY_F(set1)(-87.0f), CANNERY_F(mul)(z, factor));
    return CANNERY_F(div)(z, CANNERY_F(exp_plus_1)(y));
}

/* x * sigmoid(x); below -87 it stays at -1.4e-36, also for -infinity. */
CANNERY_INLINE CANNERY_FT CANNERY_F(silu)(CANNERY_FT x)
{
    const CANNERY_FT least = CANNERY_F(set1)(-87.0f);
    const CANNERY_FT z = CANNERY_F(max)(least, x);
    return CANNERY_F(div)(z, CANNERY_F(exp_plus_1)(CANNERY_F(max)(least, CANNERY_F(neg)(z))));
}

/* x * tanh(softplus(x)) = x * n / (n + 2), n = e^x * (e^x + 2); below -87 it stays at -1.4e-36. */
CANNERY_INLINE CANNERY_FT CANNERY_F(mish)(CANNERY_FT x)
{
    const CANNERY_FT two = CANNERY_F(set1)(2.0f);
    const CANNERY_FT z = CANNERY_F(max)(CANNERY_F(set1)(-87.0f), x);
    const CANNERY_FT e = CANNERY_F(exp_normal)(CANNERY_F(min)(CANNERY_F(set1)(20.0f), z));
    const CANNERY_FT n = CANNERY_F(mul)(e, CANNERY_F(add)(e, two));
    return CANNERY_F(mul)(z, CANNERY_F(div)(n, CANNERY_F(add)(n, two)));
}

/* x / (1 + |x|); bounded where it is 1 in float, to bear infinities. */
CANNERY_INLINE CANNERY_FT CANNERY_F(softsign)(CANNERY_FT x)
{
    const CANNERY_FT a = CANNERY_F(min)(CANNERY_F(set1)(1073741824.0f), CANNERY_F(abs)(x));
    return CANNERY_F(div)(CANNERY_F(copysign)(a, x), CANNERY_F(add)(CANNERY_F(set1)(1.0f), a));
}

/* ---- cells of recurrent layers ------------------------------------------ */

/* 2^y + c, |y| <= 126. */
CANNERY_INLINE CANNERY_FT CANNERY_F(exp2_plus)(CANNERY_FT y, float c)
{
    CANNERY_FT scale;
    const CANNERY_FT em1 = CANNERY_F(exp2_reduced)(y, &scale);
    return CANNERY_F(fma)(scale, em1, CANNERY_F(add)(scale, CANNERY_F(set1)(c)));
}

/* 1 / sigmoid(x) = 1 + e^-x; beyond 25 the sigmoid stays at 1.4e-11, so that products do not
 * overflow. */
CANNERY_INLINE CANNERY_FT CANNERY_F(sigmoid_inverse)(CANNERY_FT x)
{
    const CANNERY_FT bounded =
        CANNERY_F(min)(CANNERY_F(set1)(25.0f), CANNERY_F(max)(CANNERY_F(set1)(-25.0f), x));
    return CANNERY_F(exp2_plus)(CANNERY_F(mul)(bounded, CANNERY_F(set1)(-1.44269504f)), 1.0f);
}

/* sigmoid(x) = 1/2 + tanh(x / 2) / 2: returns the quotient's upper part, and sets half of its lower
 * one. */
CANNERY_INLINE CANNERY_FT CANNERY_F(sigmoid_quotient)(CANNERY_FT x, CANNERY_FT *half)
{
    const CANNERY_FT p = CANNERY_F(tanh_quotient)(CANNERY_F(mul)(CANNERY_F(set1)(0.5f), x), half);
    return CANNERY_F(add)(*half, p);
}

/* Over a common denominator: division costs more than all products. */
CANNERY_INLINE CANNERY_FT CANNERY_F(sigmoid_tanh)(CANNERY_FT a, CANNERY_FT x)
{
    CANNERY_FT half, q;
    const CANNERY_FT n = CANNERY_F(sigmoid_quotient)(a, &half);
    const CANNERY_FT p = CANNERY_F(tanh_quotient)(x, &q);
    return CANNERY_F(div)(CANNERY_F(mul)(n, p), CANNERY_F(mul)(CANNERY_F(add)(half, half), q));
}

CANNERY_INLINE CANNERY_FT CANNERY_F(lstm_cell)(CANNERY_FT i, CANNERY_FT f, CANNERY_FT g,
                                               CANNERY_FT c)
{
    CANNERY_FT half_i, half_f, q;
    const CANNERY_FT n_i = CANNERY_F(sigmoid_quotient)(i, &half_i);
    const CANNERY_FT n_f = CANNERY_F(sigmoid_quotient)(f, &half_f);
    const CANNERY_FT p = CANNERY_F(tanh_quotient)(g, &q);
    const CANNERY_FT both = CANNERY_F(mul)(half_i, q);
    const CANNERY_FT fresh = CANNERY_F(mul)(CANNERY_F(mul)(n_i, p), half_f);
    return CANNERY_F(div)(CANNERY_F(fma)(CANNERY_F(mul)(c, n_f), both, fresh),
                          CANNERY_F(mul)(both, CANNERY_F(add)(half_f, half_f)));
}

/* z is there long before g: its exponential is not waited for, and takes fewer products. */
CANNERY_INLINE CANNERY_FT CANNERY_F(gru_output)(CANNERY_FT z, CANNERY_FT g, CANNERY_FT h)
{
    CANNERY_FT q;
    const CANNERY_FT by_z = CANNERY_F(sigmoid_inverse)(z);
    const CANNERY_FT p = CANNERY_F(tanh_quotient)(g, &q);
    const CANNERY_FT other = CANNERY_F(sub)(by_z, CANNERY_F(set1)(1.0f));
    return CANNERY_F(div)(CANNERY_F(fma)(other, p, CANNERY_F(mul)(h, q)),
                          CANNERY_F(mul)(by_z, q));
}

/* ---- approximations ---------------------------------------------------- */

/* Lambert's continued fraction for tanh, cut at its seventh partial quotient:
 * eq. 5 of Thielke and Hasselbring, "A JIT Compiler for Neural Network
 * Inference", 2019. It peaks at 5.697, where the argument is bounded here. */
CANNERY_INLINE CANNERY_FT CANNERY_F(tanh_rational)(CANNERY_FT x)
{
    const CANNERY_FT a = CANNERY_F(min)(CANNERY_F(set1)(5.697f), CANNERY_F(abs)(x));
    const CANNERY_FT s = CANNERY_F(mul)(a, a);
    CANNERY_FT num = CANNERY_F(set1)(36.0f);
    CANNERY_FT den = CANNERY_F(add)(s, CANNERY_F(set1)(630.0f));
    num = CANNERY_F(horner)(num, s, 6930.0f);
    den = CANNERY_F(horner)(den, s, 51975.0f);
    num = CANNERY_F(horner)(num, s, 270270.0f);
    den = CANNERY_F(horner)(den, s, 945945.0f);
    num = CANNERY_F(horner)(num, s, 2027025.0f);
    den = CANNERY_F(horner)(den, s, 2027025.0f);
    num = CANNERY_F(mul)(CANNERY_F(copysign)(a, x), num);
    return CANNERY_F(mul)(num, CANNERY_F(recip_fast)(den));
}

/* 1/2 + tanh(x/2)/2 by tanh_rational. */
CANNERY_INLINE CANNERY_FT CANNERY_F(sigmoid_rational)(CANNERY_FT x)
{
    const CANNERY_FT half = CANNERY_F(set1)(0.5f);
    return CANNERY_F(fma)(half, CANNERY_F(tanh_rational)(CANNERY_F(mul)(half, x)), half);
}

/* The number x*log2(e) + 127, written as an integer in units of 2^-23, has the
 * bits of a float near e^x: Schraudolph, "A Fast, Compact Approximation of the
 * Exponential Function", 1999. The offset 0.0437*2^23 balances the relative
 * error, which lies between 0 and 6.15 percent without it. */
CANNERY_INLINE CANNERY_FT CANNERY_F(exp_schraudolph)(CANNERY_FT x)
{
    const CANNERY_FT bounded =
        CANNERY_F(min)(CANNERY_F(set1)(88.7f), CANNERY_F(max)(CANNERY_F(set1)(-87.3f), x));
    const CANNERY_FT bits = CANNERY_F(fma)(bounded, CANNERY_F(set1)(12102203.2f),
                                           CANNERY_F(set1)(1064986752.0f));
    const CANNERY_FT y = CANNERY_I(as_f32)(CANNERY_F(to_i32)(bits));
    return CANNERY_F(select)(CANNERY_F(eq)(x, x), y, x);
}

/* Taylor series of second order about the nearest of 257 points on [0, 8]:
 * t + d (1 - t^2) (1 - d t), |d| <= 1/64. NaN must not become an index. */
CANNERY_INLINE CANNERY_FT CANNERY_F(tanh_table)(CANNERY_FT x)
{
    const CANNERY_FT one = CANNERY_F(set1)(1.0f);
    const CANNERY_FT a = CANNERY_F(min)(CANNERY_F(abs)(x), CANNERY_F(set1)(8.0f));
    const CANNERY_IT k = CANNERY_F(to_i32_round)(CANNERY_F(mul)(a, CANNERY_F(set1)(32.0f)));
    const CANNERY_FT d = CANNERY_F(fnma)(CANNERY_F(from_i32)(k), CANNERY_F(set1)(0.03125f), a);
    const CANNERY_FT t = CANNERY_F(lookup)(cannery_tanh_table, k);
    const CANNERY_FT slope = CANNERY_F(mul)(d, CANNERY_F(fnma)(t, t, one));
    const CANNERY_FT y = CANNERY_F(fma)(slope, CANNERY_F(fnma)(d, t, one), t);
    return CANNERY_F(select)(CANNERY_F(eq)(x, x), CANNERY_F(copysign)(y, x), x);
}
