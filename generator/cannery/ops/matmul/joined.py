"""Matrix products for instruction sets that do not promise vectors, on 64-bit processors.

These processors have vectors all the same, and compilers turn scalar sums into vectors if the code
has the right form: whole groups of four neighbouring columns, one loop over k, and no branches
between the sums and their stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from cannery.ops.shared.gemm import Gemm, VectorBlock
from cannery.ops.shared.lanes import Vec
from cannery.schedule.cost import tile_cycles
from cannery.target.isa import Isa

#: Scalars per vector.
JOINED = 4

#: Tiles of a single row: (NR scalars, sets of accumulators).
SINGLE_ROW = ((32, 1), (24, 1), (16, 2), (16, 1), (12, 2), (8, 4), (8, 2), (4, 8), (4, 4))

#: Tiles of several rows: (MR rows, NR scalars).
TILES = ((4, 8), (2, 16), (3, 12), (2, 12), (2, 8), (3, 8), (6, 4), (4, 4), (1, 16), (1, 8))

#: Most joined sums of a tile: some registers are left for weights and inputs.
ROOM = 12


def can_join(isa: Isa, columns: int) -> bool:
    """Whether such tiles are worth trying."""
    return isa.joins_scalars and columns >= JOINED


def tiles(rows: int, columns: int) -> list[tuple[int, int, int]]:
    """(MR, NR, sets of accumulators): all that are no wider than the columns."""
    if rows == 1:
        return [(1, min(nr, columns), split) for nr, split in SINGLE_ROW]
    return [(mr, nr, 1) for mr, nr in with_sets(1, columns)]


def with_sets(split: int, columns: int) -> list[tuple[int, int]]:
    """(MR, NR) for several rows where each sum takes `split` accumulators."""
    fits = [(mr, nr) for mr, nr in TILES if mr * nr * split <= ROOM * JOINED]
    return [(mr, min(nr, columns)) for mr, nr in fits or [(1, JOINED)]]


def blocks(columns: int, nr: int, k: int) -> tuple[VectorBlock, ...]:
    """Columns in blocks of `nr` scalars, then the rest: even blocks would break up the groups of
    four.
    """
    full, rest = divmod(columns, nr)
    found = [_block(0, nr, full, k)] if full else []
    return (*found, _block(full * nr, rest, 1, k)) if rest else tuple(found)


def _block(first: int, size: int, count: int, k: int) -> VectorBlock:
    return VectorBlock(tuple(Vec(i, 1, 1, i) for i in range(size)), first, size, first * k, count)


def cycles(
    isa: Isa, g: Gemm, rows: Sequence[tuple[int, int, int]], cut: Sequence[VectorBlock]
) -> float:
    """Estimated cycles of all tiles: rows as from `balanced`. An input takes one more shuffle."""
    total = 0.0
    split = min(g.split, g.k)
    for mr, count, _ in rows:
        for block in cut:
            n = sum(divmod(len(block.vecs), JOINED))
            update = tile_cycles(isa, mr, n * split, mr + n * split, g.k / split, mr * split)
            update = max(update, isa.core.chain_gap * isa.rates().latency * g.k / split)
            finish = mr * n * (3.0 + 0.5 * split) + 8.0
            total += count * block.count * (update + 2.0 * g.k / g.unroll + finish)
    return total
