"""Quantised networks of microcontrollers' kinds, as TensorFlow's converter writes them.

`python tests/frontends/converted_networks.py` makes `converted/*.tflite`, with TensorFlow, and
`converted.npz`, what LiteRT's reference kernels make of random inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tflite
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "converted"
GOLDEN = FOLDER.with_suffix(".npz")

#: Random inputs of each network.
SAMPLES = 4

Arrays = dict[str, NDArray[Any]]


def inputs_of(data: bytes) -> list[Arrays]:
    """Random integers for the inputs of a file, by the tensors' names: of the whole range, and near
    its middle.
    """
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    random = np.random.default_rng(5)
    found = []
    for k in range(SAMPLES):
        sample: Arrays = {}
        for n in range(graph.InputsLength()):
            tensor = graph.Tensors(graph.Inputs(n))
            dtype = {tflite.TensorType.INT8: np.int8, tflite.TensorType.INT16: np.int16}
            info = np.iinfo(dtype[tensor.Type()])
            shape = [int(d) for d in tensor.ShapeAsNumpy()]
            spread = info.max / (1 if k % 2 else 3)
            whole = (
                random.uniform(-spread, spread, shape) if k % 2 else random.normal(0, spread, shape)
            )
            sample[tensor.Name().decode()] = np.clip(whole, info.min, info.max).astype(info.dtype)
        found.append(sample)
    return found


class Makers:
    """Networks by name, in Keras."""

    def __init__(self, keras: Any) -> None:
        self._keras = keras
        self._l = keras.layers

    def gestures(self) -> Any:
        """Padding, an average pool with padding, depthwise with two outputs for each channel."""
        layers, i = self._l, self._l.Input((30, 20, 1))
        x = layers.Conv2D(4, 3, activation="relu6")(layers.ZeroPadding2D(1)(i))
        x = layers.DepthwiseConv2D(3, 2, depth_multiplier=2)(
            layers.AveragePooling2D(2, padding="same")(x)
        )
        return self._keras.Model(i, layers.Dense(8, activation="softmax")(layers.Flatten()(x)))

    def activity(self) -> Any:
        """Sequences of accelerations."""
        layers, i = self._l, self._l.Input((128, 9))
        x = layers.MaxPooling1D(2)(layers.Conv1D(16, 5, activation="relu")(i))
        x = layers.GlobalAveragePooling1D()(layers.Conv1D(24, 3, activation="relu")(x))
        return self._keras.Model(i, layers.Dense(6, activation="softmax")(x))

    def mobile(self) -> Any:
        """An inverted bottleneck with its sum, hard swish spelled out, slopes."""
        layers, i = self._l, self._l.Input((20, 20, 3))
        x = layers.Conv2D(8, 3, 2, padding="same")(i)
        y = layers.Conv2D(16, 1, activation="relu6")(x)
        y = layers.Conv2D(8, 1)(layers.DepthwiseConv2D(3, padding="same", activation="relu6")(y))
        x = layers.Add()([x, y])
        x = layers.Multiply()([x, layers.ReLU(6.0)(x + 3.0)])
        x = layers.LeakyReLU(0.1)(layers.DepthwiseConv2D(5, padding="same")(x))
        return self._keras.Model(i, layers.Dense(7)(layers.GlobalMaxPooling2D()(x)))

    def dilated(self) -> Any:
        """A sequence with residuals, further and further apart."""
        layers, i = self._l, self._l.Input((64, 4))
        x = layers.Conv1D(8, 3, padding="same", activation="relu")(i)
        for d in (1, 2, 4):
            y = layers.Conv1D(8, 3, padding="same", dilation_rate=d, activation="relu")(x)
            x = layers.Add()([x, y])
        return self._keras.Model(i, layers.Conv1D(2, 1)(x))

    def squeezed(self) -> Any:
        """Fire modules, and channels times numbers that are computed."""
        layers, i = self._l, self._l.Input((16, 16, 3))
        x = layers.Conv2D(12, 3, 2, padding="same", activation="relu")(i)
        s = layers.Conv2D(6, 1, activation="relu")(x)
        x = layers.Concatenate()([
            layers.Conv2D(12, 1, activation="relu")(s),
            layers.Conv2D(12, 3, padding="same", activation="relu")(s),
        ])  # fmt: skip
        g = layers.Conv2D(4, 1, activation="relu")(layers.GlobalAveragePooling2D(keepdims=True)(x))
        x = layers.Multiply()([x, layers.Conv2D(24, 1, activation="sigmoid")(g)])
        return self._keras.Model(
            i, layers.Softmax()(layers.GlobalAveragePooling2D()(layers.Conv2D(5, 1)(x)))
        )

    def segmented(self) -> Any:
        """Down, up by a transposed convolution, and bilinear."""
        layers, i = self._l, self._l.Input((16, 16, 2))
        a = layers.Conv2D(6, 3, padding="same", activation="relu")(i)
        b = layers.Conv2D(8, 3, padding="same", activation="relu")(layers.MaxPooling2D()(a))
        x = layers.Concatenate()([layers.Conv2DTranspose(6, 2, 2)(b), a])
        x = layers.UpSampling2D(2, interpolation="bilinear")(x)
        return self._keras.Model(i, layers.Conv2D(1, 1, activation="sigmoid")(x))

    def attentive(self) -> Any:
        """Scaled products of queries and keys."""
        layers, i = self._l, self._l.Input((12, 8))
        q, k, v = (layers.Dense(8)(i) for _ in range(3))
        x = layers.Dot((2, 1))([layers.Softmax()(layers.Dot((2, 2))([q, k])), v])
        return self._keras.Model(i, layers.Dense(2)(layers.Flatten()(x)))

    def two(self) -> Any:
        """Two inputs, two outputs."""
        layers = self._l
        a, b = layers.Input((16,), name="a"), layers.Input((8,), name="b")
        x = layers.Concatenate()(
            [layers.Dense(12, activation="relu")(a), layers.Dense(12, activation="tanh")(b)]
        )
        heads = [layers.Dense(4, activation="softmax")(x), layers.Dense(1, activation="sigmoid")(x)]
        return self._keras.Model([a, b], heads)

    NAMES: Sequence[str] = (
        "gestures", "activity", "mobile", "dilated", "squeezed", "segmented", "attentive", "two",
    )  # fmt: skip


def _files() -> Iterator[tuple[str, bytes]]:
    """Each network with int8 and int16 activations."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2 as freeze,
    )

    makers, random = Makers(tf.keras), np.random.default_rng(1)
    for name in Makers.NAMES:
        tf.keras.utils.set_random_seed(1)
        model = getattr(makers, name)()
        shapes = [tuple(t.shape[1:]) for t in model.inputs]
        samples = [[random.normal(0, 1, (1, *s)).astype(np.float32) for s in shapes]
                   for _ in range(40)]  # fmt: skip
        call = tf.function(lambda *a, model=model: model(list(a) if len(a) > 1 else a[0]))
        frozen = freeze(call.get_concrete_function(*(tf.TensorSpec((1, *s)) for s in shapes)))
        sets = tf.lite.OpsSet
        short = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        for kind, ops, dtype in (
            ("int8", sets.TFLITE_BUILTINS_INT8, tf.int8), ("int16", short, tf.int16),
        ):  # fmt: skip
            converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda samples=samples: iter(samples)
            converter.target_spec.supported_ops = [ops]
            converter.inference_input_type = converter.inference_output_type = dtype
            yield f"{name}_{kind}", converter.convert()


def write() -> None:
    """Makes all files; the numbers, if LiteRT is there."""
    from frontends.tflite_files import by_litert

    FOLDER.mkdir(exist_ok=True)
    for name, data in _files():
        (FOLDER / f"{name}.tflite").write_bytes(data)
    found: Arrays = {}
    for file in sorted(FOLDER.glob("*.tflite")):
        data = file.read_bytes()
        for k, sample in enumerate(inputs_of(data)):
            for n, y in enumerate(by_litert(data, sample)):
                found[f"{file.stem}/{k}/{n}"] = y
    np.savez_compressed(GOLDEN, **found)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    write()
