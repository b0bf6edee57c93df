"""float64: computed with float32, and said so; shapes are computed with float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.frontends import ImportOptions
from cannery.ir.evaluate import evaluate
from cannery.ir.tensor import DType
from cannery.options import make_options
from cannery.pipeline import compile_model
from frontends.onnx_models import expected, floats, load, model, node, write

DOUBLE = 11


def doubles(*shape: int, seed: int = 0) -> Any:
    return floats(*shape, seed=seed).astype(np.float64)


def network(**weights: Any) -> Any:
    """All of it float64, as scikit-learn and numpy leave it."""
    nodes = [
        node("Gemm", ["x", "w", "b"], ["h"]), node("Relu", ["h"], ["r"]),
        node("Constant", [], ["k"], value_float=0.5), node("Cast", ["k"], ["half"], to=DOUBLE),
        node("Mul", ["r", "half"], ["m"]), node("MatMul", ["m", "v"], ["s"]),
        node("Softmax", ["s"], ["y"]),
    ]  # fmt: skip
    known = {"w": doubles(4, 6), "b": doubles(6, seed=1), "v": doubles(6, 3), **weights}
    proto = model(nodes, {"x": [2, 4]}, weights=known, dtype=DOUBLE)
    proto.graph.output[0].type.tensor_type.elem_type = DOUBLE
    return proto


def test_networks_compute_in_float32_and_say_so(tmp_path: Path) -> None:
    graph = load(tmp_path, network())
    assert {graph.types[name].dtype for name in (*graph.inputs, *graph.outputs)} == {DType.FLOAT32}
    assert graph.notes == ("'x', 'y' (float64): float32 here, and so is what is computed from it",)
    x = doubles(2, 4, seed=3)
    (found,) = evaluate(graph, {"x": x}).values()
    assert np.allclose(found, expected(network(), {"x": x})[0], atol=1e-6)
    path = tmp_path / "model.onnx"
    assert np.allclose(cannery.load(path)(x.astype(np.float32)), found, atol=1e-6)
    header = compile_model(make_options(path, {})).files["model.h"].decode()
    assert "Note: 'x', 'y' (float64): float32 here" in header


def test_float64_within_a_network(tmp_path: Path) -> None:
    nodes = [
        node("Cast", ["x"], ["d"], to=DOUBLE), node("Mul", ["d", "w"], ["m"]),
        node("CastLike", ["m", "w"], ["n"]), node("Cast", ["n"], ["y"], to=1),
    ]  # fmt: skip
    proto = model(nodes, {"x": [3]}, weights={"w": doubles(3)})
    graph = load(tmp_path, proto)
    assert graph.notes == ("the model's float64 computations use float32",)
    x = floats(3, seed=1)
    assert np.allclose(evaluate(graph, {"x": x})["y"], expected(proto, {"x": x})[0], atol=1e-6)


def test_stored_as_float64_but_cast_needs_no_note(tmp_path: Path) -> None:
    nodes = [node("Cast", ["w"], ["f"], to=1), node("Mul", ["x", "f"], ["y"])]
    assert load(tmp_path, model(nodes, {"x": [3]}, weights={"w": doubles(3)})).notes == ()


def test_shapes_are_computed_with_float64(tmp_path: Path) -> None:
    count = 2**24 + 1  # which float32 does not hold
    nodes = [
        node("Add", ["large", "one"], ["sum"]), node("Sub", ["sum", "large"], ["size"]),
        node("Cast", ["size"], ["n"], to=7), node("Expand", ["x", "n"], ["y"]),
    ]  # fmt: skip
    weights = {"large": np.array([count - 1.0]), "one": np.array([1.0])}
    graph = load(tmp_path, model(nodes, {"x": [1]}, weights=weights))
    assert graph.types["y"].shape == (1,) and graph.notes == ()


@pytest.mark.parametrize(
    ("value", "becomes", "text"),
    [
        (1e300, np.finfo(np.float32).max, "1e+300 becomes at most 3.4e38"),
        (-np.finfo(np.float64).max, -np.finfo(np.float32).max, "becomes at most 3.4e38"),
        (1e-60, 0.0, "1e-60 becomes 0"),
        (np.inf, np.inf, ""),
        (0.0, 0.0, ""),
    ],
)
def test_what_float32_does_not_hold_is_said(
    tmp_path: Path, value: float, becomes: float, text: str
) -> None:
    weights = {"w": np.array([1.0, value, 2.0])}
    graph = load(tmp_path, model([node("Max", ["x", "w"], ["y"])], {"x": [3]}, weights=weights))
    (array,) = graph.constants.values()
    assert array.dtype == np.float32 and array.tolist() == [1, np.float32(becomes), 2]
    notes = [n for n in graph.notes if n.startswith("float32 does not hold all numbers, 'w': ")]
    assert bool(notes) == bool(text) and all(text in note for note in notes)


def test_many_tensors_are_not_all_named(tmp_path: Path) -> None:
    names = "abcde"
    nodes = [node("Max", ["x", *names], ["y"])]
    graph = load(tmp_path, model(nodes, {"x": [1]}, weights={n: np.array([1e99]) for n in names}))
    assert graph.notes[-1].count("becomes") == 3 and graph.notes[-1].endswith(" and 2 more")


def test_random_numbers_and_fixed_inputs(tmp_path: Path) -> None:
    nodes = [
        node("RandomNormal", [], ["z"], shape=[3], dtype=DOUBLE),
        node("Mul", ["z", "s"], ["m"]), node("Add", ["m", "x"], ["y"]),
    ]  # fmt: skip
    proto = model(nodes, {"x": [3], "s": []}, dtype=DOUBLE)
    graph = load(tmp_path, proto, ImportOptions(noise="input", fixed={"s": "2.5"}))
    z, x = floats(3), floats(3, seed=1)
    assert np.allclose(evaluate(graph, {"x": x, "noise": z})["y"], 2.5 * z + x, atol=1e-6)


def test_outputs_that_are_known(tmp_path: Path) -> None:
    nodes = [node("Identity", ["w"], ["k"]), node("Relu", ["x"], ["y"])]
    proto = model(nodes, {"x": [3]}, ["k", "y"], {"w": np.array([1e300, 1.0])})
    net = cannery.load(write(tmp_path / "m.onnx", proto))
    assert net(floats(3))[0].tolist() == [np.finfo(np.float32).max, 1]
