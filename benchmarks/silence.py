"""Time of a step over silence after noise: does a state that decays become slow?

    python benchmarks/silence.py [MODEL...] [--isa ISA]... [--seconds S]

Prints microseconds of a step over noise, over the slowest 64 steps of the silence after it, and
about 9000 steps later; each as it is and with `cannery_flush_subnormals`. Without models: recurrent
layers of 16 cells without biases, but that of forgetting, whose states decay. Tuning records next
to a model are used.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cannery.options import make_options
from cannery.pipeline import compile_model
from drivers import run_driver
from frontends.keras_files import LayerSpec, Model, chain, image, write_h5
from isas import isa_words

_DRIVER = Path(__file__).with_suffix(".c")

CELLS = 16
GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}


@dataclass(frozen=True)
class Silence:
    """Microseconds of a step: over noise, over the slowest window of silence, over the last one."""

    noise: float
    slowest: float
    last: float


def decaying(kind: str) -> Model:
    """A recurrent layer that forgets its input, and nothing else moves it."""
    rng, gates = np.random.default_rng(1), GATES[kind]
    bias = np.zeros(gates * CELLS)
    if kind == "LSTM":
        bias[CELLS : 2 * CELLS] = 1
    values = {
        "cell/kernel": rng.uniform(-1, 1, (1, gates * CELLS)),
        "cell/recurrent_kernel": rng.uniform(-0.25, 0.25, (CELLS, gates * CELLS)),
        "cell/bias": bias,
    }
    config = {"units": CELLS, "return_sequences": True}
    weights = {k: v.astype(np.float32) for k, v in values.items()}
    layer = LayerSpec(kind, "out", (), config | {"reset_after": False} if kind == "GRU" else config,
                      weights)  # fmt: skip
    return chain(image("x", None, 1), layer, name=f"{kind.lower()}_{CELLS}")


def measure(model: Path, isa: str, seconds: float) -> dict[str, Silence]:
    """Build and time, `as_it_is` and `flushed`; raises CanneryError."""
    options = make_options(model, {"isa": isa_words(isa), "name": "net", "streaming": True})
    compiled = compile_model(options)
    macros = "#define SILENCE_MODEL net_model\n"
    found = run_driver(_DRIVER, macros, compiled, options, seconds)
    return {key: summary(found["noise"], found[key]) for key in ("as_it_is", "flushed")}


def summary(noise: int, windows: Sequence[float]) -> Silence:
    """Of the windows, the first `noise` of which are over noise."""
    return Silence(median(windows[:noise]), max(windows[noise:]), median(windows[-8:]))


def _line(found: Mapping[str, Silence]) -> str:
    return " ".join(f"{s.noise:9.4f} {s.slowest:9.4f} {s.last:9.4f}" for s in found.values())


def main() -> int:
    """Prints a line for each network and instruction set."""
    parser = argparse.ArgumentParser(description="Time of a step over silence after noise.")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--isa", action="append", metavar="NAME", help="default: this machine's")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S")
    given = parser.parse_args()
    print(f"{'':31} {'us, as it is':>29} {'us, flushed':>29}")
    print(f"{'network':20} {'isa':10}" + 2 * f" {'noise':>9} {'slowest':>9} {'last':>9}")
    with tempfile.TemporaryDirectory() as folder:
        models = given.models or [
            write_h5(Path(folder) / f"{model.name}.h5", model) for model in map(decaying, GATES)
        ]
        for model in models:
            for isa in given.isa or [""]:
                line = _line(measure(model, isa, given.seconds))
                print(f"{model.stem:20} {isa or 'native':10} {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
