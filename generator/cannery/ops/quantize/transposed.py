"""Transposed convolutions of integers minus their zero points."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.quantize.products import IntegerProduct
from cannery.ops.scalar.body import Body
from cannery.ops.scalar.windows import walk_transposed
from cannery.ops.window import Pads


@register
@dataclass(frozen=True)
class ConvTransposeInteger(IntegerProduct):
    """x[N,*S,IC], w[*K,OC/group,IC], zeros [1] and [1] -> y[N,*O,OC], as ConvTranspose."""

    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]
    output_padding: tuple[int, ...]
    group: int = 1

    @property
    def _of_floats(self) -> ConvTranspose:
        return ConvTranspose(
            self.strides, self.pads, self.dilations, self.output_padding, self.group
        )

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for shapes that do not fit together."""
        (x, w, zx, zw), _ = operands(self, inputs, 4)
        self.check_types(x, w, (zx, zw))
        require(zx.shape == (1,) == zw.shape, self, f"zero points {zx.shape} and {zw.shape}")
        (y,) = self._of_floats.infer(TensorType(x.shape), TensorType(w.shape))
        return (TensorType(y.shape, self.sums),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In float64, which holds the sums."""
        (x, w, zx, zw), _ = operands(self, inputs, 4)
        wide = [a.astype(np.int64) - zero for a, zero in ((x, zx), (w, zw))]
        (sums,) = self._of_floats.reference(*wide)
        return (self.wrapped(sums),)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per input element, tap and output channel of its group."""
        (x, w, *_), _ = operands(self, inputs, 4)
        return int(x.elements * prod(w.shape[:-1]))

    def write(self, c: Body) -> None:
        """In the order of `walk_transposed`."""
        zx, zw = c.input(2).at("0"), c.input(3).at("0")
        walk_transposed(
            c, self, lambda _: "0", f"{self.sums.c_name} v = 0;", self.added,
            lambda x, w: f"({x} - {zx}) * ({w} - {zw})",
        )  # fmt: skip
