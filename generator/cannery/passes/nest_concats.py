"""Makes a concatenation read an earlier one that has some of its parts.

A value can be written in place into only one concatenation, see `cannery.lowering.assign`. If
concat(a, b, c) reads concat(a, b), all parts of both are in place. Densely connected networks,
where each layer reads all earlier ones, are full of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.concat.op import Concat


def nest_concats(graph: Graph) -> Graph:
    """concat(x, a, b) becomes concat(x, concat(a, b)) if that is computed before."""
    rewriter = Rewriter(graph)
    before = _Before()
    for node in rewriter.nodes:
        if isinstance(node.op, Concat):
            before.add(_nested(rewriter, node, before))
    return rewriter.finish()


class _Before:
    """The concatenations so far, by their first input."""

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[int, int, Node]]] = {}
        self._count = 0

    def add(self, node: Node) -> None:
        """The next one."""
        row = (-len(node.inputs), self._count, node)
        self._found.setdefault(node.inputs[0], []).append(row)
        self._count += 1

    def starting(self, values: Iterable[str]) -> list[tuple[int, int, Node]]:
        """Those that begin with one of `values`, as rows that sort by falling size, then by
        order.
        """
        return [row for value in dict.fromkeys(values) for row in self._found.get(value, ())]


def _nested(rewriter: Rewriter, node: Node, before: _Before) -> Node:
    """The node, changed to read the earlier ones that cover most of its inputs."""
    parts = node.inputs
    waiting = before.starting(parts)
    heapify(waiting)
    while waiting:
        *place, other = heappop(waiting)
        size = len(other.inputs)
        if other.op != node.op or not 1 < size < len(parts):
            continue
        starts = (k for k, part in enumerate(parts) if part == other.inputs[0])
        places = [k for k in starts if parts[k : k + size] == other.inputs]
        if len(places) == 1:
            at = places[0]
            parts = (*parts[:at], other.output, *parts[at + size :])
            for row in before.starting([other.output]):
                if [*row[:2]] > place:
                    heappush(waiting, row)
    return node if parts == node.inputs else rewriter.update(node, inputs=parts)
