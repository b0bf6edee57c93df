"""What to choose where nothing was measured: every candidate, ranked by the cost model."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import Estimate, legal
from cannery.target.isa import Isa
from cannery.tune.plan import Option, make_option
from cannery.tune.signature import step_kind

#: Straight-line code beyond this does not stay in the first-level instruction cache.
HOT_CODE_BYTES = 16 * 1024


#: Bytes of code that a core fetches and decodes in a cycle where they come from beyond the
#: first-level cache: so it is once in each run, as the layers of a network displace one another.
FETCHED_BYTES = 3.0


def penalty(estimate: Estimate) -> float:
    """Estimated cycles, with the fetching of the code; more where it outgrows the cache."""
    excess = max(estimate.code_bytes / HOT_CODE_BYTES - 1.0, 0.0)
    fetching = estimate.code_bytes / FETCHED_BYTES
    return estimate.cycles * (1.0 + min(excess, 4.0)) + fetching


def estimated_options(graph: Graph, step: Step, isa: Isa) -> list[Option]:
    """All exact candidates of a step with their estimated cost, cheapest first."""
    options = []
    for schedule in legal(graph, step, isa):
        if schedule.inexact:
            continue
        for params in schedule.candidates(graph, step, isa):
            cost = penalty(schedule.cost(graph, step, params, isa))
            options.append(make_option(graph, step, Choice(schedule, params), isa, cost))
    return sorted(options, key=lambda option: option.cost)


class Estimates:
    """`estimated_options` of a graph's steps, computed once for each `step_kind`."""

    def __init__(self, graph: Graph, isa: Isa) -> None:
        self._graph = graph
        self._isa = isa
        self._known: dict[str, list[Option]] = {}

    def options(self, step: Step) -> list[Option]:
        """All exact candidates of a step, cheapest first."""
        kind = step_kind(self._graph, step)
        if kind not in self._known:
            self._known[kind] = estimated_options(self._graph, step, self._isa)
        return self._known[kind]
