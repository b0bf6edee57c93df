"""Mean over sliding windows, channels last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import f64
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.window import WindowOp


@register
@dataclass(frozen=True)
class AveragePool(WindowOp):
    """x[N,*S,C] -> y[N,*O,C]. The divisor counts the taps within the input.

    With `count_include_pad` it counts all taps, so padding acts as zeros. A window that reaches
    beyond counted padding (ONNX with ceil_mode) becomes Pad followed by AveragePool without it.
    """

    count_include_pad: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for bad attributes or a window that covers only
        padding.
        """
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        require(x.rank >= 3, self, f"input has rank {x.rank}, expected batch, space and channels")
        sizes = self.sizes(x.shape[1:-1], padding_alone=self.count_include_pad)
        return (TensorType((x.shape[0], *sizes, x.shape[-1])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Sums tap by tap in row-major order, then divides."""
        (x,), _ = operands(self, inputs, 1)
        total = self.sums(f64(x))
        if self.count_include_pad:
            return (total / float(np.prod(self.kernel)),)
        inside = np.ones((1, *x.shape[1:-1], 1))
        return (total / self.sums(inside),)
