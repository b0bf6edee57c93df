"""Computes equal things once.

Except slices that are the next state: others of the same steps stay apart, so that the state is the
past of a value and nothing else is made of it (`past_window`), in calls of any size.
"""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ir.rewrite import Rewriter
from cannery.ops.concat.past import MOVES
from cannery.ops.movement.op import Slice


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
    next_states = _next_states(rewriter)
    for output in [n.output for n in rewriter.nodes if len(n.outputs) == 1]:
        node = rewriter.producer(output)
        assert node is not None
        if isinstance(node.op, Slice) and output in next_states:
            continue
        key = (node.op.kind, repr(node.op), node.inputs)
        first = seen.setdefault(key, output)
        if first != output and rewriter.can_bypass(node, first):
            rewriter.bypass(node, first)
            seen[key] = output if output in rewriter.outputs else first
            found = True
    return found


def _next_states(rewriter: Rewriter) -> set[str]:
    """What becomes the next states, before nodes that only move its elements."""
    found = set[str]()
    for state in rewriter.graph.states:
        value, maker = state.output, rewriter.producer(state.output)
        while maker is not None and isinstance(maker.op, MOVES):
            value, maker = maker.inputs[0], rewriter.producer(maker.inputs[0])
        found.add(value)
    return found
