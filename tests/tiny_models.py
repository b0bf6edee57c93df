"""Keras files as small as can be, for tests that are not about networks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

_Weights = Mapping[str, NDArray[np.float32]]


def _write(
    path: Path, layers: Sequence[Mapping[str, Any]], weights: Mapping[str, _Weights]
) -> Path:
    """Write a sequential network as Keras 2 does; weights by layer, then by name."""
    config = {"class_name": "Sequential", "config": {"name": "tiny", "layers": layers}}
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"] = "2.11.0"
        file.attrs["backend"] = "tensorflow"
        root = file.create_group("model_weights")
        root.attrs["layer_names"] = [layer["config"]["name"].encode() for layer in layers]
        for layer in layers:
            name = layer["config"]["name"]
            group = root.create_group(name)
            arrays = weights.get(name, {})
            group.attrs["weight_names"] = [f"{name}/{key}:0".encode() for key in arrays]
            for key, array in arrays.items():
                group[f"{name}/{key}:0"] = array
    return path


def _layer(kind: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": kind, "config": {"name": name, "dtype": "float32", **config}}


def _normal(seed: int, *shapes: tuple[int, ...]) -> list[NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def write_tiny_model(
    path: Path, seed: int = 1, *, size: int = 3, unsupported: bool = False
) -> Path:
    """An 8x8x1 `image` -> convolution, 3x3 or `size` x `size` -> 8x8x4 `scores` network."""
    kernel, bias = _normal(seed, (size, size, 1, 4), (4,))
    layers = [
        _layer("InputLayer", "image", batch_input_shape=[None, 8, 8, 1]),
        _layer(
            "MyLayer" if unsupported else "Conv2D", "scores", filters=4, kernel_size=[size, size],
            strides=[1, 1], padding="same", dilation_rate=[1, 1], data_format="channels_last",
            activation="relu", use_bias=True,
        ),
    ]  # fmt: skip
    return _write(path, layers, {"scores": {"kernel": kernel, "bias": bias}})


def write_tiny_pair(path: Path, seed: int = 1) -> Path:
    """A 12x12x1 `image` -> two convolutions, 3x3, with 8 channels between them -> 12x12x2: small if
    computed depth first.
    """
    first, last, bias, other = _normal(seed, (3, 3, 1, 8), (3, 3, 8, 2), (8,), (2,))
    layers = [_layer("InputLayer", "image", batch_input_shape=[None, 12, 12, 1])]
    layers += [
        _layer(
            "Conv2D", name, filters=filters, kernel_size=[3, 3], strides=[1, 1], padding="same",
            dilation_rate=[1, 1], data_format="channels_last", activation="relu", use_bias=True,
        )
        for name, filters in (("first", 8), ("last", 2))
    ]  # fmt: skip
    weights = {"first": {"kernel": first, "bias": bias}, "last": {"kernel": last, "bias": other}}
    return _write(path, layers, weights)


def write_tiny_dense(path: Path, seed: int = 1) -> Path:
    """8 numbers `image` -> dense layer -> 4 `scores`: a dozen candidates, to tune quickly."""
    kernel, bias = _normal(seed, (8, 4), (4,))
    layers = [
        _layer("InputLayer", "image", batch_input_shape=[None, 8]),
        _layer("Dense", "scores", units=4, activation="relu", use_bias=True),
    ]
    return _write(path, layers, {"scores": {"kernel": kernel, "bias": bias}})


def write_tiny_classifier(path: Path, inputs: int = 16 * 16, seed: int = 1) -> Path:
    """A 16x16x1 `image` -> dense layer with sigmoid -> 2 `scores`; `inputs` is 16x16 or longer."""
    kernel, bias = _normal(seed, (inputs, 2), (2,))
    layers = [
        _layer("InputLayer", "image", batch_input_shape=[None, 16, inputs // 16, 1]),
        _layer("Flatten", "flat", data_format="channels_last"),
        _layer("Dense", "scores", units=2, activation="sigmoid", use_bias=True),
    ]
    return _write(path, layers, {"scores": {"kernel": kernel, "bias": bias}})


def tiny_image(seed: int = 0, count: int = 1) -> NDArray[np.float32]:
    """Inputs of that network."""
    return np.random.default_rng(seed).standard_normal((count, 8, 8, 1)).astype(np.float32)
