"""Products of 64 bits that give the integers of fixed-point factors, with fewer roundings.

    t = (sum << left) * multiplier[N] >> 32
    y = (t + away[N] * sign(t) + half[N]) >> shift[N]

`half` has the zero point, too. TensorFlow Lite's factors round twice: with M / 2^31 to an integer,
halves up, and by 2^-r, halves away from zero. With left = 2, the first product keeps one bit more,
t = 2 sum M / 2^31 rounded down, so both roundings become one addition: 2^r, and 1 more away from
zero. That is exact. Where every channel must be shifted by the same number, multipliers lose bits;
then it is proved of all sums that the clamped results are the same. Results rise with sums, so it
is enough to compare them on both sides of each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import I64, rescaled
from cannery.ops.fixed_point.arithmetic import away as rounded_away
from cannery.ops.quantized.matmul import QuantizedProduct

#: No shift to the right after the first one by 32 bits is larger.
_MOST_SHIFT = 21

#: The bits by which sums are shifted to the left so that the result is exact.
_EXACT_LEFT = 2

#: A multiplier loses at most so many bits.
_MOST_LOST = 12

#: What all sums are within, and all numbers in between.
_BEYOND = 2**31

#: How far from its place by real numbers a step may be, in sums.
_NEAR = 3

#: So many steps are compared at a time: int16 has 65,535 of them for each channel.
_STEPS = 1024

#: The results of sums[..., N], before they are clamped.
Rounding = Callable[[I64], I64]


@dataclass(frozen=True)
class LongProduct:
    """See the module docstring: arrays [N]."""

    multiplier: NDArray[np.int32]
    half: NDArray[np.int32]
    shift: NDArray[np.int32]
    away: NDArray[np.int32]
    left: int = 0

    def value(self, sums: I64) -> I64:
        """The results for sums[..., N]."""
        high = (sums << self.left) * self.multiplier.astype(np.int64) >> 32
        return np.asarray((high + self.away * np.sign(high) + self.half) >> self.shift)


def product_of_doubles(
    op: QuantizedProduct, factors: NDArray[np.float64], largest: I64
) -> LongProduct | None:
    """One that gives the same clamped results as factors[N] in float64, halves away from zero, for
    all sums within +-largest[N]; None if there is none.
    """
    zero = op.zero or 0
    shift = -1 - np.frexp(factors)[1].astype(np.int64)
    if (shift < 1).any() or (shift > _MOST_SHIFT).any() or (largest >= _BEYOND).any():
        return None
    half = (np.int64(1) << (shift - 1)) + zero * (np.int64(1) << shift)
    nearest = np.floor(np.ldexp(factors, 32 + shift) + 0.5).astype(np.int64)

    def wanted(sums: I64) -> I64:
        return np.asarray(rounded_away(sums * factors) + zero, np.int64)

    first = _product(nearest, half, shift, np.zeros_like(shift))
    return _found(first, nearest, op, factors, largest, wanted)


def product_of_two_roundings(
    op: QuantizedProduct, factors: tuple[I64, I64], largest: I64, *, alike: bool
) -> LongProduct | None:
    """One that gives the same clamped results as multiplier[N] and shift[N] to the right, for all
    sums within +-largest[N]; None if there is none. `alike`: all channels are shifted by the same
    number.
    """
    multiplier, right = factors
    least = int(right.min())
    lost = right - least if alike else np.zeros_like(right)
    exact, bytes_ = not lost.any(), op.dtype is not DType.INT16
    if (right < 1).any() or lost.max() > _MOST_LOST or not (exact or bytes_):
        return None
    left = _EXACT_LEFT
    if not exact:  # finer steps make up for the lost bits
        left = min(31 - int(largest.max()).bit_length(), _MOST_SHIFT + 2 - least)
    nearest = np.minimum((multiplier + (1 << lost >> 1)) >> lost, _BEYOND - 1)
    first = _twice_rounded(op, nearest, right, lost, left)
    if left < _EXACT_LEFT or first is None or _overflows(first, largest):
        return None
    if exact:
        return first
    zero, real = op.zero or 0, np.ldexp(multiplier.astype(np.float64), -31 - right)
    return _found(
        first, nearest, op, real, largest, lambda sums: rescaled(sums, multiplier, -right) + zero
    )


def _twice_rounded(
    op: QuantizedProduct, multiplier: I64, right: I64, lost: I64, left: int
) -> LongProduct | None:
    """The product with these multipliers; None if a number does not fit."""
    assert op.held is not None
    shift, zero = right - lost + left - 1, op.zero or 0
    half = np.left_shift(np.int64(1), shift - 1) + np.left_shift(np.int64(zero), shift)
    more = np.left_shift(np.int64(1), max(left - 2, 0)) >> lost
    if op.held[0] >= zero:  # no result below the zero point is seen
        half, more = half + more, np.zeros_like(more)
    if (shift > _MOST_SHIFT + 1).any() or (np.abs(half) >= _BEYOND).any():
        return None
    return _product(multiplier, half, shift, more, left)


def _overflows(found: LongProduct, largest: I64) -> bool:
    """Whether a number in between may need more than 32 bits."""
    if (largest << found.left >= _BEYOND).any():
        return True
    high = (largest << found.left) * found.multiplier.astype(np.int64) >> 32
    added = (np.abs(each.astype(np.int64)) for each in (found.half, found.away))
    return bool((high + 1 + sum(added) >= _BEYOND).any())


def _found(
    first: LongProduct, nearest: I64, op: QuantizedProduct, factors: NDArray[np.float64],
    largest: I64, wanted: Rounding,
) -> LongProduct | None:  # fmt: skip
    """The product with multipliers next to the nearest ones that gives what is wanted."""
    wrong, multiplier = np.ones(nearest.shape, np.bool_), nearest
    for other in _outward(2):
        multiplier = np.where(wrong, np.clip(nearest + other, 0, _BEYOND - 1), multiplier)
        found = replace(first, multiplier=multiplier.astype(np.int32))
        wrong = _differs(found, op, factors, largest, wanted)
        if not wrong.any():
            return found
    return None


def _differs(
    found: LongProduct, op: QuantizedProduct, factors: NDArray[np.float64], largest: I64,
    wanted: Rounding,
) -> NDArray[np.bool_]:  # fmt: skip
    """Of which channels a product gives another result for any sum.

    What is wanted rises within two sums of where real numbers would: sums on both sides of that are
    tried for every step.
    """
    assert op.held is not None
    zero, (low, high) = op.zero or 0, op.held
    steps = np.arange(low - zero + 1, high - zero + 1, dtype=np.float64)[:, None]
    differs = np.zeros(factors.shape, np.bool_)
    for first, more in product(range(0, len(steps), _STEPS), range(-_NEAR, _NEAR + 1)):
        with np.errstate(all="ignore"):
            places = (steps[first : first + _STEPS] - 0.5) / factors
        near = np.floor(np.nan_to_num(places, nan=0.0)) + more
        sums = np.clip(near, -largest, largest).astype(np.int64)
        clamped = (np.clip(each, low, high) for each in (found.value(sums), wanted(sums)))
        differs |= np.not_equal(*clamped).any(axis=0)
        if differs.all():
            break
    return differs


def _outward(most: int) -> Iterable[int]:
    """0, -1, 1, -2 ..."""
    return sorted(range(-most, most + 1), key=abs)


def _product(multiplier: I64, half: I64, shift: I64, away: I64, left: int = 0) -> LongProduct:
    def narrow(numbers: I64) -> NDArray[np.int32]:
        return numbers.astype(np.int32)

    return LongProduct(narrow(multiplier), narrow(half), narrow(shift), narrow(away), left)
