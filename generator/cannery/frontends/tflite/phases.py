"""Transposed convolutions as convolutions: outputs that meet the same taps are channels of one.

With a stride s, output o of an axis is the sum of x[i] w[t] over i s + t = o + begin. So outputs of
the phase f = (o + begin) mod s meet only the taps f, f + s, f + 2 s ..., on neighbouring inputs.
That is a convolution, of taps in reverse order, whose channels are [phase down][phase
across][channel]. Interleaved, they are the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from cannery.frontends.tflite.operators.movement import part
from cannery.frontends.tflite.scope import Scope
from cannery.ir.graph import Array
from cannery.ops.movement.op import Transpose
from cannery.ops.window import Pads


@dataclass(frozen=True)
class Phases:
    """Those of a kernel's height and width."""

    kernel: tuple[int, int]
    strides: tuple[int, int]

    @property
    def worthwhile(self) -> bool:
        """Whether every phase has a tap: others would be products with 0."""
        return all(k >= s for k, s in zip(self.kernel, self.strides, strict=True))

    @property
    def count(self) -> int:
        """Phases of both axes."""
        return self.strides[0] * self.strides[1]

    @property
    def taps(self) -> tuple[int, int]:
        """The kernel of the convolution."""
        height, width = (-(-k // s) for k, s in zip(self.kernel, self.strides, strict=True))
        return height, width

    def weight(self, w: Array, fill: int) -> Array:
        """w[OC,H,W,IC] as [h,w,IC,phases * OC]; `fill` takes the place of taps that are not
        there.
        """
        (down, across), (rows, columns) = self.strides, self.taps
        channels, _, _, inputs = w.shape
        found = np.full((rows, columns, inputs, down, across, channels), fill, w.dtype)
        for r, c in product(range(self.kernel[0]), range(self.kernel[1])):
            place = rows - 1 - r // down, columns - 1 - c // across
            found[place][:, r % down, c % across] = w[:, r, c].T
        return found.reshape(rows, columns, inputs, -1)

    def window(self, size: Sequence[int], begins: Sequence[int], out: Sequence[int]) -> Pads:
        """The pads of the convolution of an image of this size, for `out` outputs after `begins`
        others.
        """
        groups = (-(-(b + o) // s) for b, o, s in zip(begins, out, self.strides, strict=True))
        return tuple(
            (t - 1, max(g - n, 0)) for t, g, n in zip(self.taps, groups, size, strict=True)
        )

    def interleaved(self, scope: Scope, y: str, begins: Sequence[int], out: Sequence[int]) -> str:
        """The image of y[N,h,w,phases * OC]."""
        n, height, width, channels = scope.shape(y)
        (down, across), each = self.strides, channels // self.count
        apart = scope.reshaped(y, (n, height, width, down, across, each), "phases")
        turned = scope.node(Transpose((0, 1, 3, 2, 4, 5)), [apart], "interleaved")
        image = scope.reshaped(turned, (n, height * down, width * across, each), "image")
        return part(scope, image, [0, *begins, 0], (n, *out, each))
