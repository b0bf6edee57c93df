"""The choice where nothing was measured: inexact schedules only where the network bears them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cannery.choose import defaults, recheck
from cannery.choose.defaults import Defaults, estimated_options
from cannery.choose.plan import make_segments, overlap
from cannery.choose.recheck import network_error
from cannery.ir.graph import Graph, HalfLayers
from cannery.ir.tensor import DType
from cannery.layouts import nhwc
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Relu, Sqrt
from cannery.quantization.half_layers import able_steps, compute_in_half, in_half
from cannery.schedule.program import Choice, Step
from cannery.target.isa import isa
from cannery.target.targets import find_target
from ops.cases import Net, all_cases
from tuning.toy import Toy

SAME = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
SSSE3 = find_target("ssse3").isa


def deep_net() -> Graph:
    """Two convolutions for which Winograd is by far the cheapest."""
    net = Net()
    x = net.input("x", (1, 16, 16, 24))
    for _ in range(2):
        x = net.node(SAME, [x, net.weight(3, 3, 24, 24), net.weight(24)])
        x = net.node(Relu(), [x])
    return net.graph(x)


def inexact_steps(graph: Graph, max_error: float) -> int:
    segments = make_segments(graph)
    plan = Defaults(graph, segments, SSSE3, nhwc.ORDER, max_error).plan()
    return sum(choice.inexact for choice in plan.choices)


def test_winograd_where_the_bound_allows_it() -> None:
    assert inexact_steps(deep_net(), 1e-4) == 2


def test_no_winograd_where_the_network_would_break_the_bound() -> None:
    assert inexact_steps(deep_net(), 1e-7) == 0


@pytest.mark.parametrize("limit", ["MAX_MACS", "MAX_ELEMENTS"])
def test_no_winograd_where_it_would_take_too_much_to_tell(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, limit, 1000)
    assert inexact_steps(deep_net(), 1e-4) == 0


def test_the_error_of_a_network_is_that_of_its_inexact_steps() -> None:
    graph = deep_net()
    segments = make_segments(graph)
    plan = Defaults(graph, segments, SSSE3, nhwc.ORDER, 1e-4).plan()
    chosen = [(segments[k].step, choice) for k, choice in plan.picks]
    assert 1e-7 < network_error(graph, chosen) < 2e-5
    exact = Defaults(graph, segments, SSSE3, nhwc.ORDER, 0.0).plan()
    assert network_error(graph, [(segments[k].step, choice) for k, choice in exact.picks]) == 0.0


def test_the_error_of_a_network_is_that_of_its_worst_output() -> None:
    """Whichever comes last."""
    net = Net()
    x = net.input("x", (1, 16, 16, 24))
    y = net.node(SAME, [x, net.weight(3, 3, 24, 24)])
    exact = net.node(Relu(), [x])
    both, errors = net.graph(y, exact), []
    for outputs in ((y, exact), (exact, y)):
        graph = replace(both, outputs=outputs)
        segments = make_segments(graph)
        plan = Defaults(graph, segments, SSSE3, nhwc.ORDER, 1e-4).plan()
        assert any(choice.inexact for choice in plan.choices)
        errors.append(
            network_error(graph, [(segments[k].step, choice) for k, choice in plan.picks])
        )
    assert errors[0] == errors[1] > 0.0


def test_every_case_can_be_estimated() -> None:
    """Also what has nothing to multiply in some places, such as gaps of transposed convolutions."""
    for case in all_cases():
        graph = case.make()
        half = any(t.dtype is DType.HALF for t in graph.types.values())
        if half or any(node.op.of_bfloat for node in graph.nodes):
            continue  # which takes another instruction set
        with case.caches():
            for segment in make_segments(graph):
                options = estimated_options(graph, segment.step, SSSE3, inexact=True)
                assert options or segment.step.parts, case.name
                assert all(0.0 <= option.cost < float("inf") for option in options)


@pytest.mark.parametrize(("error", "steps"), [(0.4e-4, 2), (0.5e-4, 2), (0.6e-4, 0), (2e-4, 0)])
def test_inexact_steps_may_take_half_of_the_bound(
    error: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "network_error", lambda graph, chosen: error)
    assert inexact_steps(deep_net(), 1e-4) == steps


def test_in_half_precision_some_steps_may_be_inexact() -> None:
    """As many as keep their part of the bound, where not all of them do."""
    net = Net()
    x = net.input("x", (1, 16, 16, 16))
    for _ in range(4):
        x = net.node(SAME, [x, net.weight(3, 3, 16, 16)])
    graph = compute_in_half(net.graph(x), 0.1)
    segments, half = make_segments(graph), isa("neon64half")

    def chosen(max_error: float) -> list[tuple[Step, Choice]]:
        plan = Defaults(graph, segments, half, nhwc.ORDER, max_error).plan()
        return [(segments[k].step, choice) for k, choice in plan.picks]

    def inexact(max_error: float) -> int:
        return sum(choice.inexact for _, choice in chosen(max_error))

    most = network_error(graph, chosen(0.1))
    rounding = 1.25 * graph.half_layers.error if graph.half_layers else 0.0
    assert inexact(0.1) == 4
    assert rounding < most
    assert 0 < inexact(2 * most - 1e-6) < 4
    assert network_error(graph, chosen(2 * most - 1e-6)) < most
    assert inexact(rounding) == 0


def test_a_step_whose_tiles_are_no_numbers_is_exact() -> None:
    """The emulated error of such a step is so large that its square is no float."""
    net = Net()
    x = net.input("x", (1, 16, 16, 16))
    roots = net.node(Sqrt(), [net.node(SAME, [x, net.weight(3, 3, 16, 16)])])
    graph = net.graph(roots)
    graph = in_half(graph, able_steps(graph))
    graph = replace(graph, half_layers=HalfLayers(("roots",), (), 0.0, 1, 0, 0))
    plan = Defaults(graph, make_segments(graph), isa("neon64half"), nhwc.ORDER, 0.1).plan()
    assert not any(choice.inexact for _, choice in plan.picks)


def test_what_is_known_is_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was when it was tuned."""
    graph = deep_net()
    segments = make_segments(graph)
    known = dict(Defaults(graph, segments, SSSE3, nhwc.ORDER, 1e-4).plan().picks)
    assert any(choice.inexact for choice in known.values())

    def never(graph: Graph, chosen: object) -> float:
        raise AssertionError("judged again")

    monkeypatch.setattr(defaults, "network_error", never)
    again = Defaults(graph, segments, SSSE3, nhwc.ORDER, 1e-4).plan(known)
    assert dict(again.picks) == known


def test_nothing_competes_with_what_is_known() -> None:
    """Whatever has a step in common with a known chain, or a known step, has no options."""
    graph = deep_net()
    segments = make_segments(graph)
    made = Defaults(graph, segments, SSSE3, nhwc.ORDER, 1e-4)
    chosen = Choice(Toy(), {"from": "nhwc", "to": "nhwc"})
    for index, segment in enumerate(segments):
        options = made._options({index: chosen}, inexact=())
        for other, found in enumerate(options):
            if other != index and overlap(segment, segments[other]):
                assert not found, (index, other)
        assert [o.choice for o in options[index]] == [chosen]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_a_large_error(value: float) -> None:
    right = np.array([1.0, 2.0])
    assert recheck._distance(np.array([1.0, value]), right) > 1e100
    assert recheck._distance(np.array([1.0, 2.5]), right) == 0.25
