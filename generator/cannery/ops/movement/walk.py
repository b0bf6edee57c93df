"""How the elements of a dense output map to those of each operand: one Axis per output axis.

Transposing, slicing, padding, repeating, resizing to the nearest and broadcasting are all sums of
one term per output axis: index * stride if affine, else a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cannery.ir.graph import Graph, Node
from cannery.ops.movement.op import Cast, Expand, Identity, Pad, Slice, Transpose
from cannery.ops.resize.op import Resize
from cannery.ops.shared.axes import broadcast_strides, dense_strides


@dataclass(frozen=True)
class Axis:
    """The operand's offset for each index of an output axis: `stride * index`, or `table[index]`.

    Elements first <= index < last exist; the others are the operand's fill value.
    """

    stride: int
    table: tuple[int, ...] = ()
    first: int = 0
    last: int = -1


@dataclass(frozen=True)
class Walk:
    """An operand: the offset of its first element, then one Axis per output axis."""

    origin: int
    axes: tuple[Axis, ...]

    @property
    def partial(self) -> bool:
        """Whether some output elements have no source."""
        return any(axis.last >= 0 for axis in self.axes)


def broadcast(source: Sequence[int], target: Sequence[int]) -> Walk:
    """Broadcasting, as in numpy, of a dense operand to the output's shape."""
    strides = broadcast_strides(source, dense_strides(source), len(target))
    return Walk(0, tuple(map(Axis, strides)))


def movement(graph: Graph, node: Node) -> Walk | None:
    """The walk over the only input of a node that moves elements; None for other nodes."""
    op = node.op
    source = graph.types[node.inputs[0]].shape
    target = graph.types[node.output].shape
    strides = dense_strides(source)
    if isinstance(op, (Identity, Cast)):
        return Walk(0, tuple(Axis(s) for s in strides))
    if isinstance(op, Transpose):
        return Walk(0, tuple(Axis(strides[p]) for p in op.perm))
    if isinstance(op, Expand):
        return broadcast(source, target)
    if isinstance(op, Slice):
        origin = sum(a * s for a, s in zip(op.starts, strides, strict=True))
        return Walk(origin, tuple(Axis(s * k) for s, k in zip(strides, op.steps, strict=True)))
    if isinstance(op, Pad):
        return _pad(op, source, strides)
    if isinstance(op, Resize) and op.mode == "nearest":
        return _nearest(op, source, strides)
    return None


def _pad(op: Pad, source: Sequence[int], strides: Sequence[int]) -> Walk:
    axes = []
    origin = 0
    for size, stride, (begin, end) in zip(source, strides, op.pads, strict=True):
        if op.mode == "constant":
            origin -= begin * stride
            inner = (begin, begin + size) if begin or end else (0, -1)
            axes.append(Axis(stride, (), *inner))
            continue
        indices = range(-begin, size + end)
        axes.append(Axis(0, tuple(_inside(k, size, op.mode) * stride for k in indices)))
    return Walk(origin, tuple(axes))


def _inside(index: int, size: int, mode: str) -> int:
    """The element at a padded index: the nearest (edge), or mirrored without the edge."""
    if mode == "edge":
        return min(max(index, 0), size - 1)
    if size == 1:
        return 0
    period = 2 * (size - 1)
    index %= period
    return min(index, period - index)


def _nearest(op: Resize, source: Sequence[int], strides: Sequence[int]) -> Walk:
    axes = [Axis(strides[0])]
    for axis, (size, stride) in enumerate(zip(source[1:-1], strides[1:-1], strict=True)):
        picked = tuple(sample.low * stride for sample in op.samples(axis, size))
        axes.append(Axis(0, picked))
    return Walk(0, (*axes, Axis(1)))


@dataclass(frozen=True)
class WalkLoop:
    """One loop over the output: its extent, and for each operand the Axis it moves along."""

    extent: int
    axes: tuple[Axis, ...]


def loops(shape: Sequence[int], walks: Sequence[Walk]) -> list[WalkLoop]:
    """Loops from the outermost to the innermost; axes contiguous for every operand form one loop.

    The innermost loop always exists, with extent 1 if need be.
    """
    merged: list[WalkLoop] = []
    for k, extent in enumerate(shape):
        loop = WalkLoop(extent, tuple(walk.axes[k] for walk in walks))
        plain = all(not a.table and a.last < 0 for a in loop.axes)
        if extent == 1 and plain:
            continue
        if merged and plain and _contiguous(merged[-1], loop):
            merged[-1] = _merged(merged[-1], loop)
        else:
            merged.append(loop)
    return merged or [WalkLoop(1, tuple(Axis(0) for _ in walks))]


def _contiguous(outer: WalkLoop, inner: WalkLoop) -> bool:
    return all(
        not a.table and a.stride == b.stride * inner.extent
        for a, b in zip(outer.axes, inner.axes, strict=True)
    )


def _merged(outer: WalkLoop, inner: WalkLoop) -> WalkLoop:
    """One loop for two; the elements that exist along the outer axes become runs of inner ones."""
    axes = [
        replace(b, first=a.first * inner.extent, last=a.last * inner.extent) if a.last >= 0 else b
        for a, b in zip(outer.axes, inner.axes, strict=True)
    ]
    return WalkLoop(outer.extent * inner.extent, tuple(axes))
