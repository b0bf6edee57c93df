"""Small networks of layers that have integer forms, and samples for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cannery.ir.graph import Graph
from frontends.keras_files import LayerSpec, Model, chain, image, layer, write_h5

#: Steps of sequences, features of each, cells of recurrent layers.
T, F, H = 9, 5, 11


def dense(name: str, inputs: int, units: int, activation: str, scale: float = 1.0) -> LayerSpec:
    rng = np.random.default_rng(units)
    values = {
        "kernel": (scale * rng.standard_normal((inputs, units)) / inputs**0.5).astype(np.float32),
        "bias": (scale * rng.standard_normal(units)).astype(np.float32),
    }
    return LayerSpec("Dense", name, (), {"units": units, "activation": activation}, values)


def lstm(name: str, features: int, **config: Any) -> LayerSpec:
    rng = np.random.default_rng(features)
    values = {
        "cell/kernel": rng.standard_normal((features, 4 * H)),
        "cell/recurrent_kernel": rng.standard_normal((H, 4 * H)) / H**0.5,
        "cell/bias": rng.standard_normal(4 * H),
    }
    weights = {key: array.astype(np.float32) for key, array in values.items()}
    return LayerSpec("LSTM", name, (), {"units": H, "return_sequences": True, **config}, weights)


def gru(name: str, features: int, **config: Any) -> LayerSpec:
    after = config.setdefault("reset_after", True)
    rng = np.random.default_rng(features)
    values = {
        "cell/kernel": rng.standard_normal((features, 3 * H)) / 2,
        "cell/recurrent_kernel": rng.standard_normal((H, 3 * H)) / H**0.5,
        "cell/bias": rng.standard_normal((2, 3 * H) if after else 3 * H),
    }
    weights = {key: array.astype(np.float32) for key, array in values.items()}
    return LayerSpec("GRU", name, (), {"units": H, "return_sequences": True, **config}, weights)


def simple_rnn(name: str, features: int) -> LayerSpec:
    rng = np.random.default_rng(features)
    values = {
        "cell/kernel": rng.standard_normal((features, H)) / 2,
        "cell/recurrent_kernel": rng.standard_normal((H, H)) / H**0.5,
        "cell/bias": rng.standard_normal(H),
    }
    weights = {key: array.astype(np.float32) for key, array in values.items()}
    return LayerSpec("SimpleRNN", name, (), {"units": H, "return_sequences": True}, weights)


def sequences(activation: str = "softmax") -> Model:
    """LSTM, a ReLU layer, GRU, a plain recurrent layer; 7 scores at each step."""
    return chain(
        image("x", T, F),
        lstm("one", F),
        dense("two", H, 13, "relu"),
        gru("three", 13),
        simple_rnn("four", H),
        dense("scores", H, 7, activation),
    )


def resets(*, backwards: bool = True) -> Model:
    """GRU layers whose reset gate is before the product, the second one backwards; 7 scores."""
    return chain(
        image("x", T, F),
        gru("one", F, reset_after=False),
        gru(
            "two", H, reset_after=False, go_backwards=backwards, recurrent_activation="hard_sigmoid"
        ),
        dense("scores", H, 7, "softmax"),
    )


def layers(last: str = "tanh") -> Model:
    """Dense layers whose activations are exact, have a table, or stay floats."""
    return chain(
        image("x", 24), dense("one", 24, 33, "relu"), dense("two", 33, 20, "sigmoid"),
        dense("three", 20, 17, "relu6"), dense("four", 17, 9, "linear"), dense("last", 9, 6, last),
    )  # fmt: skip


def camera() -> Model:
    """Convolutions, a pooling between them, dense layers."""
    rng = np.random.default_rng(5)

    def conv(name: str, inputs: int, filters: int, **config: Any) -> LayerSpec:
        values = {"kernel": rng.standard_normal((3, 3, inputs, filters)).astype(np.float32) / 3,
                  "bias": rng.standard_normal(filters).astype(np.float32)}  # fmt: skip
        shared = {"filters": filters, "kernel_size": [3, 3], "activation": "relu", **config}
        return LayerSpec("Conv2D", name, (), shared, values)

    return chain(
        image("x", 9, 8, 3), conv("one", 3, 7, padding="same"), conv("two", 7, 12, strides=[2, 1]),
        LayerSpec("MaxPooling2D", "pool", (), {"pool_size": [2, 2]}, {}),
        LayerSpec("Flatten", "flat", (), {}, {}), dense("scores", 72, 5, "sigmoid"),
    )  # fmt: skip


def separable() -> Model:
    """A depthwise convolution, 1x1 after it, a maximum, a dense layer."""
    rng = np.random.default_rng(6)

    def conv(kind: str, name: str, w: tuple[int, ...], outputs: int, **config: Any) -> LayerSpec:
        key = "depthwise_kernel" if kind == "DepthwiseConv2D" else "kernel"
        values = {key: rng.standard_normal(w).astype(np.float32) / 3,
                  "bias": rng.standard_normal(outputs).astype(np.float32)}  # fmt: skip
        shared = {"kernel_size": list(w[:2]), "activation": "relu", **config}
        return LayerSpec(kind, name, (), shared, values)

    return chain(
        image("x", 9, 8, 3), conv("Conv2D", "one", (3, 3, 3, 6), 6, filters=6),
        conv("DepthwiseConv2D", "two", (3, 3, 6, 1), 6, padding="same"),
        conv("Conv2D", "three", (1, 1, 6, 8), 8, filters=8),
        LayerSpec("MaxPooling2D", "pool", (), {"pool_size": [2, 2]}, {}),
        LayerSpec("Flatten", "flat", (), {}, {}), dense("scores", 72, 5, "linear"),
    )  # fmt: skip


def normalised() -> Model:
    """Normalisation after ReLU and before padding, which no weights can take in."""
    rng = np.random.default_rng(8)
    values = {"depthwise_kernel": rng.standard_normal((3, 3, 6, 1)).astype(np.float32) / 3}
    shared = {"kernel_size": [3, 3], "padding": "same", "use_bias": False}
    norm = {key: rng.uniform(0.5, 1.5, 6).astype(np.float32)
            for key in ("gamma", "beta", "moving_mean", "moving_variance")}  # fmt: skip
    layers = [
        image("x", 9, 8, 3), conv("one", "x", 3, 6),
        LayerSpec("BatchNormalization", "norm", [["one"]], {"epsilon": 1e-3, "axis": [3]}, norm),
        LayerSpec("DepthwiseConv2D", "each", [["norm"]], shared, values),
        conv("two", "each", 6, 3, activation="linear"),
    ]  # fmt: skip
    return Model("normalised", layers, ["x"], ["two"])


def decoder() -> Model:
    """An upsampled image and a skip before a depthwise convolution, as U-Nets have them."""
    rng = np.random.default_rng(7)
    values = {"depthwise_kernel": rng.standard_normal((3, 3, 11, 1)).astype(np.float32) / 3}
    shared = {"kernel_size": [3, 3], "padding": "same", "use_bias": False}
    layers = [
        image("x", 9, 8, 3), conv("one", "x", 3, 5), conv("two", "one", 5, 6, strides=[1, 2]),
        layer("UpSampling2D", "up", "two", size=[1, 2], interpolation="nearest"),
        layer("Concatenate", "join", "up", "one", axis=-1),
        LayerSpec("DepthwiseConv2D", "each", [["join"]], shared, values),
        conv("classes", "each", 11, 3, activation="linear"),
    ]  # fmt: skip
    return Model("decoder", layers, ["x"], ["classes"])


def conv(name: str, source: str, inputs: int, filters: int, **config: Any) -> LayerSpec:
    """3x3 with ReLU, after a layer given by name."""
    rng = np.random.default_rng(filters)
    values = {"kernel": rng.standard_normal((3, 3, inputs, filters)).astype(np.float32) / 5,
              "bias": rng.standard_normal(filters).astype(np.float32) / 5}  # fmt: skip
    shared = {"filters": filters, "kernel_size": [3, 3], "activation": "relu", "padding": "same"}
    return LayerSpec("Conv2D", name, [[source]], {**shared, **config}, values)


def residual() -> Model:
    """Two sums, one of which is read twice, means over windows and over all pixels."""
    pool = {"pool_size": [3, 3], "strides": [2, 2], "padding": "same"}
    layers = [
        image("x", 9, 8, 3), conv("one", "x", 3, 6),
        conv("two", "one", 6, 6, activation="linear"), layer("Add", "sum", "one", "two"),
        layer("ReLU", "relu", "sum"), conv("three", "relu", 6, 6),
        layer("Add", "sum_2", "relu", "three"), layer("AveragePooling2D", "half", "sum_2", **pool),
        conv("four", "half", 6, 7), layer("GlobalAveragePooling2D", "all", "four"),
        replace(dense("scores", 7, 5, "linear"), calls=[["all"]]),
    ]  # fmt: skip
    return Model("residual", layers, ["x"], ["scores"])


def unet() -> Model:
    """A skip, and an upsampled image next to it."""
    layers = [
        image("x", 9, 8, 3), conv("one", "x", 3, 5), conv("two", "one", 5, 6, strides=[1, 2]),
        layer("UpSampling2D", "up", "two", size=[1, 2], interpolation="nearest"),
        layer("Concatenate", "join", "up", "one", axis=-1), conv("three", "join", 11, 4),
        conv("classes", "three", 4, 3, activation="linear"),
    ]  # fmt: skip
    return Model("unet", layers, ["x"], ["classes"])


def retrained(model: Model, *, zeros: bool = False) -> Model:
    """Other weights of similar size: scales of values, were they asked for, would be others.

    With `zeros`, all biases are 0.
    """
    rng = np.random.default_rng(7)
    layers = []
    for each in model.layers:
        weights = {
            name: (array * rng.uniform(0.7, 1.2, array.shape)).astype(np.float32)
            for name, array in each.weights.items()
        }
        if zeros:
            weights |= {name: 0 * a for name, a in weights.items() if name.endswith("bias")}
        layers.append(replace(each, weights=weights))
    return replace(model, layers=layers)


def write(folder: Path, model: Model, samples: int = 6, scale: float = 1.0) -> tuple[Path, Path]:
    """The model and samples for it."""
    file = write_h5(folder / "net.h5", model)
    shapes = {"LSTM": (T, F), "GRU": (T, F), "Conv2D": (9, 8, 3)}
    shape = (samples, *shapes.get(model.layers[1].class_name, (24,)))
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32) * np.float32(scale)
    np.savez(folder / "x.npz", x=x)
    return file, folder / "x.npz"


def integers(calibration: Path, dtype: str = "int16", **others: Any) -> dict[str, Any]:
    """Options that ask for integers, whatever the loss."""
    return {"quantize": dtype, "calibration": str(calibration), "max_loss": "1", **others}


def kinds(graph: Graph) -> list[str]:
    """The operators of all nodes."""
    return [node.op.kind for node in graph.nodes]


def written(folder: Path, model: Model, dtype: str = "int16") -> tuple[Path, dict[str, Any]]:
    """File and options of a network with samples."""
    file, calibration = write(folder, model)
    return file, integers(calibration, dtype)
