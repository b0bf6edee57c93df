"""Winograd's algorithm in half precision.

F(4x4, 3x3) takes a quarter of the products, with two to four times the rounding error of the direct
form. On the way, values are up to ten times as large as inputs and outputs; those beyond 65504
overflow, which the emulation sees. Its points are reciprocals of one another and keep the error
small, see `RECIPROCALS` in `ops/conv/winograd.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.ops.conv.winograd import RECIPROCALS, Points
from cannery.ops.conv.winograd_oc import ConvWinogradOc, ConvWinogradOcF2, WinogradOc
from cannery.ops.half.schedules import HalfSchedule, half_id
from cannery.schedule.program import Step
from cannery.schedule.schedule import schedule

#: Most multiply-accumulates of one register tile in line. With more, gcc keeps sums in the first
#: half of the registers, and copies the inputs there whose lanes are used.
MAX_UNROLLED = 100


@dataclass(frozen=True)
class _F4(WinogradOc):
    """The form that is rewritten; no schedule by itself."""

    id = ConvWinogradOc.id
    inexact = True
    points = ConvWinogradOc.points
    at_points: ClassVar[Points] = RECIPROCALS
    most_unrolled = MAX_UNROLLED
    three_by_lane = True


@dataclass(frozen=True)
class _F2(WinogradOc):
    """The same for F(2x2, 3x3)."""

    id = ConvWinogradOcF2.id
    points = ConvWinogradOcF2.points
    most_unrolled = MAX_UNROLLED
    three_by_lane = True


@schedule
@dataclass(frozen=True)
class HalfWinogradOc(HalfSchedule):
    """Up to F(7-k, k): six products per axis."""

    id = half_id(_F4.id)
    version = _F4.version
    inexact = True
    inner: ClassVar[WinogradOc] = _F4()

    def emulate(self, graph: Graph, step: Step, inputs: Sequence[RefArray]) -> RefArray:
        """The step's output, with the convolution rounded as this schedule does."""
        return self.inner.emulate(graph, step, inputs)


@schedule
@dataclass(frozen=True)
class HalfWinogradOcF2(HalfSchedule):
    """F(5-k, k): four products per axis, and as exact as the direct form."""

    id = half_id(_F2.id)
    version = _F2.version
    inner: ClassVar[WinogradOc] = _F2()
