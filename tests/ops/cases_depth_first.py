"""Chains that are computed depth first: strides, shortcuts, borders, odd heights, integers."""

from __future__ import annotations

from functools import partial

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Mul, Relu
from cannery.ops.fixed_point.arithmetic import Factor
from cannery.ops.fixed_point.pointwise import FixedSum
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.quantized.average_pool import QuantizedAveragePool
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.elementwise import ByteTable, QuantizedElementwise, Scaled
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.quantized.scale import Quantize
from cannery.ops.window import Pads
from ops.cases import Net, add_case, case

ONE, TWO = (1, 1), (2, 2)
NONE: Pads = ((0, 0), (0, 0))
SAME3: Pads = ((1, 1), (1, 1))
END: Pads = ((0, 1), (0, 1))


def conv(
    net: Net, x: str, out: int, kernel: int = 3, strides: tuple[int, int] = ONE, pads: Pads = SAME3,
    *, depthwise: bool = False, dilations: tuple[int, int] = ONE,
) -> str:  # fmt: skip
    """A convolution of floats."""
    channels = net.types[x].shape[-1]
    weight = net.weight(kernel, kernel, 1 if depthwise else channels, out)
    op = Conv(strides, pads, dilations, channels if depthwise else 1)
    return net.node(op, [x, weight, net.weight(out)])


def inverted(net: Net, x: str, out: int, strides: tuple[int, int], pads: Pads) -> str:
    """Expansion, depthwise convolution and projection of floats, with a shortcut if it fits."""
    wide = 3 * net.types[x].shape[-1]
    y = net.node(Relu(), [conv(net, x, wide, 1, pads=NONE)])
    y = net.node(Relu(), [conv(net, y, wide, 3, strides, pads, depthwise=True)])
    y = conv(net, y, out, 1, pads=NONE)
    return net.node(Add(), [y, x]) if net.types[x].shape == net.types[y].shape else y


@case(depth_first=True)
def depth_first_inverted() -> Graph:
    """A stem and three inverted residuals, one with a stride and one with a shortcut."""
    net = Net()
    x = net.node(Relu(), [conv(net, net.input("x", (1, 17, 11, 3)), 5, 3, TWO)])
    x = inverted(net, x, 6, ONE, SAME3)
    x = inverted(net, x, 6, ONE, SAME3)
    return net.graph(inverted(net, x, 9, TWO, END))


@case(depth_first=True)
def depth_first_pools() -> Graph:
    """Two images; pools, a window higher than some strides, and one that is wider than it steps."""
    net = Net()
    x = conv(net, net.input("x", (2, 12, 9, 4)), 7, 5, pads=((2, 2), (2, 2)))
    x = net.node(MaxPool((3, 3), (1, 1), ((0, 0), (1, 1)), ONE), [x])
    x = net.node(AveragePool((2, 2), (2, 2), NONE, ONE), [x])
    return net.graph(conv(net, x, 3, 3, dilations=TWO, pads=((2, 2), (0, 1))))


@case(depth_first=True)
def depth_first_shortcuts() -> Graph:
    """A value that three steps read at different times, two inputs, and an image without steps."""
    net = Net()
    x, other = net.input("x", (1, 8, 6, 5)), net.input("other", (1, 8, 6, 5))
    first = net.node(Mul(), [x, net.weight(5)])
    y = conv(net, first, 5)
    z = net.node(Add(), [conv(net, y, 5, 5, pads=((2, 2), (2, 2))), first])
    z = net.node(Add(), [conv(net, z, 5, 1, pads=NONE), y])
    return net.graph(conv(net, net.node(Mul(), [z, other]), 4, 1, TWO, NONE))


@case(depth_first=True)
def depth_first_flat() -> Graph:
    """Windows that are higher than the image, and rows of one pixel."""
    net = Net()
    x = conv(net, net.input("x", (1, 2, 1, 3)), 4, 5, pads=((2, 2), (2, 2)))
    return net.graph(conv(net, x, 4, 3, dilations=TWO, pads=((2, 2), (2, 2))))


