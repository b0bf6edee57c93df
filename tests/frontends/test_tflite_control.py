"""WHILE and IF of TensorFlow Lite: unrolled; where their course is computed, conditions choose."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.errors import ModelError, UnsupportedError
from cannery.frontends import ImportOptions, load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from frontends.tflite_files import Graph as File
from frontends.tflite_files import TfliteFile, by_litert


def read(folder: Path, data: bytes, max_trips: int | None = None) -> Graph:
    """The graph of a file with these bytes."""
    file = folder / "net.tflite"
    file.write_bytes(data)
    return load_graph(file, ImportOptions(max_trips=max_trips))


def scalar(g: File, value: int) -> int:
    return g.constant(np.int32(value).reshape(()))


def looping(steps: int = 3, *, known: bool = True, body: str = "RELU") -> bytes:
    """Rows are added and activated, again and again; the counter is a constant or an input."""
    file = TfliteFile()
    g, condition, inner = file.main, file.graph("condition"), file.graph("body")
    x = g.input((2, 3))
    start = scalar(g, 0) if known else g.input((), "INT32")
    for each in (condition, inner):
        each.inputs = [each.tensor((), "INT32"), each.tensor((2, 3))]
    goes_on = condition.tensor((), "BOOL")
    condition.outputs = [
        condition.add("LESS", [condition.inputs[0], scalar(condition, steps)], goes_on)
    ]
    counter, value = inner.inputs
    following = inner.add("ADD", [counter, scalar(inner, 1)], inner.tensor((), "INT32"))
    row = inner.add(
        "GATHER", [value, counter], inner.tensor((3,)), options="GatherOptions"
    )  # fmt: skip
    total = inner.add("ADD", [value, row], inner.tensor((2, 3)), options="AddOptions")
    inner.outputs = [following, inner.add(body, [total], inner.tensor((2, 3)))]
    outputs = [g.tensor((), "INT32"), g.tensor((2, 3))]
    g.add(
        "WHILE", [start, x], *outputs, options="WhileOptions", CondSubgraphIndex=1,
        BodySubgraphIndex=2,
    )  # fmt: skip
    g.outputs = [outputs[1]]
    return file.data()


def test_a_loop_is_unrolled(tmp_path: Path) -> None:
    data = looping(2, body="TANH")
    graph = read(tmp_path, data)
    assert [n.op.kind for n in graph.nodes].count("Tanh") == 2
    x = np.random.default_rng(1).standard_normal((2, 3), np.float32)
    (y,) = evaluate(graph, {"x0": x}).values()
    expected = x.astype(np.float64)
    for k in range(2):
        expected = np.tanh(expected + expected[k])
    assert np.abs(y - expected).max() < 1e-6
    if importlib.util.find_spec("ai_edge_litert") is not None:
        (found,) = by_litert(data, {"x0": x})
        assert np.abs(found - expected).max() < 1e-6


def same_as_litert(data: bytes, inputs: Mapping[str, NDArray[Any]], y: NDArray[Any]) -> None:
    if importlib.util.find_spec("ai_edge_litert") is not None:
        (found,) = by_litert(data, inputs)
        assert np.abs(found - y).max() < 1e-6


@pytest.mark.parametrize("start", [0, 1, 2, 5])
def test_a_loop_whose_end_is_computed(start: int, tmp_path: Path) -> None:
    data = looping(2, known=False, body="TANH")
    graph = read(tmp_path, data, max_trips=2)
    assert graph.outputs[1:] == ("unfinished",)
    given = {"x0": np.random.default_rng(1).standard_normal((2, 3), np.float32),
             "x1": np.asarray(start, np.int32)}  # fmt: skip
    y, unfinished = evaluate(graph, given).values()
    expected = given["x0"].astype(np.float64)
    for k in range(start, 2):
        expected = np.tanh(expected + expected[k])
    assert np.abs(y - expected).max() < 1e-6
    assert not unfinished
    same_as_litert(data, given, y)
    if start == 0:
        _, cut = evaluate(read(tmp_path, data, max_trips=1), given).values()
        assert cut
        net = cannery.load(tmp_path / "net.tflite", max_trips=2)
        assert np.abs(np.asarray(net(*given.values())[0]) - expected).max() < 1e-6


def test_a_loop_whose_end_is_computed_needs_a_limit(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"known only while the network runs.*--max-trips"):
        read(tmp_path, looping(known=False))


def test_a_loop_without_end_is_an_error(tmp_path: Path) -> None:
    with pytest.raises((UnsupportedError, ModelError)):
        read(tmp_path, looping(10**9))


def test_an_operator_in_a_body_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"HASHTABLE_FIND, operator 3\) in its graph 2"):
        read(tmp_path, looping(body="HASHTABLE_FIND"))


def choosing(index: Sequence[int], condition: bool | None) -> bytes:
    """The square root, or the square, of an input."""
    file = TfliteFile()
    g = file.main
    x = g.input((3,))
    chosen = (
        g.input((), "BOOL") if condition is None else g.constant(np.bool_(condition).reshape(()))
    )
    for kind in ("ABS", "NEG"):
        branch = file.graph(kind)
        branch.inputs = [branch.tensor((3,))]
        branch.outputs = [branch.add(kind, branch.inputs, branch.tensor((3,)))]
    g.outputs = [
        g.add(
            "IF", [chosen, x], g.tensor((3,)), options="IfOptions", ThenSubgraphIndex=index[0],
            ElseSubgraphIndex=index[1],
        )
    ]  # fmt: skip
    return file.data()


@pytest.mark.parametrize("condition", [True, False])
def test_a_known_branch_is_taken(condition: bool, tmp_path: Path) -> None:
    graph = read(tmp_path, choosing((1, 2), condition))
    assert [n.op.kind for n in graph.nodes] == ["Abs" if condition else "Neg"]


@pytest.mark.parametrize("condition", [True, False])
def test_both_branches_are_there(condition: bool, tmp_path: Path) -> None:
    data = choosing((1, 2), None)
    graph = read(tmp_path, data)
    given = {"x0": np.float32([1, -2, 3]), "x1": np.asarray(condition)}
    (y,) = evaluate(graph, given).values()
    assert y.tolist() == ([1, 2, 3] if condition else [-1, 2, -3])
    same_as_litert(data, given, y)


def test_a_branch_that_may_be_taken_changes_no_variable(tmp_path: Path) -> None:
    file = TfliteFile()
    g = file.main
    x, chosen = g.input((3,)), g.input((), "BOOL")
    for kind in ("ABS", "NEG"):
        branch = file.graph(kind)
        branch.inputs = [branch.tensor((3,))]
        handle = branch.add("VAR_HANDLE", [], branch.tensor((), "RESOURCE"),
                            options="VarHandleOptions", SharedName="v")  # fmt: skip
        branch.outputs = [branch.add(kind, branch.inputs, branch.tensor((3,)))]
        branch.add("ASSIGN_VARIABLE", [handle, branch.inputs[0]], options="AssignVariableOptions")
    g.outputs = [
        g.add("IF", [chosen, x], g.tensor((3,)), options="IfOptions", ThenSubgraphIndex=1,
              ElseSubgraphIndex=2)
    ]  # fmt: skip
    with pytest.raises(UnsupportedError, match="it changes a variable where a condition says so"):
        read(tmp_path, file.data())


@pytest.mark.parametrize("index", [0, 3, -1])
def test_branches_are_other_graphs(index: int, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"there is no graph {index} to be called"):
        read(tmp_path, choosing((index, 2), True))


def test_a_graph_does_not_call_itself(tmp_path: Path) -> None:
    file = TfliteFile()
    g, inner = file.main, file.graph("inner")
    for each in (g, inner):
        x = each.input((3,))
        always = each.constant(np.bool_(True).reshape(()))
        each.outputs = [
            each.add(
                "IF", [always, x], each.tensor((3,)), options="IfOptions", ThenSubgraphIndex=1,
                ElseSubgraphIndex=1,
            )
        ]  # fmt: skip
    with pytest.raises(ModelError, match="there is no graph 1 to be called"):
        read(tmp_path, file.data())
