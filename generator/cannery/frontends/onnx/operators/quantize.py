"""Quantised tensors: scales and zero points of a tensor, of an axis, or of blocks along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.model import HALVES
from cannery.frontends.onnx.operators.arithmetic import element_type
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.convolution import conv_window, first, spatial_first
from cannery.frontends.onnx.operators.elementwise import aligned
from cannery.frontends.onnx.operators.movement import expanded
from cannery.frontends.onnx.operators.values import Computed, Constant, Value
from cannery.ops.elementwise.binary import Add
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear, Requantize
from cannery.ops.quantize.products import ConvInteger, MatMulInteger


def _spread(scope: Scope, value: Value, shape: tuple[int, ...], axis: int, label: str) -> Value:
    """A scale or zero point in a form that broadcasts to a tensor of `shape`."""
    if value.shape in ((), (1,)):
        return scope.reshaped(value, (), label)
    if len(value.shape) not in (1, len(shape)) or not shape:
        raise ModelError(f"scales or zero points {value.shape} for a tensor of shape {shape}")
    if len(value.shape) == 1:
        if value.shape[0] != shape[axis]:
            raise ModelError(f"{value.shape[0]} scales or zero points for an axis of {shape[axis]}")
        return scope.reshaped(value, (*value.shape, *(1,) * (len(shape) - axis - 1)), label)
    block = scope.integer("block_size", 0)
    count = value.shape[axis]
    fits = block >= 1 and count == -(-shape[axis] // block)
    if not fits or any(
        k != axis and d != e for k, (d, e) in enumerate(zip(value.shape, shape, strict=True))
    ):
        raise ModelError(f"scales of shape {value.shape} for {shape} in blocks of {block}")
    if shape[axis] % block:
        raise UnsupportedError(f"blocks of {block} that do not divide an axis of {shape[axis]}")
    before, after = shape[:axis], shape[axis + 1 :]
    thin = scope.reshaped(value, (*before, count, 1, *after), f"{label}/blocks")
    wide = expanded(scope, thin, (*before, count, block, *after), f"{label}/expanded")
    return scope.reshaped(wide, shape, label)


def _check_scale(scope: Scope, value: Value, what: str, *, divides: bool) -> None:
    """Raise ModelError for a constant scale that cannot be the distance between two numbers.

    ONNX does not specify this. A result is divided by its scale, which must be positive, and not so
    small that some processors treat it as 0. An input is multiplied: by 0 if a channel of weights
    has only zeros, which is sound; never by a negative or infinite number.
    """
    if not isinstance(value, Constant) or scope.dtype(value) != "float32":
        return
    scale = value.array.astype(np.float64)
    least = float(np.finfo(np.float32).tiny) if divides else 0.0
    sound = np.isfinite(scale) & (scale >= least)
    if not sound.all():
        at = np.unravel_index(int(np.argmin(sound)), scale.shape)
        place = f" at {[int(k) for k in at]}" if scale.size > 1 else ""
        raise ModelError(
            f"{what} is {scale[at]:g}{place}",
            cure="scales are positive, finite numbers: quantise the model again",
        )


def _linear(scope: Scope, op: QuantizeLinear | DequantizeLinear, dtype: str) -> Value:
    """x, scale and zero point, which is 0 of `dtype` if absent."""
    x, scale, zero = scope.input(0), scope.input(1), scope.optional(2)
    axis = scope.integer("axis", 1)
    rank = len(x.shape)
    axis = scope.axis(axis, rank) if max(len(scale.shape), rank) > 1 and rank > axis else 0
    scope.ignore("block_size", "saturate")
    if zero is None:
        zero = Constant(np.zeros((), dtype), f"{scope.name}/zero")
    if scope.dtype(scale) != "float32":
        raise UnsupportedError(f"a scale of {scope.dtype(scale)} is not supported")
    _check_scale(scope, scale, "its scale", divides=isinstance(op, QuantizeLinear))
    parts = [x]
    for value, label in ((scale, "scale"), (zero, "zero")):
        parts.append(_spread(scope, value, x.shape, axis, label))
    if isinstance(x, Computed):
        parts[1:] = _as_one(scope, parts[1:])
    names, perm = aligned(scope, parts)
    return scope.result(scope.node(op, names), perm)


def _as_one(scope: Scope, parts: Sequence[Value]) -> list[Value]:
    """Scales and zero points that are equal everywhere, as one for the whole tensor."""
    found: list[Value] = []
    for part, label in zip(parts, ("scale", "zero"), strict=True):
        if not isinstance(part, Constant) or len(np.unique(part.array)) != 1:
            return list(parts)
        is_one = part.array.ndim == 0
        array = part.array.reshape(-1)[0]
        found.append(part if is_one else Constant(np.asarray(array), f"{scope.name}/{label}"))
    return found


@operator("QuantizeLinear")
def quantize_linear(scope: Scope) -> Value:
    """Round to nearest even and saturate."""
    number = scope.integer("output_dtype", 0)
    precision = scope.integer("precision", 0)
    if precision not in (0, 1, *HALVES):
        raise UnsupportedError("a precision other than float32")
    zero = scope.optional(2)
    dtype = element_type(number).name if number else "uint8" if zero is None else scope.dtype(zero)
    if zero is not None and dtype != scope.dtype(zero):
        raise ModelError(f"its output is {dtype}, its zero point {scope.dtype(zero)}")
    return _linear(scope, QuantizeLinear(), dtype)


@operator("DequantizeLinear")
def dequantize_linear(scope: Scope) -> Value:
    """To float32."""
    if scope.integer("output_dtype", 0) not in (0, 1, *HALVES):
        raise UnsupportedError("an output other than float32")
    return _linear(scope, DequantizeLinear(), scope.dtype(scope.input(0)))


def _zero(scope: Scope, index: int, like: Value) -> Value:
    """A zero point of `like`, 0 if it is absent."""
    given = scope.optional(index)
    if given is not None:
        return given
    return Constant(np.zeros((), scope.dtype(like)), f"{scope.name}/zero{index}")


def _scales(scope: Scope) -> list[Value]:
    """The scales of the factors and the result of QLinearMatMul and QLinearConv, checked."""
    scales = [scope.input(k) for k in (1, 4, 6)]
    if any(scope.dtype(s) != "float32" for s in scales):
        raise UnsupportedError("scales other than float32 are not supported")
    for scale, what in zip(scales, ("first", "second", "result's"), strict=True):
        _check_scale(scope, scale, f"the {what} scale", divides=what == "result's")
    return scales


def _product(scope: Scope, a: Value, b: Value, zeros: tuple[Value, Value], label: str) -> str:
    """(a - zero) (b - zero) in int32, multiplied like MatMul."""
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise UnsupportedError("a product with a vector is not supported")
    za, zb = zeros
    if len(za.shape) == 1 and za.shape[0] > 1:
        za = scope.reshaped(za, (*za.shape, 1), "zero_a")
    return scope.node(MatMulInteger(), [scope.plain(v) for v in (a, b, za, zb)], label)


@operator("MatMulInteger")
def matmul_integer(scope: Scope) -> Value:
    """8-bit numbers to int32."""
    a, b = scope.input(0), scope.input(1)
    zeros = (_zero(scope, 2, a), _zero(scope, 3, b))
    return scope.result(_product(scope, a, b, zeros, ""))


@operator("QLinearMatMul")
def qlinear_matmul(scope: Scope) -> Value:
    """8-bit numbers to 8-bit numbers."""
    a, b = scope.input(0), scope.input(3)
    total = _product(scope, a, b, (scope.input(2), scope.input(5)), "sums")
    scales = _scales(scope)
    if len(scales[0].shape) == 1 and scales[0].shape[0] > 1:
        scales[0] = scope.reshaped(scales[0], (*scales[0].shape, 1), "scale_a")
    names = [total, *map(scope.plain, scales), scope.plain(scope.input(7))]
    return scope.result(scope.node(Requantize(), names))


def _convolution(scope: Scope, x: Value, w: Value, zx: Value, zw: Value, label: str) -> str:
    """Sums in int32, channels last."""
    window = conv_window(scope, x, w)
    group = scope.integer("group", 1)
    op = ConvInteger(window.strides, window.pads(scope), window.dilations, group)
    weight = spatial_first(scope, w)
    zeros = [scope.plain(scope.reshaped(z, (int(np.prod(z.shape)),), "zero")) for z in (zx, zw)]
    return scope.node(op, [scope.last(x), weight, *zeros], label)


@operator("ConvInteger")
def conv_integer(scope: Scope) -> Value:
    """8-bit numbers to int32."""
    x, w = scope.input(0), scope.input(1)
    return first(scope, _convolution(scope, x, w, _zero(scope, 2, x), _zero(scope, 3, w), ""))


@operator("QLinearConv")
def qlinear_conv(scope: Scope) -> Value:
    """8-bit numbers to 8-bit numbers; the bias is int32 of scale x_scale * w_scale."""
    x, w = scope.input(0), scope.input(3)
    total = _convolution(scope, x, w, scope.input(2), scope.input(5), "sums")
    bias = scope.optional(8)
    if bias is not None:
        total = scope.node(Add(), [total, scope.plain(bias)], "biased")
    scales = [scope.plain(s) for s in _scales(scope)]
    return first(scope, scope.node(Requantize(), [total, *scales, scope.plain(scope.input(7))]))
