"""Values that are joined to what comes before them along time: constants, and caches that the model
has as its own inputs and outputs. Both are padding: a cache begins with zeros, and then has what a
call before has seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cannery.errors import CanneryError, OptionError
from cannery.frontends.streaming.lengthened import lengthen
from cannery.frontends.streaming.moved import only_reader, origin
from cannery.frontends.streaming.states import finish_without
from cannery.ir.graph import Graph, Node, State
from cannery.ir.rewrite import Rewriter
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Pad


def join_by_padding(graph: Graph) -> tuple[Graph, Mapping[str, int]]:
    """The network with pads in place of such Concats, and without the states that are caches.

    After it, the axes that must be time: those of the values that caches were joined to. A model
    of a single step becomes one of several. Raises OptionError where it cannot.
    """
    rewriter, caches, axes = Rewriter(graph), list[State](), dict[str, int]()
    single = ""
    for state in graph.states:
        joined = _joins(rewriter, state)
        if joined is not None and isinstance(joined.op, Concat):
            axis = joined.op.axis
            if graph.types[joined.inputs[1]].shape[axis] == 1:
                single = single or state.input
            size = graph.types[joined.inputs[0]].shape[axis]
            rewriter.replace_node(joined, [_pad(rewriter, joined, joined.inputs[1], size, 0, 0.0)])
            caches.append(state)
            axes[joined.output] = axis
    for node in rewriter.nodes:
        if isinstance(node.op, Concat):
            _pad_by_constants(rewriter, node)
    found = finish_without(rewriter, caches) if rewriter.changed else graph
    return _lengthened(found, axes, single) if single else found, axes


def _lengthened(graph: Graph, axes: Mapping[str, int], cache: str) -> Graph:
    """The network of several steps, of one to which a cache is joined."""
    try:
        return lengthen(graph, axes)
    except CanneryError as error:
        raise OptionError(
            f"the model takes one step, which {cache!r} is joined to, and cannot take several: "
            f"{error}", where="--streaming",
            cure="give a model of several steps, or leave it out: --state alone makes one step",
        ) from error  # fmt: skip


def _joins(rewriter: Rewriter, state: State) -> Node | None:
    """The Concat of a cache and a value, if that is all the cache is for, and the next cache is
    their end. Both may be moved on the way: convolutions want other axes than PyTorch's.
    """
    node = only_reader(rewriter, state.input)
    if node is None or state.initial or not isinstance(node.op, Concat) or len(node.inputs) != 2:
        return None
    cache, value = node.inputs
    source, places = origin(rewriter, cache)
    if source != state.input:
        return None
    kept, elements = origin(rewriter, state.output)
    following, axis = elements.reshape(-1)[places], node.op.axis
    for read in (node.output, value):
        whole, last = origin(rewriter, read)
        start = last.shape[axis] - following.shape[axis]
        if whole == kept and start >= 0:
            end = last.take(range(start, last.shape[axis]), axis)
            if np.array_equal(end, following):
                return node
    return None


def _pad_by_constants(rewriter: Rewriter, node: Node) -> None:
    """A pad in place of a Concat of one value with constants that are a number everywhere."""
    constants = [rewriter.constants.get(v) for v in node.inputs]
    values = [k for k, constant in enumerate(constants) if constant is None]
    numbers = {number.item() for c in constants if c is not None for number in np.unique(c)[:2]}
    if len(values) != 1 or len(numbers) != 1:
        return
    (k,), (number,) = values, numbers
    axis = node.op.axis  # type: ignore[attr-defined]

    def size(names: Sequence[str]) -> int:
        return sum(rewriter.types[v].shape[axis] for v in names)

    before, after = size(node.inputs[:k]), size(node.inputs[k + 1 :])
    rewriter.replace_node(
        node, [_pad(rewriter, node, node.inputs[k], before, after, float(number))]
    )


def _pad(
    rewriter: Rewriter, node: Node, value: str, before: int, after: int, number: float
) -> Node:
    rank, axis = rewriter.types[value].rank, node.op.axis  # type: ignore[attr-defined]
    pads = [(0, 0)] * rank
    pads[axis] = before, after
    return replace(node, op=Pad(tuple(pads), number), inputs=(value,))
