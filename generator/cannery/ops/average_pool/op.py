"""Mean over sliding windows, channels last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import F64, f64
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.window import Pads, output_sizes, require_no_empty_window, tap_slices


@register
@dataclass(frozen=True)
class AveragePool(Op):
    """x[N,*S,C] -> y[N,*O,C]. The divisor counts the taps within the input.

    With `count_include_pad` it counts all taps, so padding is zeros that take part. A window that
    reaches beyond counted padding (ONNX with ceil_mode) is Pad followed by AveragePool without it.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]
    count_include_pad: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for bad attributes or a window of mere padding."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        require(x.rank >= 3, self, f"input has rank {x.rank}, expected batch, space and channels")
        window = (self.kernel, self.strides, self.pads, self.dilations)
        sizes = output_sizes(self, x.shape[1:-1], *window)
        if not self.count_include_pad:
            require_no_empty_window(self, x.shape[1:-1], sizes, *window)
        return (TensorType((x.shape[0], *sizes, x.shape[-1])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Sums tap by tap in row-major order, then divides."""
        (x_in,), _ = operands(self, inputs, 1)
        x = f64(x_in)
        total = self._sum(x)
        inside = np.ones((1, *x.shape[1:-1], 1))
        if self.count_include_pad:
            return (total / float(np.prod(self.kernel)),)
        return (total / self._sum(inside),)

    def _sum(self, x: F64) -> F64:
        sizes = output_sizes(
            self, x.shape[1:-1], self.kernel, self.strides, self.pads, self.dilations
        )
        padded = np.pad(x, ((0, 0), *self.pads, (0, 0)))
        y = np.zeros((x.shape[0], *sizes, x.shape[-1]))
        for _, slices in tap_slices(self.kernel, sizes, self.strides, self.dilations):
            y += padded[slices]
        return y
