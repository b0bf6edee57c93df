"""Pooling of 2 x 2 windows on the phase-split layout, which chains of Winograd layers then keep.

See `cannery.ops.shared.quarters`. The result (`to`) can also be planar, for what follows such a
chain. `join`: lanes used to join windows before the results are laid out; 0: they are joined while
being laid out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cannery.ir.graph import Graph
from cannery.layouts import Want, phase_split, planar
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import pool, quarters
from cannery.ops.shared.function import describe
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Tunables:
    """Vectors of `lanes`; else see the module docstring."""

    lanes: int
    to: str
    join: int


@dataclass(frozen=True)
class PoolPhase(pool.PoolSchedule):
    """See the module docstring."""

    version: ClassVar[int] = 2

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        return super().why_not(graph, step, isa) or why_not_halves(pool.sizes(graph, step))

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = pool.sizes(graph, step)
        found: list[Tunables] = []
        for spread in spreads(shape, isa, residuals=len(step.inputs) > 1):
            joins = [w for w in isa.lanes if 1 < w <= spread.plane][-1:]
            alone = [0] if spread.lanes != 1 or not joins else []
            found += [Tunables(spread.lanes, spread.order, join) for join in (*alone, *joins)]
        return list(map(as_params, found))

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return tuple(Want(phase_split.ORDER) for _ in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (written(pool.sizes(graph, step), typed(Tunables, params).to),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        shape, p = pool.sizes(graph, step), typed(Tunables, params)
        work = 2.0 * len(step.epilogue) + (0.0 if shape.maximum else 1.0)
        spread = make_spread(shape, p.to, p.lanes)
        each = spread.cycles(1 if p.join else 4, work, isa)
        each += quarters.join_cycles(isa, spread.plane, p.join) if p.join else 0.0
        code = 16 * 4 * 8.0 if spread.form == "two_rows" else 4 * 4 * 8.0
        make = planar.make if spread.order == planar.ORDER else phase_split.make
        images = (phase_split.make(shape.input), make(shape.output))
        cycles = pool.streamed_cycles(shape.channels * each, images)
        return Estimate(cycles, code + (150.0 if p.join else 0.0))

    def kernel(self, job: Job) -> Kernel:
        shape, p = pool.sizes(job.graph, job.step), typed(Tunables, job.params)
        ep = epilogues.build(job, job.step.anchor.output)
        spread = make_spread(shape, p.to, p.lanes)
        code, masks = quarters.render_spread(
            job, spread, quarters.phase_source(job.inputs[0]), ep,
            maximum=shape.maximum, function=describe(job), join=p.join,
        )  # fmt: skip
        room = 4 * quarters.buffer(spread, 1).elements if p.join else 0
        constants = (*masks, *ep.constants)
        return Kernel(code, constants, room, band=4, needs_math=ep.needs_math)


def why_not_halves(shape: pool.PoolShape) -> str:
    """Why windows are not 2 x 2, adjacent, without padding."""
    for axis in (shape.rows, shape.cols):
        if (axis.taps, axis.stride, axis.dilation, axis.pad) != (2, 2, 1, 0):
            return "not 2x2 with stride 2"
        if 2 * axis.out > axis.size:
            return "a window crosses the border"
    return ""


def spreads(shape: pool.PoolShape, isa: Isa, *, residuals: bool) -> list[quarters.Spread]:
    """How results may be written; with residuals they are phase-split, because residuals are."""
    return [
        make_spread(shape, order, lanes)
        for order in quarters.ORDERS
        if order == phase_split.ORDER or not residuals
        for lanes in quarters.widths(shape.cols.out, order, isa)
    ]


def make_spread(shape: pool.PoolShape, order: str, lanes: int) -> quarters.Spread:
    """How the results of a pooling are written."""
    pitch = -(-shape.cols.size // 4)
    return quarters.Spread(shape.rows.out, shape.cols.out, pitch, order, lanes)


def written(shape: pool.PoolShape, order: str) -> Want:
    """The layout of the results: phase-split ones have zeros around them."""
    if order == planar.ORDER:
        return Want(order)
    return Want(order, phase_split.halo(shape.output))
