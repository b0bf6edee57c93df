"""States of recurrent layers that a model has as inputs and outputs, in calls of any size."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.errors import OptionError, UnsupportedError
from cannery.frontends.streaming import declare_states, to_streaming
from cannery.ir.graph import Graph
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Sigmoid, Tanh
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Reshape, Slice
from cannery.ops.recurrent.op import Lstm
from frontends.causal_nets import STEPS, Tame, call_by_call, twice

#: Features of the input, and cells of each layer.
C = 3

LSTM = Lstm(C, ((Sigmoid(),), (Tanh(),), (Tanh(),)), returns=("sequence", "hidden", "cell"))


def layered(order: tuple[int, ...] = (0, 1), swapped: bool = False) -> Graph:
    """A convolution with a cache, then two LSTM layers with one h and one c for both, as PyTorch
    exports them; the next h has the layers in this order. `swapped`: h and c change places.
    """
    b = Tame(3)
    joined = b.node(Concat(1), [b.input("cache", (1, 2, C)), b.input("x", (1, STEPS, C))])
    ends = {"cache": b.node(Slice((0, STEPS, 0), (1, STEPS + 2, C), (1, 1, 1)), [joined])}
    value = b.node(Conv((1,), ((0, 0),), (1,)), [joined, b.weight(3, C, C)])
    states = [b.input(name, (2, 1, C)) for name in "hc"]
    following: list[list[str]] = []
    for k in range(2):
        given = []
        for state in states:
            part = b.node(Slice((k, 0, 0), (k + 1, 1, C), (1, 1, 1)), [state])
            given.append(b.node(Reshape((1, C)), [part]))
        projected = b.node(MatMul(), [value, b.weight(C, 4 * C)])
        value, *after = b.nodes(LSTM, [projected, b.weight(1, C, 4 * C), *given], name=f"l{k}")
        following.append([b.node(Reshape((1, 1, C)), [v]) for v in after])
    for name, which in zip("hc", (1, 0) if swapped else (0, 1), strict=True):
        ends[name] = b.node(Concat(0), [following[k][which] for k in order])
    for output in (value, *ends.values()):
        b.output(output)
    return declare_states(b.build(), ends)


@pytest.mark.parametrize("block", [1, 4])
def test_layers_keep_the_states_of_a_model(block: int) -> None:
    graph = layered()
    x = np.random.default_rng(4).standard_normal((1, 2 * STEPS, C)).astype(np.float32)
    calls = to_streaming(graph, block, 0, (1, 4), {"h": "none"})
    assert calls.inputs[0] == "x" and not {"h", "c", "cache"}.intersection(calls.inputs)
    made, *_ = call_by_call(calls, x, block)
    np.testing.assert_allclose(np.concatenate(made, 1), twice(graph, x), atol=1e-6)


@pytest.mark.parametrize("graph", [layered((1, 0)), layered((0, 0)), layered(swapped=True)])
def test_states_that_change_places_are_not_the_layers_own(graph: Graph) -> None:
    with pytest.raises(UnsupportedError, match=r"its state begins with|its steps are not those"):
        to_streaming(graph)


def test_a_state_of_a_layer_has_no_axis_of_time() -> None:
    with pytest.raises(OptionError, match="'h' is not an input"):
        to_streaming(layered(), time_axis={"h": 2})


@pytest.mark.parametrize("moved", [False, True])
def test_a_state_that_the_model_also_returns_stays_an_input(moved: bool) -> None:
    b = Tame(3)
    x, h, c = b.input("x", (1, STEPS, C)), b.input("h", (1, C)), b.input("c", (1, C))
    projected = b.node(MatMul(), [x, b.weight(C, 4 * C)])
    outputs = b.nodes(LSTM, [projected, b.weight(1, C, 4 * C), h, c], name="layer")
    before = b.node(Reshape((1, 1, C)), [h]) if moved else h
    for output in (*outputs, before):
        b.output(output)
    calls = to_streaming(declare_states(b.build(), {"h": outputs[1], "c": outputs[2]}))
    assert "h" in calls.inputs and "c" not in calls.inputs
    assert before in calls.outputs
    assert {*calls.inputs, *calls.outputs} <= {*calls.types}
