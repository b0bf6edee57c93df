"""Maximum over sliding windows, channels last."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from cannery.ir.numeric import f64
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.window import WindowOp


@register
@dataclass(frozen=True)
class MaxPool(WindowOp):
    """x[N,*S,C] -> y[N,*O,C]. Padding never wins: it counts as -infinity. NaN propagates."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for bad attributes or a window of mere padding."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        require(x.rank >= 3, self, f"input has rank {x.rank}, expected batch, space and channels")
        return (TensorType((x.shape[0], *self.sizes(x.shape[1:-1]), x.shape[-1])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tap by tap; exact in any order."""
        (x,), _ = operands(self, inputs, 1)
        return (reduce(np.maximum, self.taps(f64(x), -np.inf)),)
