"""Tensors of which only some rows count, as those of NonZero and NonMaxSuppression.

They have room for all rows that there may be. An output that consists of such rows gets another
output with their number. What does not work row by row would read rows that do not count, so it is
an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from cannery.errors import UnsupportedError
from cannery.ir.graph import Graph, Node, free_name
from cannery.ir.registry import Elementwise
from cannery.ir.tensor import TensorType
from cannery.ops.indexing.gather import Gather
from cannery.ops.indexing.select import NonMaxSuppression, NonZero
from cannery.ops.movement.op import Cast, Identity, Reshape, Slice, Transpose
from cannery.ops.scalar.base import Pointwise

#: Operators that find rows.
_FINDING = (NonMaxSuppression, NonZero)


@dataclass(frozen=True)
class _Rows:
    """Along which axis a value has rows, and the value whose first row has their number."""

    axis: int
    source: str


def with_counts(graph: Graph) -> Graph:
    """The network with an output for the number of rows of each output that has some.

    Raises UnsupportedError for a node that reads rows that do not count.
    """
    known: dict[str, _Rows] = {}
    for node in graph.nodes:
        rows = _rows(graph, node, known)
        if rows:
            known[node.outputs[0]] = rows
    named: dict[str, str] = {}
    for output in graph.outputs:
        if output in known:
            named.setdefault(known[output].source, output)
    for source, output in named.items():
        graph = _with_count(graph, source, output)
    return graph


def _with_count(graph: Graph, source: str, output: str) -> Graph:
    """The network with the first number of a value as an output, before the states."""
    first = free_name(f"{source}/first", graph.types)
    count = free_name(f"{output}.count", graph.types)
    dtype = graph.types[source].dtype
    nodes = (
        Node(Slice((0, 0), (1, 1), (1, 1)), first, (source,), (first,)),
        Node(Reshape(()), count, (first,), (count,)),
    )
    types = {first: TensorType((1, 1), dtype), count: TensorType((), dtype)}
    end = len(graph.outputs) - len(graph.states)
    outputs = (*graph.outputs[:end], count, *graph.outputs[end:])
    note = f"{output!r} has room for all rows; {count!r} says how many count, the others are -1"
    return replace(
        graph, nodes=(*graph.nodes, *nodes), types={**graph.types, **types}, outputs=outputs,
        notes=(*graph.notes, note),
    )  # fmt: skip


def _rows(graph: Graph, node: Node, known: Mapping[str, _Rows]) -> _Rows | None:
    """The rows of a node's output. Raises UnsupportedError if it mixes rows."""
    maker = graph.producer(node.inputs[0]) if node.inputs else None
    if maker is not None and isinstance(maker.op, _FINDING) and isinstance(node.op, Slice):
        return _Rows(0, node.inputs[0])
    given = {i: known[name] for i, name in enumerate(node.inputs) if name in known}
    if not given:
        return None
    axis = _axis(graph, node, {i: rows.axis for i, rows in given.items()})
    sources = {rows.source for rows in given.values()}
    if axis is None or len(sources) > 1:
        raise UnsupportedError(
            "reads rows of which only some count, and does not work row by row",
            where=f"node {node.name!r} ({node.op.kind})",
            cure="end the network before it with --outputs",
        )
    return _Rows(axis, sources.pop())


def _axis(graph: Graph, node: Node, axes: Mapping[int, int]) -> int | None:
    """The axis of the output's rows, given those of inputs; None if rows are mixed."""
    shapes = [graph.types[name].shape if name else () for name in node.inputs]
    out = graph.types[node.outputs[0]].shape
    first = next(iter(axes.values()))
    op = node.op
    if isinstance(op, Identity | Cast):
        return first
    if isinstance(op, Elementwise | Pointwise):
        return _broadcast(shapes, out, axes)
    if isinstance(op, Transpose):
        return op.perm.index(first)
    if isinstance(op, Slice):
        bounds = (op.starts[first], op.ends[first], op.steps[first])
        return first if bounds == (0, shapes[0][first], 1) else None
    if isinstance(op, Reshape):
        size, before = shapes[0][first], prod(shapes[0][:first])
        fits = (k for k, d in enumerate(out) if d == size and prod(out[:k]) == before)
        return next(fits, None)
    if isinstance(op, Gather):
        if axes.keys() == {1}:
            return op.axis + first
        if axes.keys() == {0} and first != op.axis:
            return first if first < op.axis else first - 1 + len(shapes[1])
    return None


def _broadcast(
    shapes: list[tuple[int, ...]], out: tuple[int, ...], axes: Mapping[int, int]
) -> int | None:
    """The axis of the result of elements that broadcast: rows meet rows, or one for all."""
    found = {len(out) - len(shapes[i]) + axis for i, axis in axes.items()}
    if len(found) > 1:
        return None
    (axis,) = found
    for i, shape in enumerate(shapes):
        own = axis - (len(out) - len(shape))
        if i not in axes and own >= 0 and shape[own] != 1:
            return None
    return axis
