"""Chooses one schedule per step and one order per value, jointly.

Dynamic programming in topological order: the state is the orders in which the live values exist;
a step costs its time, an order that is not there yet costs a reorder. A beam keeps the best states
where many values live side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cannery.errors import UnsupportedError
from cannery.ir.graph import Graph
from cannery.layouts import ORDERS, Want, image_dims
from cannery.schedule.assign import interface_order
from cannery.schedule.program import Choice, Step
from cannery.target.isa import Isa

#: States kept after each step.
BEAM = 64

#: Cost of a reorder in the unit of the options' costs, per element: a load and a store each.
REORDER_PER_ELEMENT = 1.0

#: Cost of a reorder beside its elements, in the same unit.
REORDER_CALL = 20.0

#: Cost of copying a value from one order into a buffer of another (or the same).
ReorderCost = Callable[[str, str, str], float]

#: Marks the order of a value in the caller's memory: it has no halo and cannot get one.
_PORT = "!"


@dataclass(frozen=True)
class Read:
    """What an option asks of an input: its order, and whether memory without halo will do."""

    order: str
    plain: bool

    @staticmethod
    def of(want: Want) -> Read:
        """The part of a want that planning looks at."""
        return Read(want.order, not want.halo and not want.slack)


@dataclass(frozen=True)
class Option:
    """A choice for a step with its cost (any one unit for the whole net) and its orders."""

    choice: Choice
    cost: float
    reads: tuple[Read, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """One choice per step, and what all of it costs."""

    cost: float
    choices: tuple[Choice, ...]


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
    return Option(choice, cost, tuple(map(Read.of, reads)), tuple(w.order for w in writes))


def best_per_orders(options: Sequence[Option]) -> list[Option]:
    """The cheapest option for each combination of orders; ties go to the earlier one."""
    best: dict[tuple[tuple[Read, ...], tuple[str, ...]], Option] = {}
    for option in options:
        key = (option.reads, option.writes)
        if key not in best or option.cost < best[key].cost:
            best[key] = option
    return list(best.values())


def reorder_by_size(graph: Graph, per_element: float = REORDER_PER_ELEMENT) -> ReorderCost:
    """Reorders that all cost the same for each element, beside the call."""

    def cost(value: str, source: str, target: str) -> float:
        type_ = graph.types[value]
        _, h, w, c = image_dims(type_)
        if source != target and (c == 1 or h * w == 1):
            return 0.0
        return REORDER_CALL + per_element * type_.elements

    return cost


def plan(
    graph: Graph,
    steps: Sequence[Step],
    options: Sequence[Sequence[Option]],
    *,
    reorder: ReorderCost | None = None,
    io_order: str = ORDERS[0],
) -> tuple[Choice, ...]:
    """The choices of the best plan, see `plans`."""
    return plans(graph, steps, options, reorder=reorder, io_order=io_order)[0].choices


def plans(
    graph: Graph,
    steps: Sequence[Step],
    options: Sequence[Sequence[Option]],
    *,
    reorder: ReorderCost | None = None,
    io_order: str = ORDERS[0],
    count: int = 1,
    beam: int = BEAM,
) -> list[Plan]:
    """The `count` cheapest plans that were found, the best first; they differ in layouts.

    `reorder` tells what a change of order costs (None: `reorder_by_size`), `io_order` is the order
    of images at the interface. Raises UnsupportedError for a step without options.
    """
    last = {value: index for index, step in enumerate(steps) for value in step.inputs}
    search = _Search(graph, steps, reorder or reorder_by_size(graph), io_order, count, last)
    states = [search.start()]
    for index, (step, found) in enumerate(zip(steps, options, strict=True)):
        if not found:
            raise UnsupportedError(
                f"no kernel can compute {step.kind}", where=f"layer {step.name!r}",
                cure="please report the layer's attributes",
            )  # fmt: skip
        states = search.advance_all(states, best_per_orders(found), index)[: beam * count]
    return [Plan(s.cost, tuple(o.choice for o in s.chosen)) for s in states[:count]]


@dataclass(frozen=True)
class _Search:
    graph: Graph
    steps: Sequence[Step]
    reorder: ReorderCost
    io_order: str
    count: int
    last: Mapping[str, int]

    def port(self, value: str) -> str:
        """The order of an input or output at the interface."""
        return interface_order(self.graph, value, self.io_order)

    def start(self) -> _State:
        return _State(0.0, {v: frozenset({self.port(v) + _PORT}) for v in self.graph.inputs}, ())

    def advance_all(
        self, states: Sequence[_State], options: Sequence[Option], index: int
    ) -> list[_State]:
        """All states after a step; of those with equal orders only the `count` cheapest."""
        merged: dict[object, list[_State]] = {}
        for state in states:
            for option in options:
                following = self.advance(state, option, index)
                merged.setdefault(following.key(), []).append(following)
        kept = (sorted(same, key=_cost)[: self.count] for same in merged.values())
        return sorted((state for same in kept for state in same), key=_cost)

    def advance(self, state: _State, option: Option, index: int) -> _State:
        step = self.steps[index]
        cost = state.cost + option.cost
        orders = dict(state.orders)
        for value, read in zip(step.inputs, option.reads, strict=True):
            there = orders[value]
            if read.order in there or (read.plain and read.order + _PORT in there):
                continue
            cost += min(self.reorder(value, a.removesuffix(_PORT), read.order) for a in there)
            orders[value] = there | {read.order}
        for value, order in zip(step.outputs, option.writes, strict=True):
            orders[value] = frozenset({order})
            if value in self.graph.outputs and order != self.port(value):
                cost += self.reorder(value, order, self.port(value))
        live = {v: o for v, o in orders.items() if self.last.get(v, -1) > index}
        return _State(cost, live, (*state.chosen, option))


def _cost(state: _State) -> float:
    return state.cost
