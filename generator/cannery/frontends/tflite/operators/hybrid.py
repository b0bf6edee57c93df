"""Floats times integer weights: inputs become whole numbers in units that depend on them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import Scope
from cannery.ir.graph import Array
from cannery.ir.registry import Op
from cannery.ops.elementwise import Add, Mul
from cannery.ops.fixed_point.dynamic import DynamicUnit, DynamicWhole


def hybrid(
    scope: Scope, op: Op, x: str, weight: Array, rows: int, axis: int, *, symmetric: bool,
    bias: int = 2,
) -> str:  # fmt: skip
    """`hybrid_product`, plus the input `bias`, if it is there, then an activation."""
    scope.ignore("QuantizedBiasType")
    if scope.output.is_quantised:
        raise UnsupportedError("its result is quantised, but its input is not")
    y = hybrid_product(scope, op, x, weight, rows, axis, symmetric=symmetric)
    if scope.has(bias):
        y = scope.node(Add(), [y, scope.input(bias)], "biased")
    return scope.fused(y)


def hybrid_product(
    scope: Scope, op: Op, x: str, weight: Array, rows: int, axis: int, *, symmetric: bool
) -> str:
    """The product of x, in `rows` with units of their own, and weights of int8, which are input 1.

    `weight` is in the order of `op`, its last axis the output channels, `axis` theirs in the file.
    """
    scales = scales_of_weights(scope, 1, axis)
    return product_of_rows(scope, op, x, weight, scales, rows, symmetric=symmetric)


def scales_of_weights(scope: Scope, index: int, axis: int) -> Array:
    """The scales of weights of int8 or int4, float32[1] or one for each place along `axis`."""
    tensor = scope.tensor(index)
    found = tensor.scales
    if tensor.dtype not in ("INT8", "INT4") or found is None or found.zeros.any():
        raise UnsupportedError(f"floats times weights of {tensor.dtype}, or with zero points")
    if not np.isfinite(found.scales).all():
        raise ModelError("a scale of its weights is not a number")
    if not found.single and (found.axis != axis or found.scales.size != tensor.shape[axis]):
        raise UnsupportedError(f"{found.scales.size} scales along axis {found.axis}")
    return found.scales


def product_of_rows(
    scope: Scope, op: Op, x: str, weight: Array, scales: Array, rows: int, *, symmetric: bool
) -> str:  # fmt: skip
    """`hybrid_product` by integer weights whose `scales` are known."""
    shape = scope.shape(x)
    if not rows or not prod(shape):
        raise ModelError("its input is empty")
    flat = scope.reshaped(x, (rows, prod(shape) // rows), "rows")
    whole = scope.node(DynamicWhole(symmetric), [flat], "whole")
    unit = scope.node(DynamicUnit(symmetric), [flat], "unit")
    inputs = [scope.reshaped(whole, shape, "image")]
    y = scope.node(op, [*inputs, scope.constant("weight", weight.astype(np.float32))], "sums")
    y = scope.node(Mul(), [y, scope.constant("scales", scales)], "scaled")
    units = scope.reshaped(unit, _column(rows, scope.shape(y)), "units")
    return scope.node(Mul(), [y, units], "product")


def _column(rows: int, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that broadcasts along the first axis."""
    return (rows, *(1 for _ in shape[1:]))
