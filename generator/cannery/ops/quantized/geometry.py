"""Which steps are integer layers with constant weights, and the sizes of convolutions."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ops.conv.geometry import ConvShape, shape_of
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.matmul import QuantizedMatMul
from cannery.schedule.program import Step


def why_not_conv(graph: Graph, step: Step, *, depthwise: bool = False) -> str:
    """Why a step is not a QuantizedConv of that kind with constant weights; empty if it is."""
    op = step.anchor.op
    if not step.alone or not isinstance(op, QuantizedConv):
        return "not a quantised convolution alone"
    if op.depthwise != depthwise:
        return "not a depthwise convolution" if depthwise else "depthwise"
    return _why_varying(graph, step)


def why_not_product(graph: Graph, step: Step) -> str:
    """Why a step is not a QuantizedMatMul with constant weights; empty if it is."""
    if not step.alone or not isinstance(step.anchor.op, QuantizedMatMul):
        return "not a quantised product alone"
    return _why_varying(graph, step)


def _why_varying(graph: Graph, step: Step) -> str:
    x, *rest = step.anchor.inputs
    constant = x not in graph.constants and all(r in graph.constants for r in rest if r)
    return "" if constant else "only the input may vary"


def sizes(graph: Graph, step: Step) -> ConvShape:
    """The sizes of a quantised convolution."""
    op = step.anchor.op
    assert isinstance(op, QuantizedConv)
    return shape_of(graph, step.anchor, op.strides, op.pads, op.dilations)
