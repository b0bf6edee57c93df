"""Convolutions of joined and upsampled images, term by term, by the references."""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.evaluate import evaluate_all
from cannery.lowering.lower import chains, cut
from cannery.measure.trial import make_trial, random_inputs, step_data
from cannery.ops.chains.sources import ChainsSourcesWinograd
from cannery.ops.chains.terms import lines, pieces, whole_weights, why_not_terms
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add
from cannery.schedule.schedule import all_schedules
from cannery.target.isa import isa
from ops.cases import Net
from ops.cases_sources import CASES, joined_graph

NONE = ((0, 0), (0, 0))


@pytest.mark.parametrize("name", CASES)
def test_the_sum_of_all_terms_is_the_convolution(name: str) -> None:
    graph = joined_graph(CASES[name])
    steps = cut(graph)
    (chain,) = [c for c in chains(graph, steps) if len(c.parts) == len(steps)]
    assert not why_not_terms(graph, chain)
    values = evaluate_all(graph, random_inputs(graph))
    found = ChainsSourcesWinograd().emulate(graph, chain, [values[v] for v in chain.inputs])
    expected = values[chain.output]
    assert np.max(np.abs(found - expected)) < 1e-4 * np.max(np.abs(expected))


def test_taps_on_the_same_pixel_are_one() -> None:
    even, odd = lines(size=10, taps=3, scale=2, begin=1)
    assert (even.taps, even.pad, even.size) == (((0,), (1, 2)), 1, 5)
    assert (odd.taps, odd.pad, odd.size) == (((0, 1), (2,)), 0, 5)
    (whole,) = lines(size=10, taps=3, scale=1, begin=1)
    assert (whole.taps, whole.pad) == (((0,), (1,), (2,)), 1)


def test_phases_of_one_shape_share_their_code() -> None:
    graph = joined_graph(CASES["up_and_skip"])
    (chain,) = chains(graph, cut(graph))
    assert [len(piece.phases) for piece in pieces(graph, chain)] == [4, 1]


def test_parts_that_are_written_in_place_stay_joined() -> None:
    net = Net()
    x = net.input("x", (1, 5, 6, 3))
    parts = [net.node(Conv((1, 1), NONE, (1, 1)), [x, net.weight(1, 1, 3, 4)]) for _ in range(2)]
    outputs = []
    for order in (parts, parts[::-1]):
        joined = net.node(Concat(3), order)
        outputs.append(net.node(Conv((1, 1), NONE, (1, 1)), [joined, net.weight(1, 1, 8, 2)]))
    graph = net.graph(net.node(Add(), outputs))
    found = [c for c in chains(graph, cut(graph)) if isinstance(c.anchor.op, Concat)]
    assert [bool(why_not_terms(graph, c)) for c in found] == [True, False]  # the last one copies


@pytest.mark.parametrize("name", ["up_and_skip", "bands"])
@pytest.mark.parametrize("way", ["conv.direct_oc", "conv.gemm", "conv.winograd_oc"])
def test_packed_weights_are_those_of_the_kernel(name: str, way: str) -> None:
    graph = joined_graph(CASES[name])
    (chain,) = chains(graph, cut(graph))
    piece = pieces(graph, chain)[0]
    own = piece.weighted(whole_weights(graph, chain), piece.phases[-1])
    each, ssse3 = all_schedules()[way], isa("ssse3")
    data = step_data(own, piece.step, random_inputs(own))
    for params in each.candidates(own, piece.step, ssse3)[::9]:
        trial = make_trial(own, piece.step, each, params, ssse3, data)
        assert trial is not None
        job = trial.job("f")
        made = {c.name: c.values for c in each.kernel(job).constants}
        assert np.array_equal(each.weights(job).values, made["f_w"])
