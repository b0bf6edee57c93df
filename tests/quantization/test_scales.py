"""The scales of integers at the interface, also where the node that says them is farther inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery.cli import invoke
from cannery.ir.graph import Graph, Scale
from cannery.ir.tensor import DType
from cannery.options import make_options
from cannery.pipeline import compile_model, import_graph
from frontends.onnx_models import model, node, write

INT8, UINT8 = 3, 2
SHAPE = (1, 4, 6, 8)
#: As initializers.
FACTS = {
    "s": np.float32(0.25), "z": np.int8(-7), "s2": np.float32(0.5), "z2": np.int8(3),
    "sc": np.linspace(0.1, 0.4, 4, dtype=np.float32), "zc": np.zeros(4, np.int8),
}  # fmt: skip
SAID = Scale(0.25, -7)


def _i64(*values: int) -> Any:
    return np.array(values, np.int64)


#: Nodes from `a` to `b` that only move elements, and their constants.
MOVES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "none": ([node("Identity", ["a"], ["b"])], {}),
    "reshape": ([node("Reshape", ["a", "n"], ["b"])], {"n": _i64(1, -1)}),
    "flatten": ([node("Flatten", ["a"], ["b"], axis=2)], {}),
    "unsqueeze": ([node("Unsqueeze", ["a", "n"], ["b"])], {"n": _i64(0)}),
    "squeeze": ([node("Squeeze", ["a", "n"], ["b"])], {"n": _i64(0)}),
    "transpose": ([node("Transpose", ["a"], ["b"], perm=[0, 2, 3, 1])], {}),
    "slice": ([node("Slice", ["a", "n", "m"], ["b"])], {"n": _i64(0, 1), "m": _i64(1, 3)}),
    "split": ([node("Split", ["a", "n"], ["b", "c"], axis=1)], {"n": _i64(1, 3)}),
    "cast": ([node("Cast", ["a"], ["b"], to=INT8)], {}),
    "casts": ([node("Cast", ["a"], ["c"], to=6), node("Cast", ["c"], ["b"], to=INT8)], {}),
    "depth": ([node("DepthToSpace", ["a"], ["b"], blocksize=2)], {}),
    "space": ([node("SpaceToDepth", ["a"], ["b"], blocksize=2)], {}),
    "tile": ([node("Tile", ["a", "n"], ["b"])], {"n": _i64(1, 2, 1, 1)}),
    "expand": ([node("Expand", ["a", "n"], ["b"])], {"n": _i64(2, 4, 6, 8)}),
    "pad": ([node("Pad", ["a", "n"], ["b"], mode="edge")], {"n": _i64(0, 0, 1, 1, 0, 0, 1, 1)}),
    "concat": ([node("Concat", ["a", "a"], ["b"], axis=1)], {}),
    "gather": ([node("Gather", ["a", "n"], ["b"], axis=1)], {"n": _i64(2, 0)}),
    "max pool": ([node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2])], {}),
    "where": ([node("Where", ["n", "a", "a"], ["b"])], {"n": np.array([True, False] * 4)}),
    "max": ([node("Max", ["a", "a"], ["b"])], {}),
    "clip": ([node("Clip", ["a", "n"], ["b"])], {"n": np.int8(-3)}),
    "reduced": ([node("ReduceMax", ["a", "n"], ["b"])], {"n": _i64(2, 3)}),
    "top": ([node("TopK", ["a", "n"], ["b", "c"])], {"n": _i64(2)}),
    "reversed": (
        [node("ReverseSequence", ["a", "n"], ["b"], time_axis=1, batch_axis=0)], {"n": _i64(3)},
    ),
    "elements": (
        [node("GatherElements", ["a", "n"], ["b"], axis=1)],
        {"n": np.zeros((1, 2, 6, 8), np.int64)},
    ),
    "scattered": (
        [node("ScatterElements", ["a", "n", "a"], ["b"], axis=1)],
        {"n": np.zeros(SHAPE, np.int64)},
    ),
    "chain": (
        [
            node("Reshape", ["a", "n"], ["c"]), node("Transpose", ["c"], ["d"], perm=[1, 0]),
            node("Relu", ["d"], ["e"]), node("Concat", ["e", "d"], ["b"], axis=0),
        ],
        {"n": _i64(4, -1)},
    ),
}  # fmt: skip


def _model(nodes: list[Any], weights: dict[str, Any], dtype: int, outputs: Any = ("y",)) -> Any:
    return model(nodes, {"x": SHAPE}, outputs, {**FACTS, **weights}, dtype=dtype, opset=18)


def _graph(folder: Path, proto: Any, **options: Any) -> Graph:
    return import_graph(make_options(write(folder / "net.onnx", proto), options))


@pytest.mark.parametrize("name", MOVES)
def test_an_input_that_is_moved_first(name: str, tmp_path: Path) -> None:
    moves, weights = MOVES[name]
    nodes = [node("Identity", ["x"], ["a"]), *moves,
             node("DequantizeLinear", ["b", "s", "z"], ["y"])]  # fmt: skip
    graph = _graph(tmp_path, _model(nodes, weights, INT8))
    assert graph.types["x"].dtype is DType.INT8
    assert dict(graph.scales) == {"x": SAID} and not graph.notes


@pytest.mark.parametrize("name", MOVES)
def test_an_output_that_is_moved_last(name: str, tmp_path: Path) -> None:
    moves, weights = MOVES[name]
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["a"]), *moves,
             node("Identity", ["b"], ["y"])]  # fmt: skip
    graph = _graph(tmp_path, _model(nodes, weights, 1))
    assert graph.types["y"].dtype is DType.INT8
    assert dict(graph.scales) == {"y": SAID} and not graph.notes


@pytest.mark.parametrize("name", ["reshape", "transpose", "flatten", "slice"])
def test_floats_that_are_moved_become_integers(name: str, tmp_path: Path) -> None:
    moves, weights = MOVES[name]
    behind = [node(n.op_type, [f"{i}2" if i in "abcde" else i for i in n.input],
                   [f"{o}2" for o in n.output]) for n in moves]  # fmt: skip
    for old, new in zip(moves, behind, strict=True):
        new.attribute.extend(old.attribute)
    nodes = [
        node("Identity", ["x"], ["a"]), *moves,
        node("QuantizeLinear", ["b", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["f"]),
        node("Relu", ["f"], ["r"]),
        node("QuantizeLinear", ["r", "s2", "z2"], ["p"]),
        node("DequantizeLinear", ["p", "s2", "z2"], ["a2"]), *behind,
        node("Identity", ["b2"], ["y"]),
    ]  # fmt: skip
    graph = _graph(tmp_path, _model(nodes, weights, 1), io_type="raw")
    assert dict(graph.scales) == {"x": SAID, "y": Scale(0.5, 3)}


TWO = [node("Reshape", ["x", "n"], ["a"]), node("Reshape", ["x", "m"], ["b"])]
ROWS = {"n": _i64(1, -1), "m": _i64(4, -1)}


def test_readers_that_agree(tmp_path: Path) -> None:
    nodes = [*TWO, node("DequantizeLinear", ["a", "s", "z"], ["y"]),
             node("DequantizeLinear", ["b", "s", "z"], ["v"]),
             node("ArgMax", ["x"], ["w"], axis=1)]  # fmt: skip
    graph = _graph(tmp_path, _model(nodes, ROWS, INT8, ("y", "v", "w")))
    assert dict(graph.scales) == {"x": SAID} and not graph.notes


def test_readers_that_disagree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [*TWO, node("DequantizeLinear", ["a", "s", "z"], ["y"]),
             node("DequantizeLinear", ["b", "s2", "z2"], ["v"])]  # fmt: skip
    path = write(tmp_path / "net.onnx", _model(nodes, ROWS, INT8, ("y", "v")))
    compiled = compile_model(make_options(path, {"isa": "generic"}))
    why = "input 'x' has no scale: nodes of the model differ: 0.25 * (q - -7), 0.5 * (q - 3)"
    assert compiled.source.graph.notes == (why,)
    header = compiled.files["net.h"].decode()
    assert f" * Note: {why}.\n" in header and "_SCALE" not in header
    assert json.loads(compiled.files["net.json"])["notes"] == [why]
    assert invoke(["inspect", str(path)]) == 0
    assert f"Note: {why}." in capsys.readouterr().out


def test_scales_of_an_axis_that_are_the_same(tmp_path: Path) -> None:
    size = SHAPE[1]
    weights = {
        "sa": np.full(size, SAID.scale, np.float32),
        "za": np.full(size, SAID.zero_point, np.int8),
    }
    nodes = [node("Identity", ["x"], ["a"]),
             node("DequantizeLinear", ["a", "sa", "za"], ["y"], axis=1)]  # fmt: skip
    graph = _graph(tmp_path, _model(nodes, weights, INT8))
    assert dict(graph.scales) == {"x": SAID} and not graph.notes
    weights["za"] = np.arange(size, dtype=np.int8)
    graph = _graph(tmp_path, _model(nodes, weights, INT8))
    assert not graph.scales and "parts of the tensor" in graph.notes[0]


@pytest.mark.parametrize(
    ("scale", "zero", "why"),
    [
        ("sc", "zc", "there are 4, for parts of the tensor"),
        ("given", "z", "it is computed at run time"),
    ],
)
def test_scales_that_are_no_single_number(scale: str, zero: str, why: str, tmp_path: Path) -> None:
    nodes = [node("Identity", ["x"], ["a"]),
             node("DequantizeLinear", ["a", scale, zero], ["y"], axis=1)]  # fmt: skip
    proto = _model(nodes, {}, INT8)
    given = model([], {"given": ()}).graph.input[0]
    proto.graph.input.extend([given] if scale == "given" else [])
    graph = _graph(tmp_path, proto)
    assert graph.notes == (f"input 'x' has no scale: {why}",) and not graph.scales


@pytest.mark.parametrize(
    ("between", "dtype"),
    [
        ([node("Neg", ["x"], ["b"])], INT8), ([node("Add", ["x", "x"], ["b"])], INT8),
        ([node("ScatterND", ["x", "i0", "x"], ["b"], reduction="add")], INT8),
        ([node("ScatterND", ["x", "i0", "x"], ["b"], reduction="mul")], INT8),
        ([node("ReduceSum", ["x"], ["b"])], 6), ([node("Cast", ["x"], ["b"], to=INT8)], 6),
        ([node("TopK", ["x", "k"], ["c", "i"]), node("Cast", ["i"], ["b"], to=6)], INT8),
    ],
    ids=["negated", "added", "scattered", "multiplied", "summed", "narrowed", "places"],
)  # fmt: skip
def test_what_computes_has_another_meaning(between: Any, dtype: int, tmp_path: Path) -> None:
    nodes = [*between, node("DequantizeLinear", ["b", "s"], ["y"])]
    graph = _graph(tmp_path, _model(nodes, {"k": _i64(2), "i0": _i64([0])}, dtype))
    assert not graph.scales and not graph.notes


def test_parts_of_an_output_that_differ(tmp_path: Path) -> None:
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["a"]),
             node("QuantizeLinear", ["x", "s2", "z2"], ["b"]),
             node("Concat", ["a", "b"], ["y"], axis=1)]  # fmt: skip
    graph = _graph(tmp_path, _model(nodes, {}, 1))
    assert not graph.scales and graph.notes[0].startswith("output 'y' has no scale: nodes")


def test_an_input_that_is_an_output(tmp_path: Path) -> None:
    nodes = [node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1]),
             node("DequantizeLinear", ["x", "s", "z"], ["f"])]  # fmt: skip
    graph = _graph(tmp_path, _model(nodes, {}, INT8, ("y", "f")))
    assert dict(graph.scales) == {"x": SAID, "y": SAID}


def test_integers_that_stand_for_themselves(tmp_path: Path) -> None:
    nodes = [node("Cast", ["x"], ["f"], to=1), node("Relu", ["f"], ["y"])]
    graph = _graph(tmp_path, _model(nodes, {}, UINT8))
    assert not graph.scales and not graph.notes
