"""Convolution in any number of spatial dimensions, channels last."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.ir.numeric import F64, add_product, f64
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float, require_shape
from cannery.ops.window import Pads, output_sizes, tap_slices


@register
@dataclass(frozen=True)
class Conv(Op):
    """x[N,*S,IC], w[*K,IC/group,OC], bias[OC]? -> y[N,*O,OC].

    Cross-correlation with zero padding. Output channel o reads the input channels of group
    o // (OC/group); depthwise is group == IC, where with multiplier m output channel o reads
    input channel o // m.
    """

    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]
    group: int = 1

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for ranks, channels or attributes that do not fit."""
        (x, w), (bias,) = operands(self, inputs, 2, 1)
        require_float(self, x, w, bias)
        rank = len(self.strides) + 2
        require(x.rank == rank, self, f"input has rank {x.rank}, expected {rank}")
        require(w.rank == rank, self, f"kernel has rank {w.rank}, expected {rank}")
        kernel, (taken, oc), ic = w.shape[:-2], w.shape[-2:], x.shape[-1]
        require(ic >= 1 and oc >= 1, self, f"needs channels, has {ic} in and {oc} out")
        require(self.group >= 1, self, f"group {self.group} must be positive")
        require(ic % self.group == 0, self, f"group {self.group} does not divide {ic} inputs")
        require(oc % self.group == 0, self, f"group {self.group} does not divide {oc} outputs")
        expected = ic // self.group
        require(
            taken == expected,
            self,
            f"kernel reads {taken} channels per group, but the input has {expected}",
        )
        require_shape(self, "bias", bias, (oc,))
        sizes = output_sizes(self, x.shape[1:-1], kernel, self.strides, self.pads, self.dilations)
        return (TensorType((x.shape[0], *sizes, oc)),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Taps in the outer loop, input channels in the inner one, both ascending; then the
        bias.
        """
        (x_in, w_in), (bias,) = operands(self, inputs, 2, 1)
        x, w = f64(x_in), f64(w_in)
        kernel, oc = w.shape[:-2], w.shape[-1]
        sizes = output_sizes(self, x.shape[1:-1], kernel, self.strides, self.pads, self.dilations)
        padded = np.pad(x, ((0, 0), *self.pads, (0, 0)))
        y = np.zeros((x.shape[0], *sizes, oc))
        for tap, slices in tap_slices(kernel, sizes, self.strides, self.dilations):
            self._add_tap(y, padded[slices], w[tap])
        return (y if bias is None else y + f64(bias),)

    def _add_tap(self, y: F64, x: F64, w: F64) -> None:
        """y[...,OC] += x[...,IC] times w[IC/group,OC], group by group."""
        taken, oc = w.shape
        if taken == 1:
            y += np.repeat(x, oc // self.group, axis=-1) * w[0]
            return
        per_group = oc // self.group
        rows, x_rows = y.reshape(-1, oc), x.reshape(-1, x.shape[-1])
        for g in range(self.group):
            out = slice(g * per_group, (g + 1) * per_group)
            add_product(rows[:, out], x_rows[:, g * taken : (g + 1) * taken], w[:, out])

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per output element, tap and channel of the group; padding counts."""
        (_, w), _ = operands(self, inputs, 2, 1)
        return int(outputs[0].elements * prod(w.shape[:-1]))
