"""A convolution of a small image and the pooling after it, with the result in one vector's lanes.

See `cannery.ops.conv.plane`: the pooling combines whole vectors, so lanes stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ops.chains.winograd_pooled import RISING
from cannery.ops.conv.geometry import sizes as conv_sizes
from cannery.ops.conv.geometry import why_not_dense
from cannery.ops.conv.plane import LANES, Behind, Plane, PlaneSchedule, why_not_epilogue
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.pool import pool_shape
from cannery.ops.shared.pool import sizes as pool_sizes
from cannery.schedule.program import Step
from cannery.schedule.schedule import Job, schedule
from cannery.target.isa import Isa


@schedule
@dataclass(frozen=True)
class ChainsPooledPlane(PlaneSchedule):
    """See the module docstring."""

    id = "chains.pooled_plane"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if LANES not in isa.lanes:
            return f"no vectors of {LANES} lanes"
        if len(step.parts) != 2:
            return "not a chain of 2 steps"
        first, second = step.parts
        if reason := why_not_dense(graph, first) or _why_not_side_by_side(graph, second):
            return reason
        plane = self.plane(graph, step)
        if reason := plane.why_not():
            return reason
        return next(
            filter(None, (
                why_not_epilogue(graph, part.epilogue, part.anchor.output, plane.group)
                for part in step.parts
            )), "",
        )  # fmt: skip

    def plane(self, graph: Graph, step: Step) -> Plane:
        shape, pool = conv_sizes(graph, step.parts[0]), pool_sizes(graph, step.parts[1])
        window = pool.rows.taps, pool.cols.taps
        return Plane(shape, window, pool.rows.out, pool.cols.out, shape.iw)

    def behind(self, job: Job) -> Behind:
        first, second = job.step.parts
        pool = pool_sizes(job.graph, second)
        late = pool.maximum and all(isinstance(node.op, RISING) for node in first.epilogue)
        return Behind(
            epilogues.build(job, first.anchor.output, first.epilogue),
            late,
            pool.combine,
            "" if pool.maximum else c_float(1.0 / pool.taps),
            epilogues.build(replace(job, symbol=f"{job.symbol}_pool"), second.anchor.output),
        )


def _why_not_side_by_side(graph: Graph, step: Step) -> str:
    """Why a step is not a pooling with adjacent windows that all lie within the image."""
    pool = pool_shape(graph, step)
    if pool is None:
        return "does not end with a pooling"
    for axis in (pool.rows, pool.cols):
        if (axis.stride, axis.dilation, axis.pad) != (axis.taps, 1, 0):
            return "windows are not adjacent"
        if axis.taps * axis.out > axis.size:
            return "a window crosses the border"
    return ""
