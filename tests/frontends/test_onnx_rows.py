"""NonZero, NonMaxSuppression and Unique: room for all rows, and an output with their number."""

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


def test_detections_as_exports_end_with_them(tmp_path: Path) -> None:
    nodes = [
        *GATHER_BOXES,
        node("Gather", ["scores", "zero0"], ["of_image"], axis=0),
        node("Transpose", ["of_image"], ["by_place"], perm=[1, 0]),
        node("Gather", ["by_place", "places"], ["class_scores"], axis=0),
        node("ReduceMax", ["class_scores"], ["best"], axes=[1], keepdims=1),
        node("ArgMax", ["class_scores"], ["class"], axis=1, keepdims=1),
        node("Cast", ["class"], ["class_f"], to=1),
        node("MatMul", ["picked", "to_corners"], ["corners"]),
        node("Concat", ["corners", "best", "class_f"], ["detections"], axis=1),
        node("Softmax", ["class_scores"], ["shares"], axis=1),
        node("LayerNormalization", ["corners", "four"], ["normed"], axis=-1),
        node("Gather", ["kept", "order"], ["kept_in_order"], axis=1),
        node("GatherND", ["scores", "kept_in_order"], ["own_score"]),
    ]
    proto = detector(
        *nodes, outputs=("detections", "shares", "normed", "own_score"), zero=np.array([0]),
        zero0=np.int64(0), to_corners=floats(4, 4, seed=5), four=floats(4, seed=6),
        order=np.array([0, 1, 2]),
    )  # fmt: skip
    assert check(tmp_path, proto, inputs()) > 1
    net = cannery.load(tmp_path / "model.onnx")
    *found, count = net(**inputs())
    for y, reference in zip(found, expected(proto, inputs()), strict=True):
        assert np.allclose(y[: int(count)], reference, atol=1e-5)


def test_the_first_rows(tmp_path: Path) -> None:
    nodes = [node("Slice", ["kept", "from", "ends", "from"], ["y"])]
    proto = detector(*nodes, outputs=("kept", "y"), **{"from": np.array([0], np.int64)})
    graph = load(tmp_path, proto)
    assert graph.outputs == ("kept", "y", "kept.count", "y.count")
    assert graph.types["y"].shape == (3, 3)
    for seed, score in ((0, 0.1), (0, 99.0), (1, 2.0)):
        limits = {"score": np.array([score], np.float32)}
        proto = detector(*nodes, outputs=("kept", "y"), **{"from": np.array([0])}, **limits)
        graph = load(tmp_path, proto)
        found, (kept, y) = evaluate(graph, inputs(seed)), expected(proto, inputs(seed))
        assert (found["kept.count"], found["y.count"]) == (len(kept), len(y))
        assert np.array_equal(found["y"][: len(y)], y)


def different(shape: list[int], outputs: tuple[str, ...], **attributes: int) -> Any:
    """The different ones of rounded numbers, of which some are equal."""
    nodes = [
        node("Round", ["x"], ["r"]),
        node("Unique", ["r"], ["y", "first", "inverse", "times"], **attributes),
        node("Cast", ["times"], ["n"], to=1),
    ]
    return model(nodes, {"x": shape}, outputs)


def unique_by_numpy(x: Any, axis: int | None, *, ascending: int) -> list[Any]:
    """ONNX's own interpreter fails where there are several axes and none is named."""
    y, first, inverse, times = np.unique(x, True, True, True, axis=axis)
    rank = np.arange(len(first)) if ascending else np.argsort(first)
    place = np.argsort(rank)[inverse.reshape(-1)]
    return [np.take(y, rank, axis or 0), first[rank], place, times[rank]]


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis"), [([9], None), ([3, 4], None), ([9, 2], 0), ([1, 1, 9], -1), ([1, 2, 40], -1)]
)
def test_unique(tmp_path: Path, shape: list[int], axis: int | None, order: int) -> None:
    outputs = ("y", "first", "inverse", "n")
    along = {} if axis is None else {"axis": axis}
    proto = different(shape, outputs, sorted=order, **along)
    graph = load(tmp_path, proto)
    assert graph.outputs == (*outputs, "y.count")
    x = {"x": floats(*shape, seed=3)}
    found, wanted = evaluate(graph, x), unique_by_numpy(np.round(x["x"]), axis, ascending=order)
    count = int(found["y.count"])
    assert 1 < count < len(found["first"])
    assert np.array_equal(found["inverse"], wanted[2])
    for k, at in ((0, axis or 0), (1, 0), (3, 0)):
        assert np.array_equal(np.take(found[outputs[k]], range(count), at), wanted[k])
    assert np.all(found["first"][count:] == -1)
    net = cannery.load(tmp_path / "model.onnx")
    for y, reference in zip(net(x["x"]), found.values(), strict=True):
        assert np.array_equal(y, reference)


def test_unique_has_the_order_of_numpy(tmp_path: Path) -> None:
    x = np.array([3, np.nan, -0.0, np.inf, 0, np.nan, -np.inf, 3], np.float32)
    for order in (0, 1):
        proto = model([node("Unique", ["x"], ["y", "first", "inverse", "times"], sorted=order)],
                      {"x": [8]}, ["y", "first", "inverse", "times"])  # fmt: skip
        found = list(evaluate(load(tmp_path, proto), {"x": x}).values())
        for y, reference in zip(found, unique_by_numpy(x, None, ascending=order), strict=False):
            assert np.array_equal(y[: len(reference)], reference, equal_nan=y.dtype.kind == "f")


