"""How well the cost model ranks candidates: its estimates against measured times, layer by layer.

    python benchmarks/cost_model.py MODEL... [--isa NAME] [--layer PATTERN] [--most N] [--rows N]

All candidates of each kind of step (or the N that autotune would try first) are timed in one
program, interleaved. A layer's line tells the rank correlation (Spearman) of estimates and times
and how many times longer the model's choice takes than the fastest candidate; `--rows` lists
candidates, the fastest first, with both figures. A candidate is timed alone, whatever its layouts.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from cannery.errors import CanneryError
from cannery.ir.graph import Graph
from cannery.options import make_options
from cannery.pipeline import import_graph
from cannery.schedule.program import Step
from cannery.target.isa import Isa
from cannery.target.toolchain import Toolchain, find_toolchain
from cannery.tune.build import build
from cannery.tune.contests import LONGEST_CODE, Ranked, by_preference, is_view, rank
from cannery.tune.harness import Candidate, Harness, make_candidate
from cannery.tune.measure import Protocol, measure
from cannery.tune.plan import make_units
from cannery.tune.signature import step_signature
from cannery.tune.trial import all_data, make_trial, random_inputs


@dataclass(frozen=True)
class Row:
    """A candidate of a layer: estimated cycles, as the model ranks by them, and microseconds."""

    model: str
    isa: str
    layer: str
    kind: str
    macs: int
    candidate: str
    schedule: str
    cycles: float
    us: float


def distinct_steps(graph: Graph, pattern: str, *, with_chains: bool) -> list[Step]:
    """Of all steps that may be measured, the first of each kind."""
    found: dict[str, Step] = {}
    for unit in make_units(graph):
        wanted = fnmatch.fnmatch(unit.step.name, pattern) and (with_chains or not unit.step.parts)
        if wanted:
            found.setdefault(step_signature(graph, unit.step), unit.step)
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
            protocol = replace(Protocol(), limit=given.limit)
            times = measure(built, toolchain.runners()[0], protocol)
        for symbol, each in which.items():
            if symbol in times:
                yield Row(
                    model.name, isa.name, step.name, step.kind, step.macs(graph), each.label,
                    each.choice.schedule.id, each.cycles, times[symbol].us,
                )  # fmt: skip


def correlation(rows: Sequence[Row]) -> float:
    """Spearman's rank correlation of estimates and times; 1 for fewer than three candidates."""
    if len(rows) < 3:
        return 1.0
    ranks = [np.argsort(np.argsort([getattr(r, key) for r in rows])) for key in ("cycles", "us")]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def print_layer(rows: Sequence[Row], most: int) -> None:
    """One line for a layer, then its fastest candidates."""
    choice = min(rows, key=lambda r: r.cycles)
    best = min(rows, key=lambda r: r.us)
    print(
        f"{rows[0].layer[:28]:28} {rows[0].kind[:16]:16} {rows[0].macs:9d} {best.us:9.3f} us "
        f"rank {correlation(rows):5.2f}  {choice.us / best.us:5.2f} x  {choice.candidate}"
    )
    for row in sorted(rows, key=lambda r: r.us)[:most]:
        print(f"    {row.us:9.3f} us {row.cycles:9.0f} cycles  {row.candidate}")


def main() -> int:
    """Prints a line per layer and the geometric mean of the losses."""
    parser = argparse.ArgumentParser(description="Estimated against measured times.")
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--isa")
    parser.add_argument("--cc")
    parser.add_argument("--layer", default="*", help="pattern of layer names")
    parser.add_argument("--most", type=int, default=24, help="candidates per layer, 0: all")
    parser.add_argument("--rows", type=int, default=0, help="candidates to list per layer")
    parser.add_argument("--chains", action="store_true", help="steps that span layers, too")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds per layer")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    given = parser.parse_args()
    found: list[Row] = []
    losses: list[float] = []
    for model in given.models:
        try:
            options = make_options(
                model, {"isa": (given.isa,) if given.isa else (), "cc": given.cc}
            )
            graph = import_graph(options)
            print(model.name)
            layers: dict[str, list[Row]] = {}
            for row in measured(model, graph, find_toolchain(options), given):
                layers.setdefault(row.layer, []).append(row)
        except CanneryError as error:
            print(f"cost_model: error: {error}", file=sys.stderr)
            return 2
        for rows in layers.values():
            print_layer(rows, given.rows)
            losses.append(min(rows, key=lambda r: r.cycles).us / min(r.us for r in rows))
            found += rows
    if losses:
        print(f"the model's choices take {np.exp(np.mean(np.log(losses))):.2f} times the best")
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in found]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
