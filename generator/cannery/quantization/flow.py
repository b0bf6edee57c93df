"""Which values of a float network never need to be floats, and which of them share a scale.

Moving elements is the same for integers as for the numbers that they represent. The parts of a
concatenation must share a scale: together with values moved from them they form a group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op
from cannery.ops.concat.op import Concat
from cannery.ops.concat.past import past_window
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.recurrent.base import Recurrent
from cannery.ops.resize.op import Resize

#: Operators that move integers as well as floats, from one input to one output.
MOVES = (Reshape, Transpose, Identity, Slice)


def on_integers(op: Op) -> Op | None:
    """The operator that does to integers without a zero point what an operator does to floats, if
    it only moves.

    Maxima count as moves.
    """
    if isinstance(op, MaxPool):
        fits = len(op.kernel) == 2
        return QuantizedMaxPool(op.kernel, op.strides, op.pads, op.dilations) if fits else None
    if isinstance(op, Resize):
        return op if op.mode == "nearest" else None
    if isinstance(op, Pad):
        return op if op.mode != "constant" or op.value == 0.0 else None
    return op if isinstance(op, MOVES) else None


def pasts_of(graph: Graph) -> frozenset[str]:
    """The inputs and outputs that are the past of a value."""
    found = (state for state in graph.states if past_window(graph, state))
    return frozenset(name for state in found for name in (state.input, state.output))


def _presents(graph: Graph) -> dict[str, str]:
    """By each state that is the past of a value, and by the window that it begins, that value, if
    the first past is zeros, or never a maximum.
    """
    found = dict[str, str]()
    for state in graph.states:
        window = past_window(graph, state)
        if window and set(state.initial) <= {0.0, -inf}:
            joins = graph.producer(window.value)
            assert joins is not None
            found |= dict.fromkeys((state.input, window.value), joins.inputs[1])
    return found


@dataclass
class Flow:
    """`layers`: first outputs of the nodes that read integers as their first input.

    `sums`: likewise of those that read integers if their result becomes integers, and that result.
    `raw`: inputs are quantised before they are moved, and outputs are floats made of integers.
    `pasts`: so are these inputs and outputs, which are the past of a value, now and after a call.
    `functions`: outputs of the nodes that are part of a function of one value, and that value.
    """

    graph: Graph
    layers: Collection[str]
    sums: Mapping[str, str]
    raw: bool = False
    pasts: Collection[str] = ()
    functions: Mapping[str, str] = field(default_factory=dict)
    _above: dict[str, str] = field(default_factory=dict)
    _members: dict[str, list[str]] = field(default_factory=dict)
    _joints: set[str] = field(default_factory=set)
    _floats: set[str] = field(default_factory=set)
    _presents: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._presents = _presents(self.graph)
        self._tie()
        for value in self._above:
            self._members.setdefault(self._root(value), []).append(value)
        for root, members in self._members.items():
            if any(map(self._needs_floats, members)) or not self._is_read(members):
                self._floats.add(root)
        waiting = [node for node in reversed(self.graph.nodes) if node.outputs[0] in self.sums]
        while sum(map(self._spread_floats, waiting)):
            pass

    def only_integers(self, value: str) -> bool:
        """Whether nothing needs the floats of a value, or of any value that shares its scale."""
        return self._root(value) not in self._floats

    def group(self, value: str) -> tuple[str, ...]:
        """The values that must share its scale and do not come from others."""
        root = self._root(value)
        if root in self._floats or not any(self.is_joint(v) for v in self._members[root]):
            return (value,)
        return tuple(v for v in self._members[root] if not self._parts(v))

    def is_joint(self, value: str) -> bool:
        """Whether a value is a concatenation made from integers."""
        return value in self._joints and self._root(value) not in self._floats

    def moved_from(self, value: str) -> str:
        """The value that a node moves to this one; empty if none does."""
        node = self.graph.producer(value)
        return node.inputs[0] if node is not None and on_integers(node.op) is not None else ""

    def origin(self, value: str) -> str:
        """The value whose elements are all those of this one, now or in earlier calls, but zeros.

        Parts of a value are not traced to it: their range may be smaller. Constants have no range,
        so what is moved from one is its own origin.
        """
        while source := self._presents.get(value) or self._whole_before(value):
            if source not in self._above:
                break
            value = source
        return value

    def _whole_before(self, value: str) -> str:
        """The value that a node moves to this one, all of it in the end; empty if none does."""
        node, source = self.graph.producer(value), self.moved_from(value)
        is_part = node is not None and isinstance(node.op, Slice)
        return "" if is_part and not self._is_later(source, value) else source

    def _is_later(self, source: str, part: str) -> bool:
        """Whether what a part leaves out of its source is in the parts of other calls, or steps
        that no stride takes, which a whole sequence would have: it is a part along the first axis
        of several elements, which is time.
        """
        if self.graph.calls is None:
            return False
        shape, left = (self.graph.types[v].shape for v in (source, part))
        axis = next((k for k, size in enumerate(shape) if size > 1), len(shape))
        return axis < len(shape) - 1 and shape[axis + 1 :] == left[axis + 1 :]

    def readers(self, value: str) -> Iterator[tuple[Node, str]]:
        """The nodes that read a value, now or later, or anything it is moved to or joined with, and
        what they read.
        """
        waiting = [(node, value) for node in reversed(self.graph.consumers(value))]
        while waiting:
            node, read = waiting.pop()
            result = node.outputs[0]
            joined = self.is_joint(result) or result in self._presents
            if on_integers(node.op) is not None or joined:
                waiting += [(n, result) for n in reversed(self.graph.consumers(result))]
            else:
                yield node, read

    # ---- groups ----

    def _tie(self) -> None:
        """Union of moved and joined values; outputs of recurrent layers already have scales, which
        only their past shares.
        """
        fixed = set[str]()
        for name in (*self.graph.inputs, *(o for n in self.graph.nodes for o in n.outputs)):
            self._above[name] = name
        for node in self.graph.nodes:
            if isinstance(node.op, Recurrent):
                fixed.update(map(self._root, node.outputs))
            if on_integers(node.op) is not None:
                self._unite(node.inputs[0], node.output)
            elif isinstance(node.op, Concat) and all(i in self._above for i in node.inputs):
                roots = set(map(self._root, node.inputs))
                if not fixed.isdisjoint(roots) and node.output not in self._presents:
                    continue
                self._joints.add(node.output)
                for value in node.inputs:
                    self._unite(value, node.output)
                if not fixed.isdisjoint(roots):
                    fixed.add(self._root(node.output))

    def _unite(self, source: str, target: str) -> None:
        if source in self._above:
            self._above[self._root(target)] = self._root(source)

    def _root(self, value: str) -> str:
        while self._above[value] != value:
            self._above[value] = self._above[self._above[value]]
            value = self._above[value]
        return value

    def _parts(self, value: str) -> tuple[str, ...]:
        """The values from which a value is moved or joined."""
        node = self.graph.producer(value)
        joined = node is not None and (value in self._joints or on_integers(node.op) is not None)
        return node.inputs if node is not None and joined else ()

    # ---- who needs floats ----

    def _others(self, value: str) -> Iterator[Node]:
        """The nodes that do more than move a value."""
        for node in self.graph.consumers(value):
            if node.outputs[0] not in self._joints and on_integers(node.op) is None:
                yield node

    def _needs_floats(self, value: str) -> bool:
        """Whether anything except sums needs them."""
        is_output = value in self.graph.outputs and value not in self.pasts
        if is_output and (not self.raw or self._parts(value)):
            return True
        for node in self._others(value):
            layer = node.outputs[0] in self.layers and node.inputs[0] == value
            layer = layer or self.functions.get(node.outputs[0]) == value
            if not layer and node.outputs[0] not in self.sums:
                return True
        return False

    def _is_read(self, members: list[str]) -> bool:
        outputs = self.graph.outputs
        return any(v in outputs or next(self._others(v), None) is not None for v in members)

    def _spread_floats(self, node: Node) -> bool:
        """Operands of a sum whose result needs floats need them too; returns whether that was
        new.
        """
        result = self.sums.get(node.outputs[0])
        if result is None or self.only_integers(result):
            return False
        roots = set(map(self._root, node.inputs)) - self._floats
        self._floats |= roots
        return bool(roots)
