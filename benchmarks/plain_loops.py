"""Every layer of a model against plain C loops: the least that generated code has to beat.

    python benchmarks/plain_loops.py MODEL... [--isa NAME] [--json]

For each step, Cannery's choice and the loops that a person would write for the same nodes
(`plain_forms/`) are timed against each other in one program, interleaved, with the same compiler
and flags; the loops are compiled with -O3. Where code and buffers come to lie moves a time by up to
5%: all is measured in two programs, in opposite orders, and the lower time of each counts. Steps
that are alike are measured once. A step that also
changes the order of its value, for the sake of the next one, is marked by `*` and not judged.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cannery.choose.signature import step_signature
from cannery.errors import CanneryError
from cannery.ir.graph import Graph
from cannery.layouts import image_dims
from cannery.measure.build import build
from cannery.measure.harness import Candidate, Harness, make_candidate
from cannery.measure.measure import Protocol, Timing, check, measure
from cannery.measure.trial import Trial, all_data, make_trial, random_inputs
from cannery.options import make_options
from cannery.pipeline import choose, import_graph
from cannery.schedule.program import Choice, Step
from cannery.target.toolchain import Toolchain, find_toolchain
from cannery.tuning.contests import is_view
from plain_forms.schedule import PlainLoops

PLAIN = PlainLoops()

#: What a ratio may miss: where code and buffers lie moves the same kernel that far, see above.
PLACEMENT = 0.05

#: Larger errors are reported; some nets end in large sums.
SUSPICIOUS = 1e-3


@dataclass(frozen=True)
class Row:
    """One kind of step: microseconds of Cannery's choice and of the better plain form."""

    model: str
    layer: str
    op: str
    macs: int
    count: int
    choice: str
    us: float
    plain: str
    plain_us: float
    reorders: bool

    @property
    def ratio(self) -> float:
        """How many times faster than the loops."""
        return self.plain_us / self.us


@dataclass(frozen=True)
class Contest:
    """A step, how many are like it, and its choice."""

    step: Step
    choice: Choice
    count: int


def distinct(graph: Graph, steps: Sequence[Step], choices: Sequence[Choice]) -> list[Contest]:
    """The steps to measure: of those that are alike and chosen alike, the first."""
    found: dict[tuple[str, str], Contest] = {}
    for step, choice in zip(steps, choices, strict=True):
        key = (step_signature(graph, step), str(choice))
        old = found.get(key)
        found[key] = replace(old, count=old.count + 1) if old else Contest(step, choice, 1)
    return [c for c in found.values() if not is_view(c.choice.schedule)]


def compare(
    model: Path, raw: Mapping[str, object], protocol: Protocol
) -> tuple[list[Row], list[str]]:
    """Times every step that has a plain form, and names the others; raises CanneryError."""
    options = make_options(model, raw)
    graph = import_graph(options)
    toolchain = find_toolchain(options)
    chosen = choose(graph, toolchain.target, options)
    isa = toolchain.target.isa
    contests, without = [], []
    for contest in distinct(graph, chosen.steps, chosen.choices):
        reason = PLAIN.why_not(graph, contest.step, isa)
        if reason or image_dims(graph.types[contest.step.outputs[0]])[0] != 1:
            without.append(f"{contest.step.name} ({contest.step.kind}): {reason or 'batch'}")
        else:
            contests.append(contest)
    data = all_data(graph, [c.step for c in contests], random_inputs(graph))
    trials = []
    for number, (contest, known) in enumerate(zip(contests, data, strict=True)):
        entries = [(contest.choice.schedule, contest.choice.params)]
        entries += [(PLAIN, params) for params in PLAIN.candidates(graph, contest.step, isa)]
        for schedule, params in entries:
            trial = make_trial(graph, contest.step, schedule, params, isa, known)
            if trial is not None:
                trials.append((trial, number))
    times: dict[tuple[int, str], float] = {}
    for order in (trials, trials[::-1]):
        candidates = [make_candidate(t, k, number) for k, (t, number) in enumerate(order)]
        found = timed(candidates, toolchain, protocol)
        for candidate in candidates:
            if candidate.symbol in found:
                key = (candidate.contest, str(candidate.trial.choice))
                times[key] = min(times.get(key, float("inf")), found[candidate.symbol].us)
    return list(_rows(model.name, graph, contests, trials, times)), without


