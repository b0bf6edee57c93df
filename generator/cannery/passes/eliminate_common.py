"""Computes equal things once."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ir.rewrite import Rewriter


def eliminate_common(graph: Graph) -> Graph:
    """Two nodes with equal operators and inputs become one (common subexpressions)."""
    rewriter = Rewriter(graph)
    while _sweep(rewriter):
        pass
    return rewriter.finish()


def _sweep(rewriter: Rewriter) -> bool:
    """One pass over the nodes; returns whether anything was found."""
    seen: dict[object, str] = {}
    found = False
    for output in [n.output for n in rewriter.nodes if len(n.outputs) == 1]:
        node = rewriter.producer(output)
        assert node is not None
        key = (node.op.kind, repr(node.op), node.inputs)
        first = seen.setdefault(key, output)
        if first != output and rewriter.can_bypass(node, first):
            rewriter.bypass(node, first)
            seen[key] = output if output in rewriter.outputs else first
            found = True
    return found
