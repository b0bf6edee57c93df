"""Intervals of the finest cut that may be computed depth first, to save memory.

Between them, values exist as a whole. So they begin and end where little memory is alive: where
neither neighbour has less, as after the projection of an inverted residual.
"""

from __future__ import annotations

from collections.abc import Sequence

from cannery.ir.graph import Graph
from cannery.lowering.lower import make_chain
from cannery.ops.chains.sliced import windows
from cannery.schedule.program import Step

#: Steps of the longest chain: with more, rings take more than what they save.
MAX_STEPS = 48


def depth_first_chains(graph: Graph, steps: Sequence[Step]) -> tuple[Step, ...]:
    """The intervals as chains, by their first step, shortest first.

    Only the last value of each is read outside it.
    """
    by_rows = [windows(graph, step) is not None for step in steps]
    ends = _quiet(graph, steps, by_rows)
    readers = _readers(graph, steps)
    found = []
    for first in sorted(ends):
        reach = first
        for k in range(first, min(first + MAX_STEPS, len(steps))):
            if not by_rows[k]:
                break
            if k + 1 in ends and k > first and reach <= k:
                found.append(make_chain(steps[first : k + 1], depth_first=True))
            reach = max(reach, *(readers[v] for v in steps[k].outputs))
    return tuple(found)


def _readers(graph: Graph, steps: Sequence[Step]) -> dict[str, int]:
    """The last step that reads each value; after all of them for outputs of the network."""
    last = {v: k for k, step in enumerate(steps) for v in step.inputs}
    return {
        v: len(steps) if v in graph.outputs else last.get(v, len(steps))
        for step in steps
        for v in step.outputs
    }


def _quiet(graph: Graph, steps: Sequence[Step], by_rows: Sequence[bool]) -> set[int]:
    """The places between steps where a chain may begin or end."""
    alive, last = [0] * (len(steps) + 2), {v: k for k, s in enumerate(steps) for v in s.inputs}
    made = {v: k + 1 for k, step in enumerate(steps) for v in step.outputs}
    for value, start in made.items():
        for place in range(start, last.get(value, start - 1) + 1):
            alive[place] += graph.types[value].bytes
    found = {0, len(steps)}
    for place in range(1, len(steps)):
        edge = by_rows[place - 1] != by_rows[place]
        quiet = alive[place] <= min(
            alive[place - 1] or alive[place], alive[place + 1] or alive[place]
        )
        if edge or quiet:
            found.add(place)
    return found
