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

from cannery.frontends.streaming.past import Builder
from cannery.frontends.time_axis import Time, shrunk
from cannery.ir.graph import Calls, Graph, Node
from cannery.ir.tensor import DType
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
    builder: Builder = field(init=False)
    inner: dict[str, str] = field(default_factory=dict)
    phase: str = field(init=False)
    next_phase: str = field(init=False)

    def __post_init__(self) -> None:
        self.builder = Builder(self.graph, self.block, {}, (self.block,), self.groups.steps)
        self.builder.types |= self.graph.types
        self.phase, self.next_phase = self.builder.state("phase", (1,))

    @property
    def collects(self) -> bool:
        """Whether a call is less than a group."""
        return self.block < self.groups.steps

    def add_input(self, value: str, axis: int) -> None:
        """The steps of a call, joined with those before it that no group had."""
        b, most = self.builder, self.groups.steps - self.groups.few
        whole = b.types[value]
        b.types[value] = shrunk(whole, axis, self.block)
        kept = shrunk(whole, axis, most)
        past, following = b.state(f"{value}/collected", kept.shape, dtype=kept.dtype)
        both = b.op(Concat(axis), f"{value}/both", past, value)
        shape = b.types[both].shape
        starts, ends = [0] * len(shape), list(shape)
        starts[axis] = shape[axis] - most
        last = Slice(tuple(starts), tuple(ends), (1,) * len(shape))
        b.add(Node(last, following, (both,), (following,)))
        self.inner[value] = both
        if not self.collects:
            self.inner[value] = b.op(Gather(axis), f"{value}/groups", both, self._places(most))

    def _places(self, most: int) -> str:
        """int32[block]: which of `most` collected steps and those of a call the groups are."""
        b, places = self.builder, np.arange(most, most + self.block, dtype=np.float32)
        known = b.constant("phase/places", places)
        return b.op(Cast(DType.INT32), "phase/first", b.op(Sub(), "phase/from", known, self.phase))

    def finish(self) -> Graph:
        """The network, whose further states are the last ones."""
        graph, b, inner = self.graph, self.builder, self.inner
        self._end_phase()
        nodes = [replace(n, inputs=tuple(inner.get(v, v) for v in n.inputs)) for n in graph.nodes]
        return replace(
            graph,
            nodes=(*b.nodes, *nodes),
            inputs=(*graph.inputs, *(s.input for s in b.states)),
            outputs=(*graph.outputs, *(s.output for s in b.states)),
            types=b.types,
            constants={**graph.constants, **b.constants},
            states=(*graph.states, *b.states),
            calls=self._calls(),
        )

    def _end_phase(self) -> None:
        """How many steps are collected after this call."""
        b, following = self.builder, self.next_phase
        if not self.collects:
            b.add(Node(Identity(), following, (self.phase,), (following,)))
            return
        few = b.constant("phase/few", np.full(1, self.groups.few, np.float32))
        more = b.op(Add(), "phase/more", self.phase, few)
        steps = b.constant("phase/steps", np.full(1, self.groups.steps, np.float32))
        left = b.op(Less(), "phase/left", more, steps)
        none = b.constant("phase/none", np.zeros(1, np.float32))
        b.add(Node(Where(), following, (left, more, none), (following,)))

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
