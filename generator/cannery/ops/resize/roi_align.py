"""Regions of feature maps, resampled to one size."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.literals import c_float
from cannery.ir.numeric import F64, f64
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.indexing.bounds import bounded, require_indices, write_bounded
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body

#: Most samples along an axis of a bin, if their number depends on the region.
_MOST = 1024


@register
@dataclass(frozen=True)
class RoiAlign(ScalarOp):
    """x[N,H,W,C], rois[R,4] (x1, y1, x2, y2), batches[R] -> y[R,*size,C].

    Each bin is the mean of samples between elements, or with `greatest` the greatest of the
    weighted elements that they read. `samples` is their number per axis and bin; 0 means as many as
    a bin has elements, but at most 1024. `half_pixel` moves regions by half an element.
    """

    size: tuple[int, int]
    scale: float
    samples: int = 0
    half_pixel: bool = True
    greatest: bool = False

    scalar_math: ClassVar[bool] = True

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises ModelError for shapes that do not fit together."""
        (x, rois, batches), _ = operands(self, inputs, 3)
        require_float(self, x, rois)
        require_indices(self, batches)
        fits = x.rank == 4 and rois.shape == (*batches.shape, 4) and batches.rank == 1
        require(fits, self, f"{rois.shape} regions of {x.shape} in {batches.shape} batches")
        require(
            len(self.size) == 2 and bool(x.elements) and min(self.size) >= 1,
            self,
            f"{x.shape} to {self.size}",
        )
        require(0 <= self.samples <= _MOST, self, f"{self.samples} samples")
        return (TensorType((rois.shape[0], *self.size, x.shape[3])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Region by region; places are float32, because a region's end decides which elements are
        read.
        """
        (x_in, rois, batches), _ = operands(self, inputs, 3)
        x = f64(x_in)
        y = np.zeros((len(rois), *self.size, x.shape[3]))
        for n, batch in enumerate(bounded(batches, len(x))):
            region = np.asarray(rois[n]).astype(np.float32)
            starts, bins, counts = self._bins(region)
            for ph in range(self.size[0]):
                for pw in range(self.size[1]):
                    y[n, ph, pw] = self._bin(x[batch], (ph, pw), starts, bins, counts)
        return (y,)

    def _bins(
        self, region: NDArray[np.float32]
    ) -> tuple[list[np.float32], list[np.float32], list[int]]:
        """Per axis (h, w): where it starts, the size of a bin, and the samples in it."""
        scale, half = np.float32(self.scale), np.float32(0.5 if self.half_pixel else 0.0)
        moved = [np.float32(np.float32(v) * scale) - half for v in region]
        starts, bins, counts = [], [], []
        for axis in range(2):
            start, end = moved[1 - axis], moved[3 - axis]
            extent = np.float32(end - start)
            if not self.half_pixel:
                extent = max(extent, np.float32(1))
            starts.append(np.float32(start))
            bins.append(np.float32(extent / np.float32(self.size[axis])))
            wanted = self.samples or ceil(min(max(float(bins[-1]), 0.0), _MOST))
            counts.append(wanted)
        return starts, bins, counts

    def _bin(
        self, image: F64, at: tuple[int, int], starts: list[np.float32], bins: list[np.float32],
        counts: list[int],
    ) -> F64:  # fmt: skip
        total: F64 = np.full(image.shape[2], -np.inf) if self.greatest else np.zeros(image.shape[2])
        for iy in range(counts[0]):
            for ix in range(counts[1]):
                place = [
                    starts[a] + np.float32(at[a]) * bins[a]
                    + (np.float32(k) + np.float32(0.5)) * bins[a] / np.float32(counts[a])
                    for a, k in enumerate((iy, ix))
                ]  # fmt: skip
                parts = self._parts(image, float(place[0]), float(place[1]))
                total = np.maximum(total, parts.max(0)) if self.greatest else total + parts.sum(0)
        if not counts[0] * counts[1]:
            return np.zeros(image.shape[2])
        return total if self.greatest else total / (counts[0] * counts[1])

    @staticmethod
    def _parts(image: F64, h: float, w: float) -> F64:
        """The four weighted elements around a place."""
        height, width, channels = image.shape
        if not (-1 <= h <= height and -1 <= w <= width):
            return np.zeros((4, channels))
        h, w = min(max(h, 0.0), height - 1), min(max(w, 0.0), width - 1)
        top, left = int(h), int(w)
        below, right = min(top + 1, height - 1), min(left + 1, width - 1)
        y, x = h - top, w - left
        return np.array(
            [
                image[top, left] * (1 - y) * (1 - x), image[top, right] * (1 - y) * x,
                image[below, left] * y * (1 - x), image[below, right] * y * x,
            ]
        )  # fmt: skip

    def write(self, c: Body) -> None:
        """Bin by bin, sample by sample, all channels."""
        x, rois, batches = (c.input(k) for k in range(3))
        height, width, channels = x.shape[1:]
        with c.loop("n", rois.shape[0]) as n:
            write_bounded(c, "batch", batches.at(n), x.shape[0])
            for axis, name in enumerate("hw"):
                self._write_axis(c, axis, name, [rois.at(n, str(k - axis)) for k in (1, 3)])
            with c.nest("p", self.size) as p:
                pixel = [n, *p]
                with c.loop("c", channels) as channel:
                    c(f"{c.output.at(*pixel, channel)} = 0.0f;")
                with c.block("for (int s = 0; s < count_h * count_w; ++s)"):
                    for name, k, at in (("h", "s / count_w", p[0]), ("w", "s % count_w", p[1])):
                        inner = f"((float)({k}) + 0.5f) * bin_{name} / (float)count_{name}"
                        bin_start = f"start_{name} + (float){at} * bin_{name}"
                        c(f"const float {name} = {bin_start} + {inner};")
                    inside = f"h >= -1.0f && h <= {height}.0f && w >= -1.0f && w <= {width}.0f"
                    with c.loop("c", channels) as channel:
                        image = f"&{x.at('batch', '0', '0', channel)}"
                        sizes = f"{height}, {width}, {channels}"
                        kind = "greatest" if self.greatest else "inner"
                        value = f"cannery_{kind}({image}, {sizes}, h, w)"
                        c(f"const float v = {inside} ? {value} : 0.0f;")
                        y = c.output.at(*pixel, channel)
                        joined = f"s && {y} > v ? {y} : v" if self.greatest else f"{y} + v"
                        c(f"{y} = {joined};")
                if not self.greatest:
                    with c.loop("c", channels) as channel:
                        c("const int samples = count_h * count_w;")
                        c(f"{c.output.at(*pixel, channel)} /= (float)(samples ? samples : 1);")

    def _write_axis(self, c: Body, axis: int, name: str, ends: list[str]) -> None:
        half = " - 0.5f" if self.half_pixel else ""
        scale = c_float(float(np.float32(self.scale)))
        c(f"const float start_{name} = {ends[0]} * {scale}{half};")
        c(f"const float end_{name} = {ends[1]} * {scale}{half};")
        c(f"const float given_{name} = end_{name} - start_{name};")
        extent = f"given_{name}"
        if not self.half_pixel:
            extent = f"({extent} > 1.0f ? {extent} : 1.0f)"
        c(f"const float bin_{name} = {extent} / {self.size[axis]}.0f;")
        if self.samples:
            c(f"const int count_{name} = {self.samples};")
            return
        some = f"bin_{name} > 0.0f ? (bin_{name} < {_MOST}.0f ? bin_{name} : {_MOST}.0f) : 0.0f"
        c(f"const float wanted_{name} = {some};")
        c(f"const int whole_{name} = (int)wanted_{name};")
        more = f"((float)whole_{name} < wanted_{name})"
        c(f"const int count_{name} = whole_{name} + {more};")
