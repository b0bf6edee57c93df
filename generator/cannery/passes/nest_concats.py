"""A concatenation reads an earlier one that has some of its parts.

A value can be written in place into one concatenation only, see `cannery.schedule.assign`: where
concat(a, b, c) reads concat(a, b), all parts of both are. Densely connected networks, each layer of
which reads all before it, are full of such.
"""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.concat.op import Concat


def nest_concats(graph: Graph) -> Graph:
    """concat(x, a, b) becomes concat(x, concat(a, b)) where that is computed before."""
    rewriter = Rewriter(graph)
    before: list[Node] = []
    for node in rewriter.nodes:
        if isinstance(node.op, Concat):
            before.append(_nested(rewriter, node, before))
    return rewriter.finish()


def _nested(rewriter: Rewriter, node: Node, before: list[Node]) -> Node:
    """The node, changed to read those before it that cover most of its inputs."""
    parts = node.inputs
    for other in sorted(before, key=lambda n: -len(n.inputs)):
        size = len(other.inputs)
        places = [k for k in range(len(parts)) if parts[k : k + size] == other.inputs]
        if other.op == node.op and 1 < size < len(parts) and len(places) == 1:
            at = places[0]
            parts = (*parts[:at], other.output, *parts[at + size :])
    return node if parts == node.inputs else rewriter.update(node, inputs=parts)
