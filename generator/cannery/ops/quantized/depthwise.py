"""What the schedules of quantised depthwise convolutions have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Halo
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.quantized.geometry import sizes, why_not_conv
from cannery.schedule.program import Step
from cannery.schedule.schedule import Schedule
from cannery.target.isa import Isa

#: Neighbouring pixels of a tile.
PIXELS = (1, 2, 4, 6)

#: With more taps, tiles are single pixels.
MAX_TAPS = 49


@dataclass(frozen=True)
class QuantizedDepthwise(Schedule):
    """Legality and layouts: channels last, inputs of the types in `accepts`."""

    accepts: ClassVar[tuple[DType, ...]]

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_conv(graph, step, depthwise=True):
            return reason
        found = graph.types[step.anchor.inputs[0]].dtype
        return "" if found in self.accepts else f"not for {found.value}"

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo


def pixel_choices(s: ConvShape) -> tuple[int, ...]:
    """The tiles worth trying."""
    return PIXELS if s.taps <= MAX_TAPS else PIXELS[:1]
