"""Reductions, global pools, softmax."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.elementwise import apply
from cannery.frontends.onnx.operators.values import Computed, Constant, Value, filled
from cannery.ops.elementwise.unary import Log
from cannery.ops.reduce import op as reduce
from cannery.ops.softmax.op import LogSoftmax, Softmax

_REDUCTIONS: dict[str, type[reduce.Reduction]] = {
    "ReduceMax": reduce.ReduceMax, "ReduceMin": reduce.ReduceMin, "ReduceMean": reduce.ReduceMean,
    "ReduceSum": reduce.ReduceSum, "ReduceProd": reduce.ReduceProd, "ReduceL1": reduce.ReduceL1,
    "ReduceL2": reduce.ReduceL2, "ReduceSumSquare": reduce.ReduceSumSquare,
    "ReduceLogSumExp": reduce.ReduceLogSumExp, "ReduceLogSum": reduce.ReduceSum,
}  # fmt: skip


def _axes(scope: Scope) -> tuple[int, ...] | None:
    """Axes: an input since version 18 (ReduceSum: 13), an attribute before."""
    if scope.opset >= (13 if scope.kind == "ReduceSum" else 18):
        return scope.known_integers(1, "axes")
    return scope.integers("axes") if scope.has("axes") else None


def reduced(
    scope: Scope,
    kind: type[reduce.Reduction],
    x: Value,
    axes: Sequence[int],
    keep: bool,
    label: str = "",
) -> Value:
    """A tensor without some axes, or with them as ones."""
    if any(x.shape[a] == 0 for a in axes):
        return _of_nothing(scope, kind, x, axes, keep)
    name, perm = scope.as_is(x)
    lying = tuple(sorted(perm.index(a) for a in axes))
    y = scope.node(kind(lying, keep), [name], label)
    if keep:
        return scope.result(y, perm)
    kept = [a for a in range(len(perm)) if a not in axes]
    return scope.result(y, tuple(kept.index(p) for p in perm if p in kept))


def _of_nothing(
    scope: Scope, kind: type[reduce.Reduction], x: Value, axes: Sequence[int], keep: bool
) -> Constant:
    """A reduction over no elements: the neutral element."""
    if kind is reduce.ReduceMean:
        raise UnsupportedError("the mean of no elements is not supported")
    dtype = np.dtype(scope.dtype(x))
    least, most = (-np.inf, np.inf) if dtype.kind == "f" else (False, True)
    if dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    shape = [1 if a in axes else d for a, d in enumerate(x.shape) if keep or a not in axes]
    value = {
        reduce.ReduceMax: least, reduce.ReduceLogSumExp: least, reduce.ReduceMin: most,
        reduce.ReduceProd: 1,
    }.get(kind, 0)  # fmt: skip
    return filled(shape, value, dtype, f"{scope.name}/nothing")


@operator(*_REDUCTIONS)
def reduction(scope: Scope) -> Value:
    """Over the given axes, or over all."""
    x = scope.input(0)
    given = _axes(scope)
    keep = bool(scope.integer("keepdims", 1))
    nothing = bool(scope.integer("noop_with_empty_axes", 0))
    if not given and nothing:
        return _without_axes(scope, x)
    rank = len(x.shape)
    axes = scope.axes(given, rank) if given else tuple(range(rank))
    if scope.kind != "ReduceLogSum":
        return reduced(scope, _REDUCTIONS[scope.kind], x, axes, keep)
    return apply(scope, Log(), reduced(scope, reduce.ReduceSum, x, axes, keep, "sum"))


def _without_axes(scope: Scope, x: Value) -> Value:
    if scope.kind in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceSum", "ReduceProd"):
        return x
    raise UnsupportedError("a reduction over no axis is not supported")


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(scope: Scope) -> Value:
    """Over all spatial axes, which stay as ones."""
    x = scope.input(0)
    if len(x.shape) < 3:
        raise ModelError(f"its input has shape {x.shape}, expected batch, channels and space")
    kind = reduce.ReduceMean if scope.kind == "GlobalAveragePool" else reduce.ReduceMax
    return reduced(scope, kind, x, range(2, len(x.shape)), True)


@operator("Softmax", "LogSoftmax")
def softmax(scope: Scope) -> Value:
    """Along one axis; until version 12 along all axes from `axis` on, as one."""
    x = scope.input(0)
    rank = len(x.shape)
    kind = Softmax if scope.kind == "Softmax" else LogSoftmax
    axis = scope.integer("axis", -1 if scope.opset >= 13 else 1)
    if scope.opset >= 13:
        return _along(scope, kind, x, scope.axis(axis, rank))
    first = rank if axis == rank else scope.axis(axis, rank)
    wide = [a for a in range(first, rank) if x.shape[a] != 1]
    if len(wide) == 1:
        return _along(scope, kind, x, wide[0])
    flat = (prod(x.shape[:first]), prod(x.shape[first:]))
    y = _along(scope, kind, scope.reshaped(x, flat, "flat"), 1, "along")
    return scope.reshaped(y, x.shape)


def _along(
    scope: Scope, kind: type[Softmax | LogSoftmax], x: Value, axis: int, label: str = ""
) -> Computed:
    name, perm = scope.as_is(x)
    return scope.result(scope.node(kind(perm.index(axis)), [name], label), perm)
