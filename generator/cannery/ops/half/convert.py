"""float32 to half precision and back, row by row, between layouts with channels last.

Where neither has gaps between pixels, the pixels of a row are one run of vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.movement.op import Cast
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import vector_runs
from cannery.schedule.cost import stream_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

FLOATS = {DType.FLOAT32, DType.HALF}


@schedule
@dataclass(frozen=True)
class HalfConvert(FixedSchedule):
    """See the module docstring."""

    id = "half.convert"
    computes_half = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not isa.has("half"):
            return "no arithmetic in half precision"
        types = {graph.types[value].dtype for value in (*step.inputs, *step.outputs)}
        if not step.alone or not isinstance(step.anchor.op, Cast) or types != FLOATS:
            return "not a conversion between float32 and half precision"
        return ""

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(stream_cycles(isa, graph.types[step.output].elements, 1.0, 1.0, 1.0))

    def kernel(self, job: Job) -> Kernel:
        x, y = job.inputs[0], job.output
        _, width, channels = y.shape
        joined = x.col == y.col == channels
        count = width * channels if joined else channels
        code = render(
            "ops/half/convert.c.j2",
            describe=describe(job),
            signature=signature(job, band=True),
            x=x,
            y=y,
            columns=1 if joined else width,
            runs=[(v, n) for v, n in vector_runs(count, job.isa.in_half)],
            to_half=y.dtype is DType.HALF,
        )
        return Kernel(code, band=1, needs_half=True)
