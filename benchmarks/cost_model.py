"""How well the cost model ranks candidates: its estimates against measured times, layer by layer.

    python benchmarks/cost_model.py MODEL... [--isa NAME] [--layer PATTERN] [--most N] [--rows N]
                                    [--mca CPU] [--json FILE]
    python benchmarks/cost_model.py MODEL... --from FILE... --fit NAME --title TEXT

All candidates of each kind of step (or the N that autotune would try first) are timed in one
program, interleaved. A layer's line shows the rank correlation (Spearman) of estimates and times
and how many times longer the model's choice takes than the fastest candidate; `--rows` lists
candidates, the fastest first, with both figures. A candidate is timed alone, whatever its layouts.
`--mca` adds the same for the estimates by llvm-mca that autotune uses for processors that are not
at hand: CPU should be the one that the times come from, by LLVM's name.

`--fit` measures what this processor does per cycle, fits the rest to the times (those of FILES that
`--json` wrote, of any instruction sets, or of this run), and writes the table of a machine NAME; it
prints how well the model chooses for each kind of step, with the tables there were and with this
one: how many times longer its choices take than the best, the worst of them, the rank correlation.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from cannery.analysis import disassembly
from cannery.analysis.models import find_estimator
from cannery.choose.plan import make_segments
from cannery.choose.signature import step_signature
from cannery.errors import CanneryError, OptionError
from cannery.ir.graph import Graph
from cannery.measure.build import Built, build
from cannery.measure.harness import Candidate, Harness, make_candidate
from cannery.measure.measure import Protocol, measure
from cannery.measure.trial import all_data, make_trial, random_inputs
from cannery.options import Options, make_options
from cannery.pipeline import import_graph
from cannery.schedule.program import Step
from cannery.target.isa import Isa
from cannery.target.machine import FOLDER
from cannery.target.targets import find_target
from cannery.target.toolchain import Toolchain, find_toolchain
from cannery.tuning.contests import LONGEST_CODE, Ranked, by_preference, is_view, rank
from cannery.tuning.estimates import candidate_cycles, counted_check
from fitting import (
    FITTED,
    START,
    Layer,
    estimated_figures,
    fitted,
    machine_of,
    measured_figures,
    quality_table,
    rank_correlation,
    table,
    written_by_hand,
)


@dataclass(frozen=True)
class Row:
    """A candidate of a layer: estimated cycles, as the model ranks by them, and microseconds.

    `mca` is the estimate with llvm-mca; 0 where there is none.
    """

    model: str
    isa: str
    layer: str
    kind: str
    macs: int
    candidate: str
    schedule: str
    cycles: float
    us: float
    mca: float = 0.0


def distinct_steps(graph: Graph, pattern: str, *, with_chains: bool) -> list[Step]:
    """Of all steps that may be measured, the first of each kind."""
    found: dict[str, Step] = {}
    for segment in make_segments(graph):
        wanted = fnmatch.fnmatch(segment.step.name, pattern) and (
            with_chains or not segment.step.parts
        )
        if wanted:
            found.setdefault(step_signature(graph, segment.step), segment.step)
    return list(found.values())


def candidates_of(graph: Graph, step: Step, isa: Isa, most: int) -> list[Ranked]:
    """Those to measure, the ones that autotune would try first before others."""
    ranked = [r for r in rank(graph, step, isa, inexact=True) if not is_view(r.choice.schedule)]
    return by_preference(graph, step, isa, ranked)[: most or None]


def measured(
    model: Path, graph: Graph, toolchain: Toolchain, given: argparse.Namespace
) -> Iterator[Row]:
    """Times the candidates of one layer after the other; raises CanneryError."""
    isa = toolchain.target.isa
    steps = distinct_steps(graph, given.layer, with_chains=given.chains)
    data = all_data(graph, steps, random_inputs(graph))
    for step, known in zip(steps, data, strict=True):
        ranked = candidates_of(graph, step, isa, given.most)
        found: list[Candidate] = []
        which: dict[str, Ranked] = {}
        for each in ranked:
            trial = make_trial(graph, step, each.choice.schedule, each.choice.params, isa, known)
            candidate = make_candidate(trial, len(found), 0) if trial is not None else None
            if candidate is not None and len(candidate.kernel.code) <= LONGEST_CODE:
                found.append(candidate)
                which[candidate.symbol] = each
        if not found:
            continue
        with tempfile.TemporaryDirectory(prefix="cannery-cost-") as folder:
            built = build(Path(folder), Harness(isa), found, toolchain)
            estimates = by_mca(built, toolchain, given.mca)
            times = taken(built, toolchain, estimates, given)
        for symbol, each in which.items():
            if symbol in times:
                yield Row(
                    model.name, toolchain.target.name if given.target else isa.name, step.name,
                    step.kind, step.macs(graph), each.label, each.choice.schedule.id, each.cycles,
                    times[symbol], estimates.get(symbol, 0.0),
                )  # fmt: skip


def taken(
    built: Built, toolchain: Toolchain, estimates: Mapping[str, float], given: argparse.Namespace
) -> dict[str, float]:
    """Microseconds by symbol: measured, or thousands of cycles where the target is not at hand."""
    if given.target:
        return {symbol: cycles / 1000 for symbol, cycles in estimates.items()}
    protocol = replace(Protocol(), limit=given.limit)
    found = measure(built, toolchain.runners()[0], protocol)
    return {symbol: timing.us for symbol, timing in found.items()}


def by_mca(built: Built, toolchain: Toolchain, cpu: str) -> dict[str, float]:
    """Estimates by symbol; none without a processor."""
    if not cpu:
        return {}
    estimator = find_estimator(cpu, disassembly.machine_of(built.executable))
    return candidate_cycles(counted_check(built, toolchain), toolchain, estimator)


#: Ways to estimate a candidate.
Estimate = Callable[[Row], float]
WAYS: dict[str, Estimate] = {
    "model": lambda row: row.cycles,
    "llvm-mca": lambda row: row.mca,
    "both": lambda row: math.sqrt(row.cycles * row.mca),
}


def correlation(rows: Sequence[Row], way: Estimate) -> float:
    """Spearman's rank correlation of estimates and times; 1 for fewer than three candidates."""
    return rank_correlation([way(r) for r in rows], [r.us for r in rows])


