"""Squared distances between samples and stored vectors."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.numeric import f64, keep_axes, tree_sum
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body


@register
@dataclass(frozen=True)
class SquaredDistances(ScalarOp):
    """x [N, F], vectors [V, F] -> [N, V]: the sums of the squared differences."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """Raises ModelError unless both have as many features."""
        (x, vectors), _ = operands(self, inputs, 2)
        require_float(self, x, vectors)
        fits = x.rank == vectors.rank == 2 and x.shape[1] == vectors.shape[1]
        require(fits, self, f"samples {x.shape} and vectors {vectors.shape}")
        return (TensorType((x.shape[0], vectors.shape[0])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """As written above."""
        (x, vectors), _ = operands(self, inputs, 2)
        apart = f64(x)[:, None, :] - f64(vectors)[None, :, :]
        return (keep_axes(apart, tree_sum(apart * apart, (2,)), (2,))[:, :, 0],)

    def write(self, c: Body) -> None:
        """Vector by vector."""
        x, vectors = c.input(0), c.input(1)
        with c.loop("i", x.shape[0]) as i, c.loop("j", vectors.shape[0]) as j:
            c("float sum = 0.0f;")
            with c.loop("k", x.shape[1]) as k:
                c(f"const float d = {x.at(i, k)} - {vectors.at(j, k)};")
                c("sum += d * d;")
            c(f"{c.output.at(i, j)} = sum;")
