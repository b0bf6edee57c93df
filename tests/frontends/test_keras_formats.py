"""Containers and structures: both file formats, all ways to connect layers, order of weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import ModelError
from cannery.frontends import ImportOptions, load_graph
from cannery.frontends.keras import hdf5
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from frontends.keras_files import (
    LayerSpec,
    Model,
    chain,
    config_of,
    image,
    layer,
    write_h5,
    write_keras,
)

F64 = NDArray[np.float64]

#: Every kind of file: how it is written, and by which version of Keras.
FILES = [
    pytest.param(write_h5, "2.2.4", id="h5-2.2"),
    pytest.param(write_h5, "2.15.0", id="h5-2.15"),
    pytest.param(write_h5, "3.4.1", id="h5-3"),
    pytest.param(write_keras, "2.15.0", id="keras-2.15"),
    pytest.param(write_keras, "3.8.0", id="keras-3"),
]
Write = Callable[..., Path]


def numbers(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def dense(name: str, seed: int, rows: int, columns: int, *calls: Any, **config: Any) -> LayerSpec:
    weights = {"kernel": numbers(seed, rows, columns), "bias": numbers(seed + 1, columns)}
    return LayerSpec("Dense", name, calls, {"units": columns, **config}, weights)


def norm(name: str, seed: int, size: int, *calls: Any, trainable: bool = True) -> LayerSpec:
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    weights = {n: np.abs(numbers(seed + i, size)) for i, n in enumerate(names)}
    return LayerSpec("BatchNormalization", name, calls, {"axis": -1}, weights, trainable=trainable)


def affine(spec: LayerSpec, x: Any) -> F64:
    """What `dense` computes."""
    return np.asarray(x, np.float64) @ spec.weights["kernel"].astype(float) + spec.weights["bias"]


def normed(spec: LayerSpec, x: Any) -> F64:
    """What `norm` computes."""
    w = {k: v.astype(float) for k, v in spec.weights.items()}
    scale = w["gamma"] / np.sqrt(w["moving_variance"] + 1e-3)
    return np.asarray((x - w["moving_mean"]) * scale + w["beta"])


def run(graph: Graph, *inputs: NDArray[Any]) -> list[Any]:
    return list(evaluate(graph, dict(zip(graph.inputs, inputs, strict=True))).values())


def names(graph: Graph) -> list[str]:
    return [node.name for node in graph.nodes]


@pytest.mark.parametrize(("write", "version"), FILES)
def test_chain_of_layers(write: Write, version: str, tmp_path: Path) -> None:
    first, second = dense("hidden", 1, 3, 5, activation="relu"), dense("scores", 3, 5, 2)
    model = chain(image("x", 3), first, norm("norm", 5, 5), second)
    graph = load_graph(write(tmp_path / "model", model, version))
    x = numbers(9, 1, 3)
    expected = affine(second, normed(model.layers[2], np.maximum(affine(first, x), 0)))
    np.testing.assert_allclose(run(graph, x)[0], expected, rtol=1e-12)
    assert names(graph) == ["hidden", "hidden/relu", "norm", "scores"]
    assert (graph.inputs, graph.outputs) == (("x",), ("scores",))


@pytest.mark.parametrize(("write", "version"), FILES)
def test_sequential_without_an_input_layer(write: Write, version: str, tmp_path: Path) -> None:
    key = "batch_shape" if version.startswith("3") else "batch_input_shape"
    first, second = dense("a", 1, 3, 4, **{key: [None, 3]}), dense("b", 3, 4, 2)
    graph = load_graph(write(tmp_path / "model", Model("net", [first, second]), version))
    x = numbers(9, 1, 3)
    np.testing.assert_allclose(run(graph, x)[0], affine(second, affine(first, x)), rtol=1e-12)
    assert graph.inputs == ("a_input",)


@pytest.mark.parametrize(("write", "version"), FILES)
def test_branches_and_several_outputs(write: Write, version: str, tmp_path: Path) -> None:
    left, right = dense("left", 1, 3, 4, ["x"]), dense("right", 3, 2, 4, ["y"])
    added = LayerSpec("Add", "sum", [["left", "right"]])
    if version.startswith("3"):
        added = LayerSpec("Add", "sum", [[["left", "right"]]])
    layers = [image("x", 3), image("y", 2), right, left, added]
    model = Model("net", layers, ["y", "x"], ["sum", "left"])
    graph = load_graph(write(tmp_path / "model", model, version))
    x, y = numbers(7, 1, 3), numbers(8, 1, 2)
    total, part = run(graph, y, x)
    np.testing.assert_allclose(total, affine(left, x) + affine(right, y), rtol=1e-12)
    np.testing.assert_allclose(part, affine(left, x), rtol=1e-12)
    assert (graph.inputs, graph.outputs) == (("y", "x"), ("sum", "left"))


def _inner(offset: int) -> tuple[LayerSpec, list[LayerSpec]]:
    """A nested model with state between weights, and one frozen layer; called twice."""
    layers = [
        image("inner_x", 4),
        dense("one", 11, 4, 4, ["inner_x"]),
        norm("norm_one", 13, 4, ["one"]),
        norm("norm_two", 17, 4, ["norm_one"], trainable=False),
        dense("two", 21, 4, 4, ["norm_two"], activation="tanh"),
    ]
    inner = Model("inner", layers, ["inner_x"], ["norm_one", "two"])
    spec = LayerSpec("Functional", "inner", [["x"], [("inner", offset, 1)]], model=inner)
    return spec, layers


def _inner_twice(layers: Sequence[LayerSpec], x: Any) -> tuple[F64, F64]:
    def once(value: Any) -> tuple[F64, F64]:
        first = normed(layers[2], affine(layers[1], value))
        return first, np.tanh(affine(layers[4], normed(layers[3], first)))

    return once(once(x)[1])


@pytest.mark.parametrize(("write", "version"), FILES)
def test_nested_model_called_twice(write: Write, version: str, tmp_path: Path) -> None:
    offset = 0 if version.startswith("3") else 1  # Keras 2 counts calls of models from 1
    spec, layers = _inner(offset)
    final = [("inner", offset + 1, 0), ("inner", offset + 1, 1)]
    model = Model("net", [image("x", 4), spec], ["x"], final)
    graph = load_graph(write(tmp_path / "model", model, version))
    x = numbers(9, 1, 4)
    for result, expected in zip(run(graph, x), _inner_twice(layers, x), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-10)
    assert names(graph)[:4] == ["inner/one", "inner/norm_one", "inner/norm_two", "inner/two"]
    assert "inner.1/two/tanh" in names(graph)
    assert graph.outputs == ("inner", "inner.1")
    assert len(graph.constants) == 2 * 2 + 2 * 4  # applied twice, stored once


@pytest.mark.parametrize(("write", "version"), FILES)
def test_shared_layer(write: Write, version: str, tmp_path: Path) -> None:
    shared = dense("shared", 1, 3, 3, ["x"], [("shared", 0, 0)])
    model = Model("net", [image("x", 3), shared], ["x"], [("shared", 1, 0)])
    graph = load_graph(write(tmp_path / "model", model, version))
    x = numbers(9, 1, 3)
    np.testing.assert_allclose(run(graph, x)[0], affine(shared, affine(shared, x)), rtol=1e-12)
    assert names(graph) == ["shared", "shared.1"]
    assert set(graph.constants) == {"shared/kernel", "shared/bias"}


@pytest.mark.parametrize(("write", "version"), FILES)
def test_sequential_within_functional(write: Write, version: str, tmp_path: Path) -> None:
    inner = [dense("a", 1, 3, 4), norm("n", 4, 4)]
    nested = LayerSpec("Sequential", "body", [["x"]], model=Model("body", inner))
    model = Model("net", [image("x", 3), nested], ["x"], ["body"])
    graph = load_graph(write(tmp_path / "model", model, version))
    x = numbers(9, 1, 3)
    np.testing.assert_allclose(run(graph, x)[0], normed(inner[1], affine(inner[0], x)), rtol=1e-12)
    assert graph.outputs == ("body",)


@pytest.mark.parametrize("version", ["2.15.0", "3.4.1"])
def test_any_class_name_of_the_model(version: str, tmp_path: Path) -> None:
    head = dense("head", 1, 3, 2, ["x"])
    model = Model("net", [image("x", 3), head], ["x"], ["head"], class_name="MyClassifier")
    x = numbers(9, 1, 3)
    for write in (write_h5, write_keras):
        graph = load_graph(write(tmp_path / "model", model, version))
        np.testing.assert_allclose(run(graph, x)[0], affine(head, x), rtol=1e-12)


def test_inputs_and_outputs_by_name(tmp_path: Path) -> None:
    inner = Model(
        "inner",
        [image("p", 2), image("q", 3), dense("dp", 1, 2, 2, ["p"]), dense("dq", 3, 3, 2, ["q"])],
        {"b": "p", "a": "q"},
        {"second": "dp", "first": "dq"},
    )
    spec = LayerSpec("Functional", "inner", (), model=inner)
    model = Model("net", [image("x", 2), image("y", 3), spec], ["x", "y"], [("inner", 0, 0)])
    config = config_of(model, "3.8.0", archive=True)
    tensors = {
        key: {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}
        for key, name in (("b", "x"), ("a", "y"))
    }
    config["config"]["layers"][2]["inbound_nodes"] = [{"args": [tensors], "kwargs": {}}]
    path = write_keras(tmp_path / "model", model, config=json.dumps(config).encode())
    x, y = numbers(7, 1, 2), numbers(8, 1, 3)
    np.testing.assert_allclose(  # output 0 is `first`: names are sorted
        run(load_graph(path), x, y)[0], affine(inner.layers[3], y), rtol=1e-12
    )


def test_long_lists_of_weights_are_cut_into_chunks(tmp_path: Path) -> None:
    layers = [dense(f"d{i}", i, 3, 3) for i in range(4)]
    nested = LayerSpec("Sequential", "body", [["x"]], model=Model("body", layers))
    path = write_h5(tmp_path / "m", Model("net", [image("x", 3), nested], ["x"], ["body"]))
    with h5py.File(path, "a") as file:
        attributes = file["model_weights/body"].attrs
        stored = attributes["weight_names"]
        del attributes["weight_names"]
        attributes["weight_names0"], attributes["weight_names1"] = stored[:3], stored[3:]
    x: Any = numbers(9, 1, 3)
    result = run(load_graph(path), x)[0]
    for spec in layers:
        x = affine(spec, x)
    np.testing.assert_allclose(result, x, rtol=1e-12)


def test_weights_go_by_order_where_names_are_stale(tmp_path: Path) -> None:
    first, second = dense("a", 1, 3, 3), dense("b", 3, 3, 3)
    nested = LayerSpec("Sequential", "body", [["x"]], model=Model("body", [first, second]))
    path = write_h5(tmp_path / "m", Model("net", [image("x", 3), nested], ["x"], ["body"]))
    with h5py.File(path, "a") as file:
        group = file["model_weights/body"]
        group["old"] = group["a"]
        del group["a"]
        group.attrs["weight_names"] = [n.replace("a/", "old/") for n in group.attrs["weight_names"]]
    x = numbers(9, 1, 3)
    np.testing.assert_allclose(
        run(load_graph(path), x)[0], affine(second, affine(first, x)), rtol=1e-12
    )


def test_weights_in_another_order_are_found_by_name(tmp_path: Path) -> None:
    spec = dense("a", 1, 3, 2, ["x"])
    path = write_h5(tmp_path / "m", Model("net", [image("x", 3), spec], ["x"], ["a"]))
    with h5py.File(path, "a") as file:
        attributes = file["model_weights/a"].attrs
        attributes["weight_names"] = attributes["weight_names"][::-1]
    x = numbers(9, 1, 3)
    np.testing.assert_allclose(run(load_graph(path), x)[0], affine(spec, x), rtol=1e-12)


def test_early_archives_number_groups_with_gaps(tmp_path: Path) -> None:
    first, second = dense("a", 1, 3, 3), dense("b", 3, 3, 3)
    path = write_keras(tmp_path / "m", chain(image("x", 3), first, second), "2.12.0")
    weights = tmp_path / "w"
    with h5py.File(weights, "w") as file:
        for group, spec in (("dense", first), ("dense_2", second)):
            for i, value in enumerate(spec.weights.values()):
                file[f"_layer_checkpoint_dependencies/{group}/vars/{i}"] = value
        file.create_group("_layer_checkpoint_dependencies/input_layer/vars")
    model = chain(image("x", 3), first, second)
    path = write_keras(tmp_path / "m", model, "2.12.0", weights=weights.read_bytes())
    x = numbers(9, 1, 3)
    np.testing.assert_allclose(
        run(load_graph(path), x)[0], affine(second, affine(first, x)), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_weights_of_other_precision(dtype: str, tmp_path: Path) -> None:
    weights = {"kernel": numbers(1, 3, 2).astype(dtype), "bias": numbers(2, 2).astype(dtype)}
    spec = LayerSpec("Dense", "d", (), {"units": 2, "dtype": "mixed_float16"}, weights)
    graph = load_graph(write_h5(tmp_path / "m", chain(image("x", 3), spec)))
    assert {array.dtype for array in graph.constants.values()} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(graph.constants["d/kernel"], weights["kernel"].astype("f4"))
    assert graph.notes == ("layers with the dtype policy mixed_float16 are computed in float32",)


def test_layers_of_16_bits_are_named_once(tmp_path: Path) -> None:
    policies = ["float32", "mixed_bfloat16", "float16", "float16"]
    layers = [dense(f"d{k}", k, 3, 3, dtype=policy) for k, policy in enumerate(policies)]
    graph = load_graph(write_h5(tmp_path / "m", chain(image("x", 3), *layers)))
    (note,) = graph.notes
    assert "policy float16, mixed_bfloat16 are" in note
    assert not load_graph(write_h5(tmp_path / "m", chain(image("x", 3), layers[0]))).notes


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_model_of_another_precision(dtype: str, tmp_path: Path) -> None:
    model = chain(image("x", 3, dtype=dtype), dense("d", 0, 3, 2, dtype=dtype))
    graph = load_graph(write_keras(tmp_path / "m", model))
    assert {graph.types[name].dtype for name in ("x", *graph.outputs)} == {DType.FLOAT32}
    assert graph.notes == (f"layers with the dtype policy {dtype} are computed in float32",)


def test_bfloat16_weights(tmp_path: Path) -> None:
    kernel = np.array([[1.5, -2.0]], np.float32)  # exact in bfloat16
    spec = LayerSpec("Dense", "d", (), {"units": 2, "use_bias": False}, {"kernel": kernel})
    path = write_keras(tmp_path / "m", chain(image("x", 1), spec))
    weights = tmp_path / "w"
    with h5py.File(weights, "w") as file:
        halves = (kernel.view(np.uint32) >> 16).astype("<u2")
        data = file.create_dataset("layers/dense/vars/0", data=halves.view("V2"))
        data.attrs["dtype"] = "bfloat16"
    model = chain(image("x", 1), spec)
    graph = load_graph(write_keras(path, model, weights=weights.read_bytes()))
    np.testing.assert_array_equal(graph.constants["d/kernel"], kernel)


def test_bfloat16_weights_in_h5(tmp_path: Path) -> None:
    """They are 2 opaque bytes there, and nothing says what of."""
    kernel = np.array([[1.5, -2.0]], np.float32)
    spec = LayerSpec("Dense", "d", (), {"units": 2, "use_bias": False}, {"kernel": kernel})
    path = write_h5(tmp_path / "m", chain(image("x", 1), spec))
    halves = (kernel.view(np.uint32) >> 16).astype("<u2").view("V2")
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(lambda name: names.append(name) if name.endswith("kernel:0") else None)
        group, _, name = names[0].rpartition("/")
        del file[group][name]
        file[group].create_dataset(name, data=halves)
    np.testing.assert_array_equal(load_graph(path).constants["d/kernel"], kernel)


def test_the_oldest_forms_of_texts_and_of_chains(tmp_path: Path) -> None:
    first, second = dense("a", 1, 3, 4, batch_input_shape=[None, 3]), dense("b", 3, 4, 2)
    model = Model("net", [first, second])
    config = config_of(model, "2.2.4")
    config["config"] = config["config"]["layers"]  # without a name
    path = write_h5(
        tmp_path / "m",
        model,
        model_config=np.bytes_(json.dumps(config).encode()),
        keras_version=np.bytes_(b"2.2.4"),
        backend=np.bytes_(b"tensorflow"),
    )
    x = numbers(9, 1, 3)
    expected = affine(second, affine(first, x))
    np.testing.assert_allclose(run(load_graph(path), x)[0], expected, rtol=1e-12)


def test_tuples_that_are_marked_as_such(tmp_path: Path) -> None:
    target = {"class_name": "__tuple__", "items": [2, -1]}
    spec = LayerSpec("Reshape", "r", (), {"target_shape": target})
    assert load_graph(write_h5(tmp_path / "m", chain(image("x", 6), spec))).types["r"].shape == (
        1, 2, 3,
    )  # fmt: skip


def test_format_is_recognised_by_content(tmp_path: Path) -> None:
    model = chain(image("x", 3), dense("d", 1, 3, 2))
    assert load_graph(write_h5(tmp_path / "model.onnx", model)).outputs == ("d",)
    assert load_graph(write_keras(tmp_path / "model.h5", model)).outputs == ("d",)


def test_a_fixed_batch_becomes_one_unless_told(tmp_path: Path) -> None:
    x = LayerSpec("InputLayer", "x", (), {"shape": [16, 3], "dtype": "float32"})
    path = write_h5(tmp_path / "m", chain(x, dense("d", 1, 3, 2)))
    assert load_graph(path).types["x"].shape == (1, 3)
    assert load_graph(path, ImportOptions(batch=5)).types["d"].shape == (5, 2)


def test_a_cycle_is_an_error(tmp_path: Path) -> None:
    model = Model(
        "net",
        [image("x", 3), layer("ReLU", "a", "b"), layer("ReLU", "b", "a")],
        ["x"],
        ["b"],
    )
    with pytest.raises(ModelError, match="in a circle"):
        load_graph(write_h5(tmp_path / "m", model))


def test_what_is_trainable_is_stored_first() -> None:
    """Each kind in the order in which Keras made it: only that distinguishes weights with equal
    names.
    """
    made = [
        hdf5._Variable(("net", name), "kernel", trainable)
        for name, trainable in (("a", False), ("b", True), ("c", False), ("d", True))
    ]
    order = [variable.path[-1] for variable in hdf5._stored_order(made)]
    assert order == ["b", "d", "a", "c"]
