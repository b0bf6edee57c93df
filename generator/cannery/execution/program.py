"""A program around one generated network: built, run on samples, timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from cannery.atomic import temporary_folder
from cannery.contents import Content
from cannery.emit.files import OPENMP_SOURCE
from cannery.emit.interface import Tensor
from cannery.emit.source import Source, render_model
from cannery.emit.values import seen_values
from cannery.errors import ToolchainError
from cannery.execution.dump import Shown
from cannery.execution.pace import Pace, Paced, judge_pace
from cannery.ir.registry import RefArray
from cannery.measure.build import build_error, ninja_file, run_ninja, write
from cannery.measure.identify import device_sources
from cannery.measure.intervals import Interval, around
from cannery.measure.measure import Context
from cannery.target.runner import Runner, number, position
from cannery.target.toolchain import Toolchain

#: A sample: every input of the graph by name, in the graph's order of axes.
Sample = Mapping[str, RefArray]

_DRIVER = Path(__file__).with_name("driver.c")
_EXECUTABLE = "driver"

#: Seconds for starting a program, including a copy over a slow line or writing to flash. More time
#: is added by what a slow device, or an emulator on a busy machine, multiplies in a second.
_START_SECONDS = 120.0
_SLOWEST = 4e6
#: Runs of each checked sample, and most runs of one timed call.
_CHECKS = 6
_CALLS = 4

#: What the samples of a program take at most with their outputs, unless they are that few.
_PART_BYTES = 64 << 20
_PART_SAMPLES = 16

#: Other failures, by the driver's report.
_REPETITIONS = {
    "repeats": "the network runs again",
    "pieces": "steps run in pieces",
    "many": "all samples run at once",
}


@dataclass(frozen=True)
class Latency:
    """Microseconds of one run: `low` and `high` bound the median (`intervals.CONFIDENCE`)."""

    p25: float
    p50: float
    p99: float
    low: float
    high: float


@dataclass(frozen=True)
class TracedRun:
    """One run: microseconds since the first one began, those of each step, and of reading the
    clock, which each step includes.
    """

    start: float
    end: float
    laps: tuple[float, ...]
    clock: float


@dataclass(frozen=True)
class Bandwidth:
    """GB per second at which one core reads this many bytes again and again."""

    bytes: int
    gb_per_s: float


@dataclass(frozen=True)
class ThreadTimes:
    """Microseconds of one run and of `inputs` runs at once, on one thread and on `threads`."""

    threads: int
    inputs: int
    single_us: float
    threads_us: float
    many_single_us: float
    many_threads_us: float


@dataclass(frozen=True)
class NetworkProgram:
    """The executable of one network with its samples."""

    executable: Path
    source: Source
    samples: int
    #: Builds it in the same place with other samples.
    load: Callable[[Sequence[Sample]], NetworkProgram] = field(repr=False, compare=False)

    def run_in_parts(
        self, runner: Runner, parts: Iterable[Sequence[Sample]]
    ) -> Iterator[tuple[Sequence[Sample], list[dict[str, RefArray]]]]:
        """Parts of samples (`in_parts`) with their outputs; the program has the first ones.

        For the others it is built anew. Raises ToolchainError like `run`.
        """
        for k, part in enumerate(parts):
            yield part, (self.load(part) if k else self).run(runner)

    def run(self, runner: Runner) -> list[dict[str, RefArray]]:
        """The outputs of every sample by name in the graph, float32 where they are float.

        Raises ToolchainError if the program fails, or gives different bits when it runs again, in
        pieces as on several threads, or all samples at once.
        """
        found: list[dict[str, RefArray]] = [{} for _ in range(self.samples)]
        printed = 2 * self.samples * sum(t.type.bytes for t in self.source.outputs)
        patient = self._patient(runner, _CHECKS * self.samples).printing(printed)
        for line in patient.run(self.executable, ["--run"]):
            if "output" in line:
                with runner.reading(self.executable):
                    self._take(line, found)
        if any(len(outputs) != len(self.source.outputs) for outputs in found):
            raise self._missing(runner, "not all outputs were printed")
        return found

    def _patient(self, runner: Runner, runs: float, seconds: float = 0.0) -> Runner:
        """The runner with time for this many runs of the network, and for measuring."""
        working = runs * self.source.macs / _SLOWEST
        return runner.with_timeout(_START_SECONDS + 3.0 * seconds + working)

    def _take(self, line: Mapping[str, Any], found: Sequence[dict[str, RefArray]]) -> None:
        """Put the output of one line where it belongs."""
        tensor = self.source.outputs[position(line, "output", len(self.source.outputs))]
        how = next((text for key, text in _REPETITIONS.items() if not line[key]), "")
        if how:
            raise ToolchainError(
                f"output {tensor.name!r} differs when {how}",
                where=self.executable.name, cure="please report this",
            )  # fmt: skip
        sample = position(line, "sample", self.samples)
        found[sample][tensor.source] = _from_bytes(tensor, line["bytes"])

    def time(self, runner: Runner, seconds: float, context: Context = Context.WARM) -> Latency:
        """Latency over about `seconds`. Raises ToolchainError if the program fails."""
        words = ["--time", f"{seconds:g}", *context.arguments]
        lines = self._patient(runner, 1 + _CALLS, seconds).run(self.executable, words)
        with runner.reading(self.executable):
            for line in (line for line in lines if {"p25", "p50", "p99", "blocks"} <= set(line)):
                p25, p50, p99 = (number(line, name) for name in ("p25", "p50", "p99"))
                sure = around(p50, _numbers_of(line["blocks"]))
                return Latency(p25, p50, p99, sure.low, sure.high)
        raise self._missing(runner, "no time was reported")

    def time_steps(
        self, runner: Runner, seconds: float, context: Context = Context.WARM
    ) -> list[Interval]:
        """Microseconds of each step within the runs of a program that has `laps`.

        Raises ToolchainError if the program fails.
        """
        words = ["--steps", f"{seconds:g}", *context.arguments]
        steps = len(self.source.calls)
        patient = self._patient(runner, 1 + _CALLS, seconds).printing(steps * 200)
        lines = patient.run(self.executable, words)
        with runner.reading(self.executable):
            for line in (line for line in lines if {"steps", "blocks"} <= set(line)):
                found, blocks = _numbers_of(line["steps"]), line["blocks"]
                if len(found) == len(blocks) == steps:
                    return [around(us, _numbers_of(b)) for us, b in zip(found, blocks, strict=True)]
        raise self._missing(runner, "not all steps were timed")

    def trace(
        self, runner: Runner, runs: int, context: Context = Context.WARM
    ) -> tuple[TracedRun, ...]:
        """Each of `runs` runs of a program that has `laps`.

        Raises ToolchainError if the program fails.
        """
        steps = len(self.source.calls)
        words = ["--trace", str(runs), *context.arguments]
        patient = self._patient(runner, 1 + runs).printing(runs * (20 * steps + 200))
        lines = patient.run(self.executable, words)
        found = []
        with runner.reading(self.executable):
            for line in (line for line in lines if "laps" in line):
                start, end, clock = (number(line, key) for key in ("start", "end", "clock"))
                laps = tuple(_numbers_of(line["laps"]))
                found.append(TracedRun(start, end, laps, clock))
        if len(found) != runs or any(len(run.laps) != steps for run in found):
            raise self._missing(runner, "not all steps were traced")
        return tuple(found)

    def dump(self, runner: Runner) -> tuple[dict[int, RefArray], ...]:
        """The values of a run of each sample by their numbers in `seen_values`.

        The network is one with `dump`. Raises ToolchainError if the program fails.
        """
        seen = seen_values(self.source)
        shown = [Shown.of(value) for value in seen]
        printed = 2 * self.samples * sum(value.bytes + 60 for value in seen)
        found: list[dict[int, RefArray]] = [{} for _ in range(self.samples)]
        patient = self._patient(runner, self.samples).printing(printed)
        for line in patient.run(self.executable, ["--dump"]):
            if "value" in line:
                with runner.reading(self.executable):
                    number = position(line, "value", len(shown))
                    array = shown[number].array(bytes.fromhex(line["bytes"]))
                    found[position(line, "sample", self.samples)][number] = array
        if any(len(values) != len(seen) for values in found):
            raise self._missing(runner, "not all values were printed")
        return tuple(found)

    def bandwidths(self, runner: Runner) -> tuple[Bandwidth, ...]:
        """How fast one core reads, by the size of the memory; smallest first.

        Raises ToolchainError if the program fails.
        """
        lines = self._patient(runner, 1).run(self.executable, ["--bandwidth"])
        with runner.reading(self.executable):
            found = [
                Bandwidth(int(number(line, "memory")), number(line, "rate"))
                for line in lines if "rate" in line
            ]  # fmt: skip
        if not found:
            raise self._missing(runner, "no bandwidth was reported")
        return tuple(found)

    def time_many(
        self, runner: Runner, seconds: float, count: int, context: Context = Context.WARM
    ) -> tuple[float, float]:
        """Microseconds of `count` runs, one by one and at once, timed in turn.

        Raises ToolchainError if the program fails.
        """
        words = ["--many", f"{seconds:g}", str(count), *context.arguments]
        patient = self._patient(runner, 2 * _CALLS * count, seconds)
        single, many = self._numbers(patient, words, ("single", "many"))
        return single, many

    def time_threads(
        self, runner: Runner, seconds: float, threads: int, inputs: int, context: Context
    ) -> ThreadTimes:
        """One thread against several, timed in turn. Raises ToolchainError if the program fails."""
        words = ["--threads", f"{seconds:g}", str(threads), str(inputs), *context.arguments]
        names = ("single", "threads", "many_single", "many_threads")
        patient = self._patient(runner, 2 * _CALLS * (1 + inputs), 2.0 * seconds)
        return ThreadTimes(threads, inputs, *self._numbers(patient, words, names))

    def keep_pace(self, runner: Runner, pace: Pace) -> Paced:
        """Latencies at a fixed rate. Raises ToolchainError if the program fails."""
        patient = self._patient(runner, _CALLS, pace.seconds)
        lines = patient.run(self.executable, pace.arguments())
        with runner.reading(self.executable):
            for line in (line for line in lines if "latencies" in line):
                return judge_pace(pace, line)
        raise self._missing(runner, "no latencies were reported")

    def stacks(self, runner: Runner, room: int) -> dict[str, int]:
        """Bytes of stack that each function writes below its caller, among the nearest `room`.

        By the names `run`, `run_many` and, of networks with a state, `reset` and `step`. Raises
        ToolchainError if the program fails, or cannot say it on this processor.
        """
        lines = self._patient(runner, 4 * (2 + self.samples)).run(
            self.executable, ["--stack", str(room)]
        )
        with runner.reading(self.executable):
            told = [line for line in lines if "stack" in line]
            found = {str(line["stack"]): int(number(line, "below")) for line in told}
        if "run" not in found:
            raise self._missing(runner, "no stack was reported")
        return found

    def _numbers(self, runner: Runner, words: Sequence[str], names: Sequence[str]) -> list[float]:
        """The numbers in the program's line that has them all."""
        lines = runner.run(self.executable, words)
        with runner.reading(self.executable):
            for line in lines:
                if set(names) <= set(line):
                    return [number(line, name) for name in names]
        raise self._missing(runner, "no time was reported")

    def _missing(self, runner: Runner, what: str) -> ToolchainError:
        return ToolchainError(what, where=runner.where(self.executable), cure=runner.cure)


