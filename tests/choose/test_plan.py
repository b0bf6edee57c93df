"""The planner: layouts, cut and schedules chosen together."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from cannery.choose.plan import (
    Option,
    Plan,
    Read,
    ReorderCost,
    Segment,
    best_per_orders,
    make_segments,
    overlap,
    plans,
    same_memory,
)
from cannery.errors import UnsupportedError
from cannery.ir.graph import Graph
from cannery.layouts import Halo, Want
from cannery.lowering.lower import chains, cut
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Relu
from ops.cases import Net
from tuning.toy import network, option, singles

ORDERS = ("nhwc", "planar")


def orders(plan: Plan) -> list[tuple[str, str]]:
    return [(str(c.params["from"]), str(c.params["to"])) for c in plan.choices]


def table(
    graph: Graph, segments: tuple[Segment, ...], costs: list[dict[str, float]]
) -> list[list[Option]]:
    """Options of each segment: costs by `nhwc>planar`."""
    found = []
    for segment, row in zip(segments, costs, strict=True):
        pairs = [(key.split(">"), cost) for key, cost in row.items()]
        found.append([option(graph, segment.step, a, b, cost) for (a, b), cost in pairs])
    return found


def flat(cost: float) -> ReorderCost:
    """Every reorder costs the same."""
    return lambda value, source, target: cost


def test_cheapest_schedules_where_reorders_are_free() -> None:
    graph = network(2)
    segments = singles(graph)
    costs = [{"nhwc>nhwc": 3.0, "planar>planar": 2.0}, {"nhwc>nhwc": 1.0, "planar>planar": 9.0}]
    (best,) = plans(graph, segments, table(graph, segments, costs), reorder=flat(0.0))
    assert orders(best) == [("planar", "planar"), ("nhwc", "nhwc")]
    assert best.cost == 3.0


def test_a_reorder_that_costs_more_than_it_saves_is_not_taken() -> None:
    graph = network(2)
    segments = singles(graph)
    costs = [{"nhwc>nhwc": 3.0, "planar>planar": 2.0}, {"nhwc>nhwc": 1.0, "planar>planar": 9.0}]
    (best,) = plans(graph, segments, table(graph, segments, costs), reorder=flat(0.8))
    assert orders(best) == [("nhwc", "nhwc"), ("nhwc", "nhwc")]
    assert best.cost == 4.0


def test_the_input_has_no_halo() -> None:
    graph = network(1)
    segments = singles(graph)
    halo = Halo(1, 1, 1, 1)
    options = [[
        option(graph, segments[0].step, "nhwc", "nhwc", 5.0, halo),
        option(graph, segments[0].step, "planar", "nhwc", 6.0),
    ]]  # fmt: skip
    costs = {("nhwc", "nhwc"): 3.0, ("nhwc", "planar"): 1.0}
    (best,) = plans(graph, segments, options, reorder=lambda v, a, b: costs[a, b])
    assert orders(best) == [("planar", "nhwc")]
    assert best.cost == 7.0


def test_outputs_go_back_to_the_interface() -> None:
    graph = network(1)
    segments = singles(graph)
    costs = [{"nhwc>nhwc": 3.0, "nhwc>planar": 2.0}]
    options = table(graph, segments, costs)
    (dear,) = plans(graph, segments, options, reorder=flat(2.0))
    assert orders(dear) == [("nhwc", "nhwc")]
    (cheap,) = plans(graph, segments, options, reorder=flat(0.5))
    assert (orders(cheap), cheap.cost) == ([("nhwc", "planar")], 2.5)
    (nchw,) = plans(graph, segments, options, reorder=flat(0.5), io_order="planar")
    assert (orders(nchw), nchw.cost) == ([("nhwc", "planar")], 2.5)


@pytest.mark.parametrize("reorder", [0.0, 0.3, 1.0, 5.0])
def test_finds_what_exhaustive_search_finds(reorder: float) -> None:
    graph = network(4)
    segments = singles(graph)
    costs = [
        {f"{a}>{b}": float((7 * k + 3 * i) % 5) / 2 for i, (a, b) in
         enumerate(itertools.product(ORDERS, ORDERS))}
        for k in range(4)
    ]  # fmt: skip
    (best,) = plans(graph, segments, table(graph, segments, costs), reorder=flat(reorder))
    every = []
    for keys in itertools.product(*costs):
        now, total = "nhwc", 0.0
        for row, key in zip(costs, keys, strict=True):
            source, target = key.split(">")
            total += row[key] + (reorder if source != now else 0.0)
            now = target
        every.append(total + (reorder if now != "nhwc" else 0.0))
    assert best.cost == pytest.approx(min(every))


def test_several_plans_in_order() -> None:
    graph = network(3)
    segments = singles(graph)
    costs = [{"nhwc>nhwc": 2.0, "planar>planar": 1.9}] * 3
    found = plans(graph, segments, table(graph, segments, costs), reorder=flat(0.1), count=3)
    assert len({tuple(orders(p)) for p in found}) == 3
    assert [p.cost for p in found] == sorted(p.cost for p in found)


def test_units_are_the_cut_and_its_chains() -> None:
    graph = network(3)
    steps = cut(graph)
    segments = make_segments(graph)
    assert [u.step for u in segments[:3]] == list(steps)
    assert [u.step for u in segments[3:]] == list(chains(graph, steps))
    spans = {(u.first, u.end) for u in segments[3:]}
    assert {(0, 2), (1, 3), (0, 3)} == spans
    assert overlap(Segment(steps[0], 0), segments[3])
    assert not overlap(Segment(steps[2], 2), Segment(segments[3].step, 0))


def test_a_chain_is_taken_where_it_is_cheaper() -> None:
    graph = network(3)
    segments = make_segments(graph)
    for chain_cost, expected in ((1.5, 2), (2.5, 3)):
        options = []
        for segment in segments:
            parts = len(segment.step.parts) or 1
            cost = {1: 1.0, 2: chain_cost}.get(parts)
            options.append(
                [option(graph, segment.step, "nhwc", "nhwc", cost)] if cost is not None else []
            )
        (best,) = plans(graph, segments, options, reorder=flat(1.0))
        assert len(best.picks) == expected
        nodes = [node.name for step in best.steps(segments) for node in step.nodes]
        assert nodes == [node.name for node in graph.nodes]


def test_a_step_without_kernels_may_be_inside_a_chain() -> None:
    graph = network(2)
    segments = make_segments(graph)
    options = [
        [option(graph, u.step, "nhwc", "nhwc", 1.0)] if u.step.parts or u.first == 0 else []
        for u in segments
    ]
    (best,) = plans(graph, segments, options, reorder=flat(1.0))
    assert [segments[k].end - segments[k].first for k, _ in best.picks] == [2]


def test_a_step_that_nothing_computes_is_an_error() -> None:
    graph = network(2)
    segments = singles(graph)
    options = [[option(graph, segments[0].step, "nhwc", "nhwc", 1.0)], []]
    with pytest.raises(UnsupportedError, match=r"layer 'conv_1': no kernel can compute Conv"):
        plans(graph, segments, options, reorder=flat(0.0))


def test_where_weights_are_computed_the_error_says_so() -> None:
    net = Net()
    x, w = net.input("x", (1, 8, 8, 4)), net.input("w", (1, 1, 4, 4))
    graph = net.graph(net.node(Conv((1, 1), ((0, 0), (0, 0)), (1, 1)), [x, w]))
    with pytest.raises(UnsupportedError, match=r"where 'w' is not a constant .*initializer"):
        plans(graph, singles(graph), [[]], reorder=flat(0.0))


@pytest.mark.parametrize(
    ("shape", "same"),
    [((1, 1, 1, 8), True), ((1, 8), True), ((1, 4, 5, 1), True), ((1, 1, 5, 2), False),
     ((1, 5, 1, 2), False), ((1, 4, 5, 2), False)],
)  # fmt: skip
def test_one_channel_and_one_pixel_are_the_same_in_both_orders(
    shape: tuple[int, ...], same: bool
) -> None:
    net = Net()
    graph = net.graph(net.node(Relu(), [net.input("x", shape)]))
    assert same_memory(graph, "x", "nhwc", "planar") is same
    assert not same_memory(graph, "x", "nhwc", "phase_split")


def test_of_equal_orders_the_cheapest_stays() -> None:
    graph = network(1)
    (segment,) = singles(graph)
    made = [option(graph, segment.step, "nhwc", "planar", cost) for cost in (3.0, 1.0, 2.0, 1.0)]
    other = option(graph, segment.step, "planar", "planar", 9.0)
    assert best_per_orders([*made, other]) == [made[1], other]


@pytest.mark.parametrize(
    ("want", "plain"),
    [(Want(), True), (Want(halo=Halo(right=1)), False), (Want(slack=1), False),
     (Want("planar"), True), (Want(dense=True), True)],
)  # fmt: skip
def test_what_memory_without_gaps_serves(want: Want, plain: bool) -> None:
    assert Read.of(want) == Read(want.order, plain)


def test_units_overlap_where_they_share_a_step() -> None:
    steps = [segment.step for segment in singles(network(4))]

    def segment(first: int, count: int) -> Segment:
        parts = tuple(steps[first : first + count]) if count > 1 else ()
        return Segment(replace(steps[first], parts=parts), first)

    ranges = [(first, count) for first in range(4) for count in range(1, 5 - first)]
    for (a, n), (b, m) in itertools.product(ranges, ranges):
        shared = set(range(a, a + n)) & set(range(b, b + m))
        assert overlap(segment(a, n), segment(b, m)) is bool(shared)
