"""LSTM layers of TensorFlow Lite that are read step by step: projected, normalised, clipped, with
weights of int8. Each runs several times, compared with numpy, and numpy with LiteRT.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cannery
from cannery.errors import ModelError, UnsupportedError
from cannery.frontends import load_graph
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from frontends.tflite_files import TfliteFile, runs_of_litert
from needs import need_program

Array = NDArray[Any]

SAMPLES, STEPS, WIDTH, CELLS, PROJECTED = 2, 4, 3, 6, 4


@dataclass(frozen=True)
class Layer:
    """What a layer has. `hybrid`: weights of int8; `asymmetric`: inputs of these have zeros."""

    projection: bool = False
    bias: bool = False
    norms: bool = False
    peepholes: bool = False
    coupled: bool = False
    cell_clip: float = 0.0
    projection_clip: float = 0.0
    hybrid: bool = False
    asymmetric: bool = False
    single: bool = False
    time_major: bool = False
    both: bool = False

    @property
    def hidden(self) -> int:
        """The width of the hidden state."""
        return PROJECTED if self.projection else CELLS

    def parameters(self, seed: int) -> list[Array | None]:
        """Inputs 1 to 17 and the factors of gates, as floats."""
        random = np.random.default_rng(seed)

        def weight(*shape: int) -> Array:
            return random.uniform(-1, 1, shape).astype(np.float32)

        found: list[Array | None] = [weight(CELLS, WIDTH) for _ in range(4)]
        found += [weight(CELLS, self.hidden) for _ in range(4)]
        found += [weight(CELLS) if self.peepholes else None for _ in range(3)]
        found += [weight(CELLS) for _ in range(4)]
        found.append(weight(PROJECTED, CELLS) if self.projection else None)
        found.append(weight(PROJECTED) if self.bias else None)
        found += [weight(CELLS) + 1 if self.norms else None for _ in range(4)]
        for k in (0, 4, 8, 11, 17) if self.coupled else ():
            found[k] = None
        return found


#: The parameters of `Layer.parameters` that are integers in hybrid layers: matrices, peepholes.
INTEGERS = (*range(11), 15)


def rounded(values: Array) -> tuple[Array, float]:
    """Weights as int8, and their scale."""
    scale = float(np.float32(np.abs(values).max() / 127))
    return np.round(values / scale).astype(np.int8), scale


class Reference:
    """A layer by its definition, in float64; inputs of integer weights are rounded as LiteRT's."""

    def __init__(self, layer: Layer, parameters: Sequence[Array | None]) -> None:
        self.layer = layer
        self.p = list(parameters)
        for k in INTEGERS if layer.hybrid else ():
            found = self.p[k]
            if found is not None:
                whole, scale = rounded(found)
                self.p[k] = whole * np.float64(scale)
        self.h = np.zeros((SAMPLES, layer.hidden))
        self.c = np.zeros((SAMPLES, CELLS))

    def product(self, x: Array, k: int) -> Array:
        weight = self.p[k]
        assert weight is not None
        if not self.layer.hybrid:
            return np.asarray(x @ weight.T)
        return np.asarray(np.stack([self.row(v) for v in x]) @ weight.T)

    def row(self, x: Array) -> Array:
        """One row in its own units of 8 bits, as floats again."""
        low, high = min(x.min(), 0.0), max(x.max(), 0.0)
        if low == high:
            return x
        if not self.layer.asymmetric:
            unit = max(-low, high) / 127
            return np.asarray(np.round(x / unit) * unit)
        unit = (high - low) / 255
        near = 128 + abs(low / unit) < 127 + abs(high / unit)
        zero = np.round(-128 - low / unit if near else 127 - high / unit)
        return np.asarray((np.clip(np.round(x / unit + zero), -128, 127) - zero) * unit)

    def gate(self, x: Array, k: int) -> Array:
        y = self.product(x, k) + self.product(self.h, 4 + k)
        peepholes = None if k == 2 else self.p[8 + (0, 1, 2, 2)[k]]
        if peepholes is not None:
            y = y + peepholes * self.c
        norm = self.p[17 + k]
        if norm is not None:
            y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-8) * norm
        bias = self.p[11 + k]
        assert bias is not None
        return np.asarray(y + bias if k == 2 else 1 / (1 + np.exp(-y - bias)))

    def step(self, x: Array) -> Array:
        forget = self.gate(x, 1)
        let_in = 1 - forget if self.layer.coupled else self.gate(x, 0)
        self.c = forget * self.c + let_in * np.tanh(self.gate(x, 2))
        if self.layer.cell_clip:
            self.c = np.clip(self.c, -self.layer.cell_clip, self.layer.cell_clip)
        hidden = self.gate(x, 3) * np.tanh(self.c)
        if self.layer.projection:
            hidden = self.product(hidden, 15)
            bias = self.p[16]
            hidden = hidden if bias is None else hidden + bias
            limit = self.layer.projection_clip or np.inf
            hidden = np.clip(hidden, -limit, limit)
        self.h = hidden
        return self.h


