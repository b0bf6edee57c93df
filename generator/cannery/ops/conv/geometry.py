"""The numbers of a 2D convolution step that every schedule needs, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.layouts import Halo, image_dims
from cannery.ops.conv.op import Conv
from cannery.ops.shared.epilogue import padded_channels
from cannery.ops.window import Pads
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Job


@dataclass(frozen=True)
class ConvShape:
    """Sizes of one image's convolution. ih, iw, ic: input; oh, ow, oc: output; kh, kw: kernel."""

    ih: int
    iw: int
    ic: int
    oh: int
    ow: int
    oc: int
    kh: int
    kw: int
    sh: int
    sw: int
    dh: int
    dw: int
    top: int
    left: int
    group: int
    weight: str
    bias: str

    @property
    def depthwise(self) -> bool:
        """Whether every input channel has its own filters."""
        return self.group == self.ic and self.group > 1

    @property
    def pointwise(self) -> bool:
        """Whether each pixel is computed from that pixel alone, every output channel from all
        inputs.
        """
        same = (self.oh, self.ow) == (self.ih, self.iw) and not self.halo
        return same and self.taps == 1 and self.group == 1 and (self.sh, self.sw) == (1, 1)

    @property
    def halo(self) -> Halo:
        """The border around the image that the windows read."""
        below = (self.oh - 1) * self.sh + (self.kh - 1) * self.dh - self.top - (self.ih - 1)
        right = (self.ow - 1) * self.sw + (self.kw - 1) * self.dw - self.left - (self.iw - 1)
        return Halo(max(self.top, 0), max(below, 0), max(self.left, 0), max(right, 0))

    @property
    def taps(self) -> int:
        return self.kh * self.kw


def conv_shape(graph: Graph, step: Step) -> ConvShape | None:
    """The sizes, if the step's only anchor is a 2D Conv with constant weights."""
    return graph.once("conv", (step,), lambda: _conv_shape(graph, step))


def _conv_shape(graph: Graph, step: Step) -> ConvShape | None:
    node = step.anchor
    op = node.op
    if len(step.anchors) != 1 or not isinstance(op, Conv) or len(op.strides) != 2:
        return None
    weight = node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    if weight not in graph.constants or (bias and bias not in graph.constants):
        return None
    return shape_of(graph, node, op.strides, op.pads, op.dilations, op.group, bias)


def shape_of(
    graph: Graph, node: Node, strides: Sequence[int], pads: Pads, dilations: Sequence[int],
    group: int = 1, bias: str = "",
) -> ConvShape:  # fmt: skip
    """The sizes of any node that reads an image and weights as a 2D convolution does."""
    _, ih, iw, ic = image_dims(graph.types[node.inputs[0]])
    _, oh, ow, oc = image_dims(graph.types[node.output])
    kh, kw = graph.types[node.inputs[1]].shape[:2]
    (sh, sw), (dh, dw) = strides, dilations
    return ConvShape(
        ih, iw, ic, oh, ow, oc, kh, kw, sh, sw, dh, dw,
        pads[0][0], pads[1][0], group, node.inputs[1], bias,
    )  # fmt: skip


def sizes(graph: Graph, step: Step) -> ConvShape:
    """The sizes of a step that a schedule accepted as such a convolution."""
    shape = conv_shape(graph, step)
    assert shape is not None
    return shape


def why_not_dense(graph: Graph, step: Step) -> str:
    """Why a step is not a 2D convolution of all channels with constant weights; empty if it is."""
    shape = conv_shape(graph, step)
    if shape is None:
        return "not a 2D convolution with constant weights"
    return "grouped" if shape.group != 1 else ""


def why_not_3x3(graph: Graph, step: Step) -> str:
    """Like `why_not_dense`, for 3x3 windows with stride 1, as in Winograd's F(m x m, 3 x 3)."""
    if reason := why_not_dense(graph, step):
        return reason
    s = sizes(graph, step)
    plain = (s.kh, s.kw, s.sh, s.sw, s.dh, s.dw) == (3, 3, 1, 1, 1, 1)
    return "" if plain else "not 3x3 with stride 1"


def padded_bias(job: Job, shape: ConvShape) -> ConstArray:
    """`<symbol>_b`: the bias per channel (zeros if there is none), padded with zeros."""
    bias = job.constant(shape.bias) if shape.bias else np.zeros(shape.oc, np.float32)
    return ConstArray(f"{job.symbol}_b", padded_channels(bias), "bias [oc], padded")
