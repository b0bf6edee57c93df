"""A graph that can be changed: passes edit it and turn it back into an immutable Graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cannery.ir.graph import Array, Graph, Node, free_name
from cannery.ir.tensor import DType, TensorType

if TYPE_CHECKING:
    from cannery.ir.registry import Op


class Rewriter:
    """Mutable copy of a graph. Values keep their names, so outputs and dumps stay recognisable.

    All questions about one node or value take constant time, so passes stay linear. Nodes are in
    slots, one per original node; replacements of a node go into its slot.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.types: dict[str, TensorType] = dict(graph.types)
        self.constants: dict[str, Array] = dict(graph.constants)
        self.outputs: tuple[str, ...] = graph.outputs
        self.changed = False
        self._suffixes: dict[str, int] = {}
        self._slots: list[list[Node]] = []
        self._slot_of: dict[int, list[Node]] = {}
        self._producers: dict[str, Node] = {}
        self._readers: dict[str, dict[int, Node]] = {}
        for node in graph.nodes:
            self._slots.append([])
            self._insert(self._slots[-1], 0, node)

    @property
    def nodes(self) -> list[Node]:
        """All nodes in topological order, as a new list that later changes do not affect."""
        return [node for slot in self._slots for node in slot]

    def sweep(self, rule: Callable[[Rewriter, Node], bool], *, backwards: bool = False) -> bool:
        """Call `rule` with every node, in order, except those that it removed or replaced.

        Returns whether any call returned True, that is, changed something. A rule that moves nodes
        into later ones should see the last one first.
        """
        changed = False
        for node in reversed(self.nodes) if backwards else self.nodes:
            if id(node) in self._slot_of:
                changed |= rule(self, node)
        return changed

    def constant(self, hint: str, array: Array) -> str:
        """Add a constant (float64 is rounded to float32) under a free name."""
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        name = free_name(hint, self.types, self._suffixes)
        self.constants[name] = array
        self.types[name] = TensorType(array.shape, DType(array.dtype.name))
        return name

    def value(self, hint: str, type_: TensorType) -> str:
        """Declare a new intermediate value under a free name."""
        name = free_name(hint, self.types, self._suffixes)
        self.types[name] = type_
        return name

    def producer(self, value: str) -> Node | None:
        """The node that computes a value; None for inputs and constants."""
        return self._producers.get(value)

    def readers(self, value: str) -> list[Node]:
        """The nodes that read a value."""
        return list(self._readers.get(value, {}).values())

    def single_reader(self, value: str) -> Node | None:
        """The only node that reads a value; None if there are several, or if it is an output."""
        readers = self._readers.get(value, {})
        if len(readers) != 1 or value in self.outputs:
            return None
        return next(iter(readers.values()))

    def sole_producer(self, value: str, kind: type[Op]) -> Node | None:
        """The node that computes a value, if it is such an operator, and only one node reads it."""
        node = self.producer(value)
        known = node is not None and isinstance(node.op, kind)
        return node if known and self.single_reader(value) is not None else None

    def replace_node(self, old: Node, new: Sequence[Node]) -> None:
        """Put `new` in the place of `old`; together they must define the same outputs."""
        slot = self._slot_of[id(old)]
        at = next(k for k, n in enumerate(slot) if n is old)
        self._remove(slot, at)
        for k, node in enumerate(new):
            self._insert(slot, at + k, node)
        self.changed = True

    def update(self, node: Node, op: Op | None = None, inputs: Sequence[str] | None = None) -> Node:
        """Replace a node by one with another operator or other inputs; returns the new node."""
        new = replace(
            node,
            op=node.op if op is None else op,
            inputs=node.inputs if inputs is None else tuple(inputs),
        )
        self.replace_node(node, [new])
        return new

    def bypass(self, node: Node, value: str) -> None:
        """Remove a node with one output; its readers read `value` instead.

        If the output is one of the model's, `value`'s producer takes over its name.
        """
        output = node.output
        self.replace_node(node, [])
        if output not in self.outputs:
            self._rename_reads(output, value)
            return
        self._rename_reads(value, output)
        other = self._producers[value]
        outputs = tuple(output if o == value else o for o in other.outputs)
        self.replace_node(other, [replace(other, outputs=outputs)])

    def can_bypass(self, node: Node, value: str) -> bool:
        """Whether `bypass` is possible: an output must keep a producer of its own."""
        if node.output not in self.outputs:
            return True
        return value in self._producers and value not in self.outputs

    def _rename_reads(self, old: str, new: str) -> None:
        for node in list(self._readers.get(old, {}).values()):
            self.update(node, inputs=[new if i == old else i for i in node.inputs])

    def _insert(self, slot: list[Node], at: int, node: Node) -> None:
        slot.insert(at, node)
        self._slot_of[id(node)] = slot
        self._producers.update((output, node) for output in node.outputs)
        for value in node.inputs:
            self._readers.setdefault(value, {})[id(node)] = node

    def _remove(self, slot: list[Node], at: int) -> None:
        node = slot.pop(at)
        del self._slot_of[id(node)]
        for output in node.outputs:
            if self._producers[output] is node:
                del self._producers[output]
        for value in set(node.inputs):
            del self._readers[value][id(node)]

    def finish(self) -> Graph:
        """The changed graph, without anything on which no output depends; the same object if
        unchanged.
        """
        if not self.changed:
            return self.graph
        graph, nodes, used = self.graph, list[Node](), set(self.outputs)
        for node in reversed(self.nodes):
            if not used.isdisjoint(node.outputs):
                nodes.append(node)
                used.update(node.inputs)
        constants = {k: v for k, v in self.constants.items() if k in used}
        defined = {*graph.inputs, *constants, *(o for n in nodes for o in n.outputs)}
        types = {k: v for k, v in self.types.items() if k in defined}
        return replace(graph, nodes=tuple(nodes[::-1]), types=types, constants=constants)
