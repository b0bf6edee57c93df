"""Statistics along axes, also of what is left without NaN, and normalisation by them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from cannery.errors import UnsupportedError
from cannery.frontends.keras.operations.base import Operation, operation
from cannery.ops.concat.op import Concat
from cannery.ops.elementwise import binary, unary
from cannery.ops.indexing.gather import Gather
from cannery.ops.logic import compare
from cannery.ops.movement.op import Transpose
from cannery.ops.ordering.cumulative import CumProd, CumSum
from cannery.ops.ordering.extremes import TopK
from cannery.ops.reduce import op as reduce

#: Reductions without NaN: the operator, and what stands for a NaN.
_WITHOUT_NAN: Mapping[str, tuple[type[reduce.Reduction], float]] = {
    "Nansum": (reduce.ReduceSum, 0.0), "Nanprod": (reduce.ReduceProd, 1.0),
    "Nanmax": (reduce.ReduceMax, -np.inf), "Nanmin": (reduce.ReduceMin, np.inf),
}  # fmt: skip


def _replaced(o: Operation, x: str, number: float) -> tuple[str, str]:
    """`x` with a number in place of NaN, and which elements are NaN."""
    nan = o.node(compare.IsNaN(), [x], "nan")
    return o.node(compare.Where(), [nan, o.literal("instead", number), x], "numbers"), nan


def _count(o: Operation, nan: str, keep: bool) -> str:
    """How many elements are numbers."""
    there = o.scope.to_float(o.node(compare.Not(), [nan], "there"))
    return o.node(reduce.ReduceSum(o.axes(nan), keep), [there], f"count{keep:d}")


@operation(*_WITHOUT_NAN)
def without_nan(o: Operation) -> str:
    """One node; NaN is the extreme of NaN alone."""
    x, (kind, number) = o.float(), _WITHOUT_NAN[o.class_name]
    numbers, nan = _replaced(o, x, number)
    keep = o.given.flag("keepdims")
    if np.isfinite(number):
        return o.node(kind(o.axes(x), keep), [numbers])
    found = o.node(kind(o.axes(x), keep), [numbers], "found")
    count = _count(o, nan, keep)
    none = o.node(binary.Mul(), [count, o.literal("zero", 0.0)], "none")
    # 0 / 0 where there are no numbers.
    return o.node(binary.Add(), [found, o.node(binary.Div(), [none, count], "nothing")])


@operation("Nanmean", "Nanvar", "Nanstd")
def moments_without_nan(o: Operation) -> str:
    """The mean of numbers, their mean square of distances from it, or its root."""
    x = o.float()
    numbers, nan = _replaced(o, x, 0.0)
    axes, keep = o.axes(x), o.given.flag("keepdims")
    if o.class_name == "Nanmean":
        total = o.node(reduce.ReduceSum(axes, keep), [numbers], "total")
        return o.node(binary.Div(), [total, _count(o, nan, keep)])
    total = o.node(reduce.ReduceSum(axes, True), [numbers], "total")
    mean = o.node(binary.Div(), [total, _count(o, nan, True)], "mean")
    apart = o.node(unary.Square(), [o.node(binary.Sub(), [x, mean], "apart")], "squares")
    kept = o.node(compare.Where(), [nan, o.literal("nothing", 0.0), apart], "kept")
    sums = o.node(reduce.ReduceSum(axes, keep), [kept], "sums")
    divisor = _count(o, nan, keep)
    if o.class_name == "Nanvar":
        return o.node(binary.Div(), [sums, divisor])
    return o.node(unary.Sqrt(), [o.node(binary.Div(), [sums, divisor], "variance")])


@operation("Nancumsum", "Nancumprod")
def running_without_nan(o: Operation) -> str:
    """All numbers up to each element."""
    if o.given.raw("axis") is None:
        raise UnsupportedError("it needs an axis", cure="name one")
    o.given.ignore("dtype")
    adds = o.class_name == "Nancumsum"
    numbers, _ = _replaced(o, o.float(), 0.0 if adds else 1.0)
    axis = o.axis(numbers)
    return o.node(CumSum(axis) if adds else CumProd(axis), [numbers])


@operation("Ptp")
def peak_to_peak(o: Operation) -> str:
    """The greatest element minus the least."""
    x, keep = o.tensor(), o.given.flag("keepdims")
    most = o.node(reduce.ReduceMax(o.axes(x), keep), [x], "most")
    return o.node(binary.Sub(), [most, o.node(reduce.ReduceMin(o.axes(x), keep), [x], "least")])


@operation("Median", "Quantile", "Percentile", call="x q")
def quantile(o: Operation) -> str:
    """Places in the order of the elements along axes, between two of them by a method."""
    x = o.float()
    axes, keep = o.axes(x), o.given.flag("keepdims")
    shares = np.asarray(0.5)
    if o.class_name != "Median":
        shares = np.asarray(o.given.array("q", 1), np.float64)
        shares = shares / 100.0 if o.class_name == "Percentile" else shares
    method = o.given.word("method", "linear")
    ranked, size = _ranked(o, x, axes)
    shape = tuple(1 if k in axes else d for k, d in enumerate(o.shape(x)))
    shape = shape if keep else tuple(d for k, d in enumerate(o.shape(x)) if k not in axes)
    found = [
        _at(o, ranked, float(share) * (size - 1), method, f"share{k}")
        for k, share in enumerate(np.atleast_1d(shares))
    ]
    if shares.ndim == 0:
        return o.reshaped(found[0], shape)
    rows = [o.reshaped(y, (1, *shape), f"row{k}") for k, y in enumerate(found)]
    return o.node(Concat(0), rows) if len(rows) > 1 else rows[0]


def _ranked(o: Operation, x: str, axes: tuple[int, ...]) -> tuple[str, int]:
    """The elements along axes as the last axis, from the least on, and how many they are."""
    rest = tuple(k for k in range(o.scope.rank(x)) if k not in axes)
    order = (*rest, *axes)
    if order != tuple(range(len(order))):
        x = o.node(Transpose(order), [x], "axes_last")
    outer, size = o.shape(x)[: len(rest)], prod(o.shape(x)[len(rest) :])
    line = o.reshaped(x, (*outer, size), "line")
    return o.node(TopK(len(outer), size, largest=False), [line], "ranked"), size


def _at(o: Operation, ranked: str, place: float, method: str, label: str) -> str:
    """The element at a place of the last axis, which is kept."""
    below, above = int(np.floor(place)), int(np.ceil(place))
    whole = {"lower": below, "higher": above, "nearest": int(np.rint(place))}
    share = {"linear": place - below, "midpoint": 0.5 if above > below else 0.0}
    axis = o.scope.rank(ranked) - 1

    def element(k: int, side: str) -> str:
        return o.sliced(ranked, {axis: (k, k + 1, 1)}, f"{label}/{side}")

    if method in whole:
        return element(whole[method], "place")
    if method not in share:
        raise UnsupportedError(f"the method {method!r:.20} is not supported")
    first = element(below, "below")
    if not share[method]:
        return first
    apart = o.node(binary.Sub(), [element(above, "above"), first], f"{label}/apart")
    part = o.literal(f"{label}/share", share[method])
    return o.node(
        binary.Add(), [first, o.node(binary.Mul(), [apart, part], f"{label}/part")], label
    )


@operation("Moments")
def moments(o: Operation) -> list[str]:
    """The mean and the mean square of distances from it."""
    x = o.float()
    axes, keep = o.axes(x, "axes"), o.given.flag("keepdims")
    o.given.ignore("synchronized")
    mean = o.node(reduce.ReduceMean(axes, True), [x], "mean_kept")
    apart = o.node(unary.Square(), [o.node(binary.Sub(), [x, mean], "apart")], "squares")
    variance = o.node(reduce.ReduceMean(axes, keep), [apart], "variance")
    return [mean if keep else o.node(reduce.ReduceMean(axes), [x], "mean"), variance]


@operation("BatchNorm", call="x mean variance offset scale")
def batch_norm(o: Operation) -> str:
    """(x - mean) scale / sqrt(variance + epsilon) + offset, along one axis."""
    x = o.float()
    rank, axis = o.scope.rank(x), o.axis(x)

    def along(key: str) -> str:
        value = o.float_table(key)
        shape = tuple(o.shape(value)[0] if k == axis else 1 for k in range(rank))
        return o.reshaped(value, shape, f"{key}/along")

    epsilon = o.literal("epsilon", o.given.number("epsilon", 1e-3))
    total = o.node(binary.Add(), [along("variance"), epsilon], "total")
    y = o.node(binary.Sub(), [x, along("mean")], "centred")
    y = o.node(binary.Div(), [y, o.node(unary.Sqrt(), [total], "deviation")], "scaled")
    if o.given.raw("scale") is not None:
        y = o.node(binary.Mul(), [y, along("scale")], "weighted")
    return o.node(binary.Add(), [y, along("offset")]) if o.given.raw("offset") is not None else y


@operation("RMSNorm", call="x scale")
def rms_norm(o: Operation) -> str:
    """X / sqrt(mean(x^2) + epsilon), times a scale."""
    x = o.float()
    axes = o.axes(x) if o.given.raw("axis") is not None else (o.scope.rank(x) - 1,)
    square = o.node(unary.Square(), [x], "square")
    mean = o.node(reduce.ReduceMean(axes, True), [square], "mean")
    epsilon = o.literal("epsilon", o.given.number("epsilon", 1e-7))
    root = o.node(unary.Sqrt(), [o.node(binary.Add(), [mean, epsilon], "total")], "root")
    if o.given.raw("scale") is None:
        return o.node(binary.Div(), [x, root])
    y = o.node(binary.Div(), [x, root], "normal")
    return o.node(binary.Mul(), [y, o.float_table("scale")])


@operation("Trapezoid", call="y x")
def trapezoid(o: Operation) -> str:
    """The area below a line through evenly spaced points."""
    y = o.float("y")
    if o.given.raw("x") is not None:
        raise UnsupportedError("points that are not evenly spaced are not supported")
    axis = o.axis(y)
    size = o.shape(y)[axis]
    ends = [o.sliced(y, {axis: (k, size - 1 + k, 1)}, f"end{k}") for k in (0, 1)]
    both = o.node(binary.Add(), ends, "both")
    half = o.literal("half", o.given.number("dx", 1.0) / 2)
    return o.node(reduce.ReduceSum((axis,)), [o.node(binary.Mul(), [both, half], "areas")])


@operation("Diagonal", "Trace")
def diagonal(o: Operation) -> str:
    """The diagonal of two axes as the last axis, or its sum."""
    x, offset = o.tensor(), o.given.integer("offset", 0)
    rank = o.scope.rank(x)
    axes = [o.counted(o.given.integer(f"axis{k + 1}", k), rank) for k in (0, 1)]
    rest = [k for k in range(rank) if k not in axes]
    if [*rest, *axes] != list(range(rank)):
        x = o.node(Transpose((*rest, *axes)), [x], "axes_last")
    *outer, rows, columns = o.shape(x)
    places = [k * columns + k + offset for k in range(rows) if 0 <= k + offset < columns]
    line = o.reshaped(x, (*outer, rows * columns), "line")
    at = o.scope.literal("places", np.asarray(places, np.int32))
    if o.class_name == "Diagonal":
        return o.node(Gather(len(outer)), [line, at])
    found = o.node(Gather(len(outer)), [line, at], "diagonal")
    return o.node(reduce.ReduceSum((len(outer),)), [found])
