"""Zeros in place of the shares of queries for which the mask leaves no key.

Their softmax is not a number. ONNX's Attention asks whether the maximum of a row of the mask is
-infinity, PyTorch's exporter whether the shares are numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.graph import Node
from cannery.ir.rewrite import Rewriter
from cannery.ops.logic.compare import Equal, IsNaN, Where
from cannery.ops.reduce.op import ReduceMax


@dataclass(frozen=True)
class Guard:
    """What computes the shares, and the mask whose rows are asked; empty: the shares are."""

    shares: str
    mask: str = ""


def guard_of(rewriter: Rewriter, value: str) -> Guard | None:
    """The guard that computes a value, if nothing else reads it or what it guards."""
    node = rewriter.producer(value)
    if node is None or not isinstance(node.op, Where) or rewriter.single_reader(value) is None:
        return None
    condition, zero, shares = node.inputs
    array, asked = rewriter.constants.get(zero), rewriter.producer(condition)
    if array is None or array.any() or asked is None or shares in rewriter.outputs:
        return None
    others = [r for r in rewriter.readers(shares) if r not in (node, asked)]
    if others or rewriter.types[shares] != rewriter.types[value]:
        return None
    if isinstance(asked.op, IsNaN):
        return Guard(shares) if asked.inputs == (shares,) else None
    return _of_mask(rewriter, asked, shares)


def _of_mask(rewriter: Rewriter, asked: Node, shares: str) -> Guard | None:
    """Whether the maximum of the last axis of a mask is -infinity."""
    if not isinstance(asked.op, Equal):
        return None
    array, found = rewriter.constants.get(asked.inputs[1]), rewriter.producer(asked.inputs[0])
    if array is None or not (array == -np.inf).all() or found is None:
        return None
    if not isinstance(found.op, ReduceMax) or not found.op.keepdims:
        return None
    mask = found.inputs[0]
    return Guard(shares, mask) if found.op.axes == (rewriter.types[mask].rank - 1,) else None


def may_hide_all(rewriter: Rewriter, mask: str) -> bool:
    """Whether a mask may leave no key for some query."""
    array = rewriter.constants.get(mask)
    return bool(mask) and (array is None or bool((array.max(axis=-1) == -np.inf).any()))
