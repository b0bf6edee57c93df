"""Removes channels between two convolutions that make no difference.

That is a channel for which the second convolution has only zeros, or whose weights in the first are
all zero if the nodes between turn its bias into 0. So pruned filters cost nothing, whichever
kernels are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph, Node
from cannery.ir.rewrite import Rewriter
from cannery.passes.by_channel import (
    choose_channels,
    choose_inputs,
    is_conv,
    is_depthwise,
    is_elementwise,
    is_pool,
)


def prune_channels(graph: Graph) -> Graph:
    """Conv -> elementwise, pools, depthwise Conv -> Conv: without the channels that are zero."""
    rewriter = Rewriter(graph)
    rewriter.sweep(_prune)
    return rewriter.finish()


@dataclass(frozen=True)
class _Constant:
    """For each channel: whether all its pixels have the same value for every input, and that
    value.
    """

    known: NDArray[np.bool_]
    value: NDArray[np.float64]


def _prune(rewriter: Rewriter, first: Node) -> bool:
    if not is_conv(rewriter, first, group=1):
        return False
    w = rewriter.constants[first.inputs[1]]
    constant = _Constant(_all_zero(w, -1), _bias(rewriter, first))
    between: list[Node] = []
    value = first.output
    while (reader := rewriter.single_reader(value)) is not None:
        if is_conv(rewriter, reader, group=1):
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
    keep = np.flatnonzero(~drop)
    choose_channels(rewriter, [first, *between], keep)
    choose_inputs(rewriter, reader, keep)
    return True


def _all_zero(w: NDArray[np.generic], axis: int) -> NDArray[np.bool_]:
    """For each index of an axis: whether there are only zeros."""
    return np.asarray(~np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1).any(axis=1))


def _bias(rewriter: Rewriter, node: Node) -> NDArray[np.float64]:
    channels = rewriter.types[node.output].shape[-1]
    if len(node.inputs) < 3:
        return np.zeros(channels)
    return np.asarray(rewriter.constants[node.inputs[2]], np.float64)


def _through(rewriter: Rewriter, node: Node, value: str, x: _Constant) -> _Constant | None:
    """What a node makes of the channels of `value`; None if it does not keep them apart."""
    if is_pool(node):
        return _Constant(x.known & (x.value == 0.0), x.value)
    if is_depthwise(rewriter, node, value):
        w = rewriter.constants[node.inputs[1]]
        known = _all_zero(w, -1) | (x.known & (x.value == 0.0))
        return _Constant(known, _bias(rewriter, node))
    if not is_elementwise(rewriter, node, value):
        return None
    shape = (*(1 for _ in rewriter.types[value].shape[1:]), len(x.value))
    operands = [
        x.value.reshape(shape) if v == value else rewriter.constants[v].astype(np.float64)
        for v in node.inputs
    ]
    with np.errstate(all="ignore"):
        (made,) = node.op.reference(*operands)
    return _Constant(x.known, np.asarray(made, np.float64).reshape(-1))
