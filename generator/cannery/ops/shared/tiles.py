"""Loops over pixels and channels: full tiles first, then the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cannery.ops.shared.lanes import Vec, VecLoop
from cannery.target.isa import Isa

#: What loading and storing a partial vector costs without masks, in full vectors.
PARTIAL_COST = 2.5


@dataclass(frozen=True)
class Tile:
    """`count` neighbouring tiles of `pixels` output pixels, the first at pixel `start`."""

    start: int
    pixels: int
    count: int


def pixel_tiles(start: int, count: int, pixels: int) -> list[Tile]:
    """`count` pixels from `start` on as full tiles, then the rest as one smaller tile."""
    full, rest = divmod(count, pixels)
    tiles = [Tile(start, pixels, full)] if full else []
    return tiles + ([Tile(start + full * pixels, rest, 1)] if rest else [])


def room_to_hold(isa: Isa) -> int:
    """Registers that a tile may take for vectors to be forced into them that it multiplies several
    times; 0: none are forced.

    Otherwise gcc makes them memory operands of every multiply-add, and loads limit the speed.
    Without FMA, additions limit it anyway.
    """
    return isa.registers if isa.family == "x86" and isa.has("fma") else 0


def vector_count(vectors: Sequence[Vec], isa: Isa) -> float:
    """The number of vectors, for cost models: partial ones cost more where there are no masks."""
    partial = 1.0 if isa.has("masks") else PARTIAL_COST
    return sum(1.0 if vec.full else partial for vec in vectors)


@dataclass(frozen=True)
class Unrolled:
    """`count` iterations of a loop over `times` neighbouring vectors like `vec`, which is the
    first.
    """

    vec: Vec
    count: int
    times: int


def unroll(loops: Sequence[VecLoop], times: int) -> list[Unrolled]:
    """Loops with `times` vectors per iteration, and the rest in line."""
    found: list[Unrolled] = []
    for loop in loops:
        full, rest = divmod(loop.count, times)
        if full:
            found.append(Unrolled(loop.vec, full, times))
        if rest:
            start = loop.vec.start + full * times * loop.vec.lanes
            found.append(Unrolled(replace(loop.vec, start=start), 1, rest))
    return found


def cover(start: int, count: int, isa: Isa, widest: int, *, narrow: bool = False) -> list[VecLoop]:
    """Pixels of a row as full vectors only; the last one may overlap its neighbour.

    Overlapping lanes are computed twice, with the same result. Rows shorter than a vector take
    narrower ones; so does the last vector if it may be `narrow`.
    """
    loops: list[VecLoop] = []
    lanes = max(w for w in isa.lanes if w <= min(widest, max(count, 1)))
    full, rest = divmod(count, lanes)
    if full:
        loops.append(VecLoop(Vec(start, lanes, lanes, 0), full))
    if rest:
        if narrow:
            lanes = min(w for w in isa.lanes if w >= min(rest, lanes) and (w >= 4 or w == lanes))
        loops.append(VecLoop(Vec(start + count - lanes, lanes, lanes, 0), 1))
    return loops


def tile_registers(rows: int, groups: Sequence[Sequence[Vec]]) -> int:
    """Vectors alive in a register tile of `rows` x the largest group of vectors: the accumulators,
    one row of the other operand, and one element of this one.
    """
    vectors = max(map(len, groups))
    return rows * vectors + vectors + 1


def widths(count: int, isa: Isa) -> list[int]:
    """The two widest vectors, widest first, that are less than half empty with `count` elements."""
    fitting = [w for w in isa.lanes if w == 1 or w < 2 * count]
    return fitting[-2:][::-1] if fitting[-1] > 4 else fitting[-1:]
