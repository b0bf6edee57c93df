"""Nearest upsampling before a depthwise convolution becomes part of it.

Upsampling by s and convolving with K taps is one transposed convolution with K + s - 1 taps and
stride s: taps that read the same input are added up. For a 3x3 window after an upsampling by two,
this saves two thirds of the products, and the large image between them is never written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.ir.tensor import TensorType
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.resize.op import Resize, repeats


def upsample_into_conv(graph: Graph) -> Graph:
    """Resize(nearest, times s) -> depthwise Conv becomes ConvTranspose with stride s.

    If the upsampled image is one of several that are concatenated by channels, the convolution is
    first split by channels.
    """
    rewriter = Rewriter(graph)
    rewriter.sweep(_cut)
    rewriter.sweep(_join)
    return rewriter.finish()


def _cut(rewriter: Rewriter, node: Node) -> bool:
    """Conv(Concat(a, b)) -> Concat(Conv(a), Conv(b)), if an upsampling is among them."""
    source = rewriter.producer(node.inputs[0])
    if not _depthwise(rewriter, node) or source is None or not isinstance(source.op, Concat):
        return False
    last = rewriter.types[source.output].rank - 1
    fits = source.op.axis == last and rewriter.single_reader(source.output) is node
    if not fits or not any(_upsampling(rewriter, node, v) for v in source.inputs):
        return False
    op = node.op
    assert isinstance(op, Conv)
    parts, begin = [], 0
    shape = rewriter.types[node.output].shape
    for k, value in enumerate(source.inputs):
        end = begin + rewriter.types[value].shape[-1]
        constants = [
            rewriter.constant(name, rewriter.constants[name][..., begin:end])
            for name in node.inputs[1:]
        ]
        made = rewriter.value(f"{node.output}/{k}", TensorType((*shape[:-1], end - begin)))
        own = Conv(op.strides, op.pads, op.dilations, end - begin)
        parts.append(Node(own, f"{node.name}/{k}", (value, *constants), (made,)))
        begin = end
    joined = Node(source.op, f"{node.name}/join", tuple(p.output for p in parts), node.outputs)
    rewriter.replace_node(node, [*parts, joined])
    rewriter.replace_node(source, [])
    return True


def _join(rewriter: Rewriter, node: Node) -> bool:
    """Conv(Resize(x)) -> ConvTranspose(x)."""
    source = _upsampling(rewriter, node, node.inputs[0]) if _depthwise(rewriter, node) else None
    if source is None:
        return False
    op = node.op
    assert isinstance(op, Conv)
    w = rewriter.constants[node.inputs[1]].astype(np.float64)
    assert isinstance(source.op, Resize)
    scales = repeats(source.op, rewriter.types[source.inputs[0]].shape[1:-1])
    kernel = w.shape[: len(scales)]
    for axis, scale in enumerate(scales):
        w = _spread(w, axis, scale)
    # Depthwise: [*K,1,OC] of a convolution is [*K,OC/group,IC] of its transpose.
    weight = rewriter.constant(node.inputs[1], w)
    pads = tuple((k - 1 - a, k - 1 - b) for k, (a, b) in zip(kernel, op.pads, strict=True))
    own = ConvTranspose(scales, pads, op.dilations, tuple(0 for _ in scales), op.group)
    inputs = (source.inputs[0], weight, *node.inputs[2:])
    alone = rewriter.single_reader(source.output) is node
    rewriter.replace_node(node, [Node(own, node.name, inputs, node.outputs)])
    if alone:
        rewriter.replace_node(source, [])
    return True


def _depthwise(rewriter: Rewriter, node: Node) -> bool:
    """Whether a node is a depthwise convolution that visits every pixel once."""
    op = node.op
    if not isinstance(op, Conv) or any(v not in rewriter.constants for v in node.inputs[1:]):
        return False
    channels = rewriter.types[node.inputs[0]].shape[-1]
    plain = {*op.strides, *op.dilations} == {1}
    return plain and op.group == channels == rewriter.types[node.output].shape[-1]


def _upsampling(rewriter: Rewriter, node: Node, value: str) -> Node | None:
    """The node that makes `value` by repeating pixels, if a convolution can take it in."""
    source = rewriter.producer(value)
    op = node.op
    if source is None or not isinstance(source.op, Resize) or not isinstance(op, Conv):
        return None
    kernel = rewriter.constants[node.inputs[1]].shape
    within = all(0 <= p < k for k, pair in zip(kernel, op.pads, strict=False) for p in pair)
    spatial = rewriter.types[source.inputs[0]].shape[1:-1]
    return source if within and repeats(source.op, spatial) else None


def _spread(w: NDArray[np.float64], axis: int, scale: int) -> NDArray[np.float64]:
    """Taps of the transposed convolution along an axis: the full convolution with `scale` ones.

    Output o = i * scale + r adds w[k] * x[i] for all taps k that fall on a copy of pixel i, which
    are the `scale` ones up to pad - r + scale - 1; tap t of the transpose is r = t - pad'.
    """
    taps = w.shape[axis]
    flipped = np.flip(w, axis)
    spread = np.zeros((*w.shape[:axis], taps + scale - 1, *w.shape[axis + 1 :]))
    for shift in range(scale):
        index: Sequence[slice] = [slice(None)] * axis + [slice(shift, shift + taps)]
        spread[tuple(index)] += flipped
    return spread
