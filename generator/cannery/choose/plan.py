"""Chooses the cut, one schedule per step and one order per value, jointly.

This is dynamic programming from the left of the finest cut: at each step it takes that step alone
or a chain that begins there. The state is the orders in which the live values exist. A step costs
its time; an order that does not exist yet costs a reorder. A beam keeps the best states where many
values are alive at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from cannery.deadline import check_time
from cannery.errors import UnsupportedError
from cannery.ir.graph import Graph
from cannery.layouts import ORDERS, Want, image_dims, nhwc, planar
from cannery.lowering.assign import interface_order
from cannery.lowering.depth import depth_first_chains
from cannery.lowering.lower import chains, cut
from cannery.schedule.cost import reorder_cycles
from cannery.schedule.program import Choice, Step
from cannery.target.isa import Isa

#: States kept after each step.
BEAM = 64

#: Cost of copying a value from one order into a buffer of another (or the same).
ReorderCost = Callable[[str, str, str], float]

#: Marks the order of a value in the caller's memory, which has no halo and cannot get one.
_PORT = "!"


@dataclass(frozen=True)
class Segment:
    """A step of the finest cut, or a chain of several; `first` is where it begins there."""

    step: Step
    first: int

    @property
    def end(self) -> int:
        """The step after its last one in the finest cut."""
        return self.first + (len(self.step.parts) or 1)


@dataclass(frozen=True)
class Read:
    """What an option requires of an input: its order, and whether memory without a halo will do."""

    order: str
    plain: bool

    @staticmethod
    def of(want: Want) -> Read:
        """The part of a want that matters for planning."""
        return Read(want.order, not want.halo and not want.slack)


@dataclass(frozen=True)
class Option:
    """A choice for a step with its cost (in any one unit for the whole net) and its orders."""

    choice: Choice
    cost: float
    reads: tuple[Read, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """Segments (by index) with their choices, in order, and the total cost."""

    cost: float
    picks: tuple[tuple[int, Choice], ...]

    @property
    def choices(self) -> tuple[Choice, ...]:
        """One per segment taken."""
        return tuple(choice for _, choice in self.picks)

    def steps(self, segments: Sequence[Segment]) -> tuple[Step, ...]:
        """The plan's cut."""
        return tuple(segments[k].step for k, _ in self.picks)


def make_segments(graph: Graph, *, depth_first: bool = False) -> tuple[Segment, ...]:
    """The steps of the finest cut, in order, then the chains that may replace several of them.

    With `depth_first`, those that only save memory come last.
    """
    steps = cut(graph)
    position = {step.anchor.outputs[0]: k for k, step in enumerate(steps)}
    singles = [Segment(step, k) for k, step in enumerate(steps)]
    found = [*chains(graph, steps), *(depth_first_chains(graph, steps) if depth_first else ())]
    return (*singles, *(Segment(c, position[c.anchor.outputs[0]]) for c in found))


def overlap(one: Segment, other: Segment) -> bool:
    """Whether two segments have a step of the finest cut in common."""
    return one.first < other.end and other.first < one.end


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


def estimated_reorders(graph: Graph, isa: Isa) -> ReorderCost:
    """The cost model's reorders, which depend only on the size."""
    return lambda value, source, target: reorder_cycles(isa, graph.types[value].elements)


def plans(
    graph: Graph,
    segments: Sequence[Segment],
    options: Sequence[Sequence[Option]],
    *,
    reorder: ReorderCost,
    io_order: str = ORDERS[0],
    count: int = 1,
    beam: int = BEAM,
) -> list[Plan]:
    """The `count` cheapest plans found, best first; they differ in cut or layouts.

    `options` are those of each segment; chains may have none. `reorder` gives the cost of a change
    of order (None: `reorder_cycles`), `io_order` is the order of images at the interface. Raises
    UnsupportedError for a step that nothing can compute.
    """
    length = max((segment.end for segment in segments), default=0)
    search = _Search(graph, segments, reorder, io_order, count)
    starts: dict[int, list[tuple[int, list[Option]]]] = {}
    for index, segment in enumerate(segments):
        starts.setdefault(segment.first, []).append((index, best_per_orders(options[index])))
    waiting: dict[int, list[_State]] = {0: [search.start()]}
    for position in range(length):
        check_time()
        states = search.best(waiting.pop(position, []))[: beam * count]
        for index, found in starts[position]:
            following = (search.advance(s, option, index) for s in states for option in found)
            waiting.setdefault(segments[index].end, []).extend(following)
    finished = search.best(waiting.get(length, []))
    if not finished:
        raise _unsupported(
            graph, next(s.step for s, o in zip(segments, options, strict=True) if not o)
        )
    return [state.plan() for state in finished[:count]]


def _unsupported(graph: Graph, step: Step) -> UnsupportedError:
    where = f"layer {step.name!r}"
    computed = [v for v in step.anchor.inputs[1:] if v and v not in graph.constants]
    if computed:
        return UnsupportedError(
            f"no kernel can compute {step.kind} where {computed[0]!r} is not a constant",
            where=where, cure="store it in the model (an initializer in ONNX)",
        )  # fmt: skip
    return UnsupportedError(
        f"no kernel can compute {step.kind}", where=where,
        cure="please report the layer's attributes",
    )  # fmt: skip


