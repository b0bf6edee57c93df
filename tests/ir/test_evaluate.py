"""What the judge of all code does where it cannot judge."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.errors import CanneryError
from cannery.ir.evaluate import evaluate
from cannery.ir.parser import parse_graph
from cannery.ops.elementwise import Relu

TEXT = "graph net\ninput x: float32[1x3]\ny = Relu(x)\noutput y\n"


def test_values_beyond_the_memory_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Relu, x: object) -> object:
        raise MemoryError

    monkeypatch.setattr(Relu, "value", full)
    with pytest.raises(CanneryError, match=r"y: out of memory"):
        evaluate(parse_graph(TEXT, "net"), {"x": np.zeros((1, 3))})
