"""TensorFlow Lite files as wholes: networks, names, shapes, and files that are not sound."""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

import cannery
from cannery.errors import CanneryError, ModelError, OptionError, UnsupportedError
from cannery.frontends import ImportOptions, load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from frontends.tflite_files import Graph as File
from frontends.tflite_files import TfliteFile, by_litert, tflite_file
from needs import need_program
from networks import write_network

SHARED = ["ball", "ds_cnn", "pedestrian", "tcn", "gru", "blstm"]


def read(path: Path, data: bytes, options: ImportOptions | None = None) -> Graph:
    """The graph of a file with these bytes."""
    file = path / "net.tflite"
    file.write_bytes(data)
    return load_graph(file, options)


def dense(g: File) -> Sequence[int]:
    """x[1,3] -> y[1,2], by weights in float16."""
    half = g.constant(np.arange(6).reshape(2, 3).astype(np.float16))
    weight = g.add("DEQUANTIZE", [half], g.tensor((2, 3), name="wide"))
    x = g.input((1, 3), signature=(-1, 3), name="serving_default_x:0")
    y = g.tensor((1, 2), signature=(-1, 2), name="StatefulPartitionedCall:0")
    return [g.add("FULLY_CONNECTED", [x, weight], y, options="FullyConnectedOptions")]


