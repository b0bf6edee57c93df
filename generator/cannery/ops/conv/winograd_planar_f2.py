"""Winograd F(2x2, 3x3) on the phase-split layout, see `cannery.ops.conv.winograd_planar`."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ops.conv.winograd import F2
from cannery.ops.conv.winograd_planar import WinogradPlanar
from cannery.schedule.schedule import schedule


@schedule
@dataclass(frozen=True)
class ConvWinogradPlanarF2(WinogradPlanar):
    """Four ninths of the products, as accurate as the direct form."""

    id = "conv.winograd_planar_f2"
    winograd = F2
