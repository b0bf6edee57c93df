"""Compares imported models with Keras itself: every layer, many parameters, both file formats.

Manual, because it needs Keras (2 or 3):

    pip install keras tensorflow-cpu tf_keras
    python -m pytest -m slow tests/frontends/compare_with_keras.py
    CANNERY_KERAS=tf_keras python -m pytest -m slow tests/frontends/compare_with_keras.py

Parameters that this version of Keras refuses are skipped. Some versions fail here because they lose
attributes when they save: Keras 2.12 `invert` of Normalization, Keras 3.0 to 3.8 `output_padding`.
On PyTorch, Keras 3.15 itself fails: its LayerNormalization knows only the last axes, and its
AveragePooling1D and 2D are wrong where "same" pads one side more. Use TensorFlow or JAX.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from cannery.frontends import ImportOptions, load_graph
from cannery.ir.evaluate import evaluate
from frontends.keras_cases import CASES, Case, LayerAsActivation

keras = pytest.importorskip(os.environ.get("CANNERY_KERAS", "keras"))
pytestmark = pytest.mark.slow

L = keras.layers
IS_3 = keras.__version__.startswith("3")
FORMATS = ("h5", "keras")

#: Largest error allowed, relative to the range of the output; Keras computes in float32.
TOLERANCE = 1e-5


def make_layer(case: Case) -> Any:
    """The layer; skips what this version of Keras does not have."""
    if not hasattr(L, case.layer):
        pytest.skip(f"this Keras has no {case.layer}")
    options = dict(case.options)
    made = options.get("activation")
    if isinstance(made, LayerAsActivation):
        options["activation"] = getattr(L, made.name)(**made.options)
    if made == "linear" or not isinstance(made, str) or hasattr(keras.activations, made):
        return _refusable(lambda: getattr(L, case.layer)(**options))
    pytest.skip(f"this Keras has no activation {made}")


def _refusable(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (TypeError, ValueError, NotImplementedError, AttributeError) as error:
        pytest.skip(f"refused by Keras: {str(error).splitlines()[0]}")


def randomize(model: Any, rng: np.random.Generator) -> None:
    """Random weights: variances positive, scales about 1."""
    for weight in model.weights:
        name = getattr(weight, "path", weight.name)
        if "count" in name or "seed" in name:
            continue
        values = rng.standard_normal(tuple(weight.shape)) * 0.4
        if "variance" in name or "stddev" in name:
            values = np.abs(values) + 0.2
        weight.assign((values + (1.0 if "gamma" in name else 0.0)).astype(np.float32))
    for layer in model.layers:
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()


def save(model: Any, folder: Path) -> list[Path]:
    """The model in both formats."""
    paths = [folder / f"model.{suffix}" for suffix in FORMATS]
    for path in paths:
        model.save(path)
    return paths


def check(model: Any, inputs: list[np.ndarray], folder: Path, batch: int) -> None:
    """Both files give what Keras computes."""
    fed = inputs if len(inputs) > 1 else inputs[0]
    expected = _refusable_run(lambda: model(fed, training=False))
    # With PyTorch below Keras, results remember how they were computed.
    plain = [y.detach() if hasattr(y, "detach") else y for y in _flat(expected)]
    wanted = [np.asarray(y) for y in plain]
    for path in _refusable(lambda: save(model, folder)):
        graph = load_graph(path, ImportOptions(batch=batch))
        given = dict(zip(graph.inputs, inputs, strict=True))
        results = list(evaluate(graph, given).values())
        assert len(results) == len(wanted)
        for y, ref in zip(results, wanted, strict=True):
            assert y.shape == ref.shape, path.name
            error = np.abs(y - ref).max() / max(np.abs(ref).max(), 1e-30)
            assert error < TOLERANCE, path.name


def _flat(outputs: Any) -> list[Any]:
    """Outputs in the model's order: dicts by key."""
    if isinstance(outputs, dict):
        return [outputs[k] for k in sorted(outputs)]
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]