def _numbers_of(values: Sequence[object]) -> list[float]:
    """The numbers of a list that a program printed."""
    return [number({"us": us}, "us") for us in values]


def _from_bytes(tensor: Tensor, text: str) -> RefArray:
    try:
        flat = np.frombuffer(bytes.fromhex(text), tensor.type.dtype.numpy)
        return tensor.to_graph(flat.reshape(tensor.dims))
    except ValueError:
        raise ToolchainError("damaged output", where=tensor.name) from None


def in_parts(source: Source, samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """As many samples at once as a program may have: their states are far larger than a step."""
    bytes_each = sum(t.type.bytes for t in (*source.inputs, *source.outputs))
    most = max(_PART_SAMPLES, _PART_BYTES // max(1, bytes_each))
    rest = iter(samples)
    while part := list(islice(rest, most)):
        yield part


def _data(source: Source, samples: Sequence[Sample]) -> bytes:
    return b"".join(
        np.ascontiguousarray(tensor.from_graph(sample[tensor.source])).tobytes()
        for sample in samples
        for tensor in source.inputs
    )


def lap_symbol(source: Source) -> str:
    """The C function that a network with laps calls after each step."""
    return f"{source.name}_lap"


def _macros(source: Source, samples: int, *, threads: bool, laps: bool) -> str:
    """What the driver needs to know at compile time."""
    values = {"MODEL": f"{source.name}_model", "SAMPLES": samples}
    if source.apart:
        values["WEIGHTS"] = f"{source.name}_weights_set"
    if source.parallel:
        values["PARALLEL"] = f"{source.name}_parallel_model"
    if threads:
        values["PTHREADS"] = 1
    if source.dump:
        values["DUMP"] = f"{source.name}_dump"
    if source.states.rings or source.states.round > 1:
        values["STEPPED"] = source.states.round
    if laps:
        values |= {"STEPS": len(source.calls), "LAP": lap_symbol(source)}
    return "".join(f"#define DRIVER_{key} {value}\n" for key, value in values.items())


@contextmanager
def network_program(
    source: Source, files: Mapping[str, Content], toolchain: Toolchain, samples: Sequence[Sample],
    *, threads: bool = False, laps: bool = False,
) -> Iterator[NetworkProgram]:  # fmt: skip
    """Build a program from the generated `files` in a folder that is removed afterwards.

    With `threads` it can time several of them, with `laps` each step: then the network is generated
    to call `lap_symbol`. Raises ToolchainError with the compiler's message if it does not build.
    """
    if laps:
        text = render_model(source, "cannery bench", lap=lap_symbol(source))
        files = {**files, f"{source.name}.c": text.encode()}
    with temporary_folder() as folder:
        write(folder, {**files, **device_sources()})
        if source.apart:
            write(folder, {"driver_weights.bin": files[f"{source.name}.weights"]})
        if threads:
            toolchain = replace(toolchain, ldflags=(*toolchain.ldflags, "-pthread"))
        pool = f"{source.name}{OPENMP_SOURCE}"  # needs a flag, and is not used here
        units = [name for name in files if name.endswith(".c") and name != pool]
        text = ninja_file(toolchain, [*units, "driver.c"], executable=_EXECUTABLE)

        def load(samples: Sequence[Sample]) -> NetworkProgram:
            macros = _macros(source, len(samples), threads=threads, laps=laps)
            write(folder, _driver(macros, _data(source, samples)))
            failures = run_ninja(folder, text)
            if failures:
                raise build_error(failures, toolchain, folder)
            return NetworkProgram(folder / _EXECUTABLE, source, len(samples), load)

        yield load(samples)


def _driver(macros: str, data: bytes) -> dict[str, bytes]:
    """The driver and its data, which other data change as well: ninja sees only the source."""
    begin = f"/* {sha256(data).hexdigest()} */\n{macros}"
    return {"driver_data.bin": data or b"\0", "driver.c": begin.encode() + _DRIVER.read_bytes()}
