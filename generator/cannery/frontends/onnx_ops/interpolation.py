"""Resize of ONNX in all its modes, axis by axis: which elements weigh how much.

For output index o the position in the input comes from the coordinate transformation; the elements
around it get the weights of a triangle (linear) or of Keys' cubic, with antialias stretched by the
inverse of the scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from cannery.frontends.onnx_ops.base import Scope
from cannery.frontends.onnx_ops.elementwise import aligned
from cannery.frontends.onnx_ops.values import Computed, Constant, Value
from cannery.ir.tensor import DType
from cannery.ops.logic.compare import Where
from cannery.ops.resize.interpolate import Interpolate

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Resampling:
    """The attributes of Resize."""

    mode: str
    coordinate: str
    rounding: str
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False
    extrapolation: float = 0.0


@dataclass(frozen=True)
class AxisTable:
    """For each output index along an axis: what it reads, its weights, and whether it is inside."""

    places: NDArray[np.int32]
    weights: NDArray[np.float32]
    inside: NDArray[np.bool_]


def axis_table(
    how: Resampling, size: int, out: int, scale: float, roi: tuple[float, float]
) -> AxisTable:
    """The table of one axis."""
    places, weights, inside = [], [], []
    for o in range(out):
        x = _position(how.coordinate, size, out, scale, roi, o)
        cropping = how.coordinate == "tf_crop_and_resize"
        inside.append(not cropping or 0 <= x <= size - 1)
        base = ceil(x) - 1 if x == floor(x) else floor(x)
        found = _weights(how, x - base, scale)
        first = base + 1 - len(found) // 2
        at = np.arange(first, first + len(found))
        if how.exclude_outside:
            found = np.where((at >= 0) & (at < size), found, 0.0)
            found = found / found.sum()
        places.append(np.clip(at, 0, size - 1))
        weights.append(found)
    return AxisTable(
        np.asarray(places, np.int32), np.asarray(weights, np.float32), np.asarray(inside)
    )


def _position(
    coordinate: str, size: int, out: int, scale: float, roi: tuple[float, float], o: int
) -> float:
    """The position in the input of output index o."""
    length = scale * size
    if coordinate == "align_corners":
        return 0.0 if length == 1 else o * (size - 1) / (length - 1)
    if coordinate == "asymmetric":
        return o / scale
    if coordinate == "tf_crop_and_resize":
        start, end = roi
        if length == 1:
            return (start + end) * (size - 1) / 2
        return start * (size - 1) + o * (end - start) * (size - 1) / (length - 1)
    if coordinate == "pytorch_half_pixel" and length == 1:
        return -0.5
    x = (o + 0.5) / scale - 0.5
    if coordinate == "half_pixel_symmetric":
        x += size / 2 * (1 - out / length)
    return x


def _weights(how: Resampling, ratio: float, scale: float) -> Floats:
    """Weights of the elements around a position; 0 < ratio <= 1 behind the one before it."""
    if how.mode == "nearest":
        before = {
            "floor": ratio < 1, "ceil": False, "round_prefer_floor": ratio <= 0.5,
            "round_prefer_ceil": ratio < 0.5,
        }[how.rounding]  # fmt: skip
        return np.array([1.0, 0.0] if before else [0.0, 1.0])
    reach = 1 if how.mode == "linear" else 2
    shrink = min(scale, 1.0) if how.antialias else 1.0
    first = floor(-reach / shrink) + 1
    distance = np.abs(np.arange(first, 2 - first) - ratio)
    found = _kernel(how, distance * shrink)
    return found / found.sum() if how.antialias else found


def _kernel(how: Resampling, x: Floats) -> Floats:
    """The triangle, or the cubic of R. Keys (1981), at distances x >= 0."""
    if how.mode == "linear":
        return np.clip(1 - x, 0, 1)
    a = how.cubic
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def interpolated(
    scope: Scope,
    x: Value,
    target: tuple[int, ...],
    scales: tuple[float, ...],
    roi: tuple[tuple[float, float], ...],
    how: Resampling,
) -> Value:
    """A tensor resized axis by axis; `scales` and `roi` are per axis."""
    name, perm = scope.as_is(x)
    mask: NDArray[np.bool_] = np.ones((1,) * len(target), np.bool_)
    for axis, (size, out) in enumerate(zip(x.shape, target, strict=True)):
        if size == out and scales[axis] == 1.0 and roi[axis] == (0.0, 1.0):
            continue
        table = axis_table(how, size, out, scales[axis], roi[axis])
        tables = [
            scope.constant(f"places{axis}", table.places),
            scope.constant(f"weights{axis}", table.weights),
        ]
        name = scope.node(Interpolate(perm.index(axis)), [name, *tables], f"axis{axis}")
        mask = mask & table.inside.reshape([-1 if a == axis else 1 for a in range(len(target))])
    result = scope.result(name, perm)
    return result if mask.all() else _masked(scope, result, mask, how.extrapolation)


def _masked(scope: Scope, x: Computed, mask: NDArray[np.bool_], value: float) -> Value:
    """`value` where the mask does not hold."""
    condition = Constant(mask, f"{scope.name}/inside")
    outside = Constant(np.asarray(value, DType.FLOAT32.value), f"{scope.name}/outside")
    names, lying = aligned(scope, [condition, x, outside])
    return scope.result(scope.node(Where(), names), lying)
