"""Greatest elements and their places; running sums and products."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from cannery.errors import ModelError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.values import Value
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.ordering.extremes import ArgMax, ArgMin, Hardmax, TopK


@operator("ArgMax", "ArgMin")
def arg(scope: Scope) -> Value:
    """The index of the greatest or least element along an axis."""
    x = scope.input(0)
    axis = scope.axis(scope.integer("axis", 0), len(x.shape))
    keep, last = bool(scope.integer("keepdims", 1)), bool(scope.integer("select_last_index", 0))
    kind = ArgMax if scope.kind == "ArgMax" else ArgMin
    name, perm = scope.as_is(x)
    y = scope.node(kind(perm.index(axis), keep, last), [name])
    return scope.result(y, perm if keep else tuple(p - (p > axis) for p in perm if p != axis))


@operator("TopK")
def top_k(scope: Scope) -> Sequence[Value]:
    """The greatest or least elements in order, and their indices; their count is known."""
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
    name, perm = scope.as_is(x)
    axis = perm.index(axis)
    values = scope.node(TopK(axis, k, largest), [name])
    indices = scope.node(TopK(axis, k, largest, indices=True), [name], "indices")
    return [scope.result(values, perm), scope.result(indices, perm)]


@operator("CumSum", "CumProd")
def cumulative(scope: Scope) -> Value:
    """Along a known axis."""
    x = scope.input(0)
    given = scope.known_integer(1, "axes")
    if given is None:
        raise ModelError("has no axis")
    axis = scope.axis(given, len(x.shape))
    kind = CumSum if scope.kind == "CumSum" else CumProd
    exclusive, reverse = (bool(scope.integer(name, 0)) for name in ("exclusive", "reverse"))
    name, perm = scope.as_is(x)
    return scope.result(scope.node(kind(perm.index(axis), exclusive, reverse), [name]), perm)


@operator("Hardmax")
def hardmax(scope: Scope) -> Value:
    """Along an axis; until version 12 along all axes from `axis` on, as one."""
    x = scope.input(0)
    rank = len(x.shape)
    if scope.opset >= 13:
        axis = scope.axis(scope.integer("axis", -1), rank)
        name, perm = scope.as_is(x)
        return scope.result(scope.node(Hardmax(perm.index(axis)), [name]), perm)
    first = scope.integer("axis", 1)
    first = rank if first == rank else scope.axis(first, rank)
    flat = scope.reshaped(x, (prod(x.shape[:first]), prod(x.shape[first:])), "flat")
    y = scope.result(scope.node(Hardmax(1), [scope.plain(flat)], "along"))
    return scope.reshaped(y, x.shape)
