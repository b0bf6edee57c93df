"""Some channels of an image, as a view of it: no code, see `cannery.lowering.assign`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Want, nhwc, planar
from cannery.ops.movement.op import Slice
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa


def first_channel(graph: Graph, step: Step) -> int:
    """The first of the neighbouring channels that a step takes from a float image; -1 if it takes
    none.
    """
    op = step.anchor.op
    if not isinstance(op, Slice) or not step.alone:
        return -1
    source, taken = (graph.types[v] for v in (step.anchor.inputs[0], step.output))
    image = source.rank == 4 and source.shape[0] == 1 and source.dtype is DType.FLOAT32
    whole = taken.shape[:-1] == source.shape[:-1] and set(op.steps) == {1}
    return op.starts[-1] if image and whole and taken.elements else -1


@dataclass(frozen=True)
class Tunables:
    """The order of the image."""

    order: str


@schedule
@dataclass(frozen=True)
class MovementPart(Schedule):
    """See the module docstring."""

    id = "movement.part"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not step.inputs:
            return "reads constants only"
        return "" if first_channel(graph, step) >= 0 else "not some channels of a float image"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return [as_params(Tunables(order)) for order in (nhwc.ORDER, planar.ORDER)]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(typed(Tunables, params).order),)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(typed(Tunables, params).order),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(0.0)

    def kernel(self, job: Job) -> Kernel:
        raise AssertionError("a view has no code")
