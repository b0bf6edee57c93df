"""Gives every step something to read: what depends on constants alone begins with an Identity.

`fold_constants` leaves little of that: what would be too large as a constant, or takes too long. A
step finds its constants in its code and everything else in buffers, and most schedules count on
at least one buffer.
"""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.movement.op import Expand, Identity

#: What writes a constant to memory.
_WRITES = (Identity, Expand)


def place_constants(graph: Graph) -> Graph:
    """The first input of a node whose inputs are all constant is copied to memory before it."""
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
