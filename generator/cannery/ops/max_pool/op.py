"""Maximum over sliding windows, channels last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import f64
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.window import Pads, output_sizes, require_no_empty_window, tap_slices


@register
@dataclass(frozen=True)
class MaxPool(Op):
    """x[N,*S,C] -> y[N,*O,C]. Padding never wins: it counts as -infinity. NaN propagates."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for bad attributes or a window of mere padding."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        require(x.rank >= 3, self, f"input has rank {x.rank}, expected batch, space and channels")
        window = (self.kernel, self.strides, self.pads, self.dilations)
        sizes = output_sizes(self, x.shape[1:-1], *window)
        require_no_empty_window(self, x.shape[1:-1], sizes, *window)
        return (TensorType((x.shape[0], *sizes, x.shape[-1])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tap by tap; exact in any order."""
        (x_in,), _ = operands(self, inputs, 1)
        x = f64(x_in)
        sizes = output_sizes(
            self, x.shape[1:-1], self.kernel, self.strides, self.pads, self.dilations
        )
        padded = np.pad(x, ((0, 0), *self.pads, (0, 0)), constant_values=-np.inf)
        y = np.full((x.shape[0], *sizes, x.shape[-1]), -np.inf)
        for _, slices in tap_slices(self.kernel, sizes, self.strides, self.dilations):
            np.maximum(y, padded[slices], out=y)
        return (y,)
