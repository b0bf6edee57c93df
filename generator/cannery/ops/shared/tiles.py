"""Loops over pixels and channels: full tiles first, then what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ops.shared.lanes import Vec
from cannery.target.isa import Isa

#: What loading and storing a partial vector costs, in full ones, without masks.
PARTIAL_COST = 2.5


@dataclass(frozen=True)
class Tile:
    """`count` neighbouring tiles of `pixels` output pixels, the first at pixel `start`."""

    start: int
    pixels: int
    count: int


@dataclass(frozen=True)
class VecLoop:
    """`count` neighbouring vectors like `vec`, the first one."""

    vec: Vec
    count: int


def pixel_tiles(start: int, count: int, pixels: int) -> list[Tile]:
    """`count` pixels from `start` on as full tiles, then the rest as one smaller tile."""
    full, rest = divmod(count, pixels)
    tiles = [Tile(start, pixels, full)] if full else []
    return tiles + ([Tile(start + full * pixels, rest, 1)] if rest else [])


def vector_loops(vectors: Sequence[Vec]) -> list[VecLoop]:
    """Neighbouring full vectors of one width become one loop."""
    loops: list[VecLoop] = []
    for vec in vectors:
        if loops and loops[-1].vec.lanes == vec.lanes and loops[-1].vec.full and vec.full:
            loops[-1] = VecLoop(loops[-1].vec, loops[-1].count + 1)
        else:
            loops.append(VecLoop(vec, 1))
    return loops


def vector_count(vectors: Sequence[Vec], isa: Isa) -> float:
    """The number of vectors, for cost models: partial ones cost more where there are no masks."""
    partial = 1.0 if isa.has("masks") else PARTIAL_COST
    return sum(1.0 if vec.full else partial for vec in vectors)


def cover(start: int, count: int, isa: Isa, widest: int) -> list[VecLoop]:
    """Pixels of a row as full vectors only; the last one may overlap its neighbour.

    Overlapping lanes are computed twice, alike. Rows shorter than a vector take narrower ones.
    """
    loops: list[VecLoop] = []
    lanes = max(w for w in isa.lanes if w <= min(widest, max(count, 1)))
    full, rest = divmod(count, lanes)
    if full:
        loops.append(VecLoop(Vec(start, lanes, lanes, 0), full))
    if rest:
        loops.append(VecLoop(Vec(start + count - lanes, lanes, lanes, 0), 1))
    return loops


def widths(count: int, isa: Isa) -> list[int]:
    """The two widest vectors, widest first, that are less than half empty with `count` elements."""
    fitting = [w for w in isa.lanes if w == 1 or w < 2 * count]
    return fitting[-2:][::-1] if fitting[-1] > 4 else fitting[-1:]
