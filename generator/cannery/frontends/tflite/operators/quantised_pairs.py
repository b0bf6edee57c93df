"""Pairs of integers, as TensorFlow Lite's reference kernels compute them."""

from __future__ import annotations

from collections.abc import Mapping
from math import frexp

import numpy as np

from cannery.errors import UnsupportedError
from cannery.frontends.tflite.quantities import Quantity, output_range, quantity, require_types
from cannery.frontends.tflite.rescaled import centred, in_float64, ratio, rescaled
from cannery.frontends.tflite.scope import Scope, quantised
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add, Max, Min, Mul, Sub
from cannery.ops.fixed_point.arithmetic import make_factor
from cannery.ops.fixed_point.pointwise import FixedProduct, FixedSum
from cannery.ops.fixed_point.quotient import FixedQuotient, most_shift
from cannery.ops.logic import compare
from cannery.ops.movement.op import Cast


@quantised("ADD", "SUB")
def add(scope: Scope) -> str:
    """Both are brought to a common scale first."""
    a, b, y = _both(scope)
    if scope.flag("PotScaleInt16") and y.dtype is DType.INT16 and _all_powers(a, b, y):
        return _add_shifted(scope, a, b, y)
    twice = 2.0 * max(a.scale, b.scale)
    left = 15 if y.dtype is DType.INT16 else 20
    reals = (a.scale / twice, b.scale / twice, twice / ((1 << left) * y.scale))
    if max(reals) > 1.0:
        raise UnsupportedError("the scale of its result is too small for its inputs")
    first, second, last = map(make_factor, reals)
    op = FixedSum(*y.bounds, (a.zero, b.zero), (first, second, last), left, scope.kind == "SUB")
    return scope.node(op, [scope.input(0), scope.input(1)])


def _all_powers(*quantities: Quantity) -> bool:
    return all(frexp(each.scale)[0] == 0.5 and not each.zero for each in quantities)


def _add_shifted(scope: Scope, a: Quantity, b: Quantity, y: Quantity) -> str:
    """All scales are powers of two: the finer of both is rounded to the scale of the result."""
    if max(a.scale, b.scale) != y.scale:
        what = "the larger scale of its inputs is not that of its result"
        raise UnsupportedError(f"on int16 with powers of two as scales, {what}")
    sides = []
    for index, each in enumerate((a, b)):
        value = centred(scope, index)
        if each.scale != y.scale:
            whole = Quantity(DType.INT16, y.scale, 0, -(2**15), 2**15 - 1)
            narrow = in_float64(scope, value, each.scale / y.scale, whole, f"rounded{index}")
            value = scope.node(Cast(DType.INT32), [narrow], f"wide{index}")
        sides.append(value)
    op = Sub() if scope.kind == "SUB" else Add()
    return rescaled(scope, scope.node(op, sides, "sum"), 1.0, y)


@quantised("MUL")
def mul(scope: Scope) -> str:
    """The product is exact."""
    a, b, y = _both(scope)
    factor = make_factor(ratio(a.scale, b.scale, over=y.scale))
    op = FixedProduct(*y.bounds, (a.zero, b.zero), factor)
    return scope.node(op, [scope.input(0), scope.input(1)])


@quantised("DIV")
def div(scope: Scope) -> str:
    """By a reciprocal in fixed point; what LiteRT leaves undefined is as `FixedQuotient` says."""
    a, b, y = _both(scope)
    factor = make_factor(ratio(a.scale, over=ratio(b.scale, y.scale, over=1.0)))
    if factor.shift > most_shift(y.dtype):
        raise UnsupportedError("the scale of its result is too small for its inputs")
    op = FixedQuotient(*y.bounds, (a.zero, b.zero), factor)
    return scope.node(op, [scope.input(0), scope.input(1)])


def _both(scope: Scope, *, activation: bool = True) -> tuple[Quantity, Quantity, Quantity]:
    a, b = quantity(scope, 0), quantity(scope, 1)
    y = output_range(scope, activation=activation)
    if a is None or b is None:
        raise UnsupportedError("its inputs and its output have different types")
    require_types(scope, a, b, y)
    return a, b, y


