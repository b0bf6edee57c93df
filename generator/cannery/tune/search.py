"""Measures candidates: builds, checks and times what is not yet known."""

from __future__ import annotations

import queue
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol as Interface

from cannery.schedule.schedule import ConstArray
from cannery.target.runner import Origin, Runner
from cannery.target.toolchain import Toolchain
from cannery.tune.build import Built, build, code_sizes
from cannery.tune.cache import Environment, Measurement, MeasurementCache, environment_text
from cannery.tune.contests import MOST_CONSTANTS, Contest
from cannery.tune.estimates import Pipeline, counted_check
from cannery.tune.harness import Candidate, Harness
from cannery.tune.measure import Context, Protocol, alone, check, measure, measure_peak

#: Candidates of one program: enough for all cores, few enough to show progress.
BATCH_CANDIDATES = 160

#: Candidates of the first program under a budget, which shows how long one takes, and what is
#: assumed before that, in seconds. Later ones are small as well: candidates differ much.
FIRST_CANDIDATES = 16
BUDGET_CANDIDATES = 32
CANDIDATE_SECONDS = 0.4

#: Fewer candidates of a contest are not worth a program of their own.
LEAST_CANDIDATES = 2

#: Seconds that one contest may take when it is timed.
CONTEST_SECONDS = 20.0


class Progress(Interface):
    """Is told what is going on."""

    def total(self, contests: int) -> None:
        """So many contests have to be decided."""

    def stage(self, text: str) -> None:
        """What begins now."""

    def decided(self, contest: Contest, found: Mapping[str, Measurement]) -> None:
        """A contest is over: measurements by label."""


class Quiet:
    """Tells nobody."""

    def total(self, contests: int) -> None:
        """So many contests have to be decided."""

    def stage(self, text: str) -> None:
        """What begins now."""

    def decided(self, contest: Contest, found: Mapping[str, Measurement]) -> None:
        """A contest is over."""


@dataclass(frozen=True)
class Bench:
    """Where candidates are built and timed: the devices of a toolchain, all alike.

    The runners know their devices. `pipeline` is for processors that are not at hand: it tells the
    times that candidates are chosen by.
    """

    toolchain: Toolchain
    runners: tuple[Runner, ...]
    context: Context = Context.WARM
    pipeline: Pipeline | None = None

    @property
    def mhz(self) -> float:
        """The clock at which times are taken; 0 if unknown."""
        device = self.runners[0].device
        return device.mhz if device else 0.0

    @property
    def origin(self) -> Origin:
        """What the times are worth that decide."""
        return Origin.ESTIMATED if self.pipeline else self.runners[0].origin

    def environment(self) -> Environment:
        """What the times depend on."""
        runner = self.runners[0]
        device = runner.device.key if runner.device else ""
        flags = " ".join([*self.toolchain.compiler.command, *self.toolchain.cflags])
        compiler = f"{self.toolchain.compiler.version}, {environment_text()}"
        cold = f", {self.context.value}" if self.context is Context.COLD else ""
        estimate = f", {self.pipeline.key}" if self.pipeline else ""
        return Environment(compiler, flags, device, runner.origin.value + cold + estimate)


