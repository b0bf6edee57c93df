"""Grouped convolution with the output channels of a group in the lanes, channels last.

Legal for any number of groups, so it is also the last resort of convolutions: see
`cannery.ops.shared.tap_conv` for the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.layouts import Want
from cannery.ops.conv.geometry import ConvShape, conv_shape, sizes
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.tap_conv import (
    TapPhase,
    TapShape,
    tap_candidates,
    tap_code_bytes,
    tap_cycles,
    tap_kernel,
)
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa


@schedule
@dataclass(frozen=True)
class ConvGrouped(Schedule):
    """See the module's text."""

    id = "conv.grouped"
    movable = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        shape = conv_shape(graph, step)
        if shape is None:
            return "not a 2D convolution with constant weights"
        if shape.group == 1:
            return "not grouped"
        return "" if epilogues.step_supports(step) else "epilogue not elementwise"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return tap_candidates(_taps(sizes(graph, step)), isa, self.label)

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want("nhwc", sizes(graph, step).halo), *(Want("nhwc") for _ in step.inputs[1:]))

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want("nhwc"),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        taps = _taps(sizes(graph, step))
        return Estimate(tap_cycles(taps, params, isa), tap_code_bytes(taps, params))

    def kernel(self, job: Job) -> Kernel:
        shape = sizes(job.graph, job.step)
        return tap_kernel(job, _taps(shape), job.constant(shape.weight), shape.bias)


def _taps(s: ConvShape) -> TapShape:
    """One phase, whose cell is the input under the output; its taps in row-major order."""
    taps = tuple((kh, kw) for kh in range(s.kh) for kw in range(s.kw))
    cells = tuple((kh * s.dh - s.top, kw * s.dw - s.left) for kh, kw in taps)
    return TapShape(
        s.oh, s.ow, s.ic // s.group, s.oc // s.group, s.group, 1, 1, s.sh, s.sw,
        (TapPhase(cells, taps),),
    )  # fmt: skip
