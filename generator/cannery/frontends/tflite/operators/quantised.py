"""Operators on quantised tensors: integers as TensorFlow Lite's reference kernels compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.operators.hybrid import hybrid
from cannery.frontends.tflite.operators.movement import pads_of
from cannery.frontends.tflite.operators.products import rows
from cannery.frontends.tflite.operators.reduction import reduced_axes
from cannery.frontends.tflite.operators.windows import (
    check_image,
    check_kernel,
    depthwise_weight,
    groups,
    read_pool,
    read_window,
    rearranged,
)
from cannery.frontends.tflite.quantities import (
    Quantity,
    output_range,
    quantity,
    require_bytes,
    require_same,
)
from cannery.frontends.tflite.scope import Scope, quantised
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Gelu, Max, Min, Sub
from cannery.ops.fixed_point.arithmetic import away, by_factor, make_factor
from cannery.ops.fixed_point.average_pool import FixedAveragePool
from cannery.ops.fixed_point.exponential import softmax_table
from cannery.ops.fixed_point.hard_swish import hard_swish
from cannery.ops.fixed_point.pointwise import (
    FixedProduct,
    FixedQuantize,
    FixedRescale,
    FixedSum,
)
from cannery.ops.fixed_point.softmax import FixedSoftmax
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Pad, Transpose
from cannery.ops.quantize.linear import DequantizeLinear
from cannery.ops.quantize.products import ConvInteger, MatMulInteger
from cannery.ops.quantized.elementwise import ByteTable
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.reduce.op import ReduceMax, ReduceMin, ReduceSum

_F32 = NDArray[np.float32]


# Products


@quantised("CONV_2D")
def conv(scope: Scope) -> str:
    """x[N,H,W,IC], w[OC,H,W,IC/groups] with a scale for each output channel or for all."""
    x, w = scope.input(0), scope.input(1)
    window = read_window(scope, check_image(scope, x), check_kernel(scope, w))
    group = groups(scope, x, scope.shape(w)[3])
    geometry = (window.strides, window.pads, window.dilations, group)
    if quantity(scope, 0) is None:
        found = scope.tensor(1).scales
        array = scope.known(1, "its weights").transpose(1, 2, 3, 0)
        symmetric = found is not None and found.single
        return hybrid(scope, Conv(*geometry), x, array, scope.shape(x)[0], 0, symmetric=symmetric)
    weight = rearranged(scope, w, (1, 2, 3, 0))
    return _product(scope, ConvInteger(*geometry), x, weight, 0)


@quantised("DEPTHWISE_CONV_2D")
def depthwise_conv(scope: Scope) -> str:
    """x[N,H,W,C], w[1,H,W,C*m] with a scale for each output channel or for all."""
    x, w = scope.input(0), scope.input(1)
    window = read_window(scope, check_image(scope, x), check_kernel(scope, w))
    scope.ignore("DepthMultiplier")
    weight = depthwise_weight(scope, w)
    geometry = (window.strides, window.pads, window.dilations, scope.shape(x)[-1])
    if quantity(scope, 0) is None:
        array = scope.known(1, "its weights").reshape(scope.shape(weight))
        return hybrid(scope, Conv(*geometry), x, array, scope.shape(x)[0], 3, symmetric=False)
    return _product(scope, ConvInteger(*geometry), x, weight, 3)


@quantised("FULLY_CONNECTED")
def fully_connected(scope: Scope) -> str:
    """x[...,K], w[N,K] with a scale for each row or for all."""
    x, w = scope.input(0), scope.input(1)
    if scope.rank(w) != 2:
        raise ModelError(f"its weights have the shape {scope.shape(w)}, expected two axes")
    if scope.integer("WeightsFormat"):
        raise UnsupportedError("its shuffled weights are not supported")
    asymmetric = scope.flag("AsymmetricQuantizeInputs")
    keep = scope.flag("KeepNumDims")
    flat = rows(scope, x, scope.shape(w)[1], keep=keep)
    weight = scope.node(Transpose((1, 0)), [w], "weight")
    if quantity(scope, 0) is None:
        shape = scope.shape(flat)
        flat = scope.reshaped(flat, (prod(shape[:-1]), shape[-1]), "vectors")
        count = scope.shape(flat)[0]
        array = scope.known(1, "its weights").T
        y = hybrid(scope, MatMul(), flat, array, count, 0, symmetric=not asymmetric)
        return scope.reshaped(y, (*shape[:-1], scope.shape(y)[-1]), "shape")
    return _product(scope, MatMulInteger(), flat, weight, 0, once=True)


def _product(scope: Scope, op: Op, x: str, w: str, axis: int, *, once: bool = False) -> str:
    """Sums of products in int32, the bias, and what they are in units of the result.

    LiteRT's dense layers round `once`, its convolutions twice.
    """
    scope.ignore("QuantizedBiasType")
    known = quantity(scope, 0)
    assert known is not None
    require_bytes(scope, 0, 1)
    weight, y = _weight_scales(scope, axis), output_range(scope)
    points = [
        scope.constant("x_zero", np.asarray([known.zero], scope.dtype(x).numpy)),
        scope.constant("w_zero", np.asarray(weight.zeros, scope.dtype(w).numpy)),
    ]
    sums = scope.node(op, [x, w, *points], "sums")
    if scope.has(2):
        if scope.dtype(scope.input(2)) is not DType.INT32:
            raise UnsupportedError(f"a bias of {scope.dtype(scope.input(2)).value}")
        sums = scope.node(Add(), [sums, scope.input(2)], "biased")
    factors = known.scale * weight.scales / y.scale
    return _rescaled(scope, sums, factors, y, once=once)


class _Weights:
    """Scales in float64 and zero points of weights: one, or one for each output channel."""

    def __init__(self, scales: NDArray[np.float64], zeros: NDArray[np.int64]) -> None:
        self.scales = scales
        self.zeros = zeros


def _weight_scales(scope: Scope, axis: int) -> _Weights:
    tensor = scope.tensor(1)
    found = tensor.scales
    if found is None:
        raise UnsupportedError("its weights have no scale")
    if not np.isfinite(found.scales).all() or (found.scales < 0).any():
        raise ModelError("a scale of its weights is not a positive number")
    if found.scales.size > 1 and (found.axis != axis or found.scales.size != tensor.shape[axis]):
        what = f"{found.scales.size} scales along axis {found.axis} of {tensor.shape}"
        raise UnsupportedError(what)
    zeros = found.zeros[:1] if (found.zeros == found.zeros[0]).all() else found.zeros
    return _Weights(found.scales.astype(np.float64), zeros)


def _rescaled(
    scope: Scope, sums: str, factors: NDArray[np.float64], y: Quantity, *, once: bool = False
) -> str:
    """Sums by factors, as results."""
    if not np.isfinite(factors).all() or factors.max(initial=0) >= 2.0**29:
        raise ModelError("its scales are too far apart")
    made = [make_factor(float(f)) for f in factors.reshape(-1)]
    parts = [
        scope.constant("multiplier", np.asarray([f.multiplier for f in made], np.int32)),
        scope.constant("shift", np.asarray([f.shift for f in made], np.int32)),
    ]
    return scope.node(FixedRescale(*y.bounds, once), [sums, *parts])


# Sums and products of two


@quantised("ADD", "SUB")
def add(scope: Scope) -> str:
    """Both are brought to a common scale first."""
    scope.ignore("PotScaleInt16")
    a, b, y = _both(scope)
    twice = 2.0 * max(a.scale, b.scale)
    left = 15 if y.dtype is DType.INT16 else 20
    reals = (a.scale / twice, b.scale / twice, twice / ((1 << left) * y.scale))
    if max(reals) > 1.0:
        raise UnsupportedError("the scale of its result is too small for its inputs")
    first, second, last = map(make_factor, reals)
    op = FixedSum(*y.bounds, (a.zero, b.zero), (first, second, last), left, scope.kind == "SUB")
    return scope.node(op, [scope.input(0), scope.input(1)])


@quantised("MUL")
def mul(scope: Scope) -> str:
    """The product is exact."""
    a, b, y = _both(scope)
    factor = make_factor(a.scale * b.scale / y.scale)
    op = FixedProduct(*y.bounds, (a.zero, b.zero), factor)
    return scope.node(op, [scope.input(0), scope.input(1)])


def _both(scope: Scope) -> tuple[Quantity, Quantity, Quantity]:
    a, b = quantity(scope, 0), quantity(scope, 1)
    y = output_range(scope)
    if a is None or b is None or not a.dtype is b.dtype is y.dtype:
        raise UnsupportedError("its inputs and its output have different types")
    return a, b, y


# Windows and means


@quantised("MAX_POOL_2D")
def max_pool(scope: Scope) -> str:
    """Padding never wins."""
    require_same(scope)
    y = output_range(scope)
    kernel, window = read_pool(scope, scope.input(0))
    op = QuantizedMaxPool(kernel, window.strides, window.pads, window.dilations)
    found = scope.node(op, [scope.input(0)])
    info = np.iinfo(y.dtype.value)
    for limit, bound, clamp in ((info.min, y.minimum, Max()), (info.max, y.maximum, Min())):
        if bound != limit:
            number = scope.constant("bound", np.asarray(bound, y.dtype.numpy))
            found = scope.node(clamp, [found, number], "activation")
    return found


@quantised("AVERAGE_POOL_2D")
def average_pool(scope: Scope) -> str:
    """Padding does not count."""
    require_same(scope)
    y = output_range(scope)
    kernel, window = read_pool(scope, scope.input(0))
    window_of = (kernel, window.strides, window.pads, window.dilations)
    return scope.node(FixedAveragePool(*window_of, y.minimum, y.maximum), [scope.input(0)])


@quantised("MEAN")
def mean(scope: Scope) -> str:
    """The sum, times a factor that has the number of elements in it."""
    x, known = scope.input(0), quantity(scope, 0)
    require_bytes(scope, 0)
    y, axes = output_range(scope, activation=False), reduced_axes(scope, x)
    assert known is not None
    count = int(np.prod([scope.shape(x)[a] for a in axes], dtype=np.int64))
    if not 0 < count < 2**20:
        raise UnsupportedError(f"the mean of {count} elements is not supported")
    wide = scope.node(Cast(DType.INT32), [x], "wide")
    total = scope.node(ReduceSum(axes, scope.flag("KeepDims")), [wide], "sum")
    less = scope.constant("zeros", np.asarray(count * known.zero, np.int32))
    sums = scope.node(Sub(), [total, less], "centred")
    factor = make_factor(known.scale / y.scale)
    moved = min(count.bit_length() - 1, 31 + factor.shift)
    parts = [
        scope.constant("multiplier", np.asarray((factor.multiplier << moved) // count, np.int32)),
        scope.constant("shift", np.asarray(factor.shift - moved, np.int32)),
    ]
    return scope.node(FixedRescale(*y.bounds), [sums, *parts])


@quantised("REDUCE_MAX", "REDUCE_MIN")
def reduced_extremum(scope: Scope) -> str:
    """Of integers that mean the same; floats hold each of them."""
    require_same(scope)
    x = scope.input(0)
    kind = ReduceMax if scope.kind == "REDUCE_MAX" else ReduceMin
    op = kind(reduced_axes(scope, x), scope.flag("KeepDims"))
    found = scope.node(op, [scope.node(Cast(DType.FLOAT32), [x], "numbers")], "found")
    return scope.node(Cast(scope.dtype(x)), [found])


@quantised("SOFTMAX")
def softmax(scope: Scope) -> str:
    """In fixed point; the scale of the result is as the kernels assume it."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    require_bytes(scope, 0)
    assert known is not None
    bits = 8 * y.dtype.bytes
    if (y.scale, y.zero) != (2.0**-bits, np.iinfo(y.dtype.value).min):
        raise UnsupportedError(f"the scale {y.scale:g} and zero point {y.zero} of its result")
    beta = scope.number("Beta", 1.0)
    if not beta > 0.0:
        raise UnsupportedError(f"a beta of {beta:g}")
    table = scope.constant("exponentials", softmax_table(known.scale, beta))
    return scope.node(FixedSoftmax(y.dtype), [scope.input(0), table])


