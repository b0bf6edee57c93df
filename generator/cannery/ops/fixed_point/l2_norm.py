"""Bytes divided by the norm of their row, in fixed point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_type
from cannery.ops.fixed_point.arithmetic import rescaled
from cannery.ops.fixed_point.inverse_root import inverse_root
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body

#: Most elements of a row: the sum of their squares fits int32.
MOST = (2**31 - 1) // 255**2

#: Results are in units of 2^-7.
_BITS = 7


@register
@dataclass(frozen=True)
class FixedL2Norm(ScalarOp):
    """x[...,C] of bytes with a zero point -> y of the same type, in units of 2^-7, whose zero point
    is 0, of uint8 128; rows of zeros stay zeros.
    """

    zero: int

    scalar_math: ClassVar[bool] = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x."""
        (x,), _ = operands(self, inputs, 1)
        require_type(x.dtype in (DType.INT8, DType.UINT8), self, f"of {x.dtype.value}")
        require(x.rank > 0 and 0 < x.shape[-1] <= MOST, self, f"of {x.shape}")
        info = np.iinfo(x.dtype.value)
        require(info.min <= self.zero <= info.max, self, f"a zero point of {self.zero}")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Row by row, in int64; signed numbers are shifted to the left once, unsigned ones before
        their product.
        """
        (x,), _ = operands(self, inputs, 1)
        rows = x.astype(np.int64).reshape(-1, x.shape[-1]) - self.zero
        found = np.zeros_like(rows)
        for row, y in zip(rows, found, strict=True):
            root = inverse_root(int((row * row).sum()))
            if x.dtype == np.int8:
                y[:] = rescaled(row, root.multiplier, root.shift + _BITS)
            else:
                y[:] = rescaled(row << _BITS, root.multiplier, root.shift) + 128
        info = np.iinfo(x.dtype)
        return (np.clip(found, info.min, info.max).astype(x.dtype).reshape(x.shape),)

    def write(self, c: Body) -> None:
        """Two passes over each row."""
        x, y = c.input(0), c.output
        info, signed = np.iinfo(x.type.dtype.value), x.type.dtype is DType.INT8
        with c.nest("i", x.shape[:-1]) as row:
            c("int32_t sum = 0, root, shift;")
            with c.loop("k", x.shape[-1]) as k:
                c(f"const int32_t d = {x.at(*row, k)} - {self.zero};")
                c("sum += d * d;")
            c("root = cannery_inverse_root(sum, &shift);")
            with c.loop("k", x.shape[-1]) as k:
                c(f"const int32_t d = {x.at(*row, k)} - {self.zero};")
                value = f"cannery_rescaled(d, root, shift + {_BITS})"
                if not signed:
                    value = f"cannery_rescaled(d * {1 << _BITS}, root, shift) + 128"
                c(f"{y.at(*row, k)} = ({y.c})cannery_bounded({value}, {info.min}, {info.max});")
