"""Convolution of bytes by Arm's DSP extension: windows of neighbouring pixels are widened first.

See `dsp.py`. A window is one run of numbers for each of its rows, or for each of its pixels, as in
`conv_n.py`. Pixels of a 1x1 kernel may follow each other over the ends of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.layouts import Halo, Layout
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.quantized.codes import codes_of
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.conv_n import make_runs, weights_of
from cannery.ops.quantized.dsp import (
    Tiles,
    estimate,
    make_tiles,
    tile_finish,
    tile_weights,
    why_not_dsp,
)
from cannery.ops.quantized.geometry import sizes, why_not_conv
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
class QuantizedConvDsp(FixedSchedule):
    """See the module docstring."""

    id = "quantized.conv_dsp"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_conv(graph, step):
            return reason
        return why_not_dsp(isa, graph.types[step.anchor.inputs[0]].dtype)

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        s = sizes(graph, step)
        runs = make_runs(s, s.ic)
        k = s.kh * runs.across * -(-runs.size // 4) * 4
        codes = codes_of(graph, step.anchor, isa)
        tiles = Tiles(min(s.oh * s.ow, 2), k, s.oc, signed=True, joined=True, codes=codes)
        gathered = s.oh * s.ow * s.kh * runs.across * 8.0
        return estimate(isa, tiles.instructions(s.oh * s.ow) + gathered, 600.0)

    def kernel(self, job: Job) -> Kernel:
        op, s, x = job.step.anchor.op, sizes(job.graph, job.step), job.inputs[0]
        assert isinstance(op, QuantizedConv)
        runs = make_runs(s, x.col)
        w = weights_of(job.graph, s, runs)
        flat = _is_flat(s, x, job.output)
        tiles = make_tiles(job, w, s.oh * s.ow if flat else s.ow)
        finish = tile_finish(job, op, w, tiles)
        code = render(
            "ops/quantized/conv_dsp.c.j2",
            describe=describe(job), signature=signature(job, scratch=True, band=True), s=s, x=x,
            y=job.output, t=tiles, finish=finish, runs=runs, symbol=job.symbol, flat=flat,
        )  # fmt: skip
        constants = (*tile_weights(job, w, tiles), *finish.constants)
        return Kernel(finish.functions + code, constants, scratch_bytes=tiles.scratch_bytes, band=1)


def _is_flat(s: ConvShape, x: Layout, y: Layout) -> bool:
    """Whether all pixels are one row."""
    return s.pointwise and x.row == s.ow * x.col and y.row == s.ow * y.col
