"""Cuts a graph into Steps: each anchor takes in the elementwise nodes that follow it.

`cut` is the finest one; `chains` are intervals of it that may be computed as one step instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from cannery.ir.graph import Graph, Node
from cannery.ir.half import halves_at
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.quantized.arithmetic import QuantizedOp
from cannery.ops.resize.op import Resize, repeats
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.windows import convolution_form
from cannery.ops.shared import epilogue
from cannery.ops.shared.steps import make_step
from cannery.schedule.program import Step

#: Steps of the longest chain.
MAX_CHAIN = 3


def cut(graph: Graph) -> tuple[Step, ...]:
    """The steps in topological order; every node is in exactly one.

    A node joins the step of its producer if nothing else reads the value between them, and all its
    other operands are constants or were computed before the step's anchor.
    """
    reads = _read_counts(graph)
    position = {node.outputs[0]: k for k, node in enumerate(graph.nodes)}
    position |= dict.fromkeys(graph.inputs, -1)
    taken: set[str] = set()
    steps: list[Step] = []
    for index, node in enumerate(graph.nodes):
        if node.outputs[0] in taken:
            continue
        tail: list[Node] = []
        if len(node.outputs) == 1 and _may_fuse(graph, node):
            tail = _chain(graph, node, _Before(position, index), reads, taken)
        taken.update(n.outputs[0] for n in tail)
        steps.append(make_step(graph, (node,), tuple(tail)))
    return tuple(steps)


def chains(graph: Graph, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps that compute several neighbouring steps of a cut at once, as alternatives to them.

    A chain is an interval of the cut. Each of its steps except the last has one output, which only
    the next step, or (see `_gathered`) a later one, reads as its first input. So the planner may
    take a chain in place of its parts without touching anything else: it walks the cut from the
    left, and at each step takes that step alone or a chain that begins there. This module does not
    decide which chains make sense: one that no schedule can compute has no candidates, and is never
    taken.
    """
    reads = _read_counts(graph)
    found: list[Step] = []
    for first in range(len(steps)):
        for last in range(first + 1, min(first + MAX_CHAIN, len(steps))):
            if not _linked(graph, steps[last - 1], steps[last], reads):
                break
            found.append(make_chain(steps[first : last + 1]))
    found += (
        chain for last in range(len(steps)) if (chain := _gathered(graph, steps, last, reads))
    )
    return tuple(found)


def _gathered(
    graph: Graph, steps: Sequence[Step], last: int, reads: Mapping[str, int]
) -> Step | None:
    """A convolution with the channel concatenations and upsamplings right before it that only it
    reads.

    None without a concatenation: then it is an ordinary chain, or none.
    """
    if not isinstance(steps[last].anchor.op, Conv):
        return None
    wanted, first = {steps[last].anchor.inputs[0]}, last
    while first and _moves(graph, steps[first - 1]):
        node = steps[first - 1].anchor
        if node.output not in wanted or reads[node.output] != 1:
            break
        wanted |= set(node.inputs)
        first -= 1
    joined = any(isinstance(step.anchor.op, Concat) for step in steps[first:last])
    return make_chain(steps[first : last + 1]) if joined else None


def _moves(graph: Graph, step: Step) -> bool:
    """Whether a step only concatenates channels or repeats pixels."""
    (node, *more) = step.nodes
    shape = graph.types[node.inputs[0]].shape
    if isinstance(node.op, Resize):
        return not more and bool(repeats(node.op, shape[1:-1]))
    return not more and isinstance(node.op, Concat) and node.op.axis == len(shape) - 1


def _linked(graph: Graph, step: Step, following: Step, reads: Mapping[str, int]) -> bool:
    if len(step.outputs) != 1 or not all(
        _may_fuse(graph, part.anchor) for part in (step, following)
    ):
        return False
    alone = reads.get(step.output) == 1 and bool(graph.consumers(step.output))
    inputs = following.anchor.inputs
    return alone and inputs.count(step.output) == 1 and step.output == inputs[0]


def make_chain(parts: Sequence[Step], *, depth_first: bool = False) -> Step:
    """The chain of neighbouring steps."""
    inner = {value for part in parts[:-1] for value in part.outputs}
    inputs = dict.fromkeys(v for part in parts for v in part.inputs if v not in inner)
    anchors = tuple(node for part in parts for node in part.anchors)
    last = parts[-1]
    return Step(anchors, last.epilogue, tuple(inputs), last.outputs, tuple(parts), depth_first)


def _may_fuse(graph: Graph, node: Node) -> bool:
    """Whether an epilogue may follow a node: not after a mere view of memory, plain scalar code,
    trees, conversions to and from half precision, or a node that reads its results again.
    """
    apart = ("Reshape", "Identity", "Concat", "Lstm", "Gru", "Rnn", "Attention", "TreeEnsemble")
    plain = isinstance(node.op, ScalarOp | QuantizedOp) or convolution_form(graph, node) is not None
    half = node.op.converts and halves_at(graph, (node,))
    return node.op.kind not in apart and not plain and not half


def _read_counts(graph: Graph) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in graph.nodes:
        for value in set(node.inputs):
            counts[value] = counts.get(value, 0) + 1
    for value in graph.outputs:
        counts[value] = counts.get(value, 0) + 1
    return counts


@dataclass(frozen=True)
class _Before:
    """The values that exist before the node `index`; inputs have the position -1."""

    position: Mapping[str, int]
    index: int

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and self.position.get(value, self.index) < self.index


def _chain(
    graph: Graph, anchor: Node, available: _Before, reads: Mapping[str, int], taken: Set[str]
) -> list[Node]:
    """The elementwise nodes after an anchor that join its step."""
    chain: list[Node] = []
    running = anchor.output
    while reads.get(running) == 1:
        found = graph.consumers(running)
        if not found or found[0].outputs[0] in taken:  # it is an output, or was taken
            break
        (consumer,) = found
        if not epilogue.fusible(graph, consumer, running, available):
            break
        chain.append(consumer)
        running = consumer.output
    return chain
