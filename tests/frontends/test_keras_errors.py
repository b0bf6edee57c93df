"""Files that are not models, unsupported layers, malformed configurations: one clear error each."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends import load_graph
from cannery.frontends.unsupported import UnsupportedLayersError
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


def numbers(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def dense(name: str = "d", **config: Any) -> LayerSpec:
    weights = {"kernel": numbers(3, 2), "bias": numbers(2)}
    return LayerSpec("Dense", name, (), {"units": 2, **config}, weights)


def error_of(path: Path) -> CanneryError:
    """The error that loading raises; it names the file."""
    with pytest.raises(CanneryError) as caught:
        load_graph(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def single(folder: Path, spec: LayerSpec, *shape: int, version: str = "2.15.0") -> Path:
    return write_h5(folder / "m.h5", chain(image("x", *shape), spec), version)


# Files that are not models


def test_missing_file(tmp_path: Path) -> None:
    assert str(error_of(tmp_path / "nothing.h5")).endswith(
        "No such file or directory (check the path and its permissions)"
    )


@pytest.mark.parametrize(
    "spec",
    [
        layer("Cropping2D", "c", cropping=[[3, 3], [0, 0]]),
        layer("MaxPooling2D", "p", pool_size=[9, 9], strides=[1, 1], padding="valid"),
        layer("Reshape", "r", target_shape=[7, 5]),
        layer("Reshape", "s", target_shape=[-1, -1]),
    ],
)
def test_layers_that_do_not_fit_their_input_come_with_a_cure(
    tmp_path: Path, spec: LayerSpec
) -> None:
    assert "save" in error_of(single(tmp_path, spec, 6, 6, 2)).cure


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    path.touch()
    assert "empty" in str(error_of(path))


def test_folder_and_saved_model(tmp_path: Path) -> None:
    assert "a folder" in str(error_of(tmp_path))
    (tmp_path / "saved_model.pb").touch()
    assert "save the Keras model as .keras or .h5" in str(error_of(tmp_path))


def test_something_else(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    path.write_bytes(b"\x89PNG not a model")
    assert "Cannery reads: Keras HDF5 (.h5)" in str(error_of(path))


def test_git_lfs_pointer(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    assert "git lfs pull" in str(error_of(path))


def test_weights_only(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "m.h5", chain(image("x", 3), dense()), model_config=None)
    assert "model.save(...)" in str(error_of(path))


def test_zip_that_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "not a Keras archive" in str(error_of(path))


# Versions


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "which version"),
        ("soon", "which version"),
        ("1.2.2", "Keras 1"),
        ("4.0.0", "Keras 4"),
    ],
)
def test_versions(version: str | None, message: str, tmp_path: Path) -> None:
    model = chain(image("x", 3), dense())
    assert message in str(error_of(write_h5(tmp_path / "m", model, keras_version=version)))


def test_weights_of_theano(tmp_path: Path) -> None:
    path = write_h5(tmp_path / "m", chain(image("x", 3), dense()), backend="theano")
    assert "layout of theano" in str(error_of(path))


# Layers that are not supported


def test_all_unsupported_layers_at_once(tmp_path: Path) -> None:
    inner = Model(
        "inner", [image("p", 3), layer("HashedCrossing", "deep", "p", units=3)], ["p"], ["deep"]
    )
    layers = [
        image("x", 3),
        layer("Lambda", "code", "x", function=["4wEAAAAA", None, None]),
        LayerSpec("Functional", "inner", [["code"]], model=inner),
        layer("Dense", "d", ("inner", 1, 0), units=2, activation="my_function"),
        layer("UpSampling2D", "up", "d", size=[2, 2], interpolation="area"),
        layer("ReLU", "fine", "up"),
    ]
    error = error_of(write_h5(tmp_path / "m", Model("net", layers, ["x"], ["fine"])))
    assert isinstance(error, UnsupportedLayersError)
    assert [(p.layer, p.class_name) for p in error.problems] == [
        ("code", "Lambda"), ("inner/deep", "HashedCrossing"), ("d", "Dense"),
        ("up", "UpSampling2D"),
    ]  # fmt: skip
    text = str(error)
    assert "4 layers are not supported" in text
    assert "do it before the network" in text
    assert "never executed" in text
    assert "'my_function'" in text
    assert "area" in text


def test_nothing_of_a_lambda_is_executed(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    spec = layer(
        "Lambda", "l", "x", function={"class_name": "__lambda__", "config": {"code": code}}
    )
    error_of(write_keras(tmp_path / "m", Model("net", [image("x", 3), spec], ["x"], ["l"])))
    assert not marker.exists()


def test_custom_layers_by_package_and_registration(tmp_path: Path) -> None:
    model = chain(image("x", 3), dense())
    for change in ({"module": "my.layers"}, {"registered_name": "Mine>Dense"}):
        config = config_of(model, "3.8.0", archive=True)
        config["config"]["layers"][1] |= change
        path = write_keras(tmp_path / "m", model, config=json.dumps(config).encode())
        assert "'d' (Dense): a custom layer" in str(error_of(path))


def test_operations_that_look_like_layers(tmp_path: Path) -> None:
    config = config_of(chain(image("x", 3), LayerSpec("Nonzero", "some")), "3.4.1")
    config["config"]["layers"][1]["config"] = {"name": "some"}
    model = chain(image("x", 3))
    path = write_h5(tmp_path / "m", model, "3.4.1", model_config=json.dumps(config))
    assert "'some' (Nonzero): this function of keras.ops is not supported" in str(error_of(path))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (layer("Dense", "d", units=2, lora_rank=4), "lora_rank=4 is unknown"),
        (layer("Dense", "d", units=2, dtype={"class_name": "QuantizedDTypePolicy"}), "Quantized"),
        (layer("Conv2D", "d", filters=1, kernel_size=[1, 1], padding="reflect"), "'reflect'"),
        (layer("Activation", "d", activation={"class_name": "Mine", "config": {}}), "'Mine'"),
        (layer("UpSampling2D", "d", interpolation="bilinear"), "version of TensorFlow"),
    ],
)
def test_attributes_that_are_not_supported(spec: LayerSpec, message: str, tmp_path: Path) -> None:
    error = error_of(single(tmp_path, spec, 4, 4, 3, version="2.2.4-tf"))
    assert isinstance(error, UnsupportedError)
    assert message in str(error)
    assert "'d'" in str(error)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("dtype", "complex64"), ("dtype", "string"), ("sparse", True), ("ragged", True)],
)
def test_inputs_that_are_not_supported(attribute: str, value: Any, tmp_path: Path) -> None:
    path = write_h5(tmp_path / "m", chain(image("x", 3, **{attribute: value}), dense()))
    assert "'x' (InputLayer)" in str(error_of(path))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [({"training": True}, "training"), ({"mask": ["m", 0, 0]}, "mask"), ({"y": 2.0}, "argument y")],
)
@pytest.mark.parametrize("version", ["2.15.0", "3.4.1"])
def test_calls_with_arguments(kwargs: Any, message: str, version: str, tmp_path: Path) -> None:
    model = chain(image("x", 3), LayerSpec("ReLU", "r"))
    config = config_of(model, version)
    (node,) = config["config"]["layers"][1]["inbound_nodes"]
    if version.startswith("3"):
        node["kwargs"] = kwargs
    else:
        node[0] = ["x", 0, 0, kwargs]
    path = write_h5(tmp_path / "m", model, version, model_config=json.dumps(config))
    assert message in str(error_of(path))


def test_working_along_the_batch(tmp_path: Path) -> None:
    spec = LayerSpec("Softmax", "s", (), {"axis": 0})
    assert "'s' (Softmax): it works along the batch" in str(error_of(single(tmp_path, spec, 3)))


# Configurations that are damaged


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (layer("Dense", "d"), "units is missing"),
        (layer("Dense", "d", units="many"), "units is 'many', expected a whole number"),
        (layer("Dense", "d", units=0), "units is 0"),
        (layer("Dense", "d", units=True), "units is True"),
        (layer("Dense", "d", units=2**40), "units is 1099511627776"),
        (layer("Dense", "d", units=2.5), "units is 2.5"),
        (layer("Conv1D", "d", filters=1, kernel_size=[1, 2, 3]), "kernel_size is"),
        (layer("Conv1D", "d", filters=1, kernel_size=[-1]), "kernel_size is"),
        (layer("LeakyReLU", "d", alpha=float("nan")), "alpha is nan"),
        (layer("Permute", "d", dims=[1, 3]), "not a permutation"),
        (layer("Reshape", "d", target_shape=[-1, -1]), "several -1"),
        (layer("ZeroPadding1D", "d", padding=[1, -2]), "padding [1, -2] is malformed"),
        (layer("Dropout", "d", "x", activation=3, rate=0.5), "activation=3 is unknown"),
        (layer("Rescaling", "d", scale=[[1], [2, 3]], offset=0), "scale is"),
    ],
)
def test_malformed_attributes(spec: LayerSpec, message: str, tmp_path: Path) -> None:
    text = str(error_of(single(tmp_path, spec, 4, 3)))
    assert message in text
    assert "layer 'd'" in text


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (layer("Reshape", "d", target_shape=[5, -1]), "does not fit its input (1, 4, 3)"),
        (layer("Concatenate", "d", axis=7), "axis 7 is outside"),
        (layer("Cropping1D", "d", cropping=[2, 2]), "leaves nothing"),
        (layer("Conv2D", "d", filters=1, kernel_size=[1, 1]), "expected 2 spatial axes"),
        (layer("MaxPooling1D", "d", pool_size=[9], strides=None), "MaxPool"),
        (layer("RepeatVector", "d", n=3), "expected one vector"),
        (layer("UpSampling1D", "d", size=2**30), "more than 2^31-1 elements"),
        (layer("Conv1D", "d", filters=4, kernel_size=[1], groups=2), "2 groups do not divide"),
    ],
)
def test_layers_that_do_not_fit_their_input(spec: LayerSpec, message: str, tmp_path: Path) -> None:
    text = str(error_of(single(tmp_path, spec, 4, 3)))
    assert message in text
    assert "layer 'd'" in text


def test_references_to_nothing(tmp_path: Path) -> None:
    for inputs, outputs, message in (
        (["x"], [("d", 3, 0)], "call 3 of 'd'"),
        (["x"], ["nobody"], "'nobody', which is missing"),
        (["d"], ["d"], "not an InputLayer"),
        (["x"], [("d", 0, 5)], "reads output 5"),
        (["x", "x"], ["d"], "same input twice"),
    ):
        layers = [image("x", 3), LayerSpec("ReLU", "d", [["x"]])]
        path = write_h5(tmp_path / "m", Model("net", layers, inputs, outputs))
        assert message in str(error_of(path))


def test_shapes_that_keras_inferred_otherwise(tmp_path: Path) -> None:
    config = config_of(chain(image("x", 3), dense(), LayerSpec("ReLU", "r")), "3.4.1")
    (node,) = config["config"]["layers"][2]["inbound_nodes"]
    for shape, fits in (([None, 2], True), ([7, None], True), ([None, 3], False), ([2], False)):
        node["args"][0]["config"]["shape"] = shape
        path = write_h5(
            tmp_path / "m", chain(image("x", 3), dense()), "3.4.1", model_config=json.dumps(config)
        )
        if fits:
            assert load_graph(path).outputs == ("r",)
        else:
            assert "'d' has shape (1, 2), but Keras computed" in str(error_of(path))


def test_layers_of_the_same_name(tmp_path: Path) -> None:
    config = config_of(
        chain(image("x", 3), LayerSpec("ReLU", "a"), LayerSpec("ReLU", "b")), "2.15.0"
    )
    config["config"]["layers"][2]["name"] = "a"
    path = write_h5(tmp_path / "m", chain(image("x", 3)), model_config=json.dumps(config))
    assert "two layers have this name" in str(error_of(path))


@pytest.mark.parametrize(
    "config",
    [
        "", "{", "[]", "3", '{"class_name": "Model"}', '{"class_name": "Model", "config": 3}',
        '{"class_name": "Sequential", "config": {"name": "n", "layers": []}}',
        '{"class_name": "Sequential", "config": {"name": "n", "layers": [3]}}',
        '{"class_name": "Sequential", "config": {"name": "n", "layers": [{"class_name": 3}]}}',
        '{"class_name": "Model", "config": {"name": "n", "layers": [], "input_layers": [], '
        '"output_layers": []}}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_configurations_that_are_none(config: str, tmp_path: Path) -> None:
    model = chain(image("x", 3))
    assert isinstance(error_of(write_h5(tmp_path / "m", model, model_config=config)), ModelError)
    path = write_keras(tmp_path / "m", model, config=config.encode())
    assert isinstance(error_of(path), ModelError)


def test_models_nested_too_deeply(tmp_path: Path) -> None:
    spec = dense()
    for i in range(40):
        spec = LayerSpec("Sequential", f"m{i}", model=Model(f"m{i}", [spec]))
    assert "nested too deeply" in str(error_of(write_h5(tmp_path / "m", Model("net", [spec]))))


def test_shared_models_that_multiply(tmp_path: Path) -> None:
    inner = Model("m0", [image("x", 3), LayerSpec("ReLU", "r", [["x"]])], ["x"], ["r"])
    for i in range(20):
        name = f"m{i}"
        calls = [["x"], [(name, 1, 0)]]
        nested = LayerSpec("Functional", name, calls, model=inner)
        inner = Model(f"m{i + 1}", [image("x", 3), nested], ["x"], [(name, 2, 0)])
    assert "applies more than" in str(error_of(write_h5(tmp_path / "m", inner)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers(tmp_path: Path, value: float) -> None:
    spec = dense()
    spec.weights["kernel"][1, 0] = value
    error = error_of(single(tmp_path, spec, 3))
    assert isinstance(error, ModelError)
    assert f"is {value}" in str(error) and "[1, 0]" in str(error) and "layer 'd'" in str(error)
    assert "training has diverged" in str(error)


def test_negative_variance(tmp_path: Path) -> None:
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    weights = {name: np.ones(3, np.float32) for name in names}
    weights["moving_variance"][2] = -0.5
    spec = LayerSpec("BatchNormalization", "norm", (), {"epsilon": 1e-3}, weights)
    error = error_of(single(tmp_path, spec, 2, 2, 3))
    assert "variance of -0.5" in str(error) and "norm" in str(error)
