"""Products of two quantised bytes in fixed point by floats, where all results are the same.

    y = d f + h, where d >= 0, else d f - h; rounded to float32 each time, then towards zero

Here d is a product of two bytes less their zero points, which floats hold, and h is 1/2 and, in
units of results, half of what the first rounding of fixed point leaves (see `arithmetic`). There
are at most 65,536 of them: a factor is tried on all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ldexp

import numpy as np

from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import I64, all_numbers, by_factor
from cannery.ops.fixed_point.pointwise import FixedProduct
from cannery.ops.quantized.arithmetic import F32

#: Results before they are clamped, whose floats have a place after the point.
_MOST = 2.0**22

#: Factors that are tried: so many neighbours below and above the one in fixed point.
_TRIED = (0, -1, 1, -2, 2)


@dataclass(frozen=True)
class FloatProduct:
    """See the module docstring."""

    factor: float
    half: float

    def value(self, products: I64) -> I64:
        """The results before they are clamped."""
        floats: F32 = products.astype(np.float32)
        scaled = floats * np.float32(self.factor)
        return np.asarray((scaled + np.copysign(np.float32(self.half), floats)).astype(np.int64))


@cache
def float_product(op: FixedProduct, dtypes: tuple[DType, DType]) -> FloatProduct | None:
    """The form that gives the same as `op` for all bytes of these types; None if none was found."""
    a, b = (all_numbers(dtype) - zero for dtype, zero in zip(dtypes, op.zeros, strict=True))
    products = np.unique(np.multiply.outer(a, b))
    real = ldexp(op.factor.multiplier, op.factor.shift - 31)
    if op.factor.shift >= 0 or float(np.abs(products).max()) * real >= _MOST:
        return None
    wanted = op.clamped(by_factor(products, op.factor))
    bits = np.float32(real).view(np.int32)
    for more in _TRIED:
        factor = float((bits + np.int32(more)).view(np.float32))
        found = FloatProduct(factor, 0.5 + ldexp(0.5, op.factor.shift))
        if np.array_equal(op.clamped(found.value(products)), wanted):
            return found
    return None
