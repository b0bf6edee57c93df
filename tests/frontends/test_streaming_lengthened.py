"""Models of a single step with caches, as exports of streaming models have them: calls of any size
give what the model does step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import OptionError
from cannery.frontends.streaming import declare_states, to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Relu, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape, Slice, Transpose
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.recurrent.op import Rnn
from cannery.ops.reduce.op import ReduceMean
from cannery.ops.softmax.op import Softmax
from frontends.causal_nets import Tame, in_calls

Array = NDArray[Any]

#: Channels, and steps of the sequence.
C, STEPS = 3, 24


class Single(Tame):
    """A network of one step; caches are joined to values, and their ends are the next caches."""

    def __init__(self, seed: int = 2) -> None:
        super().__init__(seed)
        self.pairs: dict[str, str] = {}

    def cached(self, value: str, count: int) -> str:
        """A value after the last `count` of earlier steps."""
        shape = self.types[value].shape
        cache = self.input(f"cache{len(self.pairs)}", (1, count, *shape[2:]))
        y = self.node(Concat(1), [cache, value])
        rest = len(shape) - 2
        starts, ends = (0, 1, *[0] * rest), (1, count + 1, *shape[2:])
        self.pairs[cache] = self.node(Slice(starts, ends, (1,) * len(shape)), [y])
        return y

    def conv(
        self, value: str, taps: int, dilation: int = 1, stride: int = 1, before: int = 0
    ) -> str:
        channels = self.types[value].shape[-1]
        op = Conv((stride,), ((before, 0),), (dilation,))
        return self.node(op, [value, self.weight(taps, channels, C), self.weight(C)])

    def finished(self, value: str) -> Graph:
        self.output(value)
        for output in self.pairs.values():
            self.output(output)
        return declare_states(self.build(), self.pairs)


Build = Callable[[Single, str], str]


def tcn(b: Single, x: str) -> str:
    """Convolutions, one after the other, with a sum."""
    y = b.node(Tanh(), [b.conv(b.cached(x, 8), 3, 4)])
    return b.node(Add(), [b.node(Relu(), [b.conv(b.cached(y, 2), 3)]), y])


def sliced(b: Single, x: str) -> str:
    """The elements of a window beside each other, for a dense layer."""
    y = b.cached(b.node(Tanh(), [x]), 4)
    parts = [b.node(Slice((0, k, 0), (1, k + 1, C), (1, 1, 1)), [y]) for k in (0, 1, 4)]
    return b.node(MatMul(), [b.node(Concat(2), parts), b.weight(3 * C, 2)])


def turned(b: Single, x: str) -> str:
    """Channels first between layers, and an axis more in front of a convolution."""
    y = b.node(Transpose((0, 2, 1)), [b.node(Tanh(), [b.node(Transpose((0, 2, 1)), [x])])])
    y = b.node(Reshape((1, 5, 1, C)), [b.cached(y, 4)])
    y = b.node(Conv((1, 1), ((0, 0), (0, 0)), (2, 1)), [y, b.weight(3, 1, C, 2)])
    return b.node(Reshape((1, 1, 2)), [y])


def pooled(b: Single, x: str) -> str:
    """Maxima and means of windows, of which one is cut."""
    y = b.node(MaxPool((3,), (1,), ((0, 0),), (1,)), [b.cached(x, 2)])
    y = b.cached(b.conv(y, 1), 5)
    y = b.node(Slice((0, 1, 0), (1, 5, C), (1, 1, 1)), [y])
    return b.node(AveragePool((4,), (1,), ((0, 0),), (1,)), [b.node(Tanh(), [y])])


def network(build: Build) -> Graph:
    b = Single()
    return b.finished(build(b, b.input("x", (1, 1, C))))


def step_by_step(graph: Graph, x: Array) -> Array:
    """What the model gives for each step, with its states handed on."""
    state = {s.input: np.zeros(graph.types[s.input].shape, np.float32) for s in graph.states}
    made = []
    for k in range(x.shape[1]):
        found = evaluate(graph, {"x": x[:, k : k + 1], **state})
        made.append(found[graph.outputs[0]])
        state = {s.input: np.asarray(found[s.output]) for s in graph.states}
    return np.concatenate(made, 1)


def test_outputs_have_the_axes_of_inputs() -> None:
    """One channel, first, and one step look the same: importers may reshape, not transpose."""
    b = Single()
    y = b.node(Concat(2), [b.input("c", (1, 1, 2)), b.input("x", (1, 1, 1))])
    b.pairs["c"] = b.node(Slice((0, 0, 1), (1, 1, 3), (1, 1, 1)), [y])
    y = b.conv(b.node(Reshape((1, 3, 1)), [y]), 3)
    y = b.node(Reshape((1, 1, 1)), [b.node(MatMul(), [y, b.weight(C, 1)])])
    calls = to_streaming(b.finished(y), 4)
    assert calls.types["x"].shape == calls.types[calls.outputs[0]].shape == (1, 1, 4)


@pytest.mark.parametrize("build", [tcn, sliced, turned, pooled])
def test_calls_of_any_size_give_what_single_steps_do(build: Build) -> None:
    graph = network(build)
    x = np.random.default_rng(1).standard_normal((1, STEPS, C)).astype(np.float32)
    right = step_by_step(graph, x)
    graphs = {block: to_streaming(graph, block, 0, (1, 4)) for block in (1, 4)}
    for cuts in ([1] * STEPS, [4] * (STEPS // 4), [1, 4, 1, 1, 4, 4, 1, 4, 4]):
        (made, *_) = in_calls(graphs, x, cuts)
        np.testing.assert_allclose(np.concatenate(made, 1), right, atol=1e-6)


def mean(b: Single, x: str) -> str:
    """All elements of a window."""
    return b.node(ReduceMean((1,)), [b.cached(x, 3)])


def shares(b: Single, x: str) -> str:
    return b.conv(b.node(Softmax(1), [b.cached(x, 3)]), 4)


def sums(b: Single, x: str) -> str:
    return b.conv(b.node(CumSum(1), [b.cached(x, 3)]), 4)


def strided(b: Single, x: str) -> str:
    return b.conv(b.cached(x, 3), 2, stride=3)


def padded(b: Single, x: str) -> str:
    return b.conv(b.cached(x, 3), 5, before=1)


def padded_apart(b: Single, x: str) -> str:
    return b.conv(b.node(Pad(((0, 0), (1, 0), (0, 0))), [b.cached(x, 3)]), 5)


def flat(b: Single, x: str) -> str:
    """A window as the features of a dense layer."""
    y = b.node(Reshape((1, 1, 4 * C)), [b.cached(x, 3)])
    return b.node(MatMul(), [y, b.weight(4 * C, 2)])


def every_second(b: Single, x: str) -> str:
    return b.conv(b.node(Slice((0, 0, 0), (1, 4, C), (1, 2, 1)), [b.cached(x, 3)]), 2)


def last_of_layer(b: Single, x: str) -> str:
    """What a recurrent layer ends with."""
    y = b.node(MatMul(), [b.conv(b.cached(x, 3), 4), b.weight(C, C)])
    layer = Rnn(C, ((Tanh(),),), (False,), returns=("hidden",))
    (h,) = b.nodes(layer, [y, b.weight(1, C, C), ""], name="layer")
    return h


REFUSED: dict[Build, str] = {
    mean: "'reducemean'.*it works along time",
    shares: "'softmax'.*it works along time",
    sums: "'cumsum'.*it works along time",
    strided: "'conv'.*a stride or padding",
    padded: "'conv'.*a stride or padding",
    padded_apart: "'pad'.*it pads a window",
    flat: "'reshape'.*it mixes steps",
    every_second: "'slice.*'.*it takes some of the steps",
    last_of_layer: "'layer'.*it needs a single step",
}


@pytest.mark.parametrize("build", REFUSED)
def test_what_needs_a_single_step(build: Build) -> None:
    with pytest.raises(OptionError, match=f"takes one step, which 'cache0'.*{REFUSED[build]}"):
        to_streaming(network(build))


def test_time_is_the_axis_that_caches_are_joined_along() -> None:
    """Features that are remembered are no steps."""
    b = Single()
    x = b.input("x", (1, 1, 1))
    y = b.node(Concat(2), [b.input("c", (1, 1, 3)), x])
    following = b.node(Slice((0, 0, 1), (1, 1, 4), (1, 1, 1)), [y])
    b.output(b.node(MatMul(), [y, b.weight(4, 2)]))
    b.output(following)
    with pytest.raises(OptionError, match="takes one step, which 'c'"):
        to_streaming(declare_states(b.build(), {"c": following}))
