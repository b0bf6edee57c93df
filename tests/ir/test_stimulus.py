"""Inputs in which a wrong weight shows are found, and where none is, that is known."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir import stimulus
from cannery.ir.evaluate import evaluate
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.stimulus import (
    GAINS,
    INCREMENT,
    MULTIPLIER,
    Stimulus,
    Verdict,
    _Search,
    best_stimulus,
    changed,
    upper_bits,
)
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Relu, Sigmoid
from cannery.ops.matmul.op import MatMul
from cannery.ops.softmax.op import Softmax
from cannery.passes import run_passes
from nets.random_graphs import random_graph

BOUND = 3e-4


def classifier(scale: float, end: Relu | Sigmoid | Softmax, bias: float = 0.0) -> Graph:
    """24 `image` -> 8 -> 3 `scores`; a large `scale` saturates them for any usual input."""
    rng = np.random.default_rng(3)
    b = GraphBuilder("net")
    x = b.input("image", (1, 24))
    for name, shape in (("first", (24, 8)), ("second", (8, 3))):
        kernel = b.constant("w", (scale * rng.standard_normal(shape)).astype(np.float32))
        shift = b.constant("b", np.full(shape[1:], bias, np.float32))
        x = b.node(MatMul(), [x, kernel, shift], name=name)
        x = b.node(Relu() if name == "first" else end, [x], name=f"{name}_f")
    b.output(x)
    return b.build()


def test_upper_bits_are_the_generator_step_by_step() -> None:
    for count, seed in ((0, 1), (1, 1), (2, 3), (1000, 2)):
        state, expected = seed, []
        for _ in range(count):
            state = (state * MULTIPLIER + INCREMENT) % 2**32
            expected.append(state >> 8)
        assert upper_bits(count, seed).tolist() == expected


@pytest.mark.parametrize(("signed", "low"), [(True, -0.25), (False, 0.0)])
def test_noise_is_uniform(signed: bool, low: float) -> None:
    values = Stimulus(1, 0.25, signed).values((100, 1000), DType.FLOAT32).astype(np.float64)
    assert low <= values.min() < low + 1e-3 < low + 0.499 < values.max() < low + 0.5
    assert abs(values.mean() - (low + 0.25)) < 0.005


def test_integers_shrink_with_the_gain() -> None:
    assert Stimulus().values((1000,), DType.UINT8).max() == 255
    assert Stimulus(gain=0.25).values((1000,), DType.UINT8).max() == 63
    assert Stimulus(gain=4.0).shift == 0


@pytest.mark.parametrize("end", [Softmax(1), Sigmoid()], ids=["softmax", "sigmoid"])
def test_a_saturated_end_is_avoided(end: Sigmoid | Softmax) -> None:
    graph = classifier(8.0, end)
    (y,) = evaluate(graph, Stimulus().inputs(graph)).values()
    assert np.minimum(y, 1 - y).max() < 1e-2
    best = best_stimulus(graph, BOUND)
    assert best.complete
    assert not best.blind(BOUND)
    (y,) = evaluate(graph, best.stimulus.inputs(graph)).values()
    assert np.minimum(y, 1 - y).max() > 1e-2


def test_a_layer_that_never_shows_is_named() -> None:
    """Behind the first layer's ReLU everything is dead."""
    best = best_stimulus(classifier(1.0, Softmax(1), bias=-1e4), BOUND)
    assert best.blind(BOUND) == ("first", "second")


def test_random_networks_are_mostly_lively() -> None:
    graphs = [run_passes(random_graph(seed)) for seed in range(10, 30)]
    assert sum(bool(best_stimulus(graph, BOUND).blind(BOUND)) for graph in graphs) <= 1


def test_large_networks_are_tried_less(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = classifier(8.0, Softmax(1))
    monkeypatch.setattr(stimulus, "LARGE_BUDGET", 0)
    assert best_stimulus(graph, BOUND) == Verdict(Stimulus(), {}, complete=False)


def test_of_large_networks_all_layers_change_at_once() -> None:
    graph = classifier(8.0, Softmax(1))
    found = _Search(graph, lambda s: s.inputs(graph), BOUND).quick(len(GAINS))
    assert not found.complete
    (y,) = evaluate(graph, found.stimulus.inputs(graph)).values()
    assert np.minimum(y, 1 - y).max() > 1e-3


def test_no_scale_undoes_a_change() -> None:
    weights = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    ratios = np.divide(changed(weights), weights, dtype=np.float64)
    assert (ratios > 1.05).all()
    assert len(set(ratios.reshape(-1))) > 1


@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_decision_is_not_taken_for_liveliness(seed: int) -> None:
    """A one-hot output moves as a whole when large weights change enough, else not at all."""
    rng = np.random.default_rng(seed)
    b = GraphBuilder("net")
    kernel = b.constant("w", (100 * rng.standard_normal((64, 10))).astype(np.float32))
    x = b.node(MatMul(), [b.input("image", (1, 64)), kernel], name="dense")
    b.output(b.node(Softmax(1), [x], name="scores"))
    graph = b.build()
    (y,) = evaluate(graph, best_stimulus(graph, BOUND).stimulus.inputs(graph)).values()
    assert y.max() < 0.99
