"""Gives every step something to read: nodes that depend only on constants begin with an Identity.

`fold_constants` leaves few of them: those that would be too large as constants, or take too long. A
step has its constants in its code and everything else in buffers, and most schedules need at least
one buffer.
"""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.movement.op import Expand, Identity

#: The operator that writes a constant to memory.
_WRITES = (Identity, Expand)


def place_constants(graph: Graph) -> Graph:
    """If all inputs of a node are constant, its first input is copied to memory before it."""
    rewriter = Rewriter(graph)
    placed: dict[str, str] = {}
    for node in graph.nodes:
        known = [i for i in node.inputs if i]
        if isinstance(node.op, _WRITES) or any(i not in graph.constants for i in known):
            continue
        first, new = known[0], list[Node]()
        if first not in placed:
            placed[first] = rewriter.value(f"{first}/placed", graph.types[first])
            new.append(Node(Identity(), placed[first], (first,), (placed[first],)))
        at = node.inputs.index(first)
        inputs = (*node.inputs[:at], placed[first], *node.inputs[at + 1 :])
        rewriter.replace_node(node, [*new, Node(node.op, node.name, inputs, node.outputs)])
    return rewriter.finish()
