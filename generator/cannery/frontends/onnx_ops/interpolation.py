"""Resize of ONNX in all its modes, axis by axis: which elements weigh how much.

For output index o the position in the input comes from the coordinate transformation; the elements
around it get the weights of a triangle (linear) or of Keys' cubic, with antialias stretched by the
inverse of the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from cannery.frontends.onnx_ops.base import Scope
from cannery.frontends.onnx_ops.elementwise import aligned
from cannery.frontends.onnx_ops.values import Computed, Constant, Value
from cannery.ops.indexing.gather import Gather
from cannery.ops.logic.compare import Where
from cannery.ops.registry import Op
from cannery.ops.resize.interpolate import Interpolate
from cannery.ops.resize.positions import ResizedAxis

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
    """For each output index along an axis: what it reads, and its weights."""

    places: NDArray[np.int32]
    weights: NDArray[np.float32]


def axis_table(how: Resampling, axis: ResizedAxis) -> AxisTable:
    """The table of one axis, for all modes but "nearest"."""
    places, weights = [], []
    for x in axis.exact():
        base = ceil(x) - 1
        found = _weights(how, float(x - base), float(axis.rounded_scale))
        first = base + 1 - len(found) // 2
        at = np.arange(first, first + len(found))
        within = np.where((at >= 0) & (at < axis.size), found, 0.0)
        if how.exclude_outside and within.sum():
            found = within / within.sum()
        places.append(np.clip(at, 0, axis.size - 1))
        weights.append(found)
    return AxisTable(np.asarray(places, np.int32), np.asarray(weights, np.float32))


def _weights(how: Resampling, ratio: float, scale: float) -> Floats:
    """Weights of the elements around a position; 0 < ratio <= 1 behind the one before it."""
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


def interpolated(scope: Scope, x: Value, axes: Sequence[ResizedAxis], how: Resampling) -> Value:
    """A tensor resized axis by axis."""
    name, perm = scope.as_is(x)
    inside: NDArray[np.bool_] = np.ones((1,) * len(axes), np.bool_)
    for k, axis in enumerate(axes):
        if axis.stays:
            continue
        if how.mode == "nearest":
            op: Op = Gather(perm.index(k))
            tables = [scope.constant(f"places{k}", axis.nearest(how.rounding))]
        else:
            op, table = Interpolate(perm.index(k)), axis_table(how, axis)
            tables = [
                scope.constant(f"places{k}", table.places),
                scope.constant(f"weights{k}", table.weights),
            ]
        name = scope.node(op, [name, *tables], f"axis{k}")
        inside = inside & axis.inside().reshape([-1 if a == k else 1 for a in range(len(axes))])
    result = scope.result(name, perm)
    return result if inside.all() else _masked(scope, result, inside, how.extrapolation)


def _masked(scope: Scope, x: Computed, mask: NDArray[np.bool_], value: float) -> Value:
    """`value` where the mask does not hold."""
    condition = Constant(mask, f"{scope.name}/inside")
    outside = Constant(np.asarray(value).astype(scope.dtype(x)), f"{scope.name}/outside")
    names, lying = aligned(scope, [condition, x, outside])
    return scope.result(scope.node(Where(), names), lying)
