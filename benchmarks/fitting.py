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

import msgspec
import numpy as np

from cannery.analysis.disassembly import Instruction, Machine, parse_disassembly
from cannery.analysis.models import find_estimator
from cannery.errors import ToolchainError
from cannery.ir.graph import Graph
from cannery.resources import runtime_include_dir
from cannery.schedule.program import Choice, Step
from cannery.target import machine as machines
from cannery.target.isa import Isa
from cannery.target.toolchain import Toolchain

_PROGRAM = Path(__file__).with_name("figures.c")
_HEADERS = Path(__file__).resolve().parents[1] / "generator" / "cannery" / "measure"

#: Figures by path (`core.issue`): the value, and the word for where it comes from.
Figures = dict[str, tuple[float, str]]

#: Figures that no loop shows: where they begin, and which of them are fitted. How code is fetched
#: does not show where a candidate is timed alone, its code in the cache.
START = {
    "core.window": 96.0, "core.chain_gap": 1.15, "core.spill_latency": 5.0,
    "caches.far_bytes": 4096.0 * 1024, "code.hot_bytes": 16384.0, "code.fetched": 3.0,
    "code.decoded": 16.0,
}  # fmt: skip
FITTED = ("core.window", "core.chain_gap", "core.spill_latency", "code.hot_bytes")

#: How far a figure goes from where it began, as a factor.
FARTHEST = 4.0

#: Sources of figures that a fit writes.
WRITTEN = ("measured", "system", "fit", "start")

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

    def costs(self, machine: machines.Machine | None = None) -> list[float]:
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


def quality(layers: Sequence[Layer], machine: machines.Machine | None = None) -> Quality:
    """How well the model chooses: the loss is a geometric mean."""
    losses, ranks = [], []
    for layer in layers:
        costs = layer.costs(machine)
        losses.append(layer.us[int(np.argmin(costs))] / min(layer.us))
        ranks.append(rank_correlation(costs, layer.us))
    mean = float(np.exp(np.mean(np.log(losses))))
    return Quality(len(layers), mean, max(losses), float(np.mean(ranks)))


def badness(layers: Sequence[Layer], machine: machines.Machine) -> float:
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


def machine_of(figures: Figures, title: str) -> machines.Machine:
    """The machine that figures describe."""
    sources = dict.fromkeys((source for _, source in figures.values()), "")
    return machines.parse_machine(table(figures, title, sources), "fit", "fit")


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
        unaligned = max(said["loads"] / said["unaligned"], 1.0)
        found[f"vectors.f32x{lanes}.unaligned"] = (float(f"{unaligned:.2g}"), "measured")
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
    with tempfile.TemporaryDirectory(prefix="cannery-figures-") as folder:
        program = _program(Path(folder), toolchain, lanes)
        (said,) = toolchain.runners()[0].run(program, [str(size) for size in sizes])
        return dict(said)


def _program(folder: Path, toolchain: Toolchain, lanes: int) -> Path:
    """The program that measures vectors so wide. Raises ToolchainError."""
    isa, program = toolchain.target.isa, folder / "figures"
    defines = [
        f"-DFIGURES_VEC={isa.vec(lanes)}", f"-DFIGURES_LANES={lanes}",
        f'-DFIGURES_HEADER="cannery/{isa.header}"',
    ]  # fmt: skip
    command = [
        *toolchain.compiler.command, *toolchain.cflags, *defines,
        f"-I{runtime_include_dir()}", f"-I{_HEADERS}", str(_PROGRAM), "-o", str(program),
        *toolchain.ldflags, "-lm",
    ]  # fmt: skip
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise ToolchainError(built.stderr.splitlines()[0], where=str(_PROGRAM))
    return program


#: An instruction of a kind, `{k}` counting registers; a multiply-accumulate may be two.
_SSE = {
    "macs": "mulps %xmm7, %xmm{k}", "sums": "addps %xmm7, %xmm{k}",
    "loads": "movups {at}(%rsi), %xmm{k}", "stores": "movups %xmm{k}, {at}(%rsi)",
    "chain": "addps %xmm7, %xmm0", "numbers": "addl $1, %e{n}x",
}  # fmt: skip
_LISTINGS = {
    Machine.X86_64: _SSE,
    Machine.I386: {name: text.replace("%rsi", "%esi") for name, text in _SSE.items()},
    Machine.AARCH64: {
        "macs": "fmla v{k}.4s, v30.4s, v31.4s", "sums": "fadd v{k}.4s, v{k}.4s, v31.4s",
        "loads": "ldr q{k}, [x0, #{at}]", "stores": "str q{k}, [x0, #{at}]",
        "chain": "fmla v0.4s, v30.4s, v31.4s", "numbers": "add x{j}, x{j}, #1",
    },
}  # fmt: skip


