"""Attention of several heads, between the projections before it and the one after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.numeric import F64, add_product, f64, keep_axes, tree_sum
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import broadcast_shapes, operands, require, require_float
from cannery.ops.functions import exp, tanh


@dataclass(frozen=True)
class HeadChannels:
    """Where the heads of an input lie in its channels: `size` each, `step` apart, from `at` on."""

    at: int
    step: int
    size: int

    def end(self, heads: int) -> int:
        """One more than the last channel that is read."""
        return self.at + (heads - 1) * self.step + self.size

    def head(self, x: F64, number: int) -> F64:
        """The channels of one head."""
        first = self.at + number * self.step
        return x[..., first : first + self.size]


@register
@dataclass(frozen=True)
class Attention(Op):
    """q[N,T,_], k[N,S,_], v[N,S,_], mask[..,S]? -> y[N,T,heads*size of v].

    For each sample and head: softmax(scale * q k^T + mask) v, along S. The inputs may be one value,
    of which each reads its own channels. The mask broadcasts to [N,heads,T,S]. `zero_rows`: queries
    for which it is -infinity everywhere give zeros. `softcap` c, if it is not 0, keeps scores s
    between -c and c, before the mask: c tanh(s / c).
    """

    heads: int
    scale: float
    q: HeadChannels
    k: HeadChannels
    v: HeadChannels
    zero_rows: bool = False
    softcap: float = 0.0

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError where sizes differ or heads are outside the channels."""
        (q, k, v), (mask,) = operands(self, inputs, 3, 1)
        require_float(self, q, k, v, mask)
        require(self.heads >= 1, self, f"heads {self.heads} must be positive")
        shapes = [type_.shape for type_ in (q, k, v)]
        require(all(len(s) == 3 for s in shapes), self, f"needs rank 3, has shapes {shapes}")
        require(q.shape[0] == k.shape[0] == v.shape[0], self, f"batches differ: {shapes}")
        require(k.shape[1] == v.shape[1] >= 1, self, f"keys and values differ: {shapes}")
        require(self.q.size == self.k.size, self, "sizes of queries and keys differ")
        for type_, part in ((q, self.q), (k, self.k), (v, self.v)):
            inside = part.at >= 0 and part.size >= 1 and part.step >= 0
            fits = inside and part.end(self.heads) <= type_.shape[-1]
            require(fits, self, f"{part} is outside the channels of {type_.shape}")
        if mask is not None:
            full = (q.shape[0], self.heads, q.shape[1], k.shape[1])
            fits = mask.shape[-1:] == full[-1:] and broadcast_shapes(self, mask.shape, full) == full
            require(fits, self, f"the mask has shape {mask.shape}, expected {full}")
        return (TensorType((*q.shape[:2], self.heads * self.v.size)),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Head by head, as written above."""
        (q_in, k_in, v_in), (mask_in,) = operands(self, inputs, 3, 1)
        q, k, v = f64(q_in), f64(k_in), f64(v_in)
        full = (q.shape[0], self.heads, q.shape[1], k.shape[1])
        mask = np.broadcast_to(np.zeros(1) if mask_in is None else f64(mask_in), full)
        y = np.zeros((*q.shape[:2], self.heads * self.v.size))
        for n, h in np.ndindex(*full[:2]):
            scores = np.zeros(full[2:])
            keys = np.ascontiguousarray(self.k.head(k[n], h).T)
            add_product(scores, np.ascontiguousarray(self.q.head(q[n], h)), keys)
            scores = self.scale * scores
            if self.softcap:
                scores = self.softcap * tanh(scores / self.softcap)
            scores = scores + mask[n, h]
            top = scores.max(axis=1, keepdims=True)
            hidden = np.isneginf(top) & self.zero_rows
            shares = exp(scores - np.where(hidden, 0.0, top))
            shares /= np.where(hidden, 1.0, keep_axes(shares, tree_sum(shares, (1,)), (1,)))
            mixed = np.zeros((full[2], self.v.size))
            add_product(mixed, shares, np.ascontiguousarray(self.v.head(v[n], h)))
            y[n, :, h * self.v.size : (h + 1) * self.v.size] = mixed
        return (y,)

    def macs(self, inputs: tuple[TensorType | None, ...], outputs: tuple[TensorType, ...]) -> int:
        """Those of both products."""
        (q, k, _), _ = operands(self, inputs, 3, 1)
        return int(q.shape[0] * q.shape[1] * k.shape[1] * self.heads * (self.q.size + self.v.size))
