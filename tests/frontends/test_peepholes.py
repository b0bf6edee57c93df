"""Peepholes for a Keras model: against steps written by hand, and files that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import OptionError
from cannery.ir.evaluate import evaluate
from cannery.options import make_options
from cannery.pipeline import compile_model, load_model
from frontends.keras_files import LayerSpec, Model, chain, image, write_h5
from frontends.test_keras_recurrent import SIGMOID, F, H, T, X, weights

Array = NDArray[Any]

ONE = LayerSpec("LSTM", "one", (), {"units": H, "return_sequences": True}, weights("LSTM"))


def both() -> LayerSpec:
    inner = {"class_name": "LSTM", "config": {"units": H, "return_sequences": True}}
    values = {
        **weights("LSTM", "forward_layer/cell", seed=1),
        **weights("LSTM", "backward_layer/cell", seed=2),
    }
    return LayerSpec("Bidirectional", "both", (), {"layer": inner}, values)


def by_hand(w: Any, at: str, x: Array, peepholes: Array) -> Array:
    h, c, found = np.zeros(H), np.zeros(H), []
    k, r, b = (w[f"{at}/{n}"].astype(np.float64) for n in ("kernel", "recurrent_kernel", "bias"))
    to_input, to_forget, to_output = peepholes
    for step in x:
        i, f, g, o = np.split(step @ k + h @ r + b, 4)
        last = c
        c = SIGMOID(f + to_forget * last) * last + SIGMOID(i + to_input * last) * np.tanh(g)
        h = SIGMOID(o + to_output * c) * np.tanh(c)
        found.append(h)
    return np.stack(found)


def write(folder: Path, layer: LayerSpec, **arrays: Array) -> tuple[Path, Path]:
    """The model of one layer, and the file next to it."""
    model: Model = chain(image("x", T, F), layer)
    np.savez(folder / "peepholes.npz", **arrays)
    return write_h5(folder / "net.h5", model), folder / "peepholes.npz"


def run(folder: Path, layer: LayerSpec, array: Array) -> Array:
    file, beside = write(folder, layer, **{layer.name: array})
    graph = load_model(make_options(file, {"peepholes": str(beside)}))
    (y,) = evaluate(graph, {"x": X}).values()
    return np.asarray(y)[0]


def test_one_direction(tmp_path: Path) -> None:
    array = np.random.default_rng(5).standard_normal((3, H)).astype(np.float32)
    expected = by_hand(ONE.weights, "cell", X[0], array)
    assert np.abs(run(tmp_path, ONE, array) - expected).max() < 1e-12
    assert np.abs(expected - by_hand(ONE.weights, "cell", X[0], 0 * array)).max() > 1e-2


def test_both_directions(tmp_path: Path) -> None:
    array, layer = np.random.default_rng(6).standard_normal((2, 3, H)), both()
    array = array.astype(np.float32)
    forward = by_hand(layer.weights, "forward_layer/cell", X[0], array[0])
    backward = by_hand(layer.weights, "backward_layer/cell", X[0, ::-1], array[1])[::-1]
    expected = np.concatenate([forward, backward], axis=1)
    assert np.abs(run(tmp_path, layer, array) - expected).max() < 1e-12


def test_the_file_is_a_dependency(tmp_path: Path) -> None:
    file, beside = write(tmp_path, ONE, one=np.ones((3, H), np.float32))
    options = make_options(file, {"peepholes": str(beside), "isa": ("generic",)})
    assert beside in compile_model(options).dependencies


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"two": np.ones((3, H))}, "layers: one"),
        ({"one": np.ones((4, H))}, "are needed"),
        ({"one": np.ones((3, H), np.int32)}, "are needed"),
        ({"one": np.full((3, H), np.inf)}, "finite"),
    ],
    ids=["name", "shape", "type", "infinite"],
)
def test_files_that_do_not_fit(tmp_path: Path, arrays: Any, message: str) -> None:
    file, beside = write(tmp_path, ONE, **arrays)
    with pytest.raises(OptionError, match=message):
        load_model(make_options(file, {"peepholes": str(beside)}))


def test_no_file(tmp_path: Path) -> None:
    file, _ = write(tmp_path, ONE)
    with pytest.raises(OptionError, match=r"none\.npz"):
        load_model(make_options(file, {"peepholes": str(tmp_path / "none.npz")}))
