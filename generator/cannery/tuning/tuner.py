"""Tunes a network, from options to a record: `tune` is the whole way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from cannery.choose.half import check_half
from cannery.choose.lookup import find_record
from cannery.choose.owner import check_replaced
from cannery.choose.plan import Plan, Segment, make_segments
from cannery.choose.record import (
    Many,
    Record,
    find_choices,
    read_record,
    record_path,
    write_record,
)
from cannery.choose.stacks import record_stacks
from cannery.deadline import OutOfTimeError, check_time, now, until
from cannery.errors import ToolchainError
from cannery.execution.samples import reference_outputs, seeded_samples
from cannery.ir.graph import Graph
from cannery.measure.identify import check_devices, identify, remark_of
from cannery.measure.measure import Context, Protocol, refuse_emulated
from cannery.options import Options
from cannery.pipeline import defaults_of, import_graph, io_order, judge_graph
from cannery.schedule.program import Choice
from cannery.target.isa import Isa
from cannery.target.runner import Origin, Runner
from cannery.target.toolchain import find_toolchain, resolve_target
from cannery.tuning.budget import Budget, segment_names
from cannery.tuning.confirm import Judge
from cannery.tuning.contests import ContestMaker, is_view
from cannery.tuning.earlier import Earlier
from cannery.tuning.estimates import Estimated, Pipeline, find_pipeline
from cannery.tuning.finalists import Chosen, Finals, aim
from cannery.tuning.new_record import NewRecord
from cannery.tuning.optimize import ROUNDING, Optimizer
from cannery.tuning.outcome import LayerOutcome, Outcome, Settings
from cannery.tuning.prepare import Prepared, prepare, tuned_segments
from cannery.tuning.search import Bench, Progress, Quiet, Search
from cannery.tuning.tune_many import ManyTuner

#: Candidates of one kind of step, and of one that takes less than this fraction of the total time.
CONTEST_CANDIDATES = 24
SMALL_CANDIDATES = 8
SMALL_SHARE = 0.02

#: What a contest counts for, under a budget, if the untuned network does not have its steps.
ALTERNATIVE = 0.25

#: How many whole nets are compared at the end, besides the one without tuning.
CONFIRMED_PLANS = 3

#: Stages for which there may be no time.
UNJUDGED = (
    "comparing the whole network with the reference (so only exact kernels were chosen; their "
    "rounding may still exceed --max-error)"
)
UNTIMED = "comparing the times of whole networks"
MORE = "comparing more than two whole networks"

#: Multiply-accumulates that the references may take for the samples that judge a network.
REFERENCE_MACS = 4_000_000_000

#: Under an emulator, times are only shown.
EMULATED_PROTOCOL = Protocol(first=1, more=1, sample_us=1.0, limit=1.0)


def tune(options: Options, settings: Settings, progress: Progress | None = None) -> Outcome:
    """Measure, plan, confirm, and write the record.

    Raises CanneryError for bad input and if building or running fails; an earlier record then stays
    untouched.
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
    segments = make_segments(graph, depth_first=options.max_ram is not None)
    found = find_choices(path, record, graph, segments, target.isa, options.max_error)
    if found.unusable or _breaks(found.choices, graph, segments, target.isa, options):
        return None
    if options.many > 1:
        picks = sorted(found.choices, key=lambda k: segments[k].first)
        steps, choices = [segments[k].step for k in picks], [found.choices[k] for k in picks]
        many = record_stacks(record, graph, steps, choices, target.isa, options.many)
        return None if isinstance(many, str) else path
    return path


def _breaks(
    choices: Mapping[int, Choice], graph: Graph, segments: Sequence[Segment], isa: Isa,
    options: Options,
) -> bool:  # fmt: skip
    """Whether the choices of a record take more memory than options allow."""
    picks = sorted(choices.items(), key=lambda pick: segments[pick[0]].first)
    bounds = defaults_of(graph, segments, isa, options).bounds
    return bounds.broken(Plan(0.0, tuple(picks))) is not None


