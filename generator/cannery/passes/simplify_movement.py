"""Removes and merges nodes that only rename or move elements."""

from __future__ import annotations

from dataclasses import replace

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise.base import Unary
from cannery.ops.logic.compare import Where
from cannery.ops.movement.op import Cast, Expand, Identity, Pad, Reshape, Slice, Transpose


def simplify_movement(graph: Graph) -> Graph:
    """Until nothing changes: no-ops and known choices are removed; two reshapes, transposes or
    slices in a row become one, and so do all slices of a value in a concatenation. Reshapes that
    undo each other around functions of each number are removed, too.
    """
    rewriter = Rewriter(graph)
    while rewriter.sweep(_simplify):
        pass
    return rewriter.finish()


def _simplify(rewriter: Rewriter, node: Node) -> bool:
    """Whether the node was changed or removed."""
    if _is_noop(rewriter, node) and rewriter.can_bypass(node, node.inputs[0]):
        rewriter.bypass(node, node.inputs[0])
        return True
    if isinstance(node.op, Where):
        return _choose(rewriter, node)
    if isinstance(node.op, Concat):
        return _join_slices(rewriter, node, node.op.axis)
    source = rewriter.producer(node.inputs[0]) if node.inputs else None
    if source is None:
        return False
    if isinstance(node.op, Reshape) and isinstance(source.op, Reshape):
        rewriter.update(node, inputs=source.inputs)
        return True
    if isinstance(node.op, Reshape) and isinstance(source.op, Unary):
        return _functions_of_whole(rewriter, node)
    if isinstance(node.op, Transpose) and isinstance(source.op, Transpose):
        perm = tuple(source.op.perm[p] for p in node.op.perm)
        rewriter.update(node, op=Transpose(perm), inputs=source.inputs)
        return True
    if isinstance(node.op, Slice) and isinstance(source.op, Slice):
        return _merge_slices(rewriter, node, source)
    return False


def _functions_of_whole(rewriter: Rewriter, node: Node) -> bool:
    """Functions of each number between two reshapes, the second of which undoes the first."""
    functions: list[Node] = []
    before = rewriter.producer(node.inputs[0])
    reader = node
    while before is not None and isinstance(before.op, Unary):
        if rewriter.single_reader(before.output) is not reader:
            return False
        functions.append(before)
        reader, before = before, rewriter.producer(before.inputs[0])
    if not functions or before is None or not isinstance(before.op, Reshape):
        return False
    x = before.inputs[0]
    if rewriter.types[x].shape != rewriter.types[node.output].shape:
        return False
    moved: list[Node] = []
    for function in functions[::-1]:
        rewriter.replace_node(function, [])
        last = function is functions[0]
        type_ = replace(rewriter.types[function.output], shape=rewriter.types[node.output].shape)
        made = node.output if last else rewriter.value(function.output, type_)
        moved.append(Node(function.op, function.name, (x,), (made,)))
        x = made
    rewriter.replace_node(node, moved)
    return True


def _choose(rewriter: Rewriter, node: Node) -> bool:
    """A choice whose condition is constant, and the same everywhere."""
    condition = rewriter.constants.get(node.inputs[0])
    if condition is None or not condition.size or condition.any() != condition.all():
        return False
    taken = node.inputs[1 if condition.all() else 2]
    same = rewriter.types[taken] == rewriter.types[node.output]
    if not same or taken in rewriter.constants or not rewriter.can_bypass(node, taken):
        return False
    rewriter.bypass(node, taken)
    return True


def _join_slices(rewriter: Rewriter, node: Node, axis: int) -> bool:
    """All slices of a value, in order, as parts of a concatenation become the value itself."""
    for first, part in enumerate(node.inputs):
        slice_ = rewriter.producer(part)
        if slice_ is None or not isinstance(slice_.op, Slice):
            continue
        value = slice_.inputs[0]
        last, at = first, 0
        while last < len(node.inputs) and _continues(rewriter, node.inputs[last], value, axis, at):
            at += rewriter.types[node.inputs[last]].shape[axis]
            last += 1
        if last > first and at == rewriter.types[value].shape[axis]:
            rewriter.update(node, inputs=(*node.inputs[:first], value, *node.inputs[last:]))
            return True
    return False


def _continues(rewriter: Rewriter, part: str, value: str, axis: int, at: int) -> bool:
    """Whether a part is all of a value along the other axes, and begins at `at` along this one."""
    node = rewriter.producer(part)
    if node is None or not isinstance(node.op, Slice) or node.inputs[0] != value:
        return False
    whole, shape = rewriter.types[value].shape, rewriter.types[part].shape
    around = (*whole[:axis], *whole[axis + 1 :]) == (*shape[:axis], *shape[axis + 1 :])
    return around and node.op.starts[axis] == at and all(step == 1 for step in node.op.steps)


def _merge_slices(rewriter: Rewriter, node: Node, source: Node) -> bool:
    """A slice of a slice becomes one slice of the original value, unless it is empty."""
    assert isinstance(node.op, Slice) and isinstance(source.op, Slice)
    taken = [
        range(*outer)[slice(start, None if end < 0 else end, step)]
        for outer, start, end, step in zip(
            _bounds(source.op), node.op.starts, node.op.ends, node.op.steps, strict=True
        )
    ]
    if not all(taken):
        return False
    ends = tuple(r[-1] + (1 if r.step > 0 else -1) for r in taken)
    op = Slice(tuple(r.start for r in taken), ends, tuple(r.step for r in taken))
    rewriter.update(node, op=op, inputs=source.inputs)
    return True


def _bounds(op: Slice) -> list[tuple[int, int, int]]:
    return list(zip(op.starts, op.ends, op.steps, strict=True))


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
    """A transpose that keeps the type and moves only dimensions of 1."""
    shape = rewriter.types[node.inputs[0]].shape
    moved = [p for p in perm if shape[p] != 1]
    return moved == sorted(moved) and rewriter.types[node.output].shape == shape
