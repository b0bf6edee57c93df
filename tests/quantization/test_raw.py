"""Integers at the interface, on small graphs: what changes its type, and what must not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cannery.errors import OptionError
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, Node, Scale, State
from cannery.ir.tensor import DType
from cannery.ir.verify import verify
from cannery.ops.movement.op import Reshape
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.quantization.raw import raw_interface
from ops.cases import Net

SCALE = Scale(0.25, -3)


def parameters(net: Net, scale: Scale = SCALE) -> list[str]:
    return [
        net.constant("s", np.float32(scale.scale)), net.constant("z", np.int8(scale.zero_point)),
    ]  # fmt: skip


def through_integers(net: Net, x: str, scale: Scale = SCALE) -> str:
    """X -> int8 -> moved -> float."""
    q = net.node(QuantizeLinear(), [x, *parameters(net, scale)])
    moved = net.node(Reshape((4, 2)), [q])
    return net.node(DequantizeLinear(), [moved, *parameters(net, scale)])


def two_values() -> Graph:
    net = Net()
    x, h = net.input("x", (2, 4)), net.input("h", (2, 4))
    return net.graph(through_integers(net, x), through_integers(net, h, Scale(0.5, 1)))


def types(graph: Graph, names: tuple[str, ...]) -> list[DType]:
    return [graph.types[name].dtype for name in names]


def test_both_sides_are_integers_of_the_same_meaning() -> None:
    graph = two_values()
    raw = raw_interface(graph)
    verify(raw, after="raw_interface")
    assert types(raw, raw.inputs) == types(raw, raw.outputs) == [DType.INT8] * 2
    assert {raw.scales[v] for v in (raw.inputs[0], raw.outputs[0])} == {SCALE}
    assert {raw.scales[v] for v in (raw.inputs[1], raw.outputs[1])} == {Scale(0.5, 1)}
    rng = np.random.default_rng(0)
    q = {v: rng.integers(-128, 127, (2, 4), np.int8, endpoint=True) for v in raw.inputs}
    wide = {v: raw.scales[v].scale * (q[v].astype(float) - raw.scales[v].zero_point) for v in q}
    found, expected = evaluate(raw, q), evaluate(graph, wide)
    for name, plain in zip(raw.outputs, graph.outputs, strict=True):
        meant = raw.scales[name].scale * (found[name].astype(float) - raw.scales[name].zero_point)
        assert np.array_equal(meant, expected[plain])


def test_states_stay_floats_on_both_sides() -> None:
    graph = two_values()
    states = (State(graph.inputs[1], graph.outputs[1]),)
    raw = raw_interface(replace(graph, states=states))
    assert types(raw, raw.inputs) == types(raw, raw.outputs) == [DType.INT8, DType.FLOAT32]
    with pytest.raises(OptionError, match="no input or output"):
        only = replace(
            graph, inputs=graph.inputs[1:], outputs=graph.outputs[1:], states=states,
            nodes=graph.nodes[3:],
        )  # fmt: skip
        raw_interface(only)


def test_readers_that_differ_keep_an_input_as_floats() -> None:
    net = Net()
    x = net.input("x", (2, 4))
    graph = net.graph(through_integers(net, x), through_integers(net, x, Scale(0.5, 1)))
    raw = raw_interface(graph)
    assert types(raw, raw.inputs) == [DType.FLOAT32]
    assert types(raw, raw.outputs) == [DType.INT8] * 2


def test_another_reader_gets_what_the_integers_stand_for() -> None:
    net = Net()
    x = net.input("x", (2, 4))
    y = through_integers(net, x)
    z = net.node(Reshape((8,)), [x])
    raw = raw_interface(net.graph(y, z))
    verify(raw, after="raw_interface")
    assert types(raw, raw.inputs) == [DType.INT8]
    q = np.arange(-4, 4, dtype=np.int8).reshape(2, 4)
    assert np.array_equal(evaluate(raw, {"x": q})[raw.outputs[1]], 0.25 * (q.ravel() + 3.0))


def test_an_output_that_is_read_stays() -> None:
    """Its integers are given out; who reads it has its floats."""
    net = Net()
    y = through_integers(net, net.input("x", (2, 4)))
    graph = net.graph(y, net.node(Reshape((8,)), [y]))
    raw = raw_interface(graph)
    verify(raw, after="raw_interface")
    assert types(raw, raw.outputs) == [DType.INT8, DType.FLOAT32]
    assert isinstance(raw.nodes[0], Node)
