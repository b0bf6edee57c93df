"""Makes sums and products read first the operand that has the shape of the result.

Exporters write a gate before or after the value that it scales. An elementwise step walks its first
input, and may write in its place.
"""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.elementwise import Add, Mul


def whole_first(graph: Graph) -> Graph:
    """Mul(gate, x) becomes Mul(x, gate) if the gate is broadcast; so does Add."""
    rewriter = Rewriter(graph)
    rewriter.sweep(_turn)
    return rewriter.finish()


def _turn(rewriter: Rewriter, node: Node) -> bool:
    if not isinstance(node.op, Add | Mul):
        return False
    first, second = node.inputs
    shapes = [rewriter.types[value].shape for value in (first, second, node.output)]
    turns = shapes[0] != shapes[2] == shapes[1]
    if not turns or first in rewriter.constants or second in rewriter.constants:
        return False
    rewriter.update(node, inputs=(second, first))
    return True
