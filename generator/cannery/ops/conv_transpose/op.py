"""Transposed convolution, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.ir.numeric import F64, add_product, f64
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float, require_shape
from cannery.ops.window import Pads, check_attributes, check_padded, extent, tap_slices

#: Most phases for which vector kernels have separate code: strides of 32.
MAX_PHASES = 1024


@register
@dataclass(frozen=True)
class ConvTranspose(Op):
    """x[N,*S,IC], w[*K,OC/group,IC], bias[OC]? -> y[N,*O,OC], the gradient of a convolution.

    Per axis, input i adds its tap k to output  i * stride + k * dilation - pad_begin, and O = (S-1)
    * stride + dilation * (K-1) + 1 - pad_begin - pad_end + output_padding. Outputs that no tap
    reaches get the bias.
    """

    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]
    output_padding: tuple[int, ...]
    group: int = 1

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for ranks, channels or attributes that do not fit."""
        (x, w), (bias,) = operands(self, inputs, 2, 1)
        require_float(self, x, w, bias)
        rank = len(self.strides) + 2
        require(x.rank == rank, self, f"input has rank {x.rank}, expected {rank}")
        require(w.rank == rank, self, f"kernel has rank {w.rank}, expected {rank}")
        kernel, (made, taken), ic = w.shape[:-2], w.shape[-2:], x.shape[-1]
        require(ic >= 1 and made >= 1, self, f"needs channels, has {ic} in and {made} out")
        require(taken == ic, self, f"kernel reads {taken} channels, but the input has {ic}")
        require(self.group >= 1, self, f"group {self.group} must be positive")
        require(ic % self.group == 0, self, f"group {self.group} does not divide {ic} inputs")
        require_shape(self, "bias", bias, (made * self.group,))
        return (TensorType((x.shape[0], *self._sizes(x.shape[1:-1], kernel), made * self.group)),)

    def _sizes(self, spatial: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
        check_attributes(self, kernel, self.strides, self.pads, self.dilations)
        extra = self.output_padding
        require(
            len(extra) == len(kernel), self, f"output_padding {extra} must have one entry per axis"
        )
        sizes = []
        for size, k, s, (begin, end), d, more in zip(
            spatial, kernel, self.strides, self.pads, self.dilations, extra, strict=True
        ):
            require(size >= 1, self, "input has an empty spatial axis")
            bound = max(s, d)
            require(0 <= more < bound, self, f"output_padding {more} is outside 0..{bound - 1}")
            sizes.append((size - 1) * s + extent(k, d) - begin - end + more)
        require(min(sizes) >= 1, self, f"pads {self.pads} leave no output: sizes {tuple(sizes)}")
        check_padded(self, sizes, self._uncropped(spatial, kernel, tuple(sizes)))
        return tuple(sizes)

    def phases(self, sizes: Sequence[int]) -> int:
        """How many different sets of taps the outputs of an image of `sizes` receive."""
        return prod(min(s, size) for s, size in zip(self.strides, sizes, strict=True))

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Scatters tap by tap into an uncropped output; input channels ascend; then the bias."""
        (x_in, w_in), (bias,) = operands(self, inputs, 2, 1)
        x, w = f64(x_in), f64(w_in)
        kernel, oc = w.shape[:-2], w.shape[-2] * self.group
        spatial = x.shape[1:-1]
        sizes = self._sizes(spatial, kernel)
        begins = [begin for begin, _ in self.pads]
        full = np.zeros((x.shape[0], *self._uncropped(spatial, kernel, sizes), oc))
        for tap, slices in tap_slices(kernel, spatial, self.strides, self.dilations):
            full[slices] += self._tap(x, w[tap])
        spans = zip(begins, sizes, strict=True)
        crop = (slice(None), *(slice(begin, begin + size) for begin, size in spans))
        y = full[crop]
        return (y if bias is None else y + f64(bias),)

    def _uncropped(
        self, spatial: tuple[int, ...], kernel: tuple[int, ...], sizes: tuple[int, ...]
    ) -> list[int]:
        """Sizes that hold both every tap and the whole output, before cropping."""
        return [
            max((n - 1) * s + extent(k, d), begin + out)
            for n, k, s, d, (begin, _), out in zip(
                spatial, kernel, self.strides, self.dilations, self.pads, sizes, strict=True
            )
        ]

    def _tap(self, x: F64, w: F64) -> F64:
        """x[...,IC] times w[OC/group,IC], group by group: [...,OC]."""
        made, ic = w.shape
        taken = ic // self.group
        rows = x.reshape(-1, ic)
        out = np.zeros((rows.shape[0], made * self.group))
        for g in range(self.group):
            read = slice(g * taken, (g + 1) * taken)
            add_product(out[:, g * made : (g + 1) * made], rows[:, read], w[:, read].T)
        return out.reshape(*x.shape[:-1], made * self.group)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per input element, tap and output channel of its group; cropped taps count."""
        (x, w), _ = operands(self, inputs, 2, 1)
        return int(x.elements * prod(w.shape[:-1]))