def loss(rows: Sequence[Row], way: Estimate) -> float:
    """How many times longer what an estimate chooses takes than the fastest."""
    return min(rows, key=way).us / min(r.us for r in rows)


def print_layer(rows: Sequence[Row], most: int, ways: Sequence[str]) -> None:
    """One line for a layer, then its fastest candidates."""
    best = min(rows, key=lambda r: r.us)
    figures = "  ".join(
        f"rank {correlation(rows, WAYS[w]):5.2f} {loss(rows, WAYS[w]):5.2f} x" for w in ways
    )
    choice = min(rows, key=WAYS[ways[0]])
    print(
        f"{rows[0].layer[:28]:28} {rows[0].kind[:16]:16} {rows[0].macs:9d} {best.us:9.3f} us "
        f"{figures}  {choice.candidate}"
    )
    for row in sorted(rows, key=lambda r: r.us)[:most]:
        figures = "".join(f"{WAYS[w](row):9.0f} " for w in ways)
        print(f"    {row.us:9.3f} us {figures}cycles  {row.candidate}")


def print_summary(layers: Sequence[Sequence[Row]], ways: Sequence[str]) -> None:
    """The geometric mean of the losses and the mean rank correlation of each way."""
    for name in ways:
        losses = [loss(rows, WAYS[name]) for rows in layers]
        ranks = [correlation(rows, WAYS[name]) for rows in layers if len(rows) > 2]
        mean = np.mean(ranks) if ranks else 1.0
        print(
            f"{name}: its choices take {np.exp(np.mean(np.log(losses))):.2f} times the best, at "
            f"most {max(losses):.2f}; rank correlation {mean:.2f}"
        )


def layers_of(rows: Sequence[Row], models: Sequence[Path]) -> list[Layer]:
    """What rows measured, with the choices that they name; rows of other models are left out."""
    found = []
    for model in models:
        graph = import_graph(make_options(model, {}))
        found_steps = (segment.step for segment in make_segments(graph))
        steps = {(step.name, step.kind): step for step in found_steps}
        own: dict[tuple[str, str, str], list[Row]] = {}
        for row in rows:
            if row.model == model.name:
                own.setdefault((row.isa, row.layer, row.kind), []).append(row)
        for (isa_name, layer, kind), each in own.items():
            isa, step = find_target(isa_name).isa, steps[layer, kind]
            known = {r.label: r.choice for r in rank(graph, step, isa, inexact=True)}
            kept = [row for row in each if row.candidate in known]
            if len(kept) > 1:
                choices = tuple(known[row.candidate] for row in kept)
                times = tuple(row.us for row in kept)
                found.append(Layer(model.name, isa, graph, step, choices, times))
    return found


