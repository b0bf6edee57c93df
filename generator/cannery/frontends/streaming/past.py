"""Builds the network for a call, value by value, with the past that its windows read as state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import gcd, prod

import numpy as np

from cannery.errors import OptionError, UnsupportedError
from cannery.frontends.streaming.lead import Make, after, first, padding
from cannery.frontends.streaming.stream import Stream, Window
from cannery.ir.graph import Array, Graph, Node, State, free_name
from cannery.ir.registry import Op
from cannery.ir.tensor import DType, TensorType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Add, Max, Min, Mul, Sub
from cannery.ops.logic.compare import Less, Where
from cannery.ops.movement.op import Cast, Expand, Identity, Reshape, Slice, Transpose
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear, quantised
from cannery.ops.quantized.arithmetic import BYTES

#: Where the clock stops: no delay is as long.
LATEST = 2.0**20

#: Whose elements of the past, and what lies before the first one.
Key = tuple[str, float]

#: What moves integers as it moves floats.
_MOVES = (Identity, Reshape, Slice, Transpose)


class RateError(OptionError):
    """An element takes several calls of a size, and calls of other sizes would cut it elsewhere."""


@dataclass(frozen=True)
class _Stored:
    """Integers of which `node` makes floats, and what some floats are among them: what lies before
    the first element, and the elements that are known before the first call.
    """

    value: str
    node: Node
    fill: float
    lead: Array | None


@dataclass
class Builder:
    """Nodes, types and states of the network for a call; `graph` is that for the sequence.

    A call has `block` steps of the input, one of `blocks`; the sequence has `steps`. `reaches` is
    how far readers look back, as a run before this one has found, which leaves it in `asked`: all
    readers of a value share one past, in calls of any size. `periods` has the outputs that change
    once in so many calls, `settled` the states that hold what was computed in the steps before,
    this many. `folds`: what windows make of padding is known before the first call, so that a pad
    serves all windows after it; else each value has its first elements in the first calls.
    """

    graph: Graph
    block: int
    reaches: dict[Key, int]
    blocks: Sequence[int]
    steps: int
    folds: bool = False
    asked: dict[Key, int] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    periods: dict[str, int] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    pasts: dict[str, Stream] = field(default_factory=dict)
    _windows: dict[Key, str] = field(default_factory=dict)
    _made: dict[tuple[object, ...], str] = field(default_factory=dict)
    _producers: dict[str, Node] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        """Append a node whose outputs have their names."""
        if isinstance(node.op, QuantizeLinear):
            node = self._unchanged(node)
        types = node.op.infer(*(self.types[v] if v else None for v in node.inputs))
        self.types.update(zip(node.outputs, types, strict=True))
        self.nodes.append(node)
        self._producers.update(dict.fromkeys(node.outputs, node))

    def fresh(self, name: str) -> str:
        """A name that no value has, in neither network."""
        return free_name(name, {*self.graph.types, *self.types})

    def op(self, op: Op, name: str, *inputs: str) -> str:
        """Append a node with one output, and return that."""
        output = self.fresh(name)
        self.add(Node(op, output, inputs, (output,)))
        return output

    def constant(self, name: str, array: Array) -> str:
        """A constant of the network for a call alone."""
        value = self.fresh(name)
        self.constants[value] = array
        self.types[value] = TensorType(array.shape, DType(array.dtype.name))
        return value

    def state(self, name: str, shape: tuple[int, ...], initial: Array | None = None,
              dtype: DType = DType.FLOAT32, every: int = 1) -> tuple[str, str]:  # fmt: skip
        """A new state, which changes once in `every` calls: the input, and the name that the output
        must get.
        """
        value = self.fresh(name)
        if every > 1:
            self.periods[f"{value}/next"] = every
        self.types[value] = TensorType(shape, dtype)
        flat = () if initial is None or not initial.any() else tuple(map(float, initial.flat))
        self.states.append(State(value, f"{value}/next", flat))
        return value, f"{value}/next"

    def cut(self, value: str, axis: int, start: int, end: int) -> str:
        """The elements from `start` to before `end` of an axis."""
        shape = self.types[value].shape
        if (start, end) == (0, shape[axis]):
            return value
        op = self._slice(shape, axis, start, end)
        return self._once((value, axis, start, end), lambda: self.op(op, f"{value}/part", value))

    def cut_for(self, node: Node, value: str, axis: int, start: int, end: int) -> None:
        """The same as the output of a node of the network for the sequence."""
        op = self._slice(self.types[value].shape, axis, start, end)
        self.add(Node(op, f"{node.name}/now", (value,), node.outputs))

    def rename(self, value: str) -> str:
        """Another name for a value that is computed already; its own becomes free."""
        new = self.fresh(f"{value}/early")

        def named(name: str) -> str:
            return new if name == value else name

        self.nodes = [n.renamed(named) for n in self.nodes]
        self.types[new] = self.types.pop(value)
        self._windows = {(named(v), f): w for (v, f), w in self._windows.items()}
        self._producers = {v: node for node in self.nodes for v in node.outputs}
        return new

    def lifted(self, value: str, stream: Stream, times: int) -> tuple[str, Stream]:
        """The elements of `times` calls together: a value that comes with the last of these."""
        found = replace(stream, every=stream.every * times)
        if times == 1 or stream.final:
            return value, found
        if len(self.blocks) > 1:
            raise RateError(
                f"{times} calls of {self.block} steps make one of its elements", where="--block"
            )
        more = stream.count * (times - 1)
        found = replace(found, count=stream.count + more)
        if stream.copies:  # which are made for calls that have the step that is copied
            steps = self._once(
                ("steps", value), lambda: self.op(Identity(), f"{value}/steps", value)
            )
            value, stream = steps, replace(stream, copies=0)
        return self.past(value, stream, more, 0.0), found

    def past(self, value: str, stream: Stream, reach: int, fill: float) -> str:
        """The value with the `reach` elements before those of this call; `fill` before the first.

        A negative reach leaves out as many of the call's own.
        """
        assert stream.time is not None
        stored = self._stored(value, fill, stream.lead)
        if stored and max(self.reaches.get((stored.value, stored.fill), 0), reach) > 0:
            integers = replace(stream, lead=stored.lead)
            found = self.past(stored.value, integers, reach, stored.fill)
            return self._floats(stored, found, value)
        key = (value, fill)
        most = max(self.reaches.get(key, 0), reach)
        if most <= 0:
            return self.cut(value, stream.time, -reach, stream.count)
        self.asked[key] = max(self.asked.get(key, 0), reach)
        there = self._windows.get(key, "")
        if not there or self.types[there].shape[stream.time] < reach + stream.count:
            self._windows[key] = self._window(value, stream, most, fill)
        found = self._windows[key]
        end = self.types[found].shape[stream.time]
        return self.cut(found, stream.time, end - stream.count - reach, end)

    def windowed(
        self, value: str, source: Stream, window: Window, fill: float, make: Make | None = None
    ) -> tuple[str, Stream]:
        """The elements that the windows of a call read, and the stream of their results.

        `make` computes results from such elements; None: it takes more than these.
        """
        if source.copies and not self._keeps_copies(source, window):
            value, source = self.begun(value, source)
        value, source = self.lifted(
            value, source, window.stride // gcd(window.stride, source.count)
        )
        count = source.count // window.stride
        if window.before > 0:
            value = self.masked(value, source, fill)
        late, copies = window.delay(source.delay), max(0, source.copies - window.span + 1)
        lead = None
        if late < 0 and not copies:
            lead = self._made_of_padding(value, source, window, fill, make)
            late = late if lead is not None else 0
        reach = window.reach(source.delay, late)
        found = self.past(value, source, reach, fill)
        assert source.time is not None
        found = self.cut(found, source.time, 0, min(window.length(count), reach + source.count))
        return found, replace(source, count=count, delay=late, lead=lead, copies=copies)

    def _keeps_copies(self, source: Stream, window: Window) -> bool:
        """Whether windows of copies alone are none, or give copies of the first other one."""
        if window.before > 0:
            return False
        return window.span > source.copies or (self.folds and window.stride == 1)

    def _made_of_padding(
        self, value: str, source: Stream, window: Window, fill: float, make: Make | None
    ) -> Array | None:
        """The results of windows that read nothing which comes with a call."""
        if make is None or not self.folds or source.copies:
            return None
        axis = source.time
        assert axis is not None
        read = padding(self.types[value], axis, max(0, window.before), fill)
        if source.lead is not None:
            read = np.concatenate([read, after(source.lead, axis, max(0, -window.before))], axis)
        return make(first(read, axis, window.length(-window.delay(source.delay))))

    def _stored(self, value: str, fill: float | None, lead: Array | None = None) -> _Stored | None:
        """The integers that a value is made of, if these numbers are such, too: then its past is of
        bytes.
        """
        node, moves = self._producers.get(value), list[Node]()
        while node is not None and isinstance(node.op, _MOVES):
            moves.append(node)
            node = self._producers.get(node.inputs[0])
        if node is None:
            return None
        before = _as_integers([] if fill is None else [fill], *self._scale(node))
        own = _as_integers([] if lead is None else lead, *self._scale(node))
        if before is None or own is None:
            return None
        integers = node.inputs[0]
        for move in reversed(moves):
            integers = self._moved(move, integers)
        number = 0.0 if fill is None else float(before.item())
        return _Stored(integers, node, number, None if lead is None else own)

    def _unchanged(self, node: Node) -> Node:
        """What makes integers of floats; as it is, unless these are made of the same integers."""
        stored = self._stored(node.inputs[0], None)
        if stored is None:
            return node
        same = all(
            a is not None and b is not None and a.dtype == b.dtype and a.size == b.size == 1
            and a.item() == b.item()
            for a, b in zip(self._scale(stored.node), self._parameters(node), strict=True)
        )  # fmt: skip
        return replace(node, op=Identity(), inputs=(stored.value,)) if same else node

    def _scale(self, node: Node) -> tuple[Array | None, Array | None]:
        """By which scale and zero point a node makes numbers of integers, where they are
        constant.
        """
        if isinstance(node.op, DequantizeLinear):
            return self._parameters(node)
        wide = (DType.FLOAT32, DType.INT32)
        if isinstance(node.op, Cast) and node.op.to in wide:
            source = self.types[node.inputs[0]].dtype
            if source in BYTES:
                return np.ones(1, np.float32), np.zeros(1, source.numpy)
        return None, None

    def _parameters(self, node: Node) -> tuple[Array | None, Array | None]:
        scale, zero = (self.graph.constants.get(v) for v in node.inputs[1:])
        return scale, zero

    def _moved(self, move: Node, integers: str) -> str:
        """What a node that moves floats makes of the integers that they are made of."""
        name = f"{move.output}/integers"
        return self._once(("moved", move.output), lambda: self.op(move.op, name, integers))

    def _floats(self, stored: _Stored, integers: str, value: str) -> str:
        """Floats of integers that are some of those of `value`, or what stands for them."""
        made, name = stored.node, f"{value}/floats"
        key = ("floats", integers, value)
        return self._once(key, lambda: self.op(made.op, name, integers, *made.inputs[1:]))

    def _window(self, value: str, stream: Stream, reach: int, fill: float) -> str:
        """The state, and the value after it; the next state is the end of both."""
        axis = stream.time
        assert axis is not None
        shape, dtype = self.types[value].shape, self.types[value].dtype
        shape = (*shape[:axis], reach, *shape[axis + 1 :])
        initial = np.full(shape, fill, dtype.numpy)
        if stream.lead is not None:
            both = [initial, stream.lead.astype(dtype.numpy)]
            initial = after(np.concatenate(both, axis), axis, -stream.delay)
        past, following = self.state(f"{value}/past", shape, initial, dtype, stream.every)
        self.pasts[past] = stream
        self.settled[past] = -(-reach // stream.count) * self.block * stream.every
        window = self.op(Concat(axis), f"{value}/window", past, value)
        if stream.copies:
            window = self._with_copies(window, value, stream, reach)
        length = reach + stream.count
        op = self._slice(self.types[window].shape, axis, length - reach, length)
        self.add(Node(op, following, (window,), (following,)))
        return window

    def _with_copies(self, window: str, value: str, stream: Stream, reach: int) -> str:
        """The past and a call's own elements; what the element is copied to once it has come.

        In calls before that one nobody reads anything.
        """
        axis, (call, at) = stream.time, divmod(stream.delay + stream.copies, stream.count)
        assert axis is not None
        if call + at and len(self.blocks) > 1:
            raise OptionError(
                f"the step that it pads with comes {call * stream.count + at} steps late",
                where="--block", cure="give one size",
            )  # fmt: skip
        shape = self.types[window].shape
        element = self.cut(value, axis, at, at + 1)
        copies = (*shape[:axis], reach + at, *shape[axis + 1 :])
        before = self.op(Expand(copies), f"{value}/copies", element)
        rest = self.cut(value, axis, at, stream.count)
        begun = self.op(Concat(axis), f"{value}/first", before, rest)
        next_call = self.scalar(float(call * stream.count + 1))
        early = self.op(Less(), f"{value}/early", self._first(stream), next_call)
        return self.op(Where(), f"{window}/begun", early, begun, window)

    @staticmethod
    def _slice(shape: tuple[int, ...], axis: int, start: int, end: int) -> Slice:
        starts, ends = [0] * len(shape), list(shape)
        starts[axis], ends[axis] = start, end
        return Slice(tuple(starts), tuple(ends), (1,) * len(shape))

    def lateness(self, value: str, stream: Stream) -> int:
        """How many elements before those that have come a sequence ends which this call completes.

        Raises UnsupportedError unless the value ends with the last input; where it has a delay, it
        may end later by as much.
        """
        assert stream.time is not None
        length = self.graph.types[value].shape[stream.time]
        known = Fraction(self.steps * stream.count, self.block * stream.every) - stream.delay
        if length > known and length - known >= max(stream.delay, 0) + 1:
            after = length - known - max(stream.delay, 0)
            raise UnsupportedError(f"its sequence ends {after} elements after the last input")
        if known - length >= 1:
            before = known - length
            raise UnsupportedError(f"its sequence ends {before} elements before the last input")
        return max(0, int(length - known))

    def last(self, value: str, stream: Stream, kept: int, late: int) -> str:
        """The last elements of a sequence that ended `late` elements ago."""
        assert stream.time is not None
        reach = kept - stream.count + late - self.lateness(value, stream)
        found = self.past(value, stream, reach, 0.0)
        return self.cut(found, stream.time, 0, kept)

    def begun(self, value: str, stream: Stream) -> tuple[str, Stream]:
        """The value with its padding, if any, element by element: with a delay of 0 at least."""
        if stream.delay >= 0 and not stream.copies:
            return value, stream
        return self.delayed(value, stream, max(0, stream.delay + stream.copies))

    def delayed(self, value: str, stream: Stream, delay: int) -> tuple[str, Stream]:
        """The value as it was some elements ago."""
        assert stream.time is not None
        reach = delay - stream.delay
        if reach == 0:
            return value, stream
        if stream.final:
            raise UnsupportedError("it joins values of different steps")
        found = self.past(value, stream, reach, 0.0)
        found = self.cut(found, stream.time, 0, stream.count)
        lead = None
        if stream.lead is not None and delay < 0:
            lead = first(stream.lead, stream.time, -delay)
        return found, replace(stream, delay=delay, lead=lead, copies=0)

    def masked(self, value: str, stream: Stream, fill: float) -> str:
        """The value with `fill` for elements before the first one, which do not exist."""
        if stream.delay <= 0:
            return value
        stored = self._stored(value, fill)
        if stored:
            masked = self.masked(stored.value, stream, stored.fill)
            return self._floats(stored, masked, value)
        assert stream.time is not None
        rank = self.types[value].rank
        shape = (stream.count, *[1] * (rank - stream.time - 1))
        early = self.early(stream.delay, stream, shape)
        number = self.scalar(fill, self.types[value].dtype)
        key = ("masked", value, fill)
        return self._once(key, lambda: self.op(Where(), f"{value}/begun", early, number, value))

    def early(self, delay: int, stream: Stream, shape: tuple[int, ...]) -> str:
        """bool[shape]: which elements are before the first one, which comes so late.

        The shape has one axis of elements, of which the call's own come first.
        """

        def make() -> str:
            steps = np.arange(prod(shape), dtype=np.float32).reshape(shape)
            known = self.constant("early/steps", steps)
            index = self.op(Add(), "early/index", self._first(stream), known)
            return self.op(Less(), "early", index, self.scalar(float(delay)))

        return self._once(("early", delay, stream.count, stream.every, shape), make)

    def index(self, stream: Stream, shape: tuple[int, ...]) -> str:
        """float32[shape]: the numbers of the elements of this call; below 0: none yet."""

        def make() -> str:
            steps = np.arange(prod(shape), dtype=np.float32).reshape(shape)
            known = self.constant("index/steps", steps - np.float32(stream.delay))
            self.settled.pop(self.clock(stream.every), None)
            return self.op(Add(), "index", self._first(stream), known)

        return self._once(("index", stream.delay, stream.count, stream.every, shape), make)

    def missing(self, stream: Stream) -> str:
        """float32[1]: how many elements come before the first one, in this call and later."""

        def make() -> str:
            late = self.scalar(float(stream.delay))
            left = self.op(Sub(), "missing/left", late, self._first(stream))
            return self.op(Max(), "missing", left, self.scalar(0.0))

        return self._once(("missing", stream.delay, stream.count, stream.every), make)

    def _first(self, stream: Stream) -> str:
        """float32[1]: the number of the first element of this call, counted without delay."""
        each = float(stream.count * gcd(*self.blocks) // self.block)
        return self._once(
            ("first", stream.count, stream.every),
            lambda: self.op(Mul(), "early/first", self.clock(stream.every), self.scalar(each)),
        )

    def clock(self, every: int) -> str:
        """float32[1]: how many units were before this call; it stops at a large number.

        A unit is what the sizes of all calls are multiples of, or `every` calls.
        """

        def make() -> str:
            clock, following = self.state("clock", (1,), every=every)
            self.settled[clock] = 0
            units = float(self.block // gcd(*self.blocks))
            more = self.op(Add(), "clock/more", clock, self.scalar(units))
            node = Node(Min(), following, (more, self.scalar(LATEST)), (following,))
            self.add(node)
            return clock

        return self._once(("clock", every), make)

    def repeated(self, value: str, axis: int, count: int) -> str:
        """The one element of an axis, or as many as it has already, `count` times."""
        shape = self.types[value].shape
        if shape[axis] == count:
            return value
        wide = (*shape[:axis], count, *shape[axis + 1 :])
        return self._once(
            ("repeated", value, axis, count),
            lambda: self.op(Expand(wide), f"{value}/repeated", value),
        )

    def scalar(self, number: float, dtype: DType = DType.FLOAT32) -> str:
        """One element."""
        return self._once(
            ("scalar", number, dtype),
            lambda: self.constant("number", np.array([number], dtype.numpy)),
        )

    def _once(self, key: tuple[object, ...], make: Callable[[], str]) -> str:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def _as_integers(
    numbers: Array | Sequence[float], scale: Array | None, zero: Array | None
) -> Array | None:
    """The integers that floats are made of by one scale; None unless all of them are. -inf, of
    which only maxima are made, is the least one.
    """
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    unit, zero = np.asarray(scale, np.float32).reshape(()), zero.reshape(())
    wanted = np.asarray(numbers, np.float32)
    with np.errstate(all="ignore"):  # a scale may be 0
        found = quantised(wanted / unit, zero)
    exact = (DequantizeLinear().value(found, unit, zero) == wanted) | (wanted == -np.inf)
    return np.asarray(found) if exact.all() else None
