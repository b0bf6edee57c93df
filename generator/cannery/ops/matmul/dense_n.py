"""Matrix product with constant weights, outputs in the lanes.

The weights are packed in blocks of NR vectors, [block][k][lanes], so they stream in one pass. With
several rows (batch or leading axes), a tile of MR rows shares each weight. With one row and few
outputs, the sums are split over `split` sets of accumulators to hide latency. `outside` is the
outer of the two loops: `blocks` keeps a block of weights in the cache, `rows` the input. Long sums
of many rows may be cut into parts (`kc`), so that only one part has to stay in the cache: the loops
of Goto & van de Geijn, see `gemm`; partial sums wait in the output. `joined`: see `joined.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cannery.ir.graph import Graph
from cannery.ops.matmul import joined
from cannery.ops.matmul import product as products
from cannery.ops.matmul.lanes_n import Tunables, make_gemm, render_lanes_n
from cannery.ops.matmul.product import Product
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.tiles import tile_registers
from cannery.schedule.cost import conflict_cycles, reread_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Preferred number of terms in one part of a long sum.
DEPTH = 256

#: How much longer sums in parts take than counted.
CUT = 1.06

#: Cycles of a mispredicted end of a tile.
TILE_END = 15.0


@schedule
@dataclass(frozen=True)
class MatMulDenseN(Schedule):
    """See the module docstring."""

    id = "matmul.dense_n"
    version = 4
    halves = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        return epilogues.why_not(step) or products.dense_weights(graph, step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        p = products.sizes(graph, step)
        rows = products.row_count(graph, step)
        a_k = 0 if p.transpose_a else 1
        found: list[Tunables] = []
        if joined.can_join(isa, p.n):
            found += [
                Tunables(1, min(mr, rows), nr, min(split, p.k), "set1", order, max(4, split), True)
                for mr, nr, split in joined.tiles(rows, p.n)
                for order in _orders(rows, p.n, mr, nr)
            ]
        for lanes in gemm.widths(p.n, isa):
            vectors = -(-p.n // lanes)
            for mr, nr, split in _tiles(rows, isa):
                tile = (lanes, min(mr, rows), min(nr, vectors), min(split, p.k))
                orders = _orders(rows, vectors, mr, nr)
                single = min(nr, vectors) if rows == 1 else 0
                whole = gemm.whole_tile(graph, *tile[1:3])
                ways = gemm.broadcasts(isa, lanes, p.k, a_k, vectors=single, tile=whole)
                for broadcast in ways:
                    one = Tunables(*tile, broadcast, "blocks", max(4, split))
                    found += [replace(one, outside=order) for order in orders]
                    if len(orders) > 1 and split == 1:
                        found += [replace(one, kc=kc) for kc in _depths(p.k)]
        return [as_params(t) for t in dict.fromkeys(found)]

    def stacked(
        self, graph: Graph, step: Step, params: Params, isa: Isa
    ) -> Sequence[tuple[Schedule, Params]]:
        return [(self, tile) for tile in stacked_tiles(graph, step, params, isa)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, t = products.sizes(graph, step), typed(Tunables, params)
        g = make_gemm(p, t, isa, 0, 1)
        blocks = _blocks(p, t, isa)
        rows = products.row_count(graph, step)
        tiles = balanced(rows, t.mr)
        count = joined.cycles if t.joined else gemm.product_cycles
        cycles = count(isa, g, tiles, blocks)
        if rows == 1:
            cycles *= gemm.turns_factor(t.split)
        cycles += gemm.weight_traffic(isa, g, rows, t.mr, blocks, outside=t.outside)
        if not p.transpose_a:
            lines = g.k / gemm.LINE * sum(block.count for block in blocks)
            cycles += sum(
                conflict_cycles(isa, mr, 4.0 * p.k, count * lines) for mr, count, _ in tiles
            )
        if t.kc:
            cycles = _cut_cycles(isa, p, t, cycles, rows, blocks)
        code = gemm.code_size(g, tiles, blocks)
        return Estimate(cycles, code / joined.JOINED if t.joined else code)

    def kernel(self, job: Job) -> Kernel:
        p, t = products.sizes(job.graph, job.step), typed(Tunables, job.params)
        a = products.operand(job, p.a, transposed=p.transpose_a, is_b=False)
        b = products.operand(job, p.b, transposed=p.transpose_b, is_b=True)
        blocks = _blocks(p, t, job.isa)
        busy = tile_registers(t.mr, [block.vecs for block in blocks])
        ep = epilogues.build(job, job.step.anchor.output, busy=busy)
        nest = products.nest(job, a, b, ep.tensors)
        g = make_gemm(p, t, job.isa, nest.rows.strides[0], a.k)
        rotate = p.k if t.broadcast == "rotate" else 0
        matrix = products.weight_matrix(job, p)
        packed = gemm.pack_blocks(matrix, blocks, rotate=rotate, streams=g.streams)
        order = "[block][k][lanes]" if g.streams == 1 else f"[block][k%{g.streams}][k][lanes]"
        weights = ConstArray(b.pointer, packed, f"weights {order}", is_weights=True)
        code, units = render_lanes_n(job, p, t, g, nest, blocks, ep, (a, b))
        constants = (weights, *products.padded_bias(job, p), *ep.constants)
        return Kernel(
            code, constants, needs_math=ep.needs_math, whole=True, units=units, stops=job.rows_stop
        )


def _depths(k: int) -> list[int]:
    """The part lengths into which a sum of `k` terms may be cut: the one nearest to DEPTH, if
    any.
    """
    fits = [kc for kc in range(4, k // 2 + 1, 4) if k % kc == 0 and DEPTH <= 2 * kc <= 4 * DEPTH]
    return [min(fits, key=lambda kc: abs(kc - DEPTH))] if fits and k >= 2 * DEPTH else []


def _cut_cycles(
    isa: Isa, p: Product, t: Tunables, cycles: float, rows: int, blocks: Sequence[VectorBlock]
) -> float:
    """Cycles of a product whose sums are cut, if one part takes `cycles`.

    Tiles end once per part, and store and load partial sums. The weights come from the cache that
    holds all of them, not just one part.
    """
    parts = p.k // t.kc
    weights = float(p.item) * p.k * p.n
    far = reread_cycles(isa, weights, 1) - parts * reread_cycles(isa, weights / parts, 1)
    tiles = -(-rows // t.mr) * sum(block.count for block in blocks)
    sums = 1.5 * rows * sum(len(block.vecs) * block.count for block in blocks)
    again = tiles * TILE_END + sums + reread_cycles(isa, 4.0 * rows * p.n, 2)
    return CUT * (parts * cycles + far + (parts - 1) * again)


def _blocks(p: Product, t: Tunables, isa: Isa) -> tuple[VectorBlock, ...]:
    if t.joined:
        return joined.blocks(p.n, t.nr, p.k)
    return gemm.make_blocks(p.n, isa, t.lanes, t.nr, p.k)


def stacked_tiles(graph: Graph, step: Step, params: Params, isa: Isa) -> list[Params]:
    """Tiles of many rows that add up each sum in the same order as `params`.

    That depends on the sets of accumulators, and on whether inputs are rotated.
    """
    p, rows = products.sizes(graph, step), products.row_count(graph, step)
    t = typed(Tunables, params)
    widths = [t.lanes] if t.broadcast != "set1" else gemm.widths(p.n, isa)
    found: list[Tunables] = []
    for lanes in widths:
        vectors = -(-p.n // lanes)
        sets = joined.with_sets(t.split, p.n) if t.joined else _with_sets(t.split, isa)
        for mr, nr in sets:
            tile = replace(t, lanes=lanes, mr=min(mr, rows), nr=min(nr, vectors))
            found += [replace(tile, outside=way) for way in _orders(rows, vectors, mr, nr)]
    return [{**params, **as_params(tile)} for tile in dict.fromkeys(found)]


def _orders(rows: int, vectors: int, mr: int, nr: int) -> tuple[str, ...]:
    """The outer loops that make a difference."""
    return ("blocks", "rows") if rows > mr and vectors > nr else ("blocks",)


def _with_sets(split: int, isa: Isa) -> list[tuple[int, int]]:
    """(MR, NR) where each sum takes `split` accumulators."""
    few = ((4, 1), (3, 1), (2, 1), (2, 2), (3, 2), (2, 3), (3, 4), (1, 2), (1, 4))
    tiles = dict.fromkeys((*gemm.TILES.get(isa.registers, gemm.TILES[16]), *few))
    room = {8: 6, 16: 12}.get(isa.registers, 28)
    fits = [(mr, nr) for mr, nr in tiles if mr * nr * split <= room]
    return fits or [(1, 1)]


def _tiles(rows: int, isa: Isa) -> list[tuple[int, int, int]]:
    """(MR, NR, sets of accumulators): split if a tile has too few to hide the latency."""
    if rows == 1:
        fits = [(nr, split) for nr, split in gemm.SINGLE_ROW if nr * split < isa.registers]
        return [(1, nr, split) for nr, split in fits]
    found = []
    for mr, nr in gemm.TILES.get(isa.registers, gemm.TILES[16]):
        few = min(mr, rows) * nr
        found += [(mr, nr, split) for split in (1, 2, 4) if split == 1 or few * split <= 12]
    return found
