"""Quotients of integers in fixed point: by a reciprocal of 31 bits from Newton's steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import register
from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import I64, Factor, high_product, shifted
from cannery.ops.fixed_point.pointwise import OfTwo
from cannery.ops.fixed_point.softmax import reciprocal


@register
@dataclass(frozen=True)
class FixedQuotient(OfTwo):
    """a, b -> f (a - za) / (b - zb); by 0 it is the largest result, of negative numbers the least.

    As in TensorFlow Lite, a - za and the reciprocal use all bits that 32 have, and the product is
    shifted to the right once. What would be shifted by more than 31 bits is 0.
    """

    factor: Factor

    def result(self, *dtypes: DType) -> DType:
        """The factor leaves the last shift one to the right."""
        self.check_factors(self.factor, largest=most_shift(*dtypes))
        return super().result(*dtypes)

    def value(self, *arrays: Numeric) -> Numeric:
        """See `cannery_quotient`."""
        a, b = (x.astype(np.int64) - z for x, z in zip(arrays, self.zeros, strict=True))
        a, b = np.broadcast_arrays(np.where(b < 0, -a, a), np.abs(b))
        inverse, over = reciprocal(np.maximum(b, 1), bits=31)
        room = _room(a)
        product = high_product(high_product(a << room, inverse), self.factor.multiplier)
        right = over + room - self.factor.shift
        found = np.where(right > 31, 0, shifted(product, np.minimum(right, 31)))
        return self.clamped(np.where(b == 0, np.where(a < 0, -(2**31), 2**31 - 1), found))

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        a, b = (f"{x} - {z}" for x, z in zip(args, self.zeros, strict=True))
        factor = f"{self.factor.multiplier}, {self.factor.shift}"
        return self.result_of(f"cannery_quotient({a}, {b}, {factor})")


def most_shift(*dtypes: DType) -> int:
    """The largest shift of a factor: numbers less their zero points have that much room."""
    return 15 if DType.INT16 in dtypes else 23


def _room(x: I64) -> I64:
    """How often numbers of 32 bits may be doubled."""
    size = np.where(x < 0, ~x, x)
    return np.asarray(31 - np.frexp(size.astype(np.float64))[1], np.int64)
