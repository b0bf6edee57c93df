"""Builds and measures networks side by side, so that other work on the machine affects all.

Each round starts every program once, in turn and in alternating order; a figure of a network is the
median of its rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from cannery.choose.provenance import code_flags
from cannery.emit.source import Source
from cannery.execution.counts import count_network
from cannery.execution.layers import LayerCheck, check_layers, peak_gflops
from cannery.execution.program import Bandwidth, NetworkProgram, Sample, network_program
from cannery.execution.samples import errors_by_output, reference_outputs, seeded_samples
from cannery.execution.sizes import code_bytes
from cannery.ir.registry import RefArray
from cannery.measure.identify import identify
from cannery.measure.intervals import Interval, interval
from cannery.measure.measure import Context, alone
from cannery.options import Options
from cannery.pipeline import Compiled, compile_model, judge_graph
from cannery.reporting.facts import Facts, network_facts
from cannery.target.runner import Origin, Runner
from cannery.target.toolchain import Toolchain, find_toolchain

#: Default seconds for timing a network.
DEFAULT_SECONDS = 2.0

#: Rounds of measuring: the interval of a median of ten excludes the extremes.
ROUNDS = 10

#: Samples by which a network's error is judged.
SAMPLES = 4


@dataclass(frozen=True)
class Subject:
    """A network to be measured."""

    options: Options
    compiled: Compiled
    toolchain: Toolchain
    runner: Runner

    @property
    def source(self) -> Source:
        """What was generated."""
        return self.compiled.source

    @property
    def facts(self) -> Facts:
        """The facts known after generating it."""
        return network_facts(self.source)


@dataclass(frozen=True)
class Measured:
    """What building and running a network shows.

    Times are microseconds by round, those of `layers` first by layer; there are none if only an
    emulator runs programs, and none for a layer without code. `code_bytes` are by layer, None if
    the object file does not say. `layer_checks` are by number of the layer; `instructions` are
    those of one run by layer, and last those outside of layers; empty if not counted.
    """

    origin: str
    device: Mapping[str, Any]
    compiler: str
    flags: str
    context: str
    times: tuple[float, ...]
    layers: tuple[tuple[float, ...], ...]
    peak_gflops: float
    bandwidths: tuple[Bandwidth, ...]
    code_bytes: tuple[int | None, ...]
    errors: Mapping[str, float]
    max_error: float
    layer_checks: Mapping[int, LayerCheck]
    instructions: tuple[int, ...] = ()

    @property
    def time(self) -> Interval | None:
        """Of the whole network."""
        return interval(self.times) if self.times else None

    def layer_time(self, number: int) -> Interval | None:
        """Of one layer within the network."""
        times = self.layers[number] if self.layers else ()
        return interval(times) if times else None

    @property
    def code(self) -> int | None:
        """Bytes of the code of all layers."""
        known = [size for size in self.code_bytes if size is not None]
        return sum(known) if known else None


def make_subject(options: Options) -> Subject:
    """Generate a network, and find the tools that build and run it. Raises CanneryError.

    Whatever `options` say, its code is in one file, so that each step's functions are found.
    """
    options = replace(options, split=1)
    compiled = compile_model(options)
    toolchain = find_toolchain(options)
    return Subject(options, compiled, toolchain, identify(toolchain, [toolchain.runner()])[0])


@dataclass(frozen=True)
class _Rounds:
    """Microseconds by round, of the network and of each of its layers."""

    times: list[float]
    steps: list[list[float]]


def measure_all(
    subjects: Sequence[Subject], seconds: float, context: Context,
    *, thorough: bool = True, count: bool = False,
) -> tuple[list[Measured], list[Sequence[Mapping[str, RefArray]]]]:  # fmt: skip
    """Measure networks side by side, each for about `seconds`, and the outputs of each.

    Networks with the same inputs see the same numbers. Errors of single layers, peak and bandwidths
    are measured only if `thorough`. With `count`, instructions are counted, exactly, and nothing is
    timed. Raises ToolchainError.
    """
    samples = _samples(subjects)
    with ExitStack() as stack:
        plain = [_program(stack, s, xs) for s, xs in zip(subjects, samples, strict=True)]
        timed = [s.runner.origin is not Origin.EMULATED and not count for s in subjects]
        laps = [
            _program(stack, s, xs, laps=True) if on else None
            for s, xs, on in zip(subjects, samples, timed, strict=True)
        ]
        stack.enter_context(alone(subjects[0].runner))
        outputs = [p.run(s.runner) for p, s in zip(plain, subjects, strict=True)]
        rounds = _run_rounds(subjects, plain, laps, seconds, context)
        rates = [
            p.bandwidths(s.runner) if on and thorough else ()
            for p, s, on in zip(plain, subjects, timed, strict=True)
        ]
    found = [
        _measured(*row, context, thorough=thorough, count=count)
        for row in zip(subjects, samples, outputs, rounds, rates, strict=True)
    ]
    return found, list(outputs)


def _samples(subjects: Sequence[Subject]) -> list[Sequence[Sample]]:
    """The first network's samples for each network with the same inputs, else its own."""
    first = subjects[0].source
    own = seeded_samples(first.graph, SAMPLES)
    found: list[Sequence[Sample]] = []
    for subject in subjects:
        source = subject.source
        if [t.type for t in source.inputs] == [t.type for t in first.inputs]:
            names = [
                (t.source, mine.source) for t, mine in zip(first.inputs, source.inputs, strict=True)
            ]
            found.append([{mine: sample[name] for name, mine in names} for sample in own])
        else:
            found.append(seeded_samples(source.graph, SAMPLES))
    return found


