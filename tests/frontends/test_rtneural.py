"""RTNeural's JSON: the same networks as Keras models, and what is refused."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends import load_graph
from cannery.frontends.options import ImportOptions
from cannery.frontends.streaming import to_streaming
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from frontends.causal_nets import call_by_call
from frontends.keras_files import LayerSpec, chain, image, layer, write_h5
from frontends.rtneural_files import describe, write_json

STEPS = 24


class Maker:
    """Layers with weights, and the shapes of their outputs."""

    def __init__(self, channels: int, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.shape: list[Any] = [None, None, channels]
        self.in_shape = list(self.shape)
        self.layers: list[tuple[LayerSpec, list[Any]]] = []

    def weight(self, *shape: int) -> NDArray[np.float32]:
        return (self.rng.standard_normal(shape) * 0.5).astype(np.float32)

    def add(self, class_name: str, channels: int, config: Any, **weights: Any) -> None:
        self.shape = [*self.shape[:-1], channels]
        name = f"l{len(self.layers)}"
        self.layers.append((LayerSpec(class_name, name, (), config, weights), self.shape))

    @property
    def channels(self) -> int:
        return int(self.shape[-1])

    def dense(self, units: int, activation: str = "linear") -> None:
        config = {"units": units, "activation": activation}
        self.add("Dense", units, config, kernel=self.weight(self.channels, units),
                 bias=self.weight(units))  # fmt: skip

    def distributed(self, units: int) -> None:
        inner = {"class_name": "Dense", "config": {"name": "inner", "units": units}}
        weights = {"layer/kernel": self.weight(self.channels, units),
                   "layer/bias": self.weight(units)}  # fmt: skip
        self.add("TimeDistributed", units, {"layer": inner}, **weights)

    def conv(self, filters: int, size: int, dilation: int, activation: str) -> None:
        config = {"filters": filters, "kernel_size": [size], "dilation_rate": [dilation],
                  "strides": [1], "padding": "causal", "activation": activation}  # fmt: skip
        kernel = self.weight(size, self.channels, filters)
        self.add("Conv1D", filters, config, kernel=kernel, bias=self.weight(filters))

    def lstm(self, units: int) -> None:
        config = {"units": units, "return_sequences": True, "activation": "tanh"}
        self.add("LSTM", units, config, **{
            "cell/kernel": self.weight(self.channels, 4 * units),
            "cell/recurrent_kernel": self.weight(units, 4 * units),
            "cell/bias": self.weight(4 * units),
        })  # fmt: skip

    def gru(self, units: int) -> None:
        config = {"units": units, "return_sequences": True, "reset_after": True,
                  "activation": "tanh"}  # fmt: skip
        self.add("GRU", units, config, **{
            "cell/kernel": self.weight(self.channels, 3 * units),
            "cell/recurrent_kernel": self.weight(units, 3 * units),
            "cell/bias": self.weight(2, 3 * units),
        })  # fmt: skip

    def prelu(self) -> None:
        self.add("PReLU", self.channels, {"shared_axes": [1]}, alpha=self.weight(1, self.channels))

    def norm(self, *, affine: bool) -> None:
        n = self.channels
        weights = {"gamma": self.weight(n), "beta": self.weight(n)} if affine else {}
        config = {"epsilon": 1e-3, "scale": affine, "center": affine, "axis": -1}
        self.add("BatchNormalization", n, config, **weights, moving_mean=self.weight(n),
                 moving_variance=np.abs(self.weight(n)) + 0.1)  # fmt: skip

    def function(self, name: str) -> None:
        self.add("Activation", self.channels, {"activation": name})

    def describe(self) -> dict[str, Any]:
        return describe(self.layers, self.in_shape)


def run(graph: Graph, x: NDArray[Any]) -> NDArray[Any]:
    (y,) = evaluate(graph, {graph.inputs[0]: x}).values()
    return np.asarray(y)


def compare(maker: Maker, tmp_path: Path, keras: Sequence[LayerSpec] | None = None) -> Graph:
    """Check that the file computes what the Keras model does; returns the graph of the file."""
    rng = np.random.default_rng(2)
    inner = maker.in_shape[2:]
    x = rng.standard_normal((1, STEPS, *inner)).astype(np.float32)
    specs = [spec for spec, _ in maker.layers] if keras is None else keras
    model = write_h5(tmp_path / "m.h5", chain(image("x", STEPS, *inner), *specs))
    path = write_json(tmp_path / "m.json", maker.describe())
    graph = load_graph(path, ImportOptions(dims={"input.1": STEPS}))
    np.testing.assert_allclose(run(graph, x), run(load_graph(model), x), atol=1e-6)
    return graph


def everything() -> Maker:
    m = Maker(2)
    m.conv(4, 3, 2, "relu")
    m.norm(affine=True)
    m.prelu()
    m.gru(3)
    m.dense(5, "elu")
    m.conv(4, 2, 5, "linear")
    m.norm(affine=False)
    m.function("sigmoid")
    m.lstm(3)
    m.distributed(4)
    m.function("softmax")
    m.dense(1, "tanh")
    return m


def test_layers_are_those_of_keras(tmp_path: Path) -> None:
    compare(everything(), tmp_path)


def test_step_by_step(tmp_path: Path) -> None:
    whole = compare(everything(), tmp_path)
    options = ImportOptions(streaming=True, rename={"input": "x"})
    calls = to_streaming(load_graph(tmp_path / "m.json", options), 4)
    x = np.random.default_rng(3).standard_normal((1, STEPS, 2)).astype(np.float32)
    (results,) = call_by_call(calls, x, 4)[:1]
    np.testing.assert_allclose(np.concatenate(results, 1), run(whole, x), atol=2e-6)


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_features_with_filters(padding: str, tmp_path: Path) -> None:
    """Along time, its windows look back; along features, they are those of Keras."""
    m = Maker(2)
    m.shape = m.in_shape = [None, None, 7, 2]
    kernel, bias = m.weight(3, 4, 2, 3), m.weight(3)
    config = {"filters": 3, "kernel_size": [3, 4], "strides": [1, 2], "dilation_rate": [2, 1],
              "padding": padding, "activation": "tanh"}  # fmt: skip
    m.shape = [None, None, 4 if padding == "same" else 2, 2]
    m.add("Conv2D", 3, config, kernel=kernel, bias=bias)
    m.norm(affine=True)
    conv, norm = (spec for spec, _ in m.layers)
    features = int(m.shape[2])
    m.shape = [None, None, 3 * features]
    m.lstm(2)
    around = [1, 2] if padding == "same" else [0, 0]
    keras = [
        layer("ZeroPadding2D", "pad", padding=[[4, 0], around]),
        LayerSpec("Conv2D", "conv", (), {**conv.config, "padding": "valid"}, conv.weights), norm,
        layer("Reshape", "flat", target_shape=[STEPS, 3 * features]), m.layers[-1][0],
    ]  # fmt: skip
    compare(m, tmp_path, keras)
    model = {**m.describe(), "layers": m.describe()["layers"][:2]}
    graph = load_graph(write_json(tmp_path / "m.json", model), ImportOptions(streaming=True))
    assert graph.notes == ("each output depends on the last 5 samples",)


def test_a_file_without_time(tmp_path: Path) -> None:
    """A step is all that there is."""
    m = Maker(3)
    m.dense(4, "relu")
    m.dense(2)
    model = m.describe()
    model["in_shape"] = [None, 3]
    graph = load_graph(write_json(tmp_path / "m.json", model))
    assert graph.types[graph.inputs[0]].shape == (1, 1, 3)
    m.gru(2)
    model = {**m.describe(), "in_shape": [None, 3]}
    with pytest.raises(ModelError, match="without time, but it has gru"):
        load_graph(write_json(tmp_path / "m.json", model))


def test_a_network_that_does_nothing(tmp_path: Path) -> None:
    entry = {"type": "activation", "activation": "", "shape": [None, None, 2], "weights": []}
    path = write_json(tmp_path / "m.json", {"in_shape": [None, None, 2], "layers": [entry]})
    x = np.random.default_rng(5).standard_normal((1, 4, 2)).astype(np.float32)
    np.testing.assert_array_equal(run(load_graph(path, ImportOptions(dims={"input.1": 4})), x), x)


def test_gains_and_the_input_beside_the_network(tmp_path: Path) -> None:
    """The fields of AIDA-X: only the first input is sound, others are knobs."""
    m = Maker(2)
    m.lstm(3)
    m.dense(1)
    x = np.random.default_rng(4).standard_normal((1, STEPS, 2)).astype(np.float32)

    def loaded(**more: Any) -> Graph:
        path = write_json(tmp_path / "m.json", {**m.describe(), **more})
        return load_graph(path, ImportOptions(dims={"input.1": STEPS}))

    louder = x * np.array([2, 1], np.float32)
    expected = 0.5 * (run(loaded(), louder) + louder[..., :1])
    decibels = 20 * np.log10(2)
    graph = loaded(in_skip=1, in_gain=decibels, out_gain=-decibels, metadata={"name": "a knob"},
                   samplerate=48000, input_batch=[0.5], output_batch=[0.25])  # fmt: skip
    np.testing.assert_allclose(run(graph, x), expected, atol=1e-6)
    assert graph.metadata == {"format": "RTNeural", "rtneural.name": "a knob"}
    assert graph.notes == ("trained at 48000 samples per second",)
    assert not run(loaded(out_gain=-100), x).any()


Change = Callable[[dict[str, Any]], Any]


def at(number: int, **changes: Any) -> Change:
    return lambda m: m["layers"][number].update(changes)


def weights(number: int, array: int, value: Any) -> Change:
    return lambda m: m["layers"][number]["weights"].__setitem__(array, value)


#: Layers 0 to 4 of `small`: conv1d, prelu, batchnorm, gru, dense.
REFUSED: list[tuple[Change, str]] = [
    (lambda m: m.update(more=1), "field more=1 is unknown"),
    (lambda m: m.update(layers=[]), "it has no layers"),
    (lambda m: m.update(layers=[7]), "layer 0 is 7, expected an object"),
    (lambda m: m.update(in_shape=[None]), "in_shape is .None., expected batch"),
    (lambda m: m.update(in_shape=[None, None, 0]), "expected whole numbers"),
    (lambda m: m.update(in_shape=[None, None, 3]), "layer 0 .conv1d.: its kernel has the shape"),
    (lambda m: m.update(in_skip=2), "in_skip is 2, expected 0 or 1"),
    (lambda m: m.update(in_skip="1"), "in_skip is '1', expected a whole number"),
    (lambda m: m.update(out_gain="loud"), "out_gain is 'loud', expected a finite number"),
    (lambda m: m.update(out_gain=1e9), "out_gain of 1e.09 dB is too large"),
    (at(0, type="conv3d"), "'conv3d' is not supported .*conv1d"),
    (at(0, type="unknown"), "layer 0 .unknown.: the type 'unknown' is not supported"),
    (at(0, type=None), "type is None"),
    (at(0, activation="swish"), "activation 'swish' .*tanh"),
    (at(0, activation=3), "activation is 3"),
    (at(0, strides=2), "field strides=2 is unknown"),
    (at(0, kernel_size=[2]), r"its kernel has the shape \[3, 2, 4\], expected \[2, 2, 4\]"),
    (at(0, kernel_size="3"), "kernel_size is '3'"),
    (at(0, dilation=[0]), "dilation is 0, expected a whole number from 1"),
    (at(0, groups=3), "3 groups of 2 channels"),
    (at(0, dilation=[2, 3]), r"dilation is .2, 3., expected one number"),
    (at(0, kernel_size=[]), r"kernel_size is .., expected one number"),
    (at(0, use_bias=False), "field use_bias=False is unknown"),
    (at(0, more=[]), "field more=.. is unknown"),
    (at(1, activation="tanh"), r"layer 1 .prelu.: activation 'tanh' .*of its own"),
    (at(2, activation="relu"), r"layer 2 .batchnorm.: activation 'relu' .*of its own"),
    (at(3, return_sequences=False), "field return_sequences=False is unknown"),
    (lambda m: m.update(samplerate=-1), "its sample rate is -1"),
    (at(0, shape=[None, None, 5]), "shape is .*, but its weights make 4 numbers"),
    (at(0, shape=7), "shape is 7, expected a list"),
    (at(0, weights=[]), "weights has 0 arrays, expected 2"),
    (weights(0, 0, [[1.0], [1.0, 2.0]]), "weights 0: they are not a regular array"),
    (weights(0, 0, 1.0), r"its kernel has the shape \[\], expected 3 dimensions"),
    (weights(0, 1, [1, 2, float("nan"), 3]), "weights 1: number 2 is nan"),
    (weights(0, 1, [1, 2, None, 3]), "None is not a number"),
    (weights(0, 1, [1, 2, 3]), r"its bias has the shape \[3\], expected \[4\]"),
    (weights(1, 0, [[1, 2, 3]]), "its slopes has the shape|slopes"),
    (weights(2, 3, [1, 2]), "its variance has the shape"),
    (weights(2, 3, [-1, 1, 1, 1]), "a variance of -1"),
    (at(2, epsilon="x"), "epsilon is 'x', expected a finite number"),
    (weights(3, 2, [0.0] * 9), r"its bias has the shape \[9\], expected \[2, 9\]"),
    (weights(3, 1, [[0.0] * 9]), "recurrent kernel has the shape"),
    (at(3, activation="relu"), "layer 3 .gru.: activation 'relu'"),
    (at(4, type="conv2d"), "its input has no axis of features"),
    (at(4, type="lstm"), "weights has 2 arrays, expected 3"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_is_refused(change: Change, message: str, tmp_path: Path) -> None:
    m = Maker(2)
    m.conv(4, 3, 2, "relu")
    m.prelu()
    m.norm(affine=True)
    m.gru(3)
    m.dense(1)
    model = copy.deepcopy(m.describe())
    change(model)
    with pytest.raises(ModelError) as caught:
        load_graph(write_json(tmp_path / "m.json", model), ImportOptions(streaming=True))
    assert re.search(message, str(caught.value)), caught.value


@pytest.mark.parametrize("kind", ["prelu", "batchnorm"])
def test_features_and_filters_as_one(kind: str, tmp_path: Path) -> None:
    """Layers without filters take the numbers of a step as RTNeural does: in a row."""
    rng = np.random.default_rng(6)
    numbers = np.abs(rng.standard_normal((4, 6))).astype(np.float32) + 0.1
    arrays = [numbers[:1].tolist()] if kind == "prelu" else numbers.tolist()
    entry = {"type": kind, "activation": "", "shape": [None, None, 3, 2], "weights": arrays}
    entry |= {"epsilon": 1e-3} if kind == "batchnorm" else {}
    path = write_json(tmp_path / "m.json", {"in_shape": [None, None, 3, 2], "layers": [entry]})
    x = rng.standard_normal((1, 4, 3, 2)).astype(np.float32)
    made = run(load_graph(path, ImportOptions(dims={"input.1": 4})), x)
    gamma, beta, mean, variance = numbers
    row = x.reshape(1, 4, 6)
    slopes = np.where(row < 0, row * numbers[0], row)
    normed = (row - mean) / np.sqrt(variance + 1e-3) * gamma + beta
    np.testing.assert_allclose(made, slopes if kind == "prelu" else normed, atol=1e-6)
    entry["weights"] = [[[1.0, 2.0]]] if kind == "prelu" else numbers[:, :2].tolist()
    with pytest.raises(ModelError, match=r"has the shape \[.*2\], expected \[.*6\]"):
        load_graph(write_json(path, {"in_shape": [None, None, 3, 2], "layers": [entry]}),
                   ImportOptions(dims={"input.1": 4}))  # fmt: skip


def test_softmax_of_filters_is_refused(tmp_path: Path) -> None:
    entry = {"type": "activation", "activation": "softmax", "shape": [None, None, 3, 2],
             "weights": []}  # fmt: skip
    path = write_json(tmp_path / "m.json", {"in_shape": [None, None, 3, 2], "layers": [entry]})
    with pytest.raises(UnsupportedError, match="softmax of features and channels"):
        load_graph(path, ImportOptions(dims={"input.1": 4}))
