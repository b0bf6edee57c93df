"""Separable convolution: a depthwise and a pointwise (1x1) convolution, row by row.

A line buffer holds the depthwise outputs of a few rows, which are read while they are still in the
first-level cache. Both parts are the ordinary schedules, see `cannery.ops.chains.rows`. The first
may be a transposed convolution: upsampling before a depthwise one becomes that.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.chains.rows import RowChain
from cannery.ops.conv.geometry import conv_shape
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.conv_transpose.phases import is_depthwise
from cannery.schedule.program import Step
from cannery.schedule.schedule import schedule


@schedule
@dataclass(frozen=True)
class ChainsSeparable(RowChain):
    """See the module docstring."""

    id = "chains.separable"
    kept = (2, 4)

    def unfit(self, graph: Graph, step: Step) -> str:
        first, second = (conv_shape(graph, part) for part in step.parts)
        if not (first and first.depthwise) and not _transposed(graph, step.parts[0]):
            return "does not begin with a depthwise convolution"
        return "" if second and second.pointwise else "does not end with a pointwise convolution"


def _transposed(graph: Graph, part: Step) -> bool:
    """Whether a step is a transposed depthwise convolution."""
    return isinstance(part.anchor.op, ConvTranspose) and is_depthwise(graph, part.anchor)
