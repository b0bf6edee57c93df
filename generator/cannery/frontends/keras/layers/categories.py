"""Indices, bins and one-hot codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.errors import UnsupportedError
from cannery.frontends.keras.layers.base import Scope
from cannery.ir.tensor import DType
from cannery.ops.elementwise.binary import Mul
from cannery.ops.indexing.masks import OneHot
from cannery.ops.logic.compare import GreaterOrEqual
from cannery.ops.movement.op import Cast, Reshape
from cannery.ops.reduce.op import ReduceMax, ReduceSum

#: The most pairs of elements and boundaries.
_MOST = 2**24


def indices(scope: Scope, x: str) -> str:
    """`x` as whole numbers."""
    if scope.type(x).dtype in (DType.INT32, DType.INT64):
        return x
    return scope.node(Cast(DType.INT32), [x], "indices")


def bins_below(scope: Scope, x: str, edges: NDArray[np.float64], label: str = "") -> str:
    """How many edges are at most each element, as int32."""
    shape = scope.shape(x)
    if scope.type(x).elements * len(edges) > _MOST:
        raise UnsupportedError(f"{len(edges)} boundaries for {shape} elements are too many")
    wide = scope.node(Reshape((*shape, 1)), [x], "each")
    reached = scope.node(GreaterOrEqual(), [wide, scope.literal("edges", edges)], "reached")
    counts = scope.node(Cast(DType.INT32), [reached], "counts")
    return scope.node(ReduceSum((len(shape),)), [counts], label)


def encoded(scope: Scope, x: str, depth: int, mode: str, weights: str | None) -> str:
    """Categories as Keras encodes them: one code for each, or one for all along axis 1."""
    values = scope.literal("values", np.asarray([0.0, 1.0]))
    x = indices(scope, x)
    shape = scope.shape(x)
    if mode == "one_hot":
        if weights is not None:
            raise UnsupportedError("it is called with count_weights, which only count reads")
        if len(shape) > 1 and shape[-1] == 1:
            x = scope.node(Reshape(shape[:-1]), [x], "single")
        return scope.node(OneHot(depth, scope.rank(x), wraps=False), [x, values])
    codes = scope.node(OneHot(depth, len(shape), wraps=False), [x, values], "codes")
    axis = 1 if len(shape) > 1 else 0
    if mode == "multi_hot":
        return scope.node(ReduceMax((axis,)), [codes])
    if weights is not None:
        wide = scope.node(Reshape((*scope.shape(weights), 1)), [scope.to_float(weights)], "weights")
        codes = scope.node(Mul(), [codes, wide], "weighted")
    return scope.node(ReduceSum((axis,)), [codes])
