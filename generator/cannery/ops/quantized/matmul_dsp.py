"""Matrix product of bytes with constant weights by Arm's DSP extension: rows are widened first.

See `dsp.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ops.matmul import product as products
from cannery.ops.quantized.codes import codes_of
from cannery.ops.quantized.dsp import (
    Tiles,
    estimate,
    make_tiles,
    tile_finish,
    tile_weights,
    why_not_dsp,
)
from cannery.ops.quantized.geometry import why_not_product
from cannery.ops.quantized.matmul import QuantizedMatMul
from cannery.ops.shared.axes import nested_pointer
from cannery.ops.shared.function import describe, signature
from cannery.schedule.program import Step
from cannery.schedule.schedule import (
    Estimate,
    FixedSchedule,
    Job,
    Kernel,
    Params,
    schedule,
)
from cannery.target.isa import Isa


@schedule
@dataclass(frozen=True)
class QuantizedMatMulDsp(FixedSchedule):
    """See the module docstring."""

    id = "quantized.matmul_dsp"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_product(graph, step):
            return reason
        return why_not_dsp(isa, graph.types[step.anchor.inputs[0]].dtype)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        k, n = graph.types[step.anchor.inputs[1]].shape
        rows = products.row_count(graph, step)
        codes = codes_of(graph, step.anchor, isa)
        tiles = Tiles(min(rows, 2), k, n, signed=True, joined=True, codes=codes)
        return estimate(isa, tiles.instructions(rows), 500.0)

    def kernel(self, job: Job) -> Kernel:
        op, anchor = job.step.anchor.op, job.step.anchor
        assert isinstance(op, QuantizedMatMul)
        a = products.operand(job, anchor.inputs[0], transposed=False, is_b=False)
        b = products.operand(job, anchor.inputs[1], transposed=False, is_b=True)
        nest = products.nest(job, a, b, ())
        w = job.graph.constants[anchor.inputs[1]]
        tiles = make_tiles(job, w, nest.rows.extent)
        finish = tile_finish(job, op, w, tiles)
        code = render(
            "ops/quantized/matmul_dsp.c.j2",
            describe=describe(job),
            signature=signature(job, scratch=True, stops=job.rows_stop), stops=job.rows_stop,
            nest=nest, nested_pointer=nested_pointer, a=a, y=job.output, t=tiles, finish=finish,
            c=job.inputs[0].dtype.c_name, symbol=job.symbol,
        )  # fmt: skip
        constants = (*tile_weights(job, w, tiles), *finish.constants)
        return Kernel(
            finish.functions + code,
            constants,
            scratch_bytes=tiles.scratch_bytes,
            whole=True,
            stops=job.rows_stop,
        )