# Functions of a byte


def _by_table(scope: Scope, function: Callable[[Quantity, Quantity], NDArray[np.float64]]) -> str:
    """A table of 256 results; `function` makes them, less the zero point, before clamping."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    require_bytes(scope, 0)
    assert known is not None
    if y.dtype not in (DType.INT8, DType.UINT8):
        raise UnsupportedError(f"from {known.dtype.value} to {y.dtype.value}")
    whole = np.nan_to_num(function(known, y), nan=0.0, posinf=2.0**31, neginf=-(2.0**31))
    entries = np.clip(whole + y.zero, y.minimum, y.maximum).astype(y.dtype.numpy)
    return scope.node(ByteTable(), [scope.input(0), scope.constant("table", entries)])


def _numbers(known: Quantity) -> NDArray[np.int64]:
    """All bytes in the order of tables, less their zero point."""
    stored = np.arange(256).astype(np.uint8).view(known.dtype.numpy)
    return np.asarray(stored.astype(np.int64) - known.zero)


_BOUNDS: Mapping[str, tuple[float, float]] = {
    "RELU": (0.0, np.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}  # fmt: skip


@quantised(*_BOUNDS)
def relu(scope: Scope) -> str:
    """Rescaled, then clamped."""
    low, high = _BOUNDS[scope.kind]

    def function(known: Quantity, y: Quantity) -> NDArray[np.float64]:
        found = by_factor(_numbers(known), make_factor(known.scale / y.scale))
        bounds = [away(np.float32(b) / np.float32(y.scale)) for b in (low, high)]
        return np.clip(found.astype(np.float64), *bounds)

    return _by_table(scope, function)


@quantised("LEAKY_RELU")
def leaky_relu(scope: Scope) -> str:
    """Two factors."""
    alpha = scope.number("Alpha")
    if alpha < 0.0:
        raise UnsupportedError(f"an alpha of {alpha:g}")

    def function(known: Quantity, y: Quantity) -> NDArray[np.float64]:
        x = _numbers(known)
        above = by_factor(x, make_factor(known.scale / y.scale))
        below = by_factor(x, make_factor(alpha * known.scale / y.scale))
        return np.where(x >= 0, above, below).astype(np.float64)

    return _by_table(scope, function)


_FUNCTIONS: Mapping[str, Callable[[_F32], _F32]] = {
    "LOGISTIC": lambda x: np.float32(1) / (np.float32(1) + np.exp(-x)),
    "TANH": np.tanh,
    "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    "EXP": np.exp,
    "GELU": lambda x: gelu_of(x),
}


def gelu_of(x: _F32) -> _F32:
    """By the error function, in float64."""
    wide = x.astype(np.float64)
    (found,) = Gelu().reference(wide)
    return np.asarray(found, np.float32)


@quantised(*_FUNCTIONS)
def function_of_floats(scope: Scope) -> str:
    """In float32, as the kernels make their tables."""
    if scope.kind == "GELU" and scope.flag("Approximate"):
        raise UnsupportedError("its approximation is not supported on integers")

    def function(known: Quantity, y: Quantity) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            x = _numbers(known).astype(np.float32) * np.float32(known.scale)
            return away(_FUNCTIONS[scope.kind](x) * (np.float32(1) / np.float32(y.scale)))

    return _by_table(scope, function)


@quantised("HARD_SWISH")
def hard_swish_of_bytes(scope: Scope) -> str:
    """In fixed point; the kernels take no result whose unit is much smaller than the input's."""

    def function(known: Quantity, y: Quantity) -> NDArray[np.float64]:
        if make_factor(known.scale / 128 / y.scale).shift > 0:
            raise UnsupportedError("the scale of its result is too small for its input")
        return hard_swish(_numbers(known), known.scale, y.scale).astype(np.float64)

    return _by_table(scope, function)


