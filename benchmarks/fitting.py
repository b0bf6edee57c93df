"""The table of a processor, from what is measured on it; see `cost_model.py --fit`.

Rates, latencies and caches are measured by loops that do nothing else (`figures.c`). What no loop
shows, such as how far a core looks ahead in real code, is fitted: one figure after the other takes
the value by which the model's choices lose least against the best of the measured candidates.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cannery.errors import ToolchainError
from cannery.ir.graph import Graph
from cannery.resources import runtime_include_dir
from cannery.schedule.program import Choice, Step
from cannery.target.isa import Isa
from cannery.target.machine import Machine, parse_machine
from cannery.target.toolchain import Toolchain

_PROGRAM = Path(__file__).with_name("figures.c")
_HEADERS = Path(__file__).resolve().parents[1] / "generator" / "cannery" / "measure"

#: Figures by path (`core.issue`): the value, and the word for where it comes from.
Figures = dict[str, tuple[float, str]]

#: What is fitted, from where, and how far from there at most.
START = {
    "core.window": 96.0, "core.chain_gap": 1.15, "core.spill_latency": 5.0,
    "caches.far_bytes": 4096.0 * 1024, "code.hot_bytes": 16384.0, "code.fetched": 3.0,
    "code.decoded": 16.0,
}  # fmt: skip
FARTHEST = 4.0

#: Factors by which a figure is changed, in one round after the other.
STEPS = ((0.5, 0.7, 1.4, 2.0), (0.7, 0.85, 1.2, 1.4), (0.85, 0.93, 1.08, 1.2))

#: How sharply the model's preference for a candidate falls with its cost, and what the order of
#: the others counts beside it.
SHARPNESS, ORDER_COUNTS = 16.0, 0.2

#: What a change has to gain: figures that do not matter stay where they are.
LEAST_GAIN = 2e-4


@dataclass(frozen=True)
class Layer:
    """Candidates of a step with measured microseconds."""

    network: str
    isa: Isa
    graph: Graph
    step: Step
    choices: tuple[Choice, ...]
    us: tuple[float, ...]

    def costs(self, machine: Machine | None = None) -> list[float]:
        """What the model says of each on a machine (None: the one that the ISA names)."""
        isa = self.isa.meant_for(machine) if machine else self.isa
        return [
            c.schedule.cost(self.graph, self.step, c.params, isa).total_in(self.graph, isa)
            for c in self.choices
        ]


@dataclass(frozen=True)
class Quality:
    """Of some layers: how many times longer the model's choices take, and the rank correlation."""

    layers: int
    loss: float
    worst: float
    rank: float


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's; 1 for fewer than three values."""
    if len(one) < 3:
        return 1.0
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def quality(layers: Sequence[Layer], machine: Machine | None = None) -> Quality:
    """How well the model chooses: the loss is a geometric mean."""
    losses, ranks = [], []
    for layer in layers:
        costs = layer.costs(machine)
        losses.append(layer.us[int(np.argmin(costs))] / min(layer.us))
        ranks.append(rank_correlation(costs, layer.us))
    mean = float(np.exp(np.mean(np.log(losses))))
    return Quality(len(layers), mean, max(losses), float(np.mean(ranks)))


def badness(layers: Sequence[Layer], machine: Machine) -> float:
    """What is made small: the expected logarithm of the loss, and how wrong the order is."""
    total = 0.0
    for layer in layers:
        costs = np.array(layer.costs(machine))
        preference = np.exp(-SHARPNESS * np.log(costs / costs.min()))
        lost = np.log(np.array(layer.us) / min(layer.us))
        total += float(preference @ lost / preference.sum())
        total += ORDER_COUNTS * (1.0 - rank_correlation(costs.tolist(), layer.us))
    return total / len(layers)


def fitted(layers: Sequence[Layer], figures: Figures, title: str, varied: Sequence[str]) -> Figures:
    """The figures with the `varied` ones changed, one after the other, as long as that helps."""
    best = dict(figures)
    least = badness(layers, machine_of(best, title))
    for factors in STEPS:
        for path in varied:
            start = figures[path][0]
            for factor in factors:
                value = best[path][0] * factor
                if not 1 / FARTHEST <= value / start <= FARTHEST:
                    continue
                tried = {**best, path: (float(f"{value:.3g}"), "fit")}
                found = badness(layers, machine_of(tried, title))
                if found < least - LEAST_GAIN:
                    best, least = tried, found
    return best


def table(figures: Figures, title: str, sources: Mapping[str, str]) -> str:
    """The text of a table; of the sources only those that are used."""
    used = {source for _, source in figures.values()}
    lines = [f"title = {json.dumps(title)}", "", "[sources]"]
    lines += [f"{name} = {json.dumps(text)}" for name, text in sources.items() if name in used]
    section = ""
    for path, (value, source) in sorted(figures.items(), key=lambda each: _place(each[0])):
        head, _, name = path.rpartition(".")
        if head != section:
            lines += ["", f"[{head}]"]
            section = head
        lines.append(f'{name} = {{ value = {float(value)}, source = "{source}" }}')
    return "\n".join(lines) + "\n"


