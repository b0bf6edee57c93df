"""Import of recurrent layers from ONNX: attributes, axes, states, and what is rejected.

ONNX's own interpreter knows no attributes but direction and layout; `by_hand` does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnx")

from onnx import helper

import cannery
from cannery.errors import CanneryError, ModelError, UnsupportedError
from cannery.frontends.options import ImportOptions
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.ir.orders import from_model, to_model
from cannery.ops.elementwise import Affine, Elu, HardSigmoid, LeakyRelu, Sigmoid, Tanh
from cannery.ops.recurrent.base import Recurrent
from cannery.passes import run_passes
from frontends.onnx_models import assert_as_onnx, expected, floats, load, model, node, write

T, N, F, H = 5, 2, 3, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weights_of(kind: str, d: int = 1) -> dict[str, Any]:
    g = GATES[kind]
    return {
        "w": floats(d, g * H, F, seed=1), "r": floats(d, g * H, H, seed=2),
        "b": floats(d, 2 * g * H, seed=3),
    }  # fmt: skip


def net(kind: str, d: int = 1, more: Any = (), extra: Any = None, **attributes: Any) -> Any:
    """One layer that returns its sequence; `more` names inputs after the bias."""
    layer = node(kind, ["x", "w", "r", "b", *more], ["y"], hidden_size=H, **attributes)
    return model([layer], {"x": [T, N, F]}, weights={**weights_of(kind, d), **(extra or {})})


def layer_of(graph: Graph) -> Recurrent:
    (op,) = (n.op for n in graph.nodes if isinstance(n.op, Recurrent))
    return op


def run(graph: Graph, x: NDArray[Any]) -> NDArray[Any]:
    (y,) = to_model(graph, evaluate(graph, from_model(graph, {"x": x}))).values()
    return np.asarray(y)


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def by_hand(x: Any, clip: float, *, coupled: bool = False) -> NDArray[Any]:
    """An LSTM with peepholes, direction by direction; the gates, not the cell, are clipped."""
    given = {k: np.asarray(v[0], np.float64) for k, v in weights_of("LSTM").items()}
    p_i, p_o, p_f = np.split(floats(1, 3 * H, seed=4)[0].astype(np.float64), 3)
    bias = given["b"][: 4 * H] + given["b"][4 * H :]
    h, c, found = np.zeros((N, H)), np.zeros((N, H)), []

    def bounded(v: Any) -> Any:
        return np.clip(v, -clip, clip)

    for step in x.astype(np.float64):
        i, o, f, g = np.split(step @ given["w"].T + h @ given["r"].T + bias, 4, axis=1)
        i = sigmoid(bounded(i + p_i * c))
        f = 1 - i if coupled else sigmoid(bounded(f + p_f * c))
        c = f * c + i * np.tanh(bounded(g))
        h = sigmoid(bounded(o + p_o * c)) * np.tanh(c)
        found.append(h)
    return np.stack(found)[:, None]


@pytest.mark.parametrize("coupled", [False, True])
def test_peepholes_clipping_and_coupled_gates(tmp_path: Path, coupled: bool) -> None:
    peepholes = {"p": floats(1, 3 * H, seed=4)}
    proto = net("LSTM", 1, ("", "", "", "p"), peepholes, clip=0.7, input_forget=int(coupled))
    graph = load(tmp_path, proto)
    x = floats(T, N, F, seed=9)
    assert np.allclose(run(graph, x), by_hand(x, 0.7, coupled=coupled), atol=1e-6)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_layer_is_one_product_and_one_node(tmp_path: Path, kind: str, direction: str) -> None:
    d = 2 if direction == "bidirectional" else 1
    states = ("", "h0", "c0") if kind == "LSTM" else ("", "h0")
    extra = {"h0": np.zeros((d, N, H), np.float32), "c0": floats(d, N, H, seed=7)}
    proto = net(kind, d, states, {k: extra[k] for k in states if k}, direction=direction)
    graph = load(tmp_path, proto)
    assert_as_onnx(proto, graph)
    found = [n for n in run_passes(graph).nodes if n.op.kind in ("MatMul", *map(str.title, GATES))]
    assert [n.op.kind for n in found] == ["MatMul", kind.title()]
    assert [bool(v) for v in found[1].inputs[2:]] == [False, True][: len(states) - 1]


def test_parameters_go_to_the_functions_that_have_them(tmp_path: Path) -> None:
    proto = net(
        "LSTM", 2, direction="bidirectional",
        activations=["Sigmoid", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "Tanh"],
        activation_alpha=[0.5, 0.3, 0.1, 2.0], activation_beta=[0.4, 0.25],
    )  # fmt: skip
    assert layer_of(load(tmp_path, proto)).activations == (
        (Sigmoid(),), (Elu(0.5),), (HardSigmoid(pytest.approx(0.3), pytest.approx(0.4)),),
        (LeakyRelu(pytest.approx(0.1)),), (Affine(0.25), Tanh(), Affine(2.0)), (Tanh(),),
    )  # fmt: skip


#: Activations of a forward layer and of a backward one, one list for each function of a cell.
UNLIKE = (("Sigmoid", "Tanh", "Softsign"), ("HardSigmoid", "Relu", "Tanh"))
FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}


def one_direction(kind: str, d: int, **attributes: Any) -> Any:
    """One of the directions of `net` on its own."""
    parts = {name: value[d : d + 1] for name, value in weights_of(kind, 2).items()}
    direction = ("forward", "reverse")[d]
    return net(kind, extra=parts, direction=direction, **attributes)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("LSTM", {}), ("LSTM", {"input_forget": 1}), ("GRU", {"linear_before_reset": 0}),
     ("GRU", {"linear_before_reset": 1}), ("RNN", {})],
)  # fmt: skip
@pytest.mark.parametrize("swapped", [False, True])
def test_each_direction_has_its_own_activations(
    tmp_path: Path, kind: str, more: dict[str, int], swapped: bool
) -> None:
    """Both at once are what each of them is alone."""
    each = [list(names[: FUNCTIONS[kind]]) for names in UNLIKE[:: -1 if swapped else 1]]
    both = net(kind, 2, direction="bidirectional", activations=[*each[0], *each[1]], **more)
    x = floats(T, N, F, seed=9)
    found = run(load(tmp_path, both), x)
    for d, names in enumerate(each):
        alone = run(load(tmp_path, one_direction(kind, d, activations=names, **more)), x)
        assert np.allclose(found[:, d : d + 1], alone, atol=1e-6)


def test_shorter_samples_end_in_zeros(tmp_path: Path) -> None:
    lengths = np.array([T, 2], np.int32)
    graph = load(tmp_path, net("GRU", 1, ("n",), {"n": lengths}, direction="reverse"))
    x = floats(T, N, F, seed=9)
    y = run(graph, x)
    short = load(tmp_path, net("GRU", direction="reverse"))
    assert np.array_equal(y[:, 0, 0], run(short, x)[:, 0, 0])
    assert not y[2:, 0, 1].any()
    moved = np.concatenate([np.zeros_like(x[2:]), x[:2]])
    assert np.array_equal(y[:2, 0, 1], run(short, moved)[3:, 0, 1])
    assert layer_of(load(tmp_path, net("RNN", 1, ("n",), {"n": lengths * 0 + T}))).lengths == ()


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_the_last_step_alone_is_returned(tmp_path: Path, direction: str) -> None:
    last = T - 1 if direction == "forward" else 0
    nodes = [
        node("LSTM", ["x", "w", "r", "b"], ["s"], hidden_size=H, direction=direction),
        node("Squeeze", ["s", "one"], ["q"]),
        node("Gather", ["q", "last"], ["y"], axis=0),
    ]
    given = {**weights_of("LSTM"), "one": np.array([1]), "last": np.array(last)}
    proto = model(nodes, {"x": [T, N, F]}, weights=given)
    graph = run_passes(load(tmp_path, proto))
    assert layer_of(graph).returns == ("hidden",)
    assert_as_onnx(proto, graph)


def test_compiled_networks_compute_what_onnx_does(tmp_path: Path) -> None:
    first, second = weights_of("LSTM", 2), weights_of("GRU")
    second["w"] = floats(1, 3 * H, 2 * H, seed=5)
    nodes = [
        node("LSTM", ["x", "w", "r", "b"], ["s", "", "c"], hidden_size=H,
             direction="bidirectional"),
        node("Transpose", ["s"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "flat"], ["u"]),
        node("GRU", ["u", "w2", "r2", "b2"], ["y"], hidden_size=H, linear_before_reset=1),
    ]  # fmt: skip
    more = {f"{k}2": v for k, v in second.items()}
    given = {**first, **more, "flat": np.array([T, N, 2 * H])}
    proto = model(nodes, {"x": [T, N, F]}, ["y", "c"], given)
    found = cannery.load(write(tmp_path / "net.onnx", proto))(floats(T, N, F, seed=9))
    for y, reference in zip(found, expected(proto, {"x": floats(T, N, F, seed=9)}), strict=True):
        assert y.shape == reference.shape
        assert np.allclose(y, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("proto", "error", "message"),
    [
        (net("RNN", activations=["Sine"]), UnsupportedError, "'Sine' is not one of those"),
        (net("RNN", activations=["Affine"]), ModelError, "needs activation_alpha"),
        (net("GRU", activations=["Tanh"]), ModelError, "has 1 activations, expected 2"),
        (net("LSTM", clip=-1.0), ModelError, "clip -1.0 is negative"),
        (net("RNN", direction="sideways"), UnsupportedError, "direction 'sideways'"),
        (net("RNN", 1, ("n",), {"n": np.array([9, 1])}), ModelError, "do not fit 2 x 5 steps"),
        (net("RNN", 1, ("", "h"), {"h": floats(2, N, H)}), ModelError, "initial state h has shape"),
        (net("LSTM", 1, ("", "h", "c"), {"h": np.zeros((1, N, H), np.float32),
                                         "c": np.zeros((1, N, 2 * H), np.float32)}),
         ModelError, "initial state c has shape.*proj_size"),
        (net("LSTM", 1, ("", "", "", "p"), {"p": floats(1, H)}), ModelError, "peepholes are"),
        (net("RNN", extra={"w": floats(1, H, 9)}), ModelError, "weights are float32"),
        (
            model([node("RNN", ["x", "w", "r"], ["y"])], {"x": [T, N, F], "w": [1, H, F]},
                  weights={"r": floats(1, H, H)}),
            UnsupportedError, "weights are computed at run time",
        ),
    ],
)  # fmt: skip
def test_faults_are_one_clear_error(
    tmp_path: Path, proto: Any, error: type[CanneryError], message: str
) -> None:
    with pytest.raises(error, match=message):
        load(tmp_path, proto)


def test_a_leading_dimension_that_is_time_is_not_taken_as_the_batch(tmp_path: Path) -> None:
    """As lines of print without a batch, or with one after time."""
    second = np.array([1], np.int64)
    layer = node("LSTM", ["lines", "w", "r", "b"], ["y"], hidden_size=H)
    weights = {**weights_of("LSTM"), "second": second}
    lines = model(
        [node("Unsqueeze", ["x", "second"], ["lines"]), layer], {"x": ["T", F]}, weights=weights
    )
    usual = model([node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=H)],
                  {"x": ["T", "N", F]}, weights=weights_of("LSTM"))  # fmt: skip
    for proto, dims in ((lines, {}), (usual, {"N": 2})):
        for options in ({"dims": dims}, {"dims": dims, "batch": 4}):
            with pytest.raises(UnsupportedError, match=r"'x'.*dimension 0 .*time.*--dim T=n"):
                load(tmp_path, proto, ImportOptions(**options))
    sized = ImportOptions(dims={"T": 7})
    assert load(tmp_path, lines, sized).types["x"].shape == (7, F)
    with pytest.raises(UnsupportedError, match=r"dimension 1 is open.*--dim N=n"):
        load(tmp_path, usual, sized)
    assert load(tmp_path, lines, ImportOptions(streaming=True)).types["x"].shape == (1, F)


@pytest.mark.parametrize("layout", [0, 1])
def test_time_behind_the_batch_is_called_so(layout: int, tmp_path: Path) -> None:
    """By layout=1, or by a Transpose; and a number of features that is open is not time."""
    turn = [node("Transpose", ["x"], ["lines"], perm=[1, 0, 2])]
    layer = node("GRU", ["x" if layout else "lines", "w", "r", "b"], ["y"], hidden_size=H,
                 **({"layout": 1} if layout else {}))  # fmt: skip
    nodes = [layer] if layout else [*turn, layer]
    proto = model(nodes, {"x": ["N", "T", F]}, weights=weights_of("GRU"))
    with pytest.raises(UnsupportedError, match=r"'x': dimension 1 is open, .*time.*--dim T=n"):
        load(tmp_path, proto)
    proto = model(nodes, {"x": ["N", None, "F"]}, weights=weights_of("GRU"))
    message = r"'x': dimension 1 is open, and is the time [^;]*\(fix .*--dim x\.1=n --dim F=n"
    with pytest.raises(UnsupportedError, match=message):
        load(tmp_path, proto)


def test_columns_of_an_image_that_become_time_are_called_so(tmp_path: Path) -> None:
    """After windows that need more than a few steps; the rows are not time."""
    weights = {**weights_of("LSTM"), "k": floats(F, 1, 5, 4)}
    nodes = [
        node("Conv", ["x", "k"], ["maps"], strides=[5, 4]), node("Relu", ["maps"], ["a"]),
        node("ReduceMax", ["a"], ["top"], axes=[2], keepdims=0),
        node("Transpose", ["top"], ["lines"], perm=[2, 0, 1]),
        node("LSTM", ["lines", "w", "r", "b"], ["y"], hidden_size=H),
    ]  # fmt: skip
    proto = model(nodes, {"x": [1, 1, "rows", "columns"]}, weights=weights)
    message = r"dimension 2 is open; dimension 3 is open, and is the time .*--dim rows=n --dim col"
    with pytest.raises(UnsupportedError, match=message):
        load(tmp_path, proto)


def test_a_leading_dimension_that_is_the_batch_of_sequences_is_1(tmp_path: Path) -> None:
    first = node("Transpose", ["x"], ["lines"], perm=[1, 0, 2])
    layer = node("GRU", ["lines", "w", "r", "b"], ["y"], hidden_size=H)
    proto = model([first, layer], {"x": ["N", T, F]}, weights=weights_of("GRU"))
    assert load(tmp_path, proto).types["x"].shape == (1, T, F)


def test_time_of_a_loop_is_not_taken_as_the_batch(tmp_path: Path) -> None:
    """A running sum over all of the steps by Scan."""
    step = helper.make_graph(
        [helper.make_node("Add", ["sum", "row"], ["next"])], "step",
        [helper.make_tensor_value_info(name, 1, [F]) for name in ("sum", "row")],
        [helper.make_tensor_value_info("next", 1, [F])],
    )  # fmt: skip
    scan = node("Scan", ["zero", "x"], ["y"], body=step, num_scan_inputs=1)
    proto = model([scan], {"x": ["T", F]}, weights={"zero": np.zeros(F, np.float32)})
    with pytest.raises(UnsupportedError, match=r"dimension 0 .*--dim T=n"):
        load(tmp_path, proto)
    assert load(tmp_path, proto, ImportOptions(dims={"T": 3})).types["x"].shape == (3, F)