@pytest.mark.parametrize("name", SHARED)
def test_networks_are_those_from_which_they_were_written(name: str, tmp_path: Path) -> None:
    for package in ("ai_edge_litert", "flatbuffers"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    from rivals.exchange import exchange_graph
    from rivals.tflite.model import tflite_model

    graph = exchange_graph(write_network(name, tmp_path))
    data = tflite_model(graph)
    found = read(tmp_path, data)
    random = np.random.default_rng(1)
    inputs = {i: random.random(graph.types[i].shape, np.float32) for i in graph.inputs}
    given = dict(zip(found.inputs, inputs.values(), strict=False))
    given |= {s.input: np.zeros(found.types[s.input].shape, np.float32) for s in found.states}
    for y, expected in zip(
        evaluate(found, given).values(), evaluate(graph, inputs).values(), strict=not found.states
    ):
        assert np.abs(y - expected.reshape(y.shape)).max() <= 1e-12 * np.abs(expected).max()
    (lite, *_) = by_litert(data, dict(zip(graph.inputs, inputs.values(), strict=True)))
    (own, *_) = evaluate(found, given).values()
    assert np.abs(own - lite).max() <= 1e-5 * np.abs(lite).max()


def test_code_computes_the_same(tmp_path: Path) -> None:
    need_program("gcc")
    file = tmp_path / "net.tflite"
    file.write_bytes(tflite_file(dense))
    x = np.array([[1, 2, 3]], np.float32)
    assert np.array_equal(cannery.load(file)(x), [[8, 26]])


def test_names_are_those_of_the_signature(tmp_path: Path) -> None:
    file = TfliteFile()
    file.main.outputs = list(dense(file.main))
    graph = read(tmp_path, file.data())
    assert graph.inputs == ("serving_default_x:0",)
    assert graph.outputs == ("StatefulPartitionedCall:0",)
    file.signature = ({"x": file.main.inputs[0]}, {"y": file.main.outputs[0]})
    graph = read(tmp_path, file.data())
    assert (graph.inputs, graph.outputs) == (("x",), ("y",))
    assert graph.metadata["format"] == "TensorFlow Lite"


def test_outputs_may_be_others(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        x = g.input((1, 3))
        y = g.add("RELU", [x], g.tensor((1, 3), name="inner"))
        return [g.add("TANH", [y], g.tensor((1, 3), name="outer"))]

    data = tflite_file(fill)
    graph = read(tmp_path, data, ImportOptions(outputs=("inner",)))
    assert graph.outputs == ("inner",)
    assert len(graph.nodes) == 1
    with pytest.raises(OptionError, match="did you mean 'inner'"):
        read(tmp_path, data, ImportOptions(outputs=("iner",)))


def test_an_open_batch_is_the_option(tmp_path: Path) -> None:
    data = tflite_file(dense)
    assert read(tmp_path, data).types["serving_default_x:0"].shape == (1, 3)
    graph = read(tmp_path, data, ImportOptions(batch=4))
    assert graph.types[graph.outputs[0]].shape == (4, 2)


def test_other_open_dimensions_are_named(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        x = g.input((1, 1, 3), signature=(-1, -1, 3))
        return [g.add("RELU", [x], g.tensor((1, 1, 3), signature=(-1, -1, 3)))]

    data = tflite_file(fill)
    with pytest.raises(UnsupportedError, match=r"dimension 1 is open.*--dim x0\.1=n"):
        read(tmp_path, data)
    graph = read(tmp_path, data, ImportOptions(dims={"x0.1": 7}))
    assert graph.types[graph.outputs[0]].shape == (1, 7, 3)


def test_shapes_that_the_network_computes_are_known(tmp_path: Path) -> None:
    """As converters flatten: SHAPE, STRIDED_SLICE, PACK, RESHAPE."""

    def fill(g: File) -> Sequence[int]:
        x = g.input((1, 2, 3), signature=(-1, 2, 3))
        shape = g.add("SHAPE", [x], g.tensor((3,), "INT32"), options="ShapeOptions", OutType=2)
        bounds = [g.constant(np.array([v], np.int32)) for v in (0, 1, 1)]
        batch = g.add(
            "STRIDED_SLICE", [shape, *bounds], g.tensor((), "INT32"),
            options="StridedSliceOptions", ShrinkAxisMask=1,
        )  # fmt: skip
        six = g.constant(np.int32(6).reshape(()))
        both = g.tensor((2,), "INT32")
        g.add("PACK", [batch, six], both, options="PackOptions", ValuesCount=2)
        y = g.tensor((1, 6), signature=(-1, 6))
        return [g.add("RESHAPE", [x, both], y, options="ReshapeOptions")]

    graph = read(tmp_path, tflite_file(fill), ImportOptions(batch=5))
    assert [n.op.kind for n in graph.nodes] == ["Reshape"]
    assert graph.types[graph.outputs[0]].shape == (5, 6)


def test_ranges_and_ranks_are_constants(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        x = g.input((1, 3))
        rank = g.add("RANK", [x], g.tensor((), "INT32"), options="RankOptions")
        parts = [g.constant(np.int32(v).reshape(())) for v in (0, 1)]
        places = g.tensor((2,), "INT32")
        g.add("RANGE", [parts[0], rank, parts[1]], places, options="RangeOptions")
        y = g.tensor((1, 2))
        return [g.add("GATHER", [x, places], y, options="GatherOptions", Axis=1)]

    graph = read(tmp_path, tflite_file(fill))
    x = np.array([[5, 6, 7]], np.float32)
    assert np.array_equal(*evaluate(graph, {"x0": x}).values(), [[5, 6]])


def test_every_operator_that_is_not_supported_is_named(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        x = g.input((1, 3))
        y = g.add("RELU", [x], g.tensor((1, 3)))
        y = g.add("Acme_PostProcess", [y], g.tensor((1, 3), name="boxes"))
        z = g.add("RELU", [y], g.tensor((1, 3)))
        return [g.add("HASHTABLE_FIND", [z], g.tensor((1, 3), name="found"))]

    with pytest.raises(UnsupportedError) as caught:
        read(tmp_path, tflite_file(fill))
    text = str(caught.value)
    assert "2 layers are not supported" in text
    assert "layer 'boxes' (CUSTOM Acme_PostProcess, operator 1)" in text
    assert "layer 'found' (HASHTABLE_FIND, operator 3)" in text
    assert "python -m tf2onnx.convert --tflite" in text


def test_an_option_that_nothing_reads_is_an_error(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        x, w = g.input((1, 3)), g.constant(np.ones((2, 3), np.float32))
        y = g.tensor((1, 2))
        more = {"WeightsFormat": 1}
        return [g.add("FULLY_CONNECTED", [x, w], y, options="FullyConnectedOptions", **more)]

    with pytest.raises(UnsupportedError, match="shuffled weights"):
        read(tmp_path, tflite_file(fill))


def test_a_shape_that_is_not_the_declared_one_is_an_error(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        return [g.add("RELU", [g.input((1, 3))], g.tensor((1, 4)))]

    with pytest.raises(ModelError, match=r"computes the shape \(1, 3\), but 't1' has \(1, 4\)"):
        read(tmp_path, tflite_file(fill))


def test_constants_are_as_large_as_their_shapes(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        x, w = g.input((1, 3)), g.constant(np.ones((2, 3), np.float32), shape=(4, 3))
        y = g.tensor((1, 4))
        return [g.add("FULLY_CONNECTED", [x, w], y, options="FullyConnectedOptions")]

    with pytest.raises(ModelError, match="has 6 elements, but its shape is"):
        read(tmp_path, tflite_file(fill))


def test_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tflite", None)
    with pytest.raises(CanneryError, match=r"pip install 'cannery\[tflite\]'"):
        read(tmp_path, tflite_file(dense))


@pytest.mark.parametrize("size", [8, 20, 100, 400])
def test_a_file_that_ends_early_is_damaged(size: int, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="damaged TensorFlow Lite file: it is cut off"):
        read(tmp_path, tflite_file(dense)[:size])


def test_damage_is_one_error(tmp_path: Path) -> None:
    """Bytes and offsets with other values: an error that is a CanneryError, or a sound network."""
    data, refused = tflite_file(dense), 0
    for seed in range(400):
        random, changed = Random(seed), bytearray(data)
        for _ in range(random.choice([1, 1, 4])):
            at = random.randrange(8, len(changed) - 4)
            if random.random() < 0.5:
                changed[at] = random.randrange(256)
            else:
                value = random.choice([0, 1, 2**31, 2**32 - 1, len(data), len(data) - 4, 0xFFF0])
                struct.pack_into("<I", changed, at // 4 * 4, value)
        try:
            read(tmp_path, bytes(changed))
        except CanneryError as error:
            refused += 1
            assert len(str(error)) < 1000
    assert refused > 100
