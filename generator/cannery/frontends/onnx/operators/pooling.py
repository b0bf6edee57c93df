"""Pools: images with channels in axis 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.arithmetic import window_pads
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.convolution import first, spatial_sizes
from cannery.frontends.onnx.operators.elementwise import apply, combined
from cannery.frontends.onnx.operators.movement import as_type
from cannery.frontends.onnx.operators.reduction import reduced
from cannery.frontends.onnx.operators.values import Constant, Value, filled
from cannery.frontends.volumes import Window, pool_3d
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.elementwise.binary import Add, Div, Mul, Pow
from cannery.ops.elementwise.unary import Abs, Sqrt, Square
from cannery.ops.indexing.scatter import ScatterElements
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape
from cannery.ops.ordering.pool_places import PoolPlaces
from cannery.ops.reduce.op import ReduceSum
from cannery.ops.window import Pads, extent


@dataclass(frozen=True)
class _Pool:
    """A window that slides over x."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]

    def beyond(self, spatial: tuple[int, ...], ceil: bool) -> tuple[int, ...]:
        """How many elements windows reach beyond the padding, if sizes are rounded up.

        A window that would begin after the input and its leading padding is dropped. One that
        exceeds the whole padded input, by less than its stride, always exists, as in ONNX Runtime;
        ONNX's specification rounds such a size down to 0, which is useless.
        """
        more = []
        for size, k, s, (begin, end), d in zip(
            spatial, self.kernel, self.strides, self.pads, self.dilations, strict=True
        ):
            span = size + begin + end - extent(k, d)
            windows = -(-span // s) + 1 if ceil or -s < span < 0 else span // s + 1
            if (windows - 1) * s >= size + begin:
                windows -= 1
            more.append(max((windows - 1) * s - span, 0) if windows > 0 else 0)
        return tuple(more)


def _pool(scope: Scope, x: Value) -> tuple[_Pool, tuple[int, ...]]:
    """The window, and how far it reaches beyond its padding."""
    spatial = spatial_sizes(scope, x)
    rank = len(spatial)
    kernel = scope.integers("kernel_shape", count=rank)
    strides = scope.integers("strides", (1,) * rank, rank)
    dilations = scope.integers("dilations", (1,) * rank, rank)
    pads = window_pads(scope, spatial, kernel, strides, dilations)
    pool = _Pool(kernel, strides, pads, dilations)
    sound = all(v >= 1 for v in (*kernel, *strides, *dilations))
    if not sound:
        raise ModelError("its kernel, strides and dilations must be positive")
    return pool, pool.beyond(spatial, bool(scope.integer("ceil_mode", 0)))


def _extended(pads: Pads, more: tuple[int, ...]) -> Pads:
    return tuple((b, e + m) for (b, e), m in zip(pads, more, strict=True))


def _pooled(scope: Scope, x: str, window: Window, make: Callable[[Window], Op]) -> str:
    """A pool by fast kernels, whatever the number of spatial axes."""
    if len(window[0]) == 3:
        return pool_3d(scope, x, window, make)
    return scope.node(make(window), [x])


@operator("MaxPool")
def max_pool(scope: Scope) -> Sequence[Value]:
    """Padding never wins. The second output is the places of the maxima."""
    x = scope.input(0)
    p, more = _pool(scope, x)
    window = (p.kernel, p.strides, _extended(p.pads, more), p.dilations)
    columns = bool(scope.integer("storage_order", 0))
    dtype = DType(scope.dtype(x))
    if dtype not in (DType.FLOAT32, DType.UINT8, DType.INT8):
        raise UnsupportedError(f"MaxPool of {dtype.value} is not supported")
    floats = as_type(scope, x, DType.FLOAT32, "floats")  # which is exact
    y = first(scope, _pooled(scope, scope.last(floats), window, lambda w: MaxPool(*w)))
    if scope.outputs < 2:
        return [as_type(scope, y, dtype, "typed")]
    places = scope.node(PoolPlaces(*window, columns), [scope.plain(floats)], "places")
    return [as_type(scope, y, dtype, "typed"), scope.result(places)]


@operator("MaxUnpool")
def max_unpool(scope: Scope) -> Value:
    """Zeros except for the maxima, which go back to where they came from."""
    x, places = scope.input(0), scope.input(1)
    spatial = spatial_sizes(scope, x)
    rank = len(spatial)
    kernel = scope.integers("kernel_shape", count=rank)
    strides = scope.integers("strides", (1,) * rank, rank)
    pads = window_pads(scope, spatial, kernel, strides, (1,) * rank)
    made = tuple(
        (d - 1) * s + k - b - e
        for d, s, k, (b, e) in zip(spatial, strides, kernel, pads, strict=True)
    )
    shape = (*x.shape[:2], *made)
    if min(shape) < 1:
        raise ModelError(f"shape {x.shape} cannot be unpooled to {shape}")
    zeros = filled((prod(shape),), 0, np.float32, f"{scope.name}/zeros")
    flat = [scope.reshaped(v, (prod(v.shape),), "flat") for v in (places, x)]
    names = [scope.plain(v) for v in (zeros, *flat)]
    y = scope.result(scope.node(ScatterElements(0), names, "scattered"))
    image = scope.reshaped(y, shape, "image")
    wanted = scope.known_integers(2, "shapes") or shape
    if len(wanted) != len(shape) or any(w < d for w, d in zip(wanted, shape, strict=True)):
        raise ModelError(f"shape {x.shape} cannot be unpooled to {wanted}")
    beyond = tuple((0, w - d) for w, d in zip(wanted, shape, strict=True))
    if wanted == shape:
        return image
    return scope.result(scope.node(Pad(beyond), [scope.plain(image)]))


@operator("AveragePool")
def average_pool(scope: Scope) -> Value:
    """The mean of the elements inside, or with count_include_pad also of padding."""
    x = scope.input(0)
    p, more = _pool(scope, x)
    source = scope.last(x)
    counted = bool(scope.integer("count_include_pad", 0))
    pads = p.pads
    if counted and any(more):  # elements beyond the padding do not count
        source = scope.node(Pad(((0, 0), *pads, (0, 0))), [source], "padded")
        pads, counted = ((0, 0),) * len(pads), False
    window = (p.kernel, p.strides, _extended(pads, more), p.dilations)
    return first(scope, _pooled(scope, source, window, lambda w: AveragePool(*w, counted)))


@operator("LpPool")
def lp_pool(scope: Scope) -> Value:
    """The p-norm of each window: the root of the sum of powers, which is their mean times their
    number.
    """
    x = scope.input(0)
    p, more = _pool(scope, x)
    order = scope.integer("p", 2)
    window = (p.kernel, p.strides, _extended(p.pads, more), p.dilations)
    powers = _powers(scope, x, order)
    mean = _pooled(scope, scope.last(powers), window, lambda w: AveragePool(*w, True))
    count = Constant(np.asarray(prod(p.kernel), np.float32), f"{scope.name}/count")
    total = combined(scope, Mul(), first(scope, mean), count, "sum")
    return _root(scope, total, order)


def _powers(scope: Scope, x: Value, order: int) -> Value:
    """|x|^order; ModelError unless order is positive."""
    if order < 1:
        raise ModelError(f"p is {order}, but must be positive")
    if order == 2:
        return apply(scope, Square(), x, "squares")
    size = apply(scope, Abs(), x, "magnitudes")
    exponent = Constant(np.asarray(order, np.float32), f"{scope.name}/order")
    return size if order == 1 else combined(scope, Pow(), size, exponent, "powers")


def _root(scope: Scope, x: Value, order: int) -> Value:
    """x^(1/order)."""
    if order == 2:
        return apply(scope, Sqrt(), x, "root")
    exponent = Constant(np.asarray(1.0 / order, np.float32), f"{scope.name}/inverse")
    return x if order == 1 else combined(scope, Pow(), x, exponent, "root")


@operator("GlobalLpPool")
def global_lp_pool(scope: Scope) -> Value:
    """The p-norm over all spatial axes, which stay as ones."""
    x = scope.input(0)
    rank = len(spatial_sizes(scope, x))
    order = scope.integer("p", 2)
    powers = _powers(scope, x, order)
    total = reduced(scope, ReduceSum, powers, range(2, rank + 2), True, "sum")
    return _root(scope, total, order)


@operator("LRN")
def local_response_normalization(scope: Scope) -> Value:
    """Divided by (bias + alpha / size * sum of squares of `size` channels around)^beta.

    The sum is an average pool over channels as columns of an image.
    """
    x = scope.input(0)
    if len(x.shape) < 3:
        raise ModelError(f"its input has shape {x.shape}, expected batch, channels and space")
    size = scope.integer("size")
    name = scope.last(x)
    shape = scope.type(name).shape
    squares = scope.node(Square(), [name], "squares")
    image = (shape[0], prod(shape[1:-1]), shape[-1], 1)
    rows = scope.node(Reshape(image), [squares], "rows")
    pads = ((0, 0), ((size - 1) // 2, size // 2))
    mean = scope.node(AveragePool((1, size), (1, 1), pads, (1, 1), True), [rows], "mean")
    power = scope.node(Reshape(shape), [mean], "power")
    for op, label, number in (
        (Mul(), "alpha", scope.number("alpha", 1e-4)),
        (Add(), "bias", scope.number("bias", 1.0)),
        (Pow(), "beta", scope.number("beta", 0.75)),
    ):
        power = scope.node(op, [power, scope.scalar(label, number)], f"with_{label}")
    return first(scope, scope.node(Div(), [name, power]))
