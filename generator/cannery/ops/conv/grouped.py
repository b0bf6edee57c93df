"""Grouped convolution with the output channels of a group in the lanes, channels last.

It is legal for any number of groups, so it is also the last resort for convolutions. See
`cannery.ops.shared.tap_conv` for the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.layouts import Halo
from cannery.ops.conv.geometry import conv_shape, sizes
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.tap_conv import TapPhase, TapSchedule, TapShape, tap_kernel
from cannery.schedule.program import Step
from cannery.schedule.schedule import Job, Kernel, schedule
from cannery.target.isa import Isa


@schedule
@dataclass(frozen=True)
class ConvGrouped(TapSchedule):
    """See the module docstring."""

    id = "conv.grouped"
    movable = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        shape = conv_shape(graph, step)
        if shape is None:
            return "not a 2D convolution with constant weights"
        if shape.group == 1:
            return "not grouped"
        return epilogues.why_not(step)

    def taps(self, graph: Graph, step: Step) -> TapShape:
        s = sizes(graph, step)  # one phase; its cell is the input under the output
        taps = tuple((kh, kw) for kh in range(s.kh) for kw in range(s.kw))
        cells = tuple((kh * s.dh - s.top, kw * s.dw - s.left) for kh, kw in taps)
        return TapShape(
            s.oh, s.ow, s.ic // s.group, s.oc // s.group, s.group, 1, 1, s.sh, s.sw,
            (TapPhase(cells, taps),),
        )  # fmt: skip

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo

    def kernel(self, job: Job) -> Kernel:
        shape = sizes(job.graph, job.step)
        return tap_kernel(
            job, self.taps(job.graph, job.step), job.constant(shape.weight), shape.bias
        )
