"""Recurrent layers in both directions are, by their references, what each direction is alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.ir.graph import Graph, Node
from cannery.ops.quantized.gru import QuantizedGru
from cannery.ops.quantized.lstm import QuantizedLstm
from cannery.ops.quantized.recurrent import QuantizedRecurrent
from cannery.ops.quantized.rnn import QuantizedRnn
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from ops.cases import Case, all_cases


def layer_of(graph: Graph) -> Node | None:
    """The node of a recurrent layer in both directions, if there is one."""
    for node in graph.nodes:
        if isinstance(node.op, Recurrent | QuantizedRecurrent) and node.op.directions == 2:
            return node
    return None


CASES = [c for c in all_cases() if c.name.startswith(("recurrent_", "quantized_lstm_"))]
BOTH = [case for case in CASES if layer_of(case.make())]


def numbers(graph: Graph, node: Node) -> list[NDArray[Any] | None]:
    """What a layer reads: its weights, and random numbers, for integers in steps of tables."""
    rng = np.random.default_rng(0)
    wide = 1.0
    if isinstance(node.op, QuantizedRecurrent):
        wide = 2.0 * node.op.tables(0)[0].scale
    found: list[NDArray[Any] | None] = []
    for index, name in enumerate(node.inputs):
        if not name or name in graph.constants:
            found.append(np.asarray(graph.constants[name]) if name else None)
            continue
        drawn = rng.standard_normal(graph.types[name].shape) * (wide if index == 0 else 1.0)
        found.append(drawn.astype(np.float32))
    return found


def part(op: Recurrent | QuantizedRecurrent, index: int, x: NDArray[Any], d: int) -> NDArray[Any]:
    """What one direction reads: of projected inputs and of states a half of the last axis."""
    states = range(3, 5) if isinstance(op, QuantizedRecurrent) else range(2, 2 + op.states)
    return np.split(x, 2, axis=-1 if index == 0 or index in states else 0)[d]


@pytest.mark.parametrize("case", BOTH, ids=lambda case: case.name)
def test_each_direction_is_what_it_is_alone(case: Case) -> None:
    graph = case.make()
    node = layer_of(graph)
    assert node is not None
    op = node.op
    assert isinstance(op, Recurrent | QuantizedRecurrent)
    given, per = numbers(graph, node), op.functions
    alone = []
    for d in range(2):
        own = [None if x is None else part(op, k, x, d) for k, x in enumerate(given)]
        functions = op.activations[per * d : per * d + per]
        one = replace(op, activations=functions, reverse=(op.reverse[d],))
        alone.append(one.reference(*own))
    for both, halves in zip(op.reference(*given), zip(*alone, strict=True), strict=True):
        np.testing.assert_allclose(both, np.concatenate(halves, axis=-1), rtol=0, atol=1e-12)


def test_each_kind_has_a_case_whose_directions_differ_in_each_function() -> None:
    """So kernels that take those of the other direction compute something else."""
    kinds = (Lstm, Gru, Rnn, QuantizedLstm, QuantizedGru, QuantizedRnn)
    missing = {(kind, k) for kind in kinds for k in range(kind.functions)}
    for case in BOTH:
        node = layer_of(case.make())
        assert node is not None
        op = node.op
        assert isinstance(op, Recurrent | QuantizedRecurrent)
        first, second = op.activations[: op.functions], op.activations[op.functions :]
        pairs = enumerate(zip(first, second, strict=True))
        missing -= {(type(op), k) for k, (a, b) in pairs if a != b}
    assert not missing
