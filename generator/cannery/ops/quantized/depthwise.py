"""What the schedules of quantised depthwise convolutions have in common."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ops.conv.geometry import ConvShape, shape_of
from cannery.ops.quantized.conv import QuantizedConv
from cannery.schedule.program import Step

#: Neighbouring pixels of a tile.
PIXELS = (1, 2, 4, 6)

#: With more taps tiles are single pixels.
MAX_TAPS = 49


def why_not_alone(graph: Graph, step: Step) -> str:
    """Why a step is no quantised depthwise convolution with constant weights; empty if it is."""
    op = step.anchor.op
    if len(step.anchors) != 1 or not isinstance(op, QuantizedConv) or step.epilogue:
        return "not a quantised convolution alone"
    x, *rest = step.anchor.inputs
    if not op.depthwise:
        return "not a depthwise convolution"
    constant = x not in graph.constants and all(r in graph.constants for r in rest if r)
    return "" if constant else "the input alone may vary"


def pixel_choices(s: ConvShape) -> tuple[int, ...]:
    """The tiles that are worth trying."""
    return PIXELS if s.taps <= MAX_TAPS else PIXELS[:1]


def sizes_of(graph: Graph, step: Step) -> ConvShape:
    """The sizes of a legal step."""
    op = step.anchor.op
    assert isinstance(op, QuantizedConv)
    return shape_of(graph, step.anchor, op.strides, op.pads, op.dilations)