def byte_conv(
    net: Net, x: str, out: int, kernel: int = 1, strides: tuple[int, int] = ONE, pads: Pads = NONE,
    *, depthwise: bool = False, floats: bool = False,
) -> str:  # fmt: skip
    """A convolution of bytes whose results fill their range, or are `floats`."""
    channels, dtype = net.types[x].shape[-1], net.types[x].dtype
    shape = (kernel, kernel, 1 if depthwise else channels, out)
    w = net.rng.integers(-127, 127, shape, np.int8, endpoint=True)
    if dtype is DType.INT16:
        w = w.astype(np.int16)
    taps = kernel * kernel * (1 if depthwise else channels)
    scale = net.rng.uniform(0.5, 1.5, out) / (100.0 * np.sqrt(taps))
    op = QuantizedConv(
        (Relu(),) if depthwise else (), bound=0 if floats else 127, dtype=dtype, strides=strides,
        pads=pads, depthwise=depthwise,
    )  # fmt: skip
    inputs = [x, net.constant("w", w), net.constant("scale", scale)]
    return net.node(op, [*inputs, net.constant("bias", net.rng.normal(size=out) * 20.0)])


def byte_block(net: Net, x: str, out: int, strides: tuple[int, int], pads: Pads) -> str:
    """An inverted residual of bytes."""
    wide = 4 * net.types[x].shape[-1]
    y = byte_conv(net, byte_conv(net, x, wide), wide, 3, strides, pads, depthwise=True)
    y = byte_conv(net, y, out)
    if net.types[x] != net.types[y]:
        return y
    scaled = Scaled(0.7, 0), Scaled(0.6, 0), Scaled(1.0, 0)
    return net.node(QuantizedElementwise(Add(), *scaled, net.types[x].dtype, (), 127), [y, x])


def byte_network(dtype: DType, height: int, width: int) -> Graph:
    """From floats to integers, a stem and four blocks, and back to floats."""
    net = Net(height)
    x = net.input("x", (1, height, width, 3))
    x = net.node(Quantize(127, dtype), [x, net.constant("factor", np.float32(40.0))])
    x = byte_conv(net, x, 8, 3, TWO, SAME3)
    for out, strides, pads in ((8, ONE, SAME3), (12, TWO, END), (12, ONE, SAME3), (7, ONE, SAME3)):
        x = byte_block(net, x, out, strides, pads)
    return net.graph(byte_conv(net, x, 5, floats=True))


for _dtype, _height, _width in (
    (DType.INT8, 21, 13), (DType.INT8, 32, 32), (DType.INT16, 15, 9),
):  # fmt: skip
    add_case(
        f"depth_first_{_dtype.value}_{_height}", partial(byte_network, _dtype, _height, _width),
        tolerance=0.0, depth_first=True,
    )  # fmt: skip


@case(tolerance=0.0, depth_first=True)
def depth_first_fixed_point() -> Graph:
    """A shortcut as quantised TensorFlow Lite files have it: a sum by fixed point."""
    net = Net()
    x = byte_conv(net, net.input("x", (1, 9, 7, 6), DType.INT8), 6, 3, pads=SAME3)
    y = byte_conv(net, x, 6, 3, pads=SAME3)
    factors = Factor(2**30, 0), Factor(1395864371, -1), Factor(1431655765, -14)
    total = net.node(FixedSum(DType.INT8, 5, -128, 100, (3, -7), factors, 15), [y, x])
    return net.graph(byte_conv(net, total, 5, 3, TWO, END))


@case(tolerance=0.0, depth_first=True)
def depth_first_byte_pools() -> Graph:
    """Bytes without a sign, tables, and pools."""
    net = Net()
    x = net.input("x", (2, 14, 10, 6), DType.UINT8)
    table = net.constant("table", net.rng.integers(0, 127, 256, np.int8))
    x = net.node(ByteTable(), [x, table])
    x = net.node(QuantizedMaxPool(TWO, TWO, NONE, ONE), [byte_conv(net, x, 9, 3, pads=SAME3)])
    mean = QuantizedAveragePool((3, 3), ONE, NONE, ONE, True, 0.9, DType.INT8, bound=127)
    return net.graph(byte_conv(net, net.node(mean, [x]), 5))
