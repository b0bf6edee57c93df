"""Operators on integers of random shapes: the bits of LiteRT's reference kernels."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from frontends.tflite_files import by_litert
from frontends.tflite_random import random_case

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ai_edge_litert") is None, reason="ai_edge_litert is not installed"
)


@pytest.mark.parametrize("seed", range(120))
def test_random_operator(seed: int, tmp_path: Path) -> None:
    case = random_case(seed)
    file = tmp_path / "net.tflite"
    file.write_bytes(case.data())
    (found,) = evaluate(load_graph(file), case.inputs()).values()
    assert np.array_equal(found, by_litert(case.data(), case.inputs())[0]), case
