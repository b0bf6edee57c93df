"""Tiles of dot products with the reduction in the lanes; `dots.c.j2` has their code.

A tile is MR rows times NC columns with one accumulator each, or `split` accumulators that take
turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cannery.ops.shared import gemm
from cannery.ops.shared.lanes import Vec
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Dots:
    """Tunables of such a schedule: one width, MR x NC, sets, and vectors in line."""

    lanes: int
    mr: int
    nc: int
    split: int
    unroll: int


def make_tiles(
    tiles: Iterable[tuple[int, int, int]], isa: Isa, k: int, rows: int, columns: int
) -> list[Dots]:
    """(MR, NC, sets) limited to what exists, for all widths and sums of `k` terms, without
    repeats.
    """
    found: dict[Dots, None] = {}
    for lanes in gemm.widths(k, isa):
        vectors = -(-k // lanes)
        for mr, nc, split in tiles:
            sets = min(split, vectors)
            found[Dots(lanes, min(mr, rows), min(nc, columns), sets, max(2, sets))] = None
    return list(found)


def accumulator(m: int, n: int, set_: int) -> str:
    """The name of a sum: row m, column n, and the number of its set."""
    return f"a{m}_{n}" + (f"s{set_}" if set_ else "")


def walk(k: int, dots: Dots) -> tuple[int, list[tuple[int, int]]]:
    """(iterations of the loop, the rest as (offset, valid lanes)); a single pass needs no loop."""
    passes = k // (dots.unroll * dots.lanes)
    looped = passes * dots.unroll * dots.lanes if passes > 1 else 0
    left = k - looped
    return passes, [(at, min(dots.lanes, left - at)) for at in range(0, left, dots.lanes)]


def columns(nc: int, lanes: int) -> Sequence[Vec]:
    """Columns of a tile as vectors of four sums; a single column stands alone."""
    if lanes < 4:
        return [Vec(k, 1, 1, k) for k in range(nc)]
    fours = [Vec(k, 4, min(4, nc - k), k) for k in range(0, nc, 4)]
    return [Vec(v.start, 1, 1, v.packed) if v.valid == 1 else v for v in fours]


def sum_cycles(dots: Dots, mr: int, nc: int, isa: Isa) -> float:
    """Cycles of adding up a tile's accumulators over sets and lanes.

    Without renamed registers, each of these steps takes as long as its latency.
    """
    folds = max(dots.lanes // 4, 1).bit_length() - 1
    cycles = mr * nc * (0.75 * (dots.split - 1) + folds + 2.0) + 6.0
    return cycles * isa.rates(dots.lanes).latency if isa.core.product_held else cycles
