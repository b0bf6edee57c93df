"""Softmax of bytes in fixed point: a table of exponentials, and a reciprocal by Newton's steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_axis, require_shape, require_type
from cannery.ops.fixed_point.arithmetic import I64, high_product, shifted
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body, Tensor

_BYTES = (DType.INT8, DType.UINT8)

#: Integer bits of the sum, which is that of at most as many elements.
SUM_BITS, MOST = 12, 2**12 - 1

#: 48/17 and -32/17 with two integer bits: Newton's first guess of a reciprocal.
_GUESS, _SLOPE, _ONE = 1515870810, -1010580540, 2**29


def reciprocal(total: I64, bits: int = SUM_BITS) -> tuple[I64, I64]:
    """1 / total as a raw number without integer bits, and the bits by which it is too large.

    `total` is a positive raw number with `bits` integer bits, by default at least 1.
    """
    lead = 31 - np.floor(np.log2(total.astype(np.float64))).astype(np.int64)
    rest = (total << lead) - 2**31
    half = (rest + 2**31) // 2  # of the rest plus 2^31 - 1, rounded
    x = _GUESS + high_product(half, _SLOPE)
    for _ in range(3):
        x = x + (high_product(x, _ONE - high_product(half, x)) << 2)
    return np.minimum(x << 1, 2**31 - 1), bits - lead


@register
@dataclass(frozen=True)
class FixedSoftmax(ScalarOp):
    """x[...,C], table int32[256] -> y of `dtype`, along the last axis.

    The table has the exponentials of 0, -1, -2 ... without integer bits. The results are the least
    number of the dtype plus probabilities in units of 2^-8, or 2^-16 for int16.
    """

    dtype: DType

    scalar_math: ClassVar[bool] = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of x."""
        (x, table), _ = operands(self, inputs, 2)
        narrow = x.dtype in _BYTES and self.dtype in (x.dtype, DType.INT16)
        require_type(narrow, self, f"of {x.dtype.value} to {self.dtype.value}")
        require_axis(self, x.rank - 1, x.rank)
        require(0 < x.shape[-1] <= MOST, self, f"of {x.shape[-1]} elements")
        require(table.dtype is DType.INT32, self, f"a table of {table.dtype.value}")
        require_shape(self, "table", table, (256,))
        return (TensorType(x.shape, self.dtype),)

    @property
    def _bits(self) -> int:
        return 8 * self.dtype.bytes

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In int64."""
        (x, table), _ = operands(self, inputs, 2)
        wide = x.astype(np.int64)
        terms = table.astype(np.int64)[wide.max(axis=-1, keepdims=True) - wide]
        total = shifted(terms, SUM_BITS).sum(axis=-1, keepdims=True)
        scale, over = reciprocal(total)
        units = shifted(high_product(terms, scale), over + 31 - self._bits)
        info = np.iinfo(self.dtype.value)
        return (np.clip(units + info.min, info.min, info.max).astype(self.dtype.numpy),)

    def write(self, c: Body) -> None:
        """Three passes over each row."""
        x, table, y = c.input(0), c.input(1), c.output
        info = np.iinfo(self.dtype.value)
        with c.nest("i", x.shape[:-1]) as row:
            c(f"int largest = {x.at(*row, '0')};")
            c("int32_t sum = 0, scale, over;")
            sum_of_row(c, x, table, row)
            c(f"scale = cannery_reciprocal(sum, {SUM_BITS}, &over);")
            with c.loop("k", x.shape[-1]) as k:
                term = f"{table.name}[largest - {x.at(*row, k)}]"
                shift = f"over + {31 - self._bits}"
                c(f"const int32_t v = cannery_shifted(cannery_high({term}, scale), {shift});")
                bounds = f"{info.min}, {info.max}"
                c(f"{y.at(*row, k)} = ({y.c})cannery_bounded(v + {info.min}, {bounds});")


def sum_of_row(c: Body, x: Tensor, table: Tensor, row: Sequence[str]) -> None:
    """Adds to the C variable `sum` the exponentials of what a row lacks of its `largest` number.

    `largest` starts as the first one.
    """
    largest_of_row(c, x, row)
    with c.loop("k", x.shape[-1]) as k:
        term = f"{table.name}[largest - {x.at(*row, k)}]"
        c(f"sum += cannery_shifted({term}, {SUM_BITS});")


def largest_of_row(c: Body, x: Tensor, row: Sequence[str]) -> None:
    """Makes the C variable `largest`, which starts as the row's first number, its largest one."""
    with c.loop("k", x.shape[-1]) as k:
        place = x.at(*row, k)
        c(f"largest = {place} > largest ? {place} : largest;")
