"""Sums of a few weighted elements along one axis, for what `Resize` does not do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import f64
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_axis, require_float
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body


@register
@dataclass(frozen=True)
class Interpolate(ScalarOp):
    """x, places int32[O,K], weights[O,K] -> y with O along `axis`.

    y[.., o, ..] is the sum over k of weights[o,k] * x[.., places[o,k], ..]. Places are constants
    within the axis.
    """

    axis: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for tables that do not fit."""
        (x, places, weights), _ = operands(self, inputs, 3)
        require_float(self, x, weights)
        require_axis(self, self.axis, x.rank)
        sound = places.dtype is DType.INT32 and places.rank == 2 and places.shape == weights.shape
        require(sound, self, f"tables of shapes {places.shape} and {weights.shape}")
        require(x.shape[self.axis] > 0, self, "its axis is empty")
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        return (TensorType((*before, places.shape[0], *after)),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Ascending k."""
        (x_in, places, weights_in), _ = operands(self, inputs, 3)
        x, weights = f64(x_in), f64(weights_in)
        shape = [1] * x.ndim
        shape[self.axis] = -1
        y = np.zeros((*x.shape[: self.axis], len(places), *x.shape[self.axis + 1 :]))
        for k in range(places.shape[1]):
            y += x.take(places[:, k], self.axis) * weights[:, k].reshape(shape)
        return (y,)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per output element and weight."""
        (_, places, _), _ = operands(self, inputs, 3)
        return int(outputs[0].elements * places.shape[1])

    def write(self, c: Body) -> None:
        """Along the later axes, weight by weight."""
        x, places, weights = (c.input(k) for k in range(3))
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        count, taps = places.shape
        with c.nest("i", before) as i, c.loop("o", count) as o:
            with c.nest("j", after) as j:
                c(f"{c.output.at(*i, o, *j)} = 0.0f;")
            with c.loop("k", taps) as k:
                c(f"const int p = {places.at(o, k)};")
                c(f"const float w = {weights.at(o, k)};")
                with c.nest("j", after) as j:
                    c(f"{c.output.at(*i, o, *j)} += w * {x.at(*i, 'p', *j)};")
                if x.shape[self.axis] == 1:
                    c("(void)p;")
