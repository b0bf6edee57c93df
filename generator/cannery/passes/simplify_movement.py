"""Removes and merges nodes that only rename or move elements."""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Cast, Expand, Identity, Pad, Reshape, Slice, Transpose


def simplify_movement(graph: Graph) -> Graph:
    """Until nothing changes: no-ops go, a reshape of a reshape and a transpose of one merge."""
    rewriter = Rewriter(graph)
    while rewriter.sweep(_simplify):
        pass
    return rewriter.finish()


def _simplify(rewriter: Rewriter, node: Node) -> bool:
    """Whether the node was changed or removed."""
    if _is_noop(rewriter, node) and rewriter.can_bypass(node, node.inputs[0]):
        rewriter.bypass(node, node.inputs[0])
        return True
    source = rewriter.producer(node.inputs[0]) if node.inputs else None
    if source is None:
        return False
    if isinstance(node.op, Reshape) and isinstance(source.op, Reshape):
        rewriter.update(node, inputs=source.inputs)
        return True
    if isinstance(node.op, Transpose) and isinstance(source.op, Transpose):
        perm = tuple(source.op.perm[p] for p in node.op.perm)
        rewriter.update(node, op=Transpose(perm), inputs=source.inputs)
        return True
    return False


def _is_noop(rewriter: Rewriter, node: Node) -> bool:
    op = node.op
    if isinstance(op, (Identity,)):
        return True
    if isinstance(op, Concat):
        return len(node.inputs) == 1
    if isinstance(op, (Reshape, Expand, Slice, Cast)):
        same = rewriter.types[node.inputs[0]] == rewriter.types[node.output]
        return same and not (isinstance(op, Slice) and any(s < 0 for s in op.steps))
    if isinstance(op, Transpose):
        return op.perm == tuple(range(len(op.perm))) or _moves_ones_only(rewriter, node, op.perm)
    return isinstance(op, Pad) and all(pair == (0, 0) for pair in op.pads)


def _moves_ones_only(rewriter: Rewriter, node: Node, perm: tuple[int, ...]) -> bool:
    """A transpose that leaves the type as it is, and moves nothing but dimensions of 1."""
    shape = rewriter.types[node.inputs[0]].shape
    moved = [p for p in perm if shape[p] != 1]
    return moved == sorted(moved) and rewriter.types[node.output].shape == shape
