"""Concatenation without code: its parts are views of one buffer, written by their producers.

Parts that cannot be written in place are copied, see `cannery.lowering.assign`. So this schedule
only says which orders and axes allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ir.half import halves_at
from cannery.layouts import Want, nhwc, planar
from cannery.ops.concat.op import Concat
from cannery.ops.concat.past import is_past_window
from cannery.ops.movement.op import Reshape
from cannery.schedule.cost import stream_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Cycles of copying a part, in addition to those for its elements.
COPY_CALL = 30.0


def concat_axis(graph: Graph, step: Step) -> int:
    """The image axis (0: H, 1: W, 2: C) of a concatenation; -1 if images have no such axis."""
    assert isinstance(step.anchor.op, Concat)
    rank = graph.types[step.output].rank
    axis = step.anchor.op.axis
    if axis == rank - 1:
        return 2
    by_rank = {4: {1: 0, 2: 1}, 3: {1: 1}}
    return by_rank.get(rank, {}).get(axis, -1)


def copied_parts(graph: Graph, step: Step) -> list[str]:
    """The parts of a concatenation that must be copied in any case.

    These are inputs of the network, views of other memory, and values that already have a place, in
    an earlier concatenation or in this one. See `cannery.lowering.assign`.
    """
    found, seen = [], set()
    for value in step.anchor.inputs:
        producer = graph.producer(value)
        elsewhere = producer is None or isinstance(producer.op, Reshape)
        joins = (node for node in graph.consumers(value) if isinstance(node.op, Concat))
        if elsewhere or value in seen or next(joins) is not step.anchor:
            found.append(value)
        seen.add(value)
    return found


def stays_in_place(graph: Graph, step: Step) -> bool:
    """Whether a concatenation is a past and new rows, the rows of an image or its pixels."""
    if any(value in graph.constants for value in step.anchor.inputs):
        return False
    return concat_axis(graph, step) in (0, 1) and is_past_window(graph, step.anchor)


@dataclass(frozen=True)
class Tunables:
    """The order of the parts and the whole."""

    order: str


@schedule
@dataclass(frozen=True)
class ConcatView(Schedule):
    """See the module docstring."""

    id = "concat.view"
    moves_half = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not isinstance(step.anchor.op, Concat) or len(step.anchors) != 1:
            return "not a concatenation"
        if any(value in graph.constants for value in step.anchor.inputs):
            return "a part is a constant"
        if halves_at(graph, step.nodes) and stays_in_place(graph, step):
            return "the past is float32"
        return "" if concat_axis(graph, step) >= 0 else "the axis is not one of an image"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        orders: tuple[str, ...] = (nhwc.ORDER, planar.ORDER)
        if halves_at(graph, step.nodes):
            orders = orders[:1]  # there is no other in half precision
        if stays_in_place(graph, step):
            orders = orders[:1]  # of its layouts that in which rows lie one after the other
        return [as_params(Tunables(order)) for order in orders]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return tuple(Want(typed(Tunables, params).order) for _ in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(typed(Tunables, params).order),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        copies = (graph.types[v].elements for v in copied_parts(graph, step))
        return Estimate(sum(COPY_CALL + stream_cycles(isa, n, 1, 1, 0) for n in copies))

    def kernel(self, job: Job) -> Kernel:
        raise AssertionError("a view has no code")
