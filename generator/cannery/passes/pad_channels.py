"""Channels of zeros are concatenated to an image, which is written in place: nothing is copied.

Residuals that grow by channels (BlazeFace, some ResNets) are padded this way. A Pad copies the
image; for a concatenation only the zeros are written, see `cannery.lowering.assign`.
"""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import DType, TensorType
from cannery.ops.concat.op import Concat
from cannery.ops.movement.op import Expand, Identity, Pad


def pad_channels(graph: Graph) -> Graph:
    """Pad(0) of the channels of a float image becomes a Concat with zeros, right after the image.

    That is early enough for the convolution beside it to add it in its epilogue.
    """
    rewriter = Rewriter(graph)
    for node in rewriter.nodes:
        if isinstance(node.op, Pad) and _fits(rewriter, node, node.op):
            _join(rewriter, node, node.op.pads[-1])
    return rewriter.finish()


def _fits(rewriter: Rewriter, node: Node, op: Pad) -> bool:
    type_ = rewriter.types[node.output]
    if type_.rank != 4 or type_.shape[0] != 1 or type_.dtype is not DType.FLOAT32:
        return False
    *others, channels = op.pads
    zeros = op.mode == "constant" and op.value == 0.0
    grows = any(channels) and not any(map(any, others))
    return zeros and grows and rewriter.producer(node.inputs[0]) is not None


def _join(rewriter: Rewriter, node: Node, counts: tuple[int, int]) -> None:
    """Let readers of the padded image read the image, joined with this many zeros on each side."""
    (x,), type_ = node.inputs, rewriter.types[node.output]
    source = rewriter.producer(x)
    assert source is not None
    zero = rewriter.constant("zero", np.zeros(1, np.float32))
    new, parts = [source], [x]
    for count, at in zip(counts, (0, 2), strict=True):
        if count:
            shape = (*type_.shape[:-1], count)
            zeros = rewriter.value(f"{node.output}/zeros", TensorType(shape, type_.dtype))
            new.append(Node(Expand(shape), zeros, (zero,), (zeros,)))
            parts.insert(at, zeros)
    whole = rewriter.value(f"{node.output}/joined", type_)
    joined = Node(Concat(type_.rank - 1), whole, tuple(parts), (whole,))
    rewriter.replace_node(source, [*new, joined])
    if rewriter.can_bypass(node, whole):
        rewriter.bypass(node, whole)
    else:
        rewriter.update(node, Identity(), (whole,))
