"""Transposed convolution in gather form: one ordinary convolution per phase of the output.

The same taps reach all outputs whose row and column leave the same remainder modulo the strides
(one phase). So each phase is a convolution of stride 1 with those taps, flipped, which writes every
stride-th row and column: `conv.direct_oc` on a layout with multiplied pitches. A group is a block
of a matrix that is zero elsewhere; depthwise ones have their own schedule, based on
`conv.depthwise_c`. The phases take turns, a band of rows at a time, so that the band stays in the
cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import render
from cannery.ir.graph import Graph, Node
from cannery.ir.tensor import TensorType
from cannery.layouts import Halo, Layout, image_dims
from cannery.ops.conv.depthwise_c import ConvDepthwiseC
from cannery.ops.conv.direct_oc import ConvDirectOc
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.conv.geometry import sizes as conv_sizes
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import MAX_PHASES, ConvTranspose
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Limit on the bytes of a band's inputs.
BAND_BYTES = 16 * 1024


@dataclass(frozen=True)
class Line:
    """One phase along one axis: outputs phase, phase+stride ...; output i of it reads, by its
    tap t (kernel index `taps[t]`), input  i + t * dilation - pad.
    """

    phase: int
    size: int
    taps: tuple[int, ...]
    dilation: int
    pad: int


@dataclass(frozen=True)
class PhaseConv:
    """One phase of the output, as a separate convolution step in its own graph."""

    rows: Line
    cols: Line
    graph: Graph
    step: Step


def lines(size: int, kernel: int, stride: int, dilation: int, begin: int) -> list[Line]:
    """The phases along an axis with `size` outputs. A phase that no tap reaches has no taps."""
    found = []
    for phase in range(min(stride, size)):
        count = -(-(size - phase) // stride)
        taps = [k for k in range(kernel) if (phase + begin - k * dilation) % stride == 0]
        # Output i reads input i + (phase + begin - k*dilation) / stride: flipped, it ascends.
        first = (phase + begin - taps[-1] * dilation) // stride if taps else 0
        step = dilation // gcd(stride, dilation)
        found.append(Line(phase, count, tuple(taps[::-1]), step, -first))
    return found


def phases(graph: Graph, step: Step) -> list[PhaseConv]:
    """All phases of a 2D transposed convolution with constant weights."""
    node = step.anchor
    op = node.op
    assert isinstance(op, ConvTranspose)
    weight = (
        depthwise_weight(graph, node) if is_depthwise(graph, node) else dense_weight(graph, node)
    )
    _, oh, ow, _ = image_dims(graph.types[node.output])
    (sh, sw), (dh, dw) = op.strides, op.dilations
    kh, kw = weight.shape[:2]
    all_rows = lines(oh, kh, sh, dh, op.pads[0][0])
    all_cols = lines(ow, kw, sw, dw, op.pads[1][0])
    return [_phase(graph, step, weight, r, c) for r in all_rows for c in all_cols]


def is_depthwise(graph: Graph, node: Node) -> bool:
    """Whether each channel of a transposed convolution has one input and makes one output."""
    op = node.op
    assert isinstance(op, ConvTranspose)
    return op.group == graph.types[node.inputs[0]].shape[-1] == graph.types[node.output].shape[-1]


def depthwise_weight(graph: Graph, node: Node) -> NDArray[np.float32]:
    """[kh,kw,1,C], as Conv has it."""
    return np.asarray(graph.constants[node.inputs[1]], np.float32)


def dense_weight(graph: Graph, node: Node) -> NDArray[np.float32]:
    """[kh,kw,IC,OC] without groups, from [kh,kw,OC/group,IC]."""
    op = node.op
    assert isinstance(op, ConvTranspose)
    grouped = np.asarray(graph.constants[node.inputs[1]], np.float32).transpose(0, 1, 3, 2)
    kh, kw, ic, made = grouped.shape
    dense = np.zeros((kh, kw, ic, made * op.group), np.float32)
    taken = ic // op.group
    for g in range(op.group):
        rows = slice(g * taken, (g + 1) * taken)
        dense[:, :, rows, g * made : (g + 1) * made] = grouped[:, :, rows]
    return dense


def _phase(
    graph: Graph, step: Step, weight: NDArray[np.float32], rows: Line, cols: Line
) -> PhaseConv:
    """The graph of one phase: the convolution, then the step's epilogue, on smaller types."""
    node = step.anchor
    if rows.taps and cols.taps:
        part = weight[list(rows.taps)][:, list(cols.taps)]
    else:
        part = np.zeros((1, 1, *weight.shape[2:]), np.float32)
    kernel = np.ascontiguousarray(part)
    group = graph.types[node.inputs[0]].shape[-1] // weight.shape[2]
    op = Conv((1, 1), ((rows.pad, 0), (cols.pad, 0)), (rows.dilation, cols.dilation), group)
    name = f"{node.name}/phase"
    conv = Node(op, node.name, (node.inputs[0], name, *node.inputs[2:]), node.outputs)
    types = dict(graph.types)
    types[name] = TensorType(kernel.shape)
    values = {node.output, *step.inputs[1:], *(n.output for n in step.epilogue)}
    for value in values:
        batch, _, _, channels = image_dims(graph.types[value])
        types[value] = TensorType((batch, rows.size, cols.size, channels))
    constants = {**graph.constants, name: kernel}
    small = replace(graph, nodes=(conv, *step.epilogue), types=types, constants=constants)
    return PhaseConv(rows, cols, small, replace(step, anchors=(conv,)))


