"""Products of integers with real numbers, in the fixed-point arithmetic of TensorFlow Lite.

A factor f is `multiplier` * 2^(shift - 31) with 2^30 <= multiplier < 2^31. A product is rounded to
an integer twice: after the multiplication (halves go up), and after a shift to the right (halves go
away from zero).

Sums of 64 bits have shorter factors, `multiplier` * 2^(shift - 15) with a multiplier of 15 bits,
and round once, halves up. Dense layers multiply in float64 and round halves away from zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, frexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType

I64 = NDArray[np.int64]

#: Element types of quantised tensors.
QUANTISED = (DType.INT8, DType.UINT8, DType.INT16)


def all_numbers(dtype: DType) -> I64:
    """What a quantised tensor may hold, ascending."""
    info = np.iinfo(dtype.value)
    return np.arange(info.min, info.max + 1, dtype=np.int64)


@dataclass(frozen=True)
class Factor:
    """A real number: multiplier * 2^(shift - 31)."""

    multiplier: int
    shift: int


def make_factor(real: float) -> Factor:
    """The factor nearest to a real number that is not negative."""
    fraction, shift = frexp(real)
    multiplier = floor(fraction * 2.0**31 + 0.5)
    if multiplier == 2**31:
        multiplier, shift = 2**30, shift + 1
    return Factor(0, 0) if shift < -31 else Factor(multiplier, shift)


def high_product(x: Any, multiplier: Any) -> I64:
    """The product `x` * multiplier / 2^31, halves up."""
    return np.asarray((np.asarray(x, np.int64) * multiplier + 2**30) >> 31, np.int64)


def shifted(x: Any, right: Any) -> I64:
    """The quotient of `x` by 2^right, halves away from zero."""
    wide, by = np.asarray(x, np.int64), np.asarray(right, np.int64)
    half = np.where(by > 0, np.left_shift(1, np.maximum(by - 1, 0)), 0)
    return np.asarray((wide + half - ((wide < 0) & (by > 0))) >> by, np.int64)


def rescaled(x: Any, multiplier: Any, shift: Any) -> I64:
    """Numbers times a factor; the shift to the left wraps around, as int32 does."""
    left, right = np.maximum(shift, 0), np.maximum(-np.asarray(shift, np.int64), 0)
    wide = (np.asarray(x, np.int64) << left).astype(np.int32)
    return shifted(high_product(wide, multiplier), right)


def shorter(factor: Factor) -> Factor:
    """The factor with a multiplier of 15 bits, for `rescaled_wide`."""
    return Factor(min((factor.multiplier + 2**15) >> 16, 2**15 - 1), factor.shift)


def rescaled_wide(x: Any, multiplier: Any, shift: Any) -> I64:
    """Numbers of at most 48 bits times a shorter factor, halves up."""
    right = 15 - np.asarray(shift, np.int64)
    wide = np.asarray(x, np.int64) * np.asarray(multiplier, np.int64)
    return np.asarray((wide + np.left_shift(np.int64(1), right - 1)) >> right, np.int64)


def by_factor(x: Any, factor: Factor) -> I64:
    """Numbers times a factor."""
    return rescaled(x, factor.multiplier, factor.shift)


def away(x: Any) -> NDArray[np.float64]:
    """Rounded to an integer, halves away from zero."""
    wide = np.asarray(x, np.float64)
    return np.asarray(np.copysign(np.floor(np.abs(wide) + 0.5), wide), np.float64)
