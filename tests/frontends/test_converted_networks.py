"""Networks as TensorFlow's converter writes them: the bits of LiteRT's reference kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cannery
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from frontends.converted_networks import FOLDER, GOLDEN, Makers, inputs_of
from needs import need_program

FILES = sorted(FOLDER.glob("*.tflite"))


def test_all_are_there() -> None:
    kinds = ("int16", "int8")
    assert [f.stem for f in FILES] == [f"{n}_{k}" for n in sorted(Makers.NAMES) for k in kinds]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_bits_are_those_of_litert(file: Path) -> None:
    """In the references, and as C on this processor."""
    need_program("gcc")
    graph, golden = load_graph(file), np.load(GOLDEN)
    net = cannery.load(file)
    numbers = set[int]()
    for k, sample in enumerate(inputs_of(file.read_bytes())):
        given = dict(zip(graph.inputs, sample.values(), strict=True))
        expected = [golden[f"{file.stem}/{k}/{n}"] for n in range(len(graph.outputs))]
        found = evaluate(graph, given)
        made = net(*given.values())
        results = made if isinstance(made, tuple) else (made,)
        for name, c, y in zip(graph.outputs, results, expected, strict=True):
            assert np.array_equal(found[name], y)
            assert np.array_equal(np.asarray(c), y)
            numbers.update(map(int, np.unique(y)))
    assert len(numbers) > 5
