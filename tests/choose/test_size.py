"""MAX_SIZE: constants stay below a bound, and bytes go where they save the most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from cannery.choose.defaults import Defaults
from cannery.choose.plan import Option, Plan, Read, make_segments
from cannery.choose.size import SizeBound
from cannery.emit.making import make_source
from cannery.errors import OptionError
from cannery.ir.graph import Graph
from cannery.layouts import nhwc
from cannery.lowering.assign import assign
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Relu
from cannery.ops.max_pool.op import MaxPool
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import FixedSchedule, Params, own_bytes
from cannery.target.isa import Isa
from cannery.target.targets import find_target
from ops.cases import Net

SAME = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
POOL = MaxPool((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1))


def narrowing_net() -> Graph:
    """Three convolutions: as many products each, four times the weights of the one before."""
    net = Net()
    x = net.input("x", (1, 32, 32, 16))
    for channels, narrow in ((16, True), (32, True), (64, False)):
        before = x
        x = net.node(SAME, [before, net.weight(3, 3, channels, channels), net.weight(channels)])
        x = net.node(Relu(), [x])
        if narrow:
            x = net.node(POOL, [x])
            x = net.node(Conv((1, 1), ((0, 0), (0, 0)), (1, 1)),
                         [x, net.weight(1, 1, channels, 2 * channels)])  # fmt: skip
    return net.graph(x)


def plan(graph: Graph, isa: Isa, max_size: float | None) -> Plan:
    segments = make_segments(graph)
    return Defaults(graph, segments, isa, nhwc.ORDER, 1e-4, max_size=max_size).plan()


def stored(graph: Graph, isa: Isa, found: Plan) -> float:
    """Bytes of the constants of the generated code, in multiples of the graph's."""
    steps = found.steps(make_segments(graph))
    source = make_source(assign(graph, steps, found.choices, isa, nhwc.ORDER), isa, "net", {})
    kernels = [call.kernel for call in source.calls]
    small = sum(c.values.nbytes for kernel in kernels for c in kernel.constants)
    return (small + len(source.blob.data)) / graph.constant_bytes


@pytest.mark.parametrize("name", ["ssse3", "avx2", "neon64", "generic"])
@pytest.mark.parametrize("most", [1.2, 2.0, 3.0])
def test_constants_keep_the_bound(name: str, most: float) -> None:
    graph, isa = narrowing_net(), find_target(name).isa
    free, bound = plan(graph, isa, None), plan(graph, isa, most)
    assert stored(graph, isa, bound) <= 1.01 * most
    assert free.cost <= bound.cost
    if stored(graph, isa, free) <= most:
        assert bound == free


def test_a_bound_that_is_wide_changes_nothing() -> None:
    graph, isa = narrowing_net(), find_target("avx2").isa
    free = plan(graph, isa, None)
    assert stored(graph, isa, free) > 3.0
    assert plan(graph, isa, 50.0) == free


def test_measured_choices_are_taken_as_they_are() -> None:
    graph, isa = narrowing_net(), find_target("avx2").isa
    segments = make_segments(graph)
    free = plan(graph, isa, None)
    bound = Defaults(graph, segments, isa, nhwc.ORDER, 1e-4, max_size=1.2).plan(dict(free.picks))
    assert bound.picks == free.picks


def test_few_weights_may_grow_where_many_may_not() -> None:
    graph, isa = narrowing_net(), find_target("avx2").isa
    found = plan(graph, isa, 2.0)
    by_size = sorted(
        (own_bytes(graph, step), choice.inexact)
        for step, choice in zip(found.steps(make_segments(graph)), found.choices, strict=True)
        if step.macs(graph) > 2_000_000
    )
    assert by_size[0][1]
    assert not by_size[-1][1]


def test_a_bound_that_nothing_keeps() -> None:
    with pytest.raises(OptionError, match=r"at least 1 times the memory of the model's weights"):
        plan(narrowing_net(), find_target("avx2").isa, 0.5)


@dataclass(frozen=True)
class _Sized(FixedSchedule):
    """A schedule of nothing, with constants of this many bytes."""

    id = "test.sized"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        raise NotImplementedError

    cost = kernel = why_not  # type: ignore[assignment]

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        return float(params["bytes"])


@pytest.mark.parametrize("seed", range(16))
def test_nearly_the_cheapest_of_all(seed: int) -> None:
    """At most one step is more expensive than in the best combination."""
    rng = np.random.default_rng(seed)
    graph, isa = narrowing_net(), find_target("avx2").isa
    segments = [s for s in make_segments(graph) if not s.step.parts]
    options = [
        [
            Option(Choice(_Sized(), {"bytes": int(size)}), float(cost), (Read("nhwc", True),), ())
            for size, cost in zip(rng.integers(1, 1000, 3), rng.integers(1, 100, 3), strict=True)
        ]
        for _ in segments
    ]
    least = sum(min(int(o.choice.params["bytes"]) for o in some) for some in options)
    limit = least + 800

    def find(given: object) -> Plan:
        best = [min(some, key=lambda o: o.cost) for some in given]  # type: ignore[attr-defined]
        picks = tuple((k, o.choice) for k, o in enumerate(best))
        return Plan(sum(o.cost for o in best), picks)

    bound = SizeBound(graph, segments, isa, limit / graph.constant_bytes)
    found = bound.cheapest(options, find)
    assert bound.size(found) <= limit
    possible = [
        sum(o.cost for o in some)
        for some in product(*options)
        if sum(int(o.choice.params["bytes"]) for o in some) <= limit
    ]
    most = max(max(o.cost for o in some) - min(o.cost for o in some) for some in options)
    assert min(possible) <= found.cost + 1e-6
    assert found.cost <= min(possible) + most

    def priced(price: float) -> Plan:
        dear = [
            [replace(o, cost=o.cost + price * int(o.choice.params["bytes"])) for o in some]
            for some in options
        ]
        return find(dear)

    # What a price costs that is a little above the least one that keeps the bound.
    prices = (1e-4 * 1.01**k for k in range(2000))
    least_price = next(p for p in prices if bound.size(priced(p)) <= limit)
    taken = dict(priced(1.03 * least_price).picks)
    cost = sum(o.cost for k, some in enumerate(options) for o in some if o.choice is taken[k])
    assert found.cost <= cost + 1e-6
