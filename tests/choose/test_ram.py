"""MAX_RAM: workspace and state stay below a bound, and what is said of the least is true."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cannery.choose.defaults import Defaults
from cannery.choose.needs import Needs
from cannery.choose.plan import (
    Option,
    Plan,
    Segment,
    estimated_reorders,
    make_option,
    make_segments,
    plans,
)
from cannery.choose.ram import RamBound
from cannery.emit.making import make_source
from cannery.errors import CanneryWarning, OptionError, RecordError
from cannery.ir.graph import Graph
from cannery.layouts import nhwc
from cannery.lowering import lifetimes
from cannery.lowering.assign import assign
from cannery.lowering.lower import cut
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Relu
from cannery.options import make_options
from cannery.passes import run_passes
from cannery.pipeline import import_graph
from cannery.resources import ball_example_dir
from cannery.schedule.program import Choice
from cannery.schedule.schedule import legal
from cannery.target.isa import ISAS, Isa, isa
from lowering.interpreter import check_program
from lowering.networks import shared_network
from nets.random_graphs import random_graph
from ops.cases import Net

NAMES = ("generic", "avx2", "neon64")


def inverted_net() -> Graph:
    """Two inverted residual blocks, whose middle is six times as wide as its ends."""
    net = Net()
    x = net.input("x", (1, 24, 24, 8))
    x = net.node(Relu(), [net.node(Conv((1, 1), ((1, 1), (1, 1)), (1, 1)),
                                   [x, net.weight(3, 3, 8, 8), net.weight(8)])])  # fmt: skip
    for _ in range(2):
        wide = net.node(Conv((1, 1), ((0, 0), (0, 0)), (1, 1)), [x, net.weight(1, 1, 8, 48)])
        wide = net.node(Relu(), [wide])
        wide = net.node(Conv((1, 1), ((1, 1), (1, 1)), (1, 1), 48), [wide, net.weight(3, 3, 1, 48)])
        narrow = net.node(Conv((1, 1), ((0, 0), (0, 0)), (1, 1)), [wide, net.weight(1, 1, 48, 8)])
        x = net.node(Add(), [narrow, x])
    return net.graph(x)


def segments_of(graph: Graph) -> tuple[Segment, ...]:
    return make_segments(graph, depth_first=True)


def plan(graph: Graph, isa: Isa, max_ram: int | None, *, deep: bool = True) -> Plan:
    segments = make_segments(graph, depth_first=deep)
    return Defaults(graph, segments, isa, nhwc.ORDER, 1e-4, max_ram=max_ram).plan()


def check(graph: Graph, isa: Isa, found: Plan, max_ram: int | None) -> int:
    """Bytes of the workspace in the generated code; the plan is run on labels."""
    steps = found.steps(segments_of(graph))
    program = assign(graph, steps, found.choices, isa, nhwc.ORDER)
    source = make_source(program, isa, "net", {}, max_ram=max_ram)
    scratch = [0] * len(program.steps)
    for call in source.calls:
        scratch[call.number] = call.kernel.scratch_bytes
    check_program(program, isa, source.workspace, scratch)
    return source.single_bytes


def least(graph: Graph, isa: Isa, *, deep: bool = True) -> int:
    """What the message for a bound that nothing keeps asks for."""
    with pytest.raises(OptionError, match="the least memory found") as caught:
        plan(graph, isa, 1, deep=deep)
    asked = re.search(r"give (\d+) or more", str(caught.value))
    assert asked
    return int(asked.group(1))


@pytest.mark.parametrize("name", NAMES)
def test_workspaces_keep_the_bound(name: str) -> None:
    graph, target = inverted_net(), isa(name)
    free = plan(graph, target, None)
    most, fewest = check(graph, target, free, None), least(graph, target)
    assert fewest < 0.7 * most
    costs = []
    for bound in np.linspace(fewest, most, 4).astype(int):
        found = plan(graph, target, int(bound))
        assert check(graph, target, found, int(bound)) <= bound
        costs.append(found.cost)
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == free.cost


@pytest.mark.parametrize("name", NAMES)
def test_depth_first_takes_less(name: str) -> None:
    graph, target = inverted_net(), isa(name)
    fewest = least(graph, target)
    assert fewest < 0.75 * least(graph, target, deep=False)
    found = plan(graph, target, fewest)
    assert any(choice.schedule.depth_first for choice in found.choices)


def test_a_bound_that_is_wide_changes_nothing() -> None:
    graph, target = inverted_net(), isa("avx2")
    assert plan(graph, target, 2**30) == plan(graph, target, None)


def test_the_least_is_named_with_what_is_alive() -> None:
    graph, target = inverted_net(), isa("generic")
    words = r"takes less than [\d,]+\), of which are alive at layer '[\w.]+': \w+ [\d,]+"
    with pytest.raises(OptionError, match=words):
        plan(graph, target, least(graph, target) - 1)


def test_halos_are_cleared_where_there_is_no_room_to_keep_them() -> None:
    """A halo that stays zero from run to run has memory of its own."""
    graph, target = inverted_net(), isa("avx2")
    found = plan(graph, target, None)
    steps = found.steps(segments_of(graph))
    program = assign(graph, steps, found.choices, target, nhwc.ORDER)
    scratch = [0] * len(program.steps)
    free = lifetimes.plan_workspace(program, scratch)
    assert free.pinned
    sizes = {lifetimes.plan_workspace(program, scratch, most=n).bytes for n in (free.bytes - 1, 1)}
    assert max(sizes) < free.bytes
    one = lifetimes.plan_workspace(program, scratch, most=1)
    assert not one.pinned
    assert set(one.zeroed) == set(free.zeroed) | free.pinned


def test_what_was_tuned_is_kept_if_it_fits() -> None:
    graph, target = inverted_net(), isa("avx2")
    segments = segments_of(graph)
    free = plan(graph, target, None)
    bound = check(graph, target, free, None)
    wide = Defaults(graph, segments, target, nhwc.ORDER, 1e-4, max_ram=bound)
    assert wide.plan(dict(free.picks)).picks == free.picks
    narrow = Defaults(graph, segments, target, nhwc.ORDER, 1e-4, max_ram=least(graph, target))
    with pytest.warns(CanneryWarning, match="what was tuned takes more than"):
        found = narrow.plan(dict(free.picks))
    assert check(graph, target, found, narrow.max_ram) <= least(graph, target)
    with pytest.raises(RecordError, match=r"--max-ram: what was tuned takes more than"):
        replace(narrow, locked=True).plan(dict(free.picks))


def any_options(graph: Graph, target: Isa, rng: np.random.Generator) -> list[list[Option]]:
    """Some candidates of each segment, at any cost."""
    found = []
    for segment in segments_of(graph):
        step, some = segment.step, []
        for schedule in legal(graph, step, target):
            candidates = schedule.candidates(graph, step, target)
            for params in rng.permutation(np.array(candidates, object))[:2]:
                choice = Choice(schedule, params)
                some.append(make_option(graph, step, choice, target, float(rng.random())))
        found.append(some)
    return found


@pytest.mark.parametrize("name", ISAS)
def test_needs_are_never_more_than_what_plans_take(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound that is printed as a proof holds for any plan, over random networks."""
    monkeypatch.setattr(lifetimes, "PINNED_BYTES", 0)
    target, near = isa(name), 0
    for seed in range(24):
        rng = np.random.default_rng([seed, *name.encode()])
        graph = shared_network(lambda low, high, rng=rng: int(rng.integers(low, high + 1)))
        if seed % 6 == 0:
            graph = run_passes(random_graph(seed))
        if not graph.nodes or not cut(graph):
            continue
        segments, options = segments_of(graph), any_options(graph, target, rng)
        needs = Needs(graph, segments, options, target, nhwc.ORDER)
        found = _plan(graph, options, target)
        taken = RamBound(graph, segments, target, nhwc.ORDER).ram(found).workspace
        assert needs.least <= needs.peak(found) <= taken.lower_bound <= taken.bytes, seed
        near += needs.peak(found) > 0.6 * taken.bytes
    assert near >= 2


