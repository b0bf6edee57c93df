"""Measures candidates: builds, checks and times those not yet known."""

from __future__ import annotations

import math
import os
import queue
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Protocol as Interface

from cannery.atomic import temporary_folder
from cannery.deadline import OutOfTimeError, check_time, now, time_left
from cannery.measure.build import Built, build, code_sizes
from cannery.measure.cache import Environment, Measurement, MeasurementCache, environment_text
from cannery.measure.harness import UNIT_CANDIDATES, Candidate, Harness
from cannery.measure.measure import Context, Protocol, alone, check, measure, measure_peak
from cannery.schedule.schedule import ConstArray
from cannery.target.runner import Origin, Runner
from cannery.target.toolchain import Toolchain
from cannery.tuning.alike import time_scales
from cannery.tuning.contests import MOST_CONSTANTS, Contest, Prospect
from cannery.tuning.estimates import Pipeline, counted_check

#: Candidates per program: enough for all cores, few enough to show progress.
BATCH_CANDIDATES = 160

#: Candidates of the first program under a deadline, which shows how long one takes, and the assumed
#: seconds before that. Later programs are small as well, as candidates differ a lot.
FIRST_CANDIDATES = 16
BUDGET_CANDIDATES = 32
CANDIDATE_SECONDS = 0.4

#: Fewer candidates of a contest are not worth a separate program.
LEAST_CANDIDATES = 2

#: Seconds that one contest may take when it is timed.
CONTEST_SECONDS = 20.0

#: Seconds that must remain for measuring the peak, which decides nothing.
PEAK_SECONDS = 2.0


class Progress(Interface):
    """Receives reports of progress."""

    def total(self, contests: int) -> None:
        """Called with the number of contests to decide."""

    def stage(self, text: str) -> None:
        """Called with what begins now."""

    def decided(self, contest: Contest, found: Mapping[str, Measurement]) -> None:
        """Called when a contest is over, with measurements by label."""


class Quiet:
    """Reports nothing."""

    def total(self, contests: int) -> None:
        """Called with the number of contests to decide."""

    def stage(self, text: str) -> None:
        """Called with what begins now."""

    def decided(self, contest: Contest, found: Mapping[str, Measurement]) -> None:
        """Called when a contest is over."""


