"""Chains of steps: epilogues, residuals, strides, overlapping windows, tails."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import Add, Mul, Relu
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.window import Pads
from ops.cases import Net, add_case

ONE = (1, 1)
NONE = ((0, 0), (0, 0))
SAME3 = ((1, 1), (1, 1))


@dataclass(frozen=True)
class Separable:
    """Input shape, depth multiplier, outputs, window; what follows each part (relu, scale, add)."""

    shape: tuple[int, int, int, int]
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = ONE
    pads: Pads = SAME3
    multiplier: int = 1
    middle: str = ""
    tail: str = ""


CASES = {
    "plain": Separable((1, 6, 9, 8), 12),
    "relu": Separable((2, 7, 6, 19), 9, middle="relu scale", tail="relu"),
    "stride_2": Separable((1, 9, 12, 6), 17, (3, 3), (2, 2), ((0, 1), (0, 1)), tail="add"),
    "multiplier": Separable((1, 5, 5, 3), 7, (2, 2), ONE, NONE, 3, middle="add", tail="scale"),
    "one_row": Separable((1, 1, 8, 5), 6, (1, 3), ONE, ((0, 0), (1, 1)), middle="relu"),
    "residual_of_input": Separable((1, 6, 5, 8), 8, tail="input relu"),
    "apart": Separable((1, 5, 4, 128), 8, middle="relu"),
}


def separable_graph(case: Separable) -> Graph:
    """A depthwise and a pointwise convolution with their epilogues."""
    net = Net()
    x = net.input("x", case.shape)
    inner = case.shape[-1] * case.multiplier
    conv = Conv(case.strides, case.pads, ONE, case.shape[-1])
    y = net.node(conv, [x, net.weight(*case.kernel, 1, inner), net.weight(inner)])
    y = _follow(net, x, y, case.middle)
    y = net.node(Conv(ONE, NONE, ONE), [y, net.weight(1, 1, inner, case.outputs)])
    return net.graph(_follow(net, x, y, case.tail))


def _follow(net: Net, x: str, y: str, words: str) -> str:
    for word in words.split():
        if word == "add":
            y = net.node(Add(), [y, net.input(net.unique("r"), net.types[y].shape)])
        elif word == "input":
            y = net.node(Add(), [y, x])
        elif word == "scale":
            y = net.node(Mul(), [y, net.weight(net.types[y].shape[-1])])
        else:
            y = net.node(Relu(), [y])
    return y


for _name, _case in CASES.items():
    add_case(f"chain_separable_{_name}", lambda c=_case: separable_graph(c))


@dataclass(frozen=True)
class Upsampled:
    """Input shape, outputs; kernel, strides, pads, output padding of the transposed convolution."""

    shape: tuple[int, int, int, int]
    outputs: int
    kernel: tuple[int, int] = (4, 4)
    strides: tuple[int, int] = (2, 2)
    pads: Pads = SAME3
    more: tuple[int, int] = (0, 0)
    middle: str = ""
    tail: str = ""


UPSAMPLED = {
    "twice": Upsampled((1, 5, 7, 18), 8),
    "odd_rows": Upsampled((2, 4, 5, 9), 5, (3, 4), pads=((1, 1), (1, 1)), middle="relu add"),
    "three_times": Upsampled((1, 3, 6, 8), 17, (5, 3), (3, 2), NONE, (1, 0), tail="add relu"),
    "one_row": Upsampled((1, 1, 6, 5), 6, (2, 4), pads=((1, 0), (1, 1)), tail="scale"),
}


def upsampled_graph(case: Upsampled) -> Graph:
    """A transposed depthwise and a pointwise convolution with their epilogues."""
    net = Net()
    inner = case.shape[-1]
    x = net.input("x", case.shape)
    conv = ConvTranspose(case.strides, case.pads, ONE, case.more, inner)
    y = net.node(conv, [x, net.weight(*case.kernel, 1, inner), net.weight(inner)])
    y = _follow(net, x, y, case.middle)
    y = net.node(Conv(ONE, NONE, ONE), [y, net.weight(1, 1, inner, case.outputs)])
    return net.graph(_follow(net, x, y, case.tail))


for _name, _upsampled in UPSAMPLED.items():
    add_case(f"chain_upsampled_{_name}", lambda c=_upsampled: upsampled_graph(c))


@dataclass(frozen=True)
class Pooled:
    """Input shape, convolution (outputs, kernel, strides, pads), pool (kernel, strides), words."""

    shape: tuple[int, int, int, int]
    outputs: int
    conv: tuple[tuple[int, int], tuple[int, int], Pads]
    pool: tuple[tuple[int, int], tuple[int, int]]
    middle: str = "relu"
    tail: str = ""
    maximum: bool = True


POOLED = {
    "2x2": Pooled((1, 9, 12, 3), 8, ((3, 3), ONE, SAME3), ((2, 2), (2, 2))),
    "overlap": Pooled((2, 8, 10, 4), 5, ((3, 3), ONE, SAME3), ((3, 2), (2, 1)), tail="scale"),
    "average": Pooled(
        (1, 11, 9, 2), 18, ((3, 2), (2, 1), ((1, 1), (0, 1))), ((2, 3), (1, 3)), "add", "add", False
    ),
    "tiles": Pooled((1, 19, 30, 5), 7, ((3, 3), ONE, SAME3), ((2, 2), (2, 2)), tail="scale"),
    "tiles_average": Pooled(
        (2, 11, 21, 3), 6, ((3, 3), ONE, SAME3), ((2, 2), (2, 2)), "add relu", "add", False
    ),
    "tiles_wide": Pooled((1, 16, 71, 2), 5, ((3, 3), ONE, SAME3), ((2, 2), (2, 2)), "scale"),
    "tiles_few": Pooled((1, 5, 7, 4), 9, ((3, 3), ONE, SAME3), ((2, 2), (2, 2)), tail="relu add"),
    "plane": Pooled((1, 16, 16, 1), 10, ((5, 5), (2, 2), ((1, 2), (1, 2))), ((2, 2), (2, 2))),
    "plane_few": Pooled(
        (2, 5, 7, 3), 9, ((3, 3), ONE, ((1, 0), (0, 1))), ((2, 3), (2, 3)), "relu", "relu", False
    ),
    "plane_scaled": Pooled(
        (1, 12, 8, 2), 5, ((2, 3), ONE, ((1, 0), (0, 2))), ((3, 2), (3, 2)), "scale", "scale", False
    ),
    "plane_gaps": Pooled((1, 13, 16, 2), 40, ((2, 3), (3, 4), NONE), ((1, 1), (1, 1)), "", "relu"),
    "rows_between": Pooled((1, 13, 8, 3), 6, ((1, 1), ONE, NONE), ((2, 2), (3, 2)), "scale"),
}


def pooled_graph(case: Pooled) -> Graph:
    """A convolution and a pooling with their epilogues."""
    net = Net()
    x = net.input("x", case.shape)
    kernel, strides, pads = case.conv
    weights = [net.weight(*kernel, case.shape[-1], case.outputs), net.weight(case.outputs)]
    y = _follow(net, x, net.node(Conv(strides, pads, ONE), [x, *weights]), case.middle)
    window = (*case.pool, NONE, ONE)
    y = net.node(MaxPool(*window) if case.maximum else AveragePool(*window), [y])
    return net.graph(_follow(net, x, y, case.tail))


for _name, _pooled in POOLED.items():
    add_case(f"chain_pooled_{_name}", lambda c=_pooled: pooled_graph(c))


@dataclass(frozen=True)
class Inverted:
    """Input shape, channels inside, outputs, window of the middle; what follows the last part.

    `stem`: window of the first convolution, which then halves the image.
    """

    shape: tuple[int, int, int, int]
    inner: int
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = ONE
    pads: Pads = SAME3
    tail: str = ""
    stem: tuple[int, int] = ONE


INVERTED = {
    "residual": Inverted((1, 6, 7, 8), 20, 8, tail="input"),
    "stride_2": Inverted((2, 9, 8, 5), 12, 7, (3, 3), (2, 2), ((0, 1), (0, 1)), tail="relu"),
    "tall": Inverted((1, 5, 6, 4), 6, 9, (5, 3), ONE, ((3, 3), (1, 1)), tail="scale"),
    "low": Inverted((1, 2, 9, 3), 8, 4, (5, 5), ONE, ((2, 2), (2, 2))),
    "stem": Inverted((1, 13, 11, 3), 8, 5, stem=(3, 3)),
}


def inverted_graph(case: Inverted) -> Graph:
    """Pointwise (or a stem), depthwise and pointwise convolution."""
    net = Net()
    x = net.input("x", case.shape)
    weights = [net.weight(*case.stem, case.shape[-1], case.inner), net.weight(case.inner)]
    first = Conv(ONE, NONE, ONE) if case.stem == ONE else Conv((2, 2), ((0, 1), (1, 0)), ONE)
    y = net.node(Relu(), [net.node(first, [x, *weights])])
    weights = [net.weight(*case.kernel, 1, case.inner), net.weight(case.inner)]
    y = net.node(Relu(), [net.node(Conv(case.strides, case.pads, ONE, case.inner), [y, *weights])])
    y = net.node(Conv(ONE, NONE, ONE), [y, net.weight(1, 1, case.inner, case.outputs)])
    return net.graph(_follow(net, x, y, case.tail))


for _name, _inverted in INVERTED.items():
    add_case(f"chain_inverted_{_name}", lambda c=_inverted: inverted_graph(c))


@dataclass(frozen=True)
class Pair:
    """Input shape, (outputs, kernel, strides, pads) of two convolutions, words after each."""

    shape: tuple[int, int, int, int]
    first: tuple[int, tuple[int, int], tuple[int, int], Pads]
    second: tuple[int, tuple[int, int], tuple[int, int], Pads]
    middle: str = "relu"
    tail: str = ""


HALVED = ((0, 1), (0, 1))
PAIRS = {
    "halved": Pair((1, 17, 14, 3), (8, (3, 3), (2, 2), HALVED), (5, (3, 3), (2, 2), HALVED)),
    "same": Pair((2, 7, 9, 2), (9, (3, 3), ONE, SAME3), (6, (3, 3), ONE, SAME3), "add", "add"),
    "tall": Pair(
        (1, 9, 6, 4), (3, (5, 1), ONE, ((2, 2), (0, 0))), (7, (2, 3), (1, 2), NONE), "scale", "relu"
    ),
}


def pair_graph(case: Pair) -> Graph:
    """Two convolutions with their epilogues."""
    net = Net()
    y = x = net.input("x", case.shape)
    for (outputs, kernel, strides, pads), words in (
        (case.first, case.middle),
        (case.second, case.tail),
    ):
        weights = [net.weight(*kernel, net.types[y].shape[-1], outputs), net.weight(outputs)]
        y = _follow(net, x, net.node(Conv(strides, pads, ONE), [y, *weights]), words)
    return net.graph(y)


for _name, _pair in PAIRS.items():
    add_case(f"chain_convolutions_{_name}", lambda c=_pair: pair_graph(c), far=True)
