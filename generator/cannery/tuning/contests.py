"""What is measured: a contest between the candidates of each kind of step, and one per reorder."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cannery.choose.plan import Segment
from cannery.choose.signature import step_kind
from cannery.choose.views import is_view as is_view
from cannery.contents import array_digest
from cannery.deadline import check_time
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import RefArray
from cannery.ir.tensor import TensorType
from cannery.layouts import ORDERS, Want
from cannery.lowering.assign import interface_order, make_layout, reorder_choice
from cannery.lowering.lower import cut
from cannery.measure.harness import Candidate, make_candidate
from cannery.measure.trial import Data, Trial, make_trial, step_data
from cannery.ops.movement.op import Identity
from cannery.ops.shared import epilogue
from cannery.schedule.packed import total_cycles
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import MATH, legal
from cannery.target.isa import Isa

#: How many candidates of each schedule and layout are always in a contest.
SEEDED = 2

#: Most bytes of all constants of a contest, counting equal ones once; candidates beyond are left
#: out.
MOST_CONSTANTS = 1_000_000_000

#: Characters of code beyond which compilers take minutes, and caches overflow.
LONGEST_CODE = 250_000


@dataclass(frozen=True)
class Ranked:
    """A choice for a step and the cost model's estimate, in cycles."""

    choice: Choice
    cycles: float

    @property
    def label(self) -> str:
        return str(self.choice)


@dataclass(frozen=True)
class Contest:
    """The candidates of all steps of one kind; `steps` are the indices of their segments.

    `cycles` is the estimate of the best; `candidates` follow `ranked`, without those whose code
    equals another one's (`same` maps the label of each to that other's). Their constants take
    `constant_bytes`, counting equal ones once.
    """

    name: str
    steps: tuple[int, ...]
    ranked: tuple[Ranked, ...]
    candidates: tuple[Candidate, ...]
    same: Mapping[str, str]
    constant_bytes: int = 0

    @property
    def cycles(self) -> float:
        """The model's estimate for all its steps together."""
        return min(r.cycles for r in self.ranked) * max(len(self.steps), 1)


@dataclass(frozen=True)
class Prospect:
    """A contest before its candidates are generated, which takes long; `cycles` is its estimate.

    `key` distinguishes it from others. `make` returns None if there is nothing to compute.
    """

    key: Hashable
    name: str
    steps: tuple[int, ...]
    cycles: float
    make: Callable[[], Contest | None]


def rank(graph: Graph, step: Step, isa: Isa, *, inexact: bool) -> list[Ranked]:
    """All candidates of a step by estimated cost, ties in the order of schedules."""
    found = []
    for schedule in legal(graph, step, isa):
        check_time()
        if schedule.inexact and not inexact:
            continue
        for params in schedule.candidates(graph, step, isa):
            estimate = schedule.cost(graph, step, params, isa)
            cycles = total_cycles(graph, step, isa, schedule, params, estimate)
            found.append(Ranked(Choice(schedule, params), cycles))
    found.sort(key=lambda r: r.cycles)
    return [*found, *_approximate(step, found)] if inexact else found


def _approximate(step: Step, ranked: Sequence[Ranked]) -> list[Ranked]:
    """The best candidates again, with each approximate form of the step's activations."""
    best = [r for r in ranked if not is_view(r.choice.schedule)][:SEEDED]
    return [
        Ranked(replace(r.choice, params={**r.choice.params, MATH: form}), r.cycles)
        for form in epilogue.approximations(step)
        for r in best
    ]


def by_preference(
    graph: Graph, step: Step, isa: Isa, ranked: Sequence[Ranked], wanted: Iterable[str] = ()
) -> list[Ranked]:
    """Those `wanted` by label, then the best of each schedule and layout, then the others."""
    must = set(wanted)
    classes: list[tuple[int, int]] = []
    counts: dict[tuple[object, ...], int] = {}
    for position, each in enumerate(ranked):
        form = str(each.choice.params.get(MATH, ""))
        key = (each.choice.schedule.id, form, *_orders(graph, step, isa, each))
        counts[key] = counts.get(key, 0) + 1
        seeded = counts[key] <= SEEDED
        classes.append((0 if each.label in must else 1 if seeded else 2, position))
    return [ranked[position] for _, position in sorted(classes)]


def _orders(graph: Graph, step: Step, isa: Isa, ranked: Ranked) -> tuple[str, ...]:
    schedule, params = ranked.choice.schedule, ranked.choice.params
    wants = (
        *schedule.reads(graph, step, params, isa), *schedule.writes(graph, step, params, isa)
    )  # fmt: skip
    return tuple(want.order for want in wants)


def group(graph: Graph, segments: Sequence[Segment]) -> dict[str, list[int]]:
    """Indices of the segments that are tuned once, by `step_kind`."""
    groups: dict[str, list[int]] = {}
    for index, segment in enumerate(segments):
        groups.setdefault(step_kind(graph, segment.step), []).append(index)
    return groups