class _Orders:
    """The orders in which live values exist: a mapping that is changed by copying a small part of
    it.

    Many values may be alive at once, in many states. `key` is equal if the mappings are: it is the
    XOR of a 128-bit hash of each entry, so that a change takes constant time.
    """

    __slots__ = ("_pages", "key")

    _PAGE = 64

    def __init__(self, pages: tuple[tuple[frozenset[str], ...], ...], key: int) -> None:
        self._pages = pages
        self.key = key

    @staticmethod
    def none(count: int) -> _Orders:
        """The orders of `count` values, none of which is alive."""
        page = (frozenset[str](),) * _Orders._PAGE
        return _Orders((page,) * -(-count // _Orders._PAGE), 0)

    def __getitem__(self, number: int) -> frozenset[str]:
        return self._pages[number // self._PAGE][number % self._PAGE]

    def changed(self, changes: Mapping[int, frozenset[str]]) -> _Orders:
        """With other orders for some values; none for those that die."""
        pages, key = list(self._pages), self.key
        for number, orders in changes.items():
            page = list(pages[number // self._PAGE])
            key ^= _hash(number, page[number % self._PAGE]) ^ _hash(number, orders)
            page[number % self._PAGE] = orders
            pages[number // self._PAGE] = tuple(page)
        return _Orders(tuple(pages), key)


@lru_cache(maxsize=1 << 16)
def _hash(number: int, orders: frozenset[str]) -> int:
    text = f"{number} {' '.join(sorted(orders))}" if orders else ""
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "little") if text else 0


@dataclass(frozen=True)
class _Chosen:
    """The last option of a state, and the choices before it."""

    before: _Chosen | None
    segment: int
    option: Option


@dataclass(frozen=True)
class _State:
    cost: float
    orders: _Orders
    chosen: _Chosen | None

    def plan(self) -> Plan:
        """The choices from the first to the last."""
        picks, chosen = [], self.chosen
        while chosen is not None:
            picks.append((chosen.segment, chosen.option.choice))
            chosen = chosen.before
        return Plan(self.cost, tuple(picks[::-1]))


class _Search:
    """What does not change during a search."""

    def __init__(
        self,
        graph: Graph,
        segments: Sequence[Segment],
        reorder: ReorderCost,
        io_order: str,
        count: int,
    ) -> None:
        self.graph = graph
        self.segments = segments
        self.reorder = reorder
        self.io_order = io_order
        self.count = count
        #: Where a value is read for the last time.
        self.last = {v: s.end for s in segments if not s.step.parts for v in s.step.inputs}
        self.number = {value: k for k, value in enumerate(self.last)}
        self.dying: dict[int, list[int]] = {}
        for value, end in self.last.items():
            self.dying.setdefault(end, []).append(self.number[value])
        self.outputs = frozenset(graph.outputs)

    def port(self, value: str) -> str:
        """The order of an input or output at the interface."""
        return interface_order(self.graph, value, self.io_order)

    def start(self) -> _State:
        """Only inputs that are read exist."""
        there = {
            self.number[v]: frozenset({self.port(v) + _PORT})
            for v in self.graph.inputs
            if v in self.number
        }
        return _State(0.0, _Orders.none(len(self.number)).changed(there), None)

    def best(self, states: Sequence[_State]) -> list[_State]:
        """By cost; of states with equal orders, only the `count` cheapest."""
        merged: dict[int, list[_State]] = {}
        for state in sorted(states, key=_cost):
            same = merged.setdefault(state.orders.key, [])
            if len(same) < self.count:
                same.append(state)
        return sorted((state for same in merged.values() for state in same), key=_cost)

    def advance(self, state: _State, option: Option, index: int) -> _State:
        segment = self.segments[index]
        cost = state.cost + option.cost
        changes: dict[int, frozenset[str]] = {}
        for value, read in zip(segment.step.inputs, option.reads, strict=True):
            there = state.orders[self.number[value]]
            if read.order not in there:
                change = min(self.change(value, source, read) for source in there)
                cost += change
                if change:
                    changes[self.number[value]] = there | {read.order}
        for value, order in zip(segment.step.outputs, option.writes, strict=True):
            if self.last.get(value, -1) > segment.end:
                changes[self.number[value]] = frozenset({self.plain(value, order)})
            if value in self.outputs:
                cost += self.change(value, order, Read(self.port(value), plain=True))
        for position in range(segment.first + 1, segment.end + 1):
            changes |= dict.fromkeys(self.dying.get(position, ()), frozenset[str]())
        return _State(cost, state.orders.changed(changes), _Chosen(state.chosen, index, option))

    def plain(self, value: str, order: str) -> str:
        """The order itself, or the plainest one with the same bytes, so that fewer states
        differ.
        """
        return ORDERS[0] if same_memory(self.graph, value, order, ORDERS[0]) else order

    def change(self, value: str, source: str, read: Read) -> float:
        """The cost of reading a value that exists in the order `source`."""
        order = source.removesuffix(_PORT)
        if (read.plain or order == source) and (
            order == read.order or same_memory(self.graph, value, order, read.order)
        ):
            return 0.0
        return self.reorder(value, order, read.order)


def same_memory(graph: Graph, value: str, *orders: str) -> bool:
    """Whether the orders are the same bytes: one channel, or one pixel."""
    _, h, w, c = image_dims(graph.types[value])
    return (c == 1 or h * w == 1) and set(orders) <= {nhwc.ORDER, planar.ORDER}


def _cost(state: _State) -> float:
    return state.cost
