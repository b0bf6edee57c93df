"""A graph that is being changed: what passes edit, and turn back into an immutable Graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cannery.ir.graph import Array, Graph, Node
from cannery.ir.tensor import DType, TensorType

if TYPE_CHECKING:
    from cannery.ops.registry import Op


class Rewriter:
    """Mutable copy of a graph. Values keep their names, so outputs and dumps stay recognisable."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = list(graph.nodes)
        self.types: dict[str, TensorType] = dict(graph.types)
        self.constants: dict[str, Array] = dict(graph.constants)
        self.outputs: tuple[str, ...] = graph.outputs
        self.changed = False

    def constant(self, hint: str, array: Array) -> str:
        """Add a constant (float64 is rounded to float32) under a free name."""
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        name, k = hint, 0
        while name in self.types:
            k += 1
            name = f"{hint}.{k}"
        self.constants[name] = array
        self.types[name] = TensorType(array.shape, DType(array.dtype.name))
        return name

    def value(self, hint: str, type_: TensorType) -> str:
        """Declare a new intermediate value under a free name."""
        name, k = hint, 0
        while name in self.types:
            k += 1
            name = f"{hint}.{k}"
        self.types[name] = type_
        return name

    def single_reader(self, value: str) -> Node | None:
        """The node that alone reads a value; None if others do, or if it is an output."""
        readers = [n for n in self.nodes if value in n.inputs]
        if len(readers) != 1 or value in self.outputs:
            return None
        return readers[0]

    def replace_node(self, old: Node, new: Sequence[Node]) -> None:
        """Put `new` in the place of `old`; together they must define the same outputs."""
        at = self._index(old)
        self.nodes[at : at + 1] = list(new)
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

        Where the output is one of the model's, `value`'s producer takes over its name.
        """
        output = node.output
        self.nodes.pop(self._index(node))
        self.changed = True
        if output not in self.outputs:
            self._rename_reads(output, value)
            return
        self._rename_reads(value, output)
        for at, other in enumerate(self.nodes):
            if value in other.outputs:
                outputs = tuple(output if o == value else o for o in other.outputs)
                self.nodes[at] = replace(other, outputs=outputs)

    def _index(self, node: Node) -> int:
        return next(k for k, n in enumerate(self.nodes) if n is node)

    def can_bypass(self, node: Node, value: str) -> bool:
        """Whether `bypass` is possible: an output must keep a producer of its own."""
        if node.output not in self.outputs:
            return True
        produced = any(value in n.outputs for n in self.nodes)
        return produced and value not in self.outputs

    def _rename_reads(self, old: str, new: str) -> None:
        for at, node in enumerate(self.nodes):
            if old in node.inputs:
                inputs = tuple(new if i == old else i for i in node.inputs)
                self.nodes[at] = replace(node, inputs=inputs)

    def finish(self) -> Graph:
        """The changed graph, without unused constants and types; the same object if unchanged."""
        if not self.changed:
            return self.graph
        graph = self.graph
        used = {v for n in self.nodes for v in n.inputs} | set(self.outputs)
        constants = {k: v for k, v in self.constants.items() if k in used}
        defined = {*graph.inputs, *constants, *(o for n in self.nodes for o in n.outputs)}
        types = {k: v for k, v in self.types.items() if k in defined}
        return replace(graph, nodes=tuple(self.nodes), types=types, constants=constants)
