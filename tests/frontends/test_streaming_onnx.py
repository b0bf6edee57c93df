"""Files of ONNX that run step by step as exporters write them, and what says why others do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cannery.errors import UnsupportedError
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph
from cannery.options import make_options
from cannery.pipeline import load_model

m = pytest.importorskip("frontends.onnx_models")

#: Steps and channels; behind a causal convolution, `c` is [1,C,T].
T, C = 12, 4
CONV = m.node("Conv", ["x", "w"], ["c"], kernel_shape=[3], pads=[2, 0])
TURN = m.node("Transpose", ["c"], ["t"], perm=[0, 2, 1])
TIME_FIRST = m.node("Transpose", ["c"], ["t"], perm=[2, 0, 1])

Weights = Mapping[str, NDArray[Any]]


def i64(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def scalar(value: float) -> NDArray[np.float32]:
    return np.array(value, np.float32)


def attention() -> tuple[Sequence[Any], Weights]:
    """As PyTorch writes `is_causal`: a triangle of ones, and infinity elsewhere."""
    nodes = [
        TURN,
        *(m.node("MatMul", ["t", f"w{k}"], [k]) for k in "qkv"),
        m.node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        m.node("MatMul", ["q", "kt"], ["s"]),
        m.node("Div", ["s", "two"], ["scaled"]),
        m.node("ConstantOfShape", ["square"], ["zeros"]),
        m.node("Add", ["zeros", "one"], ["ones"]),
        m.node("Trilu", ["ones"], ["triangle"], upper=0),
        m.node("Equal", ["triangle", "zero"], ["later"]),
        m.node("Where", ["later", "infinite", "scaled"], ["masked"]),
        m.node("Softmax", ["masked"], ["p"], axis=-1),
        m.node("MatMul", ["p", "v"], ["y"]),
    ]
    given = {f"w{k}": m.floats(C, C, seed=ord(k)) for k in "qkv"}
    numbers = {"two": scalar(2), "one": scalar(1), "zero": scalar(0), "infinite": scalar(-np.inf)}
    return nodes, {**given, **numbers, "square": i64(T, T)}


def gru(direction: str) -> tuple[Sequence[Any], Weights]:
    n = 2 if direction == "bidirectional" else 1
    layer = m.node("GRU", ["t", "gw", "gr"], ["y"], hidden_size=3, direction=direction)
    return [TIME_FIRST, layer], {"gw": m.floats(n, 9, C, seed=1), "gr": m.floats(n, 9, 3, seed=2)}


def one(
    kind: str, given: Weights | None = None, **attributes: Any
) -> tuple[Sequence[Any], Weights]:
    """A layer behind the convolution."""
    given = given or {}
    return [m.node(kind, ["c", *given], ["y"], **attributes)], given


AFFINE = {"scale": np.ones(C, np.float32), "bias": np.zeros(C, np.float32)}

RUNS = {
    "attention": attention(),
    "gru": gru("forward"),
    "mean so far": (
        [m.node("CumSum", ["c", "axis"], ["sums"]), m.node("Div", ["sums", "count"], ["y"])],
        {"axis": np.array(2), "count": np.arange(1, T + 1, dtype=np.float32)},
    ),
    "layer norm": (
        [TURN, m.node("LayerNormalization", ["t", *AFFINE], ["y"])], AFFINE,
    ),
    "some channels": one("Gather", {"index": i64(2, 0)}, axis=1),
    "channels turned": one(
        "Slice", {"from": i64(-1), "to": i64(-9), "axes": i64(1), "by": i64(-1)}
    ),
    "best channel": one("ArgMax", axis=1),
    "einsum": ([m.node("Einsum", ["c", "e"], ["y"], equation="bct,cd->bdt")],
               {"e": m.floats(C, 3)}),
    "power mean": one("LpPool", kernel_shape=[3], pads=[2, 0]),
    "neighbouring channels": one("LRN", size=3),
    "lines": ([m.node("Resize", ["c", "", "by"], ["y"], mode="linear")],
              {"by": np.array([1, 1, 2], np.float32)}),
}  # fmt: skip

FAILS = {
    "instance norm": (one("InstanceNormalization", AFFINE), "those of all steps"),
    "group norm": (one("GroupNormalization", AFFINE, num_groups=2), "those of all steps"),
    "turned": (
        one("Slice", {"from": i64(-1), "to": i64(-99), "axes": i64(2), "by": i64(-1)}),
        "turns time around",
    ),
    "turned by index": (
        one("Gather", {"index": np.arange(T)[::-1].copy()}, axis=2),
        "turns time around",
    ),
    "some steps": (one("Gather", {"index": i64(2, 7, 3)}, axis=2), "some of the steps"),
    "bidirectional": (gru("bidirectional"), "from the end of the sequence to its beginning"),
    "backward": (gru("reverse"), "from the end of the sequence to its beginning"),
    "best steps": (one("TopK", {"k": i64(2)}, axis=2), "along time"),
    "learned positions": (one("Add", {"p": m.floats(1, C, T)}), "constant for each step"),
    "mirrored": (one("Pad", {"pads": i64(0, 0, 2, 0, 0, 0)}, mode="reflect"), "later steps"),
}


def load(folder: Path, made: tuple[Sequence[Any], Weights], **options: Any) -> Graph:
    nodes, given = made
    weights = {"w": m.floats(C, C, 3, seed=9), **given}
    proto = m.model([CONV, *nodes], {"x": [1, C, T]}, weights=weights, opset=21)
    return load_model(make_options(m.write(folder / "net.onnx", proto), options))


def axis_of(whole: Sequence[int], call: Sequence[int]) -> int:
    (axis,) = (k for k, (a, b) in enumerate(zip(whole, call, strict=True)) if a != b)
    return axis


@pytest.mark.parametrize("block", [1, 3])
@pytest.mark.parametrize("name", RUNS)
def test_calls_give_the_whole_sequence(tmp_path: Path, name: str, block: int) -> None:
    whole = load(tmp_path, RUNS[name])
    calls = load(tmp_path, RUNS[name], streaming=True, block=str(block), latency="auto")
    assert calls.calls
    x = np.random.default_rng(1).standard_normal(whole.types["x"].shape)
    axis = axis_of(x.shape, calls.types["x"].shape)
    (y,) = whole.outputs
    state = {s.input: np.zeros(calls.types[s.input].shape) for s in calls.states}
    found = []
    for part in np.split(x, T // block, axis):
        values = evaluate(calls, {"x": part, **state})
        state = {s.input: np.asarray(values[s.output]) for s in calls.states}
        found.append(np.asarray(values[y]))
    right = np.asarray(evaluate(whole, {"x": x})[y])
    axis = axis_of(right.shape, found[0].shape)
    late = calls.calls.latency * right.shape[axis] // T
    made = np.concatenate(found, axis)
    steps = range(right.shape[axis] - late)
    np.testing.assert_allclose(
        np.take(made, [late + k for k in steps], axis), np.take(right, steps, axis), atol=1e-5
    )


@pytest.mark.parametrize("name", FAILS)
def test_why_it_does_not(tmp_path: Path, name: str) -> None:
    """The layer is named, and what is in the way."""
    made, why = FAILS[name]
    with pytest.raises(UnsupportedError, match=why) as caught:
        load(tmp_path, made, streaming=True)
    assert str(caught.value).startswith("layer 'y")


@pytest.mark.parametrize(("block", "rows"), [(1, True), (6, True), (24, False)])
def test_several_sequences_at_once(tmp_path: Path, block: int, rows: bool) -> None:
    """They lie side by side where the weights of a short call serve them all."""
    nodes = [CONV, m.node("Tanh", ["c"], ["y"])]
    weights = {"w": m.floats(C, C, 3, seed=9)}
    path = m.write(tmp_path / "n.onnx", m.model(nodes, {"x": ["N", C, 48]}, weights=weights))
    options = make_options(path, {"streaming": True, "batch": "3", "block": str(block)})
    calls = load_model(options)
    (state,) = calls.states
    assert calls.types[state.input].shape == ((1, 2, 3, C) if rows else (3, 2, C))
    x = np.random.default_rng(1).standard_normal((3, C, block))
    found = evaluate(calls, {"x": x, state.input: np.zeros(calls.types[state.input].shape)})["y"]
    for one, made in zip(x, found, strict=True):
        padded = np.concatenate([np.zeros((C, 2)), one], 1)
        taps = (np.einsum("oi,it->ot", weights["w"][:, :, k], padded[:, k : k + block])
                for k in range(3))  # fmt: skip
        np.testing.assert_allclose(made, np.tanh(sum(taps)), atol=1e-6)


def test_an_open_number_of_steps_may_be_any(tmp_path: Path) -> None:
    """With channels first, which of the axes is time is not known yet."""
    proto = m.model([CONV], {"x": [1, C, "T"]}, ["c"], {"w": m.floats(C, C, 3)})
    path = m.write(tmp_path / "net.onnx", proto)
    with pytest.raises(
        UnsupportedError, match=r"dimension 2 is open \(fix .*--dim T=n; .*any large n"
    ):
        load_model(make_options(path, {"streaming": True}))
    with pytest.raises(UnsupportedError, match=r"dimension 2 is open \(fix it to n by --dim T=n\)"):
        load_model(make_options(path, {}))
    short, long = (load_model(make_options(path, {"streaming": True, "dims": [f"T={n}"]}))
                   for n in (8, 64))  # fmt: skip
    assert short.nodes == long.nodes and short.states == long.states
