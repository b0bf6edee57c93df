"""Matrix product with constant weights, outputs in the lanes.

The weights are packed in blocks of NR vectors, [block][k][lanes], so they stream in one pass. With
several rows (batch or leading axes) a tile of MR rows shares each weight; with one row and few
outputs the sums are split over `split` sets of accumulators, against latency. `outside` is the
outer one of the two loops: `blocks` keeps a block of weights in the cache, `rows` the input.
`joined`: see `joined.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.layouts import Want
from cannery.ops.matmul import joined
from cannery.ops.matmul import product as products
from cannery.ops.matmul.lanes_n import make_gemm, render_lanes_n
from cannery.ops.matmul.product import Product
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.tiles import tile_registers
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Tiles of a single row: (NR vectors, sets of accumulators).
SINGLE_ROW = (
    (1, 8), (1, 4), (2, 2), (2, 4), (3, 1), (3, 4), (4, 1), (4, 2), (4, 4), (6, 1), (6, 2), (8, 1),
    (8, 2), (12, 1),
)  # fmt: skip

#: What each set of accumulators beyond the first costs a single row, in parts of the whole.
TURNS = 0.03


@schedule
@dataclass(frozen=True)
class MatMulDenseN(Schedule):
    """See the module's text."""

    id = "matmul.dense_n"
    version = 3

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not epilogues.step_supports(step):
            return "epilogue not elementwise"
        return products.dense_weights(graph, step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        p = _product(graph, step)
        rows = products.row_count(graph, step)
        found: list[dict[str, int | str | bool]] = []
        if joined.can_join(isa, p.n):
            found += [
                {"lanes": 1, "mr": min(mr, rows), "nr": nr, "split": min(split, p.k),
                 "broadcast": "set1", "outside": order, "unroll": max(4, split),
                 "joined": True}
                for mr, nr, split in joined.tiles(rows, p.n)
                for order in _orders(rows, p.n, mr, nr)
            ]  # fmt: skip
        for lanes in gemm.widths(p.n, isa):
            vectors = -(-p.n // lanes)
            for mr, nr, split in _tiles(rows, isa):
                tile = {"lanes": lanes, "mr": min(mr, rows), "nr": min(nr, vectors)}
                orders = _orders(rows, vectors, mr, nr)
                for broadcast in gemm.broadcasts(isa, lanes, p.k, 0 if p.transpose_a else 1):
                    found += [
                        {**tile, "split": min(split, p.k), "broadcast": broadcast, "outside": order,
                         "unroll": max(4, split)}
                        for order in orders
                    ]  # fmt: skip
        distinct = {self.label(params): params for params in found}
        return list(distinct.values())

    def stacked(
        self, graph: Graph, step: Step, params: Params, isa: Isa
    ) -> Sequence[tuple[Schedule, Params]]:
        return [(self, tile) for tile in stacked_tiles(graph, step, params, isa)]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return tuple(Want("nhwc") for _ in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want("nhwc"),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p = _product(graph, step)
        g = make_gemm(p, params, isa, 0, 1)
        blocks = _blocks(p, params, isa)
        rows = products.row_count(graph, step)
        tiles = balanced(rows, int(params["mr"]))
        outside = str(params["outside"])
        count = joined.cycles if joined.is_joined(params) else gemm.product_cycles
        cycles = count(isa, g, tiles, blocks)
        if rows == 1:
            # Sets of accumulators share broadcasts less well than vectors of one set.
            cycles *= 1.0 + TURNS * (int(params["split"]) - 1)
        cycles += gemm.weight_traffic(isa, g, rows, int(params["mr"]), blocks, outside=outside)
        code = gemm.code_size(g, tiles, blocks)
        return Estimate(cycles, code / joined.JOINED if joined.is_joined(params) else code)

    def kernel(self, job: Job) -> Kernel:
        p = _product(job.graph, job.step)
        a = products.operand(job, p.a, transposed=p.transpose_a, is_b=False)
        b = products.operand(job, p.b, transposed=p.transpose_b, is_b=True)
        blocks = _blocks(p, job.params, job.isa)
        busy = tile_registers(int(job.params["mr"]), [block.vecs for block in blocks])
        ep = epilogues.build(job, job.step.anchor.output, busy=busy)
        nest = products.nest(job, a, b, ep.tensors)
        g = make_gemm(p, job.params, job.isa, nest.rows.strides[0], a.k)
        rotate = p.k if job.params["broadcast"] == "rotate" else 0
        matrix = products.weight_matrix(job, p)
        packed = gemm.pack_blocks(matrix, blocks, rotate=rotate, streams=g.streams)
        order = "[block][k][lanes]" if g.streams == 1 else f"[block][k%{g.streams}][k][lanes]"
        weights = ConstArray(b.pointer, packed, f"weights {order}")
        code, units = render_lanes_n(job, p, g, nest, blocks, ep, (a, b))
        constants = (weights, *products.padded_bias(job, p), *ep.constants)
        return Kernel(
            code, constants, needs_math=ep.needs_math, whole=True, units=units, stops=job.rows_stop
        )


def _product(graph: Graph, step: Step) -> Product:
    found = products.product(graph, step)
    assert found is not None
    return found


def _blocks(p: Product, params: Params, isa: Isa) -> tuple[VectorBlock, ...]:
    if joined.is_joined(params):
        return joined.blocks(p.n, int(params["nr"]), p.k)
    return gemm.make_blocks(p.n, isa, int(params["lanes"]), int(params["nr"]), p.k)


def stacked_tiles(graph: Graph, step: Step, params: Params, isa: Isa) -> list[Params]:
    """Tiles of many rows that add up each sum in the order of `params`.

    That depends on the sets of accumulators, and on whether inputs are rotated.
    """
    p, rows = _product(graph, step), products.row_count(graph, step)
    split, broadcast = int(params["split"]), str(params["broadcast"])
    widths = [int(params["lanes"])] if broadcast != "set1" else gemm.widths(p.n, isa)
    found: list[Params] = []
    for lanes in widths:
        vectors = -(-p.n // lanes)
        sets = joined.with_sets(split, p.n) if joined.is_joined(params) else _with_sets(split, isa)
        for mr, nr in sets:
            tile = {**params, "lanes": lanes, "mr": min(mr, rows), "nr": min(nr, vectors)}
            found += [{**tile, "outside": order} for order in _orders(rows, vectors, mr, nr)]
    distinct = {str(sorted(tile.items())): tile for tile in found}
    return list(distinct.values())


def _orders(rows: int, vectors: int, mr: int, nr: int) -> tuple[str, ...]:
    """The outer loops that differ."""
    return ("blocks", "rows") if rows > mr and vectors > nr else ("blocks",)


def _with_sets(split: int, isa: Isa) -> list[tuple[int, int]]:
    """(MR, NR) where each sum takes `split` accumulators."""
    few = ((4, 1), (3, 1), (2, 1), (2, 2), (3, 2), (2, 3), (3, 4), (1, 2), (1, 4))
    tiles = dict.fromkeys((*gemm.TILES.get(isa.registers, gemm.TILES[16]), *few))
    room = {8: 6, 16: 12}.get(isa.registers, 28)
    fits = [(mr, nr) for mr, nr in tiles if mr * nr * split <= room]
    return fits or [(1, 1)]


def _tiles(rows: int, isa: Isa) -> list[tuple[int, int, int]]:
    """(MR, NR, sets of accumulators): split where a tile has too few to hide the latency."""
    if rows == 1:
        fits = [(nr, split) for nr, split in SINGLE_ROW if nr * split < isa.registers]
        return [(1, nr, split) for nr, split in fits]
    found = []
    for mr, nr in gemm.TILES.get(isa.registers, gemm.TILES[16]):
        few = min(mr, rows) * nr
        found += [(mr, nr, split) for split in (1, 2, 4) if split == 1 or few * split <= 12]
    return found
