"""Builds and runs all candidates of an instruction set as one program, and says what failed.

`python tests/ops/kernel_bench.py avx2 --schedules 'conv.*' --cases 'conv_*' --all` tries every
candidate of the matching schedules and cases; without `--all` parameters are chosen pairwise.
`--keep DIR` leaves the generated sources there.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np

if __name__ == "__main__":  # what pytest gets from pyproject.toml
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "generator")]

from cannery.errors import CanneryError
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.layouts import Want as Place
from cannery.lowering.depth import depth_first_chains
from cannery.lowering.lower import chains, cut
from cannery.measure.build import build
from cannery.measure.harness import Candidate, Harness, make_candidate
from cannery.measure.measure import Check, check
from cannery.measure.trial import Data, Placing, Trial, all_data, make_trial, random_inputs
from cannery.schedule.program import Step
from cannery.schedule.schedule import Params, Schedule, all_schedules, legal, reads_halves
from cannery.target.runner import Runner, find_runner
from cannery.target.targets import Target, find_target
from cannery.target.toolchain import Toolchain, toolchain_for
from cannery.tuning.contests import is_view
from nets.compilation import WARNINGS
from ops.cases import Case, all_cases

#: Targets that stand for the instruction sets, and those that run on an emulated CPU without more.
TARGETS = ("generic", "sse2", "ssse3", "sse42", "avx2", "avx512", "atom32", "thumbdsp",
           "helium", "neon32", "neon64", "neon64dot", "neon64half", "neon64i8mm",
           "neon64bf16", "riscv64v128", "riscv64v256")  # fmt: skip
STRICT = ("atom32",)

#: Candidates of one schedule for one step: at least while there are any, and at most.
LEAST, MOST = 1, 2
#: Targets whose kernels come from the same templates and nearly the same words: of steps and
#: schedules that show nothing new, each takes its share.
KIN = (("generic", "ssse3", "atom32", "avx2", "avx512", "thumbdsp"),
       ("neon32", "neon64"), ("riscv64v128", "riscv64v256"))  # fmt: skip
#: Targets whose code is that of another one, except by the schedules for what only they have.
EXTENDS = {
    "neon64dot": ("neon64", "quantized.*,chains.depth_first"),
    "neon64half": ("neon64dot", "half.*"),
    "neon64i8mm": ("neon64half", "quantized.*,chains.depth_first"),
    "neon64bf16": ("neon64i8mm", "bfloat.*"),
}
#: Those whose code differs from that of others in a few words only get what is new, of each one.
FEWER = ("sse2", "sse42", "helium")
FEWER_LEAST, FEWER_MOST = 0, 1

#: Compiled as for users; what compilers might make of wrong `restrict`s and the like shows there.
#: For the others, whose C is nearly the same, half of that time has to be enough.
OPTIMIZED = ("avx2",)
QUICKLY = "-Og"

#: Code longer than this (in characters) takes compilers seconds and is left to the slow tests, but
#: for what would not be tried at all.
LONGEST_CODE = 60_000

#: Candidates and bytes of code of one translation unit: the headers take longer than most of them.
UNIT, UNIT_BYTES = 200, 2_000_000

Pair = tuple[tuple[str, object], tuple[str, object]]


@dataclass(frozen=True)
class Want:
    """Patterns of what to try, those of schedules with commas, and whether all parameters are.

    `each`: every case with every schedule on every target, also where one of its KIN does it, and
    also where the code is long.
    """

    cases: str = "*"
    schedules: str = "*"
    everything: bool = False
    each: bool = False

    def has(self, schedule: Schedule) -> bool:
        """Whether a schedule is one of them."""
        return _matches(schedule, self.schedules)


def _matches(schedule: Schedule, patterns: str) -> bool:
    """Whether one of the patterns, which commas separate, is that of a schedule."""
    return any(fnmatch.fnmatch(schedule.id, pattern) for pattern in patterns.split(","))


@dataclass(frozen=True)
class Traits:
    """What a case has that ways to compute it may get wrong: each way meets each trait.

    `words` are whether there are strides, pads, dilations, groups, lengths ... and what the
    epilogue reads. `channels` are those of the output: vectors may end after the last one. `bare`:
    nothing is around the inputs that could be read instead of what lies beyond them.
    """

    words: frozenset[tuple[str, object]] = frozenset()
    channels: int = 1
    bare: bool = False

    def pairs(self, params: Params, placing: Placing) -> set[Pair]:
        """Traits with the parameters that choose other code, and with how vectors end."""
        kinds = [p for p in params.items() if isinstance(p[1], str | bool)]
        found: set[Pair] = {(kind, word) for kind in kinds for word in self.words}
        lanes = int(params.get("lanes", 1))
        if lanes > 1:
            ends = (self.channels % lanes != 0, self.bare, placing is Placing.PLAIN)
            found.add((("lanes", lanes), ("ends", ends)))
        return found


#: What distinguishes cases if only parameters count.
NO_TRAITS = Traits()


@dataclass
class Chooser:
    """Picks candidates so that all pairs of parameter values occur, over all cases together."""

    most: int = MOST
    everything: bool = False
    seen: dict[str, set[Pair]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)

    def pick(
        self, schedule: Schedule, found: Sequence[Params], least: int, traits: Traits = NO_TRAITS
    ) -> list[tuple[Params, Placing]]:
        """Some of the candidates, each with a placing: at least this many, even if none is new."""
        pool = [(params, placing) for placing in Placing for params in found]
        if self.everything:
            return pool
        seen = self.seen.setdefault(schedule.id, set())
        asked = self.asked.get(schedule.id, 0)
        self.asked[schedule.id] = asked + 1
        # Where nothing is new any more, each case begins elsewhere.
        turn = asked * 7 % len(pool)
        pool = [*pool[turn:], *pool[:turn]]
        pairs = [
            _pairs(params, placing) | traits.pairs(params, placing) for params, placing in pool
        ]
        left = list(range(len(pool)))
        chosen: list[int] = []
        while left and len(chosen) < self.most:
            best = max(left, key=lambda k: (len(pairs[k] - seen), -k))
            if not pairs[best] - seen and len(chosen) >= least:
                break
            chosen.append(best)
            left.remove(best)
            seen |= pairs[best]
        return [pool[k] for k in chosen]


def case_traits(graph: Graph, step: Step, reads: Sequence[Place]) -> Traits:
    """Those of a step whose schedule wants its inputs so."""
    words: set[tuple[str, object]] = {("inputs", len(step.inputs) > 1)}
    for each in fields(step.anchor.op):
        value = getattr(step.anchor.op, each.name)
        numbers = np.array(value, object).ravel().tolist()
        if value is None or isinstance(value, bool | str):
            words.add((each.name, value))
        elif all(isinstance(number, int) for number in numbers):
            words.add((each.name, any(n != 0 if each.name == "pads" else n > 1 for n in numbers)))
    constants = [v for node in step.epilogue for v in node.inputs if v in graph.constants]
    sizes = {graph.types[v].elements > 1 for v in constants}
    words.add(("epilogue", (len(step.epilogue) > 0, *sorted(sizes))))
    words.add(("halves", reads_halves(graph, step)))
    shape = graph.types[step.outputs[0]].shape
    words.add(("samples", shape[:1] > (1,)))
    bare = not any(want.halo or want.slack for want in reads)
    return Traits(frozenset(words), shape[-1] if shape else 1, bare)


def _pairs(params: Params, placing: Placing) -> frozenset[Pair]:
    return _pairs_of((*sorted(params.items()), ("placing", placing.value)))


@cache
def _pairs_of(values: tuple[tuple[str, object], ...]) -> frozenset[Pair]:
    return frozenset((a, b) for k, a in enumerate(values) for b in values[: k + 1])


def _least(graph: Graph, step: Step, schedule: Schedule, target: Target, name: str) -> int:
    """How many candidates are tried of a case though nothing is new about them, see KIN."""
    if target.name in FEWER:
        return FEWER_LEAST
    if target.name in EXTENDS:
        return LEAST
    family = next((family for family in KIN if target.name in family), (target.name,))
    turn = crc32(f"{name}/{step.name} {schedule.id}".encode()) % len(family)
    for kin in (*family[turn:], *family[:turn]):
        if kin == target.name:
            return LEAST
        if not schedule.why_not(graph, step, find_target(kin).isa):
            return 0
    raise AssertionError("a target is of its own kin")


def own(target: Target, schedule: Schedule) -> bool:
    """Whether a schedule may make code that the target it extends does not get."""
    _, patterns = EXTENDS.get(target.name, ("", "*"))
    return _matches(schedule, patterns)


@dataclass(frozen=True)
class Attempt:
    """A candidate and the case it comes from."""

    case: Case
    candidate: Candidate

    def judge(self, result: Check | None, broken: str) -> str:
        """What is wrong with it; empty if nothing."""
        label = self.candidate.trial.label
        if result is None:
            return f"{label}: does not compile: {broken}"
        if result.fault:
            return f"{label}: {result.fault} (error {result.error:.3g})"
        inexact = self.candidate.trial.choice.schedule.inexact
        tolerance = self.case.inexact if inexact else self.case.tolerance
        wrong = not result.error <= tolerance
        return f"{label}: error {result.error:.3g} > {tolerance:g}" if wrong else ""


@dataclass(frozen=True)
class Report:
    """How many candidates there were, what failed, and why they were not run (if they were not)."""

    count: int
    failures: tuple[str, ...]
    not_run: str = ""


def case_inputs(case: Case, graph: Graph) -> dict[str, RefArray]:
    """Seeded inputs of a case."""
    inputs = random_inputs(graph, seed=len(case.name))
    if case.positive:
        return {k: np.abs(v) + v.dtype.type(0.1) for k, v in inputs.items()}
    return inputs


def case_steps(case: Case) -> tuple[Graph, list[tuple[Step, Data]]]:
    """The computing steps of a case, with inputs and expected outputs."""
    graph = case.make()
    steps = cut(graph)
    if case.depth_first:
        steps = (max(depth_first_chains(graph, steps), key=lambda chain: len(chain.parts)),)
    else:
        steps = (*steps, *chains(graph, steps))
    data = all_data(graph, steps, case_inputs(case, graph))
    return graph, list(zip(steps, data, strict=True))


def attempts(target: Target, want: Want) -> tuple[list[Attempt], list[str]]:
    """Candidates of all cases on one target, and what could not even be generated."""
    most = FEWER_MOST if target.name in FEWER else MOST
    chooser = Chooser(most, everything=want.everything)
    found: list[Attempt] = []
    broken: list[str] = []
    for case in all_cases():
        if not fnmatch.fnmatch(case.name, want.cases):
            continue
        with case.caches():
            _attempt(case, target, want, chooser, found, broken)
    return found, broken


def _attempt(
    case: Case,
    target: Target,
    want: Want,
    chooser: Chooser,
    found: list[Attempt],
    broken: list[str],
) -> None:
    graph, steps = case_steps(case)
    for step, data in steps:
        for trial in _trials(graph, step, data, target, want, chooser, case.name):
            schedule = trial.choice.schedule
            try:
                candidate = make_candidate(trial, len(found))
            except Exception as error:  # a defect of one kernel must not hide the others
                broken.append(f"{trial.label}: not generated: {error!r}")
                continue
            short = want.everything or want.each or len(candidate.kernel.code) <= LONGEST_CODE
            if short or not any(a.candidate.trial.choice.schedule == schedule for a in found):
                found.append(Attempt(case, candidate))


def _trials(
    graph: Graph, step: Step, data: Data, target: Target, want: Want, chooser: Chooser, name: str
) -> Iterator[Trial]:
    isa = target.isa
    for schedule in legal(graph, step, isa):
        if is_view(schedule) or not want.has(schedule):
            continue
        if not want.each and not own(target, schedule):
            continue
        candidates = schedule.candidates(graph, step, isa)
        least = LEAST if want.each else _least(graph, step, schedule, target, name)
        traits = NO_TRAITS
        if target.name not in FEWER:
            reads = schedule.reads(graph, step, candidates[0], isa)
            traits = case_traits(graph, step, reads)
        for params, placing in chooser.pick(schedule, candidates, least, traits):
            label = f"{name}/{step.name} {schedule.label(params)}"
            plain = make_trial(graph, step, schedule, params, isa, data, label=f"{label} [plain]")
            placed = make_trial(
                graph, step, schedule, params, isa, data, placing=placing,
                label=f"{label} [{placing.value}]",
            )  # fmt: skip
            trial = placed or (None if want.everything else plain)
            if trial:
                yield trial


def find(target: str) -> tuple[Toolchain, Runner | None, str]:
    """The toolchain, the runner, and why there is no runner. Raises ToolchainError."""
    toolchain = toolchain_for(target)
    try:
        return toolchain, find_runner(toolchain.target, strict=target in STRICT), ""
    except CanneryError as error:
        return toolchain, None, str(error)


def run(target: str, want: Want, folder: Path) -> Report:
    """Try everything that is wanted on one target. Raises ToolchainError."""
    toolchain, runner, why_not = find(target)
    quick = () if target in OPTIMIZED or want.everything else (QUICKLY,)
    flags = (*toolchain.cflags, "-std=c99", *quick)
    toolchain = replace(toolchain, cflags=flags, warnings=WARNINGS)
    found, broken = attempts(toolchain.target, want)
    if not found:
        return Report(0, tuple(broken), why_not)
    harness = Harness(toolchain.target.isa, bands=True, unit=UNIT, unit_bytes=UNIT_BYTES)
    jobs = len(os.sched_getaffinity(0))
    built = build(folder, harness, [a.candidate for a in found], toolchain, jobs=jobs)
    if runner is None:
        failed = [f"{s}: does not compile: {why}" for s, why in built.failed.items()]
        return Report(len(found), (*broken, *failed), why_not)
    results = check(built, runner)
    judged = (
        a.judge(results.get(a.candidate.symbol), built.failed.get(a.candidate.symbol, ""))
        for a in found
    )
    return Report(len(found), (*broken, *filter(None, judged)))


def main() -> int:
    """The command line, for work on schedules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=TARGETS, metavar="TARGET")
    parser.add_argument("--cases", default="*", help="pattern of case names")
    parser.add_argument("--schedules", default="*", help="patterns of schedule ids")
    parser.add_argument("--all", action="store_true", help="every candidate in every placing")
    parser.add_argument("--keep", type=Path, help="folder for the sources and the program")
    given = parser.parse_args()
    want = Want(given.cases, given.schedules, given.all, each=True)
    unknown = set(given.schedules.split(",")) - set(all_schedules())
    if unknown and not any(ch in given.schedules for ch in "*?["):
        parser.error(f"no schedule is called {given.schedules}")
    bad = False
    for target in given.targets:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as temporary:
            folder = given.keep / target if given.keep else Path(temporary)
            report = run(target, want, folder)
        spent = time.monotonic() - start
        state = f"not run: {report.not_run}" if report.not_run else "run"
        counts = f"{report.count} candidates, {len(report.failures)} failed"
        print(f"{target}: {counts}, {state}, {spent:.1f} s")
        for line in report.failures:
            print(f"  {line}")
        bad |= bool(report.failures)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
