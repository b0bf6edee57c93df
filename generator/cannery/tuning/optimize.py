"""From measurements to plans: options of every step, costs of reorders, the cheapest plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median

from cannery.choose.bounded import MemoryBounds
from cannery.choose.plan import Option, Plan, Segment, best_per_orders, make_option, plans
from cannery.deadline import check_time
from cannery.errors import OptionError
from cannery.ir.graph import Graph
from cannery.ir.tensor import TensorType
from cannery.measure.cache import Measurement
from cannery.measure.measure import TIE
from cannery.schedule.program import Choice
from cannery.target.isa import Isa
from cannery.target.runner import Origin
from cannery.tuning.contests import Contest, Ranked, is_view

#: Cycles per microsecond if no measurement gives a better number.
CYCLES_PER_US = 3000.0

#: How far schedules that only round may be off, however small the bound is: none are more exact,
#: and the bound judges the network as a whole. More is a fault.
ROUNDING = 1e-4


@dataclass(frozen=True)
class Tried:
    """A candidate of a step: estimated cycles, measurement (None: not measured), whether it may be
    chosen, and its option in that case.
    """

    ranked: Ranked
    measurement: Measurement | None
    usable: bool
    option: Option

    @property
    def label(self) -> str:
        return self.ranked.label

    @property
    def error(self) -> float:
        """Measured error; 0 if unknown."""
        return self.measurement.error if self.measurement else 0.0

    @property
    def us(self) -> float | None:
        """Measured time."""
        return self.measurement.us if self.measurement else None

    @property
    def estimated_us(self) -> float | None:
        """The time to choose by, if one was estimated."""
        known = self.measurement is not None and self.measurement.estimated_us is not None
        return self.option.cost if known else None

    @property
    def code_bytes(self) -> int:
        return self.measurement.code_bytes if self.measurement else 0

    def rivals(self, other: Tried) -> bool:
        """Whether both read and write the same orders."""
        mine, others = self.option, other.option
        return (mine.reads, mine.writes) == (others.reads, others.writes)


@dataclass(frozen=True)
class Optimizer:
    """Everything known when plans are made.

    `contests` and `estimates` are by segment, `reorders` has the contest of each change of order,
    `known` has measurements by code. Times from an emulator are never used: then estimated times
    rank together with the cost model if `origin` says so, else the cost model alone. `fixed` are
    choices from better earlier measurements. Without `inexact`, no others are inexact.
    Plans keep the `bounds`; where nothing that was measured does, `untuned` does.
    """

    graph: Graph
    segments: Sequence[Segment]
    isa: Isa
    io_order: str
    origin: Origin
    max_error: float
    contests: Mapping[int, Contest]
    estimates: Mapping[int, Sequence[Ranked]]
    reorders: Mapping[tuple[TensorType, str, str], Contest]
    known: Mapping[str, Measurement]
    fixed: Mapping[int, Choice] = field(default_factory=dict)
    inexact: bool = True
    bounds: MemoryBounds | None = None
    untuned: Plan | None = None

    @property
    def timed(self) -> bool:
        """Whether measured times may decide."""
        return self.origin in (Origin.DEVICE, Origin.HOST)

    def time(self, found: Measurement | None) -> float | None:
        """The trustworthy microseconds of a candidate, if there are any."""
        if found is None or self.origin is Origin.EMULATED:
            return None
        return found.us if self.timed else found.estimated_us

    def measurement(self, index: int, ranked: Ranked) -> Measurement | None:
        """What was measured for a candidate of a step."""
        contest = self.contests.get(index)
        first = contest.same.get(ranked.label) if contest else None
        if contest is None or first is None:
            return None
        candidate = next(c for c in contest.candidates if c.trial.label == first)
        return self.known.get(candidate.code_key())

    def cost(self, found: Measurement | None, cycles: float) -> float:
        """Microseconds to choose by: measured ones if there are any.

        Estimates are averaged geometrically with the cost model's (`cycles`): the former know the
        code, the latter knows memory and caches, and together they rank better than each alone
        (`benchmarks/cost_model.py --mca`).
        """
        us, modelled = self.time(found), cycles / self.cycles_per_us
        if us is None:
            return modelled
        return us if self.timed or not modelled else math.sqrt(us * modelled)

    @cached_property
    def cycles_per_us(self) -> float:
        """The median ratio over everything both measured and estimated, for what was only
        estimated.
        """
        ratios = []
        for index in self.contests:
            for ranked in self.estimates[index]:
                found = self.measurement(index, ranked)
                us = self.time(found)
                if us and ranked.cycles > 0:
                    ratios.append(ranked.cycles / us)
        return median(ratios) if ratios else CYCLES_PER_US

    @cached_property
    def tried(self) -> tuple[tuple[Tried, ...], ...]:
        """The candidates of every segment, usable ones first, by cost."""
        return tuple(self._tried(k) for k in range(len(self.segments)))

    def _tried(self, index: int) -> tuple[Tried, ...]:
        check_time()
        found = []
        pairs = [(r, self.measurement(index, r)) for r in self.estimates[index]]
        decided = any(m and self.time(m) is not None and self.sound(r.choice, m) for r, m in pairs)
        for ranked, measured in pairs:
            choice = ranked.choice
            usable = self.sound(choice, measured) if measured else not choice.inexact
            if decided and not is_view(choice.schedule):
                usable &= self.time(measured) is not None
            found.append(self._with_option(index, ranked, measured, usable))
        return tuple(sorted(found, key=lambda t: (not t.usable, t.option.cost)))

    def sound(self, choice: Choice, measured: Measurement) -> bool:
        """Whether a candidate on its own computes what it should, as exactly as it must."""
        if choice.inexact and not self.inexact:
            return False
        bound = self.max_error if choice.inexact else max(self.max_error, ROUNDING)
        return not measured.fault and measured.error <= bound

    def _with_option(
        self, index: int, ranked: Ranked, measured: Measurement | None, usable: bool
    ) -> Tried:
        us = measured.us if measured and self.timed else None
        cost = self.cost(measured, ranked.cycles)
        origin = self.origin.value if us is not None else Origin.ESTIMATED.value
        choice = replace(ranked.choice, us=us, origin=origin)
        option = make_option(self.graph, self.segments[index].step, choice, self.isa, cost)
        return Tried(ranked, measured, usable, option)

    def options(self, index: int, *, cold: bool = False) -> list[Option]:
        """One option for each combination of orders; among ties, the smallest code.

        `cold` adds the time of fetching the code once, as in a network that outgrows the cache.
        """
        if index in self.fixed:
            choice = self.fixed[index]
            cost = choice.us or 0.0
            return [make_option(self.graph, self.segments[index].step, choice, self.isa, cost)]
        usable = [t for t in self.tried[index] if t.usable]
        if cold:
            fetched = self.isa.core.code.fetched * self.cycles_per_us
            usable = [replace(t, option=_dearer(t.option, t.code_bytes / fetched)) for t in usable]
        best = best_per_orders([t.option for t in usable])
        return [self._smallest(option, usable) for option in best]

    def _smallest(self, best: Option, usable: Sequence[Tried]) -> Option:
        """Of the candidates that tie with the best for its orders, the one with the least code."""
        ties = [
            t
            for t in usable
            if (t.option.reads, t.option.writes) == (best.reads, best.writes)
            and self.time(t.measurement) is not None
            and t.option.cost <= best.cost * (1 + TIE)
        ]
        return min(ties, key=lambda t: t.code_bytes).option if ties else best

    def reorder(self, value: str, source: str, target: str) -> float:
        """Microseconds of copying a value from one order to another."""
        type_ = self.graph.types[value]
        contest = self.reorders.get((type_, source, target))
        if contest is None:
            return type_.elements / self.cycles_per_us
        found = self.known.get(contest.candidates[0].code_key())
        return self.cost(found, contest.ranked[0].cycles)

    def plans(self, count: int) -> list[Plan]:
        """The cheapest plans, best first, then the best one if code must be fetched; all differ."""
        found = self._plans(count, cold=False)
        if self.timed:
            found += self._plans(1, cold=True)
        distinct: dict[str, Plan] = {}
        for each in found:
            distinct.setdefault(plan_text(each), each)
        return list(distinct.values())

    def _plans(self, count: int, *, cold: bool) -> list[Plan]:
        options = [self.options(k, cold=cold) for k in range(len(self.segments))]
        found = self._of(options, count)
        if self.bounds is None:
            return found
        kept = [plan for plan in found if self._keeps(plan)]
        return kept or [self._bounded(self.bounds)]

    def _of(self, options: Sequence[Sequence[Option]], count: int = 1) -> list[Plan]:
        return plans(
            self.graph, self.segments, options, reorder=self.reorder, io_order=self.io_order,
            count=count,
        )  # fmt: skip

    def _bounded(self, bounds: MemoryBounds) -> Plan:
        """The cheapest plan within the bounds, of all candidates: those with less memory count."""
        every = [self._all(k) for k in range(len(self.segments))]
        bounds = replace(bounds, cycle=1.0 / self.cycles_per_us)
        try:
            return bounds.cheapest(every, lambda options: self._of(options)[0])
        except OptionError:
            if self.untuned is None:
                raise
            return self.untuned

    def _all(self, index: int) -> list[Option]:
        if index in self.fixed:
            return self.options(index)
        return [t.option for t in self.tried[index] if t.usable]

    def _keeps(self, plan: Plan) -> bool:
        return self.bounds is None or self.bounds.broken(plan) is None

    def find(self, index: int, choice: Choice) -> Tried | None:
        """What is known about a choice for a step."""
        return next((t for t in self.tried[index] if t.label == str(choice)), None)

    def with_times(self, plan: Plan) -> Plan:
        """The same plan with the measurements of its choices."""
        found = ((k, c, self.find(k, c)) for k, c in plan.picks)
        return Plan(plan.cost, tuple((k, t.option.choice if t else c) for k, c, t in found))

    def total(self, plan: Plan) -> float:
        """Microseconds of a plan, changes of order between its steps included."""
        options: list[list[Option]] = [[] for _ in self.segments]
        for k, choice in plan.picks:
            found = self.find(k, choice)
            cost = found.option.cost if found else choice.us or 0.0
            options[k] = [make_option(self.graph, self.segments[k].step, choice, self.isa, cost)]
        (same,) = plans(
            self.graph, self.segments, options, reorder=self.reorder, io_order=self.io_order
        )
        return same.cost

    def rivals(self, index: int, choice: Choice) -> list[Tried]:
        """Other usable candidates that read and write the same orders, by cost."""
        chosen = make_option(self.graph, self.segments[index].step, choice, self.isa, 0.0)
        orders = (chosen.reads, chosen.writes)
        return [
            t
            for t in self.tried[index]
            if t.usable and t.label != str(choice) and (t.option.reads, t.option.writes) == orders
        ]

    def more_exact(self, plan: Plan, bound: float, error: float) -> Plan:
        """The plan with steps replaced until the net's error should fall below `bound`.

        `error` is the net's now. It takes what saves the most error per microsecond lost, and
        assumes that the errors of steps add up. The same plan is returned if nothing more can be
        saved.
        """
        picks = dict(plan.picks)
        known = (self.find(k, c) for k, c in picks.items())
        total = sum(t.error for t in known if t) or 1.0
        scale = error / total
        while scale * total > bound:
            savings = self._savings(picks)
            if not savings:
                break
            _, index, saved, better = max(savings, key=lambda found: found[0])
            total -= saved
            picks[index] = better.option.choice
        found = Plan(plan.cost, tuple(picks.items()))
        return found if self._keeps(found) else plan

    def _savings(self, picks: Mapping[int, Choice]) -> list[tuple[float, int, float, Tried]]:
        """(error saved per microsecond lost, segment, error saved, replacement), per
        replacement.
        """
        found: list[tuple[float, int, float, Tried]] = []
        for index, choice in picks.items():
            now = self.find(index, choice)
            if now is None or index in self.fixed:
                continue
            for other in self.rivals(index, choice):
                # Smaller differences are rounding, not an improvement.
                if other.error < 0.5 * now.error:
                    lost = max(other.option.cost - now.option.cost, 1e-6)
                    saved = now.error - other.error
                    found.append((saved / lost, index, saved, other))
        return found


def _dearer(option: Option, cost: float) -> Option:
    return replace(option, cost=option.cost + cost)


def plan_text(plan: Plan) -> str:
    """A key that equal plans share."""
    return " ".join(f"{k}:{choice}" for k, choice in plan.picks)
