"""Several sequences at once, as the columns of an image whose rows are steps.

A window over the steps of [N,L,C] is one over the rows of [1,L,N,C]: its weights then serve all
sequences of a call together, and the past of a value is one ring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cannery.ir.graph import Array, Graph, Node, free_name
from cannery.ir.registry import Elementwise, Op
from cannery.ir.tensor import DType, TensorType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import LayerNormalization
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.resize.op import Resize
from cannery.ops.scalar.base import Pointwise

#: In calls of more steps, the steps of one sequence are enough for its weights.
MOST_STEPS = 16

#: Fields of windows that get an entry for columns, and that entry.
_OF_COLUMNS: Mapping[str, Any] = {
    "strides": 1, "dilations": 1, "pads": (0, 0), "kernel": 1, "output_padding": 0,
}  # fmt: skip


def side_by_side(graph: Graph) -> Graph:
    """The same network, where windows over the steps of several sequences are over rows."""
    return _Columns(graph).run()


@dataclass
class _Columns:
    """`columns` has values in their new form, `flat` those that are there as they were."""

    graph: Graph
    nodes: list[Node] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    types: dict[str, TensorType] = field(init=False)
    constants: dict[str, Array] = field(init=False)
    flat: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.types, self.constants = dict(self.graph.types), dict(self.graph.constants)
        self.flat = {*self.graph.inputs, *self.graph.constants}

    def run(self) -> Graph:
        """The network with the nodes that work along rows."""
        for node in self.graph.nodes:
            op, inputs = self._window(node) or self._follower(node) or (None, ())
            if op is not None:
                self.columns[node.output] = self._add(op, node.name, node.output, *inputs)
                continue
            for value in filter(None, node.inputs):
                self._as_before(value)
            self.nodes.append(node)
            self.flat.update(node.outputs)
        for value in self.graph.outputs:
            self._as_before(value)
        used = {*self.graph.inputs, *self.constants}
        used.update(v for node in self.nodes for v in node.outputs)
        types = {v: type_ for v, type_ in self.types.items() if v in used}
        return replace(self.graph, nodes=tuple(self.nodes), types=types, constants=self.constants)

    def _several(self, value: str) -> bool:
        """Whether a value is [N,L,C] of several sequences."""
        shape = self.graph.types[value].shape
        return len(shape) == 3 and shape[0] > 1

    def _window(self, node: Node) -> tuple[Op, list[str]] | None:
        """A window along the only spatial axis."""
        op: Any = node.op
        if not self._several(node.inputs[0]) or not self._several(node.outputs[0]):
            return None
        if isinstance(op, Pad) and op.mode == "edge":  # it belongs to a window that follows
            rows = _along_rows(op)
            return (rows, [self._column(node.inputs[0])]) if rows else None
        if isinstance(op, Resize):
            n = self.graph.types[node.output].shape[0]
            scales = (*op.scales, 1.0) if op.scales else ()
            return replace(op, sizes=(*op.sizes, n), scales=scales), [self._column(node.inputs[0])]
        if not isinstance(op, Conv | ConvTranspose | MaxPool | AveragePool):
            return None
        fields = {k: (*getattr(op, k), v) for k, v in _OF_COLUMNS.items() if hasattr(op, k)}
        inputs = [self._column(node.inputs[0]), *node.inputs[1:]]
        if len(inputs) > 1:
            inputs[1] = self._weights(inputs[1])
        return replace(node.op, **fields), inputs

    def _follower(self, node: Node) -> tuple[Op, list[str]] | None:
        """A node that reads such windows' results, and computes each element from its own step."""
        if self.columns.keys().isdisjoint(node.inputs) or not self._several(node.outputs[0]):
            return None
        op = _along_rows(node.op)
        if op is None or len(node.outputs) > 1:
            return None
        if isinstance(op, MatMul | LayerNormalization):
            small = all(not v or self.graph.types[v].rank <= 2 for v in node.inputs[1:])
            first = node.inputs[0]
            return (op, [self._column(first), *node.inputs[1:]]) if small else None
        for value in node.inputs:
            if not self._several(value) and (isinstance(op, Concat) or not self._common(value)):
                return None
        found = [self._column(v) if self._several(v) else self._constant(v) for v in node.inputs]
        return op, found

    def _common(self, value: str) -> bool:
        """Whether a value is the same for all sequences, and can meet rows."""
        return value in self.constants or self.graph.types[value].rank < 2

    def _constant(self, value: str) -> str:
        """One that is the same for all sequences, so that it meets rows."""
        shape = self.graph.types[value].shape
        if len(shape) < 2:
            return value
        array = self.constants[value].reshape((*shape[:-1], 1, shape[-1]))
        name = free_name(f"{value}/rows", self.types)
        self.constants[name] = array
        self.types[name] = TensorType(array.shape, DType(array.dtype.name))
        return name

    def _weights(self, value: str) -> str:
        """[K,I,O] as [K,1,I,O]."""
        shape = self.graph.types[value].shape
        return self._add(Reshape((shape[0], 1, *shape[1:])), f"{value}/rows", value, value)

    def _column(self, value: str) -> str:
        """A value as columns."""
        if value not in self.columns:
            n, length, c = self.graph.types[value].shape
            wide = self._add(Reshape((1, n, length, c)), f"{value}/wide", value, value)
            op = Transpose((0, 2, 1, 3))
            self.columns[value] = self._add(op, f"{value}/columns", value, wide)
        return self.columns[value]

    def _as_before(self, value: str) -> None:
        """Make a value as it is in the network."""
        if value not in self.flat and value in self.columns:
            turned = Transpose((0, 2, 1, 3))
            wide = self._add(turned, f"{value}/samples", value, self.columns[value])
            op = Reshape(self.graph.types[value].shape)
            self.nodes.append(Node(op, f"{value}/flat", (wide,), (value,)))
            self.flat.add(value)

    def _add(self, op: Op, name: str, hint: str, *inputs: str) -> str:
        """Append a node, and return its output."""
        (type_,) = op.infer(*(self.types[v] if v else None for v in inputs))
        output = free_name(f"{hint}/rows", self.types)
        self.types[output] = type_
        self.nodes.append(Node(op, name, inputs, (output,)))
        return output


def _along_rows(op: Op) -> Op | None:
    """What an operator on [N,L,C] is on [1,L,N,C], if each sequence is by itself."""
    if isinstance(op, Elementwise | Pointwise | Identity | Cast):
        return op
    if isinstance(op, MatMul):
        return None if op.transpose_a or op.transpose_b else op
    if isinstance(op, LayerNormalization):
        return replace(op, axes=(3,)) if op.axes == (2,) else None
    if isinstance(op, CumSum):
        return op if op.axis == 1 else None
    if isinstance(op, Concat):
        return Concat(op.axis + (op.axis > 1)) if op.axis else None
    if isinstance(op, Pad):
        return replace(op, pads=(*op.pads[:2], (0, 0), op.pads[2])) if not any(op.pads[0]) else None
    return _cut_rows(op) if isinstance(op, Slice) else None


def _cut_rows(op: Slice) -> Slice | None:
    (first, *starts), (n, *ends), (step, *steps) = op.starts, op.ends, op.steps
    if (first, step) != (0, 1):
        return None
    return Slice((0, starts[0], 0, starts[1]), (1, ends[0], n, ends[1]), (1, steps[0], 1, steps[1]))
