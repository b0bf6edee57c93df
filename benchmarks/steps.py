"""A WaveNet for guitar amplifiers in calls of some samples, beside ONNX Runtime and PyTorch.

    python benchmarks/steps.py [--isa ISA]... [--cc CC] [--block N] [--rival NAME]... [--seconds S]

The network is Neural Amp Modeler's standard WaveNet with random weights. All compute the same
sequence in calls of N samples on one thread and keep what they need of earlier samples; outputs are
compared with Cannery's references in float64. Then they are timed in turn. Prints a table; its
column `worst call / mean` compares the calls of a sequence of 8192 samples, each by the fastest of
200 runs: a ring that is costly at some places would show there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from cannery.errors import CanneryError
from cannery.frontends import load_graph
from cannery.frontends.options import ImportOptions
from cannery.ir.evaluate import evaluate
from cannery.options import make_options
from isas import isa_words
from rivals.cached import CACHED_RIVALS
from rivals.contest import Settings, time_in_turn
from rivals.ours import build_ours, peak
from rivals.results import MOST_ERROR
from rivals.served import Served, serve
from rivals.wavenet import F32, WaveNet, standard_wavenet

F64 = NDArray[np.float64]

_FOLDER = Path(__file__).with_name("rivals")

#: Samples of the sequence; an output depends on half of them.
SAMPLES = 8192
RATE = 48_000

#: How often the peak is measured.
_PARTS = 5

_HEADER = (
    "contestant", "us per sample", "x real time", "% of peak", "times as long",
    "worst call / mean", "error", "remark",
)  # fmt: skip


@dataclass(frozen=True)
class Task:
    """The network as a file, calls of `block` samples, what goes in and what has to come out."""

    model: Path
    block: int
    x: F32
    expected: F64


@dataclass
class Entrant:
    """A contestant, or why it is none.

    `macs` per sample, `worst`: the slowest call against the mean, `peak` measures the GFLOP/s of
    one core (these three: Cannery alone).
    """

    title: str
    remark: str
    served: Served | None = None
    error: float = 0.0
    macs: float = 0.0
    worst: float = 0.0
    peak: Callable[[], float] = float
    peaks: list[float] = field(default_factory=list)


def make_task(net: WaveNet, block: int, folder: Path, samples: int = SAMPLES) -> Task:
    """Writes the network and computes what is expected of it, from zeros."""
    model = folder / "wavenet.nam"
    model.write_text(net.nam())
    x = np.random.default_rng(1).uniform(-1, 1, samples // block * block).astype(np.float32)
    graph = load_graph(model, ImportOptions(dims={"input.1": x.size}))
    (y,) = evaluate(graph, {graph.inputs[0]: x.reshape(1, -1, 1)}).values()
    return Task(model, block, x, np.asarray(y, np.float64).ravel())


def relative_error(found: F32, expected: F64) -> float:
    """Relative to the largest number that is expected."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def ours(task: Task, isa: str, cc: str | None, folder: Path) -> Entrant:
    """Cannery; raises CanneryError."""
    raw = {
        "isa": isa_words(isa), "cc": cc, "name": "network", "streaming": True,
        "block": str(task.block),
    }  # fmt: skip
    folder.mkdir()
    built = build_ours(make_options(task.model, raw), folder, 1, driver=_FOLDER / "steps.c")
    files = [folder / name for name in ("input.bin", "output.bin", "times.bin")]
    task.x.tofile(files[0])
    served = serve("Cannery", [str(built.executable), *map(str, files)], folder)
    times = np.fromfile(files[2])
    error = relative_error(np.fromfile(files[1], np.float32), task.expected)
    return Entrant(
        f"Cannery, {built.toolchain.target.isa.name}", built.toolchain.compiler.version, served,
        error, built.source.macs / task.block, float(times.max() / times.mean()),
        peak(built.toolchain, folder / "peak"),
    )  # fmt: skip


def rival(task: Task, name: str, folder: Path) -> Entrant:
    """A rival, with the reason if it does not take part."""
    found = CACHED_RIVALS[name]
    if not found.version:
        return Entrant(found.title, f"not installed: pip install {found.package}")
    folder.mkdir()
    files = [folder / "input.npy", folder / "output.npy"]
    np.save(files[0], task.x)
    words = [
        sys.executable, str(_FOLDER / "cached.py"), name, str(task.block), *map(str, files)
    ]  # fmt: skip
    try:
        served = serve(found.title, words, folder)
    except CanneryError as why:
        return Entrant(found.title, str(why))
    error = relative_error(np.load(files[1]), task.expected)
    return Entrant(found.title, found.version, served, error)


def time_all(entrants: Sequence[Entrant], seconds: float) -> None:
    """Times those that take part, in turn; now and then the peak."""
    taking = [entrant for entrant in entrants if entrant.served]
    for _ in range(_PARTS):
        for entrant in taking:
            entrant.peaks.append(entrant.peak())
        served = [entrant.served for entrant in taking if entrant.served]
        gone = time_in_turn(served, Settings(rounds=10_000, seconds=seconds / _PARTS))
        for entrant in taking:
            if id(entrant.served) in gone:
                entrant.remark, entrant.served = gone[id(entrant.served)], None
        taking = [entrant for entrant in taking if entrant.served]


def as_table(entrants: Sequence[Entrant], block: int) -> str:
    """Markdown; medians of all samples. Those whose outputs are wrong get no times.

    Rivals are held against the highest of the peaks.
    """
    times = {
        id(e): median(e.served.times) / block
        for e in entrants
        if e.served and e.error <= MOST_ERROR
    }
    best = min((times[id(e)] for e in entrants if e.macs and id(e) in times), default=0.0)
    macs = max((e.macs for e in entrants), default=0.0)
    highest = max((median(e.peaks) for e in entrants if e.macs and e.peaks), default=0.0)
    lines = [_line(_HEADER), _line(["---"] * len(_HEADER))]
    for e in entrants:
        us = times.get(id(e))
        error = f"{e.error:.1e}" if e.served else ""
        cells = [""] * 5
        if us is not None:
            gflops = median(e.peaks) if e.macs else highest
            cells = [
                f"{us:.3f}", f"{1e6 / RATE / us:.1f}",
                f"{100 * 2e-3 * macs / us / gflops:.0f}" if gflops else "",
                f"{us / best:.1f}" if best else "", f"{e.worst:.2f}" if e.worst else "",
            ]  # fmt: skip
        wrong = e.served is not None and us is None
        lines.append(_line([e.title, *cells, error, "wrong outputs" if wrong else e.remark]))
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="A WaveNet in calls of some samples.")
    parser.add_argument("--isa", action="append", metavar="NAME", help="default: this machine's")
    parser.add_argument("--cc", metavar="CC", help="Cannery's compiler")
    parser.add_argument("--block", type=int, default=64, metavar="N", help="default: 64")
    parser.add_argument("--rival", action="append", choices=list(CACHED_RIVALS), metavar="NAME",
                        help=f"default: {', '.join(CACHED_RIVALS)}")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="default: 10")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        task = make_task(standard_wavenet(), given.block, folder)
        entrants = [
            *(ours(task, isa, given.cc, folder / f"ours_{k}")
              for k, isa in enumerate(given.isa or [""])),
            *(rival(task, name, folder / name) for name in given.rival or CACHED_RIVALS),
        ]  # fmt: skip
        for entrant in entrants:
            if entrant.served:
                stack.callback(entrant.served.end)
        time_all(entrants, given.seconds)
        print(as_table(entrants, given.block), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
