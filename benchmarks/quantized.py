"""Integers against floats: the same network of int16, int8 and float32, by Cannery.

    python benchmarks/quantized.py [NET|MODEL...] [--isa ISA]... [--autotune] [--rounds N]

NET is blstm, mlp or a name of onnx_networks.py. All forms run in turn, in one process each; the
lower quartile of the samples counts. Prints microseconds, how many times as fast as floats, what
the outputs lose on normal samples, and bytes of constants. A MODEL needs --calibration.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cannery.execution.program import NetworkProgram, network_program
from cannery.execution.samples import seeded_samples
from cannery.frontends import load_graph
from cannery.ir.graph import Graph, Quantization
from cannery.ir.orders import model_type
from cannery.measure.measure import alone
from cannery.options import Options, make_options
from cannery.pipeline import compile_model
from cannery.target.runner import Runner
from cannery.target.toolchain import find_toolchain
from cannery.tune.outcome import Settings
from cannery.tune.tuner import tune
from frontends.keras_files import Model, write_h5
from networks import Builder
from onnx_networks import ONNX_NETWORKS, write_onnx_network

#: Samples of calibration where none are given, and seconds of one sample of time.
SAMPLES, SECONDS = 4, 0.1
FORMS = ("float32", "int16", "int8")


def mlp() -> Model:
    """A policy: 48 inputs, dense layers of 512, 512, 256 and 12, one input at a time: 421 kMAC."""
    b = Builder(3)
    b.input(1, 1, 48)
    b.plain("Flatten", "flat")
    for number, (taken, units) in enumerate(((48, 512), (512, 512), (512, 256), (256, 12))):
        b.dense(f"dense_{number}", taken, units, "relu" if units > 12 else "linear")
    return b.model("mlp")


@dataclass(frozen=True)
class Form:
    """A network in one form, ready to run."""

    name: str
    program: NetworkProgram
    runner: Runner
    facts: Quantization | None


def model_file(name: str, folder: Path) -> Path:
    """The file of a network by name, or the model that it is."""
    if name == "mlp":
        return write_h5(folder / "mlp.h5", mlp())
    return write_onnx_network(name, folder) if name in ONNX_NETWORKS else Path(name)


def write_samples(graph: Graph, file: Path) -> Path:
    """Normal inputs for a network, as the model has them."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name in graph.inputs:
        first, *rest = model_type(graph, name).shape
        arrays[name] = rng.standard_normal((SAMPLES * first, *rest)).astype(np.float32)
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file


def options_of(model: Path, form: str, isa: str, calibration: Path, records: Path) -> Options:
    """What a form is generated with."""
    raw: dict[str, Any] = {"isa": (isa,), "name": "net", "tuning": str(records)}
    if form != "float32":
        raw |= {"quantize": form, "calibration": str(calibration), "max_loss": "1"}
    return make_options(model, raw)


def make_form(options: Options, form: str, stack: ExitStack, *, autotune: bool) -> Form:
    """Builds one form, tuned first if that is wanted."""
    if autotune:
        tune(options, Settings(budget=60.0, exhaustive=False))
    compiled = compile_model(options)
    toolchain = find_toolchain(options)
    (runner, *_) = toolchain.runners()
    samples = seeded_samples(compiled.source.graph, 1)
    program = stack.enter_context(
        network_program(compiled.source, compiled.files, toolchain, samples)
    )
    return Form(form, program, runner, compiled.source.graph.quantization)


def times(forms: Sequence[Form], rounds: int) -> Mapping[str, float]:
    """Microseconds of each form: all in turn, in alternating order."""
    found: dict[str, list[float]] = {form.name: [] for form in forms}
    with alone(forms[0].runner):
        for number in range(rounds):
            for form in forms if number % 2 else reversed(forms):
                found[form.name].append(form.program.time(form.runner, SECONDS).p25)
    return {name: float(np.quantile(us, 0.25)) for name, us in found.items()}


def rows(given: argparse.Namespace, folder: Path) -> Iterator[str]:
    """A line for each network, instruction set and form."""
    for name in given.models:
        model = model_file(name, folder)
        calibration = given.calibration or write_samples(load_graph(model), folder / "x.npz")
        for isa in given.isa or ["ssse3", "avx2", "avx512"]:
            with ExitStack() as stack:
                forms = []
                for form in given.form or FORMS:
                    options = options_of(model, form, isa, calibration, folder)
                    forms.append(make_form(options, form, stack, autotune=given.autotune))
                us = times(forms, given.rounds)
                for form in forms:
                    ratio = us["float32"] / us[form.name] if "float32" in us else float("nan")
                    facts = form.facts
                    loss = max(loss for _, loss in facts.losses) if facts else 0.0
                    size = f"{facts.bytes:9}" if facts else f"{'':9}"
                    yield (
                        f"{model.stem:18} {isa:8} {form.name:8} {us[form.name]:9.2f} {ratio:6.2f}"
                        f" {loss:9.1e} {size}"
                    )


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="Integers against floats.")
    parser.add_argument("models", nargs="*", default=["blstm", "mlp"], metavar="NET|MODEL")
    parser.add_argument("--isa", action="append", metavar="NAME")
    parser.add_argument("--form", action="append", choices=FORMS)
    parser.add_argument("--calibration", type=Path, metavar="FILE.npz")
    parser.add_argument("--autotune", action="store_true", help="tune each form first")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    print(f"{'network':18} {'isa':8} {'form':8} {'us':>9} {'ratio':>6} {'loss':>9} {'bytes':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(given, Path(folder)):
            print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
