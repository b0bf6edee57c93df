"""Maximum pooling."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ops.max_pool.op import MaxPool
from cannery.ops.shared.pool_c import PoolDirectC
from cannery.ops.shared.pool_phase import PoolPhase
from cannery.ops.shared.pool_px import PoolDirectPx
from cannery.schedule.schedule import schedule


@schedule
@dataclass(frozen=True)
class MaxPoolDirectC(PoolDirectC):
    """Channels in the lanes."""

    id = "max_pool.direct_c"
    op = MaxPool


@schedule
@dataclass(frozen=True)
class MaxPoolDirectPx(PoolDirectPx):
    """Pixels in the lanes."""

    id = "max_pool.direct_px"
    op = MaxPool


@schedule
@dataclass(frozen=True)
class MaxPoolDirectPhase(PoolPhase):
    """On the phase-split layout."""

    id = "max_pool.direct_phase"
    op = MaxPool
