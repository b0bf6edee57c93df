"""Wake words as microWakeWord trains them: one network twice, for whole sequences and step by step.

`python tests/frontends/wake_word_networks.py` makes `wake_words/*.tflite`, with TensorFlow, and
`wake_words.npz`, random inputs and what LiteRT's reference kernels make of them. A step of the
second file is STRIDE rows of features; variables keep the rows before. Depthwise convolutions of
several lengths share the channels (MixConv).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "wake_words"
GOLDEN = FOLDER.with_suffix(".npz")

FEATURES, STRIDE, FIRST, CHANNELS = 10, 3, 8, 12
LENGTHS = ((5,), (3, 7))

#: Outputs of the last layer that the dense layer reads, rows of a sequence, and steps of one.
LAST, ROWS, STEPS = 3, 65, 40

Arrays = dict[str, NDArray[Any]]


def weights() -> Arrays:
    """Random, about as large as after training."""
    random = np.random.default_rng(3)

    def normal(*shape: int, fan: int) -> NDArray[Any]:
        return (random.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32)

    found = {"first": normal(5, 1, FEATURES, FIRST, fan=5 * FEATURES)}
    channels = FIRST
    for i, lengths in enumerate(LENGTHS):
        for length in lengths:
            part = channels // len(lengths)
            found[f"window {i} {length}"] = normal(length, 1, part, 1, fan=length)
        found[f"mix {i}"] = normal(1, 1, channels, CHANNELS, fan=channels)
        found[f"bias {i}"] = normal(CHANNELS, fan=200)
        channels = CHANNELS
    last = normal(LAST, 1, CHANNELS, 1, fan=LAST * CHANNELS)
    return {**found, "last": 0.3 * (last - last.mean())}  # neither always sure nor never


def past_rows() -> dict[str, tuple[int, int]]:
    """What each variable keeps: rows and channels."""
    found = {"first": (5 - STRIDE, FEATURES)}
    for i, lengths in enumerate(LENGTHS):
        found[f"mix {i}"] = (max(lengths) - 1, CHANNELS if i else FIRST)
    return {**found, "last": (LAST - 1, CHANNELS)}


def network(tf: Any, w: Mapping[str, Any], pasts: Mapping[str, Any], x: Any) -> Any:
    """Of x[1, rows, features]; without `pasts`, rows before the first are left out."""

    def joined(name: str, x: Any) -> Any:
        if name not in pasts:
            return x
        window = tf.concat([pasts[name], x], 1)
        pasts[name].assign(window[:, -past_rows()[name][0] :])
        return window

    x = joined("first", tf.expand_dims(x, 2))
    x = tf.nn.relu(tf.nn.conv2d(x, w["first"], [1, STRIDE, 1, 1], "VALID"))
    for i, lengths in enumerate(LENGTHS):
        x = joined(f"mix {i}", x)
        parts = [
            tf.nn.depthwise_conv2d(
                part[:, max(lengths) - length :], w[f"window {i} {length}"], [1] * 4, "VALID"
            )
            for part, length in zip(tf.split(x, len(lengths), 3), lengths, strict=True)
        ]
        x = tf.nn.conv2d(tf.concat(parts, 3), w[f"mix {i}"], [1] * 4, "VALID")
        x = tf.nn.relu(tf.nn.bias_add(x, w[f"bias {i}"]))
    x = joined("last", x)
    if pasts:
        flat = tf.reshape(x, [1, LAST * CHANNELS])
        return tf.sigmoid(tf.matmul(flat, tf.reshape(w["last"], [LAST * CHANNELS, 1])))
    return tf.sigmoid(tf.reshape(tf.nn.conv2d(x, w["last"], [1] * 4, "VALID"), [1, -1, 1]))


def converted(tf: Any, rows: int, *, steps: bool) -> bytes:
    """A file with int8 inputs and uint8 outputs."""
    module = tf.Module()
    module.w = {name: tf.constant(array) for name, array in weights().items()}
    pasts = {n: tf.Variable(tf.zeros([1, r, 1, c])) for n, (r, c) in past_rows().items()}
    module.pasts = pasts if steps else {}
    given = tf.TensorSpec([1, rows, FEATURES], tf.float32)
    module.run = tf.function(
        lambda x: network(tf, module.w, module.pasts, x), input_signature=[given]
    )
    random = np.random.default_rng(0)
    with TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures={"serving_default": module.run})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.experimental_enable_resource_variables = steps
        converter._experimental_variable_quantization = steps
        converter.representative_dataset = lambda: (
            [np.abs(4 * random.standard_normal((1, rows, FEATURES))).astype(np.float32)]
            for _ in range(200)
        )
        converter.target_spec.supported_ops = {tf.lite.OpsSet.TFLITE_BUILTINS_INT8}
        converter.inference_input_type = tf.int8
        converter.inference_output_type = tf.uint8
        return bytes(converter.convert())


def results(interpreters: Any, data: bytes, given: NDArray[Any]) -> NDArray[Any]:
    """What one interpreter of LiteRT makes of several inputs, one after the other."""
    plain = interpreters.OpResolverType.BUILTIN_REF
    judge = interpreters.Interpreter(model_content=data, experimental_op_resolver_type=plain)
    judge.allocate_tensors()
    (x,), (y,) = judge.get_input_details(), judge.get_output_details()
    found = []
    for each in given:
        judge.set_tensor(x["index"], each)
        judge.invoke()
        found.append(judge.get_tensor(y["index"]).copy())
    return np.stack(found)


def main() -> None:
    """Writes all files."""
    import tensorflow as tf  # type: ignore[import-not-found]
    from ai_edge_litert import interpreter as interpreters

    FOLDER.mkdir(exist_ok=True)
    random, golden = np.random.default_rng(7), Arrays()
    for name, rows, count in (("whole", ROWS, 1), ("steps", STRIDE, STEPS)):
        data = converted(tf, rows, steps=name == "steps")
        (FOLDER / f"{name}.tflite").write_bytes(data)
        x = random.integers(-128, 128, (count, 1, rows, FEATURES), np.int8)
        golden |= {f"{name}/x": x, f"{name}/y": results(interpreters, data, x)}
    np.savez_compressed(GOLDEN, **golden)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
