"""Concatenation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_axis


@register
@dataclass(frozen=True)
class Concat(Op):
    """x0, x1, ... -> y, joined along `axis` (0 <= axis < rank); any dtype, the same for all."""

    axis: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError if another axis or the dtype differs."""
        require(len(inputs) >= 1, self, "needs at least one input")
        xs, _ = operands(self, inputs, len(inputs))
        first = xs[0]
        require_axis(self, self.axis, first.rank)
        before, after = first.shape[: self.axis], first.shape[self.axis + 1 :]
        for x in xs:
            around = (x.shape[: self.axis], x.shape[self.axis + 1 :])
            fits = x.rank == first.rank and around == (before, after)
            require(fits, self, f"shapes {first.shape} and {x.shape} differ off axis {self.axis}")
            require(x.dtype is first.dtype, self, f"joins {first.dtype.value} and {x.dtype.value}")
        total = sum(x.shape[self.axis] for x in xs)
        return (TensorType((*before, total, *after), first.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Copies."""
        xs, _ = operands(self, inputs, len(inputs))
        return (np.concatenate(xs, axis=self.axis),)