@dataclass(frozen=True)
class Phases(Schedule):
    """See the module docstring; the tunables are those of the schedule of each phase."""

    movable = True
    halves = True
    each: ClassVar[Schedule]
    depthwise: ClassVar[bool]

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if len(step.anchors) != 1 or not isinstance(op, ConvTranspose) or len(op.strides) != 2:
            return "not a 2D transposed convolution"
        if any(i and i not in graph.constants for i in step.anchor.inputs[1:]):
            return "weights are not constant"
        if op.phases(graph.types[step.anchor.output].shape[1:3]) > MAX_PHASES:
            return "strides are too large"
        if is_depthwise(graph, step.anchor) != self.depthwise:
            return "depthwise" if not self.depthwise else "not depthwise"
        return epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        largest = max(phases(graph, step), key=lambda p: len(p.rows.taps) * len(p.cols.taps))
        return self.each.candidates(largest.graph, largest.step, isa)

    def halo(self, graph: Graph, step: Step) -> Halo:
        halo = Halo()
        for phase in phases(graph, step):
            halo = halo.union(conv_sizes(phase.graph, phase.step).halo)
        return halo

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        parts = [self.each.cost(p.graph, p.step, params, isa) for p in phases(graph, step)]
        return Estimate(sum(p.cycles for p in parts), sum(p.code_bytes for p in parts))

    def kernel(self, job: Job) -> Kernel:
        op = job.step.anchor.op
        assert isinstance(op, ConvTranspose)
        stride, stride_x = op.strides
        found = phases(job.graph, job.step)
        kernels = [self._sub_kernel(job, p, stride, stride_x, k) for k, p in enumerate(found)]
        x = job.inputs[0]
        code = render(
            "ops/conv_transpose/phases.c.j2",
            rows=max(1, BAND_BYTES // (4 * x.row)) * stride,
            output_rows=job.output.shape[0],
            parts=[k.code for k in kernels],
            found=found,
            stride=stride,
            symbol=job.symbol,
            names=parameter_names(job),
            describe=describe(job),
            signature=signature(job, band=True),
        )
        constants = tuple(c for k in kernels for c in k.constants)
        return Kernel(code, constants, band=stride, needs_math=kernels[0].needs_math)

    def _sub_kernel(
        self, job: Job, phase: PhaseConv, stride: int, stride_x: int, number: int
    ) -> Kernel:
        def lattice(layout: Layout) -> Layout:
            """Every stride-th row and column of an image."""
            return replace(
                layout,
                shape=(phase.rows.size, phase.cols.size, layout.shape[2]),
                row=layout.row * stride,
                col=layout.col * stride_x,
                origin=layout.at(phase.rows.phase, phase.cols.phase, 0),
            )

        shape = conv_sizes(phase.graph, phase.step)
        sub = Job(
            phase.graph,
            phase.step,
            job.isa,
            _fitted(job.params, shape),
            f"{job.symbol}_p{number}",
            (job.inputs[0], *map(lattice, job.inputs[1:])),
            (lattice(job.output),),
            job.in_place,
        )
        return self.each.kernel(sub)


def _fitted(params: Params, shape: ConvShape) -> Params:
    """The parameters, with tiles made no larger than a phase."""
    sizes = {"mr": shape.ow, "mh": shape.oh}
    return {k: min(int(v), sizes[k]) if k in sizes else v for k, v in params.items()}


@schedule
@dataclass(frozen=True)
class ConvTransposePhases(Phases):
    """Output channels in the lanes, each from all input channels of its group."""

    id = "conv_transpose.phases"
    each = ConvDirectOc()
    depthwise = False


@schedule
@dataclass(frozen=True)
class ConvTransposeDepthwise(Phases):
    """Channels in the lanes, each on its own."""

    id = "conv_transpose.depthwise"
    each = ConvDepthwiseC()
    depthwise = True
