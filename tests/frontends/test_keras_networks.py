"""Networks of Keras 3 compute what Keras computes: stored ones, and new ones where Keras is."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.frontends import ImportOptions, load_graph
from cannery.ir.evaluate import evaluate
from frontends.keras_networks import FOLDER, NETWORKS, made
from needs import need_toolchain

#: Largest error allowed, relative to the range of the output; Keras computes in float32.
TOLERANCE = 2e-6


def check(path: Path, inputs: dict[str, NDArray[Any]], outputs: list[NDArray[Any]]) -> None:
    graph = load_graph(path, ImportOptions(batch=2))
    assert set(graph.inputs) == set(inputs)
    results = list(evaluate(graph, inputs).items())
    assert len(results) == len(outputs)
    for (name, y), wanted in zip(results, outputs, strict=True):
        assert y.shape == wanted.shape, name
        assert (y.dtype.kind == "f") == (wanted.dtype.kind == "f"), name
        scale = max(float(np.abs(wanted.astype(float)).max(initial=0)), 1e-30)
        error = np.abs(y.astype(float) - wanted.astype(float)).max(initial=0) / scale
        assert error < TOLERANCE, name


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_stored_networks(name: str) -> None:
    with np.load(FOLDER / f"{name}.npz") as stored:
        inputs = {k.removeprefix("in_"): stored[k] for k in stored if k.startswith("in_")}
        count = sum(k.startswith("out_") for k in stored)
        outputs = [stored[f"out_{k}"] for k in range(count)]
    check(FOLDER / f"{name}.keras", inputs, outputs)


@pytest.fixture(scope="module")
def keras() -> Any:
    if "KERAS_BACKEND" not in os.environ and find_spec("torch"):
        os.environ["KERAS_BACKEND"] = "torch"
    found = pytest.importorskip("keras")
    if not found.__version__.startswith("3"):
        pytest.skip("Keras 3 has these layers")
    return found


@pytest.mark.parametrize("suffix", ["keras", "h5"])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_new_networks(name: str, suffix: str, keras: Any, tmp_path: Path) -> None:
    try:
        model, inputs, outputs = made(keras, name)
    except (AttributeError, TypeError) as error:
        pytest.skip(f"this Keras lacks it: {error}")
    path = tmp_path / f"net.{suffix}"
    model.save(path)
    check(path, inputs, outputs)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ["gated_attention", "masked_steps", "words"])
def test_in_c(name: str) -> None:
    need_toolchain("native")
    assert cannery.verify(FOLDER / f"{name}.keras", target="native", batch=2).passed
