"""TensorFlow Lite files that keep something from run to run: variables, recurrent operators, SVDF.

Each network runs several times, compared with numpy, and numpy with LiteRT where it is installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
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
from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import by_factor, make_factor
from frontends.tflite_files import Graph as File
from frontends.tflite_files import TfliteFile, runs_of_litert, tflite_file
from needs import need_program

Array = NDArray[Any]

#: A file, and what comes of the inputs of several runs.
Made = tuple[bytes, Callable[[Sequence[Array]], list[Array]]]

N, STEPS, WIDTH, CELLS = 2, 4, 3, 5


def read(folder: Path, data: bytes) -> Graph:
    """The graph of a file with these bytes."""
    file = folder / "net.tflite"
    file.write_bytes(data)
    return load_graph(file)


def normal(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def lstm_parameters(
    g: File, coupled: bool, peepholes: bool, seed: int = 9
) -> tuple[list[int], list[Any]]:
    """Numbers of the inputs 1 to 17, and the arrays."""
    random = np.random.default_rng(seed)

    def weight(*shape: int) -> Array:
        return random.uniform(-1, 1, shape).astype(np.float32)

    arrays: list[Any] = [weight(CELLS, WIDTH) for _ in range(4)]
    arrays += [weight(CELLS, CELLS) for _ in range(4)]
    arrays += [weight(CELLS) if peepholes else None for _ in range(3)]
    arrays += [weight(CELLS) for _ in range(4)] + [None, None]
    if coupled:
        for k in (0, 4, 8, 11):
            arrays[k] = None
    return [-1 if a is None else g.constant(a) for a in arrays], arrays


def lstm_step(x: Array, h: Array, c: Array, arrays: list[Any]) -> tuple[Array, Array]:
    """Gates in the order i, f, c, o."""
    coupled = arrays[0] is None

    def gate(k: int) -> Array:
        return np.asarray(x @ arrays[k].T + h @ arrays[4 + k].T + arrays[11 + k])

    p = [0.0 if a is None else a for a in arrays[8:11]]
    f = sigmoid(gate(1) + p[1] * c)
    i = 1 - f if coupled else sigmoid(gate(0) + p[0] * c)
    c = f * c + i * np.tanh(gate(2))
    o = sigmoid(gate(3) + p[2] * c)
    return o * np.tanh(c), c


def lstm(coupled: bool = False, peepholes: bool = False, time_major: bool = False) -> Made:
    file = TfliteFile()
    g = file.main
    shape = (STEPS, N) if time_major else (N, STEPS)
    x = g.input((*shape, WIDTH))
    parameters, arrays = lstm_parameters(g, coupled, peepholes)
    states = [g.tensor((N, CELLS), is_variable=True) for _ in range(2)]
    y = g.tensor((*shape, CELLS))
    g.outputs = [y]
    g.add(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *parameters, *states, *[-1] * 4], y,
        options="UnidirectionalSequenceLSTMOptions", FusedActivationFunction=4,
        TimeMajor=time_major,
    )  # fmt: skip

    def expected(runs: Sequence[Array]) -> list[Array]:
        h, c, found = np.zeros((N, CELLS)), np.zeros((N, CELLS)), []
        for given in runs:
            steps = given if time_major else given.swapaxes(0, 1)
            ys = []
            for step in steps:
                h, c = lstm_step(step, h, c, arrays)
                ys.append(h)
            found.append(np.stack(ys, 0 if time_major else 1))
        return found

    return file.data(), expected


def both_directions(merged: bool) -> Made:
    """The second one begins with the last step; the states of both go on. LiteRT mixes up samples
    where it merges outputs.
    """
    n = 1 if merged else N
    file = TfliteFile()
    g = file.main
    x = g.input((n, STEPS, WIDTH))
    sides = [lstm_parameters(g, False, False, seed) for seed in (9, 10)]
    states = [g.tensor((n, CELLS), is_variable=True) for _ in range(4)]
    shapes = [(n, STEPS, 2 * CELLS)] if merged else [(n, STEPS, CELLS)] * 2
    g.outputs = [g.tensor(shape) for shape in shapes]
    parameters = [number for numbers, _ in sides for number in numbers]
    g.add(
        "BIDIRECTIONAL_SEQUENCE_LSTM", [x, *parameters, *states, *[-1] * 9], *g.outputs,
        options="BidirectionalSequenceLSTMOptions", FusedActivationFunction=4,
        MergeOutputs=merged, TimeMajor=False,
    )  # fmt: skip

    def expected(runs: Sequence[Array]) -> list[Array]:
        now = [(np.zeros((n, CELLS)), np.zeros((n, CELLS))) for _ in range(2)]
        found = []
        for given in runs:
            results = []
            for side, (_, arrays) in enumerate(sides):
                ys = []
                for step in given.swapaxes(0, 1)[:: -1 if side else 1]:
                    now[side] = lstm_step(step, *now[side], arrays)
                    ys.append(now[side][0])
                results.append(np.stack(ys[:: -1 if side else 1], 1))
            found.append(np.concatenate(results, 2) if merged else results[0])
        return found

    return file.data(), expected


def rnn(single: bool) -> Made:
    w, r, bias = normal(CELLS, WIDTH), normal(CELLS, CELLS) / 3, normal(CELLS)

    def fill(g: File) -> Sequence[int]:
        middle = () if single else (STEPS,)
        x = g.input((N, *middle, WIDTH))
        parts = [g.constant(a) for a in (w, r, bias)]
        state = g.tensor((N, CELLS), is_variable=True)
        y = g.tensor((N, *middle, CELLS))
        kind = "RNN" if single else "UNIDIRECTIONAL_SEQUENCE_RNN"
        options = "RNNOptions" if single else "SequenceRNNOptions"
        return [g.add(kind, [x, *parts, state], y, options=options, FusedActivationFunction=4)]

    def expected(runs: Sequence[Array]) -> list[Array]:
        h, found = np.zeros((N, CELLS)), []
        for given in runs:
            ys = []
            for step in [given] if single else given.swapaxes(0, 1):
                h = np.tanh(step @ w.T + h @ r.T + bias)
                ys.append(h)
            found.append(h if single else np.stack(ys, 1))
        return found

    return tflite_file(fill), expected


def rnn_both(merged: bool) -> Made:
    """Both directions of a plain layer, whose states go on."""
    sides = [[a * s for a in (normal(CELLS, WIDTH), normal(CELLS, CELLS), normal(CELLS))]
             for s in (0.5, -0.3)]  # fmt: skip
    shapes = [(N, STEPS, 2 * CELLS)] if merged else [(N, STEPS, CELLS)] * 2

    def fill(g: File) -> Sequence[int]:
        given = [g.input((N, STEPS, WIDTH))]
        for side in sides:
            given += [g.constant(a.astype(np.float32)) for a in side]
            given.append(g.tensor((N, CELLS), is_variable=True))
        outputs = [g.tensor(shape) for shape in shapes]
        g.add(
            "BIDIRECTIONAL_SEQUENCE_RNN", [*given, -1, -1, -1], *outputs,
            options="BidirectionalSequenceRNNOptions", FusedActivationFunction=4,
            MergeOutputs=merged,
        )  # fmt: skip
        return outputs

    def expected(runs: Sequence[Array]) -> list[Array]:
        now, found = [np.zeros((N, CELLS))] * 2, []
        for given in runs:
            results = []
            for k, (w, r, bias) in enumerate(sides):
                order, ys = (slice(None), slice(None, None, -1))[k], []
                for step in given.swapaxes(0, 1)[order]:
                    now[k] = np.tanh(step @ w.T + now[k] @ r.T + bias)
                    ys.append(now[k])
                results.append(np.stack(ys[order], 1))
            found.append(np.concatenate(results, 2) if merged else results[0])
        return found

    return tflite_file(fill), expected


def lstm_alone(peepholes: bool) -> Made:
    """One step of it, by the operator that older converters wrote."""
    file = TfliteFile()
    g = file.main
    x = g.input((N, WIDTH))
    parameters, arrays = lstm_parameters(g, False, peepholes)
    states = [g.tensor((N, CELLS), is_variable=True) for _ in range(2)]
    g.outputs = [g.tensor((N, CELLS))]
    g.add(
        "LSTM", [x, *parameters, *states], *g.outputs, options="LSTMOptions",
        FusedActivationFunction=4, KernelType=0,
    )  # fmt: skip

    def expected(runs: Sequence[Array]) -> list[Array]:
        h, c, found = np.zeros((N, CELLS)), np.zeros((N, CELLS)), []
        for given in runs:
            h, c = lstm_step(given, h, c, arrays)
            found.append(h)
        return found

    return file.data(), expected


def svdf(rank: int) -> Made:
    filters, memory = 3 * rank, 4
    features, times, bias = normal(filters, WIDTH), normal(filters, memory), normal(3)

    def fill(g: File) -> Sequence[int]:
        x = g.input((N, WIDTH))
        parts = [g.constant(a) for a in (features, times, bias)]
        state = g.tensor((N, filters * memory), is_variable=True)
        options = {"Rank": rank, "FusedActivationFunction": 1}
        y = g.tensor((N, 3))
        return [g.add("SVDF", [x, *parts, state], y, options="SVDFOptions", **options)]

    def expected(runs: Sequence[Array]) -> list[Array]:
        state, found = np.zeros((N, filters, memory)), []
        for given in runs:
            state = np.concatenate([state[..., 1:], (given @ features.T)[..., None]], 2)
            sums = (state * times).sum(2).reshape(N, 3, rank).sum(2)
            found.append(np.maximum(sums + bias, 0))
        return found

    return tflite_file(fill), expected


def svdf_hybrid(rank: int) -> Made:
    """Floats, and weights of int8: each row of the input becomes whole numbers up to 127."""
    filters, memory, random = 3 * rank, 4, np.random.default_rng(rank)
    features = random.integers(-127, 128, (filters, WIDTH)).astype(np.int8)
    times = random.integers(-127, 128, (filters, memory)).astype(np.int8)
    bias, scales = normal(3), [float(np.float32(v)) for v in (0.013, 0.011)]

    def fill(g: File) -> Sequence[int]:
        x = g.input((N, WIDTH))
        parts = [
            g.constant(a, scales=[s], zeros=[0])
            for a, s in zip((features, times), scales, strict=True)
        ]
        state = g.tensor((N, filters * memory), is_variable=True)
        options = {"Rank": rank, "FusedActivationFunction": 1}
        y = g.tensor((N, 3))
        given = [x, *parts, g.constant(bias), state]
        return [g.add("SVDF", given, y, options="SVDFOptions", **options)]

    def expected(runs: Sequence[Array]) -> list[Array]:
        state, found = np.zeros((N, filters, memory)), []
        for given in runs:
            unit = np.abs(given).max(axis=1, keepdims=True) / 127
            newest = np.round(given / unit) @ features.T.astype(float) * unit * scales[0]
            state = np.concatenate([state[..., 1:], newest[..., None]], 2)
            sums = (state * times).sum(2).reshape(N, 3, rank).sum(2) * scales[1]
            found.append(np.maximum(sums + bias, 0))
        return found

    return tflite_file(fill), expected


def svdf_of_bytes(rank: int) -> Made:
    """On int8, with a state of int16."""
    filters, memory, random = 3 * rank, 4, np.random.default_rng(rank)
    features = random.integers(-127, 128, (filters, WIDTH)).astype(np.int8)
    times = random.integers(-4000, 4000, (filters, memory)).astype(np.int16)
    bias = random.integers(-(10**6), 10**6, 3).astype(np.int32)
    scales = [float(np.float32(v)) for v in (0.05, 0.013, 0.001, 0.0007, 0.02)]

    def fill(g: File) -> Sequence[int]:
        x = g.input((N, WIDTH), "INT8", scales=scales[:1], zeros=[7])
        parts = [
            g.constant(a, scales=[s], zeros=[0])
            for a, s in ((features, scales[1]), (times, scales[2]), (bias, scales[2] * scales[3]))
        ]
        state = g.tensor(
            (N, filters * memory), "INT16", is_variable=True, scales=scales[3:4], zeros=[0]
        )
        options = {"Rank": rank, "FusedActivationFunction": 1}
        y = g.tensor((N, 3), "INT8", scales=scales[4:], zeros=[-9])
        return [g.add("SVDF", [x, *parts, state], y, options="SVDFOptions", **options)]

    def expected(runs: Sequence[Array]) -> list[Array]:
        of_state = make_factor(float(np.float32(scales[0] * scales[1]) / np.float32(scales[3])))
        of_result = make_factor(float(np.float32(scales[3] * scales[2]) / np.float32(scales[4])))
        state, found = np.zeros((N, filters, memory), np.int64), []
        for given in runs:
            products = (given.astype(np.int64) - 7) @ features.T.astype(np.int64)
            newest = np.clip(by_factor(products, of_state), -(2**15), 2**15 - 1)
            state = np.concatenate([state[..., 1:], newest[..., None]], 2)
            sums = (state * times).sum(2).reshape(N, 3, rank).sum(2) + bias
            found.append(np.clip(by_factor(sums, of_result) - 9, -128, 127))
        return found

    return tflite_file(fill), expected


def counter() -> Made:
    """A variable that begins with 10, is read, and becomes the sum of itself and the input."""
    file = TfliteFile()
    g, first = file.main, file.graph("init")
    handles = []
    for each in (first, g):
        handle = each.tensor((), "RESOURCE")
        each.add(
            "VAR_HANDLE", [], handle, options="VarHandleOptions", SharedName="total",
            Container="",
        )  # fmt: skip
        handles.append(handle)
    start = first.constant(np.full((1, 3), 10.0, np.float32))
    first.add("ASSIGN_VARIABLE", [handles[0], start], options="AssignVariableOptions")
    g.add("CALL_ONCE", [], options="CallOnceOptions", InitSubgraphIndex=1)
    x, old, new, twice = g.input((1, 3)), *(g.tensor((1, 3)) for _ in range(3))
    g.add("READ_VARIABLE", [handles[1]], old, options="ReadVariableOptions")
    g.add("ADD", [old, x], new, options="AddOptions")
    g.add("ASSIGN_VARIABLE", [handles[1], new], options="AssignVariableOptions")
    g.add("MUL", [new, old], twice, options="MulOptions")
    g.outputs = [twice]

    def expected(runs: Sequence[Array]) -> list[Array]:
        total, found = np.full((1, 3), 10.0), []
        for given in runs:
            found.append((total + given) * total)
            total = total + given
        return found

    return file.data(), expected


def window() -> Made:
    """The last two steps of bytes, which begin as -128, before the newest one."""
    file = TfliteFile()
    g, first = file.main, file.graph("init")
    facts: dict[str, Any] = {"scales": [0.1], "zeros": [-3]}
    handles = []
    for each in (first, g):
        handle = each.tensor((), "RESOURCE")
        each.add("VAR_HANDLE", [], handle, options="VarHandleOptions", SharedName="past")
        handles.append(handle)
    start = first.constant(np.full((1, 2, 3), -128, np.int8), **facts)
    first.add("ASSIGN_VARIABLE", [handles[0], start], options="AssignVariableOptions")
    g.add("CALL_ONCE", [], options="CallOnceOptions", InitSubgraphIndex=1)
    x = g.input((1, 1, 3), "INT8", **facts)
    old, all_steps, last = (g.tensor((1, n, 3), "INT8", **facts) for n in (2, 3, 2))
    g.add("READ_VARIABLE", [handles[1]], old, options="ReadVariableOptions")
    g.add("CONCATENATION", [old, x], all_steps, options="ConcatenationOptions", Axis=1)
    bounds = [g.constant(np.array(v, np.int32)) for v in ((0, 1, 0), (1, 3, 3), (1, 1, 1))]
    g.add("STRIDED_SLICE", [all_steps, *bounds], last, options="StridedSliceOptions")
    g.add("ASSIGN_VARIABLE", [handles[1], last], options="AssignVariableOptions")
    g.outputs = [all_steps]

    def expected(runs: Sequence[Array]) -> list[Array]:
        past, found = np.full((1, 2, 3), -128), []
        for given in runs:
            found.append(np.concatenate([past, given], 1))
            past = found[-1][:, 1:]
        return found

    return file.data(), expected


CASES: dict[str, Made] = {
    "lstm": lstm(), "lstm_coupled": lstm(coupled=True),
    "lstm_coupled_peepholes": lstm(coupled=True, peepholes=True),
    "lstm_both": both_directions(merged=True), "lstm_apart": both_directions(merged=False),
    "lstm_peepholes": lstm(peepholes=True), "lstm_steps_first": lstm(time_major=True),
    "rnn_both": rnn_both(merged=False), "rnn_merged": rnn_both(merged=True),
    "lstm_alone": lstm_alone(peepholes=False), "lstm_alone_peepholes": lstm_alone(peepholes=True),
    "rnn": rnn(single=False), "rnn_step": rnn(single=True), "svdf": svdf(1), "svdf_rank": svdf(2),
    "svdf_hybrid": svdf_hybrid(1), "svdf_hybrid_rank": svdf_hybrid(2),
    "svdf_int8": svdf_of_bytes(1), "svdf_int8_rank": svdf_of_bytes(2),
    "counter": counter(), "window": window(),
}  # fmt: skip


def runs(graph: Graph) -> list[Array]:
    """The inputs of three runs."""
    random = np.random.default_rng(4)
    shape = graph.types[graph.inputs[0]].shape
    if graph.types[graph.inputs[0]].dtype is DType.INT8:
        return [random.integers(-128, 128, shape).astype(np.int8) for _ in range(3)]
    return [random.standard_normal(shape, np.float32) for _ in range(3)]


def evaluated(graph: Graph, given: Sequence[Array]) -> Iterator[Array]:
    """The outputs of runs, each of which begins where the last one ended."""
    now: dict[str, Array] = {}
    for state in graph.states:
        shape = graph.types[state.input].shape
        dtype = graph.types[state.input].dtype.numpy
        nothing = np.zeros(shape, dtype)
        now[state.input] = np.reshape(state.initial, shape) if state.initial else nothing
    for x in given:
        found = evaluate(graph, {graph.inputs[0]: x, **now})
        now = {s.input: np.asarray(found[s.output]) for s in graph.states}
        yield np.asarray(found[graph.outputs[0]])


@pytest.mark.parametrize("name", CASES)
def test_runs_go_on_where_the_last_one_ended(name: str, tmp_path: Path) -> None:
    data, expected = CASES[name]
    graph = read(tmp_path, data)
    assert graph.states
    given = runs(graph)
    for y, right in zip(evaluated(graph, given), expected(given), strict=True):
        assert np.abs(y.astype(np.float64) - right).max() <= 1e-5 * np.abs(right).max()


@pytest.mark.parametrize("name", CASES)
def test_the_expectation_is_that_of_litert(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("ai_edge_litert") is None:
        pytest.skip("ai_edge_litert is not installed")
    data, expected = CASES[name]
    given = runs(read(tmp_path, data))
    found = runs_of_litert(data, [{"x0": x} for x in given])
    for y, right in zip(found, expected(given), strict=True):
        assert np.abs(y.astype(np.float64) - right).max() <= 1e-5 * np.abs(right).max()


@pytest.mark.parametrize("name", ["counter", "window", "svdf", "svdf_int8", "lstm"])
def test_code_goes_on_too(name: str, tmp_path: Path) -> None:
    need_program("gcc")
    data, expected = CASES[name]
    given = runs(read(tmp_path, data))
    net = cannery.load(tmp_path / "net.tflite")
    state = net.new_state()
    for x, right in zip(given, expected(given), strict=True):
        found = np.asarray(net.step(state, x)).astype(np.float64)
        assert np.abs(found - right).max() <= 1e-4 * np.abs(right).max()


def test_a_variable_has_one_type(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        handle = g.tensor((), "RESOURCE")
        g.add("VAR_HANDLE", [], handle, options="VarHandleOptions", SharedName="v", Container="")
        y = g.add("READ_VARIABLE", [handle], g.tensor((1, 3)), options="ReadVariableOptions")
        g.add("ASSIGN_VARIABLE", [handle, g.input((1, 4))], options="AssignVariableOptions")
        return [y]

    with pytest.raises(ModelError, match=r"variable 'v' is float32\[1x3\], but becomes"):
        read(tmp_path, tflite_file(fill))


def test_a_variable_needs_a_value(tmp_path: Path) -> None:
    def fill(g: File) -> Sequence[int]:
        handle = g.tensor((), "RESOURCE")
        g.add("VAR_HANDLE", [], handle, options="VarHandleOptions", SharedName="v", Container="")
        return [g.add("READ_VARIABLE", [handle], g.tensor((1, 3)), options="ReadVariableOptions")]

    with pytest.raises(ModelError, match="variable 'v' is read, but nothing gives it a value"):
        read(tmp_path, tflite_file(fill))


def test_a_variable_is_not_a_tensor(tmp_path: Path) -> None:
    def fill(g: File, kind: str) -> Sequence[int]:
        handle = g.tensor((), "RESOURCE")
        g.add("VAR_HANDLE", [], handle, options="VarHandleOptions", SharedName="v", Container="")
        g.input((1, 3))
        return [g.add(kind, [handle], g.tensor((1, 3)))] if kind else [handle]

    for kind, what in (("RELU", "as if it were a tensor"), ("", "is a variable")):
        with pytest.raises(ModelError, match=what):
            read(tmp_path, tflite_file(lambda g, kind=kind: fill(g, kind)))


def test_initial_values_are_constants(tmp_path: Path) -> None:
    file = TfliteFile()
    g, first = file.main, file.graph("init")
    handle = first.tensor((), "RESOURCE")
    first.add("VAR_HANDLE", [], handle, options="VarHandleOptions", SharedName="v", Container="")
    value = first.add("READ_VARIABLE", [handle], first.tensor((2,)), options="ReadVariableOptions")
    first.add("ASSIGN_VARIABLE", [handle, value], options="AssignVariableOptions")
    g.add("CALL_ONCE", [], options="CallOnceOptions", InitSubgraphIndex=1)
    g.outputs = [g.add("RELU", [g.input((2,))], g.tensor((2,)))]
    with pytest.raises(UnsupportedError, match="it reads a variable before the first run"):
        read(tmp_path, file.data())


@pytest.mark.parametrize("index", [0, 7, -1])
def test_the_graph_that_runs_once_has_to_be_there(index: int, tmp_path: Path) -> None:
    file = TfliteFile()
    g = file.main
    g.add("CALL_ONCE", [], options="CallOnceOptions", InitSubgraphIndex=index)
    g.outputs = [g.add("RELU", [g.input((2,))], g.tensor((2,)))]
    with pytest.raises(ModelError, match="there is no graph"):
        read(tmp_path, file.data())
