"""Networks of one kernel each, of the kernel tests' cases, in as many pieces as there can be."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from cannery.emit.making import make_source
from cannery.emit.source import Source
from cannery.ir.graph import Graph
from cannery.lowering.assign import assign
from cannery.lowering.cores import Cores
from cannery.lowering.lower import chains, cut
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import all_schedules, legal
from cannery.target.isa import Isa
from ops.cases import all_cases

#: Whatever can be cut is cut, however small.
ALL = Cores(piece_us=0.0)


def kernel_sources(
    isa: Isa, patterns: Sequence[str], schedules: Collection[str], most: int
) -> list[Source]:
    """Networks that use the given schedules (empty: all), up to `most` of each, in pieces."""
    found: list[Source] = []
    counts: Counter[str] = Counter()
    for case in all_cases():
        if not any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns):
            continue
        graph = case.make()
        for steps in _forms(graph, isa):
            for wanted in sorted(_ids(graph, steps, isa) & (set(schedules) or {*all_schedules()})):
                if counts[wanted] < most:
                    made = _source(graph, steps, isa, wanted, counts[wanted], f"net{len(found)}")
                    if wanted in cut_schedules(made):
                        counts[wanted] += 1
                        found.append(made)
    return found


def cut_schedules(source: Source) -> set[str]:
    """The schedules of the steps that are cut."""
    assert source.parallel is not None
    return {source.calls[k].planned.choice.schedule.id for k in source.parallel.by_index}


def _forms(graph: Graph, isa: Isa) -> Iterator[tuple[Step, ...]]:
    """The steps of a case, and with each chain in the place of its parts."""
    steps = cut(graph)
    yield steps
    for chain in chains(graph, steps):
        if legal(graph, chain, isa):
            names = {node.name for node in chain.nodes}
            inside = [names >= {node.name for node in step.nodes} for step in steps]
            last = len(steps) - 1 - inside[::-1].index(True)
            before = [s for k, s in enumerate(steps) if k < last and not inside[k]]
            yield (*before, chain, *steps[last + 1 :])


def _ids(graph: Graph, steps: Sequence[Step], isa: Isa) -> set[str]:
    return {schedule.id for step in steps for schedule in legal(graph, step, isa)}


def _source(
    graph: Graph, steps: Sequence[Step], isa: Isa, wanted: str, turn: int, name: str
) -> Source:
    """The network with a schedule wherever it is legal, another of its candidates each turn."""
    choices = []
    for step in steps:
        able = legal(graph, step, isa)
        schedule = next((s for s in able if s.id == wanted), able[0])
        candidates = schedule.candidates(graph, step, isa)
        choices.append(Choice(schedule, candidates[(turn * 37 + 5) % len(candidates)]))
    program = assign(graph, steps, choices, isa)
    return make_source(program, isa, name, {}, cores=ALL)
