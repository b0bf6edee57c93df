"""Reads the text form of a graph, written by `write_graph` in `printer.py` or by hand.

You may leave out what follows from the rest: the types of results, attributes with a default, and
the elements of constants:

    graph net
    input x: float32[1x6x6x4]          # a comment
    const w: float32[3x3x4x8]          # any numbers from -1 to 1, the same ones each time
    const v: float32[8] = uniform(0.1, 2)
    const b: float32[8] = 0.5          # or all of them: [0.5, 0.25, ...]
    conv = Conv(x, w, b) strides=(1, 1) pads=((0, 0), (0, 0)) dilations=(1, 1)
    output conv

Errors are ModelErrors that name the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from zlib import crc32

import numpy as np

from cannery.errors import CanneryError, ModelError, one_of
from cannery.ir.attributes import make_op
from cannery.ir.graph import Array, Calls, Graph, GraphBuilder, Length, Node, Scale, State
from cannery.ir.half import infer_types
from cannery.ir.line import Line
from cannery.ir.registry import all_ops
from cannery.ir.tensor import DType, TensorType
from cannery.ir.verify import verify

_TYPE = re.compile(r"(\w+)\[((?:\d+(?:x\d+)*)?)\]")


def parse_graph(text: str, where: str = "text") -> Graph:
    """The graph that a text describes. Raises ModelError at `where` and the line."""
    reader = _Reader()
    for number, written in enumerate(text.splitlines(), 1):
        line = Line(written)
        try:
            if not line.ended:
                reader.read(line)
        except CanneryError as error:
            place = f"{where}, line {number}"
            error.where = f"{place}, {error.where}" if error.where else place
            raise
    graph = reader.graph(where)
    verify(graph, after="parsing")
    return graph


class _Reader:
    """The graph as read so far."""

    def __init__(self) -> None:
        self.builder: GraphBuilder | None = None
        self.nodes: list[Node] = []
        self.outputs: list[str] = []
        self.first: list[str] = []
        self.halves: list[str] = []
        self.steps: int | None = None
        self.times: dict[str, int] = {}
        self.calls: Calls | None = None
        self.states: list[State] = []
        self.scales: dict[str, Scale] = {}
        self.unit_error = 0.0
        self.layers: list[str] = []
        self.notes: list[str] = []
        self.ways: dict[str, Callable[[Line], None]] = {
            "input": self._input, "const": self._constant, "output": self._output,
            "channels": self._channels, "up": self._length, "calls": self._calls,
            "every": self._every, "settled": self._settled,
            "state": self._state, "scale": self._scale, "unit": self._unit,
            "integer": self._layer, "note": self._note, "stored": self._stored,
        }  # fmt: skip

    def read(self, line: Line) -> None:
        """One line that is not empty."""
        begin = line.at
        word = line.name()
        way = self.ways.get(word)
        if self.builder is None:
            if word != "graph":
                raise ModelError("the first line must be `graph <name>`")
            self.builder = GraphBuilder(line.name())
        # A value may also be called `input`: then its type or its definition comes next.
        elif way and not line.next_is(":", "=", ","):
            way(line)
        else:
            line.at = begin
            self._node(line)
        line.end()

    def graph(self, where: str) -> Graph:
        """Reads the whole text."""
        if self.builder is None:
            raise ModelError("there is no graph", where=where)
        for name in self.outputs:
            self.builder.output(name)
        return replace(
            self.builder.build(),
            nodes=tuple(self.nodes),
            channels_first=frozenset(self.first),
            halves=frozenset(self.halves),
            length=None if self.steps is None else Length(self.steps, self.times),
            calls=self.calls,
            states=tuple(self.states),
            scales=self.scales,
            unit_error=self.unit_error,
            integer_layers=tuple(self.layers),
            notes=tuple(self.notes),
        )

    @property
    def _known(self) -> GraphBuilder:
        assert self.builder is not None
        return self.builder

    def _value(self, line: Line) -> str:
        """The name of an existing value."""
        name = line.name()
        if name not in self._known.types:
            raise ModelError(f"no value {name!r}", cure=one_of(name, self._known.types))
        return name

    def _new(self, line: Line) -> str:
        name = line.name()
        if name in self._known.types:
            raise ModelError(f"{name!r} is defined twice")
        return name

    def _input(self, line: Line) -> None:
        name = self._new(line)
        line.take(":")
        type_ = _type(line)
        self._known.input(name, type_.shape, type_.dtype)

    def _constant(self, line: Line) -> None:
        name = self._new(line)
        line.take(":")
        type_ = _type(line)
        self._known.types[name] = type_
        self._known.constants[name] = _elements(line, name, type_)

    def _node(self, line: Line) -> None:
        names, types = [], []
        while True:
            names.append(self._new(line))
            types.append(_type(line) if line.took(":") else None)
            if not line.took(","):
                break
        line.take("=")
        kind = line.name()
        if kind not in all_ops():
            raise ModelError(f"no operator {kind!r}", cure=one_of(kind, all_ops()))
        inputs = self._inputs(line)
        op = make_op(all_ops()[kind], line.attributes("named"))
        layer = line.name() if line.took("named") else names[0]
        try:
            inferred = infer_types(op, [self._known.types[i] if i else None for i in inputs])
        except (TypeError, ValueError) as error:
            raise ModelError(f"{kind} cannot have these inputs: {error}") from None
        if len(inferred) != len(names):
            raise ModelError(f"{kind} has {len(inferred)} results, not {len(names)}")
        for name, type_, own in zip(names, types, inferred, strict=True):
            if type_ not in (None, own):
                raise ModelError(f"{name!r} is {own}, not {type_}")
            self._known.types[name] = own
        self.nodes.append(Node(op, layer, inputs, tuple(names)))

    def _inputs(self, line: Line) -> tuple[str, ...]:
        """The values in parentheses; a dash is an absent one."""
        found: list[str] = []
        line.take("(")
        while not line.took(")"):
            if found:
                line.take(",")
            found.append("" if line.took("-") else self._value(line))
        return tuple(found)

    def _output(self, line: Line) -> None:
        self.outputs.append(self._value(line))

    def _channels(self, line: Line) -> None:
        line.take("first in the model:")
        self.first.append(self._value(line))

    def _stored(self, line: Line) -> None:
        line.take("as float16:")
        self.halves.append(self._value(line))

    def _length(self, line: Line) -> None:
        line.take("to")
        self.steps = int(line.number())
        line.take("steps:")
        while not line.ended:
            if self.times:
                line.take(",")
            name = self._value(line)
            self.times[name] = int(line.number())

    def _calls(self, line: Line) -> None:
        line.take("of")
        steps = int(line.number())
        line.take("steps,")
        self.calls = Calls(steps, int(line.number()))
        line.take("late")

    def _settled(self, line: Line) -> None:
        line.take("after")
        settled = int(line.number())
        lasting = line.took(", or later")
        self.calls = replace(self.calls or Calls(), settled=settled, lasting=lasting)

    def _every(self, line: Line) -> None:
        count = int(line.number())
        line.take("calls")
        calls = self.calls or Calls()
        if line.took(":"):
            periods = {**calls.periods, self._value(line): count}
            self.calls = replace(calls, periods=periods)
        else:
            self.calls = replace(calls, every=count)
            if line.took(","):
                self.calls = replace(self.calls, phase=int(line.number()))
                line.take("before the first")

    def _state(self, line: Line) -> None:
        output = self._value(line)
        line.take("->")
        value = self._value(line)
        initial: tuple[float, ...] = ()
        if line.took(", begins with"):
            initial = tuple(map(float, line.numbers()))
        self.states.append(State(value, output, initial))

    def _scale(self, line: Line) -> None:
        name = self._value(line)
        line.take(":")
        scale = float(line.number())
        line.take(",")
        self.scales[name] = Scale(scale, int(line.number()))

    def _unit(self, line: Line) -> None:
        line.take("error")
        self.unit_error = float(line.number())

    def _layer(self, line: Line) -> None:
        line.take("layer")
        self.layers.append(line.name())

    def _note(self, line: Line) -> None:
        self.notes.append(line.name())


def _type(line: Line) -> TensorType:
    found = line.match(_TYPE)
    if found is None:
        raise line.error("a type such as float32[1x4x4x2]")
    names = [d.value for d in DType]
    if found[1] not in names:
        raise ModelError(f"no element type {found[1]!r}", cure=one_of(found[1], names))
    return TensorType(tuple(map(int, filter(None, found[2].split("x")))), DType(found[1]))


def _elements(line: Line, name: str, type_: TensorType) -> Array:
    """The part of a constant's line after the type: its elements."""
    if not line.took("="):
        line.attributes("")  # mean and norm, in a summary
        return _any(name, type_, -1.0, 1.0)
    if line.took("uniform("):
        low = float(line.number())
        line.take(",")
        high = float(line.number())
        line.take(")")
        return _any(name, type_, low, high)
    if not line.next_is("["):
        return np.full(type_.shape, _array([line.number()], type_.dtype)[0])
    listed = _array(line.numbers(), type_.dtype)
    if listed.size != type_.elements:
        raise ModelError(f"{listed.size} elements are listed, {type_} has {type_.elements}")
    return listed.reshape(type_.shape)


