"""Sizes and lifetimes in, offsets out; nothing else.

Greedy by size: the largest first, each at the lowest offset that is free during its whole life
(Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, section 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Every offset is a multiple of this: the widest vector.
ALIGNMENT = 64


@dataclass(frozen=True)
class Block:
    """`bytes` of memory that live from step `first` to step `last`, both included."""

    name: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets by name, the size of all, and the largest sum of what lives at once."""

    offsets: dict[str, int]
    bytes: int
    lower_bound: int


def align(size: int) -> int:
    """The next multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan_memory(blocks: Sequence[Block]) -> MemoryPlan:
    """Place blocks so that no two that live at the same step overlap."""
    placed: list[tuple[int, int, Block]] = []
    offsets: dict[str, int] = {}
    for block in sorted(blocks, key=lambda b: (-b.bytes, b.first, b.name)):
        busy = sorted(
            (start, end)
            for start, end, other in placed
            if other.first <= block.last and block.first <= other.last
        )
        size, at = align(block.bytes), 0
        for start, end in busy:
            if at + size <= start:
                break
            at = max(at, end)
        placed.append((at, at + size, block))
        offsets[block.name] = at
    steps = {b.first for b in blocks} | {b.last for b in blocks}
    alive = (sum(align(b.bytes) for b in blocks if b.first <= s <= b.last) for s in steps)
    total = max((end for _, end, _ in placed), default=0)
    return MemoryPlan(offsets, total, max(alive, default=0))
