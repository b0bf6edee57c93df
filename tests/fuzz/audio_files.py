"""Files of Neural Amp Modeler, GuitarML and RTNeural, with other values, keys and weights."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from frontends.keras_files import LayerSpec
from frontends.rtneural_files import describe
from fuzz.keras_networks import VALUES, holder_of, places
from fuzz.onnx_changes import damaged_bytes

_FOLDER = Path(__file__).parents[1] / "frontends"


@cache
def _texts() -> tuple[str, ...]:
    files = [*_FOLDER.glob("nam/*.nam"), *_FOLDER.glob("guitarml/*.json")]
    return tuple(path.read_text() for path in sorted(files))


def changed(random: Random) -> tuple[bytes, list[str]]:
    """The bytes of a file, and which changes were made."""
    model = json.loads(random.choice(_texts())) if random.random() < 0.6 else _layers(random)
    made = []
    for _ in range(random.choice([0, 0, 0, 1, 1, 2])):
        path = random.choice([p for p in places(model) if random.random() < _likely(p)] or [()])
        if path:
            made.append(_change(random, model, path))
    data = json.dumps(model).encode()
    if random.random() < 0.04:
        return damaged_bytes(random, data), [*made, "bytes"]
    return data, made


def _likely(path: tuple[Any, ...]) -> float:
    """Single weights are many."""
    return 0.02 if "weights" in path and isinstance(path[-1], int) else 1.0


def _change(random: Random, model: Any, path: tuple[Any, ...]) -> str:
    """Another value, key, or nothing at a place."""
    holder, key = holder_of(model, path), path[-1]
    old, kind = holder[key], random.randrange(8)
    if kind == 7:
        del holder[key]
    elif kind == 6 and isinstance(holder, dict):
        holder[random.choice(["activation", "head", "gated", "not_there", ""])] = holder.pop(key)
    elif kind < 5 and isinstance(old, int) and not isinstance(old, bool):
        holder[key] = old + random.choice([-1, 1])
    elif kind < 5 and isinstance(old, bool):
        holder[key] = not old
    elif kind < 4 and isinstance(old, list) and old:
        holder[key] = random.choice([old[:-1], [*old, old[0]], [old], old[::-1]])
    elif kind < 5 and isinstance(old, str):
        holder[key] = random.choice(["ReLU", "Tanh", "WaveNet", "LSTM", "gated", "dense", "gru"])
    else:
        holder[key] = random.choice(VALUES)
    return f"{'.'.join(map(str, path))}"


def _layers(random: Random) -> dict[str, Any]:
    """A chain for RTNeural."""
    rng = np.random.default_rng(random.randrange(2**32))
    channels = random.randint(1, 3)
    first = [None, None, channels]
    layers: list[tuple[LayerSpec, list[Any]]] = []
    for number in range(random.randint(1, 4)):
        out = random.randint(1, 5)
        spec = _layer(random, rng, f"l{number}", channels, out)
        channels = out
        layers.append((spec, [None, None, out]))
    model = describe(layers, first)
    if random.random() < 0.2:
        model |= {"in_skip": int(channels == 1), "in_gain": -3.0, "out_gain": 6}
    return model


def _layer(random: Random, rng: Any, name: str, inputs: int, out: int) -> LayerSpec:
    def weight(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.5).astype(np.float32)

    kind = random.choice(["Dense", "Conv1D", "Conv1D", "GRU", "LSTM"])
    config: dict[str, Any] = {"activation": random.choice(["tanh", "relu", "elu", "linear"])}
    if kind == "Dense":
        weights = {"kernel": weight(inputs, out), "bias": weight(out)}
    elif kind == "Conv1D":
        size = random.randint(1, 4)
        config |= {"kernel_size": [size], "dilation_rate": [random.choice([1, 2, 8])]}
        weights = {"kernel": weight(size, inputs, out), "bias": weight(out)}
    else:
        gates, rows = (3, (2,)) if kind == "GRU" else (4, ())
        config = {"activation": "tanh"}
        weights = {
            "kernel": weight(inputs, gates * out), "recurrent_kernel": weight(out, gates * out),
            "bias": weight(*rows, gates * out),
        }  # fmt: skip
    return LayerSpec(kind, name, (), config, weights)
