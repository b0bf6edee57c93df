"""Elementary functions in float64 whose bytes do not depend on the machine.

The libraries that numpy and `math` use differ in the last bit between processors and versions.
These functions use only elementwise IEEE operations. They are within a few ulp of float64, which is
exact as far as float32 is concerned. Special values are those of C's <math.h>.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import factorial, pi, sqrt

import numpy as np

from cannery.ir.numeric import F64

_LN2 = Decimal("0.6931471805599453094172321214581765680755")
#: ln 2 in two parts; the products of the high one with small integers are exact.
_LN2_HIGH = int(_LN2 * 2**32) / 2**32
_LN2_LOW = float(_LN2 - Decimal(_LN2_HIGH))
#: 1/0!, 1/1!, ...: the Taylor series of exp, good for |r| <= ln(2)/2.
_EXP_TERMS = tuple(1.0 / factorial(n) for n in range(15))
#: 1, 1/3, 1/5, ...: the series of atanh(s)/s in s^2, good for |s| <= 0.172.
_ATANH_TERMS = tuple(1.0 / (2 * n + 1) for n in range(13))


def _polynomial(terms: tuple[float, ...], x: F64) -> F64:
    """Horner's rule, the constant term first."""
    y = np.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        y = y * x + term
    return y


def exp(x: F64) -> F64:
    """e^x: 2^k times the Taylor series of the remainder."""
    inside = np.where(np.isnan(x), 0.0, np.clip(x, -746.0, 710.0))
    k = np.rint(inside / float(_LN2))
    r = (inside - k * _LN2_HIGH) - k * _LN2_LOW
    with np.errstate(over="ignore", under="ignore"):
        y = np.ldexp(_polynomial(_EXP_TERMS, r), k.astype(np.int32))
    return np.where(np.isnan(x), x, y)


def expm1(x: F64) -> F64:
    """e^x - 1, without cancellation near 0."""
    near = np.clip(x, -0.35, 0.35)
    small = near * _polynomial(_EXP_TERMS[1:], near)
    return np.where(np.abs(x) < 0.35, small, exp(x) - 1.0)


def log(x: F64) -> F64:
    """Natural logarithm: k ln 2 + 2 atanh((m-1)/(m+1)) with m in [sqrt(1/2), sqrt(2))."""
    sound = (x > 0) & (x < np.inf)
    mantissa, exponent = np.frexp(np.where(sound, x, 1.0))
    low = mantissa < sqrt(0.5)
    m = np.where(low, 2.0 * mantissa, mantissa)
    k = (exponent - low).astype(np.float64)
    s = (m - 1.0) / (m + 1.0)
    y = k * _LN2_HIGH + (2.0 * s * _polynomial(_ATANH_TERMS, s * s) + k * _LN2_LOW)
    special = np.where(x == 0, -np.inf, np.where(x == np.inf, np.inf, np.nan))
    return np.where(sound, y, special)


def log1p(x: F64) -> F64:
    """log(1 + x) for finite x > -1; the rounding error of 1 + x is corrected."""
    u = 1.0 + x
    return np.where(u == 1.0, x, log(u) - ((u - 1.0) - x) / u)


def tanh(x: F64) -> F64:
    """Hyperbolic tangent, by expm1."""
    e = expm1(-2.0 * np.abs(x))
    return np.copysign(-e / (2.0 + e), x)


def erf(x: F64) -> F64:
    """The error function."""
    near, far = _erf_near(np.abs(x)), 1.0 - _erfc_far(np.abs(x))
    return np.copysign(np.where(np.abs(x) < 2.0, near, np.where(np.isnan(x), x, far)), x)


def erfc(x: F64) -> F64:
    """1 - erf(x), without cancellation where it is small."""
    near = 1.0 - np.copysign(_erf_near(np.abs(x)), x)
    beyond = np.where(x < 0, 2.0 - _erfc_far(np.abs(x)), _erfc_far(np.abs(x)))
    return np.where(np.abs(x) < 2.0, near, np.where(np.isnan(x), x, beyond))


def _erf_near(x: F64) -> F64:
    """erf(x), 0 <= x <= 2, by a series of positive terms (Abramowitz and Stegun, 7.1.6)."""
    a = np.minimum(x, 2.0)
    term, total = a, a
    for n in range(1, 40):
        term = term * (2.0 * a * a) / (2 * n + 1)
        total = total + term
    return 2.0 / sqrt(pi) * exp(-a * a) * total


def _erfc_far(x: F64) -> F64:
    """1 - erf(x), x >= 2, by a continued fraction (Abramowitz and Stegun, 7.1.14)."""
    b = np.clip(x, 2.0, 28.0)
    fraction = b
    for n in range(60, 0, -1):
        fraction = b + (n / 2) / fraction
    return exp(-b * b) / (sqrt(pi) * fraction)


def power(a: F64, b: F64) -> F64:
    """a^b: repeated multiplication for integers up to 64, exp(b log|a|) otherwise.

    NaN for every negative a and fractional b; C's pow makes an exception of -infinity.
    """
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(all="ignore"):
        whole = np.floor(b) == b
        odd = whole & (np.floor(b / 2) * 2 != b)
        y = exp(b * log(np.abs(a)))
        y = np.where(odd, np.copysign(y, a), y)
        y = np.where((a < 0) & ~whole, np.nan, y)
        y = np.where((a == 1) | ((a == -1) & np.isinf(b)), 1.0, y)
        small = whole & (np.abs(b) <= 64)
        return np.where(small, _integer_power(a, np.where(small, b, 0.0)), y)


