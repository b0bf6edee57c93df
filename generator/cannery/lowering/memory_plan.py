"""Sizes and lifetimes in, offsets out; nothing else.

It is greedy by size: the largest first, each at the lowest offset that is free during its whole
life (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, section
5.2). Where that takes more than what is alive at once, blocks that end highest come first in turn,
as long as that helps or until they fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

#: Orders that are tried where the first one wastes memory, and blocks that are not too many for
#: that.
MAX_TRIES, MAX_BLOCKS = 100, 300

#: Every offset is a multiple of this: the widest vector.
ALIGNMENT = 64


@dataclass(frozen=True)
class Allocation:
    """`bytes` of memory that live from step `first` through step `last`."""

    name: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets by name, the total size, and the largest sum of blocks alive at once."""

    offsets: dict[str, int]
    bytes: int
    lower_bound: int


def align(size: int) -> int:
    """The next multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan_memory(blocks: Sequence[Allocation], fixed: Mapping[str, int] | None = None) -> MemoryPlan:
    """Place blocks so that no two that live at the same step overlap.

    Blocks with `fixed` offsets, none of which overlap, stay there.
    """
    order = sorted(blocks, key=lambda b: (-b.bytes, b.first, b.name))
    least = most_alive(blocks)
    best = plan = _placed_in(order, least, fixed or {})
    tries = MAX_TRIES if len(order) <= MAX_BLOCKS else 0
    seen = {_names(order)}
    while tries and best.bytes > least:
        order = _highest_first(order, plan.offsets)
        if _names(order) in seen:
            break
        seen.add(_names(order))
        plan, tries = _placed_in(order, least, fixed or {}), tries - 1
        best = min(best, plan, key=lambda each: each.bytes)
    return best


def _names(order: Sequence[Allocation]) -> tuple[str, ...]:
    return tuple(block.name for block in order)


def _placed_in(order: Sequence[Allocation], least: int, fixed: Mapping[str, int]) -> MemoryPlan:
    """Each block in turn at the lowest offset that is free during its whole life, after those whose
    offsets are `fixed`.
    """
    placed = _Placed(len(order))
    offsets: dict[str, int] = {}
    for block in sorted(order, key=lambda block: block.name not in fixed):
        at = fixed[block.name] if block.name in fixed else placed.free(block)
        placed.add(block, at)
        offsets[block.name] = at
    return MemoryPlan(offsets, placed.end, least)


def _highest_first(order: Sequence[Allocation], offsets: Mapping[str, int]) -> list[Allocation]:
    """The same order, except that the blocks that end highest come first."""
    ends = [offsets[block.name] + align(block.bytes) for block in order]
    top = max(ends)
    return [
        *(block for block, end in zip(order, ends, strict=True) if end == top),
        *(block for block, end in zip(order, ends, strict=True) if end < top),
    ]


class _Placed:
    """Placed blocks, ordered by offset, in arrays: thousands may live at once."""

    def __init__(self, count: int) -> None:
        self.end = 0
        self._count = 0
        #: Begin and end in memory, first and last step.
        self._rows = np.zeros((4, count), np.int64)

    def free(self, block: Allocation) -> int:
        """The lowest offset that is free during the whole life of a block."""
        start, end, first, last = self._rows[:, : self._count]
        busy = (first <= block.last) & (block.first <= last)
        starts, below = start[busy], np.maximum.accumulate(end[busy])
        before = np.concatenate([[0], below])
        fits = before[:-1] + align(block.bytes) <= starts
        return int(before[np.argmax(fits) if fits.any() else len(starts)])

    def add(self, block: Allocation, at: int) -> None:
        """Record the place of a block."""
        rows, end = self._rows, at + align(block.bytes)
        k = int(np.searchsorted(rows[0, : self._count], at))
        rows[:, k + 1 : self._count + 1] = rows[:, k : self._count].copy()
        rows[:, k] = at, end, block.first, block.last
        self._count += 1
        self.end = max(self.end, end)


def most_alive(blocks: Sequence[Allocation]) -> int:
    """The largest sum of blocks alive at one step."""
    change: dict[int, int] = {}
    for block in blocks:
        change[block.first] = change.get(block.first, 0) + align(block.bytes)
        change[block.last + 1] = change.get(block.last + 1, 0) - align(block.bytes)
    return max(accumulate(change[step] for step in sorted(change)), default=0)
