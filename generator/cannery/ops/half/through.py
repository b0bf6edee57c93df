"""Schedules that compute in float32 over values in half precision: loads convert, stores round.

They are for what stands between layers in half precision and needs the bits of float32: sums of
many numbers, as in means and normalisations. No value is converted before and after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cannery.ctext.half import with_half_memory
from cannery.ir.graph import Graph
from cannery.ir.half import as_float32
from cannery.layouts import nhwc
from cannery.ops.half.schedules import HalfSchedule, half_id
from cannery.ops.normalization.nest import NormalizationNest
from cannery.ops.reduce.nest import ReduceNest
from cannery.ops.reduce.op import ReduceProd
from cannery.schedule.program import Step
from cannery.schedule.schedule import MATH, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class ThroughSchedule(HalfSchedule):
    """See the module docstring."""

    def seen(self, isa: Isa) -> Isa:
        return isa

    def unknown(self, step: Step) -> str:
        return ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        found = self.inner.candidates(as_float32(graph), step, isa)
        return [p for p in found if not p.get(MATH) and p.get("order", nhwc.ORDER) == nhwc.ORDER]

    def converted(self, kernel: Kernel) -> Kernel:
        return with_half_memory(kernel)


@schedule
@dataclass(frozen=True)
class HalfReduce(ThroughSchedule):
    """Means, sums, maxima and the like over any axes."""

    id = half_id(ReduceNest.id)
    version = ReduceNest.version
    inner: ClassVar[Schedule] = ReduceNest()

    def unknown(self, step: Step) -> str:
        return "products of lanes go through memory" if type(step.anchor.op) is ReduceProd else ""


@schedule
@dataclass(frozen=True)
class HalfNormalization(ThroughSchedule):
    """Normalisations of layers, groups and instances."""

    id = half_id(NormalizationNest.id)
    version = NormalizationNest.version
    inner: ClassVar[Schedule] = NormalizationNest()
