"""Every step of a network: its error on its own, and its time within runs of the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cannery.atomic import temporary_folder
from cannery.contents import Content
from cannery.emit.source import Source
from cannery.execution.program import Sample, TracedRun, network_program
from cannery.measure.build import Built, build
from cannery.measure.harness import Candidate, Harness, make_candidate
from cannery.measure.intervals import Interval
from cannery.measure.measure import Context, alone, check, measure_peak
from cannery.measure.trial import all_data, make_trial
from cannery.ops.movement.strided import MovementStrided
from cannery.ops.movement.view import MovementView
from cannery.target.runner import Origin, Runner
from cannery.target.toolchain import Toolchain


@dataclass(frozen=True)
class LayerCheck:
    """The error of a step on its reference inputs, and anything else wrong with it."""

    name: str
    schedule: str
    error: float
    fault: str


@dataclass(frozen=True)
class LayerTime:
    """Microseconds of a step within a run (lower quartile), None if it computes nothing.

    They lie between `low_us` and `high_us` (`intervals.CONFIDENCE`).
    """

    name: str
    op: str
    schedule: str
    macs: int
    us: float | None
    low_us: float | None
    high_us: float | None
    percent_of_peak: float | None


def _candidates(source: Source, sample: Sample) -> list[Candidate | None]:
    """One candidate per step of the program, in plain layouts; None for a view."""
    steps = [planned.step for planned in source.program.steps]
    found: list[Candidate | None] = []
    for number, (planned, data) in enumerate(
        zip(source.program.steps, all_data(source.graph, steps, sample), strict=True)
    ):
        choice = planned.choice
        if isinstance(choice.schedule, MovementView):  # the harness does not know strides
            choice = replace(choice, schedule=MovementStrided())
        trial = make_trial(
            source.graph, planned.step, choice.schedule, choice.params, source.isa, data
        )
        made = make_candidate(trial, number, number) if trial else None
        found.append(made if made and made.kernel.code.strip() else None)
    return found


@contextmanager
def _built(
    source: Source, toolchain: Toolchain, candidates: list[Candidate | None]
) -> Iterator[Built]:
    with temporary_folder() as folder:
        yield build(folder, Harness(source.isa), [c for c in candidates if c], toolchain)


def check_layers(
    source: Source, toolchain: Toolchain, runner: Runner, sample: Sample
) -> tuple[LayerCheck, ...]:
    """Check every step on inputs from the references. Raises ToolchainError."""
    candidates = _candidates(source, sample)
    with _built(source, toolchain, candidates) as built:
        verdicts = check(built, runner)
    return tuple(
        LayerCheck(c.trial.step.name, str(c.trial.choice), verdicts[c.symbol].error,
                   verdicts[c.symbol].fault)
        for c in candidates if c
    )  # fmt: skip


@dataclass(frozen=True)
class TimedLayers:
    """The time of every step within the network, and `runs` one by one, if requested.

    `peak` is the instruction set's in GFLOP/s; 0 for an emulator, which has none.
    """

    steps: tuple[LayerTime, ...]
    peak: float
    runs: tuple[TracedRun, ...] = ()


def time_layers(
    source: Source, files: Mapping[str, Content], toolchain: Toolchain, runner: Runner,
    samples: Sequence[Sample], seconds: float, context: Context, traced: int = 0,
) -> TimedLayers:  # fmt: skip
    """Time every step, and trace this many runs. Raises ToolchainError."""
    with network_program(source, files, toolchain, samples, laps=True) as program, alone(runner):
        times = program.time_steps(runner, seconds, context)
        runs = program.trace(runner, traced, context) if traced else ()
    peak = peak_gflops(source, toolchain, runner)
    return TimedLayers(layer_times(source, times, peak), peak, runs)


def layer_times(source: Source, times: Sequence[Interval], peak: float) -> tuple[LayerTime, ...]:
    """The rows of steps that took `times`, in microseconds."""
    rows = []
    for call, macs, taken in zip(source.calls, source.round_macs, times, strict=True):
        step = call.planned.step
        computes = bool(call.kernel.code.strip())
        us, low, high = (t if computes else None for t in (taken.mid, taken.low, taken.high))
        percent = 200e-3 * macs / us / peak if us and macs and peak else None
        schedule = str(call.planned.choice)
        rows.append(LayerTime(step.name, step.kind, schedule, macs, us, low, high, percent))
    return tuple(rows)


def peak_gflops(source: Source, toolchain: Toolchain, runner: Runner) -> float:
    """The peak of the instruction set in GFLOP/s; 0 for an emulator, which has none."""
    if runner.origin is Origin.EMULATED:
        return 0.0
    with _built(source, toolchain, []) as built:
        return measure_peak(built, runner)
