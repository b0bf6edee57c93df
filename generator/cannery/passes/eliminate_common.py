"""Computes equal things once."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ir.rewrite import Rewriter


def eliminate_common(graph: Graph) -> Graph:
    """Two nodes with equal operators and inputs become one (common subexpressions)."""
    rewriter = Rewriter(graph)
    done = False
    while not done:
        done = True
        seen: dict[object, str] = {}
        for node in rewriter.nodes:
            key = (node.op.kind, repr(node.op), node.inputs)
            if len(node.outputs) != 1:
                continue
            if key in seen and rewriter.can_bypass(node, seen[key]):
                rewriter.bypass(node, seen[key])
                done = False
                break
            seen.setdefault(key, node.output)
    return rewriter.finish()
