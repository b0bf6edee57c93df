"""Pooling with channels in the lanes, channels last in and out.

A tile of `px` neighbouring outputs keeps its accumulators in registers. An input column that
several windows share is loaded once, and joined over its rows once. `unroll` says which loops are
left: kh (none), kw (over the kernel's rows), none (over rows and columns).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.layouts import nhwc
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import pool
from cannery.ops.shared.function import describe, residual_pointer, signature
from cannery.ops.shared.lanes import Vec, VecLoop, split_lanes, vector_loops
from cannery.ops.shared.tiles import PARTIAL_COST, pixel_tiles, widths
from cannery.schedule.caches import L1_BYTES
from cannery.schedule.cost import busy_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params
from cannery.target.isa import Isa

#: Neighbouring outputs per tile.
PIXELS = (1, 2, 3, 4, 6)

#: What each output of a tile beyond the first costs, as a fraction of the whole: where there are
#: several vectors of channels; where compilers join scalars to vectors; and where, in addition, the
#: input comes from beyond the first-level cache.
WIDE, WIDE_JOINED, WIDE_FAR = 0.02, 0.055, 0.2

#: Most scalar channels in line, as vectors of four.
MAX_IN_LINE = 32


@dataclass(frozen=True)
class Tunables:
    """Vectors no wider than `lanes`; else see the module docstring."""

    lanes: int
    px: int
    unroll: str


@dataclass(frozen=True)
class PoolDirectC(pool.PoolSchedule):
    """See the module docstring."""

    #: For rows where no window crosses the upper or lower border.
    movable = True

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = pool.sizes(graph, step)
        widest = max((span.count for span in shape.cols.spans()), default=1)
        found: list[Tunables] = []
        for lanes in widths(shape.channels, isa):
            for unroll in pool.unroll_levels(shape):
                for px in PIXELS if unroll != "none" else (1,):
                    if px <= max(isa.registers // 2, 1) and px <= widest:
                        found.append(Tunables(lanes, px, unroll))
        return list(map(as_params, found))

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, shape = typed(Tunables, params), pool.sizes(graph, step)
        px = p.px
        split = split_lanes(shape.channels, isa, p.lanes)
        vectors = sum(1.0 if vec.full else PARTIAL_COST for vec in split)
        kh, kw = shape.rows.taps, shape.cols.taps
        columns = min((px - 1) * shape.cols.stride + kw, px * kw)
        loads = columns * kh / px
        joins = (columns * (kh - 1) / px if p.unroll == "kh" else kw * (kh - 1)) + kw
        looped = {"kh": 0.0, "kw": kh / px, "none": float(kh * kw)}[p.unroll]
        extra = 1.0 + len(step.epilogue)
        cycles = busy_cycles(isa, joins + extra, loads, 1.0, lanes=p.lanes)
        looped += (0.75 if isa.bits == 64 else 2.0) / px  # 64-bit cores run loops ahead
        total = shape.rows.out * shape.cols.out * vectors * (cycles + looped)
        total = pool.streamed_cycles(total, [nhwc.make(shape.input), nhwc.make(shape.output)])
        if len(split) > 1:  # memory is not walked in order
            total *= 1.0 + _wide(shape, isa) * (px - 1)
        code = 6.0 * px * (loads + joins + extra) * len(shape.row_versions)
        return Estimate(total, code)

    def kernel(self, job: Job) -> Kernel:
        p, shape = typed(Tunables, job.params), pool.sizes(job.graph, job.step)
        ep = epilogues.build(job, job.step.anchor.output)
        vectors = split_lanes(shape.channels, job.isa, p.lanes)
        code = render(
            "ops/shared/pool_c.c.j2",
            s=shape,
            p=p,
            x=job.inputs[0],
            y=job.output,
            ep=ep,
            loops=_loops(vectors, shape, job.isa),
            tile_columns=pool.tile_columns,
            pixel_tiles=pixel_tiles,
            residual={k: job.inputs[k] for k in ep.tensors},
            residual_at=residual_pointer(job),
            signature=signature(job, band=True),
            describe=describe(job),
        )
        return Kernel(code, ep.constants, band=1, needs_math=ep.needs_math)


def _wide(shape: pool.PoolShape, isa: Isa) -> float:
    """What each output of a tile beyond the first costs, as a fraction of the whole."""
    if not _joins(shape, isa):
        return WIDE
    return WIDE_JOINED if nhwc.make(shape.input).bytes <= L1_BYTES else WIDE_FAR


def _joins(shape: pool.PoolShape, isa: Isa) -> bool:
    """Whether compilers turn loops over channels into loops over vectors on their own.

    They do on 64-bit processors; there, wide tiles gain only the columns that outputs share.
    """
    apart = shape.cols.stride >= shape.cols.taps
    return isa.joins_scalars and apart


def _loops(vectors: Sequence[Vec], shape: pool.PoolShape, isa: Isa) -> list[VecLoop]:
    """Loops over channels; groups of four where compilers turn each into a vector, if few are in
    line.
    """
    if not _joins(shape, isa) or len(vectors) > MAX_IN_LINE:
        return vector_loops(vectors)
    return [VecLoop(vectors[k], len(vectors[k : k + 4])) for k in range(0, len(vectors), 4)]
