"""Elementary functions in float64 whose bytes do not depend on the machine.

The libraries behind numpy and `math` differ in the last bit between processors and versions.
These are built from elementwise IEEE operations alone. Within a few ulp of float64, which is
exact as far as float32 is concerned. Special values are those of C's <math.h>.
"""

from __future__ import annotations

from decimal import Decimal
from math import factorial, pi, sqrt

import numpy as np

from cannery.ops.numeric import F64

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
    """log(1 + x) for finite x > -1; the rounding error of 1 + x is put right."""
    u = 1.0 + x
    return np.where(u == 1.0, x, log(u) - ((u - 1.0) - x) / u)


def tanh(x: F64) -> F64:
    """Hyperbolic tangent, by expm1."""
    e = expm1(-2.0 * np.abs(x))
    return np.copysign(-e / (2.0 + e), x)


def erf(x: F64) -> F64:
    """The error function: a series of positive terms up to |x| = 2, a continued fraction beyond.

    Abramowitz and Stegun, 7.1.6 and 7.1.14.
    """
    a = np.minimum(np.abs(x), 2.0)
    term, total = a, a
    for n in range(1, 40):
        term = term * (2.0 * a * a) / (2 * n + 1)
        total = total + term
    near = 2.0 / sqrt(pi) * exp(-a * a) * total
    b = np.clip(np.abs(x), 2.0, 10.0)
    fraction = b
    for n in range(60, 0, -1):
        fraction = b + (n / 2) / fraction
    far = 1.0 - exp(-b * b) / (sqrt(pi) * fraction)
    return np.copysign(np.where(np.abs(x) < 2.0, near, np.where(np.isnan(x), x, far)), x)


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
