"""Deformable convolution: computed offsets move its taps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from cannery.ir.numeric import F64, f64
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float, require_shape
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body
from cannery.ops.window import Pads, output_sizes


@register
@dataclass(frozen=True)
class DeformConv(ScalarOp):
    """x[N,H,W,IC], w[KH,KW,IC/group,OC], offset, bias[OC]?, mask? -> y[N,OH,OW,OC].

    Tap k of output o reads x at  o * stride + k * dilation - pad + offset, between elements; pixels
    outside the image are 0. Each of the D `deformed` parts of the input channels has its own
    offsets, (y, x) per tap: offset[N,D*KH*KW*2,OH,OW]; mask[N,D*KH*KW,OH,OW] scales the values
    read.
    """

    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]
    group: int = 1
    deformed: int = 1

    scalar_math: ClassVar[bool] = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for shapes that do not fit together."""
        (x, w, offset), (bias, mask) = operands(self, inputs, 3, 2)
        require_float(self, x, w, offset, bias, mask)
        require(x.rank == w.rank == 4, self, f"{x.shape} with a kernel {w.shape}")
        (taken, oc), ic = w.shape[-2:], x.shape[-1]
        divides = min(self.group, self.deformed) >= 1 and ic == taken * self.group
        divides = divides and oc % self.group == 0 and ic % self.deformed == 0 and bool(x.elements)
        require(divides, self, f"{self.group} groups of {x.shape} with a kernel {w.shape}")
        sizes = output_sizes(
            self, x.shape[1:-1], w.shape[:-2], self.strides, self.pads, self.dilations
        )
        taps = self.deformed * prod(w.shape[:-2])
        require_shape(self, "offset", offset, (x.shape[0], taps * 2, *sizes))
        require_shape(self, "mask", mask, (x.shape[0], taps, *sizes))
        require_shape(self, "bias", bias, (oc,))
        return (TensorType((x.shape[0], *sizes, oc)),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tap by tap."""
        (x_in, w_in, offset_in), (bias, mask_in) = operands(self, inputs, 3, 2)
        x, w, offset = f64(x_in), f64(w_in), f64(offset_in)
        (kh, kw, taken, oc), ic = w.shape, x.shape[-1]
        sizes = offset.shape[2:]
        mask = None if mask_in is None else f64(mask_in)
        y = np.zeros((x.shape[0], *sizes, oc))
        grid = np.indices(sizes)
        part, made = ic // self.deformed, oc // self.group
        for index, tap in enumerate(product(range(kh), range(kw))):
            read = np.zeros((x.shape[0], *sizes, ic))
            for d in range(self.deformed):
                at = d * kh * kw + index
                places = [
                    grid[a] * self.strides[a] + tap[a] * self.dilations[a] - self.pads[a][0]
                    + offset[:, 2 * at + a]
                    for a in range(2)
                ]  # fmt: skip
                channels = slice(d * part, (d + 1) * part)
                found = _between(x[..., channels], places[0], places[1])
                read[..., channels] = found if mask is None else found * mask[:, at, :, :, None]
            for g in range(self.group):
                out, taken_by = slice(g * made, (g + 1) * made), slice(g * taken, (g + 1) * taken)
                y[..., out] += read[..., taken_by] @ w[tap][:, out]
        return (y if bias is None else y + f64(bias),)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per output element, tap and channel of the group, without the sampling."""
        (_, w, _), _ = operands(self, inputs, 3, 2)
        return int(outputs[0].elements * prod(w.shape[:-1]))

    def write(self, c: Body) -> None:
        """Pixel by pixel: the place of each tap, then the value there, channel by channel."""
        x, w, offset, bias, mask = (c.optional(k) for k in range(5))
        assert x is not None and w is not None and offset is not None
        kh, kw, taken, oc = w.shape
        part, made = x.shape[-1] // self.deformed, oc // self.group
        with c.nest("i", c.output.shape[:-1]) as i:
            with c.loop("o", oc) as o:
                c(f"{c.output.at(*i, o)} = {bias.at(o) if bias else '0.0f'};")
            with c.loop("d", self.deformed) as d, c.nest("k", (kh, kw)) as k:
                c(f"const int at = ({d} * {kh} + {k[0]}) * {kw} + {k[1]};")
                for a, name in enumerate("hw"):
                    moved = offset.at(i[0], f"2 * at + {a}", *i[1:])
                    whole = f"{i[a + 1]} * {self.strides[a]} + {k[a]} * {self.dilations[a]}"
                    c(f"const float {name} = (float)({whole} - {self.pads[a][0]}) + {moved};")
                scale = mask.at(i[0], "at", *i[1:]) if mask else "1.0f"
                c(f"const float scale = {scale};")
                with c.loop("q", part) as q:
                    c(f"const int channel = {d} * {part} + {q};")
                    c(f"const float *image = &{x.at(i[0], '0', '0', 'channel')};")
                    sizes = f"{x.shape[1]}, {x.shape[2]}, {x.shape[3]}"
                    c(f"const float v = scale * cannery_between(image, {sizes}, h, w);")
                    c(f"const int first = channel / {taken} * {made};")
                    if oc == 1:
                        c("(void)first;")
                    with c.loop("o", made) as o:
                        weight = w.at(*k, f"channel % {taken}", f"first + {o}")
                        c(f"{c.output.at(*i, f'first + {o}')} += v * {weight};")


def _between(x: F64, h: F64, w: F64) -> F64:
    """x[N,H,W,C] at positions [N,*O], interpolated linearly; 0 beyond the outermost elements."""
    total: F64 = np.zeros((*h.shape, x.shape[-1]))
    batch = np.arange(len(x)).reshape(-1, 1, 1)
    top, left = np.floor(h), np.floor(w)
    for a, b in product((0, 1), repeat=2):
        row, column = top + a, left + b
        weight = (1 - np.abs(h - row)) * (1 - np.abs(w - column))
        inside = (row >= 0) & (row < x.shape[1]) & (column >= 0) & (column < x.shape[2])
        r = np.where(inside, row, 0).astype(np.int64)
        q = np.where(inside, column, 0).astype(np.int64)
        total += np.where(inside[..., None], x[batch, r, q] * weight[..., None], 0.0)
    return total
