"""Sums of up to 48 bits times real numbers: by factors of 15 bits, or in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import register
from cannery.ir.tensor import DType
from cannery.ops.checks import require_type
from cannery.ops.fixed_point.arithmetic import away, rescaled_wide
from cannery.ops.fixed_point.pointwise import ToIntegers


@dataclass(frozen=True)
class _Wide(ToIntegers):
    def wide_result_of(self, expression: str) -> str:
        """C expression of a result, from one of 64 bits."""
        bounds = f"{self.minimum - self.zero}, {self.maximum - self.zero}"
        word = f"cannery_bounded_wide({expression}, {bounds})"
        return f"({self.dtype.c_name})({word} + {self.zero})"


@register
@dataclass(frozen=True)
class WideRescale(_Wide):
    """x int64, multiplier, shift (int32, which broadcast) -> x * multiplier * 2^(shift - 15).

    |x| < 2^47, 0 <= multiplier < 2^15 and -31 <= shift <= 14.
    """

    arity: ClassVar[int] = 3

    def result(self, *dtypes: DType) -> DType:
        """Of int64."""
        right = dtypes == (DType.INT64, DType.INT32, DType.INT32)
        require_type(right, self, "takes int64, by factors of int32")
        return self.check()

    def value(self, *arrays: Numeric) -> Numeric:
        """See `arithmetic`."""
        return self.clamped(rescaled_wide(*arrays))

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        return self.wide_result_of(f"cannery_rescaled_wide({', '.join(args)})")


@register
@dataclass(frozen=True)
class DoubleRescale(_Wide):
    """x int32 or int64, the bits of a float64 as int64 -> their product, halves away from zero."""

    arity: ClassVar[int] = 2

    def result(self, *dtypes: DType) -> DType:
        """Of sums."""
        right = dtypes[0] in (DType.INT32, DType.INT64) and dtypes[1] is DType.INT64
        require_type(right, self, f"of {dtypes[0].value} by {dtypes[1].value}")
        return self.check()

    def value(self, *arrays: Numeric) -> Numeric:
        """One rounding in float64, one to an integer."""
        x, bits = arrays
        product = x.astype(np.float64) * bits.copy(order="C").view(np.float64)
        return self.clamped(np.clip(away(product), -(2.0**40), 2.0**40))

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        return self.wide_result_of(f"cannery_product_away({', '.join(args)})")
