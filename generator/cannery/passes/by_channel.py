"""Chooses and reorders channels of convolutions, and of nodes that keep channels apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Node
from cannery.ir.registry import Elementwise
from cannery.ir.rewrite import Rewriter
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.max_pool.op import MaxPool


def is_conv(rewriter: Rewriter, node: Node, group: int) -> bool:
    """Whether a node is a convolution with this many groups and known weights."""
    op, known = node.op, rewriter.constants
    return isinstance(op, Conv) and op.group == group and all(v in known for v in node.inputs[1:])


def is_pool(node: Node) -> bool:
    """Whether a node only pools."""
    return isinstance(node.op, MaxPool | AveragePool) and len(node.outputs) == 1


def is_depthwise(rewriter: Rewriter, node: Node, value: str) -> bool:
    """Whether a node convolves each channel of `value` separately, into one channel."""
    channels = rewriter.types[value].shape[-1]
    if not is_conv(rewriter, node, group=channels) or node.inputs[0] != value:
        return False
    return bool(rewriter.constants[node.inputs[1]].shape[-1] == channels)


def is_elementwise(rewriter: Rewriter, node: Node, value: str) -> bool:
    """Whether a node computes each element from one element of `value` and per-channel
    constants.
    """
    others = [v for v in node.inputs if v != value]
    elementwise = isinstance(node.op, Elementwise) and len(node.outputs) == 1
    channels = rewriter.types[value].shape[-1]
    if not elementwise or not all(_per_channel(rewriter, v, channels) for v in others):
        return False
    return rewriter.types[node.output] == rewriter.types[value]


def keeps_apart(rewriter: Rewriter, node: Node, value: str) -> bool:
    """Whether each channel that a node computes depends only on the same channel of `value`."""
    if is_pool(node) or is_depthwise(rewriter, node, value):
        return True
    return is_elementwise(rewriter, node, value)


def _per_channel(rewriter: Rewriter, value: str, channels: int) -> bool:
    """Whether a value is one constant per channel, or one for all."""
    array = rewriter.constants.get(value)
    if array is None or array.dtype.kind != "f":
        return False
    return array.size == 1 or (array.shape[-1:] == (channels,) and array.size == channels)


def choose_channels(rewriter: Rewriter, nodes: Sequence[Node], chosen: NDArray[np.intp]) -> None:
    """Let nodes compute the `chosen` channels, in that order.

    The first may be any convolution; the others keep its channels apart.
    """
    for node in nodes:
        type_ = rewriter.types[node.output]
        channels = type_.shape[-1]
        inputs = list(node.inputs)
        for k, name in enumerate(inputs):
            array = rewriter.constants.get(name)
            if array is not None and array.shape[-1:] == (channels,):
                inputs[k] = rewriter.constant(name, array[..., chosen])
        op = node.op
        if isinstance(op, Conv) and op.group > 1:
            op = replace(op, group=len(chosen))
        rewriter.types[node.output] = replace(type_, shape=(*type_.shape[:-1], len(chosen)))
        rewriter.update(node, op=op, inputs=inputs)


def choose_inputs(rewriter: Rewriter, conv: Node, chosen: NDArray[np.intp]) -> Node:
    """Let a convolution of one group read the `chosen` channels, in that order."""
    weight = conv.inputs[1]
    w = rewriter.constant(weight, rewriter.constants[weight][..., chosen, :])
    return rewriter.update(conv, inputs=(conv.inputs[0], w, *conv.inputs[2:]))
