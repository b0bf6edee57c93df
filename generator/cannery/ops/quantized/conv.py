"""Two-dimensional convolutions of integers, channels last."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import require
from cannery.ops.quantized.arithmetic import integer_product
from cannery.ops.quantized.matmul import QuantizedProduct, parts
from cannery.ops.window import Pads, output_sizes, tap_slices


@register
@dataclass(frozen=True)
class QuantizedConv(QuantizedProduct):
    """x[N,H,W,IC] w[KH,KW,IC,OC] scale[OC]? bias[OC]? gain? start[OC]? factor[OC]? shift[OC]?
    -> y[N,OH,OW,OC].

    Like `Conv`, in one group, or in IC groups of one channel each; padding is 0. See
    `QuantizedProduct` for what follows the sums.
    """

    strides: tuple[int, ...] = (1, 1)
    pads: Pads = ((0, 0), (0, 0))
    dilations: tuple[int, ...] = (1, 1)
    depthwise: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y."""
        x, w, following = parts(self, inputs)
        self.check(x, w, following)
        require(x.rank == 4 == w.rank, self, f"{x} with a kernel {w}")
        taken = (1, x.shape[3]) if self.depthwise else (x.shape[3], w.shape[3])
        fits = x.shape[3] >= 1 and w.shape[2:] == taken
        require(fits, self, f"{x} with a kernel {w}")
        sizes = output_sizes(
            self, x.shape[1:3], w.shape[:2], self.strides, self.pads, self.dilations
        )
        return (self.result((x.shape[0], *sizes, w.shape[3])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tap by tap, in int64."""
        x, w, following = parts(self, inputs)
        kernel = w.shape[:2]
        sizes = output_sizes(self, x.shape[1:3], kernel, self.strides, self.pads, self.dilations)
        padded = np.pad(x, ((0, 0), *self.pads, (0, 0)))
        sums = np.zeros((x.shape[0], *sizes, w.shape[3]), np.int64)
        for tap, at in tap_slices(kernel, sizes, self.strides, self.dilations):
            part = padded[at].astype(np.int64)
            sums += part * w[tap][0] if self.depthwise else integer_product(part, w[tap])
        return (self.finish(sums, following),)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per output element, tap and channel; padding counts."""
        _, w, _ = parts(self, inputs)
        return int(outputs[0].elements * prod(w.shape[:-1]))
