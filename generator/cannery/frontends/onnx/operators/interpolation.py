"""ONNX's Resize in all its modes, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.frontends.onnx.operators.base import Scope
from cannery.frontends.onnx.operators.elementwise import aligned
from cannery.frontends.onnx.operators.values import Computed, Constant, Value
from cannery.ir.registry import Op
from cannery.ops.indexing.gather import Gather
from cannery.ops.logic.compare import Where
from cannery.ops.resize.interpolate import Interpolate
from cannery.ops.resize.positions import ResizedAxis
from cannery.ops.resize.tables import Filter, axis_table


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

    @property
    def filter(self) -> Filter:
        """How elements are weighted, for all modes except "nearest"."""
        reach = 1 if self.mode == "linear" else 2
        return Filter(self.mode, reach, self.cubic, self.antialias, self.exclude_outside)


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
            op, table = Interpolate(perm.index(k)), axis_table(how.filter, axis)
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