@dataclass
class Search:
    """Decides contests, in batches, until all are decided or the time is over.

    `budget` is in seconds from the start of the search. `max_error` bounds the error of a single
    candidate: no other is timed. `untried` and `partly` are the contests for which there was no
    time, or only for the most promising candidates.
    """

    bench: Bench
    max_error: float
    progress: Progress
    budget: float | None = None
    protocol: Protocol = field(default_factory=lambda: Protocol(limit=CONTEST_SECONDS))
    cache: MeasurementCache = field(init=False)
    measured: int = 0
    started: float = field(default_factory=time.monotonic)
    untried: tuple[Contest, ...] = ()
    partly: list[Contest] = field(default_factory=list)
    seconds_each: float = 0.0

    def __post_init__(self) -> None:
        self.protocol = replace(self.protocol, context=self.bench.context)
        self.cache = MeasurementCache(self.bench.environment(), mhz=self.bench.mhz)
        self.cache.load()

    def run(self, contests: Sequence[Contest]) -> dict[str, Measurement]:
        """Measurements by `code_key`; those for which there was no time are missing.

        Raises ToolchainError where the compiler, a device or an emulator fails.
        """
        self.progress.total(len(contests))
        open_contests = []
        for contest in sorted(contests, key=lambda c: -c.cycles):
            if self._known(contest):
                self.progress.decided(contest, self._labelled(contest))
            else:
                open_contests.append(contest)
        waiting = deque(open_contests)
        while batch := self._next_batch(waiting):
            self._decide(batch)
        self.untried = tuple(waiting)
        return self.cache.known

    def _next_batch(self, waiting: deque[Contest]) -> list[Contest]:
        """Takes from the front what fits into one program and into the time that is left."""
        room, most = self._affordable()
        batch: list[Contest] = []
        size = constants = 0
        while waiting:
            more = len(waiting[0].candidates)
            constants += waiting[0].constant_bytes
            full = size + more > most or constants > MOST_CONSTANTS
            if size + more > room or (batch and full):
                break
            batch.append(waiting.popleft())
            size += more
        if waiting and not batch and room >= LEAST_CANDIDATES:
            contest = waiting.popleft()
            self.partly.append(contest)
            batch = [replace(contest, candidates=contest.candidates[: int(room)])]
        return batch

    def _affordable(self) -> tuple[float, int]:
        """How many candidates the time that is left suffices for, and how many one program gets."""
        if self.budget is None:
            return float("inf"), BATCH_CANDIDATES
        left = self.budget - (time.monotonic() - self.started)
        if self.seconds_each:
            return left / self.seconds_each, BUDGET_CANDIDATES
        return left / CANDIDATE_SECONDS, FIRST_CANDIDATES

    def _known(self, contest: Contest) -> bool:
        """Whether all was measured before: times of different runs are not compared."""
        found = [self.cache.get(c.code_key()) for c in contest.candidates]
        return all(m is not None and (m.us is not None or self._bad(m)) for m in found)

    def _bad(self, found: Measurement) -> bool:
        return bool(found.fault) or not found.error <= self.max_error

    def _labelled(self, contest: Contest) -> dict[str, Measurement]:
        found = {c.trial.label: self.cache.get(c.code_key()) for c in contest.candidates}
        return {label: m for label, m in found.items() if m is not None}

    def _decide(self, batch: Sequence[Contest]) -> None:
        known: dict[bytes, ConstArray] = {}
        candidates = [c.whole(known) for contest in batch for c in contest.candidates]
        began = time.monotonic()
        folder = Path(tempfile.mkdtemp(prefix="cannery-tune-"))
        try:
            self.progress.stage(f"building {len(candidates)} candidates")
            harness = Harness(self.bench.toolchain.target.isa)
            built = build(folder, harness, candidates, self.bench.toolchain)
            self.progress.stage("checking them against the reference")
            found = self._check(built, candidates)
            if not self.cache.peak_gflops:
                self.cache.peak_gflops = measure_peak(built, self.bench.runners[0])
            self.progress.stage("timing")
            self._time(built, batch, found)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.measured += len(candidates)
        # The slowest so far: what is left should not take longer than the budget allows.
        each = (time.monotonic() - began) / len(candidates)
        self.seconds_each = max(self.seconds_each, each)

    def _check(self, built: Built, candidates: Iterable[Candidate]) -> dict[str, Measurement]:
        """Error, fault, code size and, where that decides, the estimated time, by symbol."""
        pipeline, toolchain = self.bench.pipeline, self.bench.toolchain
        estimates: dict[str, float] = {}
        if pipeline is not None:
            checked = counted_check(built, toolchain)
            verdicts, estimates = checked.verdicts, pipeline.times(checked, toolchain)
        else:
            verdicts = check(built, self.bench.runners[0])
        sizes = code_sizes(built)
        found = {}
        for candidate in candidates:
            symbol = candidate.symbol
            if symbol in built.failed:
                fault = f"does not compile: {built.failed[symbol]}"
                found[symbol] = Measurement(float("inf"), fault)
            else:
                verdict = verdicts[symbol]
                found[symbol] = Measurement(
                    verdict.error, verdict.fault, None, sizes[symbol], estimates.get(symbol)
                )
        return found

    def _time(self, built: Built, batch: Sequence[Contest], found: dict[str, Measurement]) -> None:
        """Time the contests of a program, on all devices side by side."""
        free: queue.Queue[Runner] = queue.Queue()
        for runner in self.bench.runners:
            free.put(runner)

        def one(contest: Contest) -> None:
            runner = free.get()
            try:
                times = self._time_contest(built, contest, found, runner)
            finally:
                free.put(runner)
            named = {c.symbol: c for c in contest.candidates}
            results = {c.code_key(): replace(found[s], us=times.get(s)) for s, c in named.items()}
            self.cache.add(results)
            self.progress.decided(contest, self._labelled(contest))

        with ThreadPoolExecutor(len(self.bench.runners)) as pool:
            for done in [pool.submit(one, contest) for contest in batch]:
                done.result()

    def _time_contest(
        self,
        built: Built,
        contest: Contest,
        found: Mapping[str, Measurement],
        runner: Runner,
    ) -> dict[str, float]:
        """Microseconds by symbol of the sound candidates of a contest."""
        symbols = {c.symbol for c in contest.candidates}
        inside = [k for k, c in enumerate(built.candidates) if c.symbol in symbols]
        bad = [k for k in inside if self._bad(found[built.candidates[k].symbol])]
        if len(bad) == len(inside):
            return {}
        skip = [word for k in bad for word in ("--skip", str(k))]
        where = ["--from", str(inside[0]), "--to", str(inside[-1] + 1), *skip]
        with alone(runner):
            times = measure(built, runner, self.protocol, where)
        return {s: t.us for s, t in times.items()}
