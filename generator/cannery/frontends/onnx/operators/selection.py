"""Operators that find places: how many is known only at run time, see `rows.py`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.onnx.model import OWN
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.values import Constant, Value, check_size
from cannery.ir.graph import Array
from cannery.ir.registry import Op
from cannery.ops.indexing.gather import Gather
from cannery.ops.indexing.select import FirstRows, NonMaxSuppression, NonZero
from cannery.ops.indexing.unique import FIRST, INVERSE, TIMES, Unique
from cannery.ops.movement.op import Reshape, Slice


def _found(scope: Scope, op: Op, inputs: list[str]) -> str:
    """The rows after the first, which says how many count."""
    check_size(op.infer(*map(scope.type, inputs))[0].shape)
    found = scope.node(op, inputs, "found")
    rows, columns = scope.type(found).shape
    scope.mark_rows(found)
    return scope.node(Slice((1, 0), (rows, columns), (1, 1)), [found])


@operator("NonZero")
def non_zero(scope: Scope) -> Value:
    """The indices of the elements that are not 0, a column for each."""
    x = scope.input(0)
    if isinstance(x, Constant):
        return Constant(np.array(np.nonzero(x.array), np.int64), scope.name)
    if not x.shape:
        raise ModelError("a scalar has no indices")
    return scope.result(_found(scope, NonZero(), [scope.plain(x)]), (1, 0))


@operator("NonMaxSuppression")
def non_max_suppression(scope: Scope) -> Value:
    """Batch, class and place of the boxes that are kept, a row for each."""
    boxes, scores = scope.input(0), scope.input(1)
    most = scope.known_integer(2, "its numbers of boxes") or 0
    overlap = _limit(scope, 3, "its overlaps")
    score = _limit(scope, 4, "its least scores")
    centered = bool(scope.integer("center_point_box", 0))
    op = NonMaxSuppression(max(most, 0), overlap or 0.0, score, centered)
    if isinstance(boxes, Constant) and isinstance(scores, Constant):
        (found,) = op.reference(boxes.array, scores.array)
        return Constant(np.array(found[1 : 1 + int(found[0, 0])]), scope.name)
    if not most > 0:
        return Constant(np.zeros((0, 3), np.int64), scope.name)
    return scope.result(_found(scope, op, [scope.plain(boxes), scope.plain(scores)]))


@operator("FirstRows", domain=OWN)
def first_rows(scope: Scope) -> Value:
    """What a loop collects, and how many of its rows count: made by `control.py`."""
    rows, count = scope.input(0), scope.reshaped(scope.input(1), (1, 1), "count")
    y = scope.node(FirstRows(), [scope.plain(rows), scope.plain(count)])
    scope.mark_rows(y)
    return scope.result(y)


def _limit(scope: Scope, index: int, what: str) -> float | None:
    """A known number, None if it is absent."""
    found = scope.known(index, what)
    if found is None:
        return None
    if found.size != 1 or found.dtype.kind != "f" or np.isnan(found).any():
        raise ModelError(f"{what} are {found.dtype}{found.shape}, expected one number")
    return float(found.reshape(-1)[0])


@operator("Unique")
def unique(scope: Scope) -> Sequence[Value]:
    """Different elements, or slices along an axis: where they are first, which each one is, how
    often each occurs.
    """
    x = scope.input(0)
    if scope.has("axis"):
        axis = scope.axis(scope.integer("axis"), len(x.shape))
    else:
        x, axis = scope.reshaped(x, (prod(x.shape),), "flat"), 0
    op = Unique(axis, bool(scope.integer("sorted", 1)))
    if isinstance(x, Constant):
        return [Constant(array, scope.name) for array in _kinds(op, x.array)]
    source = scope.plain(x)
    check_size(op.infer(scope.type(source))[0].shape)
    found = scope.node(op, [source], "found")
    first = _column(scope, found, FIRST, "first")
    times = _column(scope, found, TIMES, "times")
    for rows in (first, times):
        scope.mark_rows(rows)
    kinds = scope.node(Gather(axis), [source, first])
    inverse = _column(scope, found, INVERSE, "inverse")
    return [scope.result(y) for y in (kinds, first, inverse, times)]


def _column(scope: Scope, found: str, column: int, label: str) -> str:
    """A column of the rows after the first, [n]."""
    rows = scope.type(found).shape[0]
    part = scope.node(Slice((1, column), (rows, column + 1), (1, 1)), [found], f"{label}/column")
    return scope.node(Reshape((rows - 1,)), [part], label)


def _kinds(op: Unique, x: Array) -> tuple[Array, ...]:
    """The four outputs of a known tensor."""
    (found,) = op.reference(x)
    count = int(found[0, 0])
    rows = np.asarray(found[1:], np.int64)
    first, times, inverse = rows[:count, FIRST], rows[:count, TIMES], rows[:, INVERSE]
    return np.take(x, first, op.axis), first, inverse, times
