"""Contests on emulated cores: who takes part, what is counted of each, and the table."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from cannery.analysis.counting import counting
from cannery.errors import CanneryError, ToolchainError
from cannery.options import make_options
from cannery.target.compiler import Compiler
from cannery.target.runner import Origin, Runner
from networks import NETWORKS, write_network
from rivals.contest import CHILD, noop_graph
from rivals.convert import prepare
from rivals.cores import Core, RivalPython
from rivals.counted import CallCount, count_calls, judge_pieces
from rivals.inputs import write_inputs
from rivals.judge import Judge
from rivals.ours import Ours, build_ours
from rivals.packages import HALF_RIVALS, RIVALS, Rival
from rivals.plot import Bar, bars
from rivals.quantizers import quantized
from rivals.results import MOST_ERROR

#: Rivals that choose their kernels by the processor they find: those in float32 or int8 that have
#: wheels for AArch64, those in half precision, and those for x86.
WHOLE_RIVALS, HALF_RIVAL_NAMES = ("litert", "ncnn", "mnn", "onnxruntime"), (*HALF_RIVALS,)
X86_RIVALS = (*WHOLE_RIVALS, "openvino")
ALL_RIVALS: dict[str, Rival] = {name: RIVALS[name] for name in X86_RIVALS} | HALF_RIVALS

OURS = "Cannery"

#: What networks compute with, and how far their outputs may be from the float64 references. For
#: int8, where each quantiser errs in its own way, only outputs of other sizes (inf) are refused.
PRECISIONS = {"float32": MOST_ERROR, "float16": 5e-2, "int8": 1e3}

#: So many instructions, by an estimate of two for each multiply-accumulate of a vector, are enough.
_ENOUGH = 4_000_000
_MOST_CALLS = 40


@dataclass(frozen=True)
class Stage:
    """A network, a core, the rivals' Python, tuning records, and a folder for files.

    `empty` gets what a call of each rival takes with a network that does nothing; `precision` is
    one of PRECISIONS.
    """

    model: Path
    core: Core
    python: RivalPython
    tuning: Path | None
    folder: Path
    empty: dict[str, CallCount]
    precision: str = "float32"

    @property
    def network(self) -> str:
        """The network's name in tables."""
        return self.model.stem + (f", {self.precision}" if self.precision != "float32" else "")


@dataclass(frozen=True)
class CountedResult:
    """What was counted of one call of a contestant; `why` it is out, if it is.

    `call` and `call_cycles` are those of an empty network, a part of `instructions` and `cycles`.
    """

    network: str
    core: str
    name: str
    version: str
    macs: int
    instructions: float = 0.0
    multiplies: float = 0.0
    cycles: float = 0.0
    call: float = 0.0
    call_cycles: float = 0.0
    error: float = 0.0
    why: str = ""
    most_error: float = MOST_ERROR

    def __str__(self) -> str:
        if self.why:
            return f"{self.name}: {self.why}"
        return (
            f"{self.name} {self.version}: {self.instructions:,.0f} instructions,"
            f" {self.multiplies:.0%} multiply, {self.cycles:,.0f} cycles"
        )

    @property
    def net(self) -> tuple[float, float]:
        """Instructions and cycles without those of an empty network, unless that takes more."""
        less = self.instructions - self.call, self.cycles - self.call_cycles
        return less if min(less) > 0 else (self.instructions, self.cycles)


def stages(
    given: argparse.Namespace, cores: Mapping[str, Core], python: RivalPython, precision: str
) -> Iterator[Stage]:
    """Of each core and network that is asked for (`core`, `models`, `tuning`, `output`)."""
    for core in given.core:
        empty: dict[str, CallCount] = {}
        for name in given.models:
            folder = given.output / "work" / core / Path(name).stem
            model = write_network(name, folder) if name in NETWORKS else Path(name)
            yield Stage(
                model, cores[core], python, given.tuning, folder.resolve(), empty, precision
            )


def compete(stage: Stage, rivals: Sequence[str]) -> Iterator[CountedResult]:
    """Cannery, then the rivals; raises CanneryError if Cannery fails."""
    judge = Judge(stage.model)
    ours = _build(stage, judge)
    base = CountedResult(
        stage.network, stage.core.model, OURS, "", ours.source.macs,
        most_error=PRECISIONS[stage.precision],
    )  # fmt: skip
    own = stage.folder / "ours"
    (runner, *_) = ours.toolchain.runners()
    side = _Side(runner, {}, ours.toolchain.compiler, _calls(ours))
    count, _ = _count(stage, side, ours.command(judge.inputs, own), own)
    yield _counted(replace(base, version=ours.source.version), count, judge.our_error(ours, own))
    for name in rivals:
        rival = ALL_RIVALS[name]
        entry = replace(base, name=rival.title, version=stage.python.version(rival.package))
        if not entry.version:
            yield replace(entry, why="has no wheel for this core and Python")
            continue
        try:
            yield _rival(stage, ours, judge, name, entry)
        except CanneryError as error:
            yield replace(entry, why=str(error))


def _build(stage: Stage, judge: Judge) -> Ours:
    raw = {"target": stage.core.target, "tuning": stage.tuning, "name": "network"}
    if stage.core.runner:
        raw["runner"] = (stage.core.runner,)
    if stage.precision == "float16":
        raw |= {"compute_as": "float16", "max_error": str(PRECISIONS["float16"])}
    elif stage.precision == "int8":
        calibration = judge.calibration(stage.folder / "calibration.npz")
        raw |= {"quantize": stage.precision, "calibration": str(calibration), "max_loss": "1"}
    return build_ours(make_options(stage.model, raw), stage.folder / "ours", 1)


