"""Exponentials and reciprocals in fixed point: series and Newton's steps on integers of 32 bits.

A number with b integer bits is raw / 2^(31 - b). These are the formulas by which TensorFlow Lite's
reference kernels define a softmax of bytes (they are those of the library gemmlowp).
"""

from __future__ import annotations

from math import floor, ldexp

import numpy as np
from numpy.typing import NDArray

from cannery.ops.fixed_point.arithmetic import Factor, high_product, make_factor, rescaled, shifted

#: Integer bits of an exponent, and the largest number that 32 bits hold.
_BITS, ONE = 5, 2**31 - 1

#: Factors e^-(2^k) for k = -2 ... 4, without integer bits.
_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)

#: e^(-1/8) and 1/3; the centre of the series.
_EIGHTH, _THIRD, _CENTRE = 1895147668, 715827883, 2**28


def _near_zero(a: int) -> int:
    """The series of e^a for -1/4 <= a < 0, around -1/8."""
    x = a + _CENTRE
    x2 = _times(x, x)
    x3, x4 = _times(x2, x), _times(x2, x2)
    inner = _times(int(shifted(x4, 2)) + x3, _THIRD) + x2
    return _EIGHTH + _times(_EIGHTH, x + int(shifted(inner, 1)))


def _times(a: int, b: int) -> int:
    return int(high_product(a, b))


def exponential(a: int) -> int:
    """The raw number of e^a, for an a <= 0 with five integer bits."""
    if a == 0:
        return ONE
    quarter = 1 << (31 - _BITS - 2)
    part = (a & (quarter - 1)) - quarter
    result, rest = _near_zero(part << _BITS), part - a
    for k, factor in enumerate(_POWERS):
        if rest >> (31 - _BITS - 2 + k) & 1:
            result = _times(result, factor)
    return result


def softmax_factor(scale: float) -> Factor:
    """What makes differences of this scale numbers with five integer bits."""
    return make_factor(min(scale * 2.0 ** (31 - _BITS), 2.0**31 - 1))


def softmax_reach(factor: Factor) -> int:
    """The largest difference that such numbers hold."""
    return floor(ldexp(2**_BITS - 1, 31 - _BITS - factor.shift))


def softmax_table(scale: float, beta: float) -> NDArray[np.int32]:
    """The exponentials of 0, -1 ... -255 times scale and beta, those far below 0 as 0."""
    factor = softmax_factor(scale * beta)
    table = np.zeros(256, np.int32)
    for down in range(min(softmax_reach(factor), 255) + 1):
        table[down] = exponential(int(rescaled(-down, factor.multiplier, factor.shift)))
    return table
