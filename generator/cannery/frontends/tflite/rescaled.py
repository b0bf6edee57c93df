"""Sums as results: nodes that multiply integers with real factors as TensorFlow Lite does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError
from cannery.frontends.tflite.quantities import Quantity, quantity
from cannery.frontends.tflite.scope import Scope
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Sub
from cannery.ops.fixed_point.arithmetic import Factor, make_factor, shorter
from cannery.ops.fixed_point.pointwise import FixedRescale
from cannery.ops.fixed_point.wide import DoubleRescale, WideRescale
from cannery.ops.movement.op import Cast

_F64 = NDArray[np.float64]


def wide(scope: Scope, index: int) -> str:
    """An input as int32."""
    return scope.node(Cast(DType.INT32), [scope.input(index)], f"wide{index}")


def centred(scope: Scope, index: int) -> str:
    """An input less its zero point, as int32."""
    known, value = quantity(scope, index), wide(scope, index)
    if known is None or not known.zero:
        return value
    zero = scope.constant(f"zero{index}", np.asarray(known.zero, np.int32))
    return scope.node(Sub(), [value, zero], f"centred{index}")


def ratio(*factors: float, over: float) -> float:
    """A quotient as kernels compute it that multiply and divide floats; ModelError if infinite."""
    found = np.float32(1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for factor in factors:
            found = found * np.float32(factor)
        quotient = float(found / np.float32(over))
    return float(_checked(quotient, np.inf)[0])


def rescaled(scope: Scope, sums: str, factors: Any, y: Quantity, label: str = "") -> str:
    """Sums of int32 by factors, rounded twice."""
    made = [make_factor(float(f)) for f in _checked(factors, 2.0**29)]
    return scope.node(FixedRescale(*y.bounds), [sums, *constants(scope, made, label)], label)


def rescaled_wide(scope: Scope, sums: str, factors: Any, y: Quantity) -> str:
    """Sums of 64 bits by shorter factors; narrower ones are widened."""
    made = [shorter(make_factor(float(f))) for f in _checked(factors, 2.0**8)]
    if scope.dtype(sums) is not DType.INT64:
        sums = scope.node(Cast(DType.INT64), [sums], "wide")
    return scope.node(WideRescale(*y.bounds), [sums, *constants(scope, made)])


def in_float64(scope: Scope, sums: str, factors: Any, y: Quantity, label: str = "") -> str:
    """Sums by factors in float64, halves away from zero."""
    found = _checked(factors, 2.0**29)
    shape = () if found.size == 1 else found.shape
    bits = scope.constant(f"{label}_factor".lstrip("_"), found.view(np.int64).reshape(shape))
    return scope.node(DoubleRescale(*y.bounds), [sums, bits], label)


def _checked(factors: Any, limit: float) -> _F64:
    """Factors in one row; ModelError for those that are not finite, or not below the limit."""
    found = np.asarray(factors, np.float64).reshape(-1)
    if not np.isfinite(found).all() or found.max(initial=0) >= limit:
        raise ModelError("its scales are too far apart")
    return found


def constants(scope: Scope, made: list[Factor], label: str = "") -> list[str]:
    """Multipliers and shifts; one factor has no axis."""
    before = f"{label}_" if label else ""
    shape = () if len(made) == 1 else (len(made),)
    parts = {"multiplier": [f.multiplier for f in made], "shift": [f.shift for f in made]}
    return [
        scope.constant(before + name, np.asarray(numbers, np.int32).reshape(shape))
        for name, numbers in parts.items()
    ]
