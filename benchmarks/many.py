"""Many patches of a frame: n single calls against one of `<name>_run_many`.

    python benchmarks/many.py [MODEL...] [--isa ISA]... [--many N] [--patches N]... [--seconds S]

Times both in one program, in turn, and prints microseconds and their ratio; outputs are compared
bit by bit first. Without models: the ball classifier of the examples, a patch classifier whose
dense layers have most of the weights, and a network of dense layers only. Tuning records next to a
model are used.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cannery.execution.program import network_program
from cannery.execution.samples import seeded_samples
from cannery.measure.measure import alone
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.target.toolchain import find_toolchain
from frontends.keras_files import Model, write_h5
from isas import isa_words
from keras_builder import Builder

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "ball" / "ball.h5"


def dense_patches() -> Model:
    """24x24x1, two convolutions, dense layers of 256, 64 and 3: 234 kMAC, 164 of them dense."""
    b = Builder(1)
    b.input(24, 24, 1)
    b.conv("conv_1", 8, (5, 5), stride=2, activation="relu")
    b.conv("conv_2", 16, stride=2, activation="relu")
    b.plain("Flatten", "flat")
    b.dense("dense_1", 576, 256, "relu")
    b.dense("dense_2", 256, 64, "relu")
    b.dense("dense_3", 64, 3, "softmax")
    return b.model("dense_patches")


def dense_only() -> Model:
    """48 inputs, dense layers of 256, 128, 128 and 13: 63 kMAC."""
    return dense_layers("dense_only", 48, 256, 128, 128, 13)


def dense_layers(name: str, *sizes: int) -> Model:
    """Dense layers with ReLU between them: the inputs, then the units of each."""
    b = Builder(2)
    b.input(1, 1, sizes[0])
    b.plain("Flatten", "flat")
    for number, (taken, units) in enumerate(pairwise(sizes)):
        b.dense(f"dense_{number}", taken, units, "linear" if units == sizes[-1] else "relu")
    return b.model(name)


def large_policy() -> Model:
    """48 inputs, dense layers of 512, 512, 512, 256 and 12: 683 kMAC, 2.7 MB of weights."""
    return dense_layers("large_policy", 48, 512, 512, 512, 256, 12)


OWN: tuple[Callable[[], Model], ...] = (dense_patches, dense_only, large_policy)


def compare(
    model: Path, isa: str, many: int, patches: Sequence[int], seconds: float
) -> list[tuple[int, float, float]]:
    """(n, microseconds of n single calls, of one of run_many) for each number of patches.

    Raises ToolchainError if the outputs differ in a bit.
    """
    options = make_options(model, {"isa": isa_words(isa), "many": str(many), "name": "net"})
    compiled = compile_model(options)
    toolchain = find_toolchain(options)
    (runner, *_) = toolchain.runners()
    samples = seeded_samples(compiled.source.graph)
    with network_program(compiled.source, compiled.files, toolchain, samples) as program:
        program.run(runner)
        with alone(runner):
            return [(n, *program.time_many(runner, seconds, n)) for n in patches]


def main() -> int:
    """Prints a line for each network, instruction set and number of patches."""
    parser = argparse.ArgumentParser(description="n single calls against run_many.")
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--isa", action="append", metavar="NAME", help="default: this machine's")
    parser.add_argument("--many", type=int, default=8, metavar="N", help="default: 8")
    parser.add_argument("--patches", type=int, action="append", metavar="N")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S")
    given = parser.parse_args()
    print(f"{'network':20} {'isa':10} {'n':>4} {'n calls':>10} {'at once':>10} ratio")
    with tempfile.TemporaryDirectory() as folder:
        models = given.models or [
            EXAMPLE, *(write_h5(Path(folder) / f"{make.__name__}.h5", make()) for make in OWN)
        ]  # fmt: skip
        for model in models:
            for isa in given.isa or [""]:
                patches = given.patches or [1, 2, 7, 30]
                for n, single, many in compare(model, isa, given.many, patches, given.seconds):
                    line = f"{n:4} {single:10.3f} {many:10.3f} {single / many:.2f}"
                    print(f"{model.stem:20} {isa or 'native':10} {line}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
