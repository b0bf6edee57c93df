"""Matrix product of integers with constant weights by Helium, see `mve.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ops.matmul import product as products
from cannery.ops.quantized.codes import codes_of
from cannery.ops.quantized.geometry import why_not_product
from cannery.ops.quantized.matmul import QuantizedMatMul
from cannery.ops.quantized.mve import (
    Places,
    Tiles,
    result_blocks,
    tile_finish,
    tile_shapes,
    tile_weights,
    why_not_mve,
)
from cannery.ops.shared.axes import nested_pointer
from cannery.ops.shared.function import describe, signature
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Tunables:
    """A tile of `mr` rows x `nr` outputs."""

    mr: int
    nr: int


@schedule
@dataclass(frozen=True)
class QuantizedMatMulMve(Schedule):
    """See the module docstring."""

    id = "quantized.matmul_mve"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_product(graph, step):
            return reason
        return why_not_mve(isa, graph.types[step.anchor.inputs[0]].dtype)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        n = graph.types[step.anchor.inputs[1]].shape[1]
        codes = codes_of(graph, step.anchor, isa)
        shapes = tile_shapes(products.row_count(graph, step), n, codes)
        return [as_params(Tunables(*shape)) for shape in shapes]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        rows = products.row_count(graph, step)
        return _tiles(graph, step, params, isa).estimate(isa, rows)

    def kernel(self, job: Job) -> Kernel:
        op, anchor = job.step.anchor.op, job.step.anchor
        assert isinstance(op, QuantizedMatMul)
        a = products.operand(job, anchor.inputs[0], transposed=False, is_b=False)
        b = products.operand(job, anchor.inputs[1], transposed=False, is_b=True)
        nest = products.nest(job, a, b, ())
        w = job.graph.constants[anchor.inputs[1]]
        tiles = _tiles(job.graph, job.step, job.params, job.isa, nest.rows.extent, job.symbol)
        finish = tile_finish(job, op, w, tiles.dtype)
        code = render(
            "ops/quantized/matmul_mve.c.j2",
            describe=describe(job),
            signature=signature(job, scratch=True, stops=job.rows_stop), stops=job.rows_stop,
            nest=nest, nested_pointer=nested_pointer, a=a, y=job.output, t=tiles, finish=finish,
            places=Places(), blocks=result_blocks(tiles.n, job.isa), c=job.inputs[0].dtype.c_name,
            symbol=job.symbol,
        )  # fmt: skip
        return Kernel(
            finish.functions + code,
            (*tile_weights(job, w, tiles), *finish.constants),
            scratch_bytes=tiles.sum_bytes,
            whole=True,
            stops=job.rows_stop,
        )


def _tiles(
    graph: Graph, step: Step, params: Params, isa: Isa, rows: int = 0, symbol: str = ""
) -> Tiles:
    """The tiles of at most so many rows (0: as chosen)."""
    t = typed(Tunables, params)
    x, w = step.anchor.inputs[:2]
    k, n = graph.types[w].shape
    codes = codes_of(graph, step.anchor, isa, symbol)
    return Tiles(min(t.mr, rows or t.mr), t.nr, n, 1, k, graph.types[x].dtype, codes=codes)
