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
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cannery.frontends import load_graph
from cannery.ir.graph import Graph
from cannery.ir.orders import model_type
from cannery.options import Options, make_options
from cannery.tuning.outcome import Settings
from cannery.tuning.tuner import tune
from frontends.keras_files import Model, write_h5
from keras_builder import Builder
from onnx_networks import ONNX_NETWORKS, write_onnx_network
from turns import in_turn, make_form

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


def rows(given: argparse.Namespace, folder: Path) -> Iterator[str]:
    """A line for each network, instruction set and form."""
    for name in given.models:
        model = model_file(name, folder)
        calibration = given.calibration or write_samples(load_graph(model), folder / "x.npz")
        for isa in given.isa or ["ssse3", "avx2", "avx512"]:
            options = {
                form: options_of(model, form, isa, calibration, folder)
                for form in given.form or FORMS
            }
            for each in options.values() if given.autotune else ():
                tune(each, Settings(budget=60.0, exhaustive=False))
            with ExitStack() as stack:
                forms = {form: make_form(each, stack) for form, each in options.items()}
                samples = in_turn(list(forms.values()), given.rounds, SECONDS)
                us = [float(np.quantile(each, 0.25)) for each in samples]
            floats = dict(zip(forms, us, strict=True)).get("float32", float("nan"))
            for (form, made), time in zip(forms.items(), us, strict=True):
                facts = made.graph.quantization
                loss = max(loss for _, loss in facts.losses) if facts else 0.0
                size = f"{facts.bytes:9}" if facts else f"{'':9}"
                yield (
                    f"{model.stem:18} {isa:8} {form:8} {time:9.2f} {floats / time:6.2f}"
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
