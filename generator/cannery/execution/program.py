"""A program around one generated network: built, run on samples, timed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cannery.emit.interface import Tensor
from cannery.emit.source import Source
from cannery.errors import ToolchainError
from cannery.execution.pace import Pace, Paced, judge_pace
from cannery.ops.registry import RefArray
from cannery.target.runner import Runner
from cannery.target.toolchain import Toolchain
from cannery.tune.build import build_error, ninja_file, run_ninja, write
from cannery.tune.harness import MACHINE_FILE, machine_source
from cannery.tune.measure import Context

#: A sample: every input of the graph by name, in the graph's order of axes.
Sample = Mapping[str, RefArray]

_DRIVER = Path(__file__).with_name("driver.c")
_EXECUTABLE = "driver"


@dataclass(frozen=True)
class Latency:
    """Microseconds of one run."""

    p25: float
    p50: float
    p99: float


@dataclass(frozen=True)
class NetworkProgram:
    """The executable of one network with its samples."""

    executable: Path
    source: Source
    samples: int

    def run(self, runner: Runner) -> list[dict[str, RefArray]]:
        """The outputs of every sample by name in the graph, float32 where they are float.

        Raises ToolchainError if the program fails, or gives other bits when it runs again or all
        samples at once.
        """
        found: list[dict[str, RefArray]] = [{} for _ in range(self.samples)]
        for line in runner.run(self.executable, ["--run"]):
            if "output" not in line:
                continue
            tensor = self.source.outputs[line["output"]]
            if not (line["repeats"] and line["many"]):
                how = "all samples run at once" if line["repeats"] else "the network runs again"
                raise ToolchainError(
                    f"output {tensor.name!r} differs when {how}",
                    where=self.executable.name, cure="please report this",
                )  # fmt: skip
            found[line["sample"]][tensor.source] = _from_bytes(tensor, line["bytes"])
        if any(len(outputs) != len(self.source.outputs) for outputs in found):
            raise self._missing(runner, "not all outputs were printed")
        return found

    def time(self, runner: Runner, seconds: float, context: Context = Context.WARM) -> Latency:
        """Latency over about `seconds`. Raises ToolchainError if the program fails."""
        for line in runner.run(self.executable, ["--time", f"{seconds:g}", *context.arguments]):
            if "p50" in line:
                return Latency(float(line["p25"]), float(line["p50"]), float(line["p99"]))
        raise self._missing(runner, "no time was reported")

    def time_many(
        self, runner: Runner, seconds: float, count: int, context: Context = Context.WARM
    ) -> tuple[float, float]:
        """Microseconds of `count` runs, one by one and at once, timed in turn.

        Raises ToolchainError if the program fails.
        """
        words = ["--many", f"{seconds:g}", str(count), *context.arguments]
        for line in runner.run(self.executable, words):
            if "single" in line:
                return float(line["single"]), float(line["many"])
        raise self._missing(runner, "no time was reported")

    def keep_pace(self, runner: Runner, pace: Pace) -> Paced:
        """Latencies at a fixed rate. Raises ToolchainError if the program fails."""
        patient = runner.with_timeout(runner.timeout + 3 * pace.seconds)
        for line in patient.run(self.executable, pace.arguments()):
            if "latencies" in line:
                return judge_pace(pace, line)
        raise self._missing(runner, "no latencies were reported")

    def _missing(self, runner: Runner, what: str) -> ToolchainError:
        return ToolchainError(what, where=runner.where(self.executable), cure=runner.cure)


def _from_bytes(tensor: Tensor, text: str) -> RefArray:
    try:
        flat = np.frombuffer(bytes.fromhex(text), tensor.type.dtype.numpy)
        return tensor.to_graph(flat.reshape(tensor.dims))
    except ValueError:
        raise ToolchainError("damaged output", where=tensor.name) from None


def _data(source: Source, samples: Sequence[Sample]) -> bytes:
    return b"".join(
        np.ascontiguousarray(tensor.from_graph(sample[tensor.source])).tobytes()
        for sample in samples
        for tensor in source.inputs
    )


@contextmanager
def network_program(
    source: Source, files: Mapping[str, bytes], toolchain: Toolchain, samples: Sequence[Sample]
) -> Iterator[NetworkProgram]:
    """Build a program from the generated `files` in a folder that is removed afterwards.

    Raises ToolchainError with the compiler's words if it does not build.
    """
    folder = Path(tempfile.mkdtemp(prefix="cannery-"))
    try:
        write(folder, {**files, "driver_data.bin": _data(source, samples) or b"\0"})
        macros = (
            f"#define DRIVER_MODEL {source.name}_model\n#define DRIVER_SAMPLES {len(samples)}\n"
        )
        driver = macros.encode() + _DRIVER.read_bytes()
        write(folder, {"driver.c": driver, MACHINE_FILE: machine_source()})
        units = [name for name in files if name.endswith(".c")]
        text = ninja_file(toolchain, [*units, "driver.c"], executable=_EXECUTABLE)
        failures = run_ninja(folder, text)
        if failures:
            raise build_error(failures, toolchain)
        yield NetworkProgram(folder / _EXECUTABLE, source, len(samples))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
