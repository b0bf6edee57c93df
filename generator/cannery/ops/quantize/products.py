"""Sums of products of integers minus their zero points.

They are in int32 that wraps around, or in int64, which holds them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np

from cannery.ir.numeric import Numeric
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import broadcast_shapes, operands, require, require_type
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body, Tensor
from cannery.ops.scalar.windows import walk_conv
from cannery.ops.shared.axes import broadcast_strides, dense_strides
from cannery.ops.window import Pads, output_sizes, tap_slices

_FACTORS = (DType.UINT8, DType.INT8, DType.INT16)


@dataclass(frozen=True)
class IntegerProduct(ScalarOp):
    """Two factors and their zero points; results are int32, or int64 if `wide`."""

    wide: bool = field(default=False, kw_only=True)

    def check_types(self, a: TensorType, b: TensorType, zeros: tuple[TensorType, ...]) -> None:
        """Raises UnsupportedError for other types, and for int16 twice in narrow sums."""
        both = {a.dtype, b.dtype}
        small = both <= {*_FACTORS} and (self.wide or both != {DType.INT16})
        require_type(small, self, f"{a.dtype.value} times {b.dtype.value}")
        same = (zeros[0].dtype, zeros[1].dtype) == (a.dtype, b.dtype)
        require(same, self, "a zero point of another dtype")

    @property
    def sums(self) -> DType:
        """The type of the results."""
        return DType.INT64 if self.wide else DType.INT32

    def wrapped(self, sums: Numeric) -> Numeric:
        """Exact sums as results."""
        return np.asarray(sums.astype(np.int64).astype(self.sums.numpy))

    def added(self, y: str, product: str) -> str:
        """The statement that adds a product to a sum; its first factor has parentheses."""
        if self.sums is DType.INT64:
            return f"{y} += (int64_t){product};"
        return f"{y} = (int32_t)((uint32_t){y} + (uint32_t)({product}));"


@register
@dataclass(frozen=True)
class MatMulInteger(IntegerProduct):
    """a[..,M,K], b[..,K,N], zeros that broadcast to a and to b -> int32 (a - za) (b - zb)."""

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for shapes that do not fit together."""
        (a, b, za, zb), _ = operands(self, inputs, 4)
        self.check_types(a, b, (za, zb))
        require(a.rank >= 2 and b.rank >= 2, self, f"{a.shape} times {b.shape}")
        require(a.shape[-1] == b.shape[-2], self, f"{a.shape} times {b.shape}")
        for x, zero in ((a, za), (b, zb)):
            fits = broadcast_shapes(self, x.shape, zero.shape) == x.shape
            require(fits, self, f"a zero point of shape {zero.shape} for {x.shape}")
        lead = broadcast_shapes(self, a.shape[:-2], b.shape[:-2])
        return (TensorType((*lead, a.shape[-2], b.shape[-1]), self.sums),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In int64."""
        (a, b, za, zb), _ = operands(self, inputs, 4)
        wide = [x.astype(np.int64) - zero for x, zero in ((a, za), (b, zb))]
        return (self.wrapped(np.matmul(*wide)),)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per output element and term of its sum."""
        (a, *_), _ = operands(self, inputs, 4)
        return int(outputs[0].elements * a.shape[-1])

    def write(self, c: Body) -> None:
        """Row by row: each element of a adds a row of b."""
        a, b, za, zb = (c.input(k) for k in range(4))
        *lead, m, n = c.output.shape
        with c.nest("i", lead) as i, c.loop("m", m) as row:
            with c.loop("n", n) as column:
                c(f"{c.output.at(*i, row, column)} = 0;")
            with c.loop("k", a.shape[-1]) as k:
                c(f"const int32_t v = {_at(a, *i, row, k)} - {_at(za, *i, row, k)};")
                with c.loop("n", n) as column:
                    y = c.output.at(*i, row, column)
                    w = f"({_at(b, *i, k, column)} - {_at(zb, *i, k, column)})"
                    c(self.added(y, f"v * {w}"))


def _at(tensor: Tensor, *indices: str) -> str:
    """The element of a tensor that broadcasts over the indices."""
    strides = broadcast_strides(tensor.shape, dense_strides(tensor.shape), len(indices))
    terms = [
        i if s == 1 else f"{i} * {s}"
        for i, s in zip(indices[-len(strides) :], strides[-len(indices) :], strict=True)
        if s and i != "0"
    ]
    return f"{tensor.name}[{' + '.join(terms) or '0'}]"


@register
@dataclass(frozen=True)
class ConvInteger(IntegerProduct):
    """x[N,*S,IC], w[*K,IC/group,OC], zeros [1] and [1] or [OC] -> int32 y[N,*O,OC].

    Padding adds nothing, as if it held the zero point.
    """

    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]
    group: int = 1

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for shapes that do not fit together."""
        (x, w, zx, zw), _ = operands(self, inputs, 4)
        self.check_types(x, w, (zx, zw))
        rank = len(self.strides) + 2
        require(x.rank == rank == w.rank, self, f"{x.shape} with a kernel {w.shape}")
        (taken, oc), ic, group = w.shape[-2:], x.shape[-1], self.group
        divides = group >= 1 and oc % group == 0 and ic == taken * group and oc >= 1
        require(divides, self, f"{group} groups of {ic} channels with a kernel {w.shape}")
        fits = zx.shape == (1,) and zw.shape in ((1,), (oc,))
        require(fits, self, f"zero points of shapes {zx.shape} and {zw.shape}")
        sizes = output_sizes(
            self, x.shape[1:-1], w.shape[:-2], self.strides, self.pads, self.dilations
        )
        return (TensorType((x.shape[0], *sizes, oc), self.sums),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tap by tap, in int64."""
        (x_in, w_in, zx, zw), _ = operands(self, inputs, 4)
        x, w = x_in.astype(np.int64) - zx, w_in.astype(np.int64) - zw
        kernel, (taken, oc) = w.shape[:-2], w.shape[-2:]
        sizes = output_sizes(self, x.shape[1:-1], kernel, self.strides, self.pads, self.dilations)
        padded = np.pad(x, ((0, 0), *self.pads, (0, 0)))
        y = np.zeros((x.shape[0], *sizes, oc), np.int64)
        made = oc // self.group
        for tap, at in tap_slices(kernel, sizes, self.strides, self.dilations):
            for g in range(self.group):
                out = slice(g * made, (g + 1) * made)
                y[..., out] += padded[at][..., g * taken : (g + 1) * taken] @ w[tap][:, out]
        return (self.wrapped(y),)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """One per output element, tap and channel of the group; padding counts."""
        (_, w, *_), _ = operands(self, inputs, 4)
        return int(outputs[0].elements * prod(w.shape[:-1]))

    def write(self, c: Body) -> None:
        """In the order of `walk_conv`."""
        zx, zw = c.input(2), c.input(3)

        def add(y: str, x: str, w: str, channel: str) -> list[str]:
            less = zw.at(channel if zw.type.elements > 1 else "0")
            product = f"({x} - {zx.at('0')}) * ({w} - {less})"
            return [self.added(y, product)]

        walk_conv(c, self, lambda _: "0", add)
