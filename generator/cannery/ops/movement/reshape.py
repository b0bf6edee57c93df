"""Reshaping without code: another view of a dense buffer, see `cannery.lowering.assign`."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.layouts import Want
from cannery.ops.movement.op import Reshape
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa


@schedule
@dataclass(frozen=True)
class MovementReshape(FixedSchedule):
    """See the module docstring."""

    id = "movement.reshape"
    moves_half = True
    want = Want(dense=True)

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        plain = step.alone and isinstance(step.anchor.op, Reshape)
        return "" if plain else "not a mere reshape"

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(0.0)

    def kernel(self, job: Job) -> Kernel:
        raise AssertionError("a view has no code")
