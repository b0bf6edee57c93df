"""The effect of float32 is reported before anything is built, and only if it matters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cannery.choose import bounds, defaults
from cannery.choose.bounds import bound_notes
from cannery.choose.record import FORMAT, Record, format_record
from cannery.choose.rounding import rounding_error
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.tensor import DType
from cannery.ops.elementwise.activations import Sigmoid, Tanh
from cannery.ops.elementwise.binary import Mul, Sub
from cannery.ops.matmul.op import MatMul
from cannery.options import Options
from choose.test_defaults import deep_net, inexact_steps
from nets.random_graphs import random_graph

BOUND = 1e-4


def logistic(steps: int) -> Graph:
    """Again and again 3.9 s (1 - s), which doubles small differences with every step."""
    b = GraphBuilder("logistic")
    s = b.node(Sigmoid(), [b.input("x", (1, 64))], name="s")
    one, rate = b.constant("one", np.float32(1)), b.constant("rate", np.float32(3.9))
    for _ in range(steps):
        rest = b.node(Sub(), [one, s], name="rest")
        s = b.node(Mul(), [b.node(Mul(), [s, rest], name="product"), rate], name="s")
    b.output(s)
    return b.build()


def layers(count: int, gain: float, terms: int = 64) -> Graph:
    """Dense layers with tanh, whose weights are larger than trained ones by `gain`."""
    rng = np.random.default_rng(2)
    b = GraphBuilder("layers")
    x = b.input("x", (1, terms))
    for _ in range(count):
        w = rng.standard_normal((terms, terms)) * gain / np.sqrt(terms)
        x = b.node(MatMul(), [x, b.constant("w", w.astype(np.float32))], name="dense")
        x = b.node(Tanh(), [x], name="tanh")
    b.output(x)
    return b.build()


def in_float32(steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """`logistic` computed in float32, and in float64."""
    x = np.random.default_rng(seed).standard_normal((1, 64)).astype(np.float32)
    found = []
    for kind in (np.float32, np.float64):
        s = kind(1) / (kind(1) + np.exp(-x.astype(kind)))
        for _ in range(steps):
            s = s * (kind(1) - s) * kind(np.float32(3.9))
        found.append(s.astype(np.float64))
    return found[0], found[1]


@pytest.mark.parametrize("steps", [5, 10, 15, 20])
def test_what_amplifies_is_estimated_as_it_is(steps: int) -> None:
    pairs = [in_float32(steps, seed) for seed in range(0, 16, 2)]
    error = max(np.abs(y - r).max() for y, r in pairs) / max(np.abs(r).max() for _, r in pairs)
    estimate = rounding_error(logistic(steps), BOUND)
    assert estimate is not None
    assert error / 4 < estimate < error * 4


def test_ordinary_networks_are_far_from_the_bound() -> None:
    for seed in range(12):
        estimate = rounding_error(random_graph(seed), BOUND)
        assert estimate is None or estimate < BOUND / 20, seed


def test_long_sums_and_many_layers_count() -> None:
    found = [
        rounding_error(layers(*size), BOUND) or 0.0 for size in ((5, 2.5), (20, 2.5), (30, 2.5))
    ]
    assert found[0] < BOUND / 10 and found[0] < found[1] < found[2] and found[2] > 5 * BOUND
    short, long = (rounding_error(layers(3, 1.0, terms), 1e-9) or 0.0 for terms in (16, 512))
    assert long > 2 * short


def test_integers_are_not_estimated() -> None:
    b = GraphBuilder("integers")
    k = b.input("k", (1, 4), DType.INT32)
    b.output(b.node(Mul(), [k, k], name="square"))
    assert rounding_error(b.build(), BOUND) is None


def test_what_nothing_can_keep_is_told(tmp_path: Path) -> None:
    options = Options(tmp_path / "net.onnx", "net", isa=("generic",))
    floats = [DType.FLOAT32]
    assert bound_notes(options, floats, BOUND, logistic(5)) == []
    (told,) = bound_notes(options, floats, BOUND, logistic(20))
    assert told.startswith("float32 rounding alone is estimated to make an error of about 0.0")
    assert "more than --max-error 0.0001, whichever kernels are chosen" in told
    assert bound_notes(options, floats, 0.5, logistic(20)) == []


def test_what_was_measured_counts_more_than_estimates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "rounding_error", lambda graph, bound: 1.0)
    options = Options(tmp_path / "net.onnx", "net", isa=("generic",))
    assert len(bound_notes(options, [DType.FLOAT32], BOUND, logistic(1))) == 1
    made = Record(FORMAT, "0.1.0", "net", "generic", "generic", 64, "k", {}, [], error=2e-6)
    (tmp_path / "net.generic.tuning.json").write_text(format_record(made))
    assert bound_notes(options, [DType.FLOAT32], BOUND, logistic(1)) == []


def test_winograd_only_where_rounding_leaves_room(monkeypatch: pytest.MonkeyPatch) -> None:
    for rounding, steps in ((None, 2), (0.5e-4, 2), (0.999e-4, 0), (1.0, 0)):
        monkeypatch.setattr(defaults, "rounding_error", lambda graph, bound, r=rounding: r)
        assert inexact_steps(deep_net(), BOUND) == steps
