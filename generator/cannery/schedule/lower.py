"""Cuts a graph into Steps: each anchor takes in the elementwise nodes that follow it."""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.ops.shared import epilogue
from cannery.schedule.program import Step


def cut(graph: Graph) -> tuple[Step, ...]:
    """The steps in topological order; every node is in exactly one.

    A node joins the step of its producer where nothing else reads the value between them, and all
    its other operands are constants or were computed before the step's anchor.
    """
    reads = _read_counts(graph)
    position = {node.outputs[0]: k for k, node in enumerate(graph.nodes)}
    taken: set[str] = set()
    steps: list[Step] = []
    for index, node in enumerate(graph.nodes):
        if node.outputs[0] in taken:
            continue
        tail: list[Node] = []
        if len(node.outputs) == 1 and _may_fuse(node):
            tail = _chain(graph, node, index, position, reads, taken)
        taken.update(n.outputs[0] for n in tail)
        steps.append(make_step(graph, (node,), tuple(tail)))
    return tuple(steps)


def make_step(graph: Graph, anchors: tuple[Node, ...], epilogue_nodes: tuple[Node, ...]) -> Step:
    """A Step, with the activations that it reads in order."""
    inner = {o for n in anchors for o in n.outputs}
    inputs: list[str] = []
    for node in anchors:
        for value in node.inputs:
            known = not value or value in graph.constants or value in inner or value in inputs
            if not known:
                inputs.append(value)
    running = anchors[-1].outputs[0]
    for value in epilogue.residuals(graph, epilogue_nodes, running):
        if value not in inputs:
            inputs.append(value)
    outputs = epilogue_nodes[-1].outputs if epilogue_nodes else anchors[-1].outputs
    return Step(anchors, epilogue_nodes, tuple(inputs), outputs)


def _may_fuse(node: Node) -> bool:
    """Whether an epilogue may follow a node: not where it is a mere view of memory."""
    return node.op.kind not in ("Reshape", "Identity", "Concat")


def _read_counts(graph: Graph) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in graph.nodes:
        for value in set(node.inputs):
            counts[value] = counts.get(value, 0) + 1
    for value in graph.outputs:
        counts[value] = counts.get(value, 0) + 1
    return counts


def _chain(
    graph: Graph,
    anchor: Node,
    index: int,
    position: dict[str, int],
    reads: dict[str, int],
    taken: set[str],
) -> list[Node]:
    """The elementwise nodes behind an anchor that join its step."""
    available = {v for v, k in position.items() if k < index} | set(graph.inputs)
    chain: list[Node] = []
    running = anchor.output
    while reads.get(running) == 1 and running not in graph.outputs:
        (consumer,) = graph.consumers(running)
        if consumer.outputs[0] in taken:
            break
        if not epilogue.fusible(graph, consumer, running, tuple(available)):
            break
        chain.append(consumer)
        running = consumer.output
    return chain
