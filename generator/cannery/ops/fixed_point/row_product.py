"""Products of all elements of a row of integers, rescaled after each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_type
from cannery.ops.fixed_point.arithmetic import Factor, rescaled_wide
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body


@register
@dataclass(frozen=True)
class FixedRowProduct(ScalarOp):
    """x[...,C] of int8 or int16 with a zero point -> y[...] of the same type, with `to_zero`: the
    product of f x for all elements of a row, where f is a shorter factor, as `arithmetic` says.

    Products in between wrap around as int32 does.
    """

    zero: int
    to_zero: int
    factor: Factor

    scalar_math: ClassVar[bool] = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape without the last axis."""
        (x,), _ = operands(self, inputs, 1)
        require_type(x.dtype in (DType.INT8, DType.INT16), self, f"of {x.dtype.value}")
        require(x.rank > 0 and x.shape[-1] > 0, self, f"of {x.shape}")
        info = np.iinfo(x.dtype.value)
        for zero in (self.zero, self.to_zero):
            require(info.min <= zero <= info.max, self, f"a zero point of {zero}")
        sound = 0 <= self.factor.multiplier < 2**15 and -31 <= self.factor.shift <= 14
        require(sound, self, f"a factor of {self.factor}")
        return (TensorType(x.shape[:-1], x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In int64, element by element of the rows."""
        (x,), _ = operands(self, inputs, 1)
        wide, by = x.astype(np.int64) - self.zero, (self.factor.multiplier, self.factor.shift)
        found = wide[..., 0]
        for k in range(1, x.shape[-1]):
            found = rescaled_wide(found * wide[..., k], *by).astype(np.int32).astype(np.int64)
        info = np.iinfo(x.dtype)
        last = rescaled_wide(found, *by).astype(np.int32).astype(np.int64) + self.to_zero
        return (np.clip(last, info.min, info.max).astype(x.dtype),)

    def write(self, c: Body) -> None:
        """One pass over each row."""
        x, y = c.input(0), c.output
        info, by = np.iinfo(x.type.dtype.value), f"{self.factor.multiplier}, {self.factor.shift}"
        with c.nest("i", y.shape) as row:
            c(f"int64_t product = {x.at(*row, '0')} - {self.zero};")
            with c.loop("k", x.shape[-1] - 1) as k:
                c(f"product *= {x.at(*row, f'{k} + 1')} - {self.zero};")
                c(f"product = (int32_t)(uint32_t)cannery_rescaled_wide(product, {by});")
            c(f"product = (int32_t)(uint32_t)cannery_rescaled_wide(product, {by});")
            bounds = f"{info.min}, {info.max}"
            value = f"cannery_bounded_wide(product + {self.to_zero}, {bounds})"
            c(f"{y.at(*row)} = ({y.c}){value};")
