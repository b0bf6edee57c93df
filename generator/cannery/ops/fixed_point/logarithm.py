"""Logarithms in fixed point: a power of two and a rational function, as TensorFlow Lite has them.

A number with b integer bits is raw / 2^(31 - b).
"""

from __future__ import annotations

import numpy as np

from cannery.ops.fixed_point.arithmetic import I64, high_product, shifted
from cannery.ops.fixed_point.softmax import SUM_BITS, reciprocal

#: Integer bits of the result, and of the power of two times log 2.
_BITS, _WIDE = 5, 6

#: log 2 and the roots 2^(-1/2) and 2^(-1/4), without integer bits.
_LOG_2, _ROOT, _FOURTH_ROOT = 1488522236, 1518500250, 1805811301

#: Coefficients of the rational function around 2^(-1/4), without integer bits.
_N, _D, _I, _F = 117049297, 127690142, 1057819769, 638450708

#: 1/4 with _WIDE integer bits.
_QUARTER = 2 ** (31 - _WIDE - 2)


def logarithm(x: I64) -> I64:
    """The raw number of log x, for an x >= 1 with SUM_BITS integer bits."""
    lead, rooted = _zeros(x), high_product(x, _ROOT)
    first = np.minimum(high_product(x << (lead - 1), _ROOT) << 1, 2**31 - 1)
    second = np.minimum(x << (_zeros(rooted) - 1), 2**31 - 1)
    unit = 2 ** (31 - _WIDE)
    power = np.maximum(
        (SUM_BITS - lead) * unit + _QUARTER, (SUM_BITS - _zeros(rooted) + 1) * unit - _QUARTER
    )
    r = np.minimum(first, second)
    q = 2 * (r - _FOURTH_ROOT)
    square = high_product(q, q)
    above = high_product(q, r) + high_product(high_product(q, square), _N)
    below = high_product((r + _FOURTH_ROOT + 1) >> 1, _I + q + high_product(square, _D))
    inverse, _ = reciprocal(below + high_product(q, _F) + 2**31)
    found = high_product(power, _LOG_2) + high_product(shifted(above, _WIDE), inverse)
    return np.asarray(np.minimum(found << (_WIDE - _BITS), 2**31 - 1), np.int64)


def _zeros(x: I64) -> I64:
    """Bits before the first one of 32 that is set."""
    return np.asarray(32 - np.frexp(x.astype(np.float64))[1], np.int64)
