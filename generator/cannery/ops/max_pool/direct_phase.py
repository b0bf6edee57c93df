"""Maximum pooling on the phase-split layout, see `cannery.ops.shared.pool_phase`."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.shared.pool_phase import PoolPhase, why_not_phase
from cannery.schedule.program import Step
from cannery.schedule.schedule import schedule
from cannery.target.isa import Isa


@schedule
@dataclass(frozen=True)
class MaxPoolDirectPhase(PoolPhase):
    """See the module's text."""

    id = "max_pool.direct_phase"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        return why_not_phase(graph, step, MaxPool)