def _plan(graph: Graph, options: Sequence[Sequence[Option]], target: Isa) -> Plan:
    reorder = estimated_reorders(graph, target)
    return plans(graph, segments_of(graph), options, reorder=reorder)[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_curve_leads_to_the_least(name: str) -> None:
    """Each point is a plan of its size; nothing is faster and smaller, or below what is proved."""
    graph, target = inverted_net(), isa(name)
    curve = Defaults(graph, segments_of(graph), target, nhwc.ORDER, 1e-4).ram_curve()
    sizes = [point.bytes for point in curve.points]
    costs = [point.cost for point in curve.points]
    assert len(sizes) > 3
    assert sizes == sorted(set(sizes), reverse=True)
    assert costs == sorted(set(costs))
    assert curve.least <= sizes[-1] <= 1.05 * least(graph, target)
    for point in curve.points:
        assert check(graph, target, point.plan, point.bytes) == point.bytes
    asked = plan(graph, target, sizes[-1])
    assert check(graph, target, asked, sizes[-1]) <= sizes[-1]


@pytest.mark.parametrize("bound", [2400, 2048, 1408])
def test_one_way_with_much_scratch_memory_does_not_rule_out_others(bound: int) -> None:
    """Two rows at a time by Winograd take 3,264 bytes here, one row directly 1,408."""
    graph = import_graph(make_options(ball_example_dir() / "ball.h5", {"target": "generic"}))
    thumb = isa("thumbdsp")
    assert check(graph, thumb, plan(graph, thumb, bound), bound) <= 1408
