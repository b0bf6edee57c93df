"""Direct convolution with input channels in the lanes, channels last in and out: for few outputs.

Where the output channels do not fill a vector, the inputs do. Each output is a sum of dot products
along the runs of memory that its window covers: whole rows of the window where pixels are adjacent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.layouts import Halo, Layout
from cannery.ops.conv.geometry import ConvShape, padded_bias, sizes, why_not_dense
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.dots import Dots, accumulator, columns, make_tiles, sum_cycles, walk
from cannery.ops.shared.function import describe, residual_pointer, signature
from cannery.schedule.cost import reread_cycles, scalar_gain, tile_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: (MR pixels, NC channels, sets of accumulators).
TILES = ((1, 1, 8), (1, 1, 4), (2, 1, 4), (4, 1, 2), (4, 1, 1), (1, 4, 2), (2, 4, 1), (1, 4, 1))

#: With more output channels than this, they fill the lanes themselves.
MAX_CHANNELS = 8

#: With fewer input channels, the lanes stay empty; with more taps, there is too much code.
MIN_INPUTS, MAX_RUNS = 4, 9


@schedule
@dataclass(frozen=True)
class ConvDirectIc(Schedule):
    """See the module docstring."""

    id = "conv.direct_ic"
    halves = True
    movable = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_dense(graph, step):
            return reason
        shape = sizes(graph, step)
        if shape.oc > MAX_CHANNELS:
            return "enough output channels for the lanes"
        if shape.ic < MIN_INPUTS or shape.taps > MAX_RUNS:
            return "too few input channels, or too many taps"
        return epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = sizes(graph, step)
        tiles = [tile for tile in TILES if prod(tile) < isa.registers]
        return list(map(as_params, make_tiles(tiles, isa, shape.ic, shape.ow, shape.oc)))

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        shape = sizes(graph, step)
        dots = typed(Dots, params)
        length = shape.kw * shape.ic if shape.dw == 1 else shape.ic
        runs = shape.taps * shape.ic // length
        vectors = -(-length // dots.lanes) * runs
        cycles = code = 0.0
        for mr, tiles, _ in balanced(shape.ow, dots.mr):
            for nc, groups, _ in balanced(shape.oc, dots.nc):
                macs = nc * dots.split
                update = tile_cycles(isa, mr, macs, (mr + nc) * dots.split, vectors / dots.split)
                update *= scalar_gain(isa, mr, macs)
                each = update + 2.0 * vectors / dots.unroll + sum_cycles(dots, mr, nc, isa)
                cycles += tiles * groups * each
                code += mr * nc * (8.0 * (dots.unroll + len(walk(length, dots)[1])) * runs + 40.0)
        again = reread_cycles(isa, 4.0 * shape.taps * shape.ic * shape.oc, -(-shape.ow // dots.mr))
        return Estimate(shape.oh * (cycles + again), code)

    def kernel(self, job: Job) -> Kernel:
        shape = sizes(job.graph, job.step)
        x = job.inputs[0]
        dots = typed(Dots, job.params)
        length, runs = _runs(shape, x)
        passes, rest = walk(length, dots)
        weights, pitch = _pack(job, shape, length, dots.lanes)
        vec, lanes = f"f32x{dots.lanes}", dots.lanes
        everything = len(runs) * pitch

        def a_load(m: int, k: int, valid: int) -> str:
            at = f"ap{offset(m * shape.sw * x.col + k)}"
            return f"{vec}_load({at})" if valid == lanes else f"{vec}_load_n({at}, {valid})"

        ep = epilogues.build(job, job.step.anchor.output)
        code = render(
            "ops/conv/direct_ic.c.j2",
            describe=describe(job),
            signature=signature(job, band=True),
            symbol=job.symbol,
            s=shape,
            x=x,
            y=job.output,
            runs=runs,
            pitch=pitch,
            tiles=balanced(shape.ow, dots.mr),
            groups=balanced(shape.oc, dots.nc),
            vec=vec,
            lanes=lanes,
            split=dots.split,
            unroll=dots.unroll,
            passes=passes,
            rest=rest,
            acc=accumulator,
            a_load=a_load,
            b_load=lambda n, k, valid: f"{vec}_load(wp{offset(n * everything + k)})",
            columns=lambda nc: columns(nc, lanes),
            bias=lambda v: f"{v.t}_load({job.symbol}_b + oc{offset(v.start)})",
            ep=ep,
            residual={k: job.inputs[k] for k in ep.tensors},
            residual_at=residual_pointer(job),
        )
        constants = (weights, padded_bias(job, shape), *ep.constants)
        return Kernel(code, constants, band=1, needs_math=ep.needs_math)


def _runs(shape: ConvShape, x: Layout) -> tuple[int, list[int]]:
    """The length of a run, and the offset of each run from the first element of a window."""
    rows = range(0, shape.kh * shape.dh, shape.dh)
    if shape.dw == 1 and x.col == shape.ic:
        return shape.kw * shape.ic, [r * x.row for r in rows]
    columns_ = range(0, shape.kw * shape.dw, shape.dw)
    return shape.ic, [r * x.row + c * x.col for r in rows for c in columns_]


def _pack(job: Job, shape: ConvShape, length: int, lanes: int) -> tuple[ConstArray, int]:
    """Weights as [oc][run][lanes], zero-padded; and the padded length of a run."""
    pitch = -(-length // lanes) * lanes
    w = job.constant(shape.weight).reshape(-1, length, shape.oc)
    packed = np.zeros((shape.oc, w.shape[0], pitch), np.float32)
    packed[:, :, :length] = w.transpose(2, 0, 1)
    return ConstArray(
        f"{job.symbol}_w", packed.reshape(-1), "weights [oc][run][lanes]", is_weights=True
    ), pitch