@quantised("SQUARED_DIFFERENCE")
def squared_difference(scope: Scope) -> str:
    """Both are brought to a common scale first; of int8."""
    a, b, y = _both(scope, activation=False)
    if y.dtype is not DType.INT8:
        raise UnsupportedError(f"on {y.dtype.value} it is not supported")
    twice, left = 2.0 * max(a.scale, b.scale), 7
    last = twice * twice / ((1 << 2 * left) * y.scale)
    if last >= 1.0:
        raise UnsupportedError("the scale of its result is too small for its inputs")
    sides = [_raised(scope, k, left, each.scale / twice) for k, each in enumerate((a, b))]
    difference = scope.node(Sub(), sides, "difference")
    return rescaled(scope, scope.node(Mul(), [difference] * 2, "square"), last, y)


def _raised(scope: Scope, index: int, left: int, factor: float) -> str:
    """An input less its zero point, times 2^left and a factor, as int32."""
    by = scope.constant(f"raise{index}", np.asarray(1 << left, np.int32))
    value = scope.node(Mul(), [centred(scope, index), by], f"raised{index}")
    whole = Quantity(DType.INT32, 1.0, 0, -(2**31), 2**31 - 1)
    return rescaled(scope, value, factor, whole, f"common{index}")


_COMPARISONS: Mapping[str, Op] = {
    "EQUAL": compare.Equal(), "NOT_EQUAL": compare.Equal(), "LESS": compare.Less(),
    "LESS_EQUAL": compare.LessOrEqual(), "GREATER": compare.Greater(),
    "GREATER_EQUAL": compare.GreaterOrEqual(),
}  # fmt: skip


@quantised(*_COMPARISONS)
def comparison(scope: Scope) -> str:
    """Of real numbers in fixed point; the orders of int16 compare the integers themselves."""
    a, b = quantity(scope, 0), quantity(scope, 1)
    if a is None or b is None:
        raise UnsupportedError("it compares integers with floats")
    require_types(scope, a, b)
    kind, op = scope.kind, _COMPARISONS[scope.kind]
    if a.dtype is DType.INT16 and "EQUAL" not in (kind, kind.removeprefix("NOT_")):
        return scope.node(op, [scope.input(0), scope.input(1)])
    found = scope.node(op, [_raised(scope, k, 8, each.scale) for k, each in enumerate((a, b))])
    return scope.node(compare.Not(), [found], "not") if kind == "NOT_EQUAL" else found


@quantised("PRELU")
def prelu(scope: Scope) -> str:
    """Rescaled, or below zero rescaled products; of bytes."""
    x, alpha, y = _both(scope, activation=False)
    if y.dtype is DType.INT16:
        raise UnsupportedError("on int16 it is not supported")
    factor = make_factor(ratio(x.scale, alpha.scale, over=y.scale))
    product = FixedProduct(*y.bounds, (x.zero, alpha.zero), factor)
    below = scope.node(product, [scope.input(0), scope.input(1)], "below")
    wide = centred(scope, 0)
    above = rescaled(scope, wide, ratio(x.scale, over=y.scale), y, "above")
    nothing = scope.constant("nothing", np.asarray(0, np.int32))
    negative = scope.node(compare.Less(), [wide, nothing], "negative")
    return scope.node(compare.Where(), [negative, below, above])


@quantised("MAXIMUM", "MINIMUM")
def extremum(scope: Scope) -> str:
    """Of integers that mean the same."""
    both = [scope.tensor(k) for k in range(2)] + [scope.output]
    first = both[0].scales
    if not all(t.dtype == both[0].dtype and first and first.same(t.scales) for t in both):
        raise UnsupportedError("its inputs and its output have different scales")
    op = Max() if scope.kind == "MAXIMUM" else Min()
    return scope.node(op, [scope.input(0), scope.input(1)])