@dataclass
class Tuner:
    """State of one tuning; `run` is the order in which the methods are called.

    `short` are the segments whose contests ran out of time.
    """

    options: Options
    settings: Settings
    progress: Progress
    notes: list[str] = field(default_factory=list)
    judge: Judge | None = None
    short: set[int] = field(default_factory=set)

    def run(self) -> Outcome:
        started = self.settings.started
        self.budget = Budget(self.settings.budget, now() if started is None else started)
        self.toolchain = find_toolchain(self.options)
        runners = self.identified(self.toolchain.runners())
        self.notes.extend(filter(None, map(remark_of, runners[:1])))
        self.notes.extend(filter(None, dict.fromkeys(runner.state for runner in runners)))
        refuse_emulated(self.settings.context, runners[0])
        self.isa = self.toolchain.target.isa
        name = self.toolchain.target.name
        self.path = record_path(self.options.model, name, self.options.tuning, self.options.form)
        there = read_record(self.path)
        self.context = self.take_record(there)
        self.bench = Bench(self.toolchain, runners, self.context, self.pipeline(runners[0]))
        self.progress.stage("reading the model")
        self.graph = import_graph(self.options)
        check_half(self.graph, self.toolchain.target)
        self.order = io_order(self.options)
        self.segments = tuned_segments(self.graph, self.isa, self.options)
        self.check_record(there)
        self.earlier = Earlier(
            self.path, self.old, self.graph, self.segments, self.isa, self.options.max_error
        )
        search, optimizer, prepared = self.measure()
        chosen = Chosen(Plan(0.0, ()))
        if prepared is not None:
            chosen = self.confirm(optimizer, prepared, search)
        many = self.many(optimizer, search, chosen.plan)
        unknown = self.unknown(optimizer, chosen.plan)
        new = NewRecord(self.options.model.stem, self.bench, optimizer, self.old, unknown)
        record = new.make(chosen, many)
        idle = not search.decides and (prepared is None or bool(search.untried))
        if idle:
            self.notes.append(self.budget.idle_note(kept=there is not None))
        # If nothing is known, or the bound is broken, an old record is worth more.
        known = search.decides or (there is None and not idle)
        right = chosen.error is None or chosen.error <= self.bound
        changed = known and right and write_record(self.path, record)
        untried, partly = self.untried_names(search, chosen.plan)
        emulated = runners[0].origin is Origin.EMULATED
        return Outcome(
            self.toolchain, self.bench.origin, 0.0 if emulated else search.cache.peak_gflops,
            self.layers(optimizer, chosen.plan, unknown), chosen.before_us, chosen.after_us,
            chosen.error, len(self.judge.samples) if self.judge else 0,
            now() - self.budget.started, search.measured, self.path, changed,
            (*self.notes, *self.budget.notes(untried, partly)), untried, partly, self.context,
            self.estimates(optimizer, prepared, chosen.plan),
            self.bound, runners[0].device,
            tuple(self.budget.missed), idle,
        )  # fmt: skip

    def identified(self, runners: tuple[Runner, ...]) -> tuple[Runner, ...]:
        """The runners with their devices; without devices if there is no time, as nothing runs
        then.
        """
        try:
            with until(self.budget.end):
                found = identify(self.toolchain, runners)
        except OutOfTimeError:
            return runners
        check_devices(self.toolchain, found)
        return found

    def pipeline(self, runner: Runner) -> Pipeline | None:
        """The model of the processor if only an emulator runs programs; otherwise times decide."""
        if runner.origin is not Origin.EMULATED:
            return None
        try:
            return find_pipeline(self.toolchain.target)
        except ToolchainError as error:
            self.notes.append(f"nothing was estimated: {error}")
            return None

    def estimates(
        self, optimizer: Optimizer, prepared: Prepared | None, plan: Plan
    ) -> Estimated | None:
        """The estimates for the network without tuning, and for a plan."""
        if self.bench.pipeline is None or prepared is None:
            return None
        before, after = map(optimizer.total, (prepared.default, plan))
        return Estimated(self.bench.pipeline.text, before, after)

    def take_record(self, record: Record | None) -> Context:
        """Continue from the record of an earlier tuning; returns the context of this one.

        Times from another context do not apply to this one: such a record is replaced.
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
        """Raise RecordError if the file belongs to another model or target.

        A record for other instructions is not continued.
        """
        if there is None:
            return
        target = self.toolchain.target
        note = check_replaced(self.path, there, self.options, target, self.graph, self.segments)
        if self.old is not None and (there.isa, there.bits) != (self.isa.name, self.isa.bits):
            self.old = None
            note = f"the record was made for {there.isa}; it is replaced"
        self.notes += [note] if note else []

    def layers(
        self, optimizer: Optimizer, plan: Plan, unknown: Collection[int]
    ) -> tuple[LayerOutcome, ...]:
        """The report on each step of a plan."""
        steps = ((k, self.segments[k].step, choice) for k, choice in plan.picks)
        return tuple(
            LayerOutcome(
                number, step, step.macs(self.graph), optimizer.tried[k], choice, k in unknown
            )
            for number, (k, step, choice) in enumerate(steps)
        )

    # ---- Measuring ----

    def measure(self) -> tuple[Search, Optimizer, Prepared | None]:
        """Every contest, as far as time allows, and the optimizer that knows the results.

        If there is no time for anything, nothing is prepared.
        """
        bound = max(self.options.max_error, ROUNDING)
        search = Search(self.bench, bound, self.progress)
        if self.bench.runners[0].origin is Origin.EMULATED:
            search.protocol = EMULATED_PROTOCOL
        self.progress.stage("computing the reference")
        began, prepared = now(), None
        try:
            with until(self.budget.end):
                check_time()
                prepared = prepare(
                    self.graph, self.segments, self.isa, self.order, self.options.max_error,
                    self.options.max_ram, self.options.max_flash,
                )  # fmt: skip
        except OutOfTimeError:
            seconds = began - self.budget.started
            self.budget.missed.append(f"more than reading the model, which took {seconds:.1f} s")
        optimizer = Optimizer(
            self.graph, self.segments, self.isa, self.order, self.bench.origin,
            self.options.max_error, {}, {}, {}, {}, self.fixed(),
        )  # fmt: skip
        if prepared is not None:
            if prepared.defaults.bounds.given:
                optimizer = replace(
                    optimizer, bounds=prepared.defaults.bounds, untuned=prepared.default
                )
            optimizer = self.search(search, prepared, optimizer, now() - began)
        return search, optimizer, prepared

    def search(
        self, search: Search, prepared: Prepared, empty: Optimizer, seconds: float
    ) -> Optimizer:
        """Runs the contests; preparing them took `seconds`. Fills `empty`."""
        wanted = {k: [str(choice)] for k, choice in prepared.default.picks}
        for k, choice in {**self.earlier.choices, **empty.fixed}.items():
            wanted.setdefault(k, []).append(str(choice))
        maker = ContestMaker(self.graph, self.segments, self.isa, prepared.values, wanted)
        prospects = [
            *prepared.reorder_prospects(maker),
            *prepared.step_prospects(maker, self.candidates_for),
        ]
        if self.budget.seconds is not None:
            # The untuned network's choices are tried before their alternatives.
            first = {k for k, _ in prepared.default.picks}
            prospects = [
                p if first.intersection(p.steps) else replace(p, cycles=p.cycles * ALTERNATIVE)
                for p in prospects
            ]
        self.budget.prepared = now()
        with until(self.budget.search_end(seconds)):
            known = search.run(prospects)
        if not search.decides and search.untried:
            # There is nothing to confirm: that time is better spent here.
            with until(self.budget.end):
                known = search.run(prospects)
        self.short = {k for c in (*search.untried, *search.partly) for k in c.steps}
        kept = self.kept({k for c in search.untried for k in c.steps})
        contests = {k: c for c in search.contests.values() for k in c.steps}
        reorders = {
            key: search.contests[key] for key in prepared.reorders if key in search.contests
        }
        return replace(
            empty, contests=contests, estimates=prepared.estimates, reorders=reorders, known=known,
            fixed={**kept, **empty.fixed},
        )  # fmt: skip

    def fixed(self) -> dict[int, Choice]:
        """Choices of the old record that were measured on something better than what is available
        now.
        """
        kept = self.earlier.better(self.bench.origin)
        if kept:
            origin = self.bench.origin.value
            unnamed = "; the record names no device: delete it if that was an emulator"
            whose = "" if self.old is None or self.old.device else unnamed
            self.notes.append(
                f"{len(kept)} steps keep their choices, which have a better origin than "
                f"{origin}{whose}"
            )
        return kept

    def kept(self, untried: Collection[int]) -> dict[int, Choice]:
        """Choices of the old record for segments for which nothing was tried now."""
        kept = self.earlier.untouched(self.bench.runners[0].device, untried)
        if kept:
            self.notes.append(f"{len(kept)} steps stay as they are in the record")
        return kept

    def candidates_for(self, share: float) -> int:
        """How many candidates a step deserves that takes a share of the estimated time."""
        if self.settings.exhaustive:
            return 1_000_000
        return CONTEST_CANDIDATES if share >= SMALL_SHARE else SMALL_CANDIDATES

    def unknown(self, optimizer: Optimizer, plan: Plan) -> set[int]:
        """Segments of a plan that the cost model chose, because there was no time to try
        anything.
        """
        found = set()
        for k, choice in plan.picks:
            if k in self.short and k not in optimizer.fixed and not is_view(choice.schedule):
                tried = optimizer.find(k, choice)
                if tried is None or tried.measurement is None:
                    found.add(k)
        return found

    def untried_names(self, search: Search, plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The steps for which nothing was tried, and those for which only part was."""
        if not plan.picks:
            singles = [k for k, segment in enumerate(self.segments) if not segment.step.parts]
            return segment_names(self.segments, singles, plan), ()
        untried, partly = (
            segment_names(self.segments, [k for c in found for k in c.steps], plan)
            for found in (search.untried, search.partly)
        )
        return tuple(n for n in untried if n not in partly), partly

    # ---- Whole networks ----

    def confirm(self, optimizer: Optimizer, prepared: Prepared, search: Search) -> Chosen:
        """The best whole network, as far as there is time to find it.

        If not everything was measured, there is no time for many networks either.
        """
        self.progress.stage("confirming whole networks")

        def complete(plan: Plan) -> Plan:
            """What compiling will make of a plan's lines in the record."""
            unknown = self.unknown(optimizer, plan)
            if not unknown:
                return plan
            known = {k: choice for k, choice in plan.picks if k not in unknown}
            return optimizer.with_times(prepared.defaults.plan(known))

        best = Chosen(prepared.default)
        try:
            with ExitStack() as stack, until(self.budget.end):
                if self.budget.seconds is not None:
                    exact = replace(optimizer, inexact=False)
                    best = Chosen(complete(exact.plans(1)[0]))
                if not search.decides and self.short:
                    return best
                count = 1 if self.short else CONFIRMED_PLANS
                self.judge = self.make_judge()
                goal = aim(self.graph, self.options.max_error)
                finals = Finals(self.judge, optimizer, goal, self.bound, complete, stack)
                for better in finals.run(prepared.default, count):
                    best = better
        except OutOfTimeError:
            late = UNTIMED if best.after_us is None else MORE
            if search.decides:
                self.budget.missed.append(UNJUDGED if best.error is None else late)
        if best.untuned:
            self.notes.append("the network without tuning was the fastest")
        return best

    @property
    def bound(self) -> float:
        """The largest allowed error of the whole network."""
        return self.graph.error_bound(self.options.max_error)

    def make_judge(self) -> Judge:
        """Samples, and the references' results for them. Raises OutOfTimeError."""
        macs = max(sum(s.step.macs(self.graph) for s in self.segments if not s.step.parts), 1)
        samples = seeded_samples(self.graph)[: max(REFERENCE_MACS // macs, 1)]
        expected = reference_outputs(judge_graph(self.options), samples)
        return Judge(
            self.graph, self.segments, self.toolchain, self.bench.runners[0], self.order,
            samples, expected, self.context, self.options.max_ram,
        )  # fmt: skip

    def many(self, optimizer: Optimizer, search: Search, plan: Plan) -> Many | None:
        """How several images are computed at once; from the old record if not requested, or if
        there is no time.
        """
        images = self.options.many
        old = self.old.many if self.old else None
        if images < 2:
            return old
        tuner = ManyTuner(self.graph, self.segments, self.isa, images, old)
        if plan.picks and not optimizer.timed:
            return tuner.estimate(plan)
        self.progress.stage(f"{images} images at once")
        rest = replace(search, untried=(), partly=())
        try:
            if self.judge is None:
                raise OutOfTimeError
            with until(self.budget.end):
                found, gain = tuner.tune(
                    optimizer.with_times(plan), rest, self.judge, self.candidates_for(1.0)
                )
        except OutOfTimeError:
            self.budget.missed.append(f"{images} images at once")
            return old
        search.measured += rest.measured - search.measured
        if rest.untried or rest.partly:
            self.budget.missed.append(f"all ways to compute {images} images at once")
        self.notes.append(f"{images} images at once are {gain:.2f} times as fast as one by one")
        return found
