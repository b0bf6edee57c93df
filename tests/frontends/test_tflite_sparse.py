"""Constants of TensorFlow Lite that are stored sparsely."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import ModelError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from frontends.tflite_files import Graph, Sparsity, by_litert, tflite_file

Matrix = NDArray[np.float32]


def rows_of_places(dense: Matrix, vector: str = "Int32Vector") -> tuple[Sparsity, Matrix]:
    """The places in each row that are not zero."""
    segments = np.concatenate([[0], np.cumsum((dense != 0).sum(1))])
    rows, columns = np.nonzero(dense)
    return Sparsity([0, 1], [], [dense.shape[0], (segments, columns)], vector), dense[rows, columns]


def columns_of_places(dense: Matrix) -> tuple[Sparsity, Matrix]:
    """The same, column by column."""
    found, values = rows_of_places(dense.T)
    return Sparsity([1, 0], [], found.levels), values


def blocks(dense: Matrix, size: int) -> tuple[Sparsity, Matrix]:
    """Blocks of one row and `size` columns."""
    apart = dense.reshape(dense.shape[0], -1, size)
    rows, columns = np.nonzero(apart.any(2))
    segments = np.concatenate([[0], np.cumsum(apart.any(2).sum(1))])
    levels = [dense.shape[0], (segments, columns), size]
    return Sparsity([0, 1, 2], [1], levels, "Uint8Vector"), apart[rows, columns]


def weights() -> Matrix:
    """Blocks of four numbers, half of which are zeros; one row of zeros."""
    random = np.random.default_rng(3)
    kept = random.random((6, 4)) < 0.5
    kept[2] = False
    dense = random.standard_normal((6, 16)).astype(np.float32)
    return dense * np.repeat(kept, 4, axis=1).astype(np.float32)


def dense_layer(sparsity: Sparsity, values: Any, shape: tuple[int, int] = (6, 16)) -> bytes:
    """A dense layer whose weights are sparse, made dense by an operator."""

    def fill(g: Graph) -> Sequence[int]:
        x = g.input((2, 16))
        w = g.constant(values, shape=shape, sparsity=sparsity)
        whole = g.add("DENSIFY", [w], g.tensor(shape), options="DensifyOptions")
        y = g.tensor((2, shape[0]))
        return [g.add("FULLY_CONNECTED", [x, whole], y, options="FullyConnectedOptions")]

    return tflite_file(fill)


def read(folder: Path, data: bytes) -> Any:
    file = folder / "net.tflite"
    file.write_bytes(data)
    return load_graph(file)


FORMS = {
    "rows": rows_of_places(weights()), "short_places": rows_of_places(weights(), "Uint16Vector"),
    "columns": columns_of_places(weights()), "blocks": blocks(weights(), 4),
    "dense": (Sparsity([0, 1], [], [6, 16]), weights()),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_weights_are_whole(name: str, tmp_path: Path) -> None:
    data = dense_layer(*FORMS[name])
    x = np.random.default_rng(1).standard_normal((2, 16)).astype(np.float32)
    (y,) = evaluate(read(tmp_path, data), {"x0": x}).values()
    assert np.abs(y - x @ weights().T.astype(np.float64)).max() < 1e-6


@pytest.mark.parametrize("name", FORMS)
def test_the_expectation_is_that_of_litert(name: str) -> None:
    pytest.importorskip("ai_edge_litert")
    x = np.random.default_rng(1).standard_normal((2, 16)).astype(np.float32)
    (y,) = by_litert(dense_layer(*FORMS[name]), {"x0": x})
    assert np.abs(y - x @ weights().T).max() < 1e-5


def test_a_layer_may_read_them_itself(tmp_path: Path) -> None:
    def fill(g: Graph) -> Sequence[int]:
        sparsity, values = blocks(weights(), 4)
        w = g.constant(values, shape=(6, 16), sparsity=sparsity)
        y = g.tensor((1, 6))
        return [g.add("FULLY_CONNECTED", [g.input((1, 16)), w], y, options="FullyConnectedOptions")]

    x = np.ones((1, 16), np.float32)
    (y,) = evaluate(read(tmp_path, tflite_file(fill)), {"x0": x}).values()
    assert np.abs(y - weights().sum(1)).max() < 1e-5


DAMAGED = {
    "segments do not cover": Sparsity([0, 1], [], [2, ([0, 3, 2], [0, 1])]),
    "is outside of an axis of 16": Sparsity([0, 1], [], [2, ([0, 1, 2], [0, 16])]),
    "2 levels of a sparse tensor with 3 axes": Sparsity([0, 1], [1], [2, ([0, 1, 2], [0, 1])]),
    "2 levels of a sparse tensor with 2 axes": Sparsity([0, 0], [], [2, ([0, 1, 2], [0, 1])]),
    "7 places along an axis of 2": Sparsity([0, 1], [], [7, ([0, 1, 2], [0, 1])]),
    "blocks of 5 along axis 1": Sparsity([0, 1, 2], [1], [2, ([0, 1, 2], [0, 1]), 5]),
    "blocks of 4 along axis 9": Sparsity([0, 1, 2], [9], [2, ([0, 1, 2], [0, 1]), 4]),
    "2 numbers for 3 places": Sparsity([0, 1], [], [2, ([0, 1, 3], [0, 1, 2])]),
}


@pytest.mark.parametrize("message", DAMAGED)
def test_damage(message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        read(tmp_path, dense_layer(DAMAGED[message], np.ones(2, np.float32), (2, 16)))
