"""Compares imported models with Keras itself: every layer, many parameters, both file formats.

Manual, because it needs Keras (2 or 3):

    pip install keras tensorflow-cpu tf_keras
    python -m pytest -m slow tests/frontends/compare_with_keras.py
    CANNERY_KERAS=tf_keras python -m pytest -m slow tests/frontends/compare_with_keras.py

Parameters that this version of Keras refuses are skipped. Some versions fail here because they lose
attributes when they save: Keras 2.12 `invert` of Normalization, Keras 3.0 to 3.8 `output_padding`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from cannery.frontends import ImportOptions, load_graph
from cannery.ir.evaluate import evaluate

keras = pytest.importorskip(os.environ.get("CANNERY_KERAS", "keras"))
pytestmark = pytest.mark.slow

L = keras.layers
IS_3 = keras.__version__.startswith("3")
FORMATS = ("h5", "keras")

#: Largest error allowed, relative to the range of the output; Keras computes in float32.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Case:
    """One layer with its parameters; shapes of its inputs are without the batch."""

    layer: str
    shapes: tuple[tuple[int, ...], ...]
    options: Mapping[str, Any]

    def __str__(self) -> str:
        options = ",".join(f"{k}={_name(v)}" for k, v in self.options.items())
        return f"{self.layer}({options})-{'-'.join('x'.join(map(str, s)) for s in self.shapes)}"


def _name(value: Any) -> str:
    return value.__name__ if callable(value) else str(value).replace(" ", "")


def grid(layer: str, *shapes: Any, **options: list[Any]) -> Iterator[Case]:
    """Every combination of the options; a shape may be a list of the shapes of several inputs."""
    for shape, values in product(shapes, product(*options.values())):
        inputs = tuple(shape) if isinstance(shape, list) else (shape,)
        yield Case(layer, inputs, dict(zip(options, values, strict=True)))


def _activation_layer(name: str, **options: Any) -> Any:
    def make() -> Any:
        return getattr(L, name)(**options)

    make.__name__ = name
    return make


FUNCTIONS = (
    "relu relu6 leaky_relu elu selu celu gelu silu swish mish softplus softsign tanh sigmoid "
    "hard_sigmoid hard_silu hard_swish hard_tanh exponential softmax log_softmax linear "
    "log_sigmoid tanh_shrink soft_shrink"
).split()


def _convolutions() -> Iterator[Case]:
    image, line = (9, 8, 6), (11, 6)
    both, same = ["valid", "same"], ["valid", "same", "causal"]
    yield from grid(
        "Conv2D",
        image,
        filters=[4],
        kernel_size=[(3, 2), 4],
        strides=[1, (2, 3)],
        padding=both,
        use_bias=[True, False],
    )
    yield from grid(
        "Conv2D",
        image,
        filters=[6],
        kernel_size=[3],
        groups=[1, 2, 3, 6],
        dilation_rate=[1, (2, 3)],
        padding=both,
    )
    yield from grid(
        "Conv2D",
        image,
        filters=[5],
        kernel_size=[(2, 3)],
        padding=both,
        strides=[1, 2],
        data_format=["channels_first"],
        activation=["relu", "softmax"],
    )
    yield from grid(
        "Conv2D",
        image,
        filters=[5],
        kernel_size=[1],
        activation=[
            *FUNCTIONS,
            _activation_layer("LeakyReLU"),
            _activation_layer("PReLU"),
            _activation_layer("ReLU", max_value=0.5, negative_slope=0.1),
            _activation_layer("ELU"),
            _activation_layer("Softmax", axis=1),
        ],
    )
    yield from grid("Conv1D", line, filters=[4], kernel_size=[2, 5], strides=[1, 3], padding=same)
    yield from grid(
        "Conv1D",
        line,
        filters=[4],
        kernel_size=[3],
        dilation_rate=[2, 3],
        groups=[1, 2],
        padding=same,
    )
    yield from grid(
        "Conv1D",
        line,
        filters=[4],
        kernel_size=[3],
        padding=["same"],
        data_format=["channels_first"],
    )
    yield from grid(
        "SeparableConv2D",
        image,
        filters=[5],
        kernel_size=[3, (2, 4)],
        depth_multiplier=[1, 3],
        strides=[1, 2],
        padding=both,
        activation=["relu"],
    )
    yield from grid(
        "SeparableConv2D",
        image,
        filters=[5],
        kernel_size=[3],
        dilation_rate=[2],
        padding=both,
        use_bias=[True, False],
    )
    yield from grid(
        "SeparableConv1D",
        line,
        filters=[5],
        kernel_size=[3, 4],
        strides=[1, 2],
        depth_multiplier=[1, 2],
        padding=same,
    )
    yield from grid(
        "SeparableConv1D", line, filters=[5], kernel_size=[3], dilation_rate=[2], padding=same
    )
    yield from grid(
        "DepthwiseConv2D",
        image,
        kernel_size=[3, (2, 4)],
        depth_multiplier=[1, 3],
        strides=[1, 2],
        padding=both,
    )
    yield from grid(
        "DepthwiseConv2D",
        image,
        kernel_size=[3],
        dilation_rate=[2],
        padding=both,
        use_bias=[True, False],
        activation=["tanh"],
    )
    yield from grid(
        "DepthwiseConv1D",
        line,
        kernel_size=[3, 4],
        depth_multiplier=[1, 2],
        strides=[1, 2],
        padding=both,
    )
    yield from grid("DepthwiseConv1D", line, kernel_size=[3], dilation_rate=[2], padding=both)


def _transposed() -> Iterator[Case]:
    both = ["valid", "same"]
    image, line = (4, 5, 3), (6, 3)
    yield from grid(
        "Conv2DTranspose",
        image,
        filters=[4],
        kernel_size=[1, 2, 3, (4, 5)],
        strides=[1, 2, (3, 2)],
        padding=both,
        use_bias=[True],
    )
    yield from grid(
        "Conv2DTranspose",
        image,
        filters=[4],
        kernel_size=[2, 3, (4, 5)],
        strides=[2, (3, 4)],
        padding=both,
        output_padding=[0, 1, (1, 0)],
    )
    yield from grid(
        "Conv2DTranspose",
        image,
        filters=[4],
        kernel_size=[2, 3],
        dilation_rate=[2, (2, 3)],
        padding=both,
        activation=["relu"],
    )
    yield from grid(
        "Conv2DTranspose",
        image,
        filters=[4],
        kernel_size=[3],
        strides=[2],
        padding=["same"],
        data_format=["channels_first"],
        use_bias=[False, True],
    )
    yield from grid(
        "Conv1DTranspose",
        line,
        filters=[4],
        kernel_size=[1, 2, 3, 4],
        strides=[1, 2, 3],
        padding=both,
    )
    yield from grid(
        "Conv1DTranspose",
        line,
        filters=[4],
        kernel_size=[3, 4],
        strides=[3],
        padding=both,
        output_padding=[0, 1, 2],
    )


def _pools() -> Iterator[Case]:
    image, line = (9, 8, 3), (11, 3)
    both = ["valid", "same"]
    formats = ["channels_last", "channels_first"]
    for kind in ("Max", "Average"):
        yield from grid(
            f"{kind}Pooling2D",
            image,
            pool_size=[2, (3, 2)],
            strides=[None, 1, (2, 3)],
            padding=both,
            data_format=formats,
        )
        yield from grid(
            f"{kind}Pooling1D",
            line,
            pool_size=[2, 3],
            strides=[None, 1, 4],
            padding=both,
            data_format=formats,
        )
        yield from grid(
            f"Global{kind}Pooling2D", image, keepdims=[False, True], data_format=formats
        )
        yield from grid(f"Global{kind}Pooling1D", line, keepdims=[False, True], data_format=formats)


def _normalizations() -> Iterator[Case]:
    onoff = [True, False]
    image = (5, 4, 6)
    yield from grid(
        "BatchNormalization", image, axis=[-1, 1, 2], scale=onoff, center=onoff, epsilon=[1e-3, 0.1]
    )
    yield from grid("BatchNormalization", (7,), (5, 6), axis=[-1, 1])
    yield from grid("BatchNormalization", image, renorm=[True])
    yield from grid("BatchNormalization", image, axis=[[1, 3], [2, 1]])
    yield from grid(
        "LayerNormalization",
        image,
        axis=[-1, 2, [1, 2], [3, 1], [-1, -2, -3]],
        scale=onoff,
        center=onoff,
        epsilon=[1e-3],
    )
    yield from grid("LayerNormalization", image, (6,), axis=[-1], rms_scaling=[True])
    yield from grid("LayerNormalization", image, axis=[[1, 3]], rms_scaling=[True])
    yield from grid(
        "GroupNormalization",
        image,
        groups=[1, 2, 6, -1],
        axis=[-1],
        scale=onoff,
        center=onoff,
        epsilon=[0.01],
    )
    yield from grid("GroupNormalization", image, groups=[5, 1], axis=[1])
    yield from grid("GroupNormalization", image, groups=[2], axis=[-2])
    yield from grid("GroupNormalization", (8,), groups=[2])


def _activations() -> Iterator[Case]:
    image = (3, 4, 5)
    yield from grid("Activation", image, (6,), activation=FUNCTIONS)
    yield from grid(
        "ReLU", image, max_value=[None, 0.5, 6.0], negative_slope=[0.0, 0.2], threshold=[0.0, 0.25]
    )
    yield from grid("LeakyReLU", image)
    yield from grid("LeakyReLU", image, **{"negative_slope" if IS_3 else "alpha": [0.0, 0.1, 1.5]})
    yield from grid("PReLU", image, shared_axes=[None, [1, 2], [3]])
    yield from grid("ELU", image, alpha=[1.0, 0.3])
    yield from grid("ThresholdedReLU", image, theta=[0.5])
    yield from grid("Softmax", image, axis=[-1, 1, 2, [1, 2], [-1], [1, 3], [1, 2, 3]])


def _shapes() -> Iterator[Case]:
    image, line = (6, 5, 4), (6, 4)
    formats = ["channels_last", "channels_first"]
    yield from grid("Flatten", image, line, (4,), data_format=formats)
    yield from grid("Reshape", image, target_shape=[(30, 4), (-1,), (2, -1, 3), (120,), (5, 6, 4)])
    yield from grid("Permute", image, dims=[(1, 2, 3), (3, 1, 2), (2, 1, 3)])
    yield from grid("RepeatVector", (5,), n=[1, 3])
    yield from grid(
        "ZeroPadding2D", image, padding=[1, (2, 0), ((1, 2), (3, 0))], data_format=formats
    )
    yield from grid("ZeroPadding1D", line, padding=[1, (2, 0)])
    yield from grid(
        "Cropping2D", image, cropping=[1, (2, 0), ((1, 2), (2, 0))], data_format=["channels_last"]
    )
    yield from grid(
        "Cropping2D", image, cropping=[1, ((1, 2), (2, 0))], data_format=["channels_first"]
    )
    yield from grid("Cropping1D", line, cropping=[1, (2, 0)])
    yield from grid(
        "UpSampling2D",
        image,
        size=[2, (1, 3)],
        data_format=formats,
        interpolation=["nearest", "bilinear"],
    )
    yield from grid("UpSampling2D", (1, 3, 2), size=[(4, 5)], interpolation=["bilinear"])
    yield from grid("UpSampling1D", line, size=[2, 3])
    for name in "Dropout GaussianDropout GaussianNoise AlphaDropout".split():
        yield from grid(name, image, **{"stddev" if name == "GaussianNoise" else "rate": [0.3]})
    yield from grid("SpatialDropout1D", line, rate=[0.3])
    yield from grid("SpatialDropout2D", image, rate=[0.3])
    yield from grid("ActivityRegularization", image, l1=[0.1])
    yield from grid("Identity", image)


def _merges() -> Iterator[Case]:
    image = (3, 4, 5)
    for name in "Add Multiply Average Maximum Minimum".split():
        yield from grid(name, [image] * 2, [image] * 3, [image, (5,)], [(1, 5), image, (1, 4, 1)])
    yield from grid("Subtract", [image, image], [(5,), image])
    yield from grid("Concatenate", [image, (3, 4, 2), (3, 4, 1)], axis=[-1, 3])
    yield from grid("Concatenate", [image, (3, 2, 5)], axis=[2])
    yield from grid("Dot", [(6,), (6,)], axes=[1, -1, (1, 1)], normalize=[False, True])
    yield from grid("Dot", [(3, 6), (4, 6)], axes=[2, -1, (2, 2)], normalize=[False, True])
    yield from grid("Dot", [(6, 3), (4, 6)], axes=[(1, 2)], normalize=[False, True])
    yield from grid("Dot", [(6,), (4, 6)], [(4, 6), (6,)], [(2, 3, 6), (6,)], axes=[-1])
    yield from grid("Dot", [(2, 6, 3), (6, 4, 5)], axes=[(2, 1)], normalize=[False, True])


def _preprocessing() -> Iterator[Case]:
    image = (3, 4, 5)
    vector = [0.5, 1.0, -2.0, 0.1, 4.0]
    yield from grid(
        "Rescaling",
        image,
        scale=[1 / 127.5, 1.0, np.array(vector)],
        offset=[-1.0, 0.0, np.array(vector)],
    )
    yield from grid(
        "Normalization", image, axis=[-1, 1, (1, 3), None, (3, 1)], invert=[False, True]
    )
    yield from grid(
        "Normalization",
        image,
        axis=[-1],
        mean=[vector],
        invert=[False, True],
        variance=[[0.5, 1.0, 2.0, 0.0, 4.0]],
    )
    yield from grid("Normalization", image, axis=[None], mean=[3.0], variance=[0.25])
    yield from grid("Dense", (7,), (3, 7), image, (2, 3, 4, 7), units=[4], use_bias=[True, False])
    yield from grid("Dense", (7,), (3, 7), units=[4], activation=FUNCTIONS)


CASES = [
    *_convolutions(), *_transposed(), *_pools(), *_normalizations(), *_activations(), *_shapes(),
    *_merges(), *_preprocessing(),
]  # fmt: skip


def make_layer(case: Case) -> Any:
    """The layer; skips what this version of Keras does not have."""
    if not hasattr(L, case.layer):
        pytest.skip(f"this Keras has no {case.layer}")
    options = dict(case.options)
    made = options.get("activation")
    if callable(made):
        options["activation"] = made()
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
    wanted = [np.asarray(y) for y in _flat(expected)]
    for path in save(model, folder):
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
    model = keras.Model(inputs, output)
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
    """A functional model of a class of its own."""

    class Classifier(keras.Model):  # type: ignore[misc]
        pass

    x = keras.Input((4,))
    return Classifier(x, L.Dense(3, activation="softmax")(x))


def _bytes() -> Any:
    """A uint8 image."""
    x = keras.Input((6, 6, 3), dtype="uint8")
    return keras.Model(x, L.Conv2D(2, 3)(L.Rescaling(1 / 127.5, -1.0)(x)))


MODELS = [
    _nested, _frozen, _deep, _sequential, _begins_with_model, _shared_layer, _by_name, _own_class,
    _bytes,
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
