"""What the judge of all code does where it cannot judge."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.errors import CanneryError
from cannery.ir.evaluate import Values, evaluate
from cannery.ir.parser import parse_graph
from cannery.ops.elementwise import Relu

TEXT = "graph net\ninput x: float32[1x3]\ny = Relu(x)\noutput y\n"


def test_values_beyond_the_memory_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Relu, x: object) -> object:
        raise MemoryError

    monkeypatch.setattr(Relu, "value", full)
    with pytest.raises(CanneryError, match=r"y: out of memory"):
        evaluate(parse_graph(TEXT, "net"), {"x": np.zeros((1, 3))})


def test_values_go_once_all_that_read_them_are_computed() -> None:
    text = "graph net\ninput x: float32[1x3]\na = Relu(x)\nb = Add(a, x)\nc = Add(b, b)\n"
    graph = parse_graph(text + "output c\n", "net")
    values = Values(graph, {"x": np.ones((1, 3))}, only=graph.outputs)
    left = []
    for node in graph.nodes:
        values.compute(node)
        left.append(sorted(values))
    assert left == [["a", "x"], ["b"], ["c"]]
    np.testing.assert_array_equal(values["c"], np.full((1, 3), 4.0))
