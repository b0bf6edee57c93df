"""Average pooling."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ops.average_pool.op import AveragePool
from cannery.ops.shared.pool_c import PoolDirectC
from cannery.ops.shared.pool_phase import PoolPhase
from cannery.ops.shared.pool_px import PoolDirectPx
from cannery.schedule.schedule import schedule


@schedule
@dataclass(frozen=True)
class AveragePoolDirectC(PoolDirectC):
    """Channels in the lanes."""

    id = "average_pool.direct_c"
    op = AveragePool


@schedule
@dataclass(frozen=True)
class AveragePoolDirectPx(PoolDirectPx):
    """Pixels in the lanes."""

    id = "average_pool.direct_px"
    op = AveragePool


@schedule
@dataclass(frozen=True)
class AveragePoolDirectPhase(PoolPhase):
    """On the phase-split layout."""

    id = "average_pool.direct_phase"
    op = AveragePool
