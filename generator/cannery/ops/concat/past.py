"""Concatenations of the past and what a call brings, in networks that run step by step."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph, Node, State
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Identity, Reshape, Slice, Transpose

#: What may stand between a state and the past: they hold the same elements.
MOVES = (Identity, Reshape, Transpose)


@dataclass(frozen=True)
class PastWindow:
    """`value` is the past, which has `reach` elements along `axis`, and after it `count` new ones.

    `before` and `after` are the values from the state to the past, and from the end of the window
    to the next state, both included.
    """

    value: str
    axis: int
    reach: int
    count: int
    before: frozenset[str]
    after: frozenset[str]


def is_past_window(graph: Graph, node: Node) -> bool:
    """Whether a concatenation begins with a state that is the past of its other part."""
    found = (past_window(graph, state) for state in graph.states)
    return any(window and window.value in node.outputs for window in found)


def past_window(graph: Graph, state: State) -> PastWindow | None:
    """The window of a state that is a past, and nothing else is made of it."""
    past, before = state.input, [state.input]
    while True:
        readers = graph.consumers(past)
        if len(readers) != 1 or past in graph.outputs:
            return None
        if not isinstance(readers[0].op, MOVES):
            break
        past = readers[0].output
        before.append(past)
    after = [state.output]
    maker = graph.producer(state.output)
    while maker is not None and isinstance(maker.op, MOVES):
        after.append(maker.inputs[0])
        maker = graph.producer(maker.inputs[0])
    (joins,) = readers
    if not isinstance(joins.op, Concat) or len(joins.inputs) != 2 or joins.inputs[0] != past:
        return None
    if maker is None or not isinstance(maker.op, Slice) or maker.inputs != joins.outputs:
        return None
    if not _only_next(graph, after) or joins.inputs[1] in before:
        return None
    if state.initial and any(_reorders(graph, value) for value in before + after):
        return None
    axis = joins.op.axis
    reach = graph.types[past].shape[axis]
    count = graph.types[joins.output].shape[axis] - reach
    fits = _is_end(graph, maker, axis, reach) and count > 0
    return (
        PastWindow(joins.output, axis, reach, count, frozenset(before), frozenset(after))
        if fits
        else None
    )


def _reorders(graph: Graph, value: str) -> bool:
    """Whether a value has elements in another order than what it is made of."""
    maker = graph.producer(value)
    return maker is not None and isinstance(maker.op, Transpose)


def _only_next(graph: Graph, after: list[str]) -> bool:
    """Whether what leads to the next state is read for nothing else."""
    first, *rest = after
    alone = not graph.consumers(first) and graph.outputs.count(first) == 1
    return alone and all(len(graph.consumers(v)) == 1 and v not in graph.outputs for v in rest)


def _is_end(graph: Graph, node: Node, axis: int, kept: int) -> bool:
    """Whether a Slice takes the last elements of an axis, and all of the others."""
    op = node.op
    assert isinstance(op, Slice)
    shape = list(graph.types[node.inputs[0]].shape)
    ends = op.ends[axis] == shape[axis]
    shape[axis] = kept
    return ends and set(op.steps) == {1} and list(graph.types[node.output].shape) == shape
