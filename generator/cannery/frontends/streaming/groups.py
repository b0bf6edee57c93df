"""Calls of fewer steps than one element takes, beside calls of many, on one state.

Layers with strides work on groups of steps. Networks for calls of whole groups have one state, and
calls of fewer steps would cut the groups elsewhere. So these collect their steps, and the last call
of a group computes it. A call of many steps begins with those that have been collected, and leaves
as many of its own: it computes as many groups as ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cannery.frontends.time_axis import Time, shrunk
from cannery.ir.graph import Array, Calls, Graph, Node, State, free_name
from cannery.ir.registry import Op
from cannery.ir.tensor import DType, TensorType
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import Add, Sub
from cannery.ops.indexing.gather import Gather
from cannery.ops.logic.compare import Less, Where
from cannery.ops.movement.op import Cast, Identity, Slice


@dataclass(frozen=True)
class Groups:
    """`steps` make whole elements of all values; a call may bring `few` of these."""

    steps: int
    few: int

    def sizes(self, blocks: Sequence[int]) -> tuple[int, ...]:
        """Of the networks inside: whole groups, each size once."""
        return tuple(dict.fromkeys(max(size, self.steps) for size in blocks))

    def around(self, graph: Graph, block: int, times: Mapping[str, Time]) -> Graph:
        """The network for a call of `block` steps, from that for whole groups."""
        work = _Around(self, graph, block)
        for value, time in times.items():
            if time is not None:
                work.add_input(value, time)
        return work.finish()


def groups_of(steps: int, blocks: Sequence[int]) -> Groups | None:
    """The groups, where all sizes but one are whole ones, and that is a part of one."""
    parts = [size for size in blocks if size % steps]
    return Groups(steps, parts[0]) if len(parts) == 1 and steps % parts[0] == 0 else None


@dataclass
class _Around:
    """Appends the nodes before those of the network for whole groups, and the states they need."""

    groups: Groups
    graph: Graph
    block: int
    nodes: list[Node] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    types: dict[str, TensorType] = field(init=False)
    constants: dict[str, Array] = field(init=False)
    inner: dict[str, str] = field(default_factory=dict)
    phase: str = field(init=False)

    def __post_init__(self) -> None:
        self.types, self.constants = dict(self.graph.types), dict(self.graph.constants)
        self.phase = self._state("phase", TensorType((1,)))

    @property
    def collects(self) -> bool:
        """Whether a call is less than a group."""
        return self.block < self.groups.steps

    def add_input(self, value: str, axis: int) -> None:
        """The steps of a call, joined with those before it that no group had."""
        most = self.groups.steps - self.groups.few
        whole = self.types[value]
        self.types[value] = shrunk(whole, axis, self.block)
        past = self._state(f"{value}/collected", shrunk(whole, axis, most))
        both = self._add(Concat(axis), f"{value}/both", past, value)
        shape = self.types[both].shape
        starts, ends = [0] * len(shape), list(shape)
        starts[axis] = shape[axis] - most
        last = Slice(tuple(starts), tuple(ends), (1,) * len(shape))
        self._add(last, f"{past}/next", both, output=f"{past}/next")
        self.inner[value] = both
        if not self.collects:
            self.inner[value] = self._add(Gather(axis), f"{value}/groups", both, self._places(most))

    def _places(self, most: int) -> str:
        """int32[block]: which of `most` collected steps and those of a call the groups are."""
        places = np.arange(most, most + self.block, dtype=np.float32)
        known = self._constant("phase/places", places)
        return self._add(
            Cast(DType.INT32), "phase/first", self._add(Sub(), "phase/from", known, self.phase)
        )

    def finish(self) -> Graph:
        """The network, whose further states are the last ones."""
        following = f"{self.phase}/next"
        if self.collects:
            few = self._constant("phase/few", np.full(1, self.groups.few, np.float32))
            more = self._add(Add(), "phase/more", self.phase, few)
            steps = self._constant("phase/steps", np.full(1, self.groups.steps, np.float32))
            left = self._add(Less(), "phase/left", more, steps)
            none = self._constant("phase/none", np.zeros(1, np.float32))
            self._add(Where(), following, left, more, none, output=following)
        else:
            self._add(Identity(), following, self.phase, output=following)
        graph = self.graph
        inner = self.inner
        nodes = [replace(n, inputs=tuple(inner.get(v, v) for v in n.inputs)) for n in graph.nodes]
        return replace(
            graph,
            nodes=(*self.nodes, *nodes),
            inputs=(*graph.inputs, *(s.input for s in self.states)),
            outputs=(*graph.outputs, *(s.output for s in self.states)),
            types=self.types,
            constants=self.constants,
            states=(*graph.states, *self.states),
            calls=self._calls(),
        )

    def _calls(self) -> Calls:
        """Those of the network inside, all of which a call that collects changes with a group."""
        calls = self.graph.calls
        assert calls is not None
        settled = calls.settled + self.groups.steps
        if not self.collects:
            return replace(calls, settled=settled)
        every = self.groups.steps // self.groups.few
        return replace(
            calls, steps=self.block, every=every, settled=settled,
            periods=dict.fromkeys(self.graph.outputs, every),
        )  # fmt: skip

    def _state(self, name: str, type_: TensorType) -> str:
        value = free_name(name, self.types)
        self.types[value] = type_
        self.states.append(State(value, f"{value}/next"))
        return value

    def _constant(self, name: str, array: Array) -> str:
        value = free_name(name, self.types)
        self.constants[value] = array
        self.types[value] = TensorType(array.shape, DType(array.dtype.name))
        return value

    def _add(self, op: Op, name: str, *inputs: str, output: str = "") -> str:
        """Append a node, and return its output."""
        (type_,) = op.infer(*(self.types[v] for v in inputs))
        output = output or free_name(name, self.types)
        self.types[output] = type_
        self.nodes.append(Node(op, output, inputs, (output,)))
        return output
