"""Integers in fixed point, as TensorFlow Lite has them: rescaled sums, pairs, means, softmax."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Mul
from cannery.ops.fixed_point.arithmetic import Factor, make_factor, shorter
from cannery.ops.fixed_point.average_pool import FixedAveragePool
from cannery.ops.fixed_point.dynamic import DynamicUnit, DynamicWhole
from cannery.ops.fixed_point.exponential import softmax_factor, softmax_reach, softmax_table
from cannery.ops.fixed_point.l2_norm import FixedL2Norm
from cannery.ops.fixed_point.log_softmax import FixedLogSoftmax
from cannery.ops.fixed_point.pointwise import (
    FixedProduct,
    FixedQuantize,
    FixedRescale,
    FixedSum,
)
from cannery.ops.fixed_point.quotient import FixedQuotient
from cannery.ops.fixed_point.row_product import FixedRowProduct
from cannery.ops.fixed_point.short_softmax import ShortSoftmax, exponentials, reciprocals
from cannery.ops.fixed_point.softmax import FixedSoftmax
from cannery.ops.fixed_point.tables import ShortSigmoid, ShortTable, short_table, sigmoid_table
from cannery.ops.fixed_point.wide import DoubleRescale, WideRescale
from cannery.ops.fixed_point.window_sum import FixedWindowSum
from cannery.ops.window import Pads
from ops.cases import Net, add_case, case

INT8, UINT8, INT16, INT32 = DType.INT8, DType.UINT8, DType.INT16, DType.INT32
INT64 = DType.INT64


@case(tolerance=0.0)
def fixed_rescale_channels() -> Graph:
    """Factors of all sizes, one of them 0."""
    net = Net()
    reals = (0.7, 3.0, 2.0**-20, 1e-5, 0.0, 2.0**-31, 900.0)
    made = [make_factor(real) for real in reals]
    parts = [
        net.constant("m", np.asarray([f.multiplier for f in made], np.int32)),
        net.constant("s", np.asarray([f.shift for f in made], np.int32)),
    ]
    op = FixedRescale(INT8, -11, -128, 127)
    return net.graph(net.node(op, [net.input("x", (3, 5, 7), INT32), *parts]))


@case(tolerance=0.0)
def fixed_wide_rescale() -> Graph:
    """Sums of 48 bits by shorter factors, some of which lead beyond the bounds."""
    net = Net()
    sums = net.node(Mul(), [net.input("x", (31, 5), INT64), net.constant("by", np.int64(2**29))])
    made = [shorter(make_factor(real)) for real in (0.7, 3.0, 2.0**-14, 2.0**-27, 1e-7)]
    parts = [
        net.constant("m", np.asarray([f.multiplier for f in made], np.int32)),
        net.constant("s", np.asarray([f.shift for f in made], np.int32)),
    ]
    op = WideRescale(INT16, 0, -32768, 32767)
    return net.graph(net.node(op, [sums, *parts]))


@case(tolerance=0.0)
def fixed_double_rescale() -> Graph:
    """Halves of both signs, and factors of all sizes."""
    net = Net()
    bits = np.asarray([0.5, 0.25, 1e-3, 3.7, 1e30, 0.0]).view(np.int64)
    op = DoubleRescale(INT8, 5, -128, 127)
    return net.graph(net.node(op, [net.input("x", (19, 6), INT32), net.constant("f", bits)]))


@case(tolerance=0.0)
def fixed_double_rescale_wide() -> Graph:
    """The same of int64."""
    net = Net()
    bits = net.constant("f", np.asarray(0.5).view(np.int64))
    x = net.input("x", (40,), INT64)
    return net.graph(net.node(DoubleRescale(INT16, 0, -32768, 32767), [x, bits]))


@case(tolerance=0.0)
def fixed_rescale_halves() -> Graph:
    """Products and quotients half way between two integers, of both signs."""
    net = Net()
    x = net.constant("x", np.arange(-40, 40, dtype=np.int32))
    parts = [net.constant("m", np.int32(2**30)), net.constant("s", np.int32(-2))]
    shift = net.input("unused", (80,), INT8)
    halves = net.node(FixedRescale(INT8, 0, -128, 127), [x, *parts])
    return net.graph(net.node(FixedSum(*_SUM), [halves, shift]))


_SUM = (INT8, 5, -128, 100, (3, -7), (Factor(2**30, 0), Factor(1395864371, -1),
        Factor(1431655765, -18)), 20)  # fmt: skip


def pair(op: Op, a: tuple[int, ...], b: tuple[int, ...], dtype: DType) -> Graph:
    """Two inputs."""
    net = Net()
    return net.graph(net.node(op, [net.input("a", a, dtype), net.input("b", b, dtype)]))


_PRODUCT = (UINT8, 100, 0, 255, (9, 200), make_factor(0.003))
_QUOTIENT = (INT8, 9, -100, 127, (3, -7), make_factor(40.0))
for _name, _op, _dtype in (
    ("sum", FixedSum(*_SUM), INT8),
    ("difference", FixedSum(*_SUM, subtract=True), INT8),
    ("product", FixedProduct(*_PRODUCT), UINT8),
    ("quotient", FixedQuotient(*_QUOTIENT), INT8),
):
    _pair = partial(pair, _op, (3, 5, 7), (5, 1), _dtype)
    add_case(f"fixed_{_name}", _pair, tolerance=0.0)
    _pair = partial(pair, _op, (2, 3, 5, 37), (2, 3, 5, 37), _dtype)
    add_case(f"fixed_{_name}_of_one_shape", _pair, tolerance=0.0)


#: One operand is one pixel, as in squeeze and excitation; halves, for which no float was found.
for _name, _op, _shapes in (
    ("product_by_channel", FixedProduct(*_PRODUCT), ((2, 3, 5, 37), (1, 1, 1, 37))),
    ("product_of_a_pixel", FixedProduct(*_PRODUCT), ((1, 1, 19), (4, 3, 19))),
    ("product_halves", FixedProduct(UINT8, 100, 0, 255, (9, 200), Factor(2**30, -7)),
     ((90,), (90,))),
    ("sum_by_channel", FixedSum(*_SUM), ((1, 3, 5, 37), (1, 1, 1, 37))),
):  # fmt: skip
    _pair = partial(pair, _op, *_shapes, INT8 if "sum" in _name else UINT8)
    add_case(f"fixed_{_name}", _pair, tolerance=0.0)

#: Fewer than two vectors of the narrowest instruction set.
add_case("fixed_sum_of_few", partial(pair, FixedSum(*_SUM), (7,), (7,), INT8), tolerance=0.0)


@case(tolerance=0.0)
def fixed_sum_of_words() -> Graph:
    """Numbers at both ends of int16, of which one is halved."""
    factors = Factor(2**30, 0), Factor(1395864371, -2), Factor(1431655765, -14)
    op = FixedSum(INT16, 0, -32768, 32767, (0, 0), factors, 15)
    return pair(op, (7, 83), (7, 83), INT16)


@case(tolerance=0.0)
def fixed_sum_twice() -> Graph:
    """A tensor and itself."""
    net = Net()
    x = net.input("x", (90,), INT8)
    return net.graph(net.node(FixedSum(*_SUM), [x, x]))


@case(tolerance=0.0)
def fixed_row_product() -> Graph:
    """Rows of bytes, and a factor that keeps products large."""
    net = Net(3)
    op = FixedRowProduct(-11, 4, shorter(make_factor(0.013)))
    return net.graph(net.node(op, [net.input("x", (30, 5), INT8)]))


@case(tolerance=0.0)
def fixed_row_product_of_words() -> Graph:
    """Of int16; products in between wrap around."""
    net = Net(3)
    op = FixedRowProduct(0, 0, shorter(make_factor(0.7)))
    return net.graph(net.node(op, [net.input("x", (4, 3, 3), INT16)]))


def l2_norm(dtype: DType, shape: tuple[int, ...], zero: int) -> Graph:
    """Rows of bytes."""
    net = Net(7)
    return net.graph(net.node(FixedL2Norm(zero), [net.input("x", shape, dtype)]))


def log_softmax(dtype: DType, shape: tuple[int, ...], scale: float) -> Graph:
    """Rows of bytes."""
    net = Net(7)
    factor = softmax_factor(scale)
    back = make_factor(2 ** (31 - factor.shift) / factor.multiplier)
    op = FixedLogSoftmax(factor, back, softmax_reach(factor))
    table = net.constant("table", softmax_table(scale, 1.0))
    return net.graph(net.node(op, [net.input("x", shape, dtype), table]))


for _dtype, _shape, _scale in ((INT8, (5, 3, 33), 0.05), (UINT8, (90, 2), 0.9)):
    _log = partial(log_softmax, _dtype, _shape, _scale)
    add_case(f"fixed_log_softmax_{_dtype.value}", _log, tolerance=0.0)

for _dtype, _shape, _zero in ((INT8, (5, 3, 33), -5), (UINT8, (90, 2), 128), (INT8, (256, 1), 0)):
    _norm = partial(l2_norm, _dtype, _shape, _zero)
    add_case(f"fixed_l2_norm_{_dtype.value}_{_shape[-1]}", _norm, tolerance=0.0)


@case(tolerance=0.0)
def fixed_quantize() -> Graph:
    """Halves go away from zero."""
    net = Net()
    op = FixedQuantize(INT16, 7, -300, 300, 0.015625)
    return net.graph(net.node(op, [net.input("x", (5, 41))]))


def average_pool(
    dtype: DType, kernel: tuple[int, int], strides: tuple[int, int], pads: Pads
) -> Graph:
    """Windows of bytes."""
    net = Net(3)
    x = net.input("x", (2, 7, 8, 18), dtype)
    op = FixedAveragePool(kernel, strides, pads, (1, 1), 0, 100)
    return net.graph(net.node(op, [x]))


for _name, _pool in {
    "plain": (INT8, (2, 2), (2, 2), ((0, 0), (0, 0))),
    "borders": (UINT8, (3, 3), (2, 1), ((1, 1), (1, 2))),
    "whole": (INT16, (7, 8), (1, 1), ((0, 0), (0, 0))),
}.items():
    add_case(f"fixed_average_pool_{_name}", partial(average_pool, *_pool), tolerance=0.0)


def window_sum(dtype: DType, kernel: tuple[int, int], strides: tuple[int, int]) -> Graph:
    """Means of windows of bytes, less a zero point, of which some are clamped."""
    net = Net(3)
    x = net.input("x", (2, 7, 8, 18), dtype)
    taps, less = kernel[0] * kernel[1], -11 if dtype is INT8 else 120
    window = (kernel, strides, ((0, 0), (0, 0)), (1, 1))
    op = FixedWindowSum(*window, INT8, 9, -100, 90, taps * less, make_factor(1.7 / taps))
    return net.graph(net.node(op, [x]))


for _name, _windows in {
    "some": (INT8, (2, 2), (2, 1)),
    "whole": (INT8, (7, 8), (1, 1)),
    "whole_unsigned": (UINT8, (7, 8), (1, 1)),
}.items():
    add_case(f"fixed_window_sum_{_name}", partial(window_sum, *_windows), tolerance=0.0)


def dynamic(op: Op) -> Graph:
    """Rows of floats."""
    net = Net()
    return net.graph(net.node(op, [net.input("x", (5, 13))]))


for _symmetric, _name in ((True, "symmetric"), (False, "asymmetric")):
    for _kind in (DynamicUnit, DynamicWhole):
        _op = _kind(_symmetric)
        _case_name = f"fixed_{_kind.__name__.lower()}_{_name}"
        add_case(_case_name, partial(dynamic, _op), tolerance=1e-7)


def softmax(dtype: DType, to: DType, scale: float, shape: tuple[int, ...]) -> Graph:
    """Rows of scores."""
    net = Net()
    table = net.constant("table", softmax_table(scale, 1.0))
    return net.graph(net.node(FixedSoftmax(to), [net.input("x", shape, dtype), table]))


for _name, _case in {
    "bytes": (INT8, INT8, 0.05, (9, 12)),
    "unsigned": (UINT8, UINT8, 0.01, (2, 3, 40)),
    "wide": (INT8, INT16, 0.11, (9, 2)),
    "alone": (INT8, INT8, 0.3, (3, 1)),
}.items():
    add_case(f"fixed_softmax_{_name}", partial(softmax, *_case), tolerance=0.0)


def of_shorts(op: Op, table: NDArray[np.generic]) -> Graph:
    """int16, by a table."""
    net = Net()
    return net.graph(net.node(op, [net.input("x", (3, 50), INT16), net.constant("t", table)]))


_WAVE = short_table(np.sin, np.float32(-7.0), np.float32(7.0), 1.1 / 32768)
for _name, _op, _table in (
    ("table", ShortTable(), _WAVE),
    ("sigmoid", ShortSigmoid(20000, 11), sigmoid_table()),
    ("sigmoid_far", ShortSigmoid(32767, 0), sigmoid_table()),
    ("tanh", ShortSigmoid(6, 0, tanh=True), sigmoid_table()),
    ("tanh_near", ShortSigmoid(17000, 31, tanh=True), sigmoid_table()),
):
    add_case(f"fixed_shorts_{_name}", partial(of_shorts, _op, _table), tolerance=0.0)


def softmax_of_shorts(factor: float, shape: tuple[int, ...]) -> Graph:
    """Rows of scores."""
    net = Net()
    inputs = [net.input("x", shape, INT16)]
    inputs += [net.constant("e", exponentials()), net.constant("r", reciprocals())]
    return net.graph(net.node(ShortSoftmax(make_factor(factor)), inputs))


for _name, _factor, _shape in (
    ("near", 0.003, (2, 3, 12)), ("far", 8.0, (5, 40)), ("alone", 1.0, (3, 1)),
):  # fmt: skip
    _softmax = partial(softmax_of_shorts, _factor, _shape)
    add_case(f"fixed_softmax_shorts_{_name}", _softmax, tolerance=0.0)
