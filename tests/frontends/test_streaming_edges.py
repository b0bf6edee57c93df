"""Before the first step there are copies of it: padding by the edge, cubic resampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cannery.errors import OptionError, UnsupportedError
from cannery.frontends.streaming import AUTO, to_streaming
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Tanh
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Slice
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.resize.interpolate import Interpolate
from cannery.ops.resize.positions import ResizedAxis
from cannery.ops.resize.tables import Filter, axis_table
from frontends.causal_nets import STEPS, compare, compare_mixed
from ops.cases import Net

BLOCKS = (1, 2, 12)

Build = Callable[[Net, str], str]


def edge(count: int, after: int = 0) -> Pad:
    return Pad(((0, 0), (count, after), (0, 0)), mode="edge")


def conv(b: Net, x: str, taps: int = 3, stride: int = 1, dilation: int = 1, before: int = 0) -> str:
    op = Conv((stride,), ((before, 0),), (dilation,))
    return b.node(op, [x, b.weight(taps, 3, 3)])


def twice(b: Net, x: str) -> str:
    """Two causal convolutions, one of them dilated, and what lies between them."""
    x = b.node(Tanh(), [conv(b, b.node(edge(2), [x]))])
    return conv(b, b.node(Tanh(), [b.node(edge(4), [x])]), dilation=2)


def strided(b: Net, x: str) -> str:
    x = conv(b, b.node(edge(2), [x]), stride=2)
    return b.node(MaxPool((2,), (2,), ((0, 0),), (1,)), [b.node(edge(2), [x])])


def more_than_it_reads(b: Net, x: str) -> str:
    """Copies are elements like others: they are results, too."""
    return conv(b, b.node(edge(5), [x]), before=1)


def joined(b: Net, x: str) -> str:
    """Copies meet steps."""
    cut = b.node(Slice((0, 0, 0), (1, STEPS, 3), (1, 1, 1)), [conv(b, b.node(edge(3), [x]), 2)])
    return b.node(Add(), [b.node(Tanh(), [cut]), conv(b, x, before=2)])


def means(b: Net, x: str) -> str:
    pool = AveragePool((3,), (1,), ((0, 0),), (1,), count_include_pad=True)
    return b.node(pool, [b.node(edge(2, 1), [x])])


def stored(b: Net, x: str) -> str:
    scale = b.constant("scale", np.array([0.05], np.float32))
    zero = b.constant("zero", np.array([7], np.int8))
    for _ in range(2):
        x = b.node(DequantizeLinear(), [b.node(QuantizeLinear(), [x, scale, zero]), scale, zero])
        x = x if b.types[x].shape[1] > STEPS else b.node(edge(2), [x])
    return conv(b, x)


def late(b: Net, x: str) -> str:
    """What is copied comes some steps late."""
    op = Conv((1,), ((2, 2),), (1,))
    return conv(b, b.node(edge(2), [b.node(op, [x, b.weight(5, 3, 3)])]))


def network(build: Build) -> Graph:
    b = Net()
    return b.graph(build(b, b.input("x", (1, STEPS, 3))))


@pytest.mark.parametrize("build", [twice, strided, more_than_it_reads, joined, means, stored])
@pytest.mark.parametrize("block", BLOCKS)
def test_padding_with_copies(build: Build, block: int) -> None:
    """No step is late for it, unless copies are results."""
    calls = to_streaming(network(build), block, AUTO)
    assert calls.calls
    slow = {more_than_it_reads: 5, joined: 2}.get(build, 0)
    assert (calls.calls.latency > 0) == (slow > 0)
    assert compare(network(build), block, AUTO) > 0


@pytest.mark.parametrize("block", BLOCKS)
def test_copies_of_what_is_late(block: int) -> None:
    calls = to_streaming(network(late), block, AUTO)
    assert calls.calls and calls.calls.latency == 2
    assert compare(network(late), block, AUTO) > 0
    with pytest.raises(OptionError, match=r"pads with comes 2 steps late.*give one size"):
        to_streaming(network(late), 1, AUTO, (1, 4))


def test_copies_in_calls_of_several_sizes() -> None:
    assert compare_mixed(network(twice), (1, 4, 12), 0, 1) > STEPS


def test_copies_of_integers_are_integers() -> None:
    calls = to_streaming(network(stored))
    assert [calls.types[s.input].dtype for s in calls.states].count(DType.INT8) == 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b, x: b.node(CumSum(1), [b.node(edge(2), [x])]), "copies of the first step is for"),
        (lambda b, x: b.node(edge(2), [conv(b, x, before=2)]), "an output begins with copies"),
        (
            lambda b, x: b.node(
                AveragePool((3,), (1,), ((1, 0),), (1,)), [b.node(edge(2), [x])]
            ),
            "leaves padding out",
        ),
    ],
)  # fmt: skip
def test_what_cannot_read_copies(build: Build, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        to_streaming(network(build), latency=AUTO)


def resized(size: int, coordinate: str = "half_pixel", mirror: int = 0, **how: Any) -> Graph:
    """A convolution and what the importer of ONNX makes of a Resize; or elements from another place
    stand before the first one.
    """
    table = axis_table(Filter("cubic", 2, **how), ResizedAxis(coordinate, STEPS, size))
    places = np.where(table.places == 0, mirror, table.places).astype(np.int32)
    b = Net()
    x = conv(b, b.input("x", (1, STEPS, 3)), before=2)
    tables = [b.constant("places", places), b.constant("weights", table.weights)]
    return b.graph(b.node(Interpolate(1), [x, *tables]))


@pytest.mark.parametrize("size", [2 * STEPS, 3 * STEPS, STEPS // 2, STEPS // 3])
@pytest.mark.parametrize("places", ["half_pixel", "asymmetric"])
@pytest.mark.parametrize("block", (1, 12))
def test_cubic_resampling(size: int, places: str, block: int) -> None:
    graph = resized(size, places, antialias=size == STEPS // 3)
    assert compare(graph, block, AUTO) > size // 2


def test_cubic_resampling_is_as_late_as_it_must_be() -> None:
    """Two neighbours after each position between elements."""
    calls = to_streaming(resized(2 * STEPS, "asymmetric"), 1, AUTO)
    assert calls.calls and calls.calls.latency == 2


@pytest.mark.parametrize(
    "graph",
    [
        resized(STEPS * 3 // 2), resized(2 * STEPS, exclude_outside=True),
        resized(2 * STEPS, "align_corners"), resized(2 * STEPS, mirror=1),
    ],
)  # fmt: skip
def test_steps_that_are_resampled_differently(graph: Graph) -> None:
    with pytest.raises(UnsupportedError, match="differ from step to step"):
        to_streaming(graph, latency=AUTO)
