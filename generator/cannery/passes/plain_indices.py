"""Indices that a file makes positive, or wider, before an operator that takes them as they are."""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add
from cannery.ops.indexing.gather import Gather
from cannery.ops.logic.compare import Less, Where
from cannery.ops.movement.op import Cast


def plain_indices(graph: Graph) -> Graph:
    """Gather of where(i < 0, i + size, i) is Gather of i; int64 from int32 is read as int32."""
    rewriter = Rewriter(graph)
    while rewriter.sweep(_simplify):
        pass
    return rewriter.finish()


def _simplify(rewriter: Rewriter, node: Node) -> bool:
    if not isinstance(node.op, Gather):
        return False
    x, indices = node.inputs
    made = rewriter.producer(indices)
    if made is None:
        return False
    size = rewriter.types[x].shape[node.op.axis]
    if isinstance(made.op, Where):
        plain = _wrapped(rewriter, made, size)
    elif isinstance(made.op, Cast) and rewriter.types[indices].dtype is DType.INT64:
        narrow = rewriter.types[made.inputs[0]].dtype is DType.INT32
        plain = made.inputs[0] if narrow else ""
    else:
        return False
    if not plain or rewriter.types[plain].shape != rewriter.types[indices].shape:
        return False
    rewriter.update(node, inputs=(x, plain))
    return True


def _wrapped(rewriter: Rewriter, node: Node, size: int) -> str:
    """I in where(i < 0, i + size, i); "" for anything else."""
    condition, moved, plain = node.inputs
    less, sum_ = rewriter.producer(condition), rewriter.producer(moved)
    if not less or not sum_ or not isinstance(less.op, Less) or not isinstance(sum_.op, Add):
        return ""
    if less.inputs[0] != plain or _number(rewriter, less.inputs[1]) != 0:
        return ""
    for value, other in (sum_.inputs, sum_.inputs[::-1]):
        if value == plain and _number(rewriter, other) == size:
            return plain
    return ""


def _number(rewriter: Rewriter, value: str) -> int | None:
    """A constant of one element."""
    array = rewriter.constants.get(value)
    return int(array.reshape(-1)[0]) if array is not None and array.size == 1 else None
