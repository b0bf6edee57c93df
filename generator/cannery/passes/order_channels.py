"""Reordered channels are not moved: convolutions can have their weights in any order.

ShuffleNet joins two branches, interleaves their channels, and cuts the result in two again. This
pass traces every channel that a convolution reads back to the layer that computes it. The input of
convolutions becomes a concatenation of runs of neighbouring channels, and their weights follow that
order. Layers compute their channels in the order in which they are needed, so that runs are few. A
layer whose run is at its end or beginning writes all its channels into the concatenation, of which
only a part is then read:

    its channels for later | those for now || runs of older layers
                           |<----------- what is read ----------->|
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf

import numpy as np

from cannery.ir.eliminate_dead import eliminate_dead
from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Slice, Transpose
from cannery.passes.by_channel import choose_channels, choose_inputs, is_conv, keeps_apart
from cannery.passes.channel_traces import PIXELS, Channel, Traces

#: How many channels per run, on average, are worth a separate copy.
LEAST_RUN = 4


def order_channels(graph: Graph) -> Graph:
    """Shuffled channels -> layers that keep channels apart -> Conv, in images of one sample."""
    if not any(isinstance(node.op, Transpose | Slice) for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph)
    traces = Traces(rewriter)
    for demands in _groups(_demands(rewriter, traces)):
        if any(demand.shuffled for demand in demands):
            layers = _layers(rewriter, traces, demands)
            plan = _Plan(rewriter, demands, layers)
            if all(layers.values()) and plan.pays:
                plan.write()
    return eliminate_dead(rewriter.finish()) if rewriter.changed else graph


@dataclass(frozen=True)
class _Reader:
    """Layers that read a value, up to a convolution, by their outputs."""

    layers: tuple[str, ...]
    value: str
    channels: tuple[Channel, ...]


@dataclass
class _Demand:
    """Readers of the same channels, each in its own order."""

    readers: list[_Reader] = field(default_factory=list)
    shuffled: bool = False

    @property
    def channels(self) -> frozenset[Channel]:
        return frozenset(self.readers[0].channels)

    @property
    def sources(self) -> set[str]:
        """The values that have the channels."""
        return {value for value, _ in self.readers[0].channels}


def _demands(rewriter: Rewriter, traces: Traces) -> list[_Demand]:
    """All demands of a graph, in the order of computation."""
    found: dict[frozenset[Channel], _Demand] = {}
    for node in rewriter.nodes:
        layers = _to_conv(rewriter, node)
        if not layers:
            continue
        value = node.inputs[0]
        channels = tuple(traces(value))
        if len(set(channels)) == len(channels):
            demand = found.setdefault(frozenset(channels), _Demand())
            demand.readers.append(_Reader(layers, value, channels))
            demand.shuffled |= traces.shuffled(value)
    return [*found.values()]


def _to_conv(rewriter: Rewriter, node: Node) -> tuple[str, ...]:
    """The layers from one that reads an image to a convolution; empty if there is none."""
    found: list[str] = []
    value = node.inputs[0] if node.inputs else ""
    image = value and rewriter.types[value].rank == PIXELS + 1
    reader: Node | None = node if image and rewriter.types[value].shape[0] == 1 else None
    while reader is not None and reader.outputs:
        found.append(reader.outputs[0])
        if is_conv(rewriter, reader, group=1):
            return tuple(found) if reader.inputs[0] == value else ()
        if not keeps_apart(rewriter, reader, value):
            return ()
        value = reader.output
        reader = rewriter.single_reader(value)
    return ()


def _groups(demands: Sequence[_Demand]) -> list[list[_Demand]]:
    """The demands grouped by the values that they need, each group in order."""
    groups: list[tuple[set[str], list[int]]] = []
    for number, demand in enumerate(demands):
        near = [group for group in groups if group[0] & demand.sources]
        values = demand.sources.union(*(values for values, _ in near))
        members = [k for _, numbers in near for k in numbers]
        groups = [group for group in groups if group not in near] + [(values, [*members, number])]
    return [[demands[k] for k in sorted(numbers)] for _, numbers in groups]


def _layers(
    rewriter: Rewriter, traces: Traces, demands: Sequence[_Demand]
) -> dict[str, tuple[str, ...]]:
    """For each value of the demands, the layers that compute it, from a convolution on.

    There are none if its channels must keep their order.
    """
    known = {reader.layers[0] for demand in demands for reader in demand.readers}
    found = {}
    for value in sorted(set[str]().union(*(demand.sources for demand in demands))):
        free = all(end in known for end in _ends(rewriter, traces, value))
        found[value] = _from_conv(rewriter, value) if free else ()
    return found


def _from_conv(rewriter: Rewriter, value: str) -> tuple[str, ...]:
    found = [value]
    while (node := rewriter.producer(found[0])) is not None:
        if is_conv(rewriter, node, group=1):
            return tuple(found)
        before = node.inputs[0] if node.inputs else ""
        if not keeps_apart(rewriter, node, before) or rewriter.single_reader(before) is None:
            break
        found.insert(0, before)
    return ()


def _ends(rewriter: Rewriter, traces: Traces, value: str) -> Iterator[str]:
    """Outputs of a value's final readers, past nodes that only move channels; "": the caller."""
    waiting, seen = [value], {value}
    while waiting:
        value = waiting.pop()
        if value in rewriter.outputs:
            yield ""
        for node in rewriter.readers(value):
            if not traces.moves(node):
                yield node.outputs[0]
            elif node.output not in seen:
                seen.add(node.output)
                waiting.append(node.output)


