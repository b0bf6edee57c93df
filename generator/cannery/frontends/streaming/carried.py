"""States of recurrent layers that the model has as its own inputs and outputs, as PyTorch exports
them: among layers that look back, recurrent ones keep their states by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cannery.frontends.streaming.moved import MOVES, Places, origin
from cannery.frontends.streaming.states import finish_without
from cannery.ir.graph import Graph, Node, State
from cannery.ir.rewrite import Rewriter
from cannery.ops.concat.op import Concat
from cannery.ops.recurrent.base import Recurrent


def keep_in_layers(graph: Graph) -> Graph:
    """The network without the states with which recurrent layers of several steps begin, and that
    are what these layers end with. They begin with zeros. One state may be that of several layers.
    """
    rewriter, kept, starts = Rewriter(graph), list[State](), set[str]()
    for state in graph.states:
        read = list(_reads(rewriter, state.input))
        alone = not state.initial and not _is_output(rewriter, state.input)
        if read and alone and all(_carries(rewriter, state, *r) for r in read):
            kept.append(state)
            starts.update(node.inputs[k] for node, k in read)
    for node in rewriter.nodes:
        if not starts.isdisjoint(node.inputs) and isinstance(node.op, Recurrent):
            rewriter.update(node, inputs=["" if v in starts else v for v in node.inputs])
    return finish_without(rewriter, kept) if kept else graph


def _reads(rewriter: Rewriter, value: str) -> Iterator[tuple[Node, int]]:
    """The layers that read elements of a value, and as which of their inputs."""
    for node in rewriter.readers(value):
        if isinstance(node.op, MOVES):
            yield from _reads(rewriter, node.output)
        else:
            yield from ((node, k) for k, given in enumerate(node.inputs) if given == value)


def _is_output(rewriter: Rewriter, value: str) -> bool:
    """Whether a value is an output, as it is or moved."""
    moved = (node.output for node in rewriter.readers(value) if isinstance(node.op, MOVES))
    return value in rewriter.outputs or any(_is_output(rewriter, v) for v in moved)


def _carries(rewriter: Rewriter, state: State, node: Node, k: int) -> bool:
    """Whether input k of a layer is a state, and the next one is what it ends with after steps."""
    op = node.op
    if not isinstance(op, Recurrent) or not 2 <= k < 2 + op.states:
        return False
    ends = op.results[k - 1]
    if ends not in op.returns or rewriter.types[node.inputs[0]].shape[1] < 2:
        return False
    source, places = origin(rewriter, node.inputs[k])
    starts: dict[str, int] = {}
    following = _numbered(rewriter, state.output, starts).reshape(-1)[places]
    first = starts.get(node.outputs[op.returns.index(ends)])
    if source != state.input or first is None:
        return False
    return np.array_equal(following, first + np.arange(places.size).reshape(places.shape))


def _numbered(rewriter: Rewriter, value: str, starts: dict[str, int]) -> Places:
    """A number for each element of what a value is joined and moved of; `starts` has the first one
    of each of these values, row by row.
    """
    source, places = origin(rewriter, value)
    node = rewriter.producer(source)
    if node is not None and isinstance(node.op, Concat):
        parts = [_numbered(rewriter, part, starts) for part in node.inputs]
        joined: Places = np.concatenate(parts, node.op.axis)
        return joined.reshape(-1)[places]
    used = sum(rewriter.types[v].elements for v in starts)
    return places + starts.setdefault(source, used)
