"""Activation functions of several nodes, which are functions of keras.ops as well."""

from __future__ import annotations

import numpy as np

from cannery.errors import UnsupportedError
from cannery.frontends.keras.layers.base import Scope
from cannery.ops.elementwise.activations import Clip, Relu, Sigmoid, ThresholdedRelu
from cannery.ops.elementwise.binary import Add, Div, Mul, Sub
from cannery.ops.elementwise.unary import Neg, Sqrt, Square
from cannery.ops.logic.compare import Greater, Where
from cannery.ops.movement.op import Slice
from cannery.ops.ordering.cumulative import CumSum
from cannery.ops.ordering.extremes import TopK
from cannery.ops.reduce.op import ReduceSum


def squareplus(scope: Scope, x: str, b: float = 4.0) -> str:
    """(x + sqrt(x^2 + b)) / 2."""
    total = scope.node(
        Add(), [scope.node(Square(), [x], "square"), _number(scope, "b", b)], "total"
    )
    both = scope.node(Add(), [x, scope.node(Sqrt(), [total], "root")], "both")
    return scope.node(Mul(), [both, _number(scope, "half", 0.5)])


def hard_shrink(scope: Scope, x: str, bound: float = 0.5) -> str:
    """The input where its absolute value is above the bound, else 0."""
    upper = scope.node(ThresholdedRelu(bound), [x], "upper")
    negated = scope.node(Neg(), [x], "negated")
    lower = scope.node(ThresholdedRelu(bound), [negated], "lower")
    return scope.node(Sub(), [upper, lower])


def sparse_plus(scope: Scope, x: str) -> str:
    """0 up to -1, x from 1 on, (x + 1)^2 / 4 between."""
    inside = scope.node(Clip(-1.0, 1.0), [x], "inside")
    more = scope.node(Add(), [inside, _number(scope, "one", 1.0)], "more")
    square = scope.node(Square(), [more], "square")
    curve = scope.node(Mul(), [square, _number(scope, "quarter", 0.25)], "curve")
    beyond = scope.node(Greater(), [x, _number(scope, "end", 1.0)], "beyond")
    return scope.node(Where(), [beyond, x, curve])


def glu(scope: Scope, x: str, axis: int) -> str:
    """The first half of an axis times the sigmoid of the second; UnsupportedError if it is odd."""
    shape = scope.shape(x)
    half, odd = divmod(shape[axis], 2)
    if odd:
        raise UnsupportedError(f"an axis of {shape[axis]} elements has no halves")
    halves = []
    for label, start in (("first", 0), ("second", half)):
        begin = tuple(start if k == axis else 0 for k in range(len(shape)))
        end = tuple(start + half if k == axis else d for k, d in enumerate(shape))
        halves.append(scope.node(Slice(begin, end, (1,) * len(shape)), [x], label))
    return scope.node(Mul(), [halves[0], scope.node(Sigmoid(), [halves[1]], "gate")])


def sparsemax(scope: Scope, x: str, axis: int) -> str:
    """max(x - t, 0), where t = (sum of c_k over the support - 1) / size of the support.

    c_k is the sum of the k largest elements, and the support those k whose element z_k is above
    (c_k - 1) / k. So all backends of Keras compute it; A. Martins, R. Astudillo, "From softmax to
    sparsemax", 2016, have the last c_k alone in place of the sum, which differs where the support
    has several elements.
    """
    rank, size = scope.rank(x), scope.shape(x)[axis]
    one = _number(scope, "one", 1.0)
    counting = np.arange(1, size + 1, dtype=np.float32)
    places = scope.literal("k", counting.reshape([size if k == axis else 1 for k in range(rank)]))
    ranked = scope.node(TopK(axis, size), [x], "ranked")
    sums = scope.node(CumSum(axis), [ranked], "sums")
    less = scope.node(Sub(), [sums, one], "less")
    bounds = scope.node(Div(), [less, places], "bounds")
    inside = scope.node(Greater(), [ranked, bounds], "support")
    kept = scope.node(Where(), [inside, sums, _number(scope, "nothing", 0.0)], "kept")
    total = scope.node(ReduceSum((axis,), True), [kept], "total")
    count = scope.node(ReduceSum((axis,), True), [scope.to_float(inside)], "count")
    above = scope.node(Sub(), [total, one], "above")
    bound = scope.node(Div(), [above, count], "threshold")
    return scope.node(Relu(), [scope.node(Sub(), [x, bound], "over")])


def _number(scope: Scope, label: str, value: float) -> str:
    return scope.literal(label, np.asarray(value, np.float32))
