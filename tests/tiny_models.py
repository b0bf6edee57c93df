"""A Keras file as small as can be, for tests that are not about networks."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np


def write_tiny_model(path: Path, seed: int = 1, *, unsupported: bool = False) -> Path:
    """Write an 8x8x1 `image` -> 3x3 convolution -> 8x8x4 `scores` network as Keras 2 does."""
    rng = np.random.default_rng(seed)
    image = {"name": "image", "batch_input_shape": [None, 8, 8, 1], "dtype": "float32"}
    scores = {
        "name": "scores", "trainable": True, "dtype": "float32", "filters": 4,
        "kernel_size": [3, 3], "strides": [1, 1], "padding": "same", "dilation_rate": [1, 1],
        "data_format": "channels_last", "activation": "relu", "use_bias": True,
    }  # fmt: skip
    layers = [
        {"class_name": "InputLayer", "config": image},
        {"class_name": "Conv2D" if not unsupported else "MyLayer", "config": scores},
    ]
    config = {"class_name": "Sequential", "config": {"name": "tiny", "layers": layers}}
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"] = "2.11.0"
        file.attrs["backend"] = "tensorflow"
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = [b"image", b"scores"]
        weights.create_group("image").attrs["weight_names"] = []
        group = weights.create_group("scores")
        names = ["scores/kernel:0", "scores/bias:0"]
        group.attrs["weight_names"] = [name.encode() for name in names]
        for name, shape in zip(names, ((3, 3, 1, 4), (4,)), strict=True):
            group[name] = rng.normal(size=shape).astype(np.float32)
    return path
