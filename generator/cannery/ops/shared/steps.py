"""Steps from nodes: what one generated function computes, and what it reads and writes."""

from __future__ import annotations

from cannery.ir.graph import Graph, Node
from cannery.ops.shared import epilogue
from cannery.schedule.program import Step


def make_step(graph: Graph, anchors: tuple[Node, ...], epilogue_nodes: tuple[Node, ...]) -> Step:
    """A Step, with the activations that it reads in order."""
    inner = {o for n in anchors for o in n.outputs}
    read = (value for node in anchors for value in node.inputs if value)
    inputs = dict.fromkeys(v for v in read if v not in graph.constants and v not in inner)
    running = anchors[-1].outputs[0]
    inputs |= dict.fromkeys(epilogue.residuals(graph, epilogue_nodes, running))
    outputs = epilogue_nodes[-1].outputs if epilogue_nodes else anchors[-1].outputs
    return Step(anchors, epilogue_nodes, tuple(inputs), outputs)
