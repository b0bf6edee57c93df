"""Outputs of a convolution that are cut off later are not computed: its padding shrinks.

Causal convolutions are written this way (Bai et al., "Sequence Modeling", 2018): padded on both
sides, then cropped where they looked ahead. So are transposed ones by exporters whose frameworks
pad them in another way.
"""

from __future__ import annotations

from dataclasses import replace

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.movement.op import Slice
from cannery.ops.window import Pads


def slice_into_conv(graph: Graph) -> Graph:
    """Conv -> Slice of its borders becomes a Conv with less padding, if strides are 1; so does
    ConvTranspose, with more.
    """
    rewriter = Rewriter(graph)
    for node in rewriter.nodes:
        conv = rewriter.producer(node.inputs[0]) if isinstance(node.op, Slice) else None
        if conv is None or not isinstance(conv.op, Conv | ConvTranspose):
            continue
        pads = _pads(rewriter, conv.op, node)
        if pads and rewriter.single_reader(conv.output) is node:
            rewriter.update(node, replace(conv.op, pads=pads), conv.inputs)
    return rewriter.finish()


def _pads(rewriter: Rewriter, conv: Conv | ConvTranspose, node: Node) -> Pads:
    """The padding with which a convolution computes exactly the slice; () if it cannot."""
    op, shape = node.op, rewriter.types[node.inputs[0]].shape
    assert isinstance(op, Slice)
    cuts = [(start, d - end) for start, end, d in zip(op.starts, op.ends, shape, strict=True)]
    plain = set(op.steps) == {1} and rewriter.types[node.output].elements > 0
    if not plain or cuts[0] != (0, 0) or cuts[-1] != (0, 0):
        return ()
    if isinstance(conv, ConvTranspose):
        pairs = zip(conv.pads, cuts[1:-1], strict=True)
        return tuple((a + c, b + d) for (a, b), (c, d) in pairs)
    pads = tuple((a - c, b - d) for (a, b), (c, d) in zip(conv.pads, cuts[1:-1], strict=True))
    return pads if set(conv.strides) == {1} and all(min(pair) >= 0 for pair in pads) else ()
