"""Networks that Keras writes three times: as its own archive, as ONNX by PyTorch's exporter, and
as TensorFlow Lite by TensorFlow's converter.

    KERAS_BACKEND=torch python tests/frontends/exported_networks.py NAME ...
    KERAS_BACKEND=tensorflow python tests/frontends/exported_networks.py NAME ...

write them to tests/frontends/exported/, all without names: the second reads the archives of the
first. `test_two_exports.py` compares what Cannery makes of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from frontends.keras_networks import compress

FOLDER = Path(__file__).parent / "exported"

#: Networks by name: from `keras` to the layers of a chain after its input, whose shape comes first.
CHAINS: dict[str, Callable[[Any], list[Any]]] = {
    "cnn": lambda k: [
        (16, 16, 3), k.Conv2D(8, 3, padding="same", activation="relu"), k.MaxPooling2D(2),
        k.Conv2D(8, 3), k.BatchNormalization(), k.ReLU(), k.GlobalAveragePooling2D(),
        k.Dense(4, activation="softmax"),
    ],
    "mlp": lambda k: [
        (12,), k.Dense(16, activation="relu"), k.Dense(8, activation="tanh"), k.Dense(3)
    ],
    "separable": lambda k: [
        (12, 12, 4), k.DepthwiseConv2D(3, padding="same"), k.ReLU(6.0), k.Conv2D(8, 1),
        k.AveragePooling2D(2), k.Flatten(), k.Dense(2),
    ],
    "lines": lambda k: [
        (32, 3), k.Conv1D(8, 5, strides=2, activation="relu"),
        k.Conv1D(4, 3, padding="causal", dilation_rate=2), k.GlobalAveragePooling1D(), k.Dense(2),
    ],
    "hard": lambda k: [
        (6, 6, 4), k.Conv2D(8, 1, activation="hard_silu"),
        k.Conv2D(4, 1, activation="hard_sigmoid"),
    ],
    "padded": lambda k: [
        (8, 8, 3), k.ZeroPadding2D(((1, 0), (0, 1))), k.Conv2D(4, 3), k.Cropping2D(1), k.Flatten(),
        k.Dense(3),
    ],
    "groups": lambda k: [(8, 8, 8), k.Conv2D(8, 3, groups=2, activation="relu"), k.Conv2D(4, 1)],
    "scaled": lambda k: [(8, 8, 3), k.Rescaling(1 / 127.5, -1), k.Conv2D(4, 3, activation="relu")],
    "dilated": lambda k: [
        (14, 14, 3), k.Conv2D(4, 3, dilation_rate=2, activation="elu"), k.Dropout(0.2),
        k.Conv2D(4, 3, padding="same", activation="sigmoid"),
    ],
    "pools": lambda k: [
        (12, 12, 4), k.MaxPooling2D(3, 3), k.Conv2D(4, 2, activation="leaky_relu"),
        k.AveragePooling2D(3), k.Flatten(), k.Dense(4, use_bias=False),
    ],
    "deep": lambda k: [(10,), *(k.Dense(10, activation="relu") for _ in range(6)), k.Softmax()],
    "bends": lambda k: [
        (7, 7, 3), k.Conv2D(4, 3, activation="softplus"), k.Conv2D(4, 1, activation="softsign"),
        k.Conv2D(4, 1, activation="selu"), k.GlobalMaxPooling2D(),
    ],
    "shrunk": lambda k: [
        (15, 15, 3), k.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
        k.MaxPooling2D(3, 2, padding="same"),
    ],
    "points": lambda k: [(20, 4), k.Conv1D(8, 1), k.ReLU(), k.GlobalMaxPooling1D(), k.Dense(3)],
    "steps": lambda k: [(6, 5), k.Dense(8, activation="relu"), k.Dense(2), k.Permute((2, 1))],
    "larger": lambda k: [
        (6, 5, 4), k.Conv2D(4, 3, padding="same", activation="relu"), k.UpSampling2D((2, 3)),
        k.Conv2D(3, 3, padding="same"), k.UpSampling2D(2, interpolation="bilinear"),
    ],
    "transposed": lambda k: [
        (6, 6, 4), k.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu"),
        k.Conv2DTranspose(3, 4, strides=2, padding="same"), k.Conv2DTranspose(2, 2, strides=2),
    ],
    "sequence": lambda k: [
        (6, 3), k.Conv1DTranspose(4, 4, strides=2, padding="same"), k.ReLU(), k.UpSampling1D(2),
    ],
    "slopes": lambda k: [
        (8, 8, 3), k.Conv2D(4, 3), k.PReLU(shared_axes=[1, 2]), k.Conv2D(4, 3), k.PReLU(),
        k.Flatten(), k.Dense(3), k.PReLU(),
    ],
    "grouped": lambda k: [
        (8, 8, 8), k.Conv2D(8, 3), k.GroupNormalization(4), k.ReLU(), k.Conv2D(2, 1),
    ],
    "embedded": lambda k: [(6,), k.Embedding(10, 4), k.GlobalAveragePooling1D(), k.Dense(2)],
    "normal": lambda k: [
        (6, 8), k.Dense(8), k.LayerNormalization(), k.Dense(3, activation="gelu")
    ],
    "smooth": lambda k: [
        (8, 8, 3), k.Conv2D(4, 3, activation="swish"), k.Conv2D(4, 3, activation="gelu"),
        k.SeparableConv2D(6, 3, padding="same", activation="mish"),
    ],
}  # fmt: skip


def _residual(keras: Any) -> Any:
    lib = keras.layers
    x = keras.Input((8, 8, 6))
    y = lib.Conv2D(6, 3, padding="same", activation="relu")(x)
    y = lib.Add()([x, lib.Conv2D(6, 3, padding="same")(y)])
    return keras.Model(x, lib.GlobalMaxPooling2D()(lib.ReLU()(y)))


def _joined(keras: Any) -> Any:
    lib = keras.layers
    x = keras.Input((8, 8, 4))
    parts = [lib.Conv2D(4, 1, activation="elu")(x), lib.Conv2D(6, 3, padding="same")(x)]
    return keras.Model(x, lib.Conv2D(2, 1)(lib.Concatenate()(parts)))


def _excited(keras: Any) -> Any:
    lib = keras.layers
    x = keras.Input((8, 8, 8))
    s = lib.GlobalAveragePooling2D(keepdims=True)(x)
    s = lib.Conv2D(8, 1, activation="sigmoid")(lib.Conv2D(2, 1, activation="relu")(s))
    return keras.Model(x, lib.Multiply()([x, s]))


def _functions(keras: Any) -> Any:
    x = keras.Input((6, 4))
    return keras.Model(x, keras.ops.mean(keras.ops.relu(x[:, 1:] * 2 + 1), axis=1))


def _shared_image(keras: Any) -> Any:
    lib = keras.layers
    x = keras.Input((8, 8, 3))
    a = lib.Conv2D(4, 3, padding="same", activation="relu")(x)
    b = lib.Conv2D(6, 3, padding="same", activation="relu")(lib.MaxPooling2D()(a))
    b = lib.Conv2DTranspose(4, 2, strides=2, padding="same")(b)
    return keras.Model(x, lib.Conv2D(2, 1, activation="sigmoid")(lib.Concatenate()([a, b])))


def _attention(keras: Any) -> Any:
    x = keras.Input((5, 8))
    y = keras.layers.MultiHeadAttention(2, 4)(x, x)
    return keras.Model(x, keras.layers.LayerNormalization()(x + y))


def _two_heads(keras: Any) -> Any:
    lib = keras.layers
    x = keras.Input((9,))
    h = lib.Dense(8, activation="tanh")(x)
    return keras.Model(x, [lib.Dense(3, activation="softmax")(h), lib.Dense(1)(h)])


def _two_inputs(keras: Any) -> Any:
    lib = keras.layers
    x, y = keras.Input((5,)), keras.Input((5,))
    h = lib.Concatenate()([lib.Dense(4)(x), lib.Subtract()([x, y])])
    return keras.Model([x, y], lib.Dense(2)(h))


MODELS: dict[str, Callable[[Any], Any]] = {
    "residual": _residual, "joined": _joined, "excited": _excited, "functions": _functions,
    "two_heads": _two_heads, "two_inputs": _two_inputs, "shared_image": _shared_image,
    "attention": _attention,
}  # fmt: skip

#: What Keras cannot export by PyTorch's older exporter.
NO_ONNX = ("normal", "attention")

#: Of a file that is not one of ONNX.
UNREAD = "PyTorch's exporter multiplies floats by a whole number"

#: Exports that compute the same in another form, and the reason.
OTHERWISE: dict[tuple[str, str], str] = {
    ("bends", "tflite"): "SELU is spelt, with a choice by a condition",
    ("hard", "tflite"): "hard_sigmoid's 3 is part of the bias before it",
    ("smooth", "tflite"): "the depthwise convolution has a bias of zeros",
    ("attention", "pt2"): "PyTorch has its products as matrices without a batch",
    ("functions", "pt2"): UNREAD,
}


def names() -> tuple[str, ...]:
    """The names of all networks."""
    return (*CHAINS, *MODELS)


def suffixes(name: str) -> tuple[str, ...]:
    """The formats besides Keras' own in which there is a network."""
    return ("tflite",) if name in NO_ONNX else ("onnx", "tflite")