def written(layer: Layer) -> TfliteFile:
    """A file with this layer alone."""
    file = TfliteFile()
    g = file.main
    steps = () if layer.single else (STEPS,)
    shape = (*steps, SAMPLES) if layer.time_major else (SAMPLES, *steps)
    inputs = [g.input((*shape, WIDTH))]
    sides = [layer.parameters(seed) for seed in ((9, 10) if layer.both else (9,))]
    numbers = []
    for side in sides:
        for k, found in enumerate(side):
            if found is None:
                numbers.append(-1)
            elif layer.hybrid and k in INTEGERS:
                whole, scale = rounded(found)
                numbers.append(g.constant(whole, scales=[scale], zeros=[0]))
            else:
                numbers.append(g.constant(found))
    states = [
        g.tensor((SAMPLES, n), is_variable=True) for _ in sides for n in (layer.hidden, CELLS)
    ]
    g.outputs = [g.tensor((*shape, layer.hidden)) for _ in sides]
    options: dict[str, Any] = {
        "FusedActivationFunction": 4, "CellClip": layer.cell_clip,
        "ProjClip": layer.projection_clip, "AsymmetricQuantizeInputs": layer.asymmetric,
    }  # fmt: skip
    if layer.both:
        kind, name = "BIDIRECTIONAL_SEQUENCE_LSTM", "BidirectionalSequenceLSTMOptions"
        inputs += [*numbers[:17], *numbers[21:38], *states, *[-1] * 9]
    else:
        kind = "LSTM" if layer.single else "UNIDIRECTIONAL_SEQUENCE_LSTM"
        name = "LSTMOptions" if layer.single else "UnidirectionalSequenceLSTMOptions"
        inputs += [*numbers[:17], *states, *numbers[17:]]
    if not layer.single:
        options["TimeMajor"] = layer.time_major
    g.add(kind, inputs, *g.outputs, options=name, **options)
    return file


def expected(layer: Layer, runs: Sequence[Array]) -> list[Array]:
    """The first output of each run; of both directions, that is the forward one."""
    reference, found = Reference(layer, layer.parameters(9)), []
    for given in runs:
        if layer.single:
            found.append(reference.step(given))
            continue
        axis = 0 if layer.time_major else 1
        ys = [reference.step(x) for x in np.moveaxis(given, axis, 0)]
        found.append(np.stack(ys, axis))
    return found


LAYERS = {
    "projection": Layer(projection=True), "bias": Layer(projection=True, bias=True),
    "norms": Layer(norms=True), "norms_projection": Layer(norms=True, projection=True, bias=True),
    "norms_coupled": Layer(norms=True, coupled=True, peepholes=True),
    "clipped": Layer(cell_clip=0.3), "norms_single": Layer(norms=True, single=True),
    "projection_clipped": Layer(projection=True, bias=True, projection_clip=0.4, cell_clip=0.5),
    "projection_single": Layer(projection=True, single=True, peepholes=True),
    "projection_steps_first": Layer(projection=True, time_major=True),
    "projection_both": Layer(projection=True, bias=True, both=True),
    "hybrid": Layer(hybrid=True), "hybrid_peepholes": Layer(hybrid=True, peepholes=True),
    "hybrid_asymmetric": Layer(hybrid=True, asymmetric=True),
    "hybrid_coupled": Layer(hybrid=True, coupled=True),
    "hybrid_projection": Layer(hybrid=True, projection=True, bias=True),
    "hybrid_norms": Layer(hybrid=True, norms=True, projection=True),
    "hybrid_single": Layer(hybrid=True, single=True), "hybrid_both": Layer(hybrid=True, both=True),
}  # fmt: skip


