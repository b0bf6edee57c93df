"""Matrix product of any two operands: both computed, batched, broadcast, transposed.

The columns of B are in the lanes where they are contiguous; where B is transposed, the reduction
is. It computes one matrix after the other, without packing, and is legal for every MatMul.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.matmul import product as products
from cannery.ops.matmul.dense_n import stacked_tiles
from cannery.ops.matmul.lanes_k import dot_code, dot_cycles, render_lanes_k
from cannery.ops.matmul.lanes_n import Tunables, make_gemm, render_lanes_n
from cannery.ops.matmul.product import Product
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.dots import Dots
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import (
    ConstArray,
    Estimate,
    Job,
    Kernel,
    Params,
    Schedule,
    all_schedules,
    schedule,
)
from cannery.target.isa import Isa

#: (MR rows, NC columns) of dot products by the number of vector registers.
DOT_TILES = {8: ((2, 2), (1, 4)), 16: ((3, 4), (2, 4), (4, 2)), 32: ((4, 4), (2, 4), (4, 6))}


@schedule
@dataclass(frozen=True)
class MatMulGeneral(Schedule):
    """See the module docstring."""

    id = "matmul.general"
    version = 3

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if products.product(graph, step) is None:
            return "not a matrix product"
        return epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        p = products.sizes(graph, step)
        rows = products.row_count(graph, step)
        found: list[Params]
        if p.transpose_b:
            found = [
                as_params(Dots(_dot_lanes(p, isa), min(mr, rows), min(nc, p.n), 1, 2))
                for mr, nc in DOT_TILES.get(isa.registers, DOT_TILES[16])
            ]
        else:
            tiles = product(
                gemm.widths(p.n, isa), gemm.TILES.get(isa.registers, gemm.TILES[16])[:4]
            )
            found = [
                as_params(Tunables(n, min(mr, rows), min(nr, -(-p.n // n)), 1, "set1", "blocks", 4))
                for n, (mr, nr) in tiles
            ]
        return list({self.label(params): params for params in found}.values())

    def stacked(
        self, graph: Graph, step: Step, params: Params, isa: Isa
    ) -> Sequence[tuple[Schedule, Params]]:
        if products.sizes(graph, step).transpose_b:
            return []
        # Weights that are read once for many rows are worth packing; the sums are the same.
        dense = all_schedules()["matmul.dense_n"]
        return [(dense, tile) for tile in stacked_tiles(graph, step, params, isa)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, count = products.sizes(graph, step), products.row_count(graph, step)
        if p.transpose_b:
            dots = typed(Dots, params)
            rows = balanced(count, dots.mr)
            return Estimate(1.2 * dot_cycles(isa, p, dots, rows), dot_code(p, dots, rows))
        t = typed(Tunables, params)
        rows = balanced(count, t.mr)
        g = make_gemm(p, t, isa, 0, 1, p.n)
        blocks = gemm.make_blocks(p.n, isa, t.lanes, t.nr, p.k)
        cycles = 1.2 * gemm.product_cycles(isa, g, rows, blocks)
        partial = sum(not v.full for block in blocks for v in block.vecs)
        if not isa.has("masks"):
            cycles += 2.0 * partial * p.k * sum(count for _, count, _ in rows)
        return Estimate(cycles, gemm.code_size(g, rows, blocks))

    def kernel(self, job: Job) -> Kernel:
        p = products.sizes(job.graph, job.step)
        a = products.operand(job, p.a, transposed=p.transpose_a, is_b=False)
        b = products.operand(job, p.b, transposed=p.transpose_b, is_b=True)
        ep = epilogues.build(job, job.step.anchor.output)
        nest = products.nest(job, a, b, ep.tensors)
        if p.transpose_b:
            dots = typed(Dots, job.params)
            code, units = render_lanes_k(job, p, dots, nest, ep, (a, b), packed=False)
        else:
            t = typed(Tunables, job.params)
            blocks = gemm.make_blocks(p.n, job.isa, t.lanes, t.nr, p.k)
            g = make_gemm(p, t, job.isa, nest.rows.strides[0], a.k, b.k)
            code, units = render_lanes_n(job, p, t, g, nest, blocks, ep, (a, b))
        arrays = tuple(
            ConstArray(where.pointer, np.ascontiguousarray(job.constant(value)).reshape(-1))
            for value, where in ((p.a, a), (p.b, b))
            if value in job.graph.constants
        )
        constants = (*arrays, *products.padded_bias(job, p), *ep.constants)
        return Kernel(
            code, constants, needs_math=ep.needs_math, whole=True, units=units, stops=job.rows_stop
        )


def _dot_lanes(p: Product, isa: Isa) -> int:
    """The width of dot products; one element at a time if A is transposed too."""
    return 1 if p.transpose_a else gemm.widths(p.k, isa)[0]
