"""Random Keras models, and changes of their configurations and weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.keras_files import LayerSpec, Model, config_of, image, layer, write_h5, write_keras
from fuzz.onnx_changes import damaged_bytes

_FUNCTIONS = (
    "relu linear sigmoid tanh softmax elu selu gelu swish relu6 hard_sigmoid exponential softplus "
    "leaky_relu mish"
).split()

#: What a value of a configuration becomes: near or far.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, -1, 7, 2**31, 10**30, 0.5, -1.5, 1e38, 1e400, float("nan"), "",
    "same", "valid", "causal", "relu", "channels_first", "float16", "ä\n\"", "x" * 500, [], {},
    [1, 1], [2, 2], [0, 0], [1], [None], {"class_name": "ReLU"}, [[1, 1], [0, 2]], "__proto__",
)  # fmt: skip


@dataclass
class Maker:
    """A functional model under construction; `shape` is that of the last value."""

    random: Random
    layers: list[LayerSpec] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.random.randrange(2**32))

    @property
    def last(self) -> str:
        return self.layers[-1].name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shapes[self.last]

    def weight(self, *shape: int) -> NDArray[np.float32]:
        fan_in = max(int(np.prod(shape[:-1])), 1)
        return (self.rng.standard_normal(shape) / fan_in**0.5).astype(np.float32)

    def add(self, spec: LayerSpec, shape: tuple[int, ...]) -> None:
        if min(shape) < 1 or np.prod(shape) > 3000:
            raise LookupError
        self.layers.append(spec)
        self.shapes[spec.name] = shape

    def named(self, stem: str) -> str:
        return f"{stem}_{len(self.layers)}"

    def choice(self, *values: Any) -> Any:
        return self.random.choice(values)


def _after(size: int, kernel: int, stride: int, padding: str) -> int:
    return -(-size // stride) if padding == "same" else (size - kernel) // stride + 1


def conv(m: Maker) -> None:
    *size, c = m.shape
    spatial = len(size)
    if spatial not in (1, 2):
        raise LookupError
    kernel = [m.random.randint(1, 3) for _ in size]
    stride, padding, filters = m.choice(1, 1, 2), m.choice("same", "valid"), m.random.randint(1, 9)
    depthwise = spatial == 2 and m.random.random() < 0.25
    names = ("DepthwiseConv2D", "depthwise_kernel") if depthwise else (f"Conv{spatial}D", "kernel")
    outputs = c if depthwise else filters
    shape = (*kernel, c, 1) if depthwise else (*kernel, c, filters)
    own = {} if depthwise else {"filters": filters}
    config = {
        "kernel_size": kernel, "strides": [stride] * spatial, "padding": padding,
        "activation": m.random.choice(_FUNCTIONS), **own,
    }  # fmt: skip
    weights = {names[1]: m.weight(*shape), "bias": m.weight(outputs)}
    if m.random.random() < 0.2:
        config["use_bias"] = False
        del weights["bias"]
    after = [_after(s, k, stride, padding) for s, k in zip(size, kernel, strict=True)]
    spec = LayerSpec(names[0], m.named("conv"), [[m.last]], config, weights)
    m.add(spec, (*after, outputs))


def transposed(m: Maker) -> None:
    if len(m.shape) != 3:
        raise LookupError
    h, w, c = m.shape
    filters, padding = m.random.randint(1, 6), m.choice("same", "valid")
    config = {"filters": filters, "kernel_size": [3, 3], "strides": [2, 2], "padding": padding}
    weights = {"kernel": m.weight(3, 3, filters, c), "bias": m.weight(filters)}
    more = 0 if padding == "same" else 1
    spec = LayerSpec("Conv2DTranspose", m.named("up"), [[m.last]], config, weights)
    m.add(spec, (2 * h + more, 2 * w + more, filters))


def dense(m: Maker) -> None:
    units = m.random.randint(1, 12)
    config = {"units": units, "activation": m.random.choice(_FUNCTIONS)}
    weights = {"kernel": m.weight(m.shape[-1], units), "bias": m.weight(units)}
    spec = LayerSpec("Dense", m.named("dense"), [[m.last]], config, weights)
    m.add(spec, (*m.shape[:-1], units))


def recurrent(m: Maker) -> None:
    if len(m.shape) != 2:
        raise LookupError
    steps, features = m.shape
    kind, gates = m.choice(("LSTM", 4), ("GRU", 3), ("SimpleRNN", 1))
    units, sequences = m.random.randint(1, 6), m.random.random() < 0.6
    config = {
        "units": units, "return_sequences": sequences, "go_backwards": m.random.random() < 0.2,
        "activation": m.choice("tanh", "relu", "sigmoid"),
    }  # fmt: skip
    bias = (2, gates * units) if kind == "GRU" else (gates * units,)
    if kind == "GRU":
        config["reset_after"] = True
    weights = {
        "cell/kernel": m.weight(features, gates * units),
        "cell/recurrent_kernel": m.weight(units, gates * units), "cell/bias": m.weight(*bias),
    }  # fmt: skip
    spec = LayerSpec(kind, m.named("rnn"), [[m.last]], config, weights)
    m.add(spec, (steps, units) if sequences else (units,))


def norm(m: Maker) -> None:
    c, kind = m.shape[-1], m.choice("BatchNormalization", "LayerNormalization")
    names = ("gamma", "beta", "moving_mean", "moving_variance")[: 4 if kind[0] == "B" else 2]
    weights = {n: m.rng.uniform(0.5, 1.5, c).astype(np.float32) for n in names}
    config = {"epsilon": 1e-3, "axis": [len(m.shape)] if kind[0] == "B" else [-1]}
    m.add(LayerSpec(kind, m.named("norm"), [[m.last]], config, weights), m.shape)


def pool(m: Maker) -> None:
    spatial = len(m.shape) - 1
    if spatial not in (1, 2):
        raise LookupError
    kind = m.choice("MaxPooling", "AveragePooling", "GlobalMaxPooling", "GlobalAveragePooling")
    name = m.named("pool")
    if kind.startswith("Global"):
        m.add(layer(f"{kind}{spatial}D", name, m.last), m.shape[-1:])
        return
    size, padding = m.random.randint(1, 3), m.choice("same", "valid")
    config = {"pool_size": [size] * spatial, "strides": [2] * spatial, "padding": padding}
    after = [_after(s, size, 2, padding) for s in m.shape[:-1]]
    m.add(layer(f"{kind}{spatial}D", name, m.last, **config), (*after, m.shape[-1]))


def activation(m: Maker) -> None:
    kind = m.choice("ReLU", "LeakyReLU", "ELU", "Softmax", "Activation", "Dropout", "PReLU")
    config: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    if kind == "Activation":
        config = {"activation": m.random.choice(_FUNCTIONS)}
    elif kind == "Dropout":
        config = {"rate": 0.3}
    elif kind == "PReLU":
        weights = {"alpha": m.weight(*m.shape)}
    m.add(LayerSpec(kind, m.named("act"), [[m.last]], config, weights), m.shape)


def move(m: Maker) -> None:
    name, shape = m.named("move"), m.shape
    kind = m.random.randrange(6)
    if kind == 0:
        m.add(layer("Flatten", name, m.last), (int(np.prod(shape)),))
    elif kind == 1:
        m.add(layer("Reshape", name, m.last, target_shape=[-1, shape[-1]]),
              (int(np.prod(shape[:-1])), shape[-1]))  # fmt: skip
    elif kind == 2 and len(shape) == 3:
        m.add(layer("ZeroPadding2D", name, m.last, padding=[[1, 0], [0, 2]]),
              (shape[0] + 1, shape[1] + 2, shape[2]))  # fmt: skip
    elif kind == 3 and len(shape) == 3:
        how = m.choice("nearest", "bilinear")
        spec = layer("UpSampling2D", name, m.last, size=[2, 1], interpolation=how)
        m.add(spec, (2 * shape[0], shape[1], shape[2]))
    elif kind == 4 and len(shape) > 1:
        dims = list(range(1, len(shape) + 1))
        m.random.shuffle(dims)
        m.add(layer("Permute", name, m.last, dims=dims), tuple(shape[d - 1] for d in dims))
    else:
        raise LookupError


def merge(m: Maker) -> None:
    partners = [n for n, s in m.shapes.items() if s == m.shape]
    other, name = m.random.choice(partners), m.named("merge")
    kind = m.choice("Add", "Multiply", "Maximum", "Average", "Subtract", "Concatenate")
    if kind == "Concatenate":
        spec = layer(kind, name, m.last, other, axis=-1)
        m.add(spec, (*m.shape[:-1], 2 * m.shape[-1]))
    else:
        m.add(layer(kind, name, m.last, other), m.shape)


BLOCKS: tuple[Callable[[Maker], None], ...] = (
    conv, conv, conv, transposed, dense, dense, recurrent, recurrent, norm, pool, activation,
    activation, move, move, merge, merge,
)  # fmt: skip


def random_network(random: Random) -> Model:
    """Two to eight layers after an input."""
    m = Maker(random)
    rank = random.choice([1, 2, 2, 3, 3, 3])
    shape = tuple(random.randint(1, 9) for _ in range(rank))
    m.add(image("x", *shape), shape)
    wanted, tried = random.randint(2, 8), 0
    while wanted and tried < 60:
        tried += 1
        try:
            random.choice(BLOCKS)(m)
            wanted -= 1
        except LookupError:
            pass
    outputs = [m.last]
    if random.random() < 0.2:
        outputs.append(random.choice(m.layers).name)
    return Model("net", m.layers, ["x"], list(dict.fromkeys(outputs)))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in a configuration."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def holder_of(config: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        config = config[key]
    return config


def change_config(random: Random, config: dict[str, Any]) -> str:
    """Another value, key, or nothing at a random place, mostly among the settings of a layer."""
    known = list(places(config))
    inner = [p for p in known if len(p) == 5 and p[3] == "config"]
    path = random.choice(inner if inner and random.random() < 0.85 else known)
    holder, key = holder_of(config, path), path[-1]
    kind, old = random.randrange(8), holder[key]
    if kind == 7:
        del holder[key]
    elif kind == 6 and isinstance(holder, dict):
        holder[random.choice(["units", "axis", "not_there", "activation", ""])] = holder.pop(key)
    elif kind < 5 and isinstance(old, int) and not isinstance(old, bool):
        holder[key] = old + random.choice([-1, 1])
    elif kind < 5 and isinstance(old, str) and old in _FUNCTIONS:
        holder[key] = random.choice(_FUNCTIONS)
    elif kind < 5 and isinstance(old, bool):
        holder[key] = not old
    else:
        holder[key] = random.choice(VALUES)
    return f"config {'.'.join(map(str, path))}"


def change_weights(random: Random, model: Model) -> tuple[Model, str]:
    """An array of a layer has another shape, dtype, or numbers that are none; or it is gone."""
    heavy = [k for k, spec in enumerate(model.layers) if spec.weights]
    if not heavy:
        return model, ""
    at = random.choice(heavy)
    spec = model.layers[at]
    weights = {name: np.array(value) for name, value in spec.weights.items()}
    name = random.choice(sorted(weights))
    value = weights[name]
    kind = random.randrange(8)
    if kind == 0:
        del weights[name]
    elif kind == 1:
        weights[name] = value.T
    elif kind == 2:
        weights[name] = value[..., :-1]
    elif kind == 3:
        weights[name] = value.astype(random.choice([np.float16, np.float64, np.int8, np.bool_]))
    elif kind == 4:
        weights[name] = value[None]
    elif value.size:
        special = [0.0, np.nan, np.inf, 3e38, 1e-42, -1.0]
        count = random.choice([1, value.size])
        value.reshape(-1)[:count] = random.choice(special)
    layers = list(model.layers)
    layers[at] = replace(spec, weights=weights)
    return replace(model, layers=layers), f"weights {spec.name}/{name}"


def rename_layer(random: Random, config: dict[str, Any]) -> str:
    """A layer's class, or its name (not where others refer to it)."""
    entry = random.choice(config["config"]["layers"])
    if random.random() < 0.5:
        classes = "Conv1D Conv2D Dense Add ReLU LSTM Flatten Softmax Lambda Bidirectional X".split()
        entry["class_name"] = random.choice(classes)
    else:
        entry["config"]["name"] = random.choice(["", "x", "*/", "ü", "n" * 400, 7, None])
    return "layer"


def changed(random: Random, model: Model) -> tuple[str, bytes, list[str]]:
    """Suffix and bytes of a file of a changed model, and which changes were made."""
    made: list[str] = []
    changes = random.choice([0, 0, 0, 1, 1, 2])
    archive = random.random() < 0.4
    version = random.choice(["3.8.0"] if archive else ["2.15.0", "2.2.4", "3.3.0"])
    for _ in range(changes):
        if random.random() < 0.35:
            model, what = change_weights(random, model)
            made.append(what)
    config = config_of(model, version, archive)
    for _ in range(changes - len(made)):
        change = change_config if random.random() < 0.85 else rename_layer
        try:
            made.append(change(random, config))
        except (LookupError, TypeError, AttributeError):
            continue
    data = _written(model, version, archive, json.dumps(config))
    if random.random() < 0.02:
        data = damaged_bytes(random, data)
        made.append("bytes")
    return (".keras" if archive else ".h5"), data, made


def _written(model: Model, version: str, archive: bool, config: str) -> bytes:
    with TemporaryDirectory() as temporary:
        path = Path(temporary) / "model"
        if archive:
            write_keras(path, model, version, config=config.encode())
        else:
            write_h5(path, model, version, model_config=config)
        return path.read_bytes()