def test_unique_of_what_is_known(tmp_path: Path) -> None:
    nodes = [node("Unique", ["w"], ["u"]), node("Gather", ["x", "u"], ["y"])]
    graph = load(tmp_path, model(nodes, {"x": [4]}, weights={"w": np.array([2, 0, 2])}))
    assert graph.outputs == ("y",)
    assert np.array_equal(evaluate(graph, {"x": np.arange(4.0)})["y"], [0, 2])


def test_only_which_one_each_is(tmp_path: Path) -> None:
    """Its size is known, so no count is needed, and anything may follow."""
    proto = different([9], ("s",))
    proto.graph.node.extend(
        [node("Cast", ["inverse"], ["f"], to=1), node("ReduceSum", ["f"], ["s"])]
    )
    graph = load(tmp_path, proto)
    assert graph.outputs == ("s",)
    x = {"x": floats(9, seed=3)}
    assert np.allclose(evaluate(graph, x)["s"], expected(proto, x)[0])
    proto = different([9], ("m",))
    proto.graph.node.append(node("ReduceSum", ["n"], ["m"]))
    with pytest.raises(UnsupportedError, match="only some count"):
        load(tmp_path, proto)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("ReduceSum", ["kept"], ["y"], keepdims=0)],
        [node("Concat", ["kept", "fixed"], ["y"], axis=1)],
        [node("ArgMax", ["kept"], ["y"], axis=0)],
        [node("CumSum", ["kept", "last0"], ["y"])],
        [*GATHER_BOXES, node("MatMul", ["fixed_f", "picked"], ["y"])],
        [*GATHER_BOXES, node("LayerNormalization", ["picked", "ones"], ["y"], axis=0)],
        [node("Concat", ["kept", "kept"], ["y"], axis=0)],
        [node("Cast", ["kept"], ["f"], to=1), node("Softmax", ["f"], ["y"], axis=0)],
        [node("Slice", ["kept", "axis", "ends", "zero"], ["y"])],
        [node("TopK", ["kept", "two"], ["y", "at"], axis=0)],
        [*GATHER_BOXES, node("MatMul", ["turned", "picked"], ["y"]),
         node("Transpose", ["picked"], ["turned"])],
        [node("NonZero", ["kept"], ["y"])],
        [node("Shape", ["kept"], ["s"]), node("Cast", ["s"], ["n"], to=1),
         node("Mul", ["n", "half"], ["y"])],
    ],
)  # fmt: skip
def test_what_mixes_rows_is_refused(tmp_path: Path, nodes: list[Any]) -> None:
    known = {
        "fixed": np.ones((18, 2), np.int64), "fixed_f": floats(3, 18), "last0": np.int64(0),
        "ones": floats(18, 4),
    }  # fmt: skip
    proto = detector(*nodes, outputs=("y",), zero=np.array([0]), **known)
    with pytest.raises(UnsupportedError, match="only some count"):
        load(tmp_path, proto)
    options = ImportOptions(outputs=("kept",))
    assert load(tmp_path, proto, options).outputs == ("kept", "kept.count")


def selected(root: str, at: str = "i", **limits: int) -> Any:
    """x[x > 0] as PyTorch exports it; `root` is whose shape the places are expanded to."""
    nodes = [
        node("Greater", ["x", "zero"], ["mask"]), node("NonZero", ["mask"], ["places"]),
        node("Squeeze", ["places", "first"], ["i"]), node("Max", ["i"], ["same"]),
        node("Identity", ["i"], ["again"]), node("Neg", ["i"], ["other"]),
        node("Shape", [root], ["shape"], **limits), node("Expand", [at, "shape"], ["j"]),
        node("Unsqueeze", ["j", "last"], ["k"]), node("GatherND", ["x", "k"], ["y"]),
    ]  # fmt: skip
    weights = {"zero": np.float32(0), "first": np.array([0]), "last": np.array([-1])}
    return model(nodes, {"x": [9]}, weights=weights)


@pytest.mark.parametrize(("root", "at"), [("same", "i"), ("i", "i"), ("again", "same")])
def test_masks_as_pytorch_exports_them(tmp_path: Path, root: str, at: str) -> None:
    assert 1 < check(tmp_path, selected(root, at), {"x": floats(9)}) < 9


def test_places_are_expanded_to_nothing_else(tmp_path: Path) -> None:
    for proto in (selected("other"), selected("i", start=1), selected("i", end=1)):
        with pytest.raises(UnsupportedError, match="only some count"):
            load(tmp_path, proto)


@pytest.mark.parametrize("shape", [[7], [3, 4], [2, 3, 2]])
def test_non_zero(tmp_path: Path, shape: list[int]) -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["y"])]
    proto = model(nodes, {"x": shape})
    graph = load(tmp_path, proto)
    assert graph.outputs == ("y", "y.count")
    x = {"x": floats(*shape)}
    assert 0 < check(tmp_path, proto, x) < np.prod(shape)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_an_axis_before_the_rows_is_reduced(tmp_path: Path, keepdims: int) -> None:
    nodes = [*GATHER_BOXES[:2], node("ReduceMax", ["all"], ["y"], axes=[0], keepdims=keepdims)]
    proto = detector(*nodes, outputs=("y",))
    assert check(tmp_path, proto, inputs()) > 1


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
