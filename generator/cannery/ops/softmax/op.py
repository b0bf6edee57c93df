"""Softmax and its logarithm along one axis."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.numeric import F64, f64, keep_axes, tree_sum
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_axis, require_float
from cannery.ops.functions import exp, log


@dataclass(frozen=True)
class _AlongAxis(Op):
    axis: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The input's type; raises ModelError unless 0 <= axis < rank."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        require_axis(self, self.axis, x.rank)
        require(x.shape[self.axis] >= 1, self, f"axis {self.axis} is empty")
        return (x,)

    def _shifted(self, inputs: tuple[RefArray | None, ...]) -> tuple[F64, F64]:
        """The input minus its maximum, and the sum of its exponentials, both broadcastable."""
        (x_in,), _ = operands(self, inputs, 1)
        x = f64(x_in)
        shifted = x - x.max(axis=self.axis, keepdims=True)
        axes = (self.axis,)
        return shifted, keep_axes(x, tree_sum(exp(shifted), axes), axes)


@register
@dataclass(frozen=True)
class Softmax(_AlongAxis):
    """x -> exp(x - max) / sum(exp(x - max)) along `axis` (0 <= axis < rank)."""

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """As written above."""
        shifted, total = self._shifted(inputs)
        return (exp(shifted) / total,)


@register
@dataclass(frozen=True)
class LogSoftmax(_AlongAxis):
    """x -> (x - max) - log(sum(exp(x - max))) along `axis` (0 <= axis < rank)."""

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """As written above."""
        shifted, total = self._shifted(inputs)
        return (shifted - log(total),)
