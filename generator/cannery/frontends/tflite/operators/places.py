"""Elements at computed places, and the places of elements."""

from __future__ import annotations

from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ir.graph import Array
from cannery.ir.tensor import MAX_ELEMENTS, DType
from cannery.ops.indexing.gather import Gather, GatherND
from cannery.ops.indexing.masks import ReverseSequence
from cannery.ops.indexing.scatter import ScatterND
from cannery.ops.logic.compare import Equal, Where
from cannery.ops.movement.op import Cast, Transpose
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.ordering.extremes import ArgMax, ArgMin, TopK


@operator("GATHER", moves=True)
def gather(scope: Scope) -> str:
    """x, indices: slices along an axis; indices are not negative."""
    x, indices = scope.input(0), scope.input(1)
    axis = scope.axis(scope.integer("Axis"), scope.rank(x))
    _check_places(scope, indices, scope.shape(x)[axis])
    batch = scope.integer("BatchDims")
    batch += scope.rank(indices) if batch < 0 else 0
    if not batch:
        return scope.node(Gather(axis), [x, indices])
    if not 0 < batch <= min(axis, scope.rank(indices)):
        raise ModelError(f"{batch} batch dimensions of axis {axis}")
    return _gathered_each(scope, x, indices, axis, batch)


def _gathered_each(scope: Scope, x: str, indices: str, axis: int, batch: int) -> str:
    """The same where each element of the first `batch` axes has indices of its own."""
    rank, more = scope.rank(x), scope.rank(indices) - batch
    between = range(batch, axis)
    order = (*range(batch), axis, *between, *range(axis + 1, rank))
    moved = scope.node(Transpose(order), [x], "axis_first") if between else x
    wide = scope.reshaped(indices, (*scope.shape(indices), 1), "places")
    y = scope.node(GatherND(batch), [moved, wide], "found" if between else "")
    if not between:
        return y
    # The axes between the batch and the axis come after those of the indices.
    found = range(batch, batch + more)
    kept = range(batch + more, batch + more + len(between))
    rest = range(batch + more + len(between), scope.rank(y))
    return scope.node(Transpose((*range(batch), *kept, *found, *rest)), [y])


def _check_places(scope: Scope, indices: str, size: int) -> None:
    """ModelError for known indices outside of an axis; computed ones are clamped."""
    known = scope.array(indices)
    if known is not None:
        _check_range(known, size)


def _check_range(indices: Array, size: int) -> None:
    if indices.size and not (int(indices.min()) >= 0 and int(indices.max()) < size):
        raise ModelError(f"indices {indices.min()} to {indices.max()} of an axis of {size}")


@operator("EMBEDDING_LOOKUP", moves=True)
def embedding_lookup(scope: Scope) -> str:
    """indices, table: rows of the table."""
    _check_places(scope, scope.input(0), scope.shape(scope.input(1))[0])
    return scope.node(Gather(0), [scope.input(1), scope.input(0)])


@operator("GATHER_ND", moves=True)
def gather_nd(scope: Scope) -> str:
    """x, indices[..,K]."""
    known = scope.array(scope.input(1))
    sizes = scope.shape(scope.input(0))
    if known is not None and known.ndim and known.shape[-1] <= len(sizes):
        for axis in range(known.shape[-1]):
            _check_range(known[..., axis], sizes[axis])
    return scope.node(GatherND(), [scope.input(0), scope.input(1)])


@operator("ARG_MAX", "ARG_MIN", moves=True)
def extreme(scope: Scope) -> str:
    """The first place of the greatest or least element."""
    x = scope.input(0)
    (number,) = scope.known_integers(1, "its axis")[:1] or (-1,)
    axis = scope.axis(number, scope.rank(x))
    scope.ignore("OutputType")
    op = (ArgMax if scope.kind == "ARG_MAX" else ArgMin)(axis, keepdims=False)
    return as_stored(scope, scope.node(op, [x]), 0)


def as_stored(scope: Scope, value: str, index: int) -> str:
    """Places as the integers that the file declares for an output."""
    types = {"INT32": DType.INT32, "INT64": DType.INT64}
    to = types.get(scope.output_at(index).dtype)
    if to is None or to is scope.dtype(value):
        return value
    return scope.node(Cast(to), [value], "places")


@operator("TOPK_V2", moves=True)
def top_k(scope: Scope) -> list[str]:
    """The k greatest elements along the last axis, and their places."""
    x = scope.input(0)
    (k,) = scope.known_integers(1, "k")[:1] or (0,)
    axis = scope.axis(-1, scope.rank(x))
    values = scope.node(TopK(axis, k), [x], "values")
    return [values, as_stored(scope, scope.node(TopK(axis, k, indices=True), [x]), 1)]


@operator("CUMSUM")
def cumsum(scope: Scope) -> str:
    """Running sums along a known axis."""
    x = scope.input(0)
    (number,) = scope.known_integers(1, "its axis")[:1] or (0,)
    axis = scope.axis(number, scope.rank(x))
    return scope.node(CumSum(axis, scope.flag("Exclusive"), scope.flag("Reverse")), [x])


@operator("REVERSE_SEQUENCE", moves=True)
def reverse_sequence(scope: Scope) -> str:
    """x, lengths: the first elements of each sequence backwards."""
    x = scope.input(0)
    rank = scope.rank(x)
    time = scope.axis(scope.integer("SeqDim"), rank)
    batch = scope.axis(scope.integer("BatchDim"), rank)
    if {time, batch} != {0, 1}:
        raise UnsupportedError("time and samples other than the first two axes")
    wide = scope.node(Cast(DType.INT64), [scope.input(1)], "lengths")
    return scope.node(ReverseSequence(batch, time), [x, wide])


@operator("SCATTER_ND")
def scatter_nd(scope: Scope) -> str:
    """indices[..,K], updates, shape: zeros, to which the updates are added at their places."""
    indices, updates = scope.input(0), scope.input(1)
    shape = scope.known_integers(2, "its shape")
    if min(shape, default=1) < 1 or prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"its shape {shape}")
    known = scope.array(indices)
    if known is not None and known.ndim and known.shape[-1] <= len(shape):
        for axis in range(known.shape[-1]):
            _check_range(known[..., axis], shape[axis])
    zeros = scope.constant("zeros", np.zeros(shape, scope.dtype(updates).numpy))
    wide = scope.node(Cast(DType.INT64), [indices], "places")
    return scope.node(ScatterND("add"), [zeros, wide, updates])


@operator("ONE_HOT")
def one_hot(scope: Scope) -> str:
    """indices, depth, on, off; an index that is not one of the places sets nothing."""
    indices = scope.input(0)
    (depth,) = scope.known_integers(1, "its depth")[:1] or (0,)
    if not 0 <= depth <= 2**20:
        raise ModelError(f"a depth of {depth}")
    shape = list(scope.shape(indices))
    axis = scope.axis(scope.integer("Axis"), len(shape) + 1)
    raised = scope.reshaped(indices, (*shape[:axis], 1, *shape[axis:]), "raised")
    column = (depth, *(1,) * (len(shape) - axis))
    numbers = np.arange(depth, dtype=scope.dtype(indices).numpy).reshape(column)
    chosen = scope.node(Equal(), [raised, scope.constant("numbers", numbers)], "chosen")
    values = [scope.reshaped(scope.input(k), (), f"value{k}") for k in (2, 3)]
    return scope.node(Where(), [chosen, *values])