# From and to floats


@quantised("QUANTIZE")
def quantize(scope: Scope) -> str:
    """Of floats, or from one scale to another."""
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    if known is None:
        op = FixedQuantize(*y.bounds, y.scale)
        return scope.node(op, [scope.input(0)])
    factor = make_factor(known.scale / y.scale)
    if known.dtype is not DType.INT16 and y.dtype is not DType.INT16:
        return _by_table(scope, lambda a, b: by_factor(_numbers(a), factor).astype(np.float64))
    wide = scope.node(Cast(DType.INT32), [scope.input(0)], "wide")
    zero = scope.constant("x_zero", np.asarray(known.zero, np.int32))
    centred = scope.node(Sub(), [wide, zero], "centred")
    return _rescaled(scope, centred, np.asarray([known.scale / y.scale]), y)


@quantised("DEQUANTIZE")
def dequantize(scope: Scope) -> str:
    """To floats; a constant may have a scale for each index of an axis."""
    tensor = scope.tensor(0)
    found = tensor.scales
    if found is None or tensor.is_variable:
        raise UnsupportedError("its input has no scale")
    x = scope.input(0)
    shape = [1] * scope.rank(x)
    if not found.single:
        if not 0 <= found.axis < len(shape) or found.scales.size != scope.shape(x)[found.axis]:
            raise ModelError(f"{found.scales.size} scales along axis {found.axis}")
        shape[found.axis] = found.scales.size
    zeros = found.zeros.astype(scope.dtype(x).numpy)
    if not np.array_equal(zeros, found.zeros):
        raise ModelError(f"a zero point is not {scope.dtype(x).value}")
    scales = found.scales.reshape(shape if not found.single else ())
    parts = [
        scope.constant("scale", scales), scope.constant("zero", zeros.reshape(scales.shape))
    ]  # fmt: skip
    return scope.node(DequantizeLinear(), [x, *parts])


@quantised("PAD", "PADV2")
def pad(scope: Scope) -> str:
    """With the zero point, or with the integer that is the third input."""
    require_same(scope)
    known = quantity(scope, 0)
    assert known is not None
    value = known.zero
    if scope.kind == "PADV2":
        given = scope.known(2, "its value")
        if given.size != 1:
            raise ModelError(f"{given.size} values for padding")
        value = int(given.item())
    return scope.node(Pad(pads_of(scope, scope.input(0)), float(value)), [scope.input(0)])


@quantised("MAXIMUM", "MINIMUM")
def extremum(scope: Scope) -> str:
    """Of integers that mean the same."""
    both = [scope.tensor(k) for k in range(2)] + [scope.output]
    first = both[0].scales
    if not all(t.dtype == both[0].dtype and first and first.same(t.scales) for t in both):
        raise UnsupportedError("its inputs and its output have different scales")
    op = Max() if scope.kind == "MAXIMUM" else Min()
    return scope.node(op, [scope.input(0), scope.input(1)])
