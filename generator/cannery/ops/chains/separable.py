"""Separable convolution: a depthwise and a pointwise (1x1) convolution, row by row.

The depthwise outputs of a few rows lie in a line buffer, and are read from there while they are
in the first-level cache. Both parts are the ordinary schedules, see `cannery.ops.chains.rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from cannery.ir.graph import Graph
from cannery.layouts import Want
from cannery.ops.chains import rows
from cannery.ops.conv.geometry import conv_shape
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Rows of the output at a time.
ROWS = (1, 2, 4)

#: Candidates of the parts that are combined.
KEPT = (2, 4)


@schedule
@dataclass(frozen=True)
class ChainsSeparable(Schedule):
    """See the module's text."""

    id = "chains.separable"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if len(step.parts) != 2:
            return "not a chain of two steps"
        shapes = [conv_shape(graph, part) for part in step.parts]
        if shapes[0] is None or not shapes[0].depthwise:
            return "does not begin with a depthwise convolution"
        second = shapes[1]
        if second is None or second.group != 1 or second.taps != 1 or second.halo:
            return "does not end with a pointwise convolution"
        if (second.sh, second.sw) != (1, 1):
            return "the pointwise convolution has strides"
        missing = [part for part in step.parts if not rows.sub_options(graph, part, isa, 1)]
        return "a part has no movable schedule" if missing else ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        height = graph.types[step.output].shape[1]
        return [
            {
                "rows": count,
                **rows.part_params("a", *first[:2]),
                **rows.part_params("b", *second[:2]),
            }
            for count in sorted({min(r, height) for r in ROWS})
            for first, second in product(
                *(
                    rows.sub_options(graph, part, isa, kept, count)
                    for part, kept in zip(step.parts, KEPT, strict=True)
                )
            )
        ]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return rows.chain_reads(graph, step, params, isa)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return rows.chain_cost(graph, step, params, isa)

    def kernel(self, job: Job) -> Kernel:
        return rows.chain_kernel(job)
