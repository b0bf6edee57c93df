"""Two convolutions of all channels, row by row: the image between them never exists as a whole.

This always saves memory. It saves time where that image exceeds the caches and the convolutions do
little work per pixel, as in the first layers of networks for large images.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.chains.rows import RowChain
from cannery.ops.conv.geometry import conv_shape
from cannery.schedule.caches import FAR_BYTES
from cannery.schedule.program import Step
from cannery.schedule.schedule import schedule

#: Smaller images come from the caches quickly enough (measured: 1 MB lost, 2 MB gained).
LARGE_BYTES = FAR_BYTES // 2

#: Multiply-accumulates per element between them beyond which arithmetic hides all transport.
MOST_MACS = 128


@schedule
@dataclass(frozen=True)
class ChainsConvolutions(RowChain):
    """See the module docstring."""

    id = "chains.convolutions"
    kept = (3, 3)

    def unfit(self, graph: Graph, step: Step) -> str:
        shapes = [conv_shape(graph, part) for part in step.parts]
        if any(shape is None or shape.group != 1 for shape in shapes):
            return "not two convolutions of all channels"
        between = graph.types[step.parts[0].output]
        if between.bytes < LARGE_BYTES * between.shape[0]:
            return "the values between them stay in the caches"
        busy = step.macs(graph) > MOST_MACS * between.elements
        return "arithmetic hides the savings" if busy else ""
