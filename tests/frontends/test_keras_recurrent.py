"""Recurrent layers of Keras, in files of Keras 2 and of Keras 3, against cells written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ops.recurrent.base import Recurrent
from cannery.passes import run_passes
from frontends.keras_files import (
    LayerSpec,
    Model,
    config_of,
    image,
    write_h5,
    write_keras,
)

T, F, H = 5, 3, 4
X = np.random.default_rng(7).standard_normal((1, T, F)).astype(np.float32)
GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
FORMATS = [("2.2.4", False), ("2.15.0", False), ("3.8.0", False), ("2.15.0", True), ("3.8.0", True)]
SIGMOID: Callable[[Any], Any] = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731

Array = NDArray[Any]
Weights = Mapping[str, Array]


def weights(kind: str, at: str = "cell", features: int = F, seed: int = 0, **kw: Any) -> Weights:
    """The variables of a cell, called after the attributes that hold it."""
    rng, g = np.random.default_rng(seed), GATES[kind]
    bias = (2, g * H) if kw.get("reset_after") else (g * H,)
    shapes = {"kernel": (features, g * H), "recurrent_kernel": (H, g * H), "bias": bias}
    return {f"{at}/{k}": rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}


def lstm(x: Array, w: Weights, at: str = "cell", gate: Any = SIGMOID, states: Any = None) -> Any:
    """Outputs of all steps, and the states after the last one."""
    h, c = states or (np.zeros(H), np.zeros(H))
    k, r, b = (w[f"{at}/{n}"].astype(np.float64) for n in ("kernel", "recurrent_kernel", "bias"))
    found = []
    for step in x:
        i, f, g, o = np.split(step @ k + h @ r + b, 4)
        c = gate(f) * c + gate(i) * np.tanh(g)
        h = gate(o) * np.tanh(c)
        found.append(h)
    return np.stack(found), h, c


def gru(x: Array, w: Weights, at: str = "cell", *, after: bool) -> Array:
    h, found = np.zeros(H), []
    k, r, b = (w[f"{at}/{n}"].astype(np.float64) for n in ("kernel", "recurrent_kernel", "bias"))
    first, second = b if after else (b, np.zeros_like(b))
    for step in x:
        xz, xr, xh = np.split(step @ k + first, 3)
        hz, hr, hh = np.split(h @ r + second, 3)
        z, reset = SIGMOID(xz + hz), SIGMOID(xr + hr)
        inner = reset * hh if after else (reset * h) @ r[:, 2 * H :]
        h = z * h + (1 - z) * np.tanh(xh + inner)
        found.append(h)
    return np.stack(found)


def net(spec: LayerSpec, outputs: int = 1, states: int = 0) -> Model:
    inputs = [image("x", T, F), *(image(f"s{k}", H) for k in range(states))]
    names = [i.name for i in inputs]
    call: Any = {"inputs": names[:1], "initial_state": names[1:]} if states else names
    layer = LayerSpec(spec.class_name, spec.name, [call], spec.config, spec.weights)
    return Model("net", [*inputs, layer], names, [(spec.name, 0, k) for k in range(outputs)])


def load(folder: Path, model: Model, version: str = "3.8.0", archive: bool = True) -> Graph:
    write = write_keras if archive else write_h5
    return load_graph(write(folder / "model", model, version))


def run(graph: Graph, **states: Array) -> list[Array]:
    return list(evaluate(graph, {"x": X, **states}).values())


def layer(kind: str, **config: Any) -> LayerSpec:
    given = {"units": H, "return_sequences": True, **config}
    return LayerSpec(kind, "r", (), given, weights(kind, **given))


def ops(graph: Graph) -> list[Recurrent]:
    return [n.op for n in run_passes(graph).nodes if isinstance(n.op, Recurrent)]


@pytest.mark.parametrize(("version", "archive"), FORMATS)
def test_lstm_in_every_format(version: str, archive: bool, tmp_path: Path) -> None:
    spec = layer("LSTM", return_state=True, recurrent_activation="hard_sigmoid")
    graph = load(tmp_path, net(spec, 3, 2), version, archive)
    h, c = np.full((1, H), 0.5), np.full((1, H), -0.3)
    slope = 1 / 6 if version.startswith("3") else 0.2
    expected = lstm(
        X[0], spec.weights, gate=lambda x: np.clip(slope * x + 0.5, 0, 1), states=(h[0], c[0])
    )
    for y, reference in zip(run(graph, s0=h, s1=c), expected, strict=True):
        assert np.allclose(y[0], reference, atol=1e-6)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_gru(after: bool, backwards: bool, tmp_path: Path) -> None:
    spec = layer("GRU", reset_after=after, go_backwards=backwards)
    (y,) = run(load(tmp_path, net(spec)))
    x = X[0, ::-1] if backwards else X[0]  # outputs come in the order in which they are computed
    assert np.allclose(y[0], gru(x, spec.weights, after=after), atol=1e-6)


def test_simple_rnn_returns_its_last_output(tmp_path: Path) -> None:
    spec = layer("SimpleRNN", return_sequences=False, activation="relu")
    graph = load(tmp_path, net(spec))
    h = np.zeros(H)
    for step in X[0]:
        w = spec.weights
        h = np.maximum(step @ w["cell/kernel"] + h @ w["cell/recurrent_kernel"] + w["cell/bias"], 0)
    assert np.allclose(run(graph)[0][0], h, atol=1e-5)
    assert [op.returns for op in ops(graph)] == [("hidden",)]


def wrapper(kind: str, mode: str | None, *, given: bool, **config: Any) -> LayerSpec:
    inner = {"units": H, "return_sequences": True, **config}
    one = {"class_name": kind, "config": {"name": "f", **inner}}
    other = {"class_name": kind, "config": {"name": "b", **inner, "go_backwards": True}}
    both = {"layer": one, "merge_mode": mode, **({"backward_layer": other} if given else {})}
    stored = {
        **weights(kind, "forward_layer/cell"), **weights(kind, "backward_layer/cell", seed=1)
    }  # fmt: skip
    return LayerSpec("Bidirectional", "r", (), both, stored)


MERGES: Mapping[str | None, Callable[[Array, Array], Array]] = {
    "concat": lambda a, b: np.concatenate([a, b], axis=-1), "sum": np.add, "mul": np.multiply,
    "ave": lambda a, b: (a + b) / 2,
}  # fmt: skip


@pytest.mark.parametrize("mode", MERGES)
@pytest.mark.parametrize(("version", "archive"), FORMATS)
def test_both_directions_are_one_node(
    mode: str, version: str, archive: bool, tmp_path: Path
) -> None:
    spec = wrapper("LSTM", mode, given=version.startswith("3"))
    graph = load(tmp_path, net(spec), version, archive)
    first, _, _ = lstm(X[0], spec.weights, "forward_layer/cell")
    second, _, _ = lstm(X[0, ::-1], spec.weights, "backward_layer/cell")
    assert np.allclose(run(graph)[0][0], MERGES[mode](first, second[::-1]), atol=1e-6)
    assert [op.reverse for op in ops(graph)] == [(False, True)]


@pytest.mark.parametrize(("version", "archive"), FORMATS)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("kind", "more"),
    [("LSTM", {}), ("GRU", {}), ("GRU", {"reset_after": True}), ("SimpleRNN", {})],
)
def test_each_direction_has_its_own_activations(
    kind: str, more: Mapping[str, Any], backwards: bool, version: str, archive: bool, tmp_path: Path
) -> None:
    """Both at once are what each of them is alone; `backwards` is the first one."""
    gates = [{"recurrent_activation": g} for g in ("sigmoid", "hard_sigmoid")]
    both: dict[str, Any]
    both, expected, stored = {"merge_mode": "concat"}, [], dict[str, Array]()
    for k, (side, activation) in enumerate((("forward", "softsign"), ("backward", "relu"))):
        given = {
            "units": H,
            "return_sequences": True,
            "activation": activation,
            **more,
            **({} if kind == "SimpleRNN" else gates[k]),
            "go_backwards": bool(k) != backwards,
        }
        inner = {"class_name": kind, "config": {"name": side, **given}}
        both |= {("backward_layer" if k else "layer"): inner}
        stored |= weights(kind, f"{side}_layer/cell", seed=k, **more)
        alone = LayerSpec(kind, "r", (), given, weights(kind, seed=k, **more))
        y = run(load(tmp_path, net(alone), version, archive))[0]
        expected.append(y[:, ::-1] if k else y)
    spec = LayerSpec("Bidirectional", "r", (), both, stored)
    (found,) = run(load(tmp_path, net(spec), version, archive))
    assert np.allclose(found, np.concatenate(expected, axis=-1), atol=1e-6)


def test_both_directions_apart_with_states(tmp_path: Path) -> None:
    spec = wrapper("LSTM", None, given=True, return_sequences=False, return_state=True)
    states = {f"s{k}": np.full((1, H), 0.1 * k) for k in range(4)}
    found = run(load(tmp_path, net(spec, 6, 4)), **states)
    s = [v[0] for v in states.values()]
    _, h1, c1 = lstm(X[0], spec.weights, "forward_layer/cell", states=(s[0], s[1]))
    _, h2, c2 = lstm(X[0, ::-1], spec.weights, "backward_layer/cell", states=(s[2], s[3]))
    for y, reference in zip(found, (h1, h2, h1, c1, h2, c2), strict=True):
        assert np.allclose(y[0], reference, atol=1e-6)


@pytest.mark.parametrize(("version", "archive"), FORMATS)
def test_cells_one_above_the_other(version: str, archive: bool, tmp_path: Path) -> None:
    cells = [{"class_name": "LSTMCell", "config": {"name": n, "units": H}} for n in "ab"]
    stack = {"class_name": "StackedRNNCells", "config": {"name": "s", "cells": cells}}
    stored = {
        **weights("LSTM", "cell/cells/lstm_cell"),
        **weights("LSTM", "cell/cells/lstm_cell_1", features=H, seed=1),
    }
    spec = LayerSpec("RNN", "r", (), {"cell": stack, "return_state": True}, stored)
    found = run(load(tmp_path, net(spec, 5), version, archive))
    y, h1, c1 = lstm(X[0], stored, "cell/cells/lstm_cell")
    _, h2, c2 = lstm(y, stored, "cell/cells/lstm_cell_1")
    for each, reference in zip(found, (h2, h1, c1, h2, c2), strict=True):
        assert np.allclose(each[0], reference, atol=1e-6)


def test_peepholes_by_their_cell(tmp_path: Path) -> None:
    cell = {"class_name": "PeepholeLSTMCell", "config": {"name": "c", "units": H}}
    gates = {f"cell/{g}_gate_peephole_weights": np.full(H, k, np.float32)
             for g, k in (("input", 0.1), ("forget", 0.2), ("output", 0.3))}  # fmt: skip
    spec = LayerSpec("RNN", "r", (), {"cell": cell}, {**weights("LSTM"), **gates})
    h, c, w = np.zeros(H), np.zeros(H), spec.weights
    for step in X[0].astype(np.float64):
        i, f, g, o = np.split(
            step @ w["cell/kernel"] + h @ w["cell/recurrent_kernel"] + w["cell/bias"], 4
        )
        i, f = SIGMOID(i + 0.1 * c), SIGMOID(f + 0.2 * c)
        c = f * c + i * np.tanh(g)
        h = SIGMOID(o + 0.3 * c) * np.tanh(c)
    assert np.allclose(run(load(tmp_path, net(spec)))[0][0], h, atol=1e-6)


@pytest.mark.parametrize("class_name", ["Dense", "LayerNormalization"])
def test_a_layer_on_each_step(class_name: str, tmp_path: Path) -> None:
    config = {"units": 2} if class_name == "Dense" else {"axis": [-1], "epsilon": 1e-3}
    rng = np.random.default_rng(0)
    shapes = {"kernel": (F, 2), "bias": (2,)} if class_name == "Dense" else {"gamma": F, "beta": F}
    stored = {f"layer/{k}": rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}
    inner = {"class_name": class_name, "config": {"name": "i", **config}}
    spec = LayerSpec("TimeDistributed", "r", (), {"layer": inner}, stored)
    a, b = stored.values()
    if class_name == "Dense":
        expected = X[0] @ a + b
    else:
        centred = X[0] - X[0].mean(axis=1, keepdims=True)
        expected = centred / np.sqrt(X[0].var(axis=1, keepdims=True) + 1e-3) * a + b
    assert np.allclose(run(load(tmp_path, net(spec)))[0][0], expected, atol=1e-5)


def on_each_step(model: Model, stored: Weights, version: str, *, archive: bool) -> LayerSpec:
    """A model in TimeDistributed, its weights by their groups in an archive."""
    inner = config_of(model, version, archive)
    return LayerSpec("TimeDistributed", "r", (), {"layer": inner}, stored)


@pytest.mark.parametrize(("version", "archive"), FORMATS)
@pytest.mark.parametrize("sequential", [False, True])
def test_a_model_on_each_step(
    version: str, archive: bool, sequential: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    config = {"units": F, "use_bias": False, "activation": "tanh"}
    norm = {"axis": [-1], "epsilon": 1e-3}
    layers = [
        image("i", F), LayerSpec("Dense", "a", [["i"]], config),
        LayerSpec("BatchNormalization", "n", [["a"]], norm),
    ]  # fmt: skip
    stored = {"layer/layers/dense/kernel": rng.standard_normal((F, F))}
    stored |= {f"layer/layers/batch_normalization/{k}": rng.uniform(0.5, 1.0, F)
               for k in ("gamma", "beta", "moving_mean", "moving_variance")}  # fmt: skip
    stored = {k: v.astype(np.float32) for k, v in stored.items()}
    if sequential:
        model = Model("inner", layers)
    else:
        layers.append(LayerSpec("Add", "sum", [["n", "i"]]))
        model = Model("inner", layers, ["i"], ["sum"])
    spec = on_each_step(model, stored, version, archive=archive)
    kernel, gamma, beta, mean, variance = (v.astype(np.float64) for v in stored.values())
    y = (np.tanh(X[0] @ kernel) - mean) / np.sqrt(variance + 1e-3) * gamma + beta
    found = run(load(tmp_path, net(spec), version, archive))[0]
    assert found.shape == (1, T, F)
    assert np.allclose(found[0], y if sequential else y + X[0], atol=1e-6)


@pytest.mark.parametrize(("version", "archive"), FORMATS)
def test_a_model_on_each_step_of_each_step(version: str, archive: bool, tmp_path: Path) -> None:
    """Sequences of sequences: a dense layer and a recurrent one for each of the inner ones."""
    held = {**weights("LSTM", features=2), "kernel": X[0, :F, :2], "bias": X[0, 0, :2]}
    places = {"kernel": "dense/kernel", "bias": "dense/bias"}
    stored = {f"layer/layer/layers/{places.get(k, f'lstm/{k}')}": v for k, v in held.items()}
    stored = dict(sorted(stored.items(), key=lambda item: "lstm" in item[0]))
    inner = Model("inner", [
        image("i", T, F), LayerSpec("Dense", "a", (), {"units": 2}),
        LayerSpec("LSTM", "b", (), {"units": H}),
    ])  # fmt: skip
    each = on_each_step(inner, {}, version, archive=archive)
    wrapped = {"class_name": each.class_name, "config": {"name": "w", **each.config}}
    spec = LayerSpec("TimeDistributed", "r", [["x"]], {"layer": wrapped}, stored)
    model = Model("net", [image("x", 2, 3, T, F), spec], ["x"], ["r"])
    x = np.stack([X[0], -X[0], X[0] / 2, 2 * X[0], X[0] / 4, 3 * X[0]]).reshape(1, 2, 3, T, F)
    (found,) = evaluate(load(tmp_path, model, version, archive), {"x": x}).values()
    assert found.shape == (1, 2, 3, H)
    for y, steps in zip(found.reshape(6, H), x.reshape(6, T, F), strict=True):
        dense = steps.astype(np.float64) @ held["kernel"] + held["bias"]
        assert np.allclose(y, lstm(dense, held)[0][-1], atol=1e-6)


def test_a_layer_on_each_step_of_each_step(tmp_path: Path) -> None:
    kernel = X[0, :F]
    inner = {"class_name": "Dense", "config": {"name": "i", "units": F, "use_bias": False}}
    wrapped = {"class_name": "TimeDistributed", "config": {"name": "w", "layer": inner}}
    stored = {"layer/layer/kernel": kernel}
    spec = LayerSpec("TimeDistributed", "r", [["x"]], {"layer": wrapped}, stored)
    graph = load(tmp_path, Model("net", [image("x", 2, T, F), spec], ["x"], ["r"]))
    x = np.stack([X[0], -X[0]])[None]
    assert np.allclose(evaluate(graph, {"x": x})["r"], x @ kernel, atol=1e-5)


def test_a_model_of_two_inputs_on_each_step_is_refused(tmp_path: Path) -> None:
    layers = [image("a", F), image("b", F), LayerSpec("Add", "sum", [["a", "b"]])]
    model = Model("inner", layers, ["a", "b"], ["sum"])
    each = on_each_step(model, {}, "3.8.0", archive=True)
    wrapped = {"class_name": each.class_name, "config": {"name": "w", **each.config}}
    for spec in (each, LayerSpec("TimeDistributed", "r", (), {"layer": wrapped})):
        with pytest.raises(UnsupportedError, match=r"'r'.*a model with several inputs"):
            load(tmp_path, net(spec))


def test_time_that_is_open_is_called_so(tmp_path: Path) -> None:
    def sequences(*shape: int | None, kind: str) -> Model:
        x = LayerSpec("InputLayer", "x", (), {"shape": [None, *shape], "dtype": "float32"})
        spec = layer(kind) if kind == "LSTM" else LayerSpec(kind, "r", (), {})
        return Model("net", [x, replace(spec, calls=[["x"]])], ["x"], ["r"])

    message = r"input 'x': dimension 1 is open, and is the time of .*--dim x\.1=n"
    with pytest.raises(UnsupportedError, match=message):
        load(tmp_path, sequences(None, F, kind="LSTM"))
    with pytest.raises(UnsupportedError, match=r"input 'x': dimension 1 is open \(fix"):
        load(tmp_path, sequences(None, F, kind="ReLU"))


def cell_of(class_name: str) -> Mapping[str, Any]:
    return {"class_name": class_name, "config": {"name": "c", "units": H}}


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (layer("LSTM", activation="softmax"), UnsupportedError, "'softmax' inside a cell"),
        (layer("GRU", stateful=True), UnsupportedError, "it is stateful"),
        (layer("LSTM", time_major=True), UnsupportedError, "time_major=True is unknown"),
        (LayerSpec("RNN", "r", (), {"cell": cell_of("MyCell")}), UnsupportedError, "'MyCell'"),
        (LayerSpec("RNN", "r", (), {}), ModelError, "cell is None"),
        (LayerSpec("Bidirectional", "r", (), {"layer": cell_of("Dense")}), UnsupportedError,
         "wraps 'Dense'"),
        (wrapper("LSTM", "max", given=True), UnsupportedError, "merge_mode 'max'"),
        (wrapper("LSTM", "sum", given=True, go_backwards=True), ModelError, "same direction"),
    ],
)  # fmt: skip
def test_faults_are_one_clear_error(
    spec: LayerSpec, error: type[CanneryError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        load(tmp_path, net(spec))
