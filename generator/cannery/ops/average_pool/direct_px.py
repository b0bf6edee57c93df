"""Average pooling with pixels in the lanes, see `cannery.ops.shared.pool_px`."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.shared.pool import why_not_pool
from cannery.ops.shared.pool_px import PoolDirectPx
from cannery.schedule.program import Step
from cannery.schedule.schedule import schedule
from cannery.target.isa import Isa


@schedule
@dataclass(frozen=True)
class AveragePoolDirectPx(PoolDirectPx):
    """See the module's text."""

    id = "average_pool.direct_px"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        return why_not_pool(graph, step, AveragePool)
