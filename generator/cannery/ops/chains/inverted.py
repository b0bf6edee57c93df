"""Inverted residual: pointwise, depthwise and pointwise convolution, row by row.

The many channels in the middle exist only for a few rows: one line buffer holds the rows of the
depthwise window, another its outputs. The first convolution may have any window, as in the stem of
a network.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.chains.rows import RowChain
from cannery.ops.conv.geometry import conv_shape
from cannery.schedule.program import Step
from cannery.schedule.schedule import schedule


@schedule
@dataclass(frozen=True)
class ChainsInverted(RowChain):
    """See the module docstring."""

    id = "chains.inverted"
    kept = (2, 1, 3)

    def unfit(self, graph: Graph, step: Step) -> str:
        first, second, third = (conv_shape(graph, part) for part in step.parts)
        if first is None or first.group > 1:
            return "does not begin with a dense convolution"
        if second is None or not second.depthwise:
            return "not depthwise in the middle"
        return "" if third and third.pointwise else "does not end with a pointwise convolution"
