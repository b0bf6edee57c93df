"""Pooling of 2 x 2 windows on the phase-split layout, so that chains of Winograd stay in it.

The four pixels of a window are four planes at the same place. A tile of 4 x 4 pixels becomes 2 x 2:
those of even and odd tiles are different planes of the result, hence the de-interleaving loads.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cannery.emit.environment import render
from cannery.ir.graph import Graph
from cannery.layouts import Want, phase_split
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import pool
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec
from cannery.ops.shared.tiles import cover
from cannery.schedule.cost import CORE
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class PoolPhase(Schedule):
    """See the module's text."""

    @abstractmethod
    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        """Why the step is not the operator of the schedule's name."""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        pairs = max(_pairs(_shape(graph, step), 0), 1)
        widths = [w for w in isa.lanes if w <= pairs]
        return [{"lanes": lanes} for lanes in (widths[-2:] if widths[-1] > 4 else widths[-1:])]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return tuple(Want(phase_split.ORDER) for _ in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(phase_split.ORDER),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        shape = _shape(graph, step)
        lanes = int(params["lanes"])
        shuffles = 0.0 if lanes == 1 else 8.0 if lanes == 4 else 16.0
        work = shuffles + 8.0 + 2.0 * len(step.epilogue)
        each = max(work / CORE.arithmetic, (work + 10.0) / CORE.issue) + 2.0
        count = sum(v.count for b in (0, 1) for v in cover(0, _pairs(shape, b), isa, lanes))
        return Estimate(shape.rows.out * shape.channels * (count * each + 4.0), 12.0 * work)

    def kernel(self, job: Job) -> Kernel:
        shape = _shape(job.graph, job.step)
        ep = epilogues.build(job, job.step.anchor.output)
        lanes = int(job.params["lanes"])
        code = render(
            "ops/shared/pool_phase.c.j2",
            s=shape,
            x=job.inputs[0],
            y=job.output,
            ep=ep,
            pairs=[_pairs(shape, b) for b in (0, 1)],
            single=[_has_single(shape, b) for b in (0, 1)],
            cover=lambda count: cover(0, count, job.isa, lanes),
            one=Vec(0, 1, 1, 0),
            residuals={k: job.inputs[k] for k in ep.tensors},
            residual=_residual(job),
            signature=signature(job, band=True),
            describe=describe(job),
        )
        return Kernel(code, ep.constants, band=1, needs_math=ep.needs_math)


def why_not_phase(graph: Graph, step: Step, op: type[MaxPool] | type[AveragePool]) -> str:
    """Why a step is no pooling of 2 x 2 windows, one beside the other."""
    reason = pool.why_not_pool(graph, step, op)
    if reason:
        return reason
    shape = _shape(graph, step)
    for axis in (shape.rows, shape.cols):
        if (axis.taps, axis.stride, axis.dilation, axis.pad) != (2, 2, 1, 0):
            return "not 2x2 with stride 2"
        if 2 * axis.out > axis.size:
            return "a window reaches over the border"
    return ""


def _shape(graph: Graph, step: Step) -> pool.PoolShape:
    shape = pool.pool_shape(graph, step)
    assert shape is not None
    return shape


def _pairs(shape: pool.PoolShape, b: int) -> int:
    """Pairs of tiles that both have a result in column b of their 2 x 2."""
    return (shape.cols.out - b + 1) // 4


def _has_single(shape: pool.PoolShape, b: int) -> bool:
    """Whether one more tile has."""
    return (shape.cols.out - b + 3) // 4 > _pairs(shape, b)


def _residual(job: Job) -> Callable[[int, str], Callable[[int], str]]:
    """(column of the result's planes, tile) -> input index -> C pointer."""

    def at(column: int, tile: str) -> Callable[[int], str]:
        def pointer(k: int) -> str:
            layout = job.inputs[k]
            return f"r{k}r + (c * {layout.channel} + {column * layout.phase} + {tile})"

        return pointer

    return at
