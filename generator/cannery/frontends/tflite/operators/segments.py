"""Operators that put elements at known places of a larger tensor."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Div, Mul, Sqrt, Square
from cannery.ops.indexing.gather import Gather
from cannery.ops.indexing.scatter import ScatterND
from cannery.ops.logic.compare import Greater, Where
from cannery.ops.movement.op import Pad

#: How elements of a segment are joined.
_JOINS: Mapping[str, str] = {
    "SEGMENT_SUM": "add", "UNSORTED_SEGMENT_SUM": "add", "UNSORTED_SEGMENT_PROD": "mul",
    "UNSORTED_SEGMENT_MAX": "max", "UNSORTED_SEGMENT_MIN": "min",
}  # fmt: skip


#: Most elements of what results begin with, which are constants.
_MOST = 2**24


def _check_size(shape: tuple[int, ...]) -> tuple[int, ...]:
    if min(shape, default=1) < 0 or prod(max(d, 1) for d in shape) > _MOST:
        raise ModelError(f"a result of the shape {shape}")
    return shape


@operator(*_JOINS)
def segments(scope: Scope) -> str:
    """x[n,..], segment of each row, number of segments? -> [segments,..]."""
    x, join = scope.input(0), _JOINS[scope.kind]
    rows = scope.known_integers(1, "its segments")
    count = max(rows, default=-1) + 1
    if scope.kind != "SEGMENT_SUM":
        (count,) = scope.known_integers(2, "its number of segments")[:1] or (0,)
    shape = scope.shape(x)
    if not shape or len(rows) != shape[0] or max(rows, default=-1) >= count:
        raise ModelError(f"{len(rows)} segments up to {max(rows, default=-1)} for {shape}")
    if min(rows, default=0) < 0:
        raise UnsupportedError("negative segments are not supported")
    dtype = scope.dtype(x)
    whole = dtype is not DType.FLOAT32
    limits = np.iinfo(dtype.value) if whole else np.finfo(np.float32)
    first = {"add": 0, "mul": 1, "max": limits.min, "min": limits.max}[join]
    begin = scope.constant("begin", np.full(_check_size((count, *shape[1:])), first, dtype.numpy))
    places = scope.constant("places", np.asarray(rows, np.int64)[:, None])
    return scope.node(ScatterND(join), [begin, places, x])


@operator("SPARSE_TO_DENSE")
def sparse_to_dense(scope: Scope) -> str:
    """places, shape, values, what all others are; one value serves all places."""
    shape = _check_size(scope.known_integers(1, "its shape"))
    places = np.asarray(scope.known(0, "its places"), np.int64)
    rest = scope.known(3, "its other values")
    places = places.reshape(-1, len(shape)) if places.ndim > 1 else places.reshape(-1, 1)
    inside = places.shape[1] == len(shape) and ((places >= 0) & (places < shape)).all()
    if not inside or rest.size != 1:
        raise ModelError(f"places {places.shape} in the shape {shape}")
    values = scope.input(2)
    if prod(scope.shape(values)) == 1:
        alike = scope.constant("alike", np.zeros((), scope.dtype(values).numpy))
        whole = scope.constant("all", np.ones(len(places), np.bool_))
        values = scope.node(Where(), [whole, scope.reshaped(values, (), "value"), alike], "values")
    begin = scope.constant("begin", np.full(shape, rest.reshape(-1)[0]))
    return scope.node(ScatterND("none"), [begin, scope.constant("places", places), values])


@operator("EMBEDDING_LOOKUP_SPARSE")
def embedding_lookup_sparse(scope: Scope) -> str:
    """rows[n], where each goes[n,k], shape[k], weights[n], table[..]: sums of weighted rows.

    Combined, by their weights: 0 added, 1 the mean, 2 divided by the norm of the weights. Where no
    row goes, and where the weights add up to no more than 0, the sum stays as it is.
    """
    rows, weights, table = scope.input(0), scope.input(3), scope.input(4)
    places = np.asarray(scope.known(1, "its indices"), np.int64)
    shape = scope.known_integers(2, "its shape")[:-1]
    combiner, each = scope.integer("Combiner"), scope.shape(table)[1:]
    n = scope.type(rows).elements
    if scope.shape(rows) != (n,) or scope.shape(weights) != (n,) or combiner not in (0, 1, 2):
        raise ModelError(f"{scope.shape(weights)} weights of {scope.shape(rows)}, {combiner}")
    inside = places.shape == (n, len(shape) + 1) and (places >= 0).all()
    if not inside or (places[:, :-1] >= shape).any():
        raise ModelError(f"indices {places.shape} in the shape {shape}")
    at = scope.constant("places", np.ascontiguousarray(places[:, :-1]))
    found = scope.node(Gather(0), [table, rows], "rows")
    ones = (1,) * len(each)
    factors = scope.reshaped(weights, (n, *ones), "factors")
    weighted = scope.node(Mul(), [found, factors], "weighted")
    zeros = scope.constant("begin", np.zeros(_check_size((*shape, *each)), np.float32))
    sums = scope.node(ScatterND("add"), [zeros, at, weighted], "sums")
    if combiner == 0:
        return sums
    squares = scope.node(Square(), [weights], "squares") if combiner == 2 else weights
    none = scope.constant("none", np.zeros(shape, np.float32))
    total = scope.node(ScatterND("add"), [none, at, squares], "total")
    total = scope.node(Sqrt(), [total], "norm") if combiner == 2 else total
    counts = scope.node(Greater(), [total, scope.scalar("zero", 0.0)], "counts")
    safe = scope.node(Where(), [counts, total, scope.scalar("one", 1.0)], "divisor")
    return scope.node(Div(), [sums, scope.reshaped(safe, (*shape, *ones), "divisors")])


@operator("MATRIX_DIAG")
def matrix_diag(scope: Scope) -> str:
    """x[..,n] -> [..,n,n], zeros elsewhere."""
    x = scope.input(0)
    if not scope.rank(x):
        raise ModelError("a scalar has no diagonal")
    *outer, n = scope.shape(x)
    _check_size((*outer, n, n))
    row = scope.reshaped(x, (*outer, 1, n), "row")
    eye = scope.constant("diagonal", np.eye(n, dtype=np.bool_))
    nothing = scope.constant("nothing", np.zeros((), scope.dtype(x).numpy))
    return scope.node(Where(), [eye, row, nothing])


@operator("MATRIX_SET_DIAG", moves=True)
def matrix_set_diag(scope: Scope) -> str:
    """x[..,m,n], diagonal[.., the smaller of both] -> x with that diagonal."""
    x, diagonal = scope.input(0), scope.input(1)
    *outer, rows, columns = (0, 0, *scope.shape(x))[-max(scope.rank(x), 2) :]
    least = min(rows, columns)
    if scope.rank(x) < 2 or scope.shape(diagonal) != (*outer, least):
        raise ModelError(f"a diagonal {scope.shape(diagonal)} of {scope.shape(x)}")
    if columns > least:
        pads = ((0, 0),) * len(outer) + ((0, columns - least),)
        diagonal = scope.node(Pad(pads), [diagonal], "longer")
    column = scope.reshaped(diagonal, (*outer, 1, columns), "column")
    eye = scope.constant("diagonal", np.eye(rows, columns, dtype=np.bool_))
    return scope.node(Where(), [eye, column, x])


@operator("DYNAMIC_UPDATE_SLICE", moves=True)
def dynamic_update_slice(scope: Scope) -> str:
    """x, update, starts, which are known and clamped: x with a box that is the update."""
    x, update = scope.input(0), scope.input(1)
    shape, size = scope.shape(x), scope.shape(update)
    given = scope.known_integers(2, "its starts")
    if not len(shape) == len(size) == len(given) or any(
        s > n for s, n in zip(size, shape, strict=True)
    ):
        raise ModelError(f"an update {size} at {given} of {shape}")
    starts = [min(max(a, 0), n - s) for a, n, s in zip(given, shape, size, strict=True)]
    pads = tuple((a, n - s - a) for a, n, s in zip(starts, shape, size, strict=True))
    inside = np.zeros(shape, np.bool_)
    inside[tuple(slice(a, a + s) for a, s in zip(starts, size, strict=True))] = True
    placed = scope.node(Pad(pads), [update], "placed")
    return scope.node(Where(), [scope.constant("inside", inside), placed, x])


@operator("BROADCAST_ARGS")
def broadcast_args(scope: Scope) -> str:
    """The common shape of two known ones."""
    shapes = [scope.known_integers(k, "its shapes") for k in (0, 1)]
    try:
        common = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ModelError(f"{shapes[0]} and {shapes[1]} have no common shape") from None
    return scope.constant("shape", np.asarray(common, scope.dtype(scope.input(0)).numpy))