def fit(rows: Sequence[Row], given: argparse.Namespace, toolchain: Toolchain) -> None:
    """Write the table of this machine, and print how well it chooses."""
    layers = layers_of(rows, given.models)
    command = f"benchmarks/cost_model.py --fit {given.fit}, {time.strftime('%Y-%m-%d')}"
    sources = {
        "measured": f"loops of one kind of instruction, {command}",
        "system": "what the operating system says",
        "fit": f"least loss over {len(layers)} measured layers, {command}",
        "start": "where fits begin: other values were no better, or could not show",
    }
    if given.target:
        figures = estimated_figures(disassembly.Machine(toolchain.target.triple), given.mca)
        sources["measured"] = f"loops of one kind of instruction, by llvm-mca for {given.mca}"
        sources["fit"] = f"least loss over {len(layers)} layers by llvm-mca, {command}"
    else:
        figures = measured_figures(toolchain)
    place = FOLDER / f"{given.fit}.toml"
    kept, said = written_by_hand(place)
    figures |= {path: (value, "start") for path, value in START.items()} | kept
    varied = [path for path in FITTED if path not in kept]
    figures = fitted(layers, figures, given.title, varied)
    place.write_text(table(figures, given.title, {**said, **sources}))
    machines = {"before": None, given.fit: machine_of(figures, given.title)}
    print(quality_table(layers, machines))


def read_rows(files: Sequence[Path]) -> list[Row]:
    """The rows of files that `--json` wrote. Raises OptionError for other files."""
    found = []
    for file in files:
        try:
            found += [Row(**row) for row in json.loads(file.read_text())]
        except (OSError, TypeError, ValueError) as error:
            cure = "give files that --json wrote"
            raise OptionError(
                f"not readable: {error}", where=f"--from {file}", cure=cure
            ) from error
    return found


def table_name(text: str) -> str:
    """The name of a table, which is a file's. Raises ArgumentTypeError for others."""
    if not re.fullmatch(r"[\w.-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name: take letters, digits and -")
    return text


def options_of(model: Path, given: argparse.Namespace) -> Options:
    """What a model is generated with."""
    raw = {"isa": (given.isa,) if given.isa else (), "cc": given.cc}
    return make_options(model, {**raw, "target": given.target} if given.target else raw)


def measure_all(given: argparse.Namespace, ways: Sequence[str]) -> list[Row]:
    """Measure the layers of all models, and print a line for each and a summary."""
    found: list[list[Row]] = []
    for model in given.models:
        options = options_of(model, given)
        print(model.name)
        layers: dict[tuple[str, str], list[Row]] = {}
        for row in measured(model, import_graph(options), find_toolchain(options), given):
            layers.setdefault((row.layer, row.kind), []).append(row)
        for rows in layers.values():
            known = [row for row in rows if row.mca] if given.mca else rows
            if known:
                print_layer(known, given.rows, ways)
                found.append(known)
    if found:
        print_summary(found, ways)
    return [row for rows in found for row in rows]


def main() -> int:
    """Prints a line per layer and the geometric mean of the losses; fits a table."""
    parser = argparse.ArgumentParser(description="Estimated against measured times.")
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--isa")
    parser.add_argument("--target", default="", help="one that is not at hand, with --mca")
    parser.add_argument("--cc")
    parser.add_argument("--layer", default="*", help="pattern of layer names")
    parser.add_argument("--most", type=int, default=24, help="candidates per layer, 0: all")
    parser.add_argument("--rows", type=int, default=0, help="candidates to list per layer")
    parser.add_argument("--chains", action="store_true", help="steps that span layers, too")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds per layer")
    parser.add_argument("--mca", default="", metavar="CPU", help="estimates by llvm-mca, too")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument(
        "--from",
        type=Path,
        nargs="+",
        dest="files",
        metavar="FILE",
        help="times that --json wrote, instead of measuring",
    )
    parser.add_argument(
        "--fit", type=table_name, default="", metavar="NAME", help="write the table of a machine"
    )
    parser.add_argument("--title", default="", help="what the machine is called")
    given = parser.parse_args()
    ways = list(WAYS) if given.mca else ["model"]
    try:
        rows = read_rows(given.files) if given.files else measure_all(given, ways)
        if given.json:
            given.json.write_text(json.dumps([asdict(row) for row in rows]))
        if given.fit:
            fit(rows, given, find_toolchain(options_of(given.models[0], given)))
    except CanneryError as error:
        print(f"cost_model: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