@dataclass(frozen=True)
class _Run:
    """Neighbouring channels of a value, in the new order of its layer.

    `new`: nothing reads the value earlier, so all of it is in the concatenation.
    """

    value: str
    begin: int
    end: int
    new: bool


class _Plan:
    """The orders of all channels of some demands, and the runs that each demand reads."""

    def __init__(
        self, rewriter: Rewriter, demands: list[_Demand], layers: dict[str, tuple[str, ...]]
    ) -> None:
        self.rewriter = rewriter
        self.demands = demands
        self.layers = layers
        self.orders: dict[str, list[int]] = {}
        first: dict[Channel, int] = {}
        for number, demand in enumerate(demands):
            first |= dict.fromkeys(demand.channels - first.keys(), number)
        self.runs = [self._order(demand, first) for demand in demands]

    @property
    def pays(self) -> bool:
        """Whether runs are long enough."""
        runs = sum(len(runs) for runs in self.runs)
        return sum(len(demand.channels) for demand in self.demands) >= LEAST_RUN * runs

    def _order(self, demand: _Demand, first: dict[Channel, int]) -> list[_Run]:
        """The runs of a demand, old values between two new ones; gives new ones their order."""
        new = sorted(demand.sources - self.orders.keys())
        for number, value in enumerate(new):
            sign = 1 if number else -1
            self.orders[value] = sorted(
                range(self._count(value)), key=lambda c: sign * first.get((value, c), inf)
            )
        old = sorted(demand.sources - set(new))
        runs = []
        for value in (*new[:1], *old, *new[1:]):
            wanted = [k for k, c in enumerate(self.orders[value]) if (value, c) in demand.channels]
            gaps = [k for k, (a, b) in enumerate(pairwise(wanted), 1) if b != a + 1]
            for a, b in pairwise([0, *gaps, len(wanted)]):
                runs.append(_Run(value, wanted[a], wanted[b - 1] + 1, value in new))
        return runs

    def _count(self, value: str) -> int:
        return self.rewriter.types[value].shape[-1]

    def _node(self, output: str) -> Node:
        node = self.rewriter.producer(output)
        assert node is not None
        return node

    def write(self) -> None:
        """Change the graph; nodes that moved channels are no longer read."""
        for value, order in self.orders.items():
            if order != sorted(order):
                nodes = [self._node(output) for output in self.layers[value]]
                choose_channels(self.rewriter, nodes, np.array(order))
        for demand, runs in zip(self.demands, self.runs, strict=True):
            self._serve(demand, runs)

    def _serve(self, demand: _Demand, runs: Sequence[_Run]) -> None:
        """Let the readers of a demand read its runs."""
        nodes: list[Node] = []
        joined = self._joined(runs, nodes)
        channels = [(r.value, self.orders[r.value][k]) for r in runs for k in range(r.begin, r.end)]
        for reader in demand.readers:
            places = {channel: k for k, channel in enumerate(reader.channels)}
            chosen = np.array([places[channel] for channel in channels])
            *between, conv = (self._node(output) for output in reader.layers)
            choose_channels(self.rewriter, between, chosen)
            choose_inputs(self.rewriter, conv, chosen)
            first = self._node(reader.layers[0])
            inputs = tuple(joined if v == reader.value else v for v in first.inputs)
            self.rewriter.replace_node(first, [*nodes, replace(first, inputs=inputs)])
            nodes = []

    def _joined(self, runs: Sequence[_Run], nodes: list[Node]) -> str:
        """The value with the channels of the runs; adds the nodes that compute it."""
        left, right = runs[0], runs[-1]
        before = left.begin if left.new and left.end == self._count(left.value) else 0
        after = self._count(right.value) - right.end if right.new and right.begin == 0 else 0
        parts = []
        for run in runs:
            begin = run.begin - (before if run is left else 0)
            end = run.end + (after if run is right else 0)
            parts.append(self._cut(run.value, begin, end, nodes))
        whole = parts[0]
        if len(parts) > 1:
            whole = self._value(parts[0], "joined", sum(map(self._count, parts)))
            nodes.append(Node(Concat(PIXELS), whole, tuple(parts), (whole,)))
        return self._cut(whole, before, self._count(whole) - after, nodes)

    def _cut(self, value: str, begin: int, end: int, nodes: list[Node]) -> str:
        """Some channels of a value; adds a node that takes them unless these are all."""
        if (begin, end) == (0, self._count(value)):
            return value
        part = self._value(value, "part", end - begin)
        shape = self.rewriter.types[value].shape[:PIXELS]
        op = Slice((0, 0, 0, begin), (*shape, end), (1, 1, 1, 1))
        nodes.append(Node(op, part, (value,), (part,)))
        return part

    def _value(self, value: str, what: str, channels: int) -> str:
        type_ = self.rewriter.types[value]
        shape = (*type_.shape[:PIXELS], channels)
        return self.rewriter.value(f"{value}/{what}", replace(type_, shape=shape))
