"""Operators of ONNX's first version that were experimental, and what its versions until 6 need."""

from __future__ import annotations

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.onnx.old import DOMAIN
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.elementwise import apply, combined
from cannery.frontends.onnx.operators.values import Constant, Value
from cannery.ops.elementwise.activations import Softplus, Tanh
from cannery.ops.elementwise.binary import Add, Mul
from cannery.ops.movement.op import Slice


@operator("Align", domain=DOMAIN)
def align(scope: Scope) -> Value:
    """A tensor whose first axis becomes an axis of another; one with a single element as it is."""
    value, rank = scope.input(0), len(scope.input(1).shape)
    axis = scope.axis(scope.integer("axis"), rank) if rank else 0
    missing = rank - axis - len(value.shape)
    if missing < 0 and value.shape != (1,):
        raise ModelError(f"axis {axis} of a tensor with {rank} dimensions for {value.shape}")
    if len(value.shape) == 1 and value.shape[0] == 1:
        return value
    return scope.reshaped(value, (*value.shape, *(1,) * missing), "aligned")


def _number(value: float) -> Constant:
    return Constant(np.asarray(value, np.float32))


@operator("ImageScaler")
def image_scaler(scope: Scope) -> Value:
    """An image times a factor, plus a number for each channel."""
    x, bias = scope.input(0), scope.numbers("bias")
    if len(x.shape) != 4 or len(bias) not in (0, x.shape[1]):
        raise ModelError(f"{len(bias)} biases for {x.shape}")
    y: Value = combined(scope, Mul(), x, _number(scope.number("scale", 1.0)), "scaled")
    if not bias:
        return y
    return combined(scope, Add(), y, Constant(np.array(bias, np.float32).reshape(-1, 1, 1)))


@operator("Crop")
def crop(scope: Scope) -> Value:
    """An image without its borders; with `scale`, only so many rows and columns of that."""
    x = scope.input(0)
    left, top, right, bottom = scope.integers("border", count=4)
    if len(x.shape) != 4 or min(left, top, right, bottom) < 0:
        raise ModelError(f"borders {(left, top, right, bottom)} of {x.shape}")
    ends = [x.shape[2] - bottom, x.shape[3] - right]
    if scope.has("scale"):
        height, width = scope.integers("scale", count=2)
        ends = [top + height, left + width]
    sizes = (ends[0] - top, ends[1] - left)
    if min(sizes) < 1 or ends[0] > x.shape[2] or ends[1] > x.shape[3]:
        raise ModelError(f"nothing is left of {x.shape}, or less than is wanted")
    name, perm = scope.as_is(x)
    starts = [(0, 0, top, left)[p] for p in perm]
    stops = [(*x.shape[:2], *ends)[p] for p in perm]
    return scope.result(scope.node(Slice(tuple(starts), tuple(stops), (1,) * 4), [name]), perm)


@operator("Affine")
def affine(scope: Scope) -> Value:
    """Times alpha, plus beta."""
    y = combined(scope, Mul(), scope.input(0), _number(scope.number("alpha", 1.0)), "scaled")
    return combined(scope, Add(), y, _number(scope.number("beta", 0.0)))


@operator("Scale")
def scale(scope: Scope) -> Value:
    """Times a factor."""
    return combined(scope, Mul(), scope.input(0), _number(scope.number("scale", 1.0)))


@operator("ScaledTanh")
def scaled_tanh(scope: Scope) -> Value:
    """The tangent of beta * x, times alpha."""
    inner = combined(scope, Mul(), scope.input(0), _number(scope.number("beta", 1.0)), "inner")
    y = apply(scope, Tanh(), inner, "tanh")
    return combined(scope, Mul(), y, _number(scope.number("alpha", 1.0)))


@operator("ParametricSoftplus")
def parametric_softplus(scope: Scope) -> Value:
    """The softplus of beta * x, times alpha."""
    inner = combined(scope, Mul(), scope.input(0), _number(scope.number("beta", 1.0)), "inner")
    y = apply(scope, Softplus(), inner, "softplus")
    return combined(scope, Mul(), y, _number(scope.number("alpha", 1.0)))
