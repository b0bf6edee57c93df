"""Depthwise convolutions for processors that issue in order: which cores take a tile in an order,
and that what is left of an image after whole tiles is not computed row by row.
"""

from __future__ import annotations

import numpy as np
import pytest

from cannery.ir.graph import GraphBuilder
from cannery.lowering.lower import cut
from cannery.measure.trial import all_data, make_trial, random_inputs
from cannery.ops.conv.depthwise_c import ConvDepthwiseC
from cannery.ops.conv.op import Conv
from cannery.schedule.schedule import Params
from cannery.target.isa import Isa
from cannery.target.targets import find_target

SCHEDULE = ConvDepthwiseC()


def cheapest(size: int, isa: Isa) -> tuple[Params, str]:
    """The candidate of least cost for an image of this size with eight channels, and its code."""
    b = GraphBuilder("depthwise")
    x = b.input("x", (1, size, size, 8))
    w = b.constant("w", np.ones((3, 3, 1, 8), np.float32))
    pads = ((1, 1), (1, 1))
    b.output(b.node(Conv((1, 1), pads, (1, 1), 8), [x, w], name="y"))
    graph = b.build()
    (step,) = cut(graph)
    found = SCHEDULE.candidates(graph, step, isa)
    best = min(found, key=lambda p: SCHEDULE.cost(graph, step, p, isa).cycles)
    (data,) = all_data(graph, [step], random_inputs(graph))
    trial = make_trial(graph, step, SCHEDULE, best, isa, data)
    assert trial
    return best, SCHEDULE.kernel(trial.job("y")).code


@pytest.mark.parametrize(
    ("target", "order"),
    [("aarch64-a53", "dual"), ("aarch64-a55", "beside"), ("aarch64-a76", "")],
)
def test_cores_take_the_order_that_is_made_for_them(target: str, order: str) -> None:
    best, code = cheapest(16, find_target(target).isa)
    assert best.get("order", "") == order
    assert ("f32x4_load_low_ordered" in code) is bool(order)


def test_the_last_rows_of_an_image_are_one_tile() -> None:
    best, code = cheapest(10, find_target("aarch64-a53").isa)
    rest = 10 % int(best["mh"])
    assert (f"if (full + {rest} == y1)" in code) is (rest > 1)
    assert rest == 2
