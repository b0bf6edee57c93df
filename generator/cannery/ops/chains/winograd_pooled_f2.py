"""Winograd F(2x2, 3x3) with pooling behind it, see `cannery.ops.chains.winograd_pooled`."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ops.chains.winograd_pooled import WinogradPooled
from cannery.ops.conv.winograd import F2
from cannery.schedule.schedule import schedule


@schedule
@dataclass(frozen=True)
class ChainsWinogradPooledF2(WinogradPooled):
    """F(2x2, 3x3)."""

    id = "chains.winograd_pooled_f2"
    winograd = F2
