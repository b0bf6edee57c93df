"""Logarithms of the softmax of bytes in fixed point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_axis, require_shape, require_type
from cannery.ops.fixed_point.arithmetic import Factor, by_factor, shifted
from cannery.ops.fixed_point.logarithm import logarithm
from cannery.ops.fixed_point.softmax import MOST, SUM_BITS, sum_of_row
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body

#: Bits of a difference with five integer bits below those of the result, whose unit is 2^-4.
_BELOW = 22


@register
@dataclass(frozen=True)
class FixedLogSoftmax(ScalarOp):
    """x[...,C] of bytes, table int32[256] -> y of the same type, along the last axis.

    The table is that of `FixedSoftmax`. Results are the largest number of the type less the
    distance from 0 in units of 2^-4. `factor` makes differences of x numbers with five integer
    bits, `back` the reverse; differences of more than `reach` count nothing.
    """

    factor: Factor
    back: Factor
    reach: int

    scalar_math: ClassVar[bool] = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x."""
        (x, table), _ = operands(self, inputs, 2)
        require_type(x.dtype in (DType.INT8, DType.UINT8), self, f"of {x.dtype.value}")
        require_axis(self, x.rank - 1, x.rank)
        require(0 < x.shape[-1] <= MOST, self, f"of {x.shape[-1]} elements")
        require(table.dtype is DType.INT32, self, f"a table of {table.dtype.value}")
        require_shape(self, "table", table, (256,))
        for each in (self.factor, self.back):
            sound = 0 <= each.multiplier < 2**31 and -31 <= each.shift <= 31
            require(sound, self, f"a factor of {each}")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In int64."""
        (x, table), _ = operands(self, inputs, 2)
        wide, info = x.astype(np.int64), np.iinfo(x.dtype)
        down = wide - wide.max(axis=-1, keepdims=True)
        total = shifted(table.astype(np.int64)[-down], SUM_BITS).sum(axis=-1, keepdims=True)
        log = logarithm(total)
        least = np.maximum(-self.reach - 1, by_factor(log - 2**31, self.back))
        units = shifted(by_factor(np.maximum(down, least), self.factor) - log, _BELOW)
        found = np.where(down > least, np.clip(units + info.max, info.min, info.max), info.min)
        return (found.astype(x.dtype),)

    def write(self, c: Body) -> None:
        """Three passes over each row."""
        x, table, y = c.input(0), c.input(1), c.output
        info = np.iinfo(x.type.dtype.value)
        factor, back = (f"{f.multiplier}, {f.shift}" for f in (self.factor, self.back))
        with c.nest("i", x.shape[:-1]) as row:
            c(f"int32_t largest = {x.at(*row, '0')};")
            c("int32_t sum = 0, least;")
            sum_of_row(c, x, table, row)
            c(f"sum = cannery_logarithm(sum, {SUM_BITS});")
            c(f"least = cannery_rescaled(sum + INT32_MIN, {back});")
            c(f"least = least > {-self.reach - 1} ? least : {-self.reach - 1};")
            with c.loop("k", x.shape[-1]) as k:
                c(f"const int32_t down = {x.at(*row, k)} - largest;")
                c(f"int32_t v = {info.min - info.max};")
                c("if (down > least) {")
                c(f"    v = cannery_shifted(cannery_rescaled(down, {factor}) - sum, {_BELOW});")
                c("}")
                bounds = f"{info.min}, {info.max}"
                c(f"{y.at(*row, k)} = ({y.c})cannery_bounded(v + {info.max}, {bounds});")
