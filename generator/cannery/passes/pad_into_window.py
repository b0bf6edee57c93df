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
from cannery.ops.movement.op import Pad


def pad_into_window(graph: Graph) -> Graph:
    """Pad(0) -> Conv, Pad(-inf) -> MaxPool, and Pad(0) -> AveragePool that counts its padding.

    Before a MaxPool without dilation, Pad may also repeat the edge: a window that reaches beyond it
    contains the elements of which these are copies.
    """
    rewriter = Rewriter(graph)
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