def _refusable_run(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:
        if type(error).__name__ in ("UnimplementedError", "InvalidArgumentError", "AbortedError"):
            pytest.skip(f"not computed by this Keras: {str(error).splitlines()[0][:100]}")
        raise


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer(case: Case, tmp_path: Path) -> None:
    rng = np.random.default_rng(crc32(str(case).encode()))
    inputs = [keras.Input(shape) for shape in case.shapes]
    layer = make_layer(case)
    output = _refusable(lambda: layer(inputs if len(inputs) > 1 else inputs[0]))
    model = _refusable(lambda: keras.Model(inputs, output))
    randomize(model, rng)
    data = [rng.standard_normal((2, *s)).astype(np.float32) * 2 for s in case.shapes]
    check(model, data, tmp_path, batch=2)


def _nested() -> Any:
    """Shared twice, one part frozen, with state in between, two outputs."""
    a = keras.Input((6, 6, 3))
    h = L.Conv2D(4, 3, name="first", activation="relu")(a)
    h = L.BatchNormalization(name="norm")(h)
    frozen = L.Conv2D(4, 1, name="frozen")
    frozen.trainable = False
    h = L.BatchNormalization(name="norm2")(frozen(h))
    inner = keras.Model(a, [h, L.GlobalMaxPooling2D()(h)], name="inner")
    x, y = keras.Input((6, 6, 3), name="x"), keras.Input((6, 6, 3), name="y")
    (p, q), (r, s) = inner(x), inner(y)
    return keras.Model([x, y], [L.Add()([p, r]), L.Concatenate()([q, s])])


def _frozen() -> Any:
    """A nested model that is frozen as a whole."""
    a = keras.Input((6, 6, 3))
    h = L.BatchNormalization()(L.Conv2D(4, 3)(a))
    h = L.BatchNormalization()(L.DepthwiseConv2D(3)(h))
    inner = keras.Model(a, h, name="inner")
    inner.trainable = False
    x = keras.Input((6, 6, 3))
    return keras.Model(x, L.Dense(2)(L.Flatten()(inner(x))))


def _deep() -> Any:
    """Three levels; the same names at two of them; sequential within functional within both."""

    def block(name: str) -> Any:
        own = "" if IS_3 else name  # Keras 2 cannot save what has the same names
        layers = [L.Dense(5, name=f"dense{own}"), L.BatchNormalization(name=f"norm{own}")]
        return keras.Sequential([keras.Input((5,)), *layers], name=name)

    a = keras.Input((5,))
    middle = keras.Model(a, block("right")(block("left")(a)), name="middle")
    return keras.Sequential([keras.Input((5,)), middle, L.PReLU(), block("last"), L.Softmax()])


def _sequential() -> Any:
    """Built by its first call, without an Input."""
    model = keras.Sequential([L.Conv1D(3, 2, activation="selu"), L.Flatten(), L.Dense(2)])
    model.build((None, 7, 2))
    return model


def _begins_with_model() -> Any:
    """A chain whose first layer is a model."""
    a = keras.Input((6, 2))
    inner = keras.Model(a, L.Conv1D(3, 2)(a), name="base")
    return keras.Sequential([inner, L.GlobalAveragePooling1D()])


def _shared_layer() -> Any:
    """One layer applied three times, once to its own result."""
    x, y = keras.Input((4,), name="x"), keras.Input((4,), name="y")
    dense = L.Dense(4, activation="tanh")
    return keras.Model([x, y], [dense(dense(x)), L.Subtract()([dense(y), x])])


def _by_name() -> Any:
    """Outputs by name, several inputs to a nested model."""
    a, b = keras.Input((3,), name="a"), keras.Input((4,), name="b")
    inner = keras.Model([b, a], [L.Concatenate()([a, b]), L.Dense(2)(b)], name="inner")
    x, y = keras.Input((3,), name="x"), keras.Input((4,), name="y")
    joined, small = inner([y, x])
    return keras.Model([x, y], {"zeta": L.ReLU()(joined), "alpha": L.Dense(3)(small)})


def _own_class() -> Any:
    """A functional model of its own class."""

    class Classifier(keras.Model):  # type: ignore[misc]
        pass

    x = keras.Input((4,))
    return Classifier(x, L.Dense(3, activation="softmax")(x))


def _bytes() -> Any:
    """A uint8 image."""
    x = keras.Input((6, 6, 3), dtype="uint8")
    return keras.Model(x, L.Conv2D(2, 3)(L.Rescaling(1 / 127.5, -1.0)(x)))


def _wrapped() -> Any:
    """Every merge mode, states in and out, cells one above the other, a layer on each step."""
    x, h = keras.Input((5, 3)), [keras.Input((4,)) for _ in range(4)]
    modes = ("concat", "sum", "mul", "ave", None)
    both = [L.Bidirectional(L.LSTM(4, return_sequences=True), merge_mode=m)(x) for m in modes]
    last = L.Bidirectional(L.GRU(4, return_state=True))(both[0], initial_state=h[:2])
    state = L.LSTM(4, return_state=True)(both[1], initial_state=h[2:])
    cells = [L.GRUCell(3), L.LSTMCell(2), L.LSTMCell(4), L.SimpleRNNCell(3)]
    stack = L.RNN(cells, return_sequences=True, go_backwards=True)(both[2])
    steps = L.TimeDistributed(L.LayerNormalization())(stack)
    return keras.Model([x, *h], [*both[3:4], *both[4], *last, *state, steps])


def _augmented() -> Any:
    """Augmentation in a network, alone and as a pipeline; weights that training normalises."""
    if not hasattr(L, "SpectralNormalization"):
        pytest.skip("this Keras has no SpectralNormalization")
    x = keras.Input((8, 8, 3))
    steps = [L.RandomFlip(), L.RandomRotation(0.2), L.RandomContrast(0.1), L.GaussianNoise(0.1)]
    h = L.Pipeline(steps)(x) if hasattr(L, "Pipeline") else keras.Sequential(steps)(x)
    h = L.SpectralNormalization(L.Conv2D(4, 3, activation="relu"))(L.CenterCrop(6, 5)(h))
    return keras.Model(x, L.SpectralNormalization(L.Dense(2))(L.Flatten()(L.RandomZoom(0.2)(h))))


MODELS = [
    _augmented, _nested, _frozen, _deep, _sequential, _begins_with_model, _shared_layer, _by_name,
    _own_class, _bytes, _wrapped,
]  # fmt: skip


@pytest.mark.parametrize("make", MODELS, ids=lambda m: m.__name__.strip("_"))
def test_model(make: Callable[[], Any], tmp_path: Path) -> None:
    model = make()
    rng = np.random.default_rng(5)
    for part in _parts(model):
        randomize(part, rng)
    data = [
        rng.integers(0, 256, (2, *x.shape[1:])).astype(np.uint8)
        if "uint8" in str(x.dtype)
        else rng.standard_normal((2, *x.shape[1:])).astype(np.float32)
        for x in model.inputs
    ]
    check(model, data, tmp_path, batch=2)


def _parts(model: Any) -> Iterator[Any]:
    yield model
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _parts(layer)
