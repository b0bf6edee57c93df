"""Removes nodes and constants on which no output depends."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ir.rewrite import Rewriter


def eliminate_dead(graph: Graph) -> Graph:
    """Without nodes and constants that no output needs; `Rewriter.finish` removes them too."""
    rewriter = Rewriter(graph)
    rewriter.changed = True
    made = rewriter.finish()
    same = len(made.nodes) == len(graph.nodes) and len(made.constants) == len(graph.constants)
    return graph if same else made