@dataclass
class ContestMaker:
    """Makes contests with numbered candidates.

    `values` are all values of the graph, as the references compute them; `wanted` are the labels of
    candidates that must take part, by segment.
    """

    graph: Graph
    segments: Sequence[Segment]
    isa: Isa
    values: Mapping[str, RefArray]
    wanted: Mapping[int, Sequence[str]]
    inexact: bool = True
    number: int = 0
    contests: int = 0

    def step_contest(
        self, indices: Sequence[int], limit: int, ranked: Sequence[Ranked] | None = None
    ) -> Contest | None:
        """The contest of steps of one kind, with at most `limit` candidates, in the order of
        `ranked`.

        None if there is nothing to compute.
        """
        step = self.segments[indices[0]].step
        ranked = ranked or rank(self.graph, step, self.isa, inexact=self.inexact)
        wanted = [label for k in indices for label in self.wanted.get(k, ())]
        computing = [r for r in ranked if not is_view(r.choice.schedule)]
        if not computing:
            return None
        data = step_data(self.graph, step, self.values)
        tried = by_preference(self.graph, step, self.isa, computing, wanted)[: 4 * limit]
        trials = ((r, self._trial(step, r.choice, data)) for r in tried)
        return self._contest(step.name, indices, trials, limit)

    def _trial(self, step: Step, choice: Choice, data: Data) -> Trial:
        return _required(
            make_trial(self.graph, step, choice.schedule, choice.params, self.isa, data)
        )

    def stacked_contest(self, step: Step, choices: Sequence[Choice], limit: int) -> Contest:
        """The contest of ways to compute a step of the graph, which is a stacked one."""
        data = step_data(self.graph, step, self.values)
        cycles = (
            c.schedule.cost(self.graph, step, c.params, self.isa).total(self.isa) for c in choices
        )
        ranked = sorted(map(Ranked, choices, cycles), key=lambda r: r.cycles)
        trials = ((r, self._trial(step, r.choice, data)) for r in ranked)
        return self._contest(self.graph.name, (), trials, limit)

    def reorder_contest(self, type_: TensorType, source: str, target: str) -> Contest:
        """The contest, with one candidate, of a change of order."""
        graph, step, data = _reorder_graph(type_)
        before, after = (make_layout(type_, Want(order)) for order in (source, target))
        choice = reorder_choice(graph, step, before, after, self.isa)
        trial = make_trial(graph, step, choice.schedule, choice.params, self.isa, data)
        cost = choice.schedule.cost(graph, step, choice.params, self.isa)
        name = f"{source} to {target}, {type_}"
        return self._contest(
            name, (), [(Ranked(choice, cost.total(self.isa)), _required(trial))], 1
        )

    def _contest(
        self,
        name: str,
        indices: Sequence[int],
        trials: Iterable[tuple[Ranked, Trial]],
        limit: int,
    ) -> Contest:
        """A contest of the first `limit` trials whose code differs."""
        ranked: list[Ranked] = []
        by_key: dict[str, Candidate] = {}
        same: dict[str, str] = {}
        constants: dict[bytes, int] = {}
        for each, trial in trials:
            check_time()
            if len(by_key) >= limit:
                break
            candidate = make_candidate(trial, self.number, self.contests)
            if len(candidate.kernel.code) > LONGEST_CODE and by_key:
                continue
            found = {array_digest(c.values): c.values.nbytes for c in candidate.kernel.constants}
            if sum((constants | found).values()) > MOST_CONSTANTS and by_key:
                continue
            self.number += 1
            constants |= found
            first = by_key.setdefault(candidate.code_key(), candidate.light())
            same[trial.label] = first.trial.label
            ranked.append(each)
        self.contests += 1
        return Contest(
            name, tuple(indices), tuple(ranked), tuple(by_key.values()), same,
            sum(constants.values()),
        )  # fmt: skip


def _required(trial: Trial | None) -> Trial:
    if trial is None:
        raise AssertionError("the plain placing is always possible")
    return trial


def _reorder_graph(type_: TensorType) -> tuple[Graph, Step, Data]:
    builder = GraphBuilder("reorder")
    value = builder.input("x", type_.shape, type_.dtype)
    builder.output(builder.node(Identity(), [value], name="y"))
    graph = builder.build()
    (step,) = cut(graph)
    zeros: RefArray = np.zeros(type_.shape, type_.dtype.numpy)
    return graph, step, step_data(graph, step, {"x": zeros, "y": zeros})


def needed_reorders(
    graph: Graph,
    segments: Sequence[Segment],
    isa: Isa,
    options: Mapping[int, Sequence[Ranked]],
    io_order: str,
) -> Iterator[tuple[TensorType, str, str]]:
    """The changes of order that some plan may contain, each type and pair of orders once."""
    there: dict[str, set[str]] = {v: {interface_order(graph, v, io_order)} for v in graph.inputs}
    seen: set[tuple[TensorType, str, str]] = set()
    wanted: dict[str, set[str]] = {v: {interface_order(graph, v, io_order)} for v in graph.outputs}
    for index, step in ((k, segment.step) for k, segment in enumerate(segments)):
        for ranked in options[index]:
            orders = _orders(graph, step, isa, ranked)
            for value, order in zip((*step.inputs, *step.outputs), orders, strict=True):
                (wanted if value in step.inputs else there).setdefault(value, set()).add(order)
    for value, targets in wanted.items():
        for source in sorted(there.get(value, ()), key=ORDERS.index):
            for target in sorted(targets, key=ORDERS.index):
                key = (graph.types[value], source, target)
                changes = source != target or value in graph.inputs
                if changes and key not in seen:
                    seen.add(key)
                    yield key
