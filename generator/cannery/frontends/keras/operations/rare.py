"""Rare operations on each element."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

import numpy as np

from cannery.errors import UnsupportedError
from cannery.frontends.keras.layers import curves
from cannery.frontends.keras.operations.base import Operation, operation
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise import binary, unary
from cannery.ops.logic import bits, compare
from cannery.ops.logic import trigonometry as angles

_LARGEST = float(np.finfo(np.float32).max)


def _floats(o: Operation, *keys: str) -> list[str]:
    return [o.scope.to_float(x) for x in o.both(*keys)]


@operation("Abs", "Fabs")
def size(o: Operation) -> str:
    """The size of numbers; of Fabs a float."""
    x = o.float() if o.class_name == "Fabs" else o.tensor()
    x = o.cast(x, DType.INT32) if o.dtype(x) is DType.BOOL else x
    return o.node(unary.Abs(), [x])


@operation("Arctan2", "Fmod", call="x1 x2")
def of_two(o: Operation) -> str:
    """The angle of a point (x2, x1); a remainder with the sign of x1."""
    if o.class_name == "Arctan2":
        return o.node(angles.Atan2(), _floats(o, "x1", "x2"))
    return o.node(bits.Mod(fmod=True), o.both("x1", "x2"))


@operation("Cbrt")
def cube_root(o: Operation) -> str:
    """The cube root, with the sign of x."""
    x = o.float()
    third = o.literal("third", 1 / 3)
    root = o.node(binary.Pow(), [o.node(unary.Abs(), [x], "size"), third], "root")
    return o.node(binary.Mul(), [o.node(unary.Sign(), [x], "sign"), root])


@operation("Hypot", call="x1 x2")
def hypotenuse(o: Operation) -> str:
    """sqrt(a^2 + b^2)."""
    squares = [
        o.node(unary.Square(), [x], f"square{k}") for k, x in enumerate(_floats(o, "x1", "x2"))
    ]
    return o.node(unary.Sqrt(), [o.node(binary.Add(), squares, "sum")])


@operation("Logaddexp", "Logaddexp2", call="x1 x2")
def log_of_sum(o: Operation) -> str:
    """log(e^a + e^b), or the same with powers of 2: the greater one and softplus(-|a - b|)."""
    pair = _floats(o, "x1", "x2")
    greater = o.node(binary.Max(), pair, "greater")
    apart = o.node(unary.Abs(), [o.node(binary.Sub(), pair, "difference")], "apart")
    two = o.class_name == "Logaddexp2"
    factor = o.literal("factor", -log(2) if two else -1.0)
    rest = o.node(act.Softplus(), [o.node(binary.Mul(), [apart, factor], "exponent")], "rest")
    if two:
        rest = o.node(binary.Mul(), [rest, o.literal("unit", 1 / log(2))], "rest_of_two")
    return o.node(binary.Add(), [greater, rest])


@operation("Fmax", "Fmin", call="x1 x2")
def extreme(o: Operation) -> str:
    """The greater or the lesser of two, or the one that is a number."""
    a, b = _floats(o, "x1", "x2")
    op = binary.Max() if o.class_name == "Fmax" else binary.Min()
    found = o.node(op, [a, b], "extreme")
    first, second = (o.node(compare.IsNaN(), [x], f"nan{k}") for k, x in enumerate((a, b)))
    found = o.node(compare.Where(), [second, a, found], "of_first")
    return o.node(compare.Where(), [first, b, found])


@operation("Heaviside", call="x1 x2")
def heaviside(o: Operation) -> str:
    """0 below 0, 1 above, x2 at 0."""
    x, middle = _floats(o, "x1", "x2")
    zero = o.literal("zero", 0.0)
    above = o.scope.to_float(o.node(compare.Greater(), [x, zero], "above"))
    at = o.node(compare.Equal(), [x, zero], "at")
    return o.node(compare.Where(), [at, middle, above])


@operation("Sinc")
def sinc(o: Operation) -> str:
    """sin(pi x) / (pi x); 1 at 0."""
    x = o.node(binary.Mul(), [o.float(), o.literal("pi", pi)], "angle")
    at = o.node(compare.Equal(), [x, o.literal("zero", 0.0)], "at")
    one = o.literal("one", 1.0)
    safe = o.node(compare.Where(), [at, one, x], "divisor")
    ratio = o.node(binary.Div(), [o.node(angles.Sin(), [safe], "sine"), safe], "ratio")
    return o.node(compare.Where(), [at, one, ratio])


@operation("SparsePlus")
def sparse_plus(o: Operation) -> str:
    """0 up to -1, x from 1 on, (x + 1)^2 / 4 between."""
    return curves.sparse_plus(o.scope, o.float())


@operation("NanToNum")
def nan_to_num(o: Operation) -> str:
    """Numbers in place of NaN and infinities; these are the largest ones unless given."""
    x = o.float()
    high = o.given.number("posinf", _LARGEST)
    low = o.given.number("neginf", -_LARGEST)
    nan = o.literal("nan", o.given.number("nan", 0.0))
    tests = (
        (o.node(compare.IsNaN(), [x], "is_nan"), nan),
        (o.node(compare.Greater(), [x, o.literal("most", _LARGEST)], "is_high"),
         o.literal("posinf", high)),
        (o.node(compare.Less(), [x, o.literal("least", -_LARGEST)], "is_low"),
         o.literal("neginf", low)),
    )  # fmt: skip
    y = x
    for k, (test, number) in enumerate(tests):
        y = o.node(compare.Where(), [test, number, y], f"without{k}" if k < 2 else "")
    return y


@operation("Isposinf", "Isneginf")
def is_infinite(o: Operation) -> str:
    """Whether each element is infinite, with that sign."""
    x = o.float()
    if o.class_name == "Isposinf":
        return o.node(compare.Greater(), [x, o.literal("most", _LARGEST)])
    return o.node(compare.Less(), [x, o.literal("least", -_LARGEST)])


@operation("Isclose", call="x1 x2 rtol atol")
def is_close(o: Operation) -> str:
    """Whether |a - b| <= atol + rtol |b|, or both are equal."""
    a, b = _floats(o, "x1", "x2")
    if o.given.flag("equal_nan"):
        raise UnsupportedError("its argument equal_nan is not supported")
    share = o.literal("rtol", o.given.number("rtol", 1e-5))
    least = o.literal("atol", o.given.number("atol", 1e-8))
    scaled = o.node(binary.Mul(), [o.node(unary.Abs(), [b], "size"), share], "share")
    room = o.node(binary.Add(), [scaled, least], "room")
    apart = o.node(unary.Abs(), [o.node(binary.Sub(), [a, b], "difference")], "apart")
    near = o.node(compare.LessOrEqual(), [apart, room], "near")
    infinite = o.node(compare.IsInf(), [b], "infinite")
    finite = o.node(compare.Not(), [infinite], "finite")
    near = o.node(compare.And(), [near, finite], "near_of_finite")
    return o.node(compare.Or(), [near, o.node(compare.Equal(), [a, b], "equal")])


_BITS: dict[str, Callable[[], Op]] = {
    "BitwiseAnd": bits.BitwiseAnd, "BitwiseOr": bits.BitwiseOr, "BitwiseXor": bits.BitwiseXor,
    "BitwiseLeftShift": bits.BitShift, "LeftShift": bits.BitShift,
    "BitwiseRightShift": lambda: bits.BitShift(right=True),
    "RightShift": lambda: bits.BitShift(right=True),
}  # fmt: skip
_OF_BOOLS: dict[str, Callable[[], Op]] = {
    "BitwiseAnd": compare.And, "BitwiseOr": compare.Or, "BitwiseXor": compare.Xor,
}  # fmt: skip


@operation(*_BITS, call="x y")
def bitwise(o: Operation) -> str:
    """Two integers, bit by bit; bools by logic."""
    pair = o.both("x", "y")
    if o.dtype(pair[0]) is DType.BOOL and o.class_name in _OF_BOOLS:
        return o.node(_OF_BOOLS[o.class_name](), pair)
    return o.node(_BITS[o.class_name](), pair)


@operation("BitwiseNot", "BitwiseInvert")
def bitwise_not(o: Operation) -> str:
    """All bits turned; the opposite of a bool."""
    x = o.tensor()
    return o.node(compare.Not() if o.dtype(x) is DType.BOOL else bits.BitwiseNot(), [x])


@operation("Select", call="condlist choicelist default")
def select(o: Operation) -> str:
    """Of each element, what belongs to the first condition that holds."""
    conditions = [o.cast(x, DType.BOOL, k) for k, x in enumerate(o.tensors("condlist"))]
    given = o.given.raw("choicelist")
    if not isinstance(given, tuple) or len(given) != len(conditions):
        raise UnsupportedError(f"it has {len(conditions)} conditions, but other choices")
    choices = o.tensors("choicelist")
    number = o.given.number("default", 0.0)
    y = o.literal("default", number, o.dtype(choices[0]))
    for k in reversed(range(len(choices))):
        y = o.node(compare.Where(), [conditions[k], choices[k], y], f"choice{k}" if k else "")
    return y