def _array(numbers: list[int | float], dtype: DType) -> Array:
    """Numbers as elements of a type that can hold them."""
    wide: Array = np.array(numbers, np.float64 if dtype is DType.FLOAT32 else object)
    with np.errstate(over="ignore"):
        try:
            found: Array = wide.astype(dtype.numpy)
        except (OverflowError, ValueError):
            found = np.zeros(len(numbers), dtype.numpy)
    for number, own in zip(numbers, found, strict=True):
        if dtype is not DType.FLOAT32 and own.item() != number:
            raise ModelError(f"{number} is not of type {dtype.value}")
    return found


def _any(name: str, type_: TensorType, low: float, high: float) -> Array:
    """Numbers that depend only on the name of a constant, in every version of numpy."""
    bits = np.random.PCG64(crc32(name.encode())).random_raw(type_.elements) >> np.uint64(40)
    share = np.asarray(bits).astype(np.float64).reshape(type_.shape) / 2.0**24
    if type_.dtype is DType.FLOAT32:
        return (low + (high - low) * share).astype(np.float32)
    if type_.dtype is DType.BOOL:
        return share < 0.5
    least = 0 if type_.dtype.numpy.kind == "u" else -100
    return (least + np.floor(share * (100 - least))).astype(type_.dtype.numpy)
