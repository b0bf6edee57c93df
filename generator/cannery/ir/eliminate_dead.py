"""Removes what no output depends on."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ir.rewrite import Rewriter


def eliminate_dead(graph: Graph) -> Graph:
    """Nodes whose outputs are never read go, from the end to the start, then unused constants."""
    rewriter = Rewriter(graph)
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            rewriter.replace_node(node, [])
        else:
            needed.update(i for i in node.inputs if i)
    rewriter.changed |= bool(set(graph.constants) - needed)
    return rewriter.finish()
