"""Matrix product with constant weights, the reduction in the lanes: for few outputs.

Where the outputs do not fill a vector, the inputs do. Weights are stored as [n][k], padded with
zeros to whole vectors, and each output is a dot product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.matmul import product as products
from cannery.ops.matmul.lanes_k import dot_code, dot_cycles, render_lanes_k
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.dots import Dots, make_tiles
from cannery.schedule.cost import reread_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: (MR rows, NC columns, sets of accumulators).
TILES = (
    (1, 1, 8), (1, 2, 4), (1, 4, 2), (1, 4, 4), (1, 8, 1),
    (2, 2, 2), (2, 4, 1), (4, 4, 1), (3, 3, 1),
)  # fmt: skip

#: With more outputs than this, other schedules are always better.
MAX_OUTPUTS = 64


@schedule
@dataclass(frozen=True)
class MatMulDenseK(Schedule):
    """See the module docstring."""

    id = "matmul.dense_k"
    halves = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := epilogues.why_not(step) or products.dense_weights(graph, step):
            return reason
        p = products.sizes(graph, step)
        if p.transpose_a:
            return "the reduction is not contiguous"
        return "too many outputs" if p.n > MAX_OUTPUTS else ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        p = products.sizes(graph, step)
        rows = products.row_count(graph, step)
        tiles = [tile for tile in TILES if prod(tile) < isa.registers or prod(tile[:2]) == 1]
        return list(map(as_params, make_tiles(tiles, isa, p.k, rows, p.n)))

    def stacked(
        self, graph: Graph, step: Step, params: Params, isa: Isa
    ) -> Sequence[tuple[Schedule, Params]]:
        # How a sum is added up depends on everything except the number of rows of a tile.
        rows = products.row_count(graph, step)
        dots = typed(Dots, params)
        sums = dots.nc * dots.split
        fits = [mr for mr in (1, 2, 3, 4, 6, 8) if mr * sums < isa.registers or mr == 1]
        distinct = dict.fromkeys(min(mr, rows) for mr in fits)
        return [(self, {**params, "mr": mr}) for mr in distinct]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p = products.sizes(graph, step)
        dots = typed(Dots, params)
        rows = balanced(products.row_count(graph, step), dots.mr)
        cycles = dot_cycles(isa, p, dots, rows)
        passes = sum(count for _, count, _ in rows)
        cycles += reread_cycles(isa, float(p.item) * p.k * p.n, passes)
        return Estimate(cycles, dot_code(p, dots, rows))

    def kernel(self, job: Job) -> Kernel:
        p = products.sizes(job.graph, job.step)
        dots = typed(Dots, job.params)
        matrix = products.weight_matrix(job, p).T
        pitch = -(-p.k // dots.lanes) * dots.lanes
        packed = np.zeros((p.n, pitch), np.float32)
        packed[:, : p.k] = matrix
        a = products.operand(job, p.a, transposed=False, is_b=False)
        b = products.operand(job, p.b, transposed=p.transpose_b, is_b=True)
        b = replace(b, k=1, n=pitch)
        ep = epilogues.build(job, job.step.anchor.output)
        nest = products.nest(job, a, b, ep.tensors)
        code, units = render_lanes_k(job, p, dots, nest, ep, (a, b), packed=True)
        weights = ConstArray(
            b.pointer, packed.reshape(-1), "weights [n][k], zero-padded", is_weights=True
        )
        constants = (weights, *products.padded_bias(job, p), *ep.constants)
        return Kernel(
            code, constants, needs_math=ep.needs_math, whole=True, units=units, stops=job.rows_stop
        )