def _place(path: str) -> tuple[int, int]:
    """Sections in the order that they are read in, widths from narrow to wide."""
    head, _, _ = path.rpartition(".")
    section, _, width = head.partition(".")
    return ("core", "vectors", "caches", "code").index(section), int(width.partition("x")[2] or 0)


def machine_of(figures: Figures, title: str) -> Machine:
    """The machine that figures describe."""
    sources = dict.fromkeys((source for _, source in figures.values()), "")
    return parse_machine(table(figures, title, sources), "fit", "fit")


def cache_sizes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> tuple[int, int, int]:
    """Bytes and ways of this machine's first level for data, bytes of its second."""
    found = {1: (32 * 1024, 8), 2: (512 * 1024, 8)}
    for index in sorted(folder.glob("index*")):
        said = {
            name: (index / name).read_text().strip()
            for name in ("type", "level", "size", "ways_of_associativity")
        }
        if said["type"] != "Instruction":
            size = int(said["size"].removesuffix("K")) * 1024
            found[int(said["level"])] = (size, int(said["ways_of_associativity"]))
    return *found[1], found[2][0]


def measured_figures(toolchain: Toolchain) -> Figures:
    """Rates and latencies of each width, and caches. Raises ToolchainError."""
    isa = toolchain.target.isa
    l1, ways, l2 = cache_sizes()
    far = max(16 * l2, 32 * 1024 * 1024)
    found: Figures = {
        "caches.l1_bytes": (float(l1), "system"), "caches.l1_ways": (float(ways), "system"),
        "caches.l2_bytes": (float(l2), "system"),
    }  # fmt: skip
    rates: list[Mapping[str, float]] = []
    for lanes in isa.lanes[1:]:
        said = _run(toolchain, lanes, (1 << (l2 // 2).bit_length() - 1, 3 * l2, far))
        for name in ("macs", "arithmetic", "loads", "stores", "latency"):
            found[f"vectors.f32x{lanes}.{name}"] = (float(f"{said[name]:.2g}"), "measured")
        rates.append(said)
    narrow = isa.lanes[1]
    for name in ("macs", "arithmetic", "loads", "stores", "latency"):
        found[f"vectors.f32x1.{name}"] = found[f"vectors.f32x{narrow}.{name}"]
    found["core.issue"] = (round(max(said["issue"] for said in rates), 1), "measured")
    l2_rate, l3_rate, far_rate = np.array([said["reads"] for said in rates]).max(axis=0)
    latency = min(said["l2_latency"] for said in rates)
    found["caches.l2_latency"] = (float(f"{latency:.2g}"), "measured")
    for name, rate in (("l2_rate", l2_rate), ("l3_rate", l3_rate), ("far_rate", far_rate)):
        found[f"caches.{name}"] = (float(f"{rate:.2g}"), "measured")
    return found


def _run(toolchain: Toolchain, lanes: int, sizes: Sequence[int]) -> dict[str, float]:
    isa = toolchain.target.isa
    with tempfile.TemporaryDirectory(prefix="cannery-figures-") as folder:
        program = Path(folder) / "figures"
        defines = [
            f"-DFIGURES_VEC={isa.vec(lanes)}", f"-DFIGURES_LANES={lanes}",
            f'-DFIGURES_HEADER="cannery/{isa.header}"',
        ]  # fmt: skip
        command = [
            *toolchain.compiler.command, *toolchain.cflags, *defines,
            f"-I{runtime_include_dir()}", f"-I{_HEADERS}", str(_PROGRAM), "-o", str(program), "-lm",
        ]  # fmt: skip
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise ToolchainError(built.stderr.splitlines()[0], where=str(_PROGRAM))
        (said,) = toolchain.runners()[0].run(program, [str(size) for size in sizes])
        return dict(said)


def by_kind(layers: Sequence[Layer]) -> Iterator[tuple[str, list[Layer]]]:
    """Layers of each kind of step, then all."""
    for kind in sorted({layer.step.kind for layer in layers}):
        yield kind, [layer for layer in layers if layer.step.kind == kind]
    yield "all", list(layers)


def quality_table(layers: Sequence[Layer], machines: Mapping[str, Machine | None]) -> str:
    """Loss, worst loss and rank correlation of each kind of step by machine, as Markdown."""
    head = "| step | layers |" + "".join(f" {name} |" for name in machines)
    lines = [head, "|---|---|" + "---|" * len(machines)]
    for kind, found in by_kind(layers):
        cells = (quality(found, machine) for machine in machines.values())
        texts = (f"{q.loss:.2f}, {q.worst:.2f}, {q.rank:.2f}" for q in cells)
        lines.append(f"| {kind} | {len(found)} | {' | '.join(texts)} |")
    return "\n".join(lines)
