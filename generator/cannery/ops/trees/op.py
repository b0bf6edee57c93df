"""Ensembles of decision trees (ai.onnx.ml): what the leaves say that a sample reaches, joined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError
from cannery.ir.numeric import F64, f64
from cannery.ir.registry import Op, RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_float
from cannery.ops.trees.forest import Column, Forest, make_forest

#: How the trees' answers are joined.
AGGREGATES = ("SUM", "AVERAGE", "MIN", "MAX")

#: The constant inputs of the operator: dtype and rank, see `Forest`.
_CONSTANTS = (
    ("columns", DType.INT32, 2), ("values", DType.FLOAT32, 1), ("thresholds", DType.FLOAT32, 1),
    ("links", DType.INT32, 2), ("roots", DType.INT32, 1), ("leaves", DType.FLOAT32, 2),
    ("base", DType.FLOAT32, 1),
)  # fmt: skip


@register
@dataclass(frozen=True)
class TreeEnsemble(Op):
    """x [N, F] and the arrays of a `Forest` -> [N, K]: sum, mean, minimum or maximum of the trees.

    A node's answer is yes if its column is at most its threshold, or less if `strict`.
    """

    aggregate: str = "SUM"
    strict: bool = False

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """One row of targets per sample; raises ModelError if the arrays do not fit together."""
        (x, *arrays), _ = operands(self, inputs, 1 + len(_CONSTANTS))
        require(self.aggregate in AGGREGATES, self, f"aggregate {self.aggregate!r}")
        require_float(self, x)
        require(x.rank == 2 and x.shape[1] > 0, self, f"samples of shape {x.shape}")
        for type_, (name, dtype, rank) in zip(arrays, _CONSTANTS, strict=True):
            require((type_.dtype, type_.rank) == (dtype, rank), self, f"{name} are {type_}")
        columns, _, thresholds, links, roots, leaves, base = arrays
        require(columns.shape[1] == 4, self, f"columns have shape {columns.shape}")
        require(links.shape == (thresholds.shape[0], 3), self, f"links have shape {links.shape}")
        require(roots.shape[0] > 0, self, "has no trees")
        require(leaves.shape[0] > 0, self, "has no leaves")
        require(base.shape == (leaves.shape[1],), self, f"base has shape {base.shape}")
        return (TensorType((x.shape[0], leaves.shape[1])),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Tree by tree, all samples at once; comparisons are those of float32."""
        (x, *arrays), _ = operands(self, inputs, 1 + len(_CONSTANTS))
        forest = make_forest(arrays, strict=self.strict)
        columns = column_values(forest, x.astype(np.float32))
        total: F64 | None = None
        for root in forest.roots:
            found = f64(forest.leaves)[_leaves(forest, int(root), columns)]
            total = found if total is None else self._joined(total, found)
        assert total is not None
        if self.aggregate == "AVERAGE":
            total = total / forest.trees
        return (total + f64(forest.base),)

    def _joined(self, a: F64, b: F64) -> F64:
        if self.aggregate in ("SUM", "AVERAGE"):
            return a + b
        return np.minimum(a, b) if self.aggregate == "MIN" else np.maximum(a, b)


def column_values(forest: Forest, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The columns [N, C] of samples [N, F]; NaN where that answers no."""
    found = np.empty((len(x), len(forest.columns)), np.float32)
    for k, (feature, kind, start, end) in enumerate(forest.columns):
        value = x[:, feature]
        missing = np.isnan(value)
        if Column(kind).is_member:
            inside = np.isin(value, forest.values[start:end])
            inside |= missing & Column(kind).nan_is_yes
            value = np.where(inside, np.float32(0.0), np.float32(1.0))
        elif Column(kind).nan_is_yes:
            value = np.where(missing, np.float32(-np.inf), value)
        found[:, k] = value
    return found


def _leaves(forest: Forest, root: int, columns: NDArray[np.float32]) -> NDArray[np.int64]:
    """The leaf of a tree that each sample reaches."""
    at = np.full(len(columns), root, np.int64)
    thresholds = forest.thresholds
    for _ in range(len(thresholds) + 1):
        inner = np.flatnonzero(at >= 0)
        if not len(inner):
            return -1 - at
        nodes = at[inner]
        value = columns[inner, forest.links[nodes, 0]]
        yes = value < thresholds[nodes] if forest.strict else value <= thresholds[nodes]
        at[inner] = np.where(yes, forest.links[nodes, 1], forest.links[nodes, 2])
    raise ModelError("its nodes form a cycle")
