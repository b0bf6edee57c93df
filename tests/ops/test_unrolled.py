"""Which layers become straight-line code."""

from __future__ import annotations

import re

import numpy as np
import pytest

from cannery.ir.graph import Graph
from cannery.lowering.lower import cut
from cannery.measure.trial import all_data, make_trial, random_inputs
from cannery.ops.conv.op import Conv
from cannery.ops.conv.unrolled import ConvUnrolled
from cannery.target.isa import isa
from cannery.tuning.contests import rank
from ops.cases import Net

AVX2 = isa("avx2")


def layer(channels: int, zeros: float) -> Graph:
    net = Net()
    x = net.input("x", (1, 24, 32, 32))
    weights = net.rng.standard_normal((3, 3, 32, channels)).astype(np.float32)
    weights[net.rng.random(weights.shape) < zeros] = 0.0
    conv = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
    return net.graph(net.node(conv, [x, net.constant("w", weights)]))


@pytest.mark.parametrize(("channels", "zeros", "parts"), [(64, 0.9, 1), (64, 0.8, 2), (96, 0.8, 2)])
def test_layers_of_mostly_zeros_are_made_in_parts(channels: int, zeros: float, parts: int) -> None:
    graph = layer(channels, zeros)
    (step,) = cut(graph)
    schedule = ConvUnrolled()
    (data,) = all_data(graph, [step], random_inputs(graph))
    params = {"order": "planar", "lanes": 8, "mr": 1}
    assert params in schedule.candidates(graph, step, AVX2)
    trial = make_trial(graph, step, schedule, params, AVX2, data)
    assert trial is not None
    code = schedule.kernel(trial.job("f")).code
    assert len(set(re.findall(r"\w+_tile\d*(?=\(const)", code))) == parts
    used = np.count_nonzero(graph.constants[step.anchor.inputs[1]])
    assert code.count("_fma(") == used


def test_large_layers_of_few_zeros_are_not() -> None:
    graph = layer(256, 0.4)
    (step,) = cut(graph)
    assert ConvUnrolled().why_not(graph, step, AVX2) == "too much code"


def test_where_nine_of_ten_weights_are_zero_the_cost_model_prefers_it() -> None:
    graph = layer(64, 0.9)
    (step,) = cut(graph)
    best = rank(graph, step, AVX2, inexact=True)[0]
    assert best.choice.schedule.id == "conv.unrolled"
