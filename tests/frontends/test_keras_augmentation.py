"""Augmentation, and other layers that do nothing when a network runs; layers that crop.

That Keras computes the same was established with `compare_with_keras.py`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import CanneryError, UnsupportedError
from cannery.frontends import load_graph
from cannery.frontends.keras.layers.augmentation import augmentation
from cannery.frontends.keras.layers.base import _LAYERS, layer_names
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ops.movement.op import Slice
from cannery.ops.resize.op import Resize
from frontends.keras_files import LayerSpec, Model, chain, image, write_h5, write_keras

NAMES = sorted(name for name in layer_names() if _LAYERS[name] is augmentation)

#: What Keras files contain in addition to what all layers have.
CONFIG = {
    "data_format": "channels_last", "factor": [-0.3, 0.3], "value_range": [0, 255], "seed": 7,
    "fill_mode": "reflect", "mode": "horizontal", "height_factor": 0.2, "bins": 256,
}  # fmt: skip


def called(spec: LayerSpec, *shape: int, dtype: str = "float32", **kwargs: Any) -> Model:
    """A network of one layer that is called with these arguments."""
    call = {"inputs": ["x"], "kwargs": kwargs}
    return Model(
        "net", [image("x", *shape, dtype=dtype), replace(spec, calls=[call])], ["x"], [spec.name]
    )


def result(graph: Graph, x: NDArray[Any]) -> NDArray[Any]:
    (y,) = evaluate(graph, {"x": x}).values()
    return y


@pytest.mark.parametrize("name", [*NAMES, "RandomCrop", "CenterCrop", "Resizing"])
def test_augmentation_vanishes(name: str, tmp_path: Path) -> None:
    size = {"height": 4, "width": 5} if "Crop" in name or name == "Resizing" else CONFIG
    spec = LayerSpec(name, "a", (), size)
    plain = called(spec, 4, 5, 3)
    # Keras 3 stores that training=True is the default of `call`.
    trained = called(spec, 4, 5, 3, training=True)
    for graph in (
        load_graph(write_h5(tmp_path / "2.h5", plain)),
        load_graph(write_h5(tmp_path / "3.h5", trained, "3.15.1")),
        load_graph(write_keras(tmp_path / "3.keras", trained, "3.15.1")),
    ):
        x = np.arange(60, dtype=np.float32).reshape(1, 4, 5, 3)
        assert np.array_equal(result(graph, x), x)
        assert all(type(node.op).__name__ == "Identity" for node in graph.nodes)


def test_bytes_become_floats(tmp_path: Path) -> None:
    spec = LayerSpec("RandomFlip", "a", (), CONFIG)
    graph = load_graph(write_keras(tmp_path / "m", called(spec, 2, 2, 1, dtype="uint8")))
    y = result(graph, np.array([255, 0, 7, 1], np.uint8).reshape(1, 2, 2, 1))
    assert y.ravel().tolist() == [255.0, 0.0, 7.0, 1.0]
    assert [t.dtype.value for t in map(graph.types.get, graph.outputs) if t] == ["float32"]


def test_training_that_was_asked_for_is_refused(tmp_path: Path) -> None:
    """In Keras 2 a call with training=True trains always; Dropout has it only if it was given."""
    flip, drop = (
        LayerSpec("RandomFlip", "a", (), CONFIG),
        LayerSpec("Dropout", "a", (), {"rate": 0.5}),
    )
    for path in (
        write_h5(tmp_path / "2.h5", called(flip, 4, 4, 1, training=True)),
        write_keras(tmp_path / "3.keras", called(drop, 4, 4, 1, training=True)),
    ):
        with pytest.raises(UnsupportedError, match="called with the argument training"):
            load_graph(path)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("height", "width"), [(7, 8), (6, 8), (7, 5), (3, 4), (1, 1)])
def test_center_crop(height: int, width: int, first: bool, tmp_path: Path) -> None:
    config = {"height": height, "width": width}
    if first:
        config["data_format"] = "channels_first"  # type: ignore[assignment]
    shape = (2, 7, 8) if first else (7, 8, 2)
    graph = load_graph(
        write_keras(tmp_path / "m", called(LayerSpec("CenterCrop", "c", (), config), *shape))
    )
    x = np.random.default_rng(3).standard_normal((1, *shape)).astype(np.float32)
    top, left = int((7 - height) / 2), int((8 - width) / 2)
    rows, columns = slice(top, top + height), slice(left, left + width)
    assert np.array_equal(
        result(graph, x), x[:, :, rows, columns] if first else x[:, rows, columns]
    )


@pytest.mark.parametrize(
    ("size", "cut", "at"),
    [
        ((14, 16), (7, 8), (0, 0)),  # larger: all of it
        ((9, 4), (7, 3), (0, 2)),  # int(7 * 4 / 9) columns
        ((20, 11), (7, 3), (0, 2)),
        ((4, 16), (2, 8), (2, 0)),
    ],
)  # fmt: skip
def test_a_center_crop_beyond_the_image_resizes_its_middle(
    size: tuple[int, int], cut: tuple[int, int], at: tuple[int, int], tmp_path: Path
) -> None:
    spec = LayerSpec("CenterCrop", "c", (), {"height": size[0], "width": size[1]})
    graph = load_graph(write_keras(tmp_path / "m", called(spec, 7, 8, 2)))
    ops = [node.op for node in graph.nodes]
    begin = (0, *at, 0)
    end = (1, at[0] + cut[0], at[1] + cut[1], 2)
    slices = [] if cut == (7, 8) else [Slice(begin, end, (1, 1, 1, 1))]
    assert ops == [*slices, Resize("linear", size, "half_pixel", "floor")]


@pytest.mark.parametrize("size", [(4, 5), (3, 10), (9, 13), (14, 1)])
def test_resizing_by_area_takes_means(size: tuple[int, int], tmp_path: Path) -> None:
    """Of whole pixels, where each pixel is repeated as often as there are outputs."""
    config = {"height": size[0], "width": size[1], "interpolation": "area"}
    spec = LayerSpec("Resizing", "r", (), config)
    graph = load_graph(write_keras(tmp_path / "m", called(spec, 7, 10, 2)))
    x = np.random.default_rng(0).standard_normal((1, 7, 10, 2))
    fine = x.repeat(size[0], 1).repeat(size[1], 2)
    wanted = fine.reshape(1, size[0], 7, size[1], 10, 2).mean((2, 4))
    (y,) = evaluate(graph, dict.fromkeys(graph.inputs, x)).values()
    np.testing.assert_allclose(y, wanted, atol=1e-6)


def test_a_random_crop_to_another_size_is_refused(tmp_path: Path) -> None:
    spec = LayerSpec("RandomCrop", "c", (), {"height": 3, "width": 8, "seed": None})
    with pytest.raises(UnsupportedError, match="use CenterCrop") as caught:
        load_graph(write_keras(tmp_path / "m", called(spec, 7, 8, 2)))
    assert "(7, 8) to (3, 8)" in str(caught.value)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"height": 3, "width": 8, "antialias": True}, r"it shrinks \(7, 8\) to \(3, 8\)"),
        ({"height": 7, "width": 8, "interpolation": "mitchellcubic"}, "'mitchellcubic'"),
    ],
)
def test_resizing_that_changes_images_is_refused(
    config: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        load_graph(
            write_keras(tmp_path / "m", called(LayerSpec("Resizing", "r", (), config), 7, 8, 2))
        )


@pytest.mark.parametrize("write", [write_h5, write_keras])
def test_spectral_normalization_is_the_layer_that_it_wraps(write: Any, tmp_path: Path) -> None:
    kernel, bias = np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(2, np.float32)
    dense = {"class_name": "Dense", "config": {"name": "d", "units": 2, "activation": "relu"}}
    weights = {"layer/kernel": kernel, "layer/bias": bias, "vector_u": np.ones((1, 2), np.float32)}
    spec = LayerSpec(
        "SpectralNormalization", "s", (), {"layer": dense, "power_iterations": 1}, weights
    )
    graph = load_graph(write(tmp_path / "m", chain(image("x", 3), spec)))
    x = np.array([[1, -2, 3]], np.float32)
    assert np.allclose(result(graph, x), np.maximum(x @ kernel + bias, 0))


def test_a_pipeline_of_augmentation_vanishes(tmp_path: Path) -> None:
    layers = [
        {"class_name": name, "config": {"name": name.lower(), **CONFIG, "dtype": "float32"}}
        for name in ("RandomFlip", "RandomZoom")
    ]
    spec = LayerSpec("Pipeline", "p", (), {"layers": layers})
    graph = load_graph(write_keras(tmp_path / "m", called(spec, 4, 4, 1, training=True)))
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    assert np.array_equal(result(graph, x), x)


@pytest.mark.parametrize("name", ["TFSMLayer", "HashedCrossing", "Lambda", "MyLayer"])
def test_what_is_not_supported_can_be_exported(name: str, tmp_path: Path) -> None:
    with pytest.raises(CanneryError) as caught:
        load_graph(write_keras(tmp_path / "m", called(LayerSpec(name, "c"), 7, 8, 2)))
    assert re.search(r'model\.export\("m\.onnx", format="onnx"\)', str(caught.value))
