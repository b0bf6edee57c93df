"""Running sums and products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require_axis, require_type
from cannery.ops.elementwise.integers import wrapped
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body


@dataclass(frozen=True)
class _Cumulative(ScalarOp):
    """x -> for each element, all elements up to it along `axis`, combined in order.

    `exclusive` omits the element itself; `reverse` begins at the end. Integers wrap.
    """

    axis: int
    exclusive: bool = False
    reverse: bool = False

    sign: ClassVar[str]
    start: ClassVar[int]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x; raises UnsupportedError for bool."""
        (x,), _ = operands(self, inputs, 1)
        require_axis(self, self.axis, x.rank)
        require_type(x.dtype is not DType.BOOL, self, "does not work on bool")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """By numpy, which adds in order."""
        (x,), _ = operands(self, inputs, 1)
        rows: Numeric = np.moveaxis(x, self.axis, 0)
        rows = rows[::-1] if self.reverse else rows
        running = np.cumsum if self.sign == "+" else np.cumprod
        with np.errstate(all="ignore"):
            y = running(rows, axis=0, dtype=x.dtype)
        if self.exclusive and len(y):
            y = np.concatenate([np.full_like(y[:1], self.start), y[:-1]])
        y = y[::-1] if self.reverse else y
        return (np.moveaxis(y, 0, self.axis),)

    def write(self, c: Body) -> None:
        """One pass along the axis for each position on the other axes."""
        x = c.input(0)
        size = x.shape[self.axis]
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        dtype = x.type.dtype
        plain = dtype is DType.FLOAT32
        joined = f"sum {self.sign} v" if plain else wrapped(dtype, self.sign)("sum", "v")
        with c.nest("i", before) as i, c.nest("k", after) as k:
            c(f"{x.c} sum = {self.start};")
            with c.loop("j", size) as j:
                at = f"{size - 1} - {j}" if self.reverse else j
                y = c.output.at(*i, at, *k)
                c(f"const {x.c} v = {x.at(*i, at, *k)};")
                if self.exclusive:
                    c(f"{y} = sum;")
                c(f"sum = {joined};")
                if not self.exclusive:
                    c(f"{y} = sum;")


@register
@dataclass(frozen=True)
class CumSum(_Cumulative):
    """Running sums."""

    sign: ClassVar[str] = "+"
    start: ClassVar[int] = 0


@register
@dataclass(frozen=True)
class CumProd(_Cumulative):
    """Running products."""

    sign: ClassVar[str] = "*"
    start: ClassVar[int] = 1
