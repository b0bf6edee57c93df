"""Along which axis a result has rows of which only some count, given those of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Elementwise, Op
from cannery.ops.concat.op import Concat
from cannery.ops.indexing.gather import Gather, GatherND
from cannery.ops.matmul.op import MatMul
from cannery.ops.movement.op import Cast, Identity, Reshape, Slice, Transpose
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.ordering.extremes import ArgMax, ArgMin, Hardmax, TopK
from cannery.ops.reduce.op import Reduction
from cannery.ops.scalar.base import Pointwise
from cannery.ops.softmax.op import LogSoftmax, Softmax

#: Operators that keep the shape, but for the size of `axis`, along which they work.
_ALONG = (Softmax, LogSoftmax, Hardmax, TopK, CumSum, CumProd)

_Shapes = Sequence[tuple[int, ...]]


def axis_of_rows(graph: Graph, node: Node, axes: Mapping[int, int]) -> int | None:
    """The axis of the output's rows; `axes` has that of each input with rows, by its position.

    None if rows are mixed, so that those that do not count would matter.
    """
    shapes = [graph.types[name].shape if name else () for name in node.inputs]
    out = graph.types[node.outputs[0]].shape
    op = node.op
    if isinstance(op, Elementwise | Pointwise):
        return _broadcast(shapes, out, axes)
    if isinstance(op, Concat):
        return _joined(op, len(shapes), axes)
    if isinstance(op, Gather | GatherND):
        return _gathered(op, shapes, axes)
    if axes.keys() != {0}:
        return None
    moved = _moved(op, shapes[0], out, axes[0])
    return _worked(op, shapes, axes[0]) if moved is None else moved


def _moved(op: Op, shape: tuple[int, ...], out: tuple[int, ...], rows: int) -> int | None:
    """Of a result that only moves elements; the first rows of several are rows, too."""
    if isinstance(op, Identity | Cast):
        return rows
    if isinstance(op, Transpose):
        return op.perm.index(rows)
    if isinstance(op, Slice):
        return rows if (op.starts[rows], op.steps[rows]) == (0, 1) else None
    if isinstance(op, Reshape):
        size, before = shape[rows], prod(shape[:rows])
        fits = (k for k, d in enumerate(out) if d == size and prod(out[:k]) == before)
        return next(fits, None)
    return None


def _worked(op: Op, shapes: _Shapes, rows: int) -> int | None:
    """Of an operator that works along other axes."""
    if isinstance(op, _ALONG):
        return None if op.axis == rows else rows
    if isinstance(op, LayerNormalization):
        return None if rows in op.axes else rows
    if isinstance(op, MatMul):
        free = not op.transpose_a and (rows == len(shapes[0]) - 2 or len(shapes[1]) == 2)
        return rows if free and rows < len(shapes[0]) - 1 else None
    if isinstance(op, Reduction):
        return _without(op.axes, op.keepdims, rows)
    if isinstance(op, ArgMax | ArgMin):
        return _without((op.axis,), op.keepdims, rows)
    return None


def _without(axes: Sequence[int], keepdims: bool, rows: int) -> int | None:
    """The axis of rows where `axes` are reduced."""
    if rows in axes:
        return None
    return rows if keepdims else rows - sum(axis < rows for axis in axes)


def _gathered(op: Gather | GatherND, shapes: _Shapes, axes: Mapping[int, int]) -> int | None:
    """Rows of indices become rows of elements; of rows, the same elements may be taken."""
    if isinstance(op, GatherND):
        known = axes.keys() == {1} and op.batch_dims <= axes[1] < len(shapes[1]) - 1
        return axes[1] if known else None
    if axes.keys() == {1}:
        return op.axis + axes[1]
    if axes.keys() == {0} and axes[0] != op.axis:
        return axes[0] if axes[0] < op.axis else axes[0] - 1 + len(shapes[1])
    return None


def _joined(op: Concat, count: int, axes: Mapping[int, int]) -> int | None:
    """Rows side by side: of each input, along one axis."""
    found = set(axes.values())
    return found.pop() if len(axes) == count and len(found) == 1 and op.axis not in found else None


def _broadcast(shapes: _Shapes, out: tuple[int, ...], axes: Mapping[int, int]) -> int | None:
    """The axis of the result of elements that broadcast: rows meet rows, or one for all."""
    found = {len(out) - len(shapes[i]) + axis for i, axis in axes.items()}
    if len(found) > 1:
        return None
    (axis,) = found
    for i, shape in enumerate(shapes):
        own = axis - (len(out) - len(shape))
        if i not in axes and own >= 0 and shape[own] != 1:
            return None
    return axis
