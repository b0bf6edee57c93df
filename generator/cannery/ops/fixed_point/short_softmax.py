"""Softmax of int16: exponentials and the reciprocal of their sum by tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_axis, require_shape, require_type
from cannery.ops.fixed_point.arithmetic import Factor, by_factor
from cannery.ops.fixed_point.softmax import largest_of_row
from cannery.ops.fixed_point.tables import ENTRIES, looked_up, short_table
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body

#: Most elements of a row: their sum fits int32.
_MOST = 2**16 - 1

#: How far below the largest element exponentials are told from 0.
REACH = 10.0


def exponentials() -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    """From -REACH to 0, in units of 2^-15."""
    return short_table(np.exp, np.float64(-REACH), np.float64(0), 2.0 / 65535)


def reciprocals() -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    """1 / (1 + x) from 0 to 1, in units of 2^-15."""
    return short_table(lambda x: 1 / (1 + x), np.float64(0), np.float64(1), 2.0 / 65535)


@register
@dataclass(frozen=True)
class ShortSoftmax(ScalarOp):
    """x[...,C] int16, exponentials, reciprocals -> probabilities in units of 2^-15.

    `factor` makes units of REACH / 65535 of differences.
    """

    factor: Factor

    scalar_math: ClassVar[bool] = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x."""
        (x, *tables), _ = operands(self, inputs, 3)
        for table in tables:
            require_shape(self, "table", table, (ENTRIES,))
        require_type({t.dtype for t in (x, *tables)} == {DType.INT16}, self, "takes int16")
        require_axis(self, x.rank - 1, x.rank)
        require(0 < x.shape[-1] <= _MOST, self, f"of {x.shape[-1]} elements")
        f = self.factor
        require(0 <= f.multiplier < 2**31 and -31 <= f.shift <= 14, self, f"a factor of {f}")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In int64."""
        arrays, _ = operands(self, inputs, 3)
        x, of_exp, of_inverse = (a.astype(np.int64) for a in arrays)
        down = by_factor(x - x.max(axis=-1, keepdims=True), self.factor)
        terms = looked_up(np.clip(down + 32767, -32768, 32767), of_exp)
        total = terms.sum(axis=-1, keepdims=True)
        lead = 31 - np.floor(np.log2(np.maximum(total, 1).astype(np.float64))).astype(np.int64)
        ones = (np.left_shift(total, lead - 1) + 2**13) >> 14
        inverse = looked_up(np.clip(ones - 2**15 - 2**16, -32768, 32767), of_inverse)
        right = 31 - lead
        found = (terms * inverse + np.left_shift(np.int64(1), right - 1)) >> right
        return (np.clip(found, 0, 32767).astype(np.int16),)

    def write(self, c: Body) -> None:
        """Three passes over each row; the result holds the exponentials in between."""
        x, exps, inverses, y = c.input(0), c.input(1), c.input(2), c.output
        with c.nest("i", x.shape[:-1]) as row:
            c(f"int largest = {x.at(*row, '0')}, right = 0;")
            c("int32_t sum = 0, inverse;")
            largest_of_row(c, x, row)
            with c.loop("k", x.shape[-1]) as k:
                factor = f"{self.factor.multiplier}, {self.factor.shift}"
                c(f"const int32_t d = cannery_rescaled({x.at(*row, k)} - largest, {factor});")
                bounded = "(int16_t)cannery_bounded(d + 32767, -32768, 32767)"
                c(f"{y.at(*row, k)} = cannery_looked_up({bounded}, {exps.name});")
                c(f"sum += {y.at(*row, k)};")
            c(f"inverse = cannery_inverse_of_shorts(sum, {inverses.name}, &right);")
            with c.loop("k", x.shape[-1]) as k:
                c(f"const int32_t v = ({y.at(*row, k)} * inverse + (1 << (right - 1))) >> right;")
                c(f"{y.at(*row, k)} = (int16_t)cannery_bounded(v, 0, 32767);")
