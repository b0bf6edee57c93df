"""Explicit zero padding before a convolution becomes the convolution's own padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cannery.errors import ModelError
from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op
from cannery.ir.rewrite import Rewriter
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape


def pad_into_window(graph: Graph) -> Graph:
    """Pad(0) -> Conv, Pad(-inf) -> MaxPool, and Pad(0) -> AveragePool that counts its padding.

    Before a MaxPool without dilation, Pad may also repeat the edge: a window that reaches beyond it
    contains the elements of which these are copies. A Reshape may come between that inserts a
    dimension of 1, as TensorFlow Lite has it before convolutions along one axis.
    """
    rewriter = Rewriter(graph)
    rewriter.sweep(_pad_later)
    for node in list(rewriter.nodes):
        if not isinstance(node.op, (Conv, MaxPool, AveragePool)):
            continue
        source = rewriter.producer(node.inputs[0])
        if source is None or not isinstance(source.op, Pad) or not _fits(source.op, node):
            continue
        inner = source.op.pads[1:-1]
        pads = tuple((a + c, b + d) for (a, b), (c, d) in zip(node.op.pads, inner, strict=True))
        op = node.op
        new = replace(op, pads=pads)
        if isinstance(new, AveragePool):
            new = replace(new, count_include_pad=True)
        inputs = (source.inputs[0], *node.inputs[1:])
        if _is_legal(rewriter, new, inputs):
            rewriter.update(node, new, inputs)
    return rewriter.finish()


def _pad_later(rewriter: Rewriter, node: Node) -> bool:
    """Pad -> Reshape to one more dimension, in front of a window: the other way round."""
    source = rewriter.producer(node.inputs[0]) if isinstance(node.op, Reshape) else None
    reader = rewriter.single_reader(node.output) if source else None
    if source is None or reader is None or not isinstance(source.op, Pad):
        return False
    before, after = rewriter.types[node.inputs[0]].shape, rewriter.types[node.output].shape
    inserted = (*before[:1], 1, *before[1:]) == after
    alone = rewriter.single_reader(source.output) is node and reader.inputs[0] == node.output
    if not inserted or not alone or not isinstance(reader.op, (Conv, MaxPool, AveragePool)):
        return False
    x = source.inputs[0]
    first, *others = source.op.pads
    pad = replace(source.op, pads=(first, (0, 0), *others))
    type_ = rewriter.types[x]
    shape = (*type_.shape[:1], 1, *type_.shape[1:])
    value = rewriter.value(f"{x}/raised", replace(type_, shape=shape))
    rewriter.replace_node(source, [])
    raised = Node(Reshape(shape), node.name, (x,), (value,))
    rewriter.replace_node(node, [raised, Node(pad, source.name, (value,), node.outputs)])
    return True


def _is_legal(rewriter: Rewriter, op: Op, inputs: Sequence[str]) -> bool:
    """Whether an operator accepts such padding: no window of a pool may lie entirely in its own
    padding.
    """
    try:
        op.infer(*(rewriter.types[i] if i else None for i in inputs))
    except ModelError:
        return False
    return True


def _fits(pad: Pad, node: Node) -> bool:
    spatial_only = pad.pads[0] == pad.pads[-1] == (0, 0)
    grows = all(a >= 0 and b >= 0 for a, b in pad.pads)
    if not spatial_only or not grows:
        return False
    if isinstance(node.op, MaxPool) and pad.mode == "edge":
        return all(d == 1 for d in node.op.dilations)
    if pad.mode != "constant":
        return False
    if isinstance(node.op, MaxPool):
        return pad.value == float("-inf")
    if isinstance(node.op, AveragePool):
        unpadded = all(pair == (0, 0) for pair in node.op.pads)
        return pad.value == 0.0 and (node.op.count_include_pad or unpadded)
    return pad.value == 0.0
