"""How many thresholds a number reaches: the activations of FINN."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_axis, require_float
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body


@register
@dataclass(frozen=True)
class CountThresholds(ScalarOp):
    """x, thresholds -> how many of them x is not less than, as float32.

    Thresholds are [channels, count], ascending, for the channels along `axis`; or [1, count] for
    all of them. NaN reaches none.
    """

    axis: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of x."""
        (x, thresholds), _ = operands(self, inputs, 2)
        require_float(self, x, thresholds)
        require_axis(self, self.axis, x.rank)
        fits = thresholds.rank == 2 and thresholds.shape[0] in (1, x.shape[self.axis])
        require(fits, self, f"thresholds of shape {thresholds.shape} for {x.shape}")
        require(thresholds.shape[1] < 2**24, self, "too many thresholds")
        return (x,)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """By numpy's search."""
        (x, thresholds), _ = operands(self, inputs, 2)
        rows = np.moveaxis(x, self.axis, 0)
        counts = np.empty(rows.shape)
        for channel, row in enumerate(rows):
            known = thresholds[channel if len(thresholds) > 1 else 0]
            counts[channel] = np.where(np.isnan(row), 0, np.searchsorted(known, row, "right"))
        return (np.moveaxis(counts, 0, self.axis),)

    def write(self, c: Body) -> None:
        """A binary search for each element."""
        x, thresholds = c.input(0), c.input(1)
        channels, count = thresholds.shape
        with c.nest("i", x.shape) as i:
            first = f" + {i[self.axis]} * {count}" if channels > 1 and i[self.axis] != "0" else ""
            c(f"const float *const t = {thresholds.name}{first};")
            c(f"const float v = {x.at(*i)};")
            c(f"int low = 0, high = {count};")
            with c.block("while (low < high)"):
                c("const int middle = (low + high) / 2;")
                with c.block("if (v >= t[middle])"):
                    c("low = middle + 1;")
                with c.block("else"):
                    c("high = middle;")
            c(f"{c.output.at(*i)} = (float)low;")