def read(folder: Path, data: bytes) -> Graph:
    """The graph of a file with these bytes."""
    (folder / "net.tflite").write_bytes(data)
    return load_graph(folder / "net.tflite")


def runs(layer: Layer) -> list[Array]:
    """The inputs of three runs."""
    random = np.random.default_rng(4)
    middle = () if layer.single else (STEPS,)
    shape = (*middle, SAMPLES) if layer.time_major else (SAMPLES, *middle)
    return [random.standard_normal((*shape, WIDTH), np.float32) for _ in range(3)]


def assert_near(found: Array, right: Array, tolerance: float = 1e-5) -> None:
    assert found.shape == right.shape
    assert np.abs(found.astype(np.float64) - right).max() <= tolerance * np.abs(right).max()


@pytest.mark.parametrize("name", LAYERS)
def test_layers_go_on_from_run_to_run(name: str, tmp_path: Path) -> None:
    layer = LAYERS[name]
    graph = read(tmp_path, written(layer).data())
    given = runs(layer)
    now = {s.input: np.zeros(graph.types[s.input].shape, np.float32) for s in graph.states}
    for x, right in zip(given, expected(layer, given), strict=True):
        found = evaluate(graph, {graph.inputs[0]: x, **now})
        now = {s.input: np.asarray(found[s.output], np.float32) for s in graph.states}
        assert_near(np.asarray(found[graph.outputs[0]]), right)


@pytest.mark.parametrize("name", LAYERS)
def test_the_expectation_is_that_of_litert(name: str) -> None:
    if importlib.util.find_spec("ai_edge_litert") is None:
        pytest.skip("ai_edge_litert is not installed")
    layer = LAYERS[name]
    given = runs(layer)
    found = runs_of_litert(written(layer).data(), [{"x0": x} for x in given])
    for y, right in zip(found, expected(layer, given), strict=True):
        assert_near(y, right)


@pytest.mark.parametrize("name", ["projection_clipped", "hybrid_norms"])
def test_in_c(name: str, tmp_path: Path) -> None:
    need_program("gcc")
    layer = LAYERS[name]
    (tmp_path / "net.tflite").write_bytes(written(layer).data())
    given = runs(layer)
    net = cannery.load(tmp_path / "net.tflite")
    state = net.new_state()
    for x, right in zip(given, expected(layer, given), strict=True):
        assert_near(np.asarray(net.step(state, x)), right, 1e-4)


def without_a_norm(file: TfliteFile) -> None:
    operator = file.main.operators[0]
    operator.inputs = [-1 if k == 22 else n for k, n in enumerate(operator.inputs)]


def with_a_bias_as_weights(file: TfliteFile) -> None:
    operator = file.main.operators[0]
    operator.inputs = [operator.inputs[12] if k == 6 else n for k, n in enumerate(operator.inputs)]


def with_a_norm_of_width(file: TfliteFile) -> None:
    operator = file.main.operators[0]
    operator.inputs = [operator.inputs[1] if k == 20 else n for k, n in enumerate(operator.inputs)]


def with_many_steps(file: TfliteFile) -> None:
    for tensor in (*file.main.inputs, *file.main.outputs):
        shape = file.main.tensors[tensor].shape
        file.main.tensors[tensor].shape = (SAMPLES, 2000, shape[-1])


def with_integers(file: TfliteFile) -> None:
    tensor = file.main.tensors[file.main.inputs[0]]
    tensor.dtype, tensor.scales, tensor.zeros = "INT8", [0.1], [3]


REFUSED: dict[str, tuple[str, Callable[[TfliteFile], None], type[Exception], str]] = {
    "norms": ("norms", without_a_norm, ModelError, "some of its gates are normalised"),
    "matrix": ("norms", with_a_bias_as_weights, ModelError, r"weights of the shapes .*\[6, 6\]"),
    "vector": ("norms", with_a_norm_of_width, ModelError, r"parameter has the shape \[6, 3\]"),
    "steps": ("norms", with_many_steps, UnsupportedError, "2000 steps .* at most 312 steps"),
    "integers": ("hybrid", with_integers, UnsupportedError, "on integers it is not supported"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_read(what: str, tmp_path: Path) -> None:
    name, change, error, message = REFUSED[what]
    file = written(LAYERS[name])
    read(tmp_path, file.data())
    change(file)
    with pytest.raises(error, match=f"(?s){message}"):
        read(tmp_path, file.data())
