"""WHERE and UNIQUE of TensorFlow Lite, with counts; random numbers; named parts of converters."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import cannery
from cannery.errors import ModelError, OptionError, UnsupportedError
from cannery.frontends import ImportOptions, load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ops.random.op import DrawNormal, DrawUniform
from frontends.tflite_files import Graph as File
from frontends.tflite_files import TfliteFile, by_litert, tflite_file
from needs import need_program

X = np.array([[0, 3, -1, 0], [2, 0, 0, 3], [0, 0, 2, -1]], np.float32)


def save(folder: Path, data: bytes) -> Path:
    """A file with these bytes."""
    file = folder / "net.tflite"
    file.write_bytes(data)
    return file


def places() -> bytes:
    """The places of elements that are not 0, and what is there, doubled."""

    def fill(g: File) -> Sequence[int]:
        x = g.input(X.shape)
        none = g.constant(np.float32(0).reshape(()))
        marked = g.add("NOT_EQUAL", [x, none], g.tensor(X.shape, "BOOL"), options="NotEqualOptions")
        at = g.add("WHERE", [marked], g.tensor((0, 2), "INT64", signature=(-1, 2)))
        there = g.add("GATHER_ND", [x, at], g.tensor((0,), signature=(-1,)))
        return [at, g.add("ADD", [there, there], g.tensor((0,)), options="AddOptions")]

    return tflite_file(fill)


def kinds() -> bytes:
    """Different elements, and which one each is."""

    def fill(g: File) -> Sequence[int]:
        y = g.tensor((0,), signature=(-1,)), g.tensor((12,), "INT32")
        g.add("UNIQUE", [g.input((12,))], *y, options="UniqueOptions", IdxOutType=2)
        return y

    return tflite_file(fill)


def test_where(tmp_path: Path) -> None:
    need_program("gcc")
    file = save(tmp_path, places())
    wanted = np.argwhere(X)
    at, twice, count = (np.asarray(y) for y in cannery.load(file)(X))
    n = len(wanted)
    assert count == n
    assert np.array_equal(at[:n], wanted)
    assert (at[n:] == -1).all()
    assert np.array_equal(twice[:n], 2 * X[X != 0])
    if importlib.util.find_spec("ai_edge_litert") is not None:
        found = by_litert(file.read_bytes(), {"x0": X})
        assert np.array_equal(found[0], wanted)
        assert np.array_equal(found[1], twice[:n])


def test_unique(tmp_path: Path) -> None:
    file = save(tmp_path, kinds())
    x = X.reshape(-1)
    found, which, count = (np.asarray(y) for y in evaluate(load_graph(file), {"x0": x}).values())
    assert count == 4
    assert found[:4].tolist() == [0, 3, -1, 2]
    assert np.array_equal(found[which], x)
    if importlib.util.find_spec("ai_edge_litert") is not None:
        theirs = by_litert(file.read_bytes(), {"x0": x})
        assert np.array_equal(theirs[0], found[:4])
        assert np.array_equal(theirs[1], which)


def test_rows_are_not_mixed(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        at = g.add("WHERE", [g.input((3,))], g.tensor((0, 1), "INT64", signature=(-1, 1)))
        axis = g.constant(np.array([0], np.int32))
        return [g.add("SUM", [at, axis], g.tensor((1,), "INT64"), options="ReducerOptions")]

    with pytest.raises(UnsupportedError, match="of which only some count"):
        load_graph(save(tmp_path, tflite_file(fill)))


def drawn() -> bytes:
    """Normal numbers, uniform ones, and classes, with a variable that counts runs."""
    file = TfliteFile()
    g = file.main
    shape = g.constant(np.array([2, 3], np.int32))
    normal, uniform = (
        g.add(kind, [shape], g.tensor((2, 3)), options="RandomOptions", Seed=4)
        for kind in ("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM")
    )
    logits = g.input((2, 3))
    draws = g.constant(np.int32(5).reshape(()))
    given = [logits, draws]
    classes = g.tensor((2, 5), "INT64")
    g.add("MULTINOMIAL", given, classes, options="RandomOptions")
    g.outputs = [normal, uniform, classes]
    return file.data()


def load(folder: Path, noise: str | None) -> Graph:
    return load_graph(save(folder, drawn()), ImportOptions(noise=noise))


def test_random_numbers_come_from_the_caller(tmp_path: Path) -> None:
    graph = load(tmp_path, "input")
    logits = np.log(np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]]) + 1e-30).astype(np.float32)
    normal, uniform = np.float32([[1, -2, 0], [4, 5, 6]]), np.full((2, 3), 0.25, np.float32)
    marks = np.tile(np.float32([0.1, 0.19, 0.21, 0.6, 0.99]), (2, 1))
    given = dict(zip(graph.inputs, (logits, normal, uniform, marks), strict=True))
    found = list(evaluate(graph, given).values())
    assert np.array_equal(found[0], normal)
    assert np.array_equal(found[1], uniform)
    assert found[2].tolist() == [[0, 0, 1, 2, 2], [1] * 5]


def test_random_numbers_come_from_a_seed(tmp_path: Path) -> None:
    graph = load(tmp_path, "seed")
    ops = [node.op for node in graph.nodes]
    assert [type(op) for op in ops if isinstance(op, DrawNormal | DrawUniform)] == [
        DrawNormal, DrawUniform, DrawUniform,
    ]  # fmt: skip
    assert len(graph.states) == 1


def test_the_likeliest_is_taken(tmp_path: Path) -> None:
    graph = load(tmp_path, "mean")
    logits = np.float32([[1, 3, 2], [4, 0, 1]])
    normal, uniform, classes = evaluate(graph, {graph.inputs[0]: logits}).values()
    assert not normal.any()
    assert (uniform == 0.5).all()
    assert classes.tolist() == [[1] * 5, [0] * 5]
    assert len(graph.notes) == 1


def test_where_random_numbers_come_from_must_be_said(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="draws random numbers"):
        load(tmp_path, None)
    with pytest.raises(OptionError, match="nothing draws"):
        load_graph(save(tmp_path, kinds()), ImportOptions(noise="seed"))


def composite(index: int = 1) -> bytes:
    """A part that converters know by its name, as a graph of the file."""
    file = TfliteFile()
    g, inner = file.main, file.graph("gelu")
    x = inner.tensor((2, 3))
    inner.inputs = [x]
    half = inner.constant(np.float32(0.5).reshape(()))
    inner.outputs = [inner.add("MUL", [x, half], inner.tensor((2, 3)), options="MulOptions")]
    g.outputs = [
        g.add(
            "STABLEHLO_COMPOSITE", [g.input((2, 3))], g.tensor((2, 3)),
            options="StableHLOCompositeOptions", Name="odml.scaled",
            DecompositionSubgraphIndex=index, CompositeAttributes=np.frombuffer(b"ab", np.uint8),
        )
    ]  # fmt: skip
    return file.data()


def test_parts_with_names(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3), np.float32)
    data = composite()
    (y,) = evaluate(load_graph(save(tmp_path, data)), {"x0": x}).values()
    assert np.array_equal(y, 0.5 * x)
    if importlib.util.find_spec("ai_edge_litert") is not None:
        (theirs,) = by_litert(data, {"x0": x})
        assert np.array_equal(theirs, y)
    with pytest.raises(ModelError, match="no graph 7"):
        load_graph(save(tmp_path, composite(7)))
