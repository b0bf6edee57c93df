"""Cannery's contestant: the generated network with a small C program around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cannery.emit.source import Source
from cannery.ir.registry import RefArray
from cannery.measure.build import build, build_error, ninja_file, run_ninja, write
from cannery.measure.harness import Harness
from cannery.measure.measure import measure_peak
from cannery.options import Options
from cannery.pipeline import compile_model
from cannery.target.toolchain import Toolchain, find_toolchain
from cannery.tuning.outcome import Settings
from cannery.tuning.tuner import tune

_DRIVER = Path(__file__).with_name("driver.c")

#: What the programs that serve include.
SERVING = Path(__file__).with_name("serving.h")


@dataclass(frozen=True)
class Ours:
    """A built program, what it was generated from, and the bytes of the network's objects.

    It runs on `threads`. `tuned`: a tuning record took part. `seconds` is what it took to generate,
    and then to compile.
    """

    executable: Path
    source: Source
    toolchain: Toolchain
    library_bytes: int
    tuned: bool
    threads: int
    seconds: tuple[float, float]

    def command(self, inputs: Mapping[str, RefArray], folder: Path) -> list[str]:
        """The command that serves it; `inputs` are in the graph's order of axes."""
        data = b"".join(
            np.ascontiguousarray(t.from_graph(inputs[t.source])).tobytes()
            for t in self.source.inputs
        )
        write(folder, {"inputs.bin": data})
        files = [str(folder / name) for name in ("inputs.bin", "outputs.bin")]
        return [str(self.executable), *files, str(self.threads)]

    def outputs(self, folder: Path) -> list[RefArray]:
        """What its first call computed, in the graph's order of axes."""
        data, found = (folder / "outputs.bin").read_bytes(), []
        for tensor in self.source.outputs:
            flat = np.frombuffer(data[: tensor.type.bytes], tensor.type.dtype.numpy)
            found.append(tensor.to_graph(flat.reshape(tensor.dims)))
            data = data[tensor.type.bytes :]
        return found


def build_ours(
    options: Options, folder: Path, threads: int, *, autotune: bool = False, driver: Path = _DRIVER
) -> Ours:
    """Generate and build around a C program, after tuning (on one thread) if so wished.

    Raises CanneryError.
    """
    if autotune:
        tune(options, Settings())
    options = replace(options, parallel=threads > 1)
    toolchain, start = find_toolchain(options), time.perf_counter()
    compiled = compile_model(options)
    generated = time.perf_counter()
    name = compiled.source.name
    macros = f"#define DRIVER_MODEL {name}_model\n"
    if threads > 1:
        macros += f"#define DRIVER_PARALLEL {name}_parallel_model\n"
        toolchain = replace(toolchain, ldflags=(*toolchain.ldflags, "-pthread"))
    program = {
        "driver.c": macros.encode() + driver.read_bytes(),
        SERVING.name: SERVING.read_bytes(),
    }
    write(folder, {**compiled.files, **program})
    units = [name for name in compiled.files if name.endswith(".c")]
    failures = run_ninja(folder, ninja_file(toolchain, [*units, "driver.c"], executable="driver"))
    if failures:
        raise build_error(failures, toolchain)
    seconds = (generated - start, time.perf_counter() - generated)
    size = sum((folder / name).with_suffix(".o").stat().st_size for name in units)
    tuned = len(compiled.dependencies) > 1 + len(compiled.source.graph.files)
    executable = (folder / "driver").resolve()
    return Ours(executable, compiled.source, toolchain, size, tuned, threads, seconds)


def peak(toolchain: Toolchain, folder: Path) -> Callable[[], float]:
    """Measures GFLOP/s of one core of this machine with the target's instruction set."""
    built = build(folder, Harness(toolchain.target.isa), [], toolchain)
    return lambda: measure_peak(built, toolchain.runners()[0])
