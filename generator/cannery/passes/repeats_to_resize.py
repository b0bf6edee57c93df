"""Pixels or steps that Reshape and Expand repeat become an upsampling.

Keras' UpSampling2D is exported so by PyTorch and TensorFlow, and PyTorch's repeat_interleave: an
axis of 1 after rows, or columns, which Expand makes longer, and which Reshape joins with them. What
a row of nodes does is tried on the places of its input.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op
from cannery.ir.rewrite import Rewriter
from cannery.ops.movement.op import Expand, Reshape, Transpose
from cannery.ops.resize.op import Resize

#: Elements of the largest value whose places are tried.
_MOST = 1 << 24


def repeats_to_resize(graph: Graph, *, anywhere: bool = False) -> Graph:
    """Reshape and Expand in a row, from an image to a larger one, become Resize.

    With `anywhere`, also where channels are the second axis, between transposes.
    """
    rewriter = Rewriter(graph)
    rewriter.sweep(partial(_replace, anywhere=anywhere), backwards=True)
    return rewriter.finish()


class _Found(NamedTuple):
    """How many nodes of a row resample an image, of which shape, and how; `first`: channels are
    its second axis.
    """

    nodes: int
    shape: tuple[int, ...]
    op: Resize
    first: bool = False


def _replace(rewriter: Rewriter, last: Node, *, anywhere: bool) -> bool:
    """Starts from the last Reshape: the longest row before it that is an upsampling."""
    if not isinstance(last.op, Reshape) or rewriter.types[last.output].elements > _MOST:
        return False
    row = [last]
    found: _Found | None = None
    while (node := rewriter.producer(row[-1].inputs[0])) is not None:
        if not isinstance(node.op, Reshape | Expand | Transpose):
            break
        if rewriter.single_reader(node.output) is not row[-1]:
            break
        row.append(node)
        found = _resample(rewriter, row, anywhere=anywhere) or found
    if not found:
        return False
    source = row[found.nodes - 1].inputs[0]
    for node in row[1 : found.nodes]:
        rewriter.replace_node(node, [])
    ops: list[Op] = [Reshape(found.shape), found.op]
    if found.first:
        rank = len(found.shape)
        ops.insert(1, Transpose((0, *range(2, rank), 1)))
        ops.append(Transpose((0, rank - 1, *range(1, rank - 1))))
    nodes = []
    for k, op in enumerate(ops, 1):
        (type_,) = op.infer(rewriter.types[source])
        output = last.output if k == len(ops) else rewriter.value(f"{last.output}/image", type_)
        nodes.append(Node(op, last.name, (source,), (output,)))
        source = output
    rewriter.replace_node(last, nodes)
    return True


def _resample(rewriter: Rewriter, row: list[Node], *, anywhere: bool) -> _Found | None:
    """What a row of nodes, the last one first, does to an image, if it repeats pixels."""
    before, after = rewriter.types[row[-1].inputs[0]].shape, rewriter.types[row[0].output].shape
    last = before[:1] + before[-1:] == after[:1] + after[-1:]
    first = anywhere and len(before) == len(after) and before[:2] == after[:2]
    if len(after) < 3 or len(before) < 2 or not (last or first) or 0 in before:
        return None
    if len(after) == 3 and last:
        before = (before[0], prod(before[1:-1]), before[-1])
    if len(before) != len(after) or before == after:
        return None
    if any(large % small for small, large in zip(before, after, strict=True)):
        return None
    moved = np.arange(prod(before), dtype=np.int32).reshape(before)
    repeated = moved
    for axis, (small, large) in enumerate(zip(before, after, strict=True)):
        repeated = np.repeat(repeated, large // small, axis)
    moved = moved.reshape(rewriter.types[row[-1].inputs[0]].shape)
    for node in reversed(row):
        moved = node.op.reference(moved)[0].astype(np.int32)
    if not np.array_equal(moved, repeated):
        return None
    sizes = after[1:-1] if last else after[2:]
    return _Found(len(row), before, Resize("nearest", sizes, "asymmetric", "floor"), first=not last)
