"""Strides of a value's own axes, batch included, and loop nests over them.

Operators without a notion of images (matrix products, reductions, softmax over any axis) walk
values of any rank through this module: every affine layout is one stride per axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from cannery.ctext.environment import offset
from cannery.ir.tensor import TensorType
from cannery.layouts import Layout


@dataclass(frozen=True)
class Loop:
    """One loop of a nest: its extent, and the stride of each operand in elements.

    `channel` marks the loop over channels, whose index per-channel operands need.
    """

    extent: int
    strides: tuple[int, ...]
    channel: bool = False


def axis_strides(type_: TensorType, layout: Layout) -> tuple[int, ...]:
    """Distance between neighbours along each axis of a value in an affine layout.

    The counterpart of `image_dims`: rank 3 is one row, rank 2 one pixel, more than four axes fold
    into the columns.
    """
    shape = type_.shape
    if len(shape) < 2:
        return (layout.channel,) * len(shape)
    if len(shape) == 4:
        return (layout.elements, layout.row, layout.col, layout.channel)
    middle = (layout.col * prod(shape[k + 1 : -1]) for k in range(1, len(shape) - 1))
    return (layout.elements, *middle, layout.channel)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a C array of that shape."""
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def broadcast_strides(shape: Sequence[int], strides: Sequence[int], rank: int) -> tuple[int, ...]:
    """Strides over a broadcast shape of `rank` axes: 0 where the operand has size 1 or no such
    axis.
    """
    own = tuple(0 if d == 1 else s for d, s in zip(shape, strides, strict=True))
    return (0,) * (rank - len(own)) + own


def merge_loops(loops: Sequence[Loop]) -> list[Loop]:
    """The same nest without loops of one pass; neighbouring loops are joined where all strides
    agree.

    A channel loop stays as it is.
    """
    merged: list[Loop] = []
    for loop in loops:
        if loop.extent == 1 and not loop.channel:
            continue
        if merged and _joins(merged[-1], loop):
            merged[-1] = Loop(merged[-1].extent * loop.extent, loop.strides)
        else:
            merged.append(loop)
    return merged


def _joins(outer: Loop, inner: Loop) -> bool:
    if outer.channel or inner.channel:
        return False
    pairs = zip(outer.strides, inner.strides, strict=True)
    return all(a == b * inner.extent for a, b in pairs)


def nested_pointer(base: str, origin: int, loops: Sequence[Loop], operand: int) -> str:
    """`x + 12 + i0 * 64`: the place in one operand at loop indices i0, i1, ..."""
    text = base + offset(origin)
    for number, loop in enumerate(loops):
        if loop.strides[operand]:
            text += f" + i{number} * {loop.strides[operand]}"
    return text


def even_size(total: int, most: int) -> int:
    """The size of the largest group, when `total` items form as few, about equal groups as `most`
    allows.
    """
    return -(-total // -(-total // most))


def balanced(total: int, size: int) -> list[tuple[int, int, int]]:
    """`total` items in as few groups as `size` allows, as even as possible.

    (items per group, groups, first item), the larger groups first.
    """
    if total <= 0:
        return []
    groups = -(-total // size)
    small, larger = divmod(total, groups)
    found = [(small + 1, larger, 0)] if larger else []
    if groups > larger:
        found.append((small, groups - larger, larger * (small + 1)))
    return found
