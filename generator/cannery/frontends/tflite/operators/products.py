"""Matrix products."""

from __future__ import annotations

from math import prod

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Transpose


@operator("FULLY_CONNECTED")
def fully_connected(scope: Scope) -> str:
    """x[...,K], w[N,K], bias[N]?; without `KeepNumDims`, x is a matrix."""
    x, w = scope.input(0), scope.input(1)
    if scope.rank(w) != 2:
        raise ModelError(f"its weights have the shape {scope.shape(w)}, expected two axes")
    if scope.integer("WeightsFormat"):
        raise UnsupportedError("its shuffled weights are not supported")
    scope.ignore("AsymmetricQuantizeInputs", "QuantizedBiasType")
    flat = rows(scope, x, scope.shape(w)[1], keep=scope.flag("KeepNumDims"))
    weight = scope.node(Transpose((1, 0)), [w], "weight")
    operands = [flat, weight, *([scope.input(2)] if scope.has(2) else [])]
    return scope.fused(scope.node(MatMul(), operands))


def rows(scope: Scope, x: str, width: int, *, keep: bool) -> str:
    """Vectors of `width` elements, with all axes before the last one if `keep`."""
    shape = scope.shape(x)
    fits = shape[-1:] == (width,) if keep else width and prod(shape) % width == 0
    if not fits:
        raise ModelError(f"weights of {width} columns for an input of {shape}")
    if keep and len(shape) > 1:
        return x
    return scope.reshaped(x, (prod(shape) // width, width), "rows")


@operator("BATCH_MATMUL")
def batch_matmul(scope: Scope) -> str:
    """Two tensors of matrices."""
    scope.ignore("AsymmetricQuantizeInputs")
    op = MatMul(scope.flag("AdjX"), scope.flag("AdjY"))
    return scope.node(op, [scope.input(0), scope.input(1)])
