"""Sequences whose first elements are others than the rest, joined: `cat(x[:1], x[1:] - x[:-1])`.

Where elements begin a sequence, they are used instead of what follows until the first of that.
"""

from __future__ import annotations

from collections.abc import Mapping

from cannery.errors import UnsupportedError
from cannery.frontends.streaming.past import Builder
from cannery.frontends.streaming.stream import Stream
from cannery.frontends.streaming.windows import from_first
from cannery.ir.graph import Graph, Node
from cannery.ops.concat.op import Concat
from cannery.ops.logic.compare import Where
from cannery.ops.movement.op import Slice


def begins(graph: Graph, node: Node, source: Stream | None) -> int:
    """How many elements a slice takes at the beginning of a sequence, if they are only joined with
    what follows; else 0.
    """
    op = node.op
    if not isinstance(op, Slice) or source is None or source.final or source.time is None:
        return 0
    a = source.time
    if (op.starts[a], op.steps[a]) != (0, 1) or node.output in graph.outputs:
        return 0
    if 2 * (op.ends[a] - op.starts[a]) > graph.types[node.inputs[0]].shape[a]:  # it is a crop
        return 0
    readers = graph.consumers(node.output)
    joined = all(_joins(reader, node.output, a) for reader in readers)
    return op.ends[a] if readers and joined else 0


def _joins(reader: Node, value: str, axis: int) -> bool:
    return (
        isinstance(reader.op, Concat)
        and reader.op.axis == axis
        and len(reader.inputs) == 2
        and reader.inputs[0] == value != reader.inputs[1]
    )


def join_beginning(
    b: Builder, node: Node, beginnings: Mapping[str, Node], streams: Mapping[str, Stream]
) -> Stream:
    """Append the elements of a call for a Concat of a beginning and what follows."""
    begin, value = beginnings[node.inputs[0]], node.inputs[1]
    early, late = streams[begin.inputs[0]], streams.get(value)
    axis = early.time
    assert axis is not None
    if late is None or late.time != axis or late.final:
        raise UnsupportedError("it joins the first steps with what has none")
    if (early.count, early.every) != (late.count, late.every):
        raise UnsupportedError("it joins values that come at different rates")
    size = b.graph.types[begin.output].shape[axis]
    first, early = b.begun(begin.inputs[0], early)
    rest, late = b.begun(value, late)
    delay = max(early.delay, late.delay - size)
    first, _ = b.delayed(first, early, delay)
    assert isinstance(begin.op, Slice)
    first = b.op(from_first(begin.op, axis, late.count), f"{begin.output}/early", first)
    rest, result = b.delayed(rest, late, delay + size)
    shape = (late.count, *[1] * (b.types[rest].rank - axis - 1))
    whether = b.early(delay + size, result, shape)
    b.add(Node(Where(), node.name, (whether, first, rest), node.outputs))
    return Stream(axis, late.count, delay, every=late.every)
