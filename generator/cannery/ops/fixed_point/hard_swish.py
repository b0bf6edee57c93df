"""HARD_SWISH of bytes, x * relu6(x + 3) / 6, in fixed point of 16 bits."""

from __future__ import annotations

import numpy as np

from cannery.ops.fixed_point.arithmetic import I64, make_factor, shifted

#: What 2^15 stands for while x is between -3 and 3.
_REACH = np.float32(3.0 / 2**15)


def hard_swish(x: I64, scale: float, result: float) -> I64:
    """Of numbers less their zero point; `scale` and `result` are what units are worth.

    The factor of x that is between 0 and 1, and x in units of the result, are rounded to 16 bits,
    and so is their product.
    """
    fine = np.float32(1 / 128) * np.float32(scale)
    to_result = make_factor(float(fine / np.float32(result)))
    to_reach = make_factor(float(fine / _REACH))
    wide = _narrow(x * 128)
    value = _product(wide, _upper(to_result.multiplier))
    share = _narrow(wide << max(to_reach.shift - 1, 0)) if to_reach.shift > 0 else wide
    share = _product(share, _upper(to_reach.multiplier))
    if to_reach.shift > 0:
        share = _narrow(share << 1)
    share = (shifted(share, max(-to_reach.shift, 0)) + 2**15) >> 1
    both = share * value
    halved = np.sign(both) * (np.abs(both) >> 15)
    return shifted(halved, max(-to_result.shift, 0))


def _narrow(x: I64) -> I64:
    """Clamped to 16 bits."""
    return np.asarray(np.clip(x, -(2**15), 2**15 - 1), np.int64)


def _upper(multiplier: int) -> int:
    """A multiplier of 31 bits as one of 15."""
    return min((multiplier + 2**15) >> 16, 2**15 - 1)


def _product(a: I64, b: int) -> I64:
    """The quotient of a * b by 2^15, halves up."""
    return _narrow((a * b + 2**14) >> 15)
