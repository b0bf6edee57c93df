"""Resizing to the nearest pixels in half precision: whole pixels are copied, so nothing is rounded.

Interpolation stays float32: its weights are read from tables of floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cannery.ir.graph import Graph
from cannery.ops.half.schedules import HalfSchedule, half_id
from cannery.ops.resize.direct_c import ResizeDirectC
from cannery.ops.resize.op import Resize
from cannery.schedule.program import Step
from cannery.schedule.schedule import Schedule, schedule
from cannery.target.isa import Isa


@schedule
@dataclass(frozen=True)
class HalfResize(HalfSchedule):
    """See the module docstring."""

    id = half_id(ResizeDirectC.id)
    version = ResizeDirectC.version
    inner: ClassVar[Schedule] = ResizeDirectC()

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if isinstance(op, Resize) and op.mode == "linear":
            return "interpolates"
        return super().why_not(graph, step, isa)