def registers(machine: Machine) -> list[int]:
    """Vector registers that take turns, so that nobody waits for the one before: not 7."""
    return [k for k in range({Machine.I386: 7, Machine.X86_64: 16}.get(machine, 16)) if k != 7]


def listing(machine: Machine, *kinds: str, apart: bool = False) -> list[Instruction]:
    """Instructions of these kinds in turn, one for each register; `apart`: kind after kind."""
    numbers = registers(machine)
    turns = [(kind, k) for kind in kinds for k in numbers]
    if not apart:
        turns = [(kind, k) for k in numbers for kind in kinds]
    found: list[Instruction] = []
    for kind, k in turns:
        text = _LISTINGS[machine][kind].format(k=k, j=k % 4 + 1, at=16 * k, n="abcd"[k % 4])
        found += parse_disassembly(f"0 <f>:\n 0: {text}\n", machine)[0].instructions
    return found


def estimated_figures(machine: Machine, cpu: str) -> Figures:
    """Rates and latencies of a processor that is not at hand, by llvm-mca's model of it.

    Vectors of four, nothing of caches. Raises ToolchainError.
    """
    estimator = find_estimator(cpu, machine)

    def rate(*kinds: str, apart: bool = False) -> float:
        code = listing(machine, *kinds, apart=apart)
        return len(code) / len(kinds) / estimator.cycles(code, loop=True)

    macs = rate("macs") if machine is Machine.AARCH64 else rate("macs", "sums", apart=True)
    values = {
        "macs": macs, "arithmetic": max(rate("sums"), 2.0 * rate("macs", "sums", apart=True)),
        "loads": rate("loads"), "stores": rate("stores"), "latency": 1.0 / rate("chain"),
    }  # fmt: skip
    issue = max(len(kinds) * rate(*kinds) for kinds in _MIXES)
    found: Figures = {"core.issue": (float(f"{issue:.2g}"), "measured")}
    for lanes in (1, 4):
        for name, value in values.items():
            found[f"vectors.f32x{lanes}.{name}"] = (float(f"{value:.2g}"), "measured")
    return found


#: What may start together.
_MIXES = (("numbers",), ("sums", "numbers"), ("sums", "numbers", "loads"), ("macs", "loads"))


def written_by_hand(place: Path) -> tuple[Figures, dict[str, str]]:
    """Of a table that there is, the figures that no fit wrote, and their sources."""
    if not place.exists():
        return {}, {}
    raw = msgspec.toml.decode(place.read_text())
    tables = {part: raw[part] for part in ("core", "caches", "code")}
    tables |= {f"vectors.{width}": row for width, row in raw["vectors"].items()}
    found: Figures = {
        f"{part}.{name}": (figure["value"], figure["source"])
        for part, rows in tables.items()
        for name, figure in rows.items()
        if figure["source"] not in WRITTEN
    }
    said = {name: text for name, text in raw["sources"].items() if name not in WRITTEN}
    return found, said


def by_kind(layers: Sequence[Layer]) -> Iterator[tuple[str, list[Layer]]]:
    """Layers of each kind of step, then all."""
    for kind in sorted({layer.step.kind for layer in layers}):
        yield kind, [layer for layer in layers if layer.step.kind == kind]
    yield "all", list(layers)


def quality_table(layers: Sequence[Layer], machines: Mapping[str, machines.Machine | None]) -> str:
    """Loss, worst loss and rank correlation of each kind of step by machine, as Markdown."""
    head = "| step | layers |" + "".join(f" {name} |" for name in machines)
    lines = [head, "|---|---|" + "---|" * len(machines)]
    for kind, found in by_kind(layers):
        cells = (quality(found, machine) for machine in machines.values())
        texts = (f"{q.loss:.2f}, {q.worst:.2f}, {q.rank:.2f}" for q in cells)
        lines.append(f"| {kind} | {len(found)} | {' | '.join(texts)} |")
    return "\n".join(lines)
