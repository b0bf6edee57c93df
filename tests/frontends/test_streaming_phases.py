"""With strides and short calls, outputs leave in the calls that bring the last step they need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.frontends.streaming import AUTO, declare_states, to_streaming
from cannery.ir.graph import Calls, Graph
from cannery.ir.parser import parse_graph
from cannery.ir.printer import write_graph
from cannery.ops.elementwise import Add, Tanh
from cannery.ops.recurrent.op import Rnn
from cannery.ops.reduce.op import ReduceMax
from cannery.ops.resize.op import Resize
from frontends.causal_builds import chain, conv, network
from frontends.causal_nets import STEPS, Maker, compare
from frontends.test_streaming_windows import recurrent
from ops.cases import Net


def strided(stride: int, ahead: int) -> Graph:
    """An output needs so many steps after those that are its own."""
    return network(chain(conv(2, 0), conv(0, ahead, stride + ahead, stride)))


def calls_of(graph: Graph) -> Calls:
    assert graph.calls
    return graph.calls


@pytest.mark.parametrize(
    ("stride", "ahead", "block", "late", "first"),
    [
        (2, 1, 1, 1, 1), (2, 2, 1, 2, 2), (2, 3, 1, 3, 1), (3, 1, 1, 1, 1), (3, 2, 1, 2, 2),
        (4, 1, 1, 1, 1), (4, 6, 1, 6, 2), (4, 1, 2, 2, 1), (4, 3, 2, 4, 2), (2, 1, 3, 1, 1),
        (2, 1, 2, 2, 1), (2, 1, 4, 2, 1), (4, 1, 8, 4, 1),
    ],
)  # fmt: skip
def test_latency_is_the_least(stride: int, ahead: int, block: int, late: int, first: int) -> None:
    """In whole calls; rounded up to outputs where each call has some."""
    graph = strided(stride, ahead)
    found = to_streaming(graph, block, AUTO)
    assert (calls_of(found).latency, calls_of(found).first_output) == (late, first)
    assert compare(graph, block, AUTO) > 0
    assert parse_graph(write_graph(found)).calls == found.calls
    with pytest.raises(OptionError, match=f"later steps.*--latency {late} "):
        to_streaming(graph, block, late - 1)


def test_any_latency_that_is_enough() -> None:
    for late in range(1, 9):
        calls = calls_of(to_streaming(strided(4, 1), 1, late))
        assert (calls.latency, calls.first_output) == (late, late % 4 or 4)
        assert compare(strided(4, 1), 1, late) > 0
    with pytest.raises(OptionError, match="multiple of 4"):
        to_streaming(strided(4, 1), 8, 5)


def test_layers_of_all_kinds_begin_within_a_round() -> None:
    """Strides after each other, a layer with a state of its own, and a return to the first rate."""
    b = Net()
    x = b.input("x", (1, STEPS, 3))
    slow = chain(conv(0, 1, 3, 2), recurrent(Rnn), conv(0, 0, 2, 2))(b, conv(2, 0)(b, x))
    wide = b.node(Resize("nearest", (STEPS,), "asymmetric", "floor"), [b.node(Tanh(), [slow])])
    graph = b.graph(b.node(Add(), [x, wide]))
    calls = calls_of(to_streaming(graph, 1, AUTO))
    assert (calls.every, calls.latency, calls.first_output) == (4, 1, 1)
    assert compare(graph, 1, AUTO) == STEPS - 4


class StridedMaker(Maker):
    """More strides than others."""

    def layers(self) -> list[Callable[[str], str]]:
        return [self.strided, self.conv, self.recurrent, self.strided, self.padded]


@pytest.mark.parametrize("seed", [5, 6, 9, 18, 23, 24])
def test_random_networks(seed: int) -> None:
    """No smaller latency is possible."""
    graph = StridedMaker(seed, ahead=True).graph()
    found = calls_of(to_streaming(graph, 1, AUTO))
    assert found.phase and found.first_output == (found.latency % found.every or found.every)
    assert compare(graph, 1, AUTO) > 0
    with pytest.raises(OptionError, match=f"--latency {found.latency} "):
        to_streaming(graph, 1, found.latency - 1)


def test_rounds_that_begin_with_the_first_call() -> None:
    """Calls of several sizes, states of the model, what would be if the sequence ended now."""
    graph = strided(2, 1)
    assert calls_of(to_streaming(graph, 1, AUTO, (1, 4))).latency == 2
    b = Net()
    x, h = b.input("x", (1, STEPS, 3)), b.input("h", (1, 1, 3))
    late = conv(0, 1, 3, 2)(b, conv(2, 0)(b, x))
    b.output(b.node(Tanh(), [late]))
    b.output(b.node(Tanh(), [b.node(Add(), [h, b.constant("one", np.float32([1]))])]))
    owned = declare_states(b.build(), {"h": b.build().outputs[1]})
    calls = calls_of(to_streaming(owned, 1, AUTO, time_axis={"x": 1}))
    assert (calls.latency, calls.phase) == (2, 0)
    b = Net()
    x = conv(2, 0)(b, b.input("x", (1, STEPS, 3)))
    ended = b.graph(conv(0, 1, 3, 2)(b, x), b.node(ReduceMax((1,)), [x]))
    assert calls_of(to_streaming(ended, 1, AUTO)).phase == 0