def _integer_power(a: F64, n: F64) -> F64:
    """a^n for integers |n| <= 64, by squaring."""
    bits = np.abs(n).astype(np.int64)
    y, square = np.ones_like(a), a
    while bits.any():
        y = np.where(bits & 1, y * square, y)
        square, bits = square * square, bits >> 1
    return np.where(n < 0, 1.0 / y, y)


def sinh(x: F64) -> F64:
    """Hyperbolic sine, by expm1."""
    e = expm1(np.abs(x))
    return np.copysign(np.where(np.isinf(x), np.inf, 0.5 * (e + e / (1.0 + e))), x)


def cosh(x: F64) -> F64:
    """Hyperbolic cosine."""
    e = exp(np.abs(x))
    return 0.5 * (e + 1.0 / e)


def asinh(x: F64) -> F64:
    """Inverse hyperbolic sine: log(1 + a + a^2 / (1 + sqrt(a^2 + 1))) with a = |x|."""
    a = np.abs(x)
    with np.errstate(over="ignore", invalid="ignore"):
        small = log1p(a + a * a / (1.0 + np.sqrt(a * a + 1.0)))
    return np.copysign(np.where(a < 1e100, small, log(a) + float(_LN2)), x)


def acosh(x: F64) -> F64:
    """Inverse hyperbolic cosine; NaN below 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        small = log1p((x - 1.0) + np.sqrt((x - 1.0) * (x + 1.0)))
        return np.where(x < 1e100, small, log(x) + float(_LN2))


def atanh(x: F64) -> F64:
    """Inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond."""
    a = np.abs(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = 0.5 * log1p(np.where(a < 1.0, 2.0 * a / (1.0 - a), 0.0))
    beyond = np.where(a == 1.0, np.inf, np.nan)
    return np.copysign(np.where(a < 1.0, inside, beyond), x)


def atan(x: F64) -> F64:
    """Inverse tangent: a series after two reductions, to 1/x and by pi/4."""
    a = np.abs(x)
    with np.errstate(divide="ignore"):
        t = np.where(a > 1.0, 1.0 / a, a)
    moved = t > sqrt(2.0) - 1.0
    z = np.where(moved, (t - 1.0) / (t + 1.0), t)
    terms = tuple((-1.0) ** n / (2 * n + 1) for n in range(22))
    y = z * _polynomial(terms, z * z) + np.where(moved, pi / 4, 0.0)
    return np.copysign(np.where(a > 1.0, pi / 2 - y, y), x)


def atan2(y: F64, x: F64) -> F64:
    """The angle of the point (x, y), from -pi to pi; a zero has a sign."""
    a, b = np.abs(y), np.abs(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(a == b, np.where(a == 0.0, 0.0, 1.0), a / b)
    angle = atan(slope)
    angle = np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(np.signbit(x), pi - angle, angle))
    return np.copysign(angle, y)


def asin(x: F64) -> F64:
    """Inverse sine; NaN beyond -1..1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return atan(x / np.sqrt((1.0 - x) * (1.0 + x)))


def acos(x: F64) -> F64:
    """Inverse cosine; NaN beyond -1..1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 2.0 * atan(np.sqrt((1.0 - x) / (1.0 + x)))


def _quarters(x: F64) -> tuple[F64, F64]:
    """The number of quarter turns in x, modulo 4, and the rest within an eighth of a turn.

    By rational arithmetic, element by element: pi / 2 with 1200 bits is enough for every float64.
    """
    counts, rests = np.zeros_like(x), np.full_like(x, np.nan)
    half_pi = _half_pi()
    for k, value in enumerate(x.flat):
        if np.isfinite(value):
            exact = Fraction(float(value))
            n = round(exact / half_pi)
            counts.flat[k], rests.flat[k] = n % 4, float(exact - n * half_pi)
    return counts, rests


@cache
def _half_pi() -> Fraction:
    """Machin's formula with 1200 bits."""
    one = 1 << 1200

    def inverse(n: int) -> int:
        total, term, k = 0, one // n, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term, k = term // (n * n), k + 2
        return total

    return Fraction(2 * (4 * inverse(5) - inverse(239)), one)


_SIN_TERMS = tuple((-1.0) ** n / factorial(2 * n + 1) for n in range(10))
_COS_TERMS = tuple((-1.0) ** n / factorial(2 * n) for n in range(10))


def _sin_cos(x: F64) -> tuple[F64, F64]:
    counts, r = _quarters(np.asarray(x, np.float64))
    near_sin, near_cos = r * _polynomial(_SIN_TERMS, r * r), _polynomial(_COS_TERMS, r * r)
    odd, back = counts % 2 == 1, counts >= 2
    s, c = np.where(odd, near_cos, near_sin), np.where(odd, -near_sin, near_cos)
    return np.where(back, -s, s), np.where(back, -c, c)


def sin(x: F64) -> F64:
    """Sine; NaN of infinities."""
    return np.where(x == 0, x, _sin_cos(x)[0])


def cos(x: F64) -> F64:
    """Cosine; NaN of infinities."""
    return _sin_cos(x)[1]


def tan(x: F64) -> F64:
    """Tangent; NaN of infinities."""
    s, c = _sin_cos(x)
    return np.where(x == 0, x, s / c)