def timed(
    candidates: Sequence[Candidate], toolchain: Toolchain, protocol: Protocol
) -> Mapping[str, Timing]:
    """Times by symbol, of one program; raises CanneryError."""
    with tempfile.TemporaryDirectory(prefix="cannery-plain-") as folder:
        built = build(Path(folder), Harness(toolchain.target.isa), candidates, toolchain)
        for symbol, reason in built.failed.items():
            print(f"{symbol}: {reason}", file=sys.stderr)
        runner = toolchain.runners()[0]
        for symbol, verdict in check(built, runner).items():
            if verdict.fault or verdict.error > SUSPICIOUS:
                print(f"{symbol}: {verdict.fault or verdict.error}", file=sys.stderr)
        return measure(built, runner, protocol)


def _rows(
    model: str, graph: Graph, contests: Sequence[Contest], trials: Sequence[tuple[Trial, int]],
    times: Mapping[tuple[int, str], float],
) -> Iterator[Row]:  # fmt: skip
    for number, contest in enumerate(contests):
        group = [
            (times[number, str(trial.choice)], trial)
            for trial, own in trials
            if own == number and (number, str(trial.choice)) in times
        ]
        ours = [pair for pair in group if pair[1].choice.schedule.id != PLAIN.id]
        loops = [pair for pair in group if pair[1].choice.schedule.id == PLAIN.id]
        if not ours or not loops:
            continue
        (us, trial), (plain_us, best) = ours[0], min(loops, key=lambda pair: pair[0])
        step, orders = contest.step, trial.orders
        yield Row(
            model, step.name, step.kind, step.macs(graph), contest.count, str(contest.choice),
            us, str(best.choice.params["form"]), plain_us, orders[0] != orders[-1],
        )  # fmt: skip


def print_rows(rows: Sequence[Row]) -> None:
    """A table, the lowest ratio first."""
    print(f"{'layer':28} {'op':12} {'MAC':>9} {'us':>9} {'plain us':>9} {'ratio':>6}  choice")
    for row in sorted(rows, key=lambda r: r.ratio):
        name = row.layer[:24] + (f" x{row.count}" if row.count > 1 else "")
        print(
            f"{name:28} {row.op[:12]:12} {row.macs:9d} {row.us:9.3f} "
            f"{row.plain_us:9.3f} {row.ratio:6.2f}{'*' if row.reorders else ' '} "
            f"{row.choice} (plain: {row.plain})"
        )


def main() -> int:
    """Prints a table per model; exit code 1 if a layer is slower than its loops."""
    parser = argparse.ArgumentParser(description="Every layer against plain C loops.")
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--isa")
    parser.add_argument("--target")
    parser.add_argument("--cc")
    parser.add_argument("--tuning", type=Path)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds per layer")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    raw = {
        "isa": (given.isa,) if given.isa else (),
        "target": given.target,
        "cc": given.cc,
        "tuning": given.tuning,
    }
    found: list[Row] = []
    for model in given.models:
        try:
            rows, without = compare(model, raw, replace(Protocol(), limit=given.limit))
        except CanneryError as error:
            print(f"plain_loops: error: {error}", file=sys.stderr)
            return 2
        found += rows
        if not given.json:
            print(f"\n{model.name}")
            print_rows(rows)
            for line in without:
                print(f"not compared: {line}")
    if given.json:
        print(json.dumps([{**row.__dict__, "ratio": row.ratio} for row in found], indent=2))
    return 1 if any(row.ratio < 1.0 - PLACEMENT and not row.reorders for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
