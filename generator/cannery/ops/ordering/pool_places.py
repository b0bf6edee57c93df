"""Where the maxima of a MaxPool are."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body
from cannery.ops.window import WindowOp, tap_slices


@register
@dataclass(frozen=True)
class PoolPlaces(WindowOp, ScalarOp):
    """x[N,C,*S] -> int64[N,C,*O]: the index of each window's first maximum in the whole of x.

    Places are counted along rows, or with `columns` along the columns of an image.
    """

    columns: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """As for MaxPool."""
        (x,), _ = operands(self, inputs, 1)
        require_float(self, x)
        require(x.rank >= 3, self, f"input has rank {x.rank}, expected batch, channels and space")
        return (TensorType((*x.shape[:2], *self.sizes(x.shape[2:])), DType.INT64),)

    def _weights(self, spatial: tuple[int, ...]) -> list[int]:
        """What one step along each spatial axis adds to the index."""
        if self.columns:
            return [prod(spatial[:k]) for k in range(len(spatial))]
        return [prod(spatial[k + 1 :]) for k in range(len(spatial))]

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tap by tap; a later one wins only if it is greater."""
        (x,), _ = operands(self, inputs, 1)
        n, c, *spatial = x.shape
        sizes = self.sizes(tuple(spatial))
        steps = self._weights(tuple(spatial))
        grid = sum(i * s for i, s in zip(np.indices(spatial), steps, strict=True))
        index = np.asarray(grid) + np.arange(n * c).reshape(n, c, *(1,) * len(spatial)) * prod(
            spatial
        )
        images = x.reshape(n * c, *spatial, 1)
        outside = ((0, 0), *self.pads, (0, 0))
        values = np.pad(images, outside, constant_values=-np.inf)
        known = np.pad(np.ones(images.shape, np.bool_), outside)
        places = np.pad(index.reshape(images.shape), outside)
        best = np.full((n * c, *sizes, 1), -np.inf)
        found = np.full(best.shape, -1, np.int64)
        for _, at in tap_slices(self.kernel, sizes, self.strides, self.dilations):
            better = known[at] & ((values[at] > best) | (found < 0))
            best = np.where(better, values[at], best)
            found = np.where(better, places[at], found)
        return (found.reshape(n, c, *sizes),)

    def write(self, c: Body) -> None:
        """Window by window."""
        x = c.input(0)
        spatial = x.shape[2:]
        steps = self._weights(spatial)
        with c.nest("i", c.output.shape) as i:
            c("int64_t best = -1;")
            c("float most = 0.0f;")
            with c.nest("k", self.kernel) as k:
                for axis, (o, tap) in enumerate(zip(i[2:], k, strict=True)):
                    s, d, b = self.strides[axis], self.dilations[axis], self.pads[axis][0]
                    c(f"const int p{axis} = {o} * {s} + {tap} * {d} - {b};")
                names = [f"p{axis}" for axis, _ in enumerate(spatial)]
                inside = " && ".join(
                    f"{p} >= 0 && {p} < {d}" for p, d in zip(names, spatial, strict=True)
                )
                with c.block(f"if ({inside})"):
                    c(f"const float v = {x.at(*i[:2], *names)};")
                    with c.block("if (best < 0 || v > most)"):
                        terms = [f"{p} * {s}" for p, s in zip(names, steps, strict=True)]
                        image = f"({i[0]} * {x.shape[1]} + {i[1]}) * {prod(spatial)}"
                        c(f"best = {' + '.join([image, *terms])};")
                        c("most = v;")
            c(f"{c.output.at(*i)} = best;")
