"""From floats to 8-bit and 16-bit numbers and back: scales and zero points that broadcast.

All arithmetic is in float32 with one rounding per operation, also in the references: a quotient
between two numbers must round to the same one everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import register
from cannery.ir.tensor import DType
from cannery.ops.checks import require_type
from cannery.ops.scalar.base import Pointwise

#: Element types of quantised tensors.
QUANTISED = (DType.UINT8, DType.INT8, DType.UINT16, DType.INT16)


def quantised(values: Numeric, zero: Numeric) -> Numeric:
    """Round to nearest even, add the zero point, saturate to its dtype; NaN becomes the least
    number.
    """
    info = np.iinfo(zero.dtype)
    wide = zero.astype(np.int64)
    rounded = np.nan_to_num(np.rint(values).astype(np.float64), nan=-np.inf)
    inside = np.clip(rounded, info.min - wide, info.max - wide)
    return np.asarray((inside + wide).astype(zero.dtype))


def _quantised(dtype: DType, value: str, zero: str) -> str:
    """C expression for `quantised`."""
    info = np.iinfo(dtype.value)
    return f"({dtype.c_name})cannery_quantised({value}, {zero}, {info.min}, {info.max})"


def _f32(array: Numeric) -> Numeric:
    return array.astype(np.float32)


@register
@dataclass(frozen=True)
class QuantizeLinear(Pointwise):
    """x, scale, zero -> saturate(round(x / scale) + zero), of the zero point's dtype."""

    arity: ClassVar[int] = 3
    scalar_math: ClassVar[bool] = True

    def result(self, *dtypes: DType) -> DType:
        """The dtype of the zero point."""
        x, scale, zero = dtypes
        sound = x in (DType.FLOAT32, DType.INT32) and scale is DType.FLOAT32
        require_type(sound, self, f"{x.value} by a scale of {scale.value}")
        require_type(zero in QUANTISED, self, f"to {zero.value}")
        return zero

    def value(self, *arrays: Numeric) -> Numeric:
        """In float32."""
        x, scale, zero = arrays
        return quantised(_f32(x) / _f32(scale), zero)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        x, scale, zero = args
        source = x if dtypes[0] is DType.FLOAT32 else f"(float){x}"
        return _quantised(dtypes[2], f"{source} / {scale}", zero)


@register
@dataclass(frozen=True)
class DequantizeLinear(Pointwise):
    """x, scale, zero -> (x - zero) * scale."""

    arity: ClassVar[int] = 3

    def result(self, *dtypes: DType) -> DType:
        """Floats."""
        x, scale, zero = dtypes
        known = x in (*QUANTISED, DType.INT32) and x is zero
        require_type(known, self, f"{x.value} with a zero point of {zero.value}")
        require_type(scale is DType.FLOAT32, self, f"a scale of {scale.value}")
        return DType.FLOAT32

    def value(self, *arrays: Numeric) -> Numeric:
        """In float32."""
        x, scale, zero = arrays
        return (_f32(x) - _f32(zero)) * _f32(scale)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        x, scale, zero = args
        return f"((float){x} - (float){zero}) * {scale}"


@register
@dataclass(frozen=True)
class Requantize(Pointwise):
    """sum, a, b, c, zero -> saturate(round(sum * (a * b / c)) + zero): an int32 sum of products.

    a and b are the scales of the factors, c is that of the result.
    """

    arity: ClassVar[int] = 5
    scalar_math: ClassVar[bool] = True

    def result(self, *dtypes: DType) -> DType:
        """The dtype of the zero point."""
        floats = all(d is DType.FLOAT32 for d in dtypes[1:4])
        require_type(floats and dtypes[0] is DType.INT32, self, "scales are float32, sums int32")
        require_type(dtypes[4] in QUANTISED, self, f"to {dtypes[4].value}")
        return dtypes[4]

    def value(self, *arrays: Numeric) -> Numeric:
        """In float32."""
        total, a, b, c, zero = arrays
        return quantised(_f32(total) * (_f32(a) * _f32(b) / _f32(c)), zero)

    def expression(self, dtypes: tuple[DType, ...], args: tuple[str, ...]) -> str:
        """Exact."""
        total, a, b, c, zero = args
        return _quantised(dtypes[4], f"(float){total} * ({a} * {b} / {c})", zero)
