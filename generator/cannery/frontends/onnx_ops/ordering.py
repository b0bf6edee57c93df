"""Greatest elements and where they are; running sums and products."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from cannery.errors import ModelError
from cannery.frontends.onnx_ops.base import Scope, operator
from cannery.frontends.onnx_ops.values import Value
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.ordering.extremes import ArgMax, ArgMin, Hardmax, TopK


@operator("ArgMax", "ArgMin")
def arg(scope: Scope) -> Value:
    """The index of the greatest or least element along an axis."""
    x = scope.input(0)
    axis = scope.axis(scope.integer("axis", 0), len(x.shape))
    keep, last = bool(scope.integer("keepdims", 1)), bool(scope.integer("select_last_index", 0))
    kind = ArgMax if scope.kind == "ArgMax" else ArgMin
    return scope.result(scope.node(kind(axis, keep, last), [scope.plain(x)]))


@operator("TopK")
def top_k(scope: Scope) -> Sequence[Value]:
    """The greatest or least elements in order, and their indices; their number is known."""
    x = scope.input(0)
    axis = scope.axis(scope.integer("axis", -1), len(x.shape))
    scope.ignore("sorted")
    largest = bool(scope.integer("largest", 1))
    if scope.opset < 10:
        k = scope.integer("k")
    else:
        given = scope.known_integer(1, "counts")
        if given is None:
            raise ModelError("has no count")
        k = given
    name = scope.plain(x)
    values = scope.node(TopK(axis, k, largest), [name])
    indices = scope.node(TopK(axis, k, largest, indices=True), [name], "indices")
    return [scope.result(values), scope.result(indices)]


@operator("CumSum", "CumProd")
def cumulative(scope: Scope) -> Value:
    """Along a known axis."""
    x = scope.input(0)
    given = scope.known_integer(1, "axes")
    if given is None:
        raise ModelError("has no axis")
    axis = scope.axis(given, len(x.shape))
    kind = CumSum if scope.kind == "CumSum" else CumProd
    op = kind(axis, bool(scope.integer("exclusive", 0)), bool(scope.integer("reverse", 0)))
    return scope.result(scope.node(op, [scope.plain(x)]))


@operator("Hardmax")
def hardmax(scope: Scope) -> Value:
    """Along an axis; until version 12 along all axes from `axis` on, as one."""
    x = scope.input(0)
    rank = len(x.shape)
    if scope.opset >= 13:
        axis = scope.axis(scope.integer("axis", -1), rank)
        return scope.result(scope.node(Hardmax(axis), [scope.plain(x)]))
    first = scope.integer("axis", 1)
    first = rank if first == rank else scope.axis(first, rank)
    flat = scope.reshaped(x, (prod(x.shape[:first]), prod(x.shape[first:])), "flat")
    y = scope.result(scope.node(Hardmax(1), [scope.plain(flat)], "along"))
    return scope.reshaped(y, x.shape)
