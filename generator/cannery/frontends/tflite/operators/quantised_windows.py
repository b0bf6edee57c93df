"""Pools, sums and means of integers, as TensorFlow Lite's reference kernels compute them."""

from __future__ import annotations

import numpy as np

from cannery.errors import UnsupportedError
from cannery.frontends.tflite.operators.reduction import reduced_axes
from cannery.frontends.tflite.operators.windows import (
    read_pool,
)
from cannery.frontends.tflite.quantities import (
    output_range,
    quantity,
    require_same,
    require_types,
)
from cannery.frontends.tflite.rescaled import constants, wide
from cannery.frontends.tflite.scope import Scope, quantised
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Max, Min, Sub
from cannery.ops.fixed_point.arithmetic import Factor, make_factor, shorter
from cannery.ops.fixed_point.average_pool import FixedAveragePool
from cannery.ops.fixed_point.pointwise import (
    FixedRescale,
)
from cannery.ops.fixed_point.row_product import FixedRowProduct
from cannery.ops.movement.op import Cast, Transpose
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.reduce.op import ReduceMax, ReduceMin, ReduceSum


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


@quantised("MEAN", "SUM")
def mean(scope: Scope) -> str:
    """The sum, times a factor; that of a mean has the number of elements in it."""
    x, known = scope.input(0), quantity(scope, 0)
    y, axes = output_range(scope, activation=False), reduced_axes(scope, x)
    if known is None:
        raise UnsupportedError("its result is quantised, but its input is not")
    require_types(scope, known, y)
    count = int(np.prod([scope.shape(x)[a] for a in axes], dtype=np.int64))
    if not 0 < count < 2 ** (30 - 8 * known.dtype.bytes + 1):
        raise UnsupportedError(f"{count} elements: sums may need more than 32 bits")
    total = scope.node(ReduceSum(axes, scope.flag("KeepDims")), [wide(scope, 0)], "sum")
    less = scope.constant("zeros", np.asarray(count * known.zero, np.int32))
    sums = scope.node(Sub(), [total, less], "centred") if known.zero else total
    factor = make_factor(known.scale / y.scale)
    if scope.kind == "MEAN":
        moved = min(count.bit_length() - 1, 31 + factor.shift)
        factor = Factor((factor.multiplier << moved) // count, factor.shift - moved)
    return scope.node(FixedRescale(*y.bounds), [sums, *constants(scope, [factor])])


@quantised("REDUCE_PROD")
def product(scope: Scope) -> str:
    """Rescaled after each factor, in the order in which elements are stored."""
    x, known = scope.input(0), quantity(scope, 0)
    y, axes = output_range(scope, activation=False), reduced_axes(scope, x)
    if known is None:
        raise UnsupportedError("its result is quantised, but its input is not")
    if known.dtype is DType.UINT8:
        raise UnsupportedError("on uint8 it is not supported")
    require_types(scope, known, y)
    shape = scope.shape(x)
    kept = [a for a in range(len(shape)) if a not in axes]
    count = int(np.prod([shape[a] for a in axes], dtype=np.int64))
    if not count:
        raise UnsupportedError("of no elements")
    factor = make_factor(known.scale / y.scale ** (1 / count))
    if factor.shift > 8:
        raise UnsupportedError("the scale of its result is too small for its input")
    rows = scope.node(Transpose((*kept, *axes)), [x], "rows")
    rows = scope.reshaped(rows, (*(shape[a] for a in kept), count), "row")
    found = scope.node(FixedRowProduct(known.zero, y.zero, shorter(factor)), [rows], "product")
    if not scope.flag("KeepDims"):
        return found
    return scope.reshaped(found, tuple(1 if a in axes else d for a, d in enumerate(shape)), "kept")


@quantised("REDUCE_MAX", "REDUCE_MIN")
def reduced_extremum(scope: Scope) -> str:
    """Of integers that mean the same; floats hold each of them."""
    require_same(scope)
    x = scope.input(0)
    kind = ReduceMax if scope.kind == "REDUCE_MAX" else ReduceMin
    op = kind(reduced_axes(scope, x), scope.flag("KeepDims"))
    found = scope.node(op, [scope.node(Cast(DType.FLOAT32), [x], "numbers")], "found")
    return scope.node(Cast(scope.dtype(x)), [found])
