"""Resampling of the spatial axes; upsampling of Keras, Resize and Upsample of ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import floor, isfinite
from typing import NamedTuple

import numpy as np

from cannery.errors import UnsupportedError
from cannery.ir.numeric import Numeric, f64
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.resize.positions import COORDINATES, ROUNDINGS, ResizedAxis

MODES = ("nearest", "linear")


class Sample(NamedTuple):
    """One output index of one axis: (1 - weight) * x[low] + weight * x[high]."""

    low: int
    high: int
    weight: float


@register
@dataclass(frozen=True)
class Resize(Op):
    """x[N,*S,C] -> y[N,*sizes,C], separably per spatial axis.

    `coordinate` maps output to input positions, `rounding` is for "nearest", which takes any dtype;
    both are as in `positions.py`. `scales` (output over input, per axis) enters the coordinates if
    the model gives it; the default is the ratio of the sizes. Positions outside are clamped to the
    edge.
    """

    mode: str
    sizes: tuple[int, ...]
    coordinate: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    scales: tuple[float, ...] = ()

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y; raises UnsupportedError for an unknown mode, ModelError for bad sizes."""
        (x,), _ = operands(self, inputs, 1)
        if self.mode != "nearest":
            require_float(self, x)
        for name, value, known in (
            ("mode", self.mode, MODES),
            ("coordinate", self.coordinate, COORDINATES),
            ("rounding", self.rounding, ROUNDINGS),
        ):
            if value not in known:
                raise UnsupportedError(f"Resize: {name} {value!r} is not one of {', '.join(known)}")
        rank = x.rank - 2
        require(rank >= 1, self, f"input has rank {x.rank}, expected batch, space and channels")
        require(len(self.sizes) == rank, self, f"sizes {self.sizes} must have {rank} entries")
        require(min(self.sizes) >= 1, self, f"sizes {self.sizes} must be positive")
        require(min(x.shape[1:-1]) >= 1, self, f"shape {x.shape} has an empty spatial axis")
        sound = len(self.scales) in (0, rank) and all(isfinite(s) and s > 0 for s in self.scales)
        require(sound, self, f"scales {self.scales} must be {rank} positive numbers or none")
        return (TensorType((x.shape[0], *self.sizes, x.shape[-1]), x.dtype),)

    def samples(self, axis: int, size: int) -> tuple[Sample, ...]:
        """Which of its `size` inputs each output index of spatial axis `axis` reads."""
        scale = self.scales[axis] if self.scales else 0.0
        along = ResizedAxis(self.coordinate, size, self.sizes[axis], scale)
        if self.mode == "nearest":
            return tuple(Sample(i, i, 0.0) for i in along.nearest(self.rounding).tolist())
        return tuple(_linear(p, size) for p in along.exact())

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Axis by axis; the weights are exact rationals rounded once."""
        (x_in,), _ = operands(self, inputs, 1)
        y: Numeric = x_in if self.mode == "nearest" else f64(x_in)
        for axis in range(len(self.sizes)):
            samples = self.samples(axis, y.shape[axis + 1])
            low = y.take([s.low for s in samples], axis + 1)
            if self.mode == "nearest":
                y = low
                continue
            high = y.take([s.high for s in samples], axis + 1)
            shape = [1] * y.ndim
            shape[axis + 1] = len(samples)
            weight = np.array([s.weight for s in samples]).reshape(shape)
            y = low * (1.0 - weight) + high * weight
        return (y,)


@cache
def repeats(op: Resize, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """How often each pixel of an image of these sizes is repeated along each axis.

    Empty if the resampling does anything else, or nothing at all.
    """
    if op.mode != "nearest" or any(o % n for o, n in zip(op.sizes, sizes, strict=True)):
        return ()
    scales = tuple(o // n for o, n in zip(op.sizes, sizes, strict=True))
    repeated = all(
        [sample.low for sample in op.samples(axis, n)] == [i // s for i in range(n * s)]
        for axis, (n, s) in enumerate(zip(sizes, scales, strict=True))
    )
    return scales if repeated and max(scales) > 1 else ()


def _linear(position: Fraction, size: int) -> Sample:
    """The two neighbours of a position clamped to 0..size-1."""
    clamped = min(max(position, Fraction(0)), Fraction(size - 1))
    low = floor(clamped)
    return Sample(low, min(low + 1, size - 1), float(clamped - low))
