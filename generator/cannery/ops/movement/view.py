"""Reads a region of a larger image, whose strides are known only at run time.

It is never a candidate: `lowering/assign.py` places it where an input is a view. Rows whose pixels
are apart are gathered, one at a time. `movement.strided` then reads that row, so a conversion from
bytes and the change of order before a convolution cost nothing extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.layouts import Layout, Want, nhwc
from cannery.ops.movement.strided import MovementStrided, elementwise_why_not
from cannery.ops.shared.function import describe
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule
from cannery.target.isa import Isa

#: Pixel distances, in elements, for which compilers may turn loops into vectors: YUYV, RGB, RGBA.
COMMON_STRIDES = (2, 3, 4)


@dataclass(frozen=True)
class MovementView(Schedule):
    """See the module docstring. The kernel has two more parameters, after the input."""

    id = "movement.view"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if len(step.inputs) != 1:
            return "reads more than the view"
        return elementwise_why_not(graph, step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return MovementStrided().candidates(graph, step, isa)

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(),)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return MovementStrided().writes(graph, step, params, isa)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return MovementStrided().cost(graph, step, params, isa)

    def kernel(self, job: Job) -> Kernel:
        (source,), target = job.inputs, job.output
        row = replace(
            job, symbol=f"{job.symbol}_row", inputs=(_row(source),), outputs=(_first_row(target),)
        )
        made = MovementStrided().kernel(row)
        _, width, channels = source.shape
        code = render(
            "ops/movement/view.c.j2",
            row=made.code,
            row_symbol=row.symbol,
            symbol=job.symbol,
            describe=describe(job),
            source=source,
            target=target,
            width=width,
            channels=channels,
            strides=[s for s in COMMON_STRIDES if s > channels],
            offset=offset,
        )
        scratch = width * channels * source.dtype.bytes
        return replace(made, code=code, scratch_bytes=-(-scratch // 4) * 4)


def _row(layout: Layout) -> Layout:
    """A dense row of a view."""
    _, width, channels = layout.shape
    return nhwc.make((1, width, channels), dtype=layout.dtype)


def _first_row(layout: Layout) -> Layout:
    """The first row of an image, wherever it begins."""
    _, width, channels = layout.shape
    return replace(layout, shape=(1, width, channels), origin=0)
