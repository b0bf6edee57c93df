"""Tensors of which only some rows count, as those of NonZero, NonMaxSuppression and Unique, and
what loops collect.

They have room for all rows that there may be. An output that consists of such rows gets another
output with their number. What does not work row by row would read rows that do not count, so it is
an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cannery.errors import UnsupportedError
from cannery.frontends.onnx.row_axes import axis_of_rows
from cannery.ir.graph import Graph, Node, free_name
from cannery.ir.tensor import TensorType
from cannery.ops.elementwise.binary import Min
from cannery.ops.indexing.select import FirstRows, NonMaxSuppression, NonZero
from cannery.ops.indexing.unique import INVERSE, Unique
from cannery.ops.movement.op import Reshape, Slice

#: Operators that find rows.
_FINDING = (NonMaxSuppression, NonZero, Unique)


@dataclass(frozen=True)
class _Rows:
    """Along which axis a value has rows, and the value whose first row has their number."""

    axis: int
    source: str


def with_counts(graph: Graph, finders: Collection[str] | None = None) -> Graph:
    """The network with an output for the number of rows of each output that has some.

    Outputs whose rows are of one operator, and have the same room, share it. `finders` are the
    values that operators that find rows compute; by default all of them. Raises UnsupportedError
    for a node that reads rows that do not count.
    """
    if finders is None:
        finders = [node.outputs[0] for node in graph.nodes if isinstance(node.op, _FINDING)]
    known: dict[str, _Rows] = {}
    for node in graph.nodes:
        rows = _rows(graph, node, known, finders)
        if rows:
            known[node.outputs[0]] = rows
    named: dict[tuple[str, int], str] = {}
    for output in graph.outputs:
        if output in known:
            rows = known[output]
            room = graph.types[output].shape[rows.axis]
            named.setdefault((rows.source, room), output)
    for (source, room), output in named.items():
        graph = _with_count(graph, source, room, output)
    return graph


def _with_count(graph: Graph, source: str, room: int, output: str) -> Graph:
    """The network with the first number of a value as an output, before the states; at most
    `room`.
    """
    number = graph.types[source]
    first = free_name(f"{source}/first", graph.types)
    count = free_name(f"{output}.count", graph.types)
    types = {first: TensorType((1, 1), number.dtype), count: TensorType((), number.dtype)}
    nodes = [Node(Slice((0, 0), (1, 1), (1, 1)), first, (source,), (first,))]
    constants = dict(graph.constants)
    found = first
    if number.shape[0] == 1 or room < number.shape[0] - 1:
        found, most = f"{count}/least", f"{count}/room"
        constants[most] = np.full((1, 1), room, number.dtype.numpy)
        types |= {found: types[first], most: types[first]}
        nodes.append(Node(Min(), found, (first, most), (found,)))
    nodes.append(Node(Reshape(()), count, (found,), (count,)))
    end = len(graph.outputs) - len(graph.states)
    outputs = (*graph.outputs[:end], count, *graph.outputs[end:])
    note = f"{output!r} has room for all rows; {count!r} says how many count, the first ones"
    return replace(
        graph, nodes=(*graph.nodes, *nodes), types={**graph.types, **types}, outputs=outputs,
        constants=constants, notes=(*graph.notes, note),
    )  # fmt: skip


def _rows(
    graph: Graph, node: Node, known: Mapping[str, _Rows], finders: Collection[str]
) -> _Rows | None:
    """The rows of a node's output. Raises UnsupportedError if it mixes rows."""
    maker = graph.producer(node.inputs[0]) if node.inputs else None
    found = maker is not None and maker.outputs[0] in finders
    if maker is not None and found and isinstance(node.op, Slice):
        complete = isinstance(maker.op, Unique) and node.op.starts[1] == INVERSE
        return None if complete else _Rows(0, node.inputs[0])
    if isinstance(node.op, FirstRows) and node.inputs[0] not in known:
        return _Rows(0, node.inputs[1])
    given = {i: known[name] for i, name in enumerate(node.inputs) if name in known}
    if not given:
        return None
    axis = axis_of_rows(graph, node, {i: rows.axis for i, rows in given.items()})
    sources = {rows.source for rows in given.values()}
    if axis is None or len(sources) > 1:
        raise UnsupportedError(
            "reads rows of which only some count, and does not work row by row",
            where=f"node {node.name!r} ({node.op.kind})",
            cure="end the network before it with --outputs",
        )
    return _Rows(axis, sources.pop())
