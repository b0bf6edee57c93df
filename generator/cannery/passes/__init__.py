"""Graph passes: graph in, graph out, verified after each. The order below is the order they run."""

from __future__ import annotations

from collections.abc import Callable

from cannery.ir.graph import Graph
from cannery.ir.verify import verify

#: (name, pass), in order.
PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = ()


def run_passes(graph: Graph, dump: Callable[[str, Graph], None] | None = None) -> Graph:
    """All passes in order; `dump` is told every intermediate graph with its stage's name."""
    for name, run in PASSES:
        graph = run(graph)
        verify(graph, after=name)
        if dump:
            dump(name, graph)
    return graph
