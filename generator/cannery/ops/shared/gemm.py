"""Matrix products C[M,N] = A[M,K] B[K,N] with N in the lanes: blocks, packing, register tiles.

A block is NR neighbouring vectors of columns. B is packed as [block][k][lanes of the block], so
that a tile reads it in one stream. A tile is MR rows x one block of accumulators that stay in
registers over all of k: the rank-1 update of Goto & van de Geijn, "Anatomy of High-Performance
Matrix Multiplication", 2008. The code is in gemm.c.j2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cannery.contents import put_aside, zeros
from cannery.ctext.environment import offset
from cannery.ir.graph import Graph
from cannery.ops.shared import dual
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.lanes import Cut, Vec
from cannery.ops.shared.sums import Aside, tile_sums
from cannery.schedule.cost import (
    broadcast_work,
    early_inputs,
    reread_cycles,
    scalar_gain,
    tile_cycles,
)
from cannery.target.isa import Isa

#: Tiles (MR rows, NR vectors) by the number of vector registers.
TILES = {
    8: ((2, 2), (1, 3), (3, 2), (1, 4), (3, 1), (4, 1), (6, 1)),
    16: ((6, 2), (4, 3), (4, 2), (2, 4), (3, 3), (2, 3), (8, 1), (12, 1), (1, 8)),
    32: (
        (12, 2), (14, 2), (8, 2), (8, 3), (5, 4), (4, 4), (6, 4), (7, 4), (4, 6), (16, 1), (24, 1),
    ),
}  # fmt: skip


#: Vectors of a tile of two rows whose inputs slide.
SLIDING_VECTORS = (3, 4, 5, 6)

#: With fewer inputs, loads and the shuffles at the end take longer than rotating.
LEAST_SLIDING = 12

#: With more vectors of more than four lanes, inputs of a single row are loaded, not rotated.
ROTATED_VECTORS = 4

#: Tiles of a single row: (NR vectors, sets of accumulators).
SINGLE_ROW = (
    (1, 8), (1, 4), (2, 2), (2, 4), (3, 1), (3, 4), (4, 1), (4, 2), (4, 4), (6, 1), (6, 2), (8, 1),
    (8, 2), (12, 1),
)  # fmt: skip

#: What each set of accumulators beyond the first costs a single row, as a fraction of the whole.
TURNS = 0.03

#: Floats of a cache line, and its bytes.
LINE, LINE_BYTES = 16, 64

#: How many bytes ahead weights from far away are prefetched: processors on their own stop at each
#: page.
AHEAD = 4096

#: The same for weights from the second-level cache. Without FMA, the instructions that processors
#: look ahead are those for few lines.
NEAR_AHEAD = 1024

#: How many parts of a block are read side by side where weights come from memory: processors
#: prefetch each separately, a few lines ahead; a core reads four at 1.5 times the rate of one.
STREAMS = 4

#: How much more it costs to re-read rows of A than packed weights: they are short runs, side by
#: side.
ROWS_AGAIN = 3.0


@dataclass(frozen=True)
class VectorBlock:
    """`count` neighbouring groups of vectors of the same shape; a loop over them if count > 1.

    `channel` is the first column, `width` the packed elements per k, `weight` the offset of its
    packed weights.
    """

    vecs: tuple[Vec, ...]
    channel: int
    width: int
    weight: int
    count: int

    @property
    def in_fours(self) -> bool:
        """Whether the weights of each k are whole groups of four scalars, on 16-byte boundaries."""
        return self.weight % 4 == 0 and self.width % 4 == 0

    @property
    def valid(self) -> int:
        """Columns of one group."""
        return sum(v.valid for v in self.vecs)


@dataclass(frozen=True)
class Gemm:
    """How a tile walks its operands; `unroll` steps of k per iteration of the loop.

    `a_row`, `a_k` and `b_k` are strides in elements; b_k == 0: packed blocks. `split` sets of
    accumulators take turns over k and are added at the end, to hide latency. `broadcast`: set1
    (from memory), rotate (four k loaded once, into each four lanes, and rotated there, B stored in
    rotated order: Thielke & Hasselbring, "A JIT Compiler for Neural Network Inference", 2019, eq.
    3), slide (four from each k on, see `conv.direct_oc`), lane (NEON), dual or beside (lane, in an
    order of `dual.py`, which has to know the `registers`). `ahead`: how many bytes after each load
    of packed B are prefetched (0: none), with `near` to the first-level cache.
    `streams`: see `pack_blocks`. `aside`: after how many passes sums are put aside, see `sums` (0:
    never). `once` keeps compilers from loading a vector of B again for each row, see `reloads`; so
    do `turns`, where a tile has two rows of inputs that rotate or slide, and `held` registers, if a
    tile has room in them. `item` are the bytes of an element of B. `beside`: products
    are with scalars, and each vector of B is loaded beside them, as Helium has few registers.
    `word` multiplies and adds: fma, or dot for pairs of bfloat16.
    """

    k: int
    a_row: int
    a_k: int
    b_k: int
    unroll: int
    split: int
    broadcast: str
    ahead: int = 0
    streams: int = 1
    aside: int = 0
    once: bool = False
    turns: bool = False
    near: bool = False
    held: int = 0
    item: int = 4
    registers: int = 0
    beside: bool = False
    word: str = "fma"

    def fours(self, block: VectorBlock, rows: int, n: int) -> list[tuple[int, int]]:
        """The whole fours of `n` steps: the first step, and how many fours are computed at once."""
        found, left = list[tuple[int, int]](), n // dual.LANES
        while left:
            way = "" if self.b_k else self.broadcast
            count = dual.fours_at_once(way, rows, len(block.vecs), self.registers, left)
            found.append((dual.LANES * (n // dual.LANES - left), count))
            left -= count
        return found

    def ordered(self, block: VectorBlock, rows: int, k: int, fours: int) -> list[str]:
        """Statements of `fours` times four steps from k on in the order of `dual.py`; empty if not
        so.
        """
        if self.broadcast not in dual.ORDERS or self.b_k:
            return []
        steps = range(k, k + dual.LANES * fours)
        inputs = [
            [f"ap{offset(m * self.a_row + step)}" for step in steps[:: dual.LANES]]
            for m in range(rows)
        ]
        weights = [
            [f"wp{offset(self._packed(block, step) + v.packed)}" for v in block.vecs]
            for step in steps
        ]

        def sums(p: dual.Product) -> str:
            turn = (k + p.k) % self.split
            return f"a{p.row}_{p.vector}{f's{turn}' if turn else ''}"

        at = dual.addresses(inputs, weights)
        return dual.statements(
            self.broadcast, rows, len(block.vecs), self.registers, at, sums, fours
        )

    def loaded_once(self, block: VectorBlock, rows: int) -> bool:
        """Whether the vectors of B are kept from being loaded again for each row."""
        vectors = len(block.vecs)
        needed = rows * vectors * self.split + vectors + 2
        return rows > 1 and (self.once or needed <= self.held)

    @property
    def loops(self) -> int:
        """Iterations of the loop over k: what slides ends apart."""
        return self.k // self.unroll - (self.broadcast == "slide")

    def sums(self, block: VectorBlock, rows: int) -> Aside:
        """The accumulators of a tile."""
        return tile_sums(block.vecs, rows, self.split)

    def lines(self, block: VectorBlock, k: int) -> list[int]:
        """Where the cache lines to prefetch at step k begin, in elements from wp."""
        if not self.ahead:
            return []
        start, line = self._packed(block, k), LINE_BYTES // self.item
        return list(range(start + -start % line, start + block.width, line))

    def b(self, block: VectorBlock, v: Vec, k: int) -> str:
        """The load of one vector of B, k steps after `wp`."""
        if self.b_k:
            return v.load(f"wp{offset(k * self.b_k + v.start)}")
        word = "load_aligned" if v.lanes == 4 else "load"
        return f"{v.t}_{word}(wp{offset(self._packed(block, k) + v.packed)})"

    def b_steps(self, block: VectorBlock, n: int) -> int:
        """The distance of `n` steps of k in B; whole rounds over the streams."""
        return n * (self.b_k or block.width) // self.streams

    def _packed(self, block: VectorBlock, k: int) -> int:
        """Where the row of packed B begins that is k steps after `wp`."""
        stream = self.k // self.streams * block.width
        return k % self.streams * stream + k // self.streams * block.width


@cache
def make_blocks(
    columns: int, isa: Isa, lanes: int, nr: int, k: int, *, partial: bool = True
) -> tuple[VectorBlock, ...]:
    """Columns cut into vectors no wider than `lanes`, and those into even groups of up to `nr`."""
    vectors = Cut.of(columns, isa, lanes, partial=partial)
    blocks: list[VectorBlock] = []
    weight = 0
    for size, count, first in balanced(len(vectors), nr):
        for at, repeats in _like_groups(vectors, size, count, first):
            group = [vectors[k] for k in range(at, at + size)]
            start, packed = group[0].start, group[0].packed
            vecs = tuple(Vec(v.start - start, v.lanes, v.valid, v.packed - packed) for v in group)
            width = sum(v.lanes for v in group)
            if blocks and blocks[-1].vecs == vecs and all(v.full for v in vecs):
                last = blocks[-1]
                joined = last.count + repeats
                blocks[-1] = VectorBlock(vecs, last.channel, width, last.weight, joined)
            else:
                blocks.append(VectorBlock(vecs, start, width, weight, repeats))
            weight += repeats * width * k
    return tuple(blocks)


def _like_groups(vectors: Cut, size: int, count: int, first: int) -> list[tuple[int, int]]:
    """`count` groups of `size` vectors from `first` on: (first vector, how many of the kind)."""
    like = min(max(vectors.whole - first, 0) // size, count)
    rest = [(first + group * size, 1) for group in range(like, count)]
    return [(first, like), *rest] if like else rest


def pack_blocks(
    b: NDArray[np.float32],
    blocks: Sequence[VectorBlock],
    *,
    rotate: int = 0,
    streams: int = 1,
    slide: bool = False,
) -> NDArray[np.float32]:
    """B[K,N] as [block][k][lanes], zero-padded.

    With several `streams`, which divide K, stream s of a block holds the rows s, s + streams, ...,
    and one stream follows the other.

    `rotate` > 0: tiles take this many k at a time, with rotated inputs. Then lane l at k = 4g+r of
    a full group of four holds the row 4g + (l+r)%4. If they `slide`, lane l at k holds the row k+l,
    where the first ones follow the last full group.
    """
    depth = b.shape[0]
    packed = zeros(depth * sum(block.count * block.width for block in blocks))
    start = 0
    for block in blocks:
        size = depth * block.width
        for number in range(block.count):
            channel = block.channel + number * block.valid
            panel = np.zeros((depth, block.width), np.float32)
            for v in block.vecs:
                source = b[:, channel + v.start : channel + v.start + v.valid]
                panel[:, v.packed : v.packed + v.valid] = source
            panel = _turned(panel, rotate, slide=slide) if rotate else panel
            by_stream = panel.reshape(-1, streams, block.width).transpose(1, 0, 2)
            packed[start : start + size] = by_stream.ravel()
            start += size
            put_aside(packed)
    return packed


def _turned(panel: NDArray[np.float32], depth: int, *, slide: bool) -> NDArray[np.float32]:
    turned: NDArray[np.float32] = panel.copy()
    lane = np.arange(panel.shape[1])
    for first in range(0, panel.shape[0], depth):
        length = min(depth, panel.shape[0] - first) // 4 * 4
        k = np.arange(length)[:, np.newaxis]
        met = (k + lane % 4) % length if slide else k - k % 4 + (k + lane) % 4
        turned[first : first + length] = panel[first + met, lane]
    return turned


def widths(columns: int, isa: Isa) -> list[int]:
    """The vector widths worth trying: the two widest that are at most twice the columns."""
    found = [w for w in isa.lanes if w == 1 or w < 2 * columns]
    if len(found) == 1 and isa.widest > 1:
        found = [4]
    return found[-2:][::-1] if found[-1] > 4 else found[-1:]


def broadcasts(
    isa: Isa, lanes: int, k: int, a_k: int, *, vectors: int = 0,
    tile: tuple[int, int] | None = None,
) -> list[str]:  # fmt: skip
    """The ways in which rows of A can reach all lanes, in a `tile` (rows, vectors) also in another
    order; not without one, and not with packed weights as float16.

    Vectors of more than four lanes rotate only in a tile of a single row with few `vectors` (0: it
    has several rows): there, loads of inputs are a large part of all loads.
    """
    found = ["set1"]
    wide = 0 < vectors <= ROTATED_VECTORS and lanes > 4 and isa.family == "x86"
    if k >= 4 and a_k == 1:
        found += ["rotate"] if isa.has("rotate") and (lanes == 4 or wide) else []
        found += ["lane", *dual.ways(isa, tile)] if isa.multiplies_by_lane(lanes) else []
    return found


def whole_tile(graph: Graph, rows: int, vectors: int) -> tuple[int, int] | None:
    """The tile for `broadcasts`, if the weights are float32."""
    return None if graph.halves else (rows, vectors)


def reloads(isa: Isa) -> bool:
    """Whether compilers load B again for each row, because a product overwrites a factor.

    Vectors that cross cache lines, as unpacked ones may, take two loads each time; a copy takes
    none.
    """
    return isa.family == "x86" and isa.widest == 4


def slides(isa: Isa, lanes: int, k: int) -> bool:
    """Whether `slide` is worth trying: loads must be free where shuffles are not."""
    return reloads(isa) and isa.registers > 8 and lanes == 4 and k >= LEAST_SLIDING


def product_cycles(
    isa: Isa, g: Gemm, rows: Sequence[tuple[int, int, int]], blocks: Sequence[VectorBlock]
) -> float:
    """Estimated cycles of all tiles, with rows from `balanced`."""
    loads, work = broadcast_work(isa, g.broadcast)
    core, cycles = isa.rates(), 0.0
    for mr, tiles, _ in rows:
        for block in blocks:
            n = len(block.vecs)
            s = min(g.split, g.k)
            early = early_inputs(isa, g.broadcast, mr)
            update = tile_cycles(
                isa, mr, n * s, (mr * loads + n) * s, g.k / s, mr * work * s, early=early,
                lanes=max(v.lanes for v in block.vecs), broadcast=g.broadcast,
            )  # fmt: skip
            others = 1 if mr == 1 or g.broadcast == "slide" else n
            update += _unseen_spills(isa, mr * n * s + others) * g.k / s
            update = max(update, isa.core.chain_gap * core.latency * g.k / s)
            update *= scalar_gain(isa, mr * n, s)
            loop = 2.0 * g.k / g.unroll
            finish = mr * n * (1.0 + 0.5 * s) + 8.0
            cycles += tiles * block.count * (update + loop + finish)
    return cycles


def turns_factor(split: int) -> float:
    """By how much longer a single row takes with this many sets of accumulators: they share
    broadcasts less well than vectors of one set.
    """
    return 1.0 + TURNS * (split - 1)


def weight_traffic(
    isa: Isa, g: Gemm, pixels: int, mr: int, blocks: Sequence[VectorBlock], *, outside: str
) -> float:
    """Cycles of reading the packed weights and the rows of A again, by the outer loop.

    blocks: a block of weights should stay in the first-level cache with two tiles of A; rows: a
    tile of A stays, and all weights pass by.
    """
    tiles = -(-pixels // mr)
    widths_ = [block.width for block in blocks for _ in range(block.count)]
    weights = float(g.item) * g.k * sum(widths_)
    if outside == "rows" or tiles == 1:
        return reread_cycles(isa, weights, tiles)
    beside = 8.0 * g.k * min(mr, pixels)
    block = float(g.item) * g.k * max(widths_)
    l1 = isa.core.caches.l1_bytes
    near = block if block + beside <= l1 else max(block, l1 + 1.0)
    again = reread_cycles(isa, near, tiles * len(widths_)) + reread_cycles(isa, weights, 1)
    return again + ROWS_AGAIN * reread_cycles(isa, 4.0 * pixels * g.k, len(widths_) - 1)


def _unseen_spills(isa: Isa, held: int) -> int:
    """How many registers compilers are short of where `tile_cycles` still sees enough."""
    reserve = {8: 1, 16: 2}.get(isa.registers, 4)
    return max(held + reserve - max(isa.registers, held + 1), 0)


def code_size(
    g: Gemm, rows: Sequence[tuple[int, int, int]], blocks: Sequence[VectorBlock]
) -> float:
    """Bytes of straight-line code of all tile shapes."""
    macs = sum(mr * len(block.vecs) for mr, _, _ in rows for block in blocks)
    return 8.0 * macs * min(g.unroll, g.k) + 16.0 * macs
