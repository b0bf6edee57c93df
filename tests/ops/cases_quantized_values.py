"""Integers besides products: softmax, tables, sums, pools, pads and their ends in floats."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add, Mul, Relu
from cannery.ops.movement.op import Pad
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.quantized.average_pool import QuantizedAveragePool
from cannery.ops.quantized.elementwise import ByteTable, QuantizedElementwise, Scaled
from cannery.ops.quantized.function import TableFunction
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.quantized.softmax import QuantizedSoftmax
from cannery.ops.quantized.table import tabulated
from cannery.ops.resize.op import Resize
from cannery.ops.window import Pads
from ops.cases import Net, add_case, case

INT16, INT8, UINT8 = DType.INT16, DType.INT8, DType.UINT8


def softmax(shape: tuple[int, ...], wide: float = 7.0) -> Graph:
    """Rows of scores, some far below the largest."""
    net = Net(shape[-1])
    x = net.input("x", shape)
    scores = net.node(Mul(), [x, net.constant("wide", np.float32(wide))])
    return net.graph(net.node(QuantizedSoftmax(), [scores]))


for _shape in ((3, 37), (2, 2, 5), (11, 13)):
    add_case(f"quantized_softmax_{_shape[-1]}", partial(softmax, _shape), tolerance=0.0)

#: Of equal scores the sum is as large as can be: on either side of where it takes a bit more.
for _length in (1, 63, 64, 65, 127, 128, 129, 1024, 1025, 2**16 - 1, 2**16):
    add_case(f"quantized_softmax_equal_{_length}", partial(softmax, (1, _length), 0.0),
             tolerance=0.0)  # fmt: skip


def linear(op: Op, shape: tuple[int, ...], dtype: DType, zero: int) -> Graph:
    """Floats to bytes or back, by one scale and zero point."""
    net = Net(abs(zero))
    x = net.input("x", shape, DType.FLOAT32 if isinstance(op, QuantizeLinear) else dtype)
    parameters = [net.constant("scale", np.float32(0.013)),
                  net.constant("zero", np.asarray(zero, dtype.numpy))]  # fmt: skip
    return net.graph(net.node(op, [x, *parameters]))


for _dtype, _zero in ((UINT8, 117), (INT8, 0), (INT16, -1234)):
    _to, _from = QuantizeLinear(), DequantizeLinear()
    add_case(f"quantize_{_dtype.value}", partial(linear, _to, (2, 5, 7), _dtype, _zero),
             tolerance=0.0)  # fmt: skip
    add_case(f"dequantize_{_dtype.value}", partial(linear, _from, (3, 11), _dtype, _zero))


@case(tolerance=0.0)
def quantized_add() -> Graph:
    """A sum of bytes of two types with ReLU."""
    net = Net()
    a, b = net.input("a", (2, 3, 9), UINT8), net.input("b", (2, 3, 9), INT8)
    scaled = Scaled(0.02, 101), Scaled(0.017, -3), Scaled(0.031, 9)
    return net.graph(net.node(QuantizedElementwise(Add(), *scaled, UINT8, (Relu(),)), [a, b]))


@case(tolerance=0.0)
def quantized_add_words() -> Graph:
    """int16 and bytes, held within a bound, and by a zero point."""
    net = Net()
    a, b = net.input("a", (2, 3, 13), INT16), net.input("b", (2, 3, 13), INT8)
    held = QuantizedElementwise(Add(), Scaled(0.9, 0), Scaled(41.5, 0), Scaled(1.0, 0), INT16,
                                (Relu(),), 8191)  # fmt: skip
    moved = QuantizedElementwise(Mul(), Scaled(0.1, 9), Scaled(2.5, -3), Scaled(1.5, -7000), INT16)
    return net.graph(net.node(held, [a, b]), net.node(moved, [a, b]))


@case(tolerance=0.0)
def quantized_square() -> Graph:
    """Both factors are the same."""
    net = Net()
    a = net.input("a", (41,), UINT8)
    scaled = Scaled(0.02, 101), Scaled(0.02, 101), Scaled(0.05, -128)
    return net.graph(net.node(QuantizedElementwise(Mul(), *scaled, INT8), [a, a]))


@case(tolerance=0.0)
def quantized_table() -> Graph:
    """Any function of a byte."""
    net = Net()
    table = net.constant("table", net.rng.integers(-128, 127, 256, np.int8, endpoint=True))
    return net.graph(net.node(ByteTable(), [net.input("x", (3, 35), INT8), table]))


@case(tolerance=0.0)
def quantized_table_of_floats() -> Graph:
    """Any function of a byte whose results are floats."""
    net = Net()
    table = net.constant("table", net.rng.standard_normal(256).astype(np.float32))
    return net.graph(net.node(ByteTable(), [net.input("x", (3, 35), INT8), table]))


@case(tolerance=0.0)
def quantized_function() -> Graph:
    """Functions of int16, to int16 and floats, of numbers beyond their table, too."""
    net = Net()
    x = net.input("x", (3, 35), INT16)
    found = tabulated(np.cos, 3.0, 0.1)
    assert found
    entries = net.constant("entries", found[0].entries)
    factor = float(np.float32(found[0].scale * 3.2 / 2**15))
    gain = float(np.float32(found[0].unit * 1000))
    ends = [net.node(TableFunction(factor, gain, bound), [x, entries]) for bound in (990, 0)]
    return net.graph(*ends)


def max_pool(dtype: DType, **attributes: Any) -> Graph:
    """Windows of bytes."""
    net = Net(3)
    x = net.input("x", (2, 7, 8, 18), dtype)
    return net.graph(net.node(QuantizedMaxPool(**attributes), [x]))


add_case("quantized_max_pool_plain", partial(
    max_pool, INT8, kernel=(2, 2), strides=(2, 2), pads=((0, 0), (0, 0)), dilations=(1, 1),
), tolerance=0.0)  # fmt: skip
add_case("quantized_max_pool_borders", partial(
    max_pool, UINT8, kernel=(3, 3), strides=(2, 1), pads=((1, 1), (1, 2)), dilations=(1, 2),
), tolerance=0.0)  # fmt: skip


def padded(dtype: DType, pads: Pads, value: float) -> Graph:
    """A constant around two images."""
    net = Net(1)
    return net.graph(net.node(Pad(pads, value), [net.input("x", (2, 4, 5, 3), dtype)]))


add_case("pad_bytes", partial(padded, UINT8, ((0, 0), (1, 2), (2, 1), (0, 0)), 117.0))
add_case("pad_words", partial(padded, INT16, ((0, 0), (1, 2), (2, 1), (0, 0)), -11700.0))
add_case("pad_bytes_below", partial(padded, INT8, ((0, 0), (0, 1), (0, 0), (0, 0)), -7.0))


def average(of_x: DType, **attributes: Any) -> Graph:
    """Means of integers that stay integers, or become floats."""
    net = Net(4)
    x = net.input("x", (2, 7, 8, 39), of_x)
    return net.graph(net.node(QuantizedAveragePool(**attributes), [x]))


PLAIN = {"strides": (2, 2), "pads": ((0, 0), (0, 0)), "dilations": (1, 1)}
add_case("quantized_average_pool_plain", partial(
    average, INT8, kernel=(2, 2), **PLAIN, count_include_pad=False, scale=1.7, dtype=INT8,
    bound=127,
), tolerance=0.0)  # fmt: skip
add_case("quantized_average_pool_borders", partial(
    average, UINT8, kernel=(3, 3), strides=(2, 1), pads=((1, 1), (1, 2)), dilations=(1, 2),
    count_include_pad=True, scale=1.3, dtype=INT16, x_zero=113, zero=-4,
), tolerance=0.0)  # fmt: skip
add_case("quantized_average_pool_global", partial(
    average, INT16, kernel=(7, 8), **PLAIN, count_include_pad=False, scale=0.01, dtype=INT16,
), tolerance=0.0)  # fmt: skip


def resized(dtype: DType) -> Graph:
    """Nearest pixels of integers."""
    net = Net(5)
    op = Resize("nearest", (8, 7), "asymmetric", "floor")
    return net.graph(net.node(op, [net.input("x", (2, 4, 5, 9), dtype)]))


for _dtype in (INT8, INT16):
    add_case(f"resize_{_dtype.value}", partial(resized, _dtype))