def _program(
    stack: ExitStack, subject: Subject, samples: Sequence[Sample], *, laps: bool = False
) -> NetworkProgram:
    files, toolchain = subject.compiled.files, subject.toolchain
    return stack.enter_context(
        network_program(subject.source, files, toolchain, samples, laps=laps)
    )


def _run_rounds(
    subjects: Sequence[Subject], plain: Sequence[NetworkProgram],
    laps: Sequence[NetworkProgram | None], seconds: float, context: Context,
) -> list[_Rounds]:  # fmt: skip
    """All rounds of all networks; half of the time goes into whole runs, half into steps."""
    found = [_Rounds([], []) for _ in subjects]
    each = seconds / (2 * ROUNDS)
    for number in range(ROUNDS):
        order = range(len(subjects)) if number % 2 else reversed(range(len(subjects)))
        for k in order:
            program, runner = laps[k], subjects[k].runner
            if program is not None:
                found[k].times.append(plain[k].time(runner, each, context).p25)
                steps = program.time_steps(runner, each, context)
                found[k].steps.append([step.mid for step in steps])
    return found


def _measured(
    subject: Subject, samples: Sequence[Sample], outputs: Sequence[Mapping[str, RefArray]],
    rounds: _Rounds, rates: tuple[Bandwidth, ...], context: Context,
    *, thorough: bool, count: bool,
) -> Measured:  # fmt: skip
    source, toolchain, runner = subject.source, subject.toolchain, subject.runner
    by_layer = [
        tuple(times) if call.kernel.code.strip() else ()
        for call, times in zip(source.calls, zip(*rounds.steps, strict=True), strict=True)
    ] if rounds.steps else []  # fmt: skip
    expected = reference_outputs(judge_graph(subject.options), samples)
    checks = check_layers(source, toolchain, runner, samples[0]) if thorough else ()
    peak = peak_gflops(source, toolchain, runner) if thorough else 0.0
    numbers = [k for k, call in enumerate(source.calls) if call.kernel.code.strip()]
    return Measured(
        runner.origin.value, runner.device.as_dict() if runner.device else {},
        toolchain.compiler.version,
        code_flags((*toolchain.compiler.command[1:], *toolchain.cflags)), context.value,
        tuple(rounds.times), tuple(by_layer), peak, rates,
        code_bytes(source, subject.compiled.files, toolchain),
        errors_by_output(outputs, expected), source.max_error,
        _by_number(source, numbers, checks), _instructions(subject, samples[0]) if count else (),
    )  # fmt: skip


def _instructions(subject: Subject, sample: Sample) -> tuple[int, ...]:
    """What one run executes under an emulator: by step, then outside of steps."""
    toolchain = subject.toolchain
    files, emulator = subject.compiled.files, toolchain.emulator()
    found = count_network(subject.source, files, toolchain, emulator, sample)
    return (*(step.mix.instructions for step in found.steps), found.rest)


def _by_number(
    source: Source, numbers: Sequence[int], checks: Sequence[LayerCheck]
) -> dict[int, LayerCheck]:
    """The checks of the layers that were checked, in the order of the layers."""
    found: dict[int, LayerCheck] = {}
    left = list(checks)
    for number in numbers:
        if left and left[0].name == source.calls[number].planned.step.name:
            found[number] = left.pop(0)
    return found
