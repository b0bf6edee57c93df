"""Convolution of integers by Helium: tiles of neighbouring pixels and outputs, see `mve.py`.

A window is one run of numbers for each of its rows, or for each of its pixels, as in `conv_n.py`.
`gathered`: the runs of each pixel are copied to one run first, so that fewer vectors are filled up
with zeros. Pixels of a 1x1 kernel may follow each other over the ends of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.layouts import Layout, Want
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.quantized.codes import codes_of
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.conv_n import Runs, make_runs
from cannery.ops.quantized.geometry import sizes, why_not_conv
from cannery.ops.quantized.mve import (
    COPY,
    Places,
    Tiles,
    result_blocks,
    tile_finish,
    tile_shapes,
    tile_weights,
    why_not_mve,
)
from cannery.ops.shared.function import describe, signature
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Tunables:
    """A tile of `px` pixels x `nr` outputs; `gathered` as in the module docstring."""

    px: int
    nr: int
    gathered: bool


@schedule
@dataclass(frozen=True)
class QuantizedConvMve(Schedule):
    """See the module docstring."""

    id = "quantized.conv_mve"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_conv(graph, step):
            return reason
        return why_not_mve(isa, graph.types[step.anchor.inputs[0]].dtype)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        s = sizes(graph, step)
        runs = s.kh * make_runs(s, s.ic).across
        ways = (False, True) if runs > 1 else (False,)
        shapes = tile_shapes(s.ow, s.oc, codes_of(graph, step.anchor, isa))
        return [as_params(Tunables(px, nr, way)) for px, nr in shapes for way in ways]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        s, t = sizes(graph, step), typed(Tunables, params)
        tiles = _tiles(graph, step, t, make_runs(s, s.ic), isa)
        # Numbers after a run meet weights of 0.
        slack = 0 if t.gathered else -tiles.size % tiles.step
        return (Want("nhwc", s.halo, slack=slack),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        s, t = sizes(graph, step), typed(Tunables, params)
        tiles = _tiles(graph, step, t, make_runs(s, s.ic), isa, slack=16)
        pixels = float(s.oh * s.ow)
        if t.gathered:
            copied = pixels * tiles.runs * (tiles.vectors + 1) * COPY
            return tiles.gathered.estimate(isa, pixels, copied)
        rows = pixels if s.pointwise else s.oh * t.px * -(-s.ow // t.px)
        return tiles.estimate(isa, rows)

    def kernel(self, job: Job) -> Kernel:
        op, s, x = job.step.anchor.op, sizes(job.graph, job.step), job.inputs[0]
        assert isinstance(op, QuantizedConv)
        t, runs = typed(Tunables, job.params), make_runs(s, x.col)
        source = _tiles(job.graph, job.step, t, runs, job.isa, slack=x.slack, symbol=job.symbol)
        tiles = source.gathered if t.gathered else source
        w = job.graph.constants[s.weight].reshape(-1, s.oc)
        finish = tile_finish(job, op, w, x.dtype)
        places = Places(runs.across, s.dh * x.row, s.dw * x.col)
        code = render(
            "ops/quantized/conv_mve.c.j2",
            describe=describe(job), signature=signature(job, scratch=True, band=True), s=s, x=x,
            y=job.output, t=tiles, source=source if t.gathered else None, finish=finish,
            blocks=result_blocks(s.oc, job.isa), places=Places() if t.gathered else places,
            sources=places, row=tiles.columns if t.gathered else s.sw * x.col,
            symbol=job.symbol, flat=_is_flat(s, x, job.output), c=x.dtype.c_name,
        )  # fmt: skip
        copies = tiles.rows * tiles.columns * x.dtype.bytes if t.gathered else 0
        return Kernel(
            finish.functions + code,
            (*tile_weights(job, w, tiles), *finish.constants),
            scratch_bytes=tiles.sum_bytes + copies,
            band=1,
        )


def _tiles(
    graph: Graph, step: Step, t: Tunables, runs: Runs, isa: Isa, slack: int = 0, symbol: str = ""
) -> Tiles:
    s, dtype = sizes(graph, step), graph.types[step.anchor.inputs[0]].dtype
    codes = codes_of(graph, step.anchor, isa, symbol)
    return Tiles(t.px, t.nr, s.oc, s.kh * runs.across, runs.size, dtype, slack, codes)


def _is_flat(s: ConvShape, x: Layout, y: Layout) -> bool:
    """Whether all pixels are one row."""
    return s.pointwise and x.row == s.ow * x.col and y.row == s.ow * y.col
