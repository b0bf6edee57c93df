"""Channels between two convolutions that make no difference are left out.

A channel is one if the second convolution has nothing but zeros for it, or if its weights in the
first are all zero and what follows makes its bias 0. So filters that were pruned away cost nothing,
whichever kernels are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Elementwise
from cannery.ir.rewrite import Rewriter
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.max_pool.op import MaxPool


def prune_channels(graph: Graph) -> Graph:
    """Conv -> elementwise, pools, depthwise Conv -> Conv: without the channels that are zero."""
    rewriter = Rewriter(graph)
    rewriter.sweep(_prune)
    return rewriter.finish()


@dataclass(frozen=True)
class _Constant:
    """By channel: whether all its pixels are the same, whatever the input, and what they are."""

    known: NDArray[np.bool_]
    value: NDArray[np.float64]


def _prune(rewriter: Rewriter, first: Node) -> bool:
    if not _is_conv(rewriter, first, group=1):
        return False
    w = rewriter.constants[first.inputs[1]]
    constant = _Constant(_all_zero(w, -1), _bias(rewriter, first))
    between: list[Node] = []
    value = first.output
    while (reader := rewriter.single_reader(value)) is not None:
        if _is_conv(rewriter, reader, group=1):
            break
        after = _through(rewriter, reader, value, constant)
        if after is None:
            return False
        constant, value = after, reader.output
        between.append(reader)
    if reader is None:
        return False
    unused = _all_zero(rewriter.constants[reader.inputs[1]], -2)
    drop = unused | (constant.known & (constant.value == 0.0))
    if drop.all():
        drop[0] = False  # a convolution has at least one
    if not drop.any():
        return False
    _narrow(rewriter, [first, *between], reader, np.flatnonzero(~drop))
    return True


def _is_conv(rewriter: Rewriter, node: Node, group: int) -> bool:
    """Whether a node is a convolution of so many groups whose weights are known."""
    op, known = node.op, rewriter.constants
    return isinstance(op, Conv) and op.group == group and all(v in known for v in node.inputs[1:])


def _all_zero(w: NDArray[np.generic], axis: int) -> NDArray[np.bool_]:
    """By index of an axis: whether there is nothing but zeros."""
    return np.asarray(~np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1).any(axis=1))


def _bias(rewriter: Rewriter, node: Node) -> NDArray[np.float64]:
    channels = rewriter.types[node.output].shape[-1]
    if len(node.inputs) < 3:
        return np.zeros(channels)
    return np.asarray(rewriter.constants[node.inputs[2]], np.float64)


def _through(rewriter: Rewriter, node: Node, value: str, x: _Constant) -> _Constant | None:
    """What a node makes of the channels of `value`; None if it does not keep them apart."""
    channels = len(x.value)
    if isinstance(node.op, MaxPool | AveragePool) and len(node.outputs) == 1:
        return _Constant(x.known & (x.value == 0.0), x.value)
    if _is_conv(rewriter, node, group=channels) and node.inputs[0] == value:
        w = rewriter.constants[node.inputs[1]]
        if w.shape[-1] != channels:
            return None
        known = _all_zero(w, -1) | (x.known & (x.value == 0.0))
        return _Constant(known, _bias(rewriter, node))
    others = [v for v in node.inputs if v != value]
    elementwise = isinstance(node.op, Elementwise) and len(node.outputs) == 1
    if not elementwise or not all(_per_channel(rewriter, v, channels) for v in others):
        return None
    if rewriter.types[node.output] != rewriter.types[value]:
        return None
    shape = (*(1 for _ in rewriter.types[value].shape[1:]), channels)
    operands = [
        x.value.reshape(shape) if v == value else rewriter.constants[v].astype(np.float64)
        for v in node.inputs
    ]
    with np.errstate(all="ignore"):
        (made,) = node.op.reference(*operands)
    return _Constant(x.known, np.asarray(made, np.float64).reshape(-1))


def _per_channel(rewriter: Rewriter, value: str, channels: int) -> bool:
    """Whether a value is a constant for each channel, or one for all."""
    array = rewriter.constants.get(value)
    if array is None or array.dtype.kind != "f":
        return False
    return array.size == 1 or (array.shape[-1:] == (channels,) and array.size == channels)


def _narrow(rewriter: Rewriter, nodes: Sequence[Node], last: Node, keep: NDArray[np.intp]) -> None:
    """Leave `keep` of the channels that `nodes` compute and `last` reads."""
    for number, node in enumerate(nodes):
        type_ = rewriter.types[node.output]
        channels = type_.shape[-1]
        inputs = list(node.inputs)
        for k, name in enumerate(inputs):
            array = rewriter.constants.get(name)
            if array is not None and array.shape[-1:] == (channels,):
                inputs[k] = rewriter.constant(name, array[..., keep])
        op = node.op
        if number and isinstance(op, Conv):
            op = replace(op, group=len(keep))
        rewriter.types[node.output] = replace(type_, shape=(*type_.shape[:-1], len(keep)))
        rewriter.update(node, op=op, inputs=inputs)
    weight = last.inputs[1]
    w = rewriter.constant(weight, rewriter.constants[weight][..., keep, :])
    rewriter.update(last, inputs=(last.inputs[0], w, *last.inputs[2:]))
