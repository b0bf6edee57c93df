"""Recurrent layers that run a single step return its output once, not as sequence and last output.

Networks that run step by step keep the last output as their state: it need not be written twice.
"""

from __future__ import annotations

from dataclasses import replace

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.movement.op import Reshape
from cannery.ops.recurrent.base import HIDDEN, SEQUENCE, Recurrent


def last_of_one_step(graph: Graph) -> Graph:
    """The last output [N,D*H] becomes another shape of the sequence [N,1,D*H]."""
    rewriter = Rewriter(graph)
    for node in rewriter.nodes:
        if isinstance(node.op, Recurrent) and _returns_twice(rewriter, node, node.op):
            _share(rewriter, node, node.op)
    return rewriter.finish()


def _returns_twice(rewriter: Rewriter, node: Node, op: Recurrent) -> bool:
    """Whether both are the same numbers: a sample of no steps would return its initial state."""
    steps = rewriter.types[node.inputs[0]].shape[1]
    sure = steps == 1 and not op.lengths and not op.first_input(node.inputs)
    return sure and {SEQUENCE, HIDDEN} <= set(op.returns)


def _share(rewriter: Rewriter, node: Node, op: Recurrent) -> None:
    results = dict(zip(op.returns, node.outputs, strict=True))
    hidden = results.pop(HIDDEN)
    layer = replace(node, op=replace(op, returns=tuple(results)), outputs=tuple(results.values()))
    shape = Reshape(rewriter.types[hidden].shape)
    last = Node(shape, f"{node.name}/last", (results[SEQUENCE],), (hidden,))
    rewriter.replace_node(node, [layer, last])
