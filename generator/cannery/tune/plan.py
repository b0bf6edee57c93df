"""Chooses one schedule per step and one order per value, jointly.

Dynamic programming in topological order: the state is the orders in which the live values exist;
a step costs its time, an order that is not there yet costs a reorder. A beam keeps the best states
where many values live side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cannery.errors import UnsupportedError
from cannery.ir.graph import Graph
from cannery.layouts import ORDERS
from cannery.schedule.assign import interface_order
from cannery.schedule.program import Choice, Step
from cannery.target.isa import Isa

#: States kept after each step.
BEAM = 64

#: Cost of a reorder in the unit of the options' costs, per element: a load and a store each.
REORDER_PER_ELEMENT = 1.0


@dataclass(frozen=True)
class Option:
    """A choice for a step with its cost (any one unit for the whole net) and its orders."""

    choice: Choice
    cost: float
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class _State:
    cost: float
    orders: Mapping[str, frozenset[str]]
    chosen: tuple[Option, ...]

    def key(self) -> tuple[tuple[str, frozenset[str]], ...]:
        return tuple(sorted(self.orders.items()))


def make_option(graph: Graph, step: Step, choice: Choice, isa: Isa, cost: float) -> Option:
    """An option with the orders that the choice's schedule declares."""
    reads = choice.schedule.reads(graph, step, choice.params, isa)
    writes = choice.schedule.writes(graph, step, choice.params, isa)
    return Option(choice, cost, tuple(w.order for w in reads), tuple(w.order for w in writes))


def best_per_orders(options: Sequence[Option]) -> list[Option]:
    """The cheapest option for each combination of orders; ties go to the earlier one."""
    best: dict[tuple[tuple[str, ...], tuple[str, ...]], Option] = {}
    for option in options:
        key = (option.reads, option.writes)
        if key not in best or option.cost < best[key].cost:
            best[key] = option
    return list(best.values())


def plan(
    graph: Graph,
    steps: Sequence[Step],
    options: Sequence[Sequence[Option]],
    *,
    reorder_cost: float = REORDER_PER_ELEMENT,
    beam: int = BEAM,
    io_order: str = ORDERS[0],
) -> tuple[Choice, ...]:
    """One choice per step that makes the whole cheapest.

    `reorder_cost` is the cost of moving one element between orders, `io_order` the order of images
    at the interface. Raises UnsupportedError for a step without options.
    """
    last = _last_reads(graph, steps)
    ports = {v: interface_order(graph, v, io_order) for v in (*graph.inputs, *graph.outputs)}
    states = [_State(0.0, {v: frozenset({ports[v]}) for v in graph.inputs}, ())]
    for index, (step, found) in enumerate(zip(steps, options, strict=True)):
        if not found:
            raise UnsupportedError(
                f"no kernel can compute {step.kind}", where=f"layer {step.name!r}",
                cure="please report the layer's attributes",
            )  # fmt: skip
        merged: dict[object, _State] = {}
        for state in states:
            for option in best_per_orders(found):
                following = _advance(graph, state, step, option, index, last, reorder_cost, ports)
                key = following.key()
                if key not in merged or following.cost < merged[key].cost:
                    merged[key] = following
        states = sorted(merged.values(), key=lambda s: s.cost)[:beam]
    return tuple(option.choice for option in states[0].chosen)


def _last_reads(graph: Graph, steps: Sequence[Step]) -> dict[str, int]:
    last = {value: index for index, step in enumerate(steps) for value in step.inputs}
    last.update((value, len(steps)) for value in graph.outputs)
    return last


def _advance(
    graph: Graph,
    state: _State,
    step: Step,
    option: Option,
    index: int,
    last: Mapping[str, int],
    reorder_cost: float,
    ports: Mapping[str, str],
) -> _State:
    cost = state.cost + option.cost
    orders = dict(state.orders)
    for value, order in zip(step.inputs, option.reads, strict=True):
        if order not in orders[value]:
            cost += reorder_cost * graph.types[value].elements
            orders[value] = orders[value] | {order}
    for value, order in zip(step.outputs, option.writes, strict=True):
        orders[value] = frozenset({order})
        if value in graph.outputs and order != ports[value]:
            cost += reorder_cost * graph.types[value].elements
    live = {v: o for v, o in orders.items() if last.get(v, -1) > index}
    return _State(cost, live, (*state.chosen, option))
