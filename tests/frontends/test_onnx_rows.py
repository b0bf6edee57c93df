"""NonZero and NonMaxSuppression: room for all rows, and an output with their number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cannery
from cannery.errors import ModelError, UnsupportedError
from cannery.frontends import ImportOptions
from cannery.ir.evaluate import evaluate
from cannery.ir.orders import from_model, to_model
from cannery.options import make_options
from cannery.pipeline import compile_model
from frontends.onnx_models import expected, floats, load, model, node

BOXES, CLASSES = 12, 2


def detector(*more: Any, outputs: tuple[str, ...] = ("kept",), **limits: Any) -> Any:
    """Boxes and scores as inputs, and what further nodes make of the kept ones."""
    given = {
        "most": np.array([9], np.int64), "overlap": np.array([0.4], np.float32),
        "score": np.array([0.1], np.float32), **limits,
    }  # fmt: skip
    nodes = [
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "score"], ["kept"]),
        *more,
    ]
    weights = {
        **given, "two": np.array([2], np.int64), "last": np.int64(2),
        "axis": np.array([1], np.int64), "ends": np.array([3], np.int64),
        "half": np.float32(0.5),
    }  # fmt: skip
    shapes = {"boxes": [1, BOXES, 4], "scores": [1, CLASSES, BOXES]}
    return model(nodes, shapes, outputs, weights)


def inputs(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    middle, size = rng.uniform(0, 2, (2, 1, BOXES, 2))
    boxes = np.concatenate([middle - size / 2, middle + size / 2], -1).astype(np.float32)
    return {"boxes": boxes, "scores": floats(1, CLASSES, BOXES, seed=seed)}


def check(folder: Path, proto: Any, given: dict[str, Any]) -> int:
    """Compares the rows that count with ONNX's own interpreter; returns their number."""
    graph = load(folder, proto)
    found = to_model(graph, evaluate(graph, from_model(graph, given)))
    wanted = expected(proto, given)
    (count,) = {int(v) for name, v in found.items() if name.endswith(".count")}
    rows = [v for name, v in found.items() if not name.endswith(".count")]
    for y, reference in zip(rows, wanted, strict=True):
        axis = next(
            k for k, (a, b) in enumerate(zip(y.shape, reference.shape, strict=True)) if a != b
        )
        assert np.allclose(np.take(y, range(count), axis), reference, atol=1e-6)
        assert reference.shape[axis] == count
    return count


GATHER_BOXES = [
    node("Gather", ["kept", "last"], ["places"], axis=1),
    node("Gather", ["boxes", "places"], ["all"], axis=1),
    node("Squeeze", ["all", "zero"], ["picked"]),
]


@pytest.mark.parametrize("seed", range(3))
def test_rows_and_their_number(tmp_path: Path, seed: int) -> None:
    count = check(tmp_path, detector(), inputs(seed))
    assert 1 < count < 2 * 9
    graph = load(tmp_path, detector())
    assert graph.outputs == ("kept", "kept.count")
    assert graph.types["kept"].shape == (18, 3)
    assert "'kept.count' says how many count" in graph.notes[-1]
    found = evaluate(graph, inputs(seed))["kept"]
    assert np.all(found[count:] == -1) and np.all(found[:count] >= 0)


def test_generated_code(tmp_path: Path) -> None:
    load(tmp_path, detector())
    net = cannery.load(tmp_path / "model.onnx")
    kept, count = net(**inputs())
    (wanted,) = expected(detector(), inputs())
    assert count == len(wanted) and np.array_equal(kept[: len(wanted)], wanted)
    header = compile_model(make_options(tmp_path / "model.onnx", {})).files["model.h"].decode()
    assert "MODEL_KEPT_COUNT_LEN = 1" in header


def test_what_works_row_by_row_goes_on(tmp_path: Path) -> None:
    nodes = [
        *GATHER_BOXES,
        node("Mul", ["picked", "half"], ["scaled"]),
        node("Transpose", ["scaled"], ["turned"], perm=[1, 0]),
        node("Slice", ["kept", "axis", "ends", "axis"], ["classes"]),
        node("Cast", ["classes"], ["numbers"], to=1),
    ]
    proto = detector(*nodes, outputs=("kept", "scaled", "turned", "numbers"), zero=np.array([0]))
    assert check(tmp_path, proto, inputs()) > 1


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ReduceSum", ["kept"], ["y"], keepdims=0)],
        [node("Concat", ["kept", "kept"], ["y"], axis=0)],
        [node("Cast", ["kept"], ["f"], to=1), node("Softmax", ["f"], ["y"], axis=0)],
        [node("Slice", ["kept", "axis", "ends"], ["y"])],
        [node("TopK", ["kept", "two"], ["y", "at"], axis=0)],
        [*GATHER_BOXES, node("MatMul", ["turned", "picked"], ["y"]),
         node("Transpose", ["picked"], ["turned"])],
        [node("NonZero", ["kept"], ["y"])],
        [node("Shape", ["kept"], ["s"]), node("Cast", ["s"], ["n"], to=1),
         node("Mul", ["n", "half"], ["y"])],
    ],
)  # fmt: skip
def test_what_mixes_rows_is_refused(tmp_path: Path, nodes: list[Any]) -> None:
    proto = detector(*nodes, outputs=("y",), zero=np.array([0]))
    with pytest.raises(UnsupportedError, match="only some count"):
        load(tmp_path, proto)
    options = ImportOptions(outputs=("kept",))
    assert load(tmp_path, proto, options).outputs == ("kept", "kept.count")


@pytest.mark.parametrize("shape", [[7], [3, 4], [2, 3, 2]])
def test_non_zero(tmp_path: Path, shape: list[int]) -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["y"])]
    proto = model(nodes, {"x": shape})
    graph = load(tmp_path, proto)
    assert graph.outputs == ("y", "y.count")
    x = {"x": floats(*shape)}
    assert 0 < check(tmp_path, proto, x) < np.prod(shape)


def test_places_that_are_known(tmp_path: Path) -> None:
    nodes = [node("NonZero", ["w"], ["at"]), node("Gather", ["x", "at"], ["y"])]
    proto = model(nodes, {"x": [4]}, weights={"w": np.array([0, 1, 0, 2.0], np.float32)})
    graph = load(tmp_path, proto)
    assert graph.outputs == ("y",) and graph.types["y"].shape == (1, 2)
    assert np.allclose(evaluate(graph, {"x": np.arange(4.0)})["y"], [[1, 3]])


def test_none_is_wanted(tmp_path: Path) -> None:
    graph = load(tmp_path, detector(most=np.array([0], np.int64)))
    assert graph.types["kept"].shape == (0, 3)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"overlap": np.array([0.1, 0.2], np.float32)}, "its overlaps are float32"),
        ({"overlap": np.array([np.nan], np.float32)}, "its overlaps are"),
        ({"score": np.array([1], np.int64)}, "its least scores are int64"),
        ({"most": np.array([1, 2], np.int64)}, "its numbers of boxes are"),
    ],
)
def test_what_is_malformed(tmp_path: Path, limits: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(tmp_path, detector(**limits))


def test_rows_and_random_numbers(tmp_path: Path) -> None:
    nodes = [node("RandomNormalLike", ["scores"], ["z"])]
    proto = detector(*nodes, outputs=("z", "kept"))
    graph = load(tmp_path, proto, ImportOptions(noise="seed"))
    assert graph.outputs == ("z", "kept", "kept.count", "noise_next")
    assert graph.states[0].output == "noise_next"