@dataclass(frozen=True)
class Bench:
    """Where candidates are built and timed: the devices of a toolchain, all of one kind.

    The runners know their devices. `pipeline` is for processors that are not available: it
    estimates the times that decide.
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
        """The origin of the times that decide."""
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
    """Decides contests, in batches, until all are decided or the time is up (`deadline.until`).

    `max_error` bounds the error of a single candidate: others are not timed. `contests` are those
    that were made, by the keys of their prospects. `untried` and `partly` are those for which there
    was no time, or only for the most promising candidates. `decides`: something is known about a
    step.
    """

    bench: Bench
    max_error: float
    progress: Progress
    protocol: Protocol = field(default_factory=lambda: Protocol(limit=CONTEST_SECONDS))
    cache: MeasurementCache = field(init=False)
    measured: int = 0
    contests: dict[Hashable, Contest] = field(default_factory=dict)
    untried: tuple[Contest | Prospect, ...] = ()
    partly: tuple[Contest, ...] = ()
    decides: bool = False
    seconds_each: float = 0.0
    waiting: deque[Prospect | Contest] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.protocol = replace(self.protocol, context=self.bench.context)
        self.cache = MeasurementCache(self.bench.environment(), mhz=self.bench.mhz)
        self.cache.load()

    def run(self, prospects: Sequence[Prospect]) -> dict[str, Measurement]:
        """Measurements by `code_key`; those for which there was no time are missing.

        Raises ToolchainError if the compiler, a device or an emulator fails.
        """
        self.progress.total(len(prospects))
        self.waiting = deque(sorted(prospects, key=lambda p: -p.cycles))
        begun: list[Contest] = []
        while batch := self._next_batch():
            begun += [contest for contest, _ in batch]
            try:
                self._decide([part for _, part in batch])
            except OutOfTimeError:
                break
        made = self.contests.values()
        known = {id(c): sum(self._is_known(k) for k in c.candidates) for c in begun}
        self.untried = (*(c for c in begun if not known[id(c)]), *self.waiting)
        self.partly = tuple(c for c in begun if 0 < known[id(c)] < len(c.candidates))
        self.decides = any(c.steps and any(map(self._is_known, c.candidates)) for c in made)
        return self.cache.known

    def _next_batch(self) -> list[tuple[Contest, Contest]]:
        """Takes from the front what fits into one program and into the remaining time.

        Each contest comes with the part to measure: all, or its most promising candidates.
        """
        batch: list[tuple[Contest, Contest]] = []
        size = constants = 0
        while (contest := self._front()) is not None:
            room, most = self._affordable()
            more = len(contest.candidates)
            constants += contest.constant_bytes
            full = size + more > most or constants > MOST_CONSTANTS
            if size + more > room or (batch and full):
                break
            self.waiting.popleft()
            batch.append((contest, contest))
            size += more
        if contest is not None and not batch and room >= LEAST_CANDIDATES:
            self.waiting.popleft()
            batch = [(contest, replace(contest, candidates=contest.candidates[: int(room)]))]
        return batch

    def _front(self) -> Contest | None:
        """The next contest to decide, made when it is its turn; it stays in front.

        If the time is up, it stays a prospect, and nothing is in front.
        """
        while self.waiting and time_left() > 0:
            front = self.waiting[0]
            if isinstance(front, Contest):
                return front
            self.progress.stage(f"generating candidates for {front.name}")
            try:
                made = self.contests.get(front.key) or front.make()
            except OutOfTimeError:
                break
            self.waiting.popleft()
            if made is None:
                continue
            self.contests[front.key] = made
            if self._known(made):
                self.progress.decided(made, self._labelled(made))
            else:
                self.waiting.appendleft(made)
        return None

    def _affordable(self) -> tuple[float, int]:
        """How many candidates fit in the remaining time, and how many one program gets."""
        left = time_left()
        if math.isinf(left):
            return left, BATCH_CANDIDATES
        if self.seconds_each:
            return left / self.seconds_each, BUDGET_CANDIDATES
        return left / CANDIDATE_SECONDS, FIRST_CANDIDATES

    def _known(self, contest: Contest) -> bool:
        """Whether everything was measured before: times of different runs are not compared."""
        return all(map(self._is_known, contest.candidates))

    def _is_known(self, candidate: Candidate) -> bool:
        found = self.cache.get(candidate.code_key())
        return found is not None and (found.us is not None or self._bad(found))

    def _bad(self, found: Measurement) -> bool:
        return bool(found.fault) or not found.error <= self.max_error

    def _labelled(self, contest: Contest) -> dict[str, Measurement]:
        found = {c.trial.label: self.cache.get(c.code_key()) for c in contest.candidates}
        return {label: m for label, m in found.items() if m is not None}

    def _decide(self, batch: Sequence[Contest]) -> None:
        known: dict[bytes, ConstArray] = {}
        candidates = [c.whole(known) for contest in batch for c in contest.candidates]
        began = now()
        with temporary_folder() as folder:
            self.progress.stage(f"building {len(candidates)} candidates")
            harness = Harness(self.bench.toolchain.target.isa, unit=_unit_size(len(candidates)))
            built = build(folder, harness, candidates, self.bench.toolchain)
            batch = _compiled(batch, built)
            candidates = [c for contest in batch for c in contest.candidates]
            self.progress.stage("checking them against the reference")
            found = self._check(built, candidates)
            if not self.cache.peak_gflops and time_left() > PEAK_SECONDS:
                self.cache.peak_gflops = measure_peak(built, self.bench.runners[0])
            self.progress.stage("timing")
            self._time(built, batch, found)
        self.measured += len(candidates)
        # The slowest so far, so that the rest does not take longer than the budget allows.
        each = (now() - began) / len(candidates)
        self.seconds_each = max(self.seconds_each, each)

    def _check(self, built: Built, candidates: Iterable[Candidate]) -> dict[str, Measurement]:
        """Error, fault, code size and, if it decides, the estimated time, by symbol."""
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
        free: queue.Queue[tuple[Runner, float]] = queue.Queue()
        for way in zip(self.bench.runners, self._scales(built, batch, found), strict=True):
            free.put(way)

        def one(contest: Contest) -> None:
            runner, scale = way = free.get()
            try:
                times = self._time_contest(built, contest, found, runner)
            finally:
                free.put(way)
            scaled = {symbol: us * scale for symbol, us in times.items()}
            named = {c.symbol: c for c in contest.candidates}
            results = {c.code_key(): replace(found[s], us=scaled.get(s)) for s, c in named.items()}
            self.cache.add(results)
            self.progress.decided(contest, self._labelled(contest))

        with ThreadPoolExecutor(len(self.bench.runners)) as pool:
            # Threads have their own contexts, and so their own deadlines.
            try:
                for done in [pool.submit(copy_context().run, one, contest) for contest in batch]:
                    done.result()
            except BaseException:
                # The others would meet the same lost device, one after another.
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _scales(
        self, built: Built, batch: Sequence[Contest], found: Mapping[str, Measurement]
    ) -> list[float]:
        """What the times of each device are multiplied by; a single contest needs only one."""
        symbols = [c.symbol for c in built.candidates]
        sound = [k for k, symbol in enumerate(symbols) if not self._bad(found[symbol])]
        if len(self.bench.runners) == 1 or len(batch) == 1 or not sound:
            return [1.0] * len(self.bench.runners)
        return time_scales(built, self.bench.runners, self.protocol, sound[0])

    def _time_contest(
        self,
        built: Built,
        contest: Contest,
        found: Mapping[str, Measurement],
        runner: Runner,
    ) -> dict[str, float]:
        """Microseconds by symbol of the correct candidates of a contest."""
        symbols = {c.symbol for c in contest.candidates}
        inside = [k for k, c in enumerate(built.candidates) if c.symbol in symbols]
        bad = [k for k in inside if self._bad(found[built.candidates[k].symbol])]
        if len(bad) == len(inside):
            return {}
        skip = [word for k in bad for word in ("--skip", str(k))]
        where = ["--from", str(inside[0]), "--to", str(inside[-1] + 1), *skip]
        with alone(runner):
            check_time()
            limit = min(self.protocol.limit, time_left() / 2)
            times = measure(built, runner, replace(self.protocol, limit=limit), where)
        return {s: t.us for s, t in times.items()}


def _compiled(batch: Sequence[Contest], built: Built) -> list[Contest]:
    """The contests with the candidates that there was time to compile, or that fail to compile."""
    there = {c.symbol for c in built.candidates} | set(built.failed)
    kept = (tuple(c for c in each.candidates if c.symbol in there) for each in batch)
    return [replace(c, candidates=k) for c, k in zip(batch, kept, strict=True) if k]


def _unit_size(candidates: int) -> int:
    """Candidates of one translation unit.

    A small program is also compiled by all cores; with a deadline, each candidate separately, so
    that some are compiled when it comes.
    """
    if not math.isinf(time_left()):
        return 1
    return max(1, min(UNIT_CANDIDATES, -(-candidates // (os.cpu_count() or 1))))
