"""Moves pixelwise work before upsamplings, which come as late as possible.

Before an upsampling by two, activations, scales and pointwise convolutions take a quarter of the
work. Nodes left between an upsampling, or a concatenation, and the layer that reads it are moved
out of the way: `cannery.lowering.lower` joins neighbours only.
"""

from __future__ import annotations

from math import prod

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Elementwise
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import TensorType
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.resize.op import Resize, repeats


def sink_upsampling(graph: Graph) -> Graph:
    """f(Resize(x)) -> Resize(f(x)) if f ignores neighbours; then the order of the remaining
    nodes.
    """
    rewriter = Rewriter(graph)
    while rewriter.sweep(_swap):
        pass
    return _late(rewriter.finish())


def _swap(rewriter: Rewriter, node: Node) -> bool:
    """Put a node before the upsampling that only it reads."""
    running = [v for v in node.inputs if v not in rewriter.constants]
    alone = len(running) == len(node.outputs) == 1
    source = rewriter.producer(running[0]) if alone else None
    if source is None or not isinstance(source.op, Resize):
        return False
    if rewriter.single_reader(source.output) is not node:
        return False
    small = rewriter.types[source.inputs[0]]
    scales = repeats(source.op, small.shape[1:-1])
    if not scales or not _pointwise(rewriter, node, running[0], prod(scales)):
        return False
    made = rewriter.types[node.output]
    type_ = TensorType((*small.shape[:-1], made.shape[-1]), made.dtype)
    value = rewriter.value(f"{node.output}/small", type_)
    inputs = tuple(source.inputs[0] if v == running[0] else v for v in node.inputs)
    before = Node(node.op, node.name, inputs, (value,))
    rewriter.replace_node(source, [])
    rewriter.replace_node(node, [before, Node(source.op, source.name, (value,), node.outputs)])
    return True


def _pointwise(rewriter: Rewriter, node: Node, running: str, times: int) -> bool:
    """Whether a node makes each pixel from the same pixel, and does not expand few channels to
    many.

    `times` is how often the pixels were repeated.
    """
    taken, made = rewriter.types[running], rewriter.types[node.output]
    constants = [rewriter.constants[v] for v in node.inputs if v in rewriter.constants]
    op = node.op
    if isinstance(op, Elementwise):
        everywhere = all(c.size == (c.shape[-1] if c.ndim else 1) for c in constants)
        return everywhere and made == taken and node.inputs.count(running) == 1
    if not isinstance(op, Conv) or node.inputs[0] != running:
        return False
    plain = {*op.strides, *constants[0].shape[:-2]} == {1} and not any(map(any, op.pads))
    return plain and made.shape[-1] <= times * taken.shape[-1]


def _late(graph: Graph) -> Graph:
    """Upsamplings and concatenations right before the one layer that reads them."""
    waiting: dict[int, list[Node]] = {}
    order: list[Node] = []
    for node in graph.nodes:
        group = [*waiting.pop(id(node), []), node]
        readers = graph.consumers(node.outputs[0]) if isinstance(node.op, Resize | Concat) else ()
        moves = len(readers) == 1 and isinstance(readers[0].op, Conv | Concat | Resize)
        if moves and node.output not in graph.outputs:
            waiting.setdefault(id(readers[0]), []).extend(group)
        else:
            order += group
    return graph if tuple(order) == graph.nodes else graph.with_nodes(order)
