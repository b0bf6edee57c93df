"""Transposed convolution in gather form, output channels in the lanes, channels last.

Output o of an axis receives tap k from input i where  i * stride = o + pad - k * dilation. So
outputs with the same remainder by the stride (a phase) read the same taps at the same distances.
Each phase is an ordinary convolution of stride 1, and no zeros are multiplied. See
`cannery.ops.shared.tap_conv` for the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.graph import Graph
from cannery.layouts import Halo, image_dims
from cannery.ops.conv_transpose.op import MAX_PHASES, ConvTranspose
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.tap_conv import TapPhase, TapSchedule, TapShape, tap_kernel
from cannery.schedule.program import Step
from cannery.schedule.schedule import Job, Kernel, schedule
from cannery.target.isa import Isa


@schedule
@dataclass(frozen=True)
class ConvTransposeGather(TapSchedule):
    """See the module docstring."""

    id = "conv_transpose.gather"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        node = step.anchor
        op = node.op
        if len(step.anchors) != 1 or not isinstance(op, ConvTranspose) or len(op.strides) != 2:
            return "not a 2D transposed convolution"
        if any(value and value not in graph.constants for value in node.inputs[1:]):
            return "weights are not constant"
        if op.phases(graph.types[step.anchor.output].shape[1:3]) > MAX_PHASES:
            return "strides are too large"
        return epilogues.why_not(step)

    def taps(self, graph: Graph, step: Step) -> TapShape:
        node, op = step.anchor, _op(step)
        kh, kw, oc, _ = graph.types[node.inputs[1]].shape
        _, oh, ow, _ = image_dims(graph.types[node.output])
        ic = graph.types[node.inputs[0]].shape[-1] // op.group
        rows = _axis_taps(op.strides[0], oh, op.pads[0][0], op.dilations[0], kh)
        cols = _axis_taps(op.strides[1], ow, op.pads[1][0], op.dilations[1], kw)
        phases = tuple(
            TapPhase(
                tuple((row[0], col[0]) for row in in_rows for col in in_cols),
                tuple((row[1], col[1]) for row in in_rows for col in in_cols),
            )
            for in_rows in rows
            for in_cols in cols
        )
        sh, sw = min(op.strides[0], oh), min(op.strides[1], ow)
        return TapShape(oh, ow, ic, oc, op.group, sh, sw, 1, 1, phases)

    def halo(self, graph: Graph, step: Step) -> Halo:
        node, op = step.anchor, _op(step)
        _, ih, iw, _ = image_dims(graph.types[node.inputs[0]])
        _, oh, ow, _ = image_dims(graph.types[node.output])
        kernel = graph.types[node.inputs[1]].shape[:2]
        sides: list[int] = []
        for axis, (size, out) in enumerate(((ih, oh), (iw, ow))):
            stride = op.strides[axis]
            taps = _axis_taps(stride, out, op.pads[axis][0], op.dilations[axis], kernel[axis])
            ends = {*range(min(stride, out)), *range(max(out - stride, 0), out)}  # of every phase
            read = [o // stride + at for o in ends for at, _ in taps[o % stride]]
            sides += [max(-min(read, default=0), 0), max(max(read, default=0) - size + 1, 0)]
        return Halo(*sides)

    def kernel(self, job: Job) -> Kernel:
        node = job.step.anchor
        taps = self.taps(job.graph, job.step)
        kernel = job.constant(node.inputs[1])
        by_group = kernel.reshape(*kernel.shape[:3], taps.groups, taps.ic)
        # [kh][kw][oc of a group][group][ic] -> [kh][kw][ic][group][oc of a group]
        weight = np.ascontiguousarray(by_group.transpose(0, 1, 4, 3, 2))
        weight = weight.reshape(*kernel.shape[:2], taps.ic, taps.groups * taps.oc)
        bias = node.inputs[2] if len(node.inputs) > 2 else ""
        return tap_kernel(job, taps, weight, bias)


def _op(step: Step) -> ConvTranspose:
    op = step.anchor.op
    assert isinstance(op, ConvTranspose)
    return op


def _axis_taps(
    stride: int, size: int, pad: int, dilation: int, taps: int
) -> list[list[tuple[int, int]]]:
    """For each phase of `size` outputs: (input index from o // stride, tap) of all its taps."""
    phases: list[list[tuple[int, int]]] = []
    for phase in range(min(stride, size)):
        reach = [(phase + pad - tap * dilation, tap) for tap in range(taps)]
        phases.append([(at // stride, tap) for at, tap in reach if at % stride == 0])
    return phases
