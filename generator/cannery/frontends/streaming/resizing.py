"""Resampling along time by a whole number, or the inverse of one: what it becomes for a call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.errors import UnsupportedError
from cannery.frontends.streaming.past import Builder
from cannery.frontends.streaming.stream import Stream, Window
from cannery.ir.graph import Node
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Add, Mul
from cannery.ops.logic.compare import Where
from cannery.ops.movement.op import Identity, Slice
from cannery.ops.resize.interpolate import Interpolate
from cannery.ops.resize.op import Resize

_DIFFERENT = "it takes values between steps, which differ from step to step"


def resize(b: Builder, node: Node, source: Stream) -> Stream | None:
    """Elements repeated, or those between neighbours, in the same way after each element."""
    op = node.op
    assert isinstance(op, Resize) and source.time is not None
    k = source.time - 1
    if not 0 <= k < len(op.sizes):
        return None
    value, source = b.begun(node.inputs[0], source)
    size = b.graph.types[node.inputs[0]].shape[source.time or 0]
    if op.sizes[k] == size:
        b.add(replace(node, op=_sized(op, k, source.count, 1), inputs=(value,)))
        return source
    if op.sizes[k] < size:
        return _fewer(b, node, value, source)
    times = op.sizes[k] // size
    reach = _neighbours(op, k, size, source.count)
    if reach.back + reach.front == 0:
        b.add(replace(node, op=_sized(op, k, source.count, times), inputs=(value,)))
        return replace(source, count=source.count * times, delay=source.delay * times)
    return _between(b, node, value, source, reach)


def _fewer(b: Builder, node: Node, value: str, source: Stream) -> Stream:
    """One of some elements, or what is between two neighbours, in the same way of each group."""
    op: Any = node.op
    axis = source.time
    assert axis is not None
    k = axis - 1
    size = b.graph.types[node.inputs[0]].shape[axis]
    by = size // op.sizes[k]
    found = {(s.low - i * by, s.high - s.low, round(s.weight, 12))
             for i, s in enumerate(op.samples(k, size))}  # fmt: skip
    if size % op.sizes[k] or len(found) > 1 or size // by < 2:
        raise UnsupportedError(_DIFFERENT)
    ((first, apart, weight),) = found
    across = b.op(_sized(op, k, source.count, 1), f"{node.name}/across", value)
    window = Window(1 + (apart if weight else 0), by, 1, -first)
    read, result = b.windowed(across, source, window, 0.0)

    def every(start: int) -> str:
        shape = b.types[read].shape
        starts, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[axis], steps[axis] = start, by
        ends[axis] = start + (result.count - 1) * by + 1
        return b.op(Slice(*map(tuple, (starts, ends, steps))), f"{node.name}/{start}", read)

    low = every(0)
    if weight:
        low = b.op(Mul(), f"{node.name}/low", low, b.scalar(1.0 - weight))
        high = b.op(Mul(), f"{node.name}/high", every(apart), b.scalar(weight))
        b.add(Node(Add(), node.name, (low, high), node.outputs))
    else:
        b.add(Node(Identity(), node.name, (low,), node.outputs))
    return result


@dataclass(frozen=True)
class _Reach:
    """Whether what comes after an element reads the one before it, and the next one."""

    back: int
    front: int


def _sized(op: Resize, k: int, count: int, times: int) -> Resize:
    """The same for `count` elements along axis `k`."""
    sizes = (*op.sizes[:k], count * times, *op.sizes[k + 1 :])
    scales = op.scales
    if scales:
        scales = (*scales[:k], float(times), *scales[k + 1 :])
    return replace(op, sizes=sizes, scales=scales)


def _neighbours(op: Resize, k: int, size: int, count: int) -> _Reach:
    """What elements read, those at the ends apart, where all of them have the same neighbours.

    Raises UnsupportedError where they do not, in the sequence or in a call.
    """
    times = op.sizes[k] // size
    if op.sizes[k] % size or size < 3:
        raise UnsupportedError(_DIFFERENT)
    found = [_offsets(op, k, size, i) for i in range(1, size - 1)]
    short = _sized(op, k, count + 2, times)
    found += [_offsets(short, k, count + 2, i) for i in range(1, count + 1)]
    if any(other != found[0] for other in found):
        raise UnsupportedError(_DIFFERENT)
    read = {d for low, high, weight in found[0] for d in ((low, high) if weight else (low,))}
    if not read <= {-1, 0, 1}:
        raise UnsupportedError("it takes values of steps further away")
    return _Reach(int(-1 in read), int(1 in read))


def _offsets(op: Resize, k: int, size: int, i: int) -> list[tuple[int, int, float]]:
    """What the results after element `i` read, by their distance to it."""
    times = op.sizes[k] // size
    table = op.samples(k, size)[i * times : (i + 1) * times]
    return [(at.low - i, at.high - i, round(at.weight, 12)) for at in table]


def _between(b: Builder, node: Node, value: str, source: Stream, reach: _Reach) -> Stream:
    """The elements of a call with their neighbours, resampled; the ends are left out."""
    op: Any = node.op
    axis = source.time
    assert axis is not None
    k, count = axis - 1, source.count
    times = op.sizes[k] // b.graph.types[node.inputs[0]].shape[axis]
    late = source.delay + reach.front
    length = reach.back + count + reach.front
    found = b.past(value, source, reach.back + reach.front, 0.0)
    if reach.back:  # the element before the first one counts as the first
        shape = (length, *[1] * (b.types[found].rank - axis - 1))
        early = b.early(late + reach.back, source, shape)
        rest, last = b.cut(found, axis, 1, length), b.cut(found, axis, length - 1, length)
        after = b.op(Concat(axis), f"{node.name}/after", rest, last)
        found = b.op(Where(), f"{node.name}/begun", early, after, found)
    wide = b.op(_sized(op, k, length, times), f"{node.name}/wide", found)
    first = reach.back * times
    b.cut_for(node, wide, axis, first, first + count * times)
    return replace(source, count=count * times, delay=late * times, lead=None)


def interpolate(b: Builder, node: Node, source: Stream) -> Stream | None:
    """Sums of weighted neighbours, in the same way for each element; those before the first one
    count as the first.
    """
    op = node.op
    assert isinstance(op, Interpolate)
    if op.axis != source.time:
        return None
    same = _alike(b, node, op.axis)
    value, source = b.begun(node.inputs[0], source)
    copies = max(0, -int(same.offsets.min()))
    padded = replace(source, delay=source.delay - copies, copies=copies)
    window = Window(copies + max(0, int(same.offsets.max())) + 1, same.by)
    read, result = b.windowed(value, padded, window, 0.0)
    first = same.by * np.arange(result.count)[:, None, None] + copies
    places = (first + same.offsets).reshape(-1, same.offsets.shape[1])
    tables = (
        b.constant(f"{node.name}/places", places.astype(np.int32)),
        b.constant(f"{node.name}/weights", np.tile(same.weights, (result.count, 1))),
    )
    b.add(replace(node, inputs=(read, *tables)))
    times = len(same.offsets)
    return replace(result, count=result.count * times, delay=result.delay * times)


@dataclass(frozen=True)
class _Alike:
    """Of every `by` elements some results, which read the elements at `offsets` from the first."""

    by: int
    offsets: NDArray[np.int64]
    weights: NDArray[np.float32]


def _alike(b: Builder, node: Node, axis: int) -> _Alike:
    """Raises UnsupportedError unless all elements have the same neighbours and weights."""
    places, weights = (b.graph.constants.get(v) for v in node.inputs[1:])
    size = b.graph.types[node.inputs[0]].shape[axis]
    if places is None or weights is None:
        raise UnsupportedError(_DIFFERENT)
    made, taps = places.shape
    if (made % size and size % made) or not made:
        raise UnsupportedError(_DIFFERENT)
    groups = min(made, size)
    by, firsts = size // groups, size // groups * np.arange(groups)[:, None, None]
    known = weights.reshape(groups, -1, taps)
    within = groups // 2
    used = known[within] != 0  # what has no weight need not be there
    offsets = np.where(used, places.reshape(known.shape)[within] - within * by, 0)
    inside = within * by + offsets.min() > 0 and within * by + offsets.max() < size - 1
    read = np.clip(firsts + offsets, 0, size - 1) == places.reshape(known.shape)
    if not (inside and (known == known[within]).all() and (read | ~used).all()):
        raise UnsupportedError(_DIFFERENT)
    return _Alike(by, offsets.astype(np.int64), known[within].astype(np.float32))
