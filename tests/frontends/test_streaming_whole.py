"""Outputs that would be windows of all steps are errors, wherever the steps went before."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cannery.errors import CanneryWarning, UnsupportedError
from cannery.frontends.streaming import to_streaming
from cannery.frontends.streaming.whole import whole_after, whole_of
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, Node
from cannery.ir.tensor import TensorType
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape, Slice, Transpose
from cannery.ops.ordering.extremes import ArgMax
from cannery.ops.reduce.op import ReduceMean
from frontends.causal_nets import call_by_call
from ops.cases import Net

STEPS, CHANNELS = 12, 4
TURN = Transpose((0, 2, 1))
SWAP = Transpose((0, 1, 3, 2))

#: Grows a network from its input.
Build = Callable[[Net, str], str]


def network(build: Build, steps: int = STEPS) -> Graph:
    b = Net()
    return b.graph(build(b, b.input("x", (1, steps, CHANNELS))))


def nodes(*ops: Any) -> Build:
    def build(b: Net, x: str) -> str:
        for op in ops:
            x = b.node(op, [x])
        return x

    return build


def shuffled(*ops: Any, channels: int) -> Build:
    """Channels first as in PyTorch, then a causal convolution with so many channels."""

    def build(b: Net, x: str) -> str:
        x = nodes(TURN, *ops, TURN)(b, x)
        return b.node(Conv((1,), ((2, 0),), (1,)), [x, b.weight(3, channels, 3)])

    return build


def rows_times_weights(b: Net, x: str) -> str:
    x = b.node(Reshape((1, 6, 2, CHANNELS)), [x])
    return b.node(MatMul(), [b.node(SWAP, [x]), b.weight(2, 3)])


def weights_times_columns(b: Net, x: str) -> str:
    return b.node(
        MatMul(),
        [b.weight(3, 2), nodes(Reshape((1, CHANNELS, 6, 2)), SWAP)(b, x)],
    )


@pytest.mark.parametrize(
    "build",
    [
        shuffled(Reshape((1, CHANNELS, 6, 2)), SWAP, Reshape((1, 8, 6)), channels=8),
        shuffled(Reshape((1, 2, 2, STEPS)), SWAP, Reshape((1, 2, 24)), channels=2),
        nodes(Reshape((1, 6, 2, CHANNELS)), ReduceMean((2,))),
        nodes(Reshape((1, 6, 2 * CHANNELS, 1)), Slice((0, 1, 0, 0), (1, 6, 8, 1), (1, 1, 1, 1)),
              Transpose((0, 3, 1, 2))),
        nodes(Reshape((1, STEPS * CHANNELS)), Reshape((1, 6, 2, 4)), ArgMax(3, keepdims=False)),
        rows_times_weights,
        weights_times_columns,
    ],
)  # fmt: skip
def test_steps_that_a_reshape_splits_are_no_outputs(build: Build) -> None:
    with pytest.raises(UnsupportedError, match=r"'reshape.*it needs all steps; '.*whole window"):
        to_streaming(network(build), time_axis={"x": 1})


def dense(b: Net, x: str) -> str:
    x = nodes(Reshape((1, 6, 2 * CHANNELS, 1)), Transpose((0, 2, 1, 3)), Reshape((1, 48)))(b, x)
    return b.node(Reshape((1, 3, 2)), [b.node(MatMul(), [x, b.weight(48, 6)])])


@pytest.mark.parametrize(
    "build",
    [
        dense,
        nodes(Reshape((1, 6, 2 * CHANNELS, 1)), ReduceMean((1, 2))),
        nodes(Reshape((1, CHANNELS, 6, 2)), ReduceMean((1, 2, 3))),
        nodes(
            Reshape((1, STEPS * CHANNELS)), Tanh(), Reshape((1, STEPS, CHANNELS)), ReduceMean((1,))
        ),
    ],
)
def test_what_sums_up_all_steps_is_an_output(build: Build) -> None:
    """After the last call it is that of the whole sequence."""
    graph = network(build)
    calls = to_streaming(graph, time_axis={"x": 1})
    x = np.random.default_rng(1).standard_normal((1, STEPS, CHANNELS))
    (whole,) = (evaluate(graph, {"x": x})[v] for v in graph.outputs)
    np.testing.assert_allclose(call_by_call(calls, x, 1)[0][-1], whole, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "shapes", "output", "found", "axes"),
    [
        (Reshape((1, 6, 8)), [(1, 12, 4)], (1, 6, 8), [{1}], {1, 2}),
        (Reshape((1, 12, 2, 2)), [(1, 12, 4)], (1, 12, 2, 2), [{1}], {1}),
        (Reshape((1, 12, 2, 2)), [(1, 12, 4)], (1, 12, 2, 2), [{2}], {2, 3}),
        (Add(), [(3,), (2, 5, 3)], (2, 5, 3), [{0}, {1}], {1, 2}),
        (MatMul(), [(2, 5, 3), (3, 4)], (2, 5, 4), [{1, 2}, set()], {1}),
        (MatMul(transpose_a=True), [(2, 3, 5), (3, 4)], (2, 5, 4), [{1}, set()], set()),
        (MatMul(transpose_b=True), [(5, 3), (2, 4, 3)], (2, 5, 4), [set(), {1}], {2}),
        (MatMul(), [(5, 3), (2, 3, 4), (4,)], (2, 5, 4), [set(), {0, 1}, {0}], {0, 2}),
        (Conv((1,), ((0, 0),), (1,)), [(1, 9, 3), (9, 3, 2)], (1, 1, 2), [{1, 2}, set()], set()),
        (ReduceMean((1,)), [(2, 5, 3)], (2, 3), [{1, 2}], {1}),
        (ReduceMean((1,), keepdims=True), [(2, 5, 3)], (2, 1, 3), [{1, 2}], {2}),
        (Slice((0, 0), (1, 3), (1, 1)), [(1, 6)], (1, 3), [{1}], set()),
        (Transpose((2, 0, 1)), [(2, 5, 3)], (3, 2, 5), [{1}], {2}),
    ],
)
def test_axes_with_steps(
    op: Any, shapes: list[tuple[int, ...]], output: tuple[int, ...], found: list[set[int]],
    axes: set[int],
) -> None:  # fmt: skip
    values = tuple(f"v{k}" for k in range(len(shapes)))
    types = [TensorType(shape) for shape in shapes]
    node = Node(op, "n", values, ("y",))
    given = [whole_of(node, t, a) if a else None for t, a in zip(types, found, strict=True)]
    whole = whole_after(node, types, TensorType(output), given)
    assert (whole.axes if whole else set()) == axes


def test_a_shorter_axis_is_not_taken_silently() -> None:
    """Channels, where the many steps give whole windows; nobody is warned who names them."""
    ops = (Reshape((1, CHANNELS, 6, 2)), SWAP, Reshape((1, 8, 6)))
    graph = network(shuffled(*ops, channels=8))
    text = r"takes axis 2 of 'x' for time \(4 steps\), not axis 1, which is longer \(12\).*x=1.*x=2"
    with pytest.warns(CanneryWarning, match=text):
        calls = to_streaming(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert to_streaming(graph, time_axis={"x": 2}).types["x"] == calls.types["x"]
        to_streaming(network(dense))
