"""An ensemble of decision trees as arrays: what `TreeEnsemble` gets as constant inputs.

Every inner node asks one question: is a column at most (or less than) its threshold? Columns are
made from the features of a sample, so that NaN and sets of values need no other kind of node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph, Node

I32 = NDArray[np.int32]
F32 = NDArray[np.float32]


class Column(IntEnum):
    """What a column holds.

    VALUE: a feature; NaN answers no. VALUE_OR_NAN: NaN answers yes, as minus infinity. MEMBER: 0 if
    a feature is in a set, else 1. MEMBER_OR_NAN: likewise, and 0 for NaN.
    """

    VALUE = 0
    VALUE_OR_NAN = 1
    MEMBER = 2
    MEMBER_OR_NAN = 3

    @property
    def is_member(self) -> bool:
        return self in (Column.MEMBER, Column.MEMBER_OR_NAN)

    @property
    def nan_is_yes(self) -> bool:
        return self in (Column.VALUE_OR_NAN, Column.MEMBER_OR_NAN)


@dataclass(frozen=True)
class Forest:
    """The constant inputs of a `TreeEnsemble`, in order.

    columns [C, 4]: feature, `Column`, and the part of `values` that is its set, from and to; sorted
    by kind. values [V]: elements of the sets. thresholds [M] and links [M, 3] (column, node after
    yes, node after no) are the inner nodes; a link below zero is the leaf -1 - link. roots [T]: the
    first node of each tree, or its leaf. leaves [L, K]: what a leaf adds to each target. base [K]
    is added at the end.

    Each node and leaf belongs to one tree, where one way leads to it.
    """

    columns: I32
    values: F32
    thresholds: F32
    links: I32
    roots: I32
    leaves: F32
    base: F32
    strict: bool = False

    @property
    def trees(self) -> int:
        return len(self.roots)

    @property
    def targets(self) -> int:
        return int(self.leaves.shape[1])

    @property
    def nodes(self) -> int:
        """Inner nodes."""
        return len(self.thresholds)

    @cached_property
    def depths(self) -> I32:
        """The most questions on the way to a leaf, for each tree."""
        return np.array([int(d.max(initial=0)) for d in self._leaf_depths], np.int32)

    @cached_property
    def mean_depths(self) -> NDArray[np.float64]:
        """Questions on the way to a leaf of each tree if both answers are equally likely."""
        return np.array([float((np.exp2(-d) * d).sum()) for d in self._leaf_depths])

    @cached_property
    def _leaf_depths(self) -> list[NDArray[np.float64]]:
        """Of each tree the depths of its leaves."""
        found = []
        for root in self.roots:
            depths: list[NDArray[np.float64]] = []
            level, depth = np.array([root], np.int64), 0
            while level.size:
                inner = level[level >= 0]
                depths.append(np.full(level.size - inner.size, depth, np.float64))
                level, depth = self.links[inner, 1:].reshape(-1).astype(np.int64), depth + 1
            found.append(np.concatenate(depths))
        return found

    @cached_property
    def leaf_counts(self) -> I32:
        """How many leaves each tree has."""
        return np.array([d.size for d in self._leaf_depths], np.int32)

    def sets(self) -> list[F32]:
        """The set of each column, empty for those that are no members."""
        return [self.values[start:end] for _, _, start, end in self.columns]


def make_forest(arrays: Sequence[NDArray[Any]], *, strict: bool) -> Forest:
    """A forest from the constant inputs of a TreeEnsemble."""
    columns, values, thresholds, links, roots, leaves, base = map(np.asarray, arrays)
    return Forest(columns, values, thresholds, links, roots, leaves, base, strict)


def forest_of(graph: Graph, node: Node) -> Forest:
    """The forest of a TreeEnsemble, whose inputs after the first are constants."""
    arrays = [graph.constants[name] for name in node.inputs[1:]]
    strict = bool(getattr(node.op, "strict", False))
    return graph.once("forest", (node,), lambda: make_forest(arrays, strict=strict))