def _rival(
    stage: Stage, ours: Ours, judge: Judge, name: str, entry: CountedResult
) -> CountedResult:
    """A rival in the first order that it takes."""
    rival, folder = ALL_RIVALS[name], stage.folder / name
    made = prepare(judge.graph, stage.model, rival.format, rival.orders[0], folder)
    if stage.precision == "int8":
        made = quantized(name, made, judge.samples_of(made), folder)
    data, found = write_inputs(judge.inputs_of(made), folder)
    emulator, *options, python = stage.python.command(stage.core)
    program = shutil.which(emulator)
    if program is None:
        raise ToolchainError("is not installed", where=emulator, cure="apt install qemu-user")
    runner = Runner((program, *options), Origin.EMULATED)
    compiler = stage.python.compiler(ours.toolchain.compiler)
    side = _Side(runner, stage.python.environment, compiler, _calls(ours))
    words = [python, str(CHILD), name, str(made.file), "1", str(data), str(found)]
    count, called = _count(stage, side, words, folder)
    error = judge.error(rival.title, called, made, folder)
    if name not in stage.empty:
        words = _nothing(name, python, folder / "empty")
        stage.empty[name], _ = _count(stage, side, words, folder)
    empty = stage.empty[name]
    entry = replace(entry, call=empty.instructions, call_cycles=empty.cycles)
    return _counted(entry, count, error)


def _nothing(name: str, python: str, folder: Path) -> list[str]:
    """The words for a rival with an empty network."""
    rival = ALL_RIVALS[name]
    made = prepare(noop_graph(), folder, rival.format, rival.orders[0], folder)
    files = write_inputs({made.inputs[0]: np.zeros((1, 1, 1, 1), np.float32)}, folder)
    return [python, str(CHILD), name, str(made.file), "1", *map(str, files)]


@dataclass(frozen=True)
class _Side:
    """How a contestant runs, what reads its instructions, and how many calls are counted."""

    runner: Runner
    environment: dict[str, str]
    compiler: Compiler
    calls: int


def _calls(ours: Ours) -> int:
    return max(1, min(_MOST_CALLS, _ENOUGH // max(ours.source.macs // 2, 1)))


def _count(
    stage: Stage, side: _Side, words: Sequence[str], folder: Path
) -> tuple[CallCount, tuple[str, ...]]:
    """What one call takes, and the names of the outputs."""
    with counting(side.runner, code=True) as counter:
        command = [*counter.runner.command, *words]
        pieces, outputs = count_calls(command, counter, side.calls, side.environment)
    return judge_pieces(pieces, side.calls, stage.core.model, side.compiler, folder), outputs


def _counted(entry: CountedResult, count: CallCount, error: float) -> CountedResult:
    wrong = f"its outputs are off by {error:.1e}" if error > entry.most_error else ""
    return replace(
        entry, instructions=count.instructions, multiplies=count.multiplies, cycles=count.cycles,
        error=error, why=wrong,
    )  # fmt: skip


def _matches(results: Sequence[CountedResult]) -> list[tuple[CountedResult, list[CountedResult]]]:
    """Cannery's results, each with those of its rivals, which follow it."""
    found: list[tuple[CountedResult, list[CountedResult]]] = []
    for result in results:
        if result.name == OURS:
            found.append((result, []))
        else:
            found[-1][1].append(result)
    return found


def write_counted(
    results: Iterable[CountedResult], folder: Path, program: str
) -> list[CountedResult]:
    """Each as it comes, and tables, figures and bars of all so far: `program`.md, .json, .svg."""
    folder.mkdir(parents=True, exist_ok=True)
    found: list[CountedResult] = []
    for result in results:
        found.append(result)
        print(f"{result.core} {result.network}: {result}", flush=True)
        files = {
            "md": as_counted_table(found),
            "json": json.dumps([asdict(r) for r in found], indent=1),
            "svg": as_counted_svg(found),
        }
        for suffix, text in files.items():
            (folder / f"{program}.{suffix}").write_text(text)
    return found


def as_counted_table(results: Sequence[CountedResult]) -> str:
    """All by count and by model, and who is out, and why."""
    head = (
        "core", "network", "", "instructions", "of them the call", "multiply", "cycles by model",
        "per cycle", "instructions beside Cannery", "cycles beside Cannery",
    )  # fmt: skip
    lines = [head, ("---",) * len(head)]
    for ours, others in _matches(results):
        for each in (ours, *(r for r in others if not r.why)):
            lines.append((
                each.core, each.network, f"{each.name} {each.version}",
                f"{each.instructions:,.0f}", f"{each.call:,.0f}", f"{each.multiplies:.0%}",
                f"{each.cycles:,.0f}", f"{each.instructions / each.cycles:.2f}",
                *(f"{its / our:.2f}" for its, our in zip(each.net, ours.net, strict=True)),
            ))  # fmt: skip
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    out = [f"- {r.network} on {r.core}, {r}" for r in results if r.why]
    absent = "\nWho did not take part, and why:\n\n" + "\n".join(out) + "\n" if out else ""
    said = (
        "By count and by model: no board was measured. Ratios are without the call of an empty"
        " network."
    )
    return f"{table}\n\n{said}\n{absent}"


def as_counted_svg(results: Sequence[CountedResult]) -> str:
    """Bars of cycles by model, beside Cannery's."""
    return bars(
        (
            f"{ours.network} on {ours.core}, cycles by model",
            [
                Bar(each.name, each.net[1] / ours.net[1], f"{each.net[1]:,.0f}", each is ours)
                for each in (ours, *(r for r in others if not r.why))
            ],
        )
        for ours, others in _matches(results)
    )
