"""Tuning of `run_many`: the ways to stack each step are timed, then whole networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from cannery.choose.plan import Plan, Segment
from cannery.choose.record import Entry, Many, make_entry
from cannery.choose.stacks import Known, choose_stacks, chunk_sizes
from cannery.deadline import now, time_left, until
from cannery.ir.evaluate import evaluate_all
from cannery.ir.graph import Graph
from cannery.lowering.stack import stacked_choices, stacked_graph
from cannery.measure.cache import Measurement
from cannery.measure.trial import random_inputs
from cannery.schedule.program import Choice, Step
from cannery.target.isa import Isa
from cannery.tuning.confirm import Judge
from cannery.tuning.contests import Contest, ContestMaker, Prospect
from cannery.tuning.search import Search

#: A chunk is used if, as a whole network, it is this much faster than single images.
LEAST_GAIN = 1.01
#: A stacked step is used if it takes less than this fraction of the time of single ones.
LESS = 0.98
#: The share of the remaining time for timing steps; the rest is for whole networks.
SEARCH_SHARE = 0.5


@dataclass(frozen=True)
class _Way:
    """How a step is stacked: microseconds and error are None if nothing was measured."""

    step: Step
    choice: Choice
    error: float | None


@dataclass(frozen=True)
class ManyTuner:
    """Tunes the plan of a network for `images` images at once."""

    graph: Graph
    segments: Sequence[Segment]
    isa: Isa
    images: int
    old: Many | None = None

    def tune(self, plan: Plan, search: Search, judge: Judge, limit: int) -> tuple[Many, float]:
        """What goes into the record, and how many times faster `images` at once are.

        At most `limit` candidates of each step are measured. Raises ToolchainError.
        """
        ways = self._measure(plan, search, limit)
        known = Known({w.step.outputs[0]: w.choice for w in ways}, chunk_sizes(self.images))
        chunks, gain = self._confirm(plan, judge, known)
        entries = [self._entry(way) for way in ways if chunks]
        if self.old is not None and self.old.images == self.images:
            same = [e.same_choice(o) for e, o in zip(entries, self.old.steps, strict=False)]
            if all(same) and len(entries) == len(self.old.steps):
                # Times vary; unchanged choices keep their lines as they are.
                return self.old, gain
        return Many(self.images, chunks, entries), gain

    def estimate(self, plan: Plan) -> Many:
        """The same by the cost model, if nothing can be measured."""
        steps = plan.steps(self.segments)
        stacks = choose_stacks(self.graph, steps, plan.choices, self.isa, self.images)
        largest = stacks[0].choices if stacks and stacks[0].images == self.images else {}
        by_output = {step.outputs[0]: step for step in steps}
        ways = [_Way(by_output[output], choice, None) for output, choice in largest.items()]
        chunks = [stack.images for stack in stacks if stack.choices == largest]
        return Many(self.images, chunks, [self._entry(way) for way in ways])

    def _measure(self, plan: Plan, search: Search, limit: int) -> list[_Way]:
        with until(now() + time_left() * SEARCH_SHARE):
            known = search.run(list(self._prospects(plan, limit)))
        found = []
        for step, single in self._steps(plan):
            contest = search.contests.get(step.outputs[0])
            best = self._best(contest, known, search) if contest else None
            if best and single.us and best[1].us and best[1].us < LESS * self.images * single.us:
                choice, measured = best
                choice = replace(choice, us=measured.us, origin=search.bench.origin.value)
                found.append(_Way(step, choice, measured.error))
        return found

    def _prospects(self, plan: Plan, limit: int) -> Iterator[Prospect]:
        """The contest of every step that can be stacked."""
        last = ContestMaker(self.graph, [], self.isa, {}, {})
        for step, single in self._steps(plan):
            ways = stacked_choices(self.graph, step, single, self.images, self.isa)
            if not ways:
                continue
            many = stacked_graph(self.graph, step, self.images)

            def make(
                step: Step = step, ways: Sequence[Choice] = ways, many: Graph = many
            ) -> Contest:
                nonlocal last
                with np.errstate(all="ignore"):
                    values = evaluate_all(many, random_inputs(many))
                last = replace(last, graph=many, values=values)
                return last.stacked_contest(step, ways, limit)

            costs = (c.schedule.cost(many, step, c.params, self.isa).total(self.isa) for c in ways)
            yield Prospect(step.outputs[0], step.name, (), min(costs), make)

    def _best(
        self, contest: Contest, known: Mapping[str, Measurement], search: Search
    ) -> tuple[Choice, Measurement] | None:
        """The fastest correct candidate."""
        by_label = {c.trial.label: known.get(c.code_key()) for c in contest.candidates}
        timed = [
            (ranked.choice, measured)
            for ranked in contest.ranked
            if (measured := by_label.get(contest.same[ranked.label])) is not None
            and measured.us is not None
            and not measured.fault
            and measured.error <= search.max_error
        ]
        return min(timed, key=lambda pair: pair[1].us or 0.0, default=None)

    def _steps(self, plan: Plan) -> list[tuple[Step, Choice]]:
        return list(zip(plan.steps(self.segments), plan.choices, strict=True))

    def _confirm(self, plan: Plan, judge: Judge, known: Known) -> tuple[list[int], float]:
        """The chunks that make a whole network faster, and the gain of the largest."""
        stacks = choose_stacks(
            self.graph, plan.steps(self.segments), plan.choices, self.isa, self.images, known
        )
        if not stacks:
            return [], 1.0
        with ExitStack() as stack:
            program = judge.program(stack, plan, stacks)
            judge.error(program)  # which fails if the results differ
            gains = {each.images: judge.gain(program, each.images) for each in stacks}
        chunks = [images for images, gain in gains.items() if gain >= LEAST_GAIN]
        return chunks, gains[self.images] if self.images in chunks else 1.0

    def _entry(self, way: _Way) -> Entry:
        many = stacked_graph(self.graph, way.step, self.images)
        return make_entry(many, way.step, self.isa, way.choice, error=way.error, runner_up=None)
