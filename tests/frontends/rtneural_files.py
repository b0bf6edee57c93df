"""Writes RTNeural's JSON for a chain of Keras layers, as RTNeural's exporter does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frontends.keras_files import LayerSpec

_TYPES = {
    "Dense": "dense", "TimeDistributed": "time-distributed-dense", "Conv1D": "conv1d",
    "Conv2D": "conv2d", "LSTM": "lstm", "GRU": "gru", "PReLU": "prelu", "Activation": "activation",
    "BatchNormalization": "batchnorm",
}  # fmt: skip

#: The order of Keras.
_ORDER = ("kernel", "recurrent_kernel", "bias", "alpha", "gamma", "beta", "moving_mean",
          "moving_variance")  # fmt: skip

#: Functions that the exporter knows.
_KNOWN = ("tanh", "relu", "sigmoid", "softmax", "elu")


def entry(spec: LayerSpec, before: Sequence[Any], after: Sequence[Any]) -> dict[str, Any]:
    """A layer; `before` and `after` are the shapes of its input and output."""
    config = spec.config
    found: dict[str, Any] = {
        "type": _TYPES[spec.class_name],
        "activation": config["activation"] if config.get("activation") in _KNOWN else "",
        "shape": list(after),
    }
    if found["type"] == "conv1d":
        found |= {"kernel_size": config["kernel_size"], "dilation": config["dilation_rate"]}
    if found["type"] == "conv2d":
        found |= {
            "kernel_size_time": config["kernel_size"][0], "strides": config["strides"][1],
            "kernel_size_feature": config["kernel_size"][1], "dilation": config["dilation_rate"][0],
            "num_filters_in": before[3], "num_features_in": before[2],
            "num_filters_out": after[3], "padding": config["padding"],
        }  # fmt: skip
    if found["type"] == "batchnorm":
        found["epsilon"] = config["epsilon"]
        if len(before) == 4:
            found |= {"type": "batchnorm2d", "num_filters_in": before[3],
                      "num_features_in": before[2]}  # fmt: skip
    by_name = {name.rpartition("/")[2]: array for name, array in spec.weights.items()}
    return {**found, "weights": [by_name[n].tolist() for n in _ORDER if n in by_name]}


def describe(
    layers: Sequence[tuple[LayerSpec, Sequence[Any]]], in_shape: Sequence[Any]
) -> dict[str, Any]:
    """The contents of a file; each layer with the shape of its output."""
    entries, before = [], in_shape
    for spec, after in layers:
        entries.append(entry(spec, before, after))
        before = after
    return {"in_shape": list(in_shape), "layers": entries}


def write_json(path: Path, model: Mapping[str, Any]) -> Path:
    """Write a file."""
    path.write_text(json.dumps(model, indent=4))
    return path
