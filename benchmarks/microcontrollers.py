"""What networks take on microcontrollers: instructions, flash, RAM and stack, without a board.

    python benchmarks/microcontrollers.py [NET...] [--target TARGET]... [--form FORM]
                                          [--weights-as FORM]

NET is a name of networks.py, by default MLPerf Tiny's four; FORM is int8 (default), int16 or
float32.
Instructions of one run are counted under QEMU, the rest is that of the compiled library. Samples
for the scales of integers are normal numbers, so nothing is said of accuracy. RAM is the workspace
with the tensors at the interface. The last column compares flash with 1.15 times the weights and
12 KB: what a network of this class may take.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from cannery.execution.counts import count_network
from cannery.execution.samples import seeded_samples
from cannery.execution.sizes import network_size
from cannery.frontends import load_graph
from cannery.ir.graph import Graph
from cannery.option_values import CODED
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.target.toolchain import find_toolchain
from networks import NETWORKS, write_network
from quantized import FORMS, write_samples

#: Keyword spotter, image classifier, visual wake words, anomaly detector.
TINY = ("ds_cnn", "resnet_8", "mobilenet_025", "autoencoder")

TARGETS = ("cortex-m4", "cortex-m7", "cortex-m55", "cortex-m0plus", "riscv32imc")

#: Bytes of a weight.
WIDTHS = {"int8": 1, "int16": 2, "float32": 4}

HEAD = "| network | target | instructions | per MAC | flash | RAM | stack | flash / allowed |"


@dataclass(frozen=True)
class Taken:
    """What a network takes: instructions of one run, the rest in bytes; `weights` are those of
    layers, without biases.
    """

    instructions: int
    macs: int
    flash: int
    ram: int
    stack: int
    weights: int

    @property
    def share(self) -> float:
        """Flash as a part of 1.15 times the weights and 12 KB."""
        return self.flash / (1.15 * self.weights + 12 * 1024)

    def row(self, network: str, target: str) -> str:
        """A row of the table."""
        cells = (
            network, target, f"{self.instructions:,}", f"{self.instructions / self.macs:.2f}",
            *(f"{n:,}" for n in (self.flash, self.ram, self.stack)), f"{self.share:.2f}",
        )  # fmt: skip
        return f"| {' | '.join(cells)} |"


def weight_count(graph: Graph) -> int:
    """How many numbers the layers' weights are."""
    return sum(int(array.size) for array in graph.constants.values() if array.ndim >= 2)


def measure(network: str, target: str, form: str, folder: Path, weights: str = "") -> Taken:
    """A network on a target, its weights of few levels if `weights` says so. Raises ToolchainError
    where a compiler or QEMU is missing.
    """
    model = write_network(network, folder)
    graph = load_graph(model)
    raw: dict[str, object] = {"target": target, "name": "net"}
    if form != "float32":
        samples = write_samples(graph, folder / f"{network}.npz")
        raw |= {"quantize": form, "calibration": str(samples), "max_loss": "1"}
    if weights:
        raw["weights_as"] = weights
    options = make_options(model, raw)
    toolchain = find_toolchain(options)
    compiled = compile_model(options)
    source, files = compiled.source, compiled.files
    (sample,) = seeded_samples(source.graph, 1)
    size = network_size(source, files, toolchain)
    count = count_network(source, files, toolchain, toolchain.emulator(), sample)
    return Taken(
        count.instructions, sum(source.round_macs), size.flash, size.workspace + size.tensors,
        size.stack, WIDTHS[form] * weight_count(graph),
    )  # fmt: skip


def rows(networks: Sequence[str], targets: Sequence[str], form: str, weights: str) -> Iterator[str]:
    """The lines of the table, one after the other."""
    yield HEAD
    yield "|---" * HEAD.count(" | ") + "|---|"
    with tempfile.TemporaryDirectory() as name:
        for network in networks:
            for target in targets:
                yield measure(network, target, form, Path(name), weights).row(network, target)


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="What networks take on microcontrollers.")
    parser.add_argument("networks", nargs="*", metavar="NET", choices=[*NETWORKS, []])
    parser.add_argument("--target", action="append", metavar="TARGET")
    parser.add_argument("--form", choices=FORMS, default="int8")
    parser.add_argument("--weights-as", choices=CODED, default="", metavar="FORM")
    given = parser.parse_args()
    for line in rows(given.networks or TINY, given.target or TARGETS, given.form, given.weights_as):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
