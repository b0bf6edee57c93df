"""Operators on integers of random shapes: the bits of LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from frontends.tflite_quantised import GOLDEN, litert_result
from frontends.tflite_random import SEEDS, random_case


@pytest.mark.parametrize("seed", SEEDS)
def test_random_operator(seed: int, tmp_path: Path) -> None:
    case = random_case(seed)
    file = tmp_path / "net.tflite"
    file.write_bytes(case.data())
    (found,) = evaluate(load_graph(file), case.inputs()).values()
    assert np.array_equal(found, np.load(GOLDEN)[f"random_{seed}"]), case


@pytest.mark.parametrize("seed", SEEDS)
def test_the_expectation_is_that_of_litert(seed: int) -> None:
    pytest.importorskip("ai_edge_litert")
    assert np.array_equal(litert_result(random_case(seed)), np.load(GOLDEN)[f"random_{seed}"])
