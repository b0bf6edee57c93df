"""Tuning a network, from options to a record: the whole way in `tune`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from cannery.errors import ToolchainError
from cannery.execution.samples import reference_outputs, seeded_samples
from cannery.ir.evaluate import evaluate_all
from cannery.ir.tensor import TensorType
from cannery.options import Options
from cannery.pipeline import import_graph, io_order, judge_graph
from cannery.schedule.program import Choice
from cannery.target.runner import Origin, Runner
from cannery.target.toolchain import find_toolchain, resolve_target
from cannery.tune.confirm import Judge
from cannery.tune.contests import (
    Contest,
    ContestMaker,
    Ranked,
    group,
    needed_reorders,
    rank,
)
from cannery.tune.defaults import Defaults
from cannery.tune.estimates import Estimated, Pipeline, find_pipeline
from cannery.tune.finalists import Net, fastest, make_exact
from cannery.tune.identify import check_devices, identify, remark_of
from cannery.tune.lookup import find_record
from cannery.tune.measure import Context, Protocol, refuse_emulated
from cannery.tune.new_record import NewRecord
from cannery.tune.optimize import ROUNDING, Optimizer, plan_text
from cannery.tune.outcome import Layer, Outcome, Settings
from cannery.tune.owner import check_replaced
from cannery.tune.plan import Plan, make_units
from cannery.tune.record import (
    Many,
    Record,
    better_origin,
    find_choices,
    match,
    read_record,
    record_path,
    write_record,
)
from cannery.tune.search import Bench, Progress, Quiet, Search
from cannery.tune.stacks import record_stacks
from cannery.tune.trial import random_inputs
from cannery.tune.tune_many import ManyTuner

#: Candidates of one kind of step, and of one that takes less than this part of the whole time.
CONTEST_CANDIDATES = 24
SMALL_CANDIDATES = 8
SMALL_SHARE = 0.02

#: Whole nets that are compared in the end, beside the one without tuning.
CONFIRMED_PLANS = 3

#: Steps that a note names.
SHOWN_NAMES = 6

#: Multiply-accumulates that the references may take for the samples which judge a network.
REFERENCE_MACS = 4_000_000_000

#: Under an emulator times are only shown.
EMULATED_PROTOCOL = Protocol(first=1, more=1, sample_us=1.0, limit=1.0)


def tune(options: Options, settings: Settings, progress: Progress | None = None) -> Outcome:
    """Measure, plan, confirm, and write the record.

    Raises CanneryError for bad input and where building or running fails; an earlier record is
    untouched then.
    """
    return Tuner(options, settings, progress or Quiet()).run()


def usable_record(options: Options, context: Context | None = None) -> Path | None:
    """The record that has a usable entry for every step, if there is one, tuned for `context`.

    Raises RecordError if it is damaged, and other CanneryErrors for bad input.
    """
    target = resolve_target(options)
    path, record = find_record(options, target)
    if record is None or (context is not None and record.context != context.value):
        return None
    graph = import_graph(options)
    units = make_units(graph)
    found = find_choices(path, record, graph, units, target.isa, options.max_error)
    if found.unusable:
        return None
    if options.many > 1:
        picks = sorted(found.choices, key=lambda k: units[k].first)
        steps, choices = [units[k].step for k in picks], [found.choices[k] for k in picks]
        many = record_stacks(record, graph, steps, choices, target.isa, options.many)
        return None if isinstance(many, str) else path
    return path


@dataclass
class Tuner:
    """State of one tuning; `run` is the order in which the methods are called."""

    options: Options
    settings: Settings
    progress: Progress
    started: float = field(default_factory=time.monotonic)
    confirmed_plans: int = CONFIRMED_PLANS
    notes: list[str] = field(default_factory=list)

    def run(self) -> Outcome:
        self.toolchain = find_toolchain(self.options)
        runners = identify(self.toolchain, self.toolchain.runners())
        check_devices(self.toolchain, runners)
        self.notes.extend(filter(None, map(remark_of, runners[:1])))
        refuse_emulated(self.settings.context, runners[0])
        self.isa = self.toolchain.target.isa
        name = self.toolchain.target.name
        self.path = record_path(self.options.model, name, self.options.tuning, self.options.form)
        there = read_record(self.path)
        self.context = self.take_record(there)
        self.bench = Bench(self.toolchain, runners, self.context, self.pipeline(runners[0]))
        self.progress.stage("reading the model")
        self.graph = import_graph(self.options)
        self.units = make_units(self.graph)
        self.check_record(there)
        self.order = io_order(self.options)
        optimizer, search = self.measure()
        self.tell_untried(search)
        chosen, before, after = self.confirm(optimizer)
        many = self.many(optimizer, search, chosen.plan)
        new = NewRecord(self.options.model.stem, self.bench, optimizer, self.old)
        emulated = runners[0].origin is Origin.EMULATED
        changed = write_record(self.path, new.make(chosen, many))
        return Outcome(
            self.toolchain, self.bench.origin, 0.0 if emulated else search.cache.peak_gflops,
            self.layers(optimizer, chosen.plan), before, after, chosen.error, len(self.samples),
            time.monotonic() - self.started, search.measured, self.path, changed,
            tuple(self.notes), self.untried, self.partly, self.context,
            self.estimates(optimizer, chosen.plan),
            self.graph.error_bound(self.options.max_error), runners[0].device,
        )  # fmt: skip

    def pipeline(self, runner: Runner) -> Pipeline | None:
        """The model of the processor, where only an emulator runs programs; else times decide."""
        if runner.origin is not Origin.EMULATED:
            return None
        try:
            return find_pipeline(self.toolchain.target)
        except ToolchainError as error:
            self.notes.append(f"nothing was estimated: {error}")
            return None

    def estimates(self, optimizer: Optimizer, plan: Plan) -> Estimated | None:
        """What was estimated of the network without tuning, and of a plan."""
        if self.bench.pipeline is None:
            return None
        before, after = map(optimizer.total, (self.default, plan))
        return Estimated(self.bench.pipeline.text, before, after)

    def take_record(self, record: Record | None) -> Context:
        """Go on from the record of an earlier tuning; returns the context of this one.

        Times of another context are no times of this one: such a record is replaced.
        """
        self.old = record
        if record is None:
            return self.settings.context or Context.WARM
        context = self.settings.context or Context(record.context)
        if context.value != record.context:
            self.old = None
            many = ", also for several images at once (--many)" if record.many else ""
            self.notes.append(
                f"the record was made with {record.context} caches, and is replaced{many}"
            )
        return context

    def check_record(self, there: Record | None) -> None:
        """Raise RecordError if the file holds what belongs to another model or target.

        A record for other instructions is not gone on from.
        """
        if there is None:
            return
        target = self.toolchain.target
        note = check_replaced(self.path, there, self.options, target, self.graph, self.units)
        if self.old is not None and (there.isa, there.bits) != (self.isa.name, self.isa.bits):
            self.old = None
            note = f"the record was made for {there.isa}; it is replaced"
        self.notes += [note] if note else []

    def names(self, contests: Sequence[Contest]) -> tuple[str, ...]:
        """The steps of contests, in the order of the network."""
        indices = sorted(k for contest in contests for k in contest.steps)
        return tuple(dict.fromkeys(self.units[k].step.name for k in indices))

    def tell_untried(self, search: Search) -> None:
        """Note what the budget left out; there is no time for many whole networks either."""
        self.partly = self.names(search.partly)
        self.untried = tuple(n for n in self.names(search.untried) if n not in self.partly)
        for names, how in ((self.untried, "nothing"), (self.partly, "only a part")):
            if names:
                listed = ", ".join(names[:SHOWN_NAMES])
                more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
                self.notes.append(f"within {search.budget:g} s {how} was tried of {listed}{more}")
        if search.untried or search.partly:
            self.confirmed_plans = 1

    def layers(self, optimizer: Optimizer, plan: Plan) -> tuple[Layer, ...]:
        """What is told of each step of a plan."""
        steps = ((k, self.units[k].step, choice) for k, choice in plan.picks)
        return tuple(
            Layer(number, step, step.macs(self.graph), optimizer.tried[k], choice)
            for number, (k, step, choice) in enumerate(steps)
        )

    # ---- Measuring ----

    def measure(self) -> tuple[Optimizer, Search]:
        """Every contest, and the optimizer that knows the results."""
        self.progress.stage("computing the reference")
        with np.errstate(all="ignore"):
            values = evaluate_all(self.graph, random_inputs(self.graph))
        estimates = {
            k: rank(self.graph, unit.step, self.isa, inexact=True)
            for k, unit in enumerate(self.units)
        }
        self.default = self.estimated()
        fixed = self.fixed()
        maker = ContestMaker(self.graph, self.units, self.isa, values, self.wanted(fixed))
        self.progress.stage("generating candidates")
        contests = self.step_contests(maker, estimates)
        reorders = self.reorder_contests(maker, estimates)
        emulated = self.bench.runners[0].origin is Origin.EMULATED
        protocol = EMULATED_PROTOCOL if emulated else None
        bound = max(self.options.max_error, ROUNDING)
        search = Search(self.bench, bound, self.progress, self.settings.budget)
        if protocol:
            search.protocol = protocol
        distinct = {id(c): c for c in contests.values()}
        known = search.run([*reorders.values(), *distinct.values()])
        optimizer = Optimizer(
            self.graph, self.units, self.isa, self.order, self.bench.origin,
            self.options.max_error, contests, estimates, reorders, known, fixed,
        )  # fmt: skip
        return optimizer, search

    def estimated(self) -> Plan:
        """What an untuned compile would choose."""
        bound = self.options.max_error
        return Defaults(self.graph, self.units, self.isa, self.order, bound).plan()

    def wanted(self, fixed: Mapping[int, Choice]) -> dict[int, list[str]]:
        """Candidates that are measured in any case: the default's and the record's."""
        wanted = {k: [str(choice)] for k, choice in self.default.picks}
        for k, choice in {**self.recorded(), **fixed}.items():
            wanted.setdefault(k, []).append(str(choice))
        return wanted

    def recorded(self) -> dict[int, Choice]:
        """What the old record chooses, where it still can."""
        if self.old is None:
            return {}
        found = find_choices(
            self.path, self.old, self.graph, self.units, self.isa, self.options.max_error
        )
        return dict(found.choices)

    def fixed(self) -> dict[int, Choice]:
        """Choices of the old record that were measured on something better than there is now."""
        if self.old is None:
            return {}
        entries = match(self.old, self.graph, self.units)
        kept = {
            k: replace(choice, origin=entry.origin)
            for k, choice in self.recorded().items()
            if (entry := entries[k]) is not None
            and better_origin(entry, self.bench.origin)
            and choice.us is not None
        }
        if kept:
            origin = self.bench.origin.value
            self.notes.append(
                f"{len(kept)} steps keep their choices, of better origin than {origin}"
            )
        return kept

    def step_contests(
        self, maker: ContestMaker, estimates: Mapping[int, Sequence[Ranked]]
    ) -> dict[int, Contest]:
        """The contest of each unit that computes something."""
        best = {k: min((r.cycles for r in found), default=0.0) for k, found in estimates.items()}
        total = sum(best[k] for k, unit in enumerate(self.units) if not unit.step.parts) or 1.0
        found: dict[int, Contest] = {}
        for indices in group(self.graph, self.units).values():
            share = sum(best[k] for k in indices) / total
            contest = maker.step_contest(indices, self.candidates_for(share))
            if contest is not None:
                found.update(dict.fromkeys(indices, contest))
        return found

    def candidates_for(self, share: float) -> int:
        """How many candidates a step deserves that takes a share of the estimated time."""
        if self.settings.exhaustive:
            return 1_000_000
        return CONTEST_CANDIDATES if share >= SMALL_SHARE else SMALL_CANDIDATES

    def reorder_contests(
        self, maker: ContestMaker, estimates: Mapping[int, Sequence[Ranked]]
    ) -> dict[tuple[TensorType, str, str], Contest]:
        """The contest of every change of order that a plan may contain."""
        needed = needed_reorders(self.graph, self.units, self.isa, estimates, self.order)
        return {key: maker.reorder_contest(*key) for key in needed}

    # ---- Whole networks ----

    def confirm(self, optimizer: Optimizer) -> tuple[Net, float | None, float | None]:
        """The best whole network, the time of the one without tuning, and its own."""
        self.progress.stage("confirming whole networks")
        macs = max(sum(u.step.macs(self.graph) for u in self.units if not u.step.parts), 1)
        self.samples = seeded_samples(self.graph)[: max(REFERENCE_MACS // macs, 1)]
        expected = reference_outputs(judge_graph(self.options), self.samples)
        self.judge = judge = Judge(
            self.graph, self.units, self.toolchain, self.bench.runners[0], self.order,
            self.samples, expected, self.context,
        )  # fmt: skip
        bound = self.graph.error_bound(self.options.max_error) / 2
        with ExitStack() as stack:
            found = optimizer.plans(self.confirmed_plans if optimizer.timed else 1)
            nets = [make_exact(judge, optimizer, plan, bound, stack) for plan in found]
            if not optimizer.timed:
                return nets[0], None, None
            default = optimizer.with_times(self.default)
            same = next((n for n in nets if plan_text(n.plan) == plan_text(default)), None)
            nets.append(same or make_exact(judge, optimizer, default, bound, stack))
            times = judge.times([net.program for net in nets])
        winner = fastest(times)
        if winner == len(nets) - 1:
            self.notes.append("the network without tuning was the fastest")
        return nets[winner], times[-1], times[winner]

    def many(self, optimizer: Optimizer, search: Search, plan: Plan) -> Many | None:
        """How several images are computed at once; what the old record says, if nobody asked."""
        images = self.options.many
        if images < 2:
            return self.old.many if self.old else None
        old = self.old.many if self.old else None
        tuner = ManyTuner(self.graph, self.units, self.isa, images, old)
        if not optimizer.timed:
            return tuner.estimate(plan)
        self.progress.stage(f"{images} images at once")
        plan = optimizer.with_times(plan)
        # What was not tried for want of time has been told already.
        rest = replace(search, untried=(), partly=[])
        found, gain = tuner.tune(plan, rest, self.judge, self.candidates_for(1.0))
        search.measured += rest.measured - search.measured
        self.notes.append(f"{images} images at once are {gain:.2f} times as fast as one by one")
        return found