def write(keras: Any, name: str, folder: Path) -> None:
    """A network with random weights, as `<name>.keras` and `<name>.onnx`."""
    keras.utils.clear_session()
    if name in CHAINS:
        shape, *layers = CHAINS[name](keras.layers)
        model = keras.Sequential([keras.Input(shape), *layers])
    else:
        model = MODELS[name](keras)
    rng = np.random.default_rng(len(name))
    for weight in model.weights:
        if "seed" not in weight.path:
            value = rng.standard_normal(tuple(weight.shape)) * 0.3
            weight.assign(np.abs(value) + 0.2 if "variance" in weight.path else value)
    zeros = [np.zeros((1, *x.shape[1:]), np.float32) for x in model.inputs]
    model(zeros if len(zeros) > 1 else zeros[0])  # the exporter wants a model that was called
    model.save(folder / f"{name}.keras")
    compress(folder / f"{name}.keras")
    if name not in NO_ONNX:
        model.export(folder / f"{name}.onnx", format="onnx", verbose=False)


def write_tflite(keras: Any, name: str, folder: Path) -> None:
    """The network that `write` has written, as `<name>.tflite`."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    model = keras.saving.load_model(folder / f"{name}.keras", compile=False)
    run = tf.function(lambda *x: model(list(x) if len(x) > 1 else x[0]))
    types = [tf.TensorSpec([1, *x.shape[1:]], x.dtype, name=x.name) for x in model.inputs]
    frozen = convert_variables_to_constants_v2(run.get_concrete_function(*types))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    (folder / f"{name}.tflite").write_bytes(converter.convert())


def main() -> None:
    """Write all networks, or those named, by the backend that is set."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or names():
        (write_tflite if keras.backend.backend() == "tensorflow" else write)(keras, name, FOLDER)


if __name__ == "__main__":
    main()
