"""Operations on each element: arithmetic, functions, comparisons, activations."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

import numpy as np

from cannery.errors import UnsupportedError
from cannery.frontends.keras.layers import curves
from cannery.frontends.keras.layers.functions import hard_sigmoid
from cannery.frontends.keras.operations.base import Operation, operation
from cannery.frontends.keras.version import KerasVersion
from cannery.ir.registry import Op
from cannery.ir.tensor import MODEL_DTYPES, DType
from cannery.ops.elementwise import activations as act
from cannery.ops.elementwise import binary, unary
from cannery.ops.logic import bits, compare
from cannery.ops.logic import trigonometry as angles
from cannery.ops.softmax.op import LogSoftmax, Softmax

#: Attributes of operations are those of Keras 3, which alone has them.
_VERSION = KerasVersion("3", 3, 0)

#: One node on floats.
_FUNCTIONS: dict[str, Callable[[], Op]] = {
    "Exp": unary.Exp, "Log": unary.Log, "Sqrt": unary.Sqrt, "Reciprocal": unary.Reciprocal,
    "Erf": unary.Erf, "Floor": unary.Floor, "Ceil": unary.Ceil,
    "Sin": angles.Sin, "Cos": angles.Cos, "Tan": angles.Tan, "Arcsin": angles.Asin,
    "Arccos": angles.Acos, "Arctan": angles.Atan, "Sinh": angles.Sinh, "Cosh": angles.Cosh,
    "Arcsinh": angles.Asinh, "Arccosh": angles.Acosh, "Arctanh": angles.Atanh,
    "Relu6": lambda: act.Clip(0.0, 6.0), "Sigmoid": act.Sigmoid, "Tanh": act.Tanh,
    "Softplus": act.Softplus, "Softsign": act.Softsign, "Silu": act.Silu, "Selu": act.Selu,
    "HardSilu": act.HardSwish, "HardSigmoid": lambda: hard_sigmoid(_VERSION),
    "HardTanh": lambda: act.Clip(-1.0, 1.0), "SparseSigmoid": lambda: act.HardSigmoid(0.5, 0.5),
}  # fmt: skip


@operation(*_FUNCTIONS)
def function(o: Operation) -> str:
    """One float node."""
    return o.node(_FUNCTIONS[o.class_name](), [o.float()])


#: One node on floats and integers.
_ANY: dict[str, Callable[[], Op]] = {
    "Absolute": unary.Abs, "Negative": unary.Neg, "Sign": unary.Sign, "Square": unary.Square,
    "Relu": act.Relu,
}  # fmt: skip


@operation(*_ANY)
def signed(o: Operation) -> str:
    """One node; a bool is an integer."""
    x = o.tensor()
    x = o.cast(x, DType.INT32) if o.dtype(x) is DType.BOOL else x
    return o.node(_ANY[o.class_name](), [x])


@operation("Copy", "StopGradient", "Conjugate", "Real", "ConvertToTensor", call="x")
def same(o: Operation) -> str:
    """The argument itself."""
    return (
        _cast_to(o, o.tensor(), o.given.word("dtype", "")) if o.given.raw("dtype") else o.tensor()
    )


@operation("Cast", "SaturateCast")
def cast(o: Operation) -> str:
    """Another element type; halves are floats here."""
    return _cast_to(o, o.tensor(), o.given.word("dtype", "float32"))


def _cast_to(o: Operation, x: str, name: str) -> str:
    return o.cast(x, _dtype(name))


def _dtype(name: str) -> DType:
    """An element type by name; UnsupportedError if there is none such."""
    name = "float32" if name in ("float16", "bfloat16", "float64") else name
    if name not in [known.value for known in MODEL_DTYPES]:
        raise UnsupportedError(f"dtype {name!r:.40} is not supported")
    return DType(name)


_SCALED: dict[str, float] = {"Deg2rad": pi / 180, "Rad2deg": 180 / pi}


@operation(*_SCALED)
def scaled(o: Operation) -> str:
    """A product with a number."""
    return o.node(binary.Mul(), [o.float(), o.literal("factor", _SCALED[o.class_name])])


_LOGARITHMS: dict[str, float] = {"Log2": 1 / log(2), "Log10": 1 / log(10)}


@operation(*_LOGARITHMS)
def logarithm(o: Operation) -> str:
    """The natural logarithm times a number."""
    y = o.node(unary.Log(), [o.float()], "log")
    return o.node(binary.Mul(), [y, o.literal("factor", _LOGARITHMS[o.class_name])])


@operation("Exp2")
def exp2(o: Operation) -> str:
    """Powers of e: to the power of x times ln 2."""
    return o.node(
        unary.Exp(), [o.node(binary.Mul(), [o.float(), o.literal("factor", log(2))], "times")]
    )


@operation("Rsqrt")
def rsqrt(o: Operation) -> str:
    """1 / sqrt(x)."""
    return o.node(unary.Reciprocal(), [o.node(unary.Sqrt(), [o.float()], "sqrt")])


@operation("Log1p")
def log1p(o: Operation) -> str:
    """log(1 + x)."""
    return o.node(unary.Log(), [o.node(binary.Add(), [o.float(), o.literal("one", 1.0)], "plus")])


@operation("Expm1", "Erfc")
def shifted(o: Operation) -> str:
    """exp(x) - 1, and 1 - erf(x)."""
    x, one = o.float(), o.literal("one", 1.0)
    if o.class_name == "Expm1":
        return o.node(binary.Sub(), [o.node(unary.Exp(), [x], "exp"), one])
    return o.node(binary.Sub(), [one, o.node(unary.Erf(), [x], "erf")])


@operation("LogSigmoid")
def log_sigmoid(o: Operation) -> str:
    """-softplus(-x)."""
    soft = o.node(act.Softplus(), [o.node(unary.Neg(), [o.float()], "negated")], "softplus")
    return o.node(unary.Neg(), [soft])


@operation("TanhShrink", "SoftShrink")
def shrink(o: Operation) -> str:
    """What is left of x without its tangent, or minus its part within the threshold."""
    x = o.float()
    bound = o.given.number("threshold", 0.5)
    op = act.Tanh() if o.class_name == "TanhShrink" else act.Clip(-bound, bound)
    return o.node(binary.Sub(), [x, o.node(op, [x], "taken")])


@operation("Squareplus")
def squareplus(o: Operation) -> str:
    """(x + sqrt(x^2 + b)) / 2."""
    return curves.squareplus(o.scope, o.float(), o.given.number("b", 4.0))


_ATTRIBUTES: dict[str, Callable[[Operation], Op]] = {
    "LeakyRelu": lambda o: act.LeakyRelu(o.given.number("negative_slope", 0.2)),
    "Elu": lambda o: act.Elu(o.given.number("alpha", 1.0)),
    "Celu": lambda o: act.Celu(o.given.number("alpha", 1.0)),
    "Gelu": lambda o: act.Gelu(o.given.flag("approximate", True)),
}


@operation(*_ATTRIBUTES)
def with_attribute(o: Operation) -> str:
    """An activation with an attribute."""
    return o.node(_ATTRIBUTES[o.class_name](o), [o.float()])


@operation("Softmax", "LogSoftmax")
def softmax(o: Operation) -> str:
    """Along one axis."""
    x = o.float()
    op = Softmax if o.class_name == "Softmax" else LogSoftmax
    return o.node(op(o.axis(x)), [x])


@operation("Glu")
def glu(o: Operation) -> str:
    """The first half of an axis times the sigmoid of the second."""
    x = o.float()
    return curves.glu(o.scope, x, o.axis(x))


@operation("Sparsemax")
def sparsemax(o: Operation) -> str:
    """Elements of an axis minus a threshold, or 0."""
    x = o.float()
    return curves.sparsemax(o.scope, x, o.axis(x))


@operation("Round")
def round_(o: Operation) -> str:
    """To the nearest even, of integers themselves; decimals shift the point."""
    x, decimals = o.tensor(), o.given.integer("decimals", 0)
    if o.dtype(x) is not DType.FLOAT32:
        return x
    if not decimals:
        return o.node(unary.Round(), [x])
    factor = o.literal("factor", 10.0**decimals)
    whole = o.node(unary.Round(), [o.node(binary.Mul(), [x, factor], "larger")], "round")
    return o.node(binary.Div(), [whole, factor])


@operation("Trunc")
def trunc(o: Operation) -> str:
    """Towards zero."""
    x = o.float()
    size = o.node(unary.Floor(), [o.node(unary.Abs(), [x], "size")], "whole")
    return o.node(binary.Mul(), [o.node(unary.Sign(), [x], "sign"), size])


@operation("Clip")
def clip(o: Operation) -> str:
    """Between two numbers, or tensors."""
    x = o.tensor()
    low, high = o.given.raw("x_min"), o.given.raw("x_max")
    plain = isinstance(low, int | float) and isinstance(high, int | float)
    if plain and o.dtype(x) is DType.FLOAT32:
        return o.node(act.Clip(o.given.number("x_min", 0.0), o.given.number("x_max", 0.0)), [x])
    raised = o.node(binary.Max(), o.both("x", "x_min"), "raised")
    top = o.both("x_max") if not plain else []
    if top:
        return o.node(binary.Min(), [raised, *top])
    return o.node(binary.Min(), [raised, o.literal("high", high, o.dtype(raised))])


_BINARY: dict[str, Op] = {
    "Add": binary.Add(), "Subtract": binary.Sub(), "Multiply": binary.Mul(),
    "Maximum": binary.Max(), "Minimum": binary.Min(),
}  # fmt: skip


@operation(*_BINARY, call="x1 x2")
def arithmetic(o: Operation) -> str:
    """Two operands that broadcast as in numpy."""
    return o.node(_BINARY[o.class_name], _numbers(o))


def _numbers(o: Operation) -> list[str]:
    """Both operands; UnsupportedError for two bools, which Keras adds in its own way."""
    pair = o.both("x1", "x2")
    if o.dtype(pair[0]) is DType.BOOL:
        raise UnsupportedError("arithmetic on bool is not supported", cure="cast it to float32")
    return pair


@operation("Divide", "TrueDivide", "Power", "FloorDivide", "Mod", call="x1 x2")
def quotient(o: Operation) -> str:
    """Two operands; divisions of integers give floats."""
    pair, name = _numbers(o), o.class_name
    whole = o.dtype(pair[0]) is not DType.FLOAT32
    if whole and name in ("Divide", "TrueDivide"):
        pair = [o.scope.to_float(x) for x in pair]
    elif whole and name == "FloorDivide":
        return o.node(bits.FloorDiv(), pair)
    if name == "FloorDivide":
        return o.node(unary.Floor(), [o.node(binary.Div(), pair, "ratio")])
    if name == "Mod":
        return o.node(bits.Mod(), pair)
    if name == "Power":
        return o.node(bits.IntegerPow() if whole else binary.Pow(), pair)
    return o.node(binary.Div(), pair)


@operation("DivideNoNan", call="x1 x2")
def divide_no_nan(o: Operation) -> str:
    """A ratio; 0 where the divisor is 0."""
    a, b = (o.scope.to_float(x) for x in _numbers(o))
    zero = o.literal("zero", 0.0)
    none = o.node(compare.Equal(), [b, zero], "none")
    return o.node(compare.Where(), [none, zero, o.node(binary.Div(), [a, b], "ratio")])


_COMPARISONS: dict[str, Op] = {
    "Equal": compare.Equal(), "Less": compare.Less(), "LessEqual": compare.LessOrEqual(),
    "Greater": compare.Greater(), "GreaterEqual": compare.GreaterOrEqual(),
}  # fmt: skip


@operation(*_COMPARISONS, "NotEqual", call="x1 x2")
def comparison(o: Operation) -> str:
    """A bool for each pair."""
    pair = o.both("x1", "x2")
    if o.class_name == "NotEqual":
        return o.node(compare.Not(), [o.node(compare.Equal(), pair, "equal")])
    return o.node(_COMPARISONS[o.class_name], pair)


_LOGIC: dict[str, Op] = {
    "LogicalAnd": compare.And(), "LogicalOr": compare.Or(), "LogicalXor": compare.Xor(),
}  # fmt: skip


@operation(*_LOGIC, call="x1 x2")
def logic(o: Operation) -> str:
    """Two bools; numbers are true unless they are 0."""
    return o.node(
        _LOGIC[o.class_name], [o.cast(x, DType.BOOL, k) for k, x in enumerate(o.both("x1", "x2"))]
    )


@operation("LogicalNot")
def logical_not(o: Operation) -> str:
    """The opposite."""
    return o.node(compare.Not(), [o.cast(o.tensor(), DType.BOOL)])


@operation("Isnan", "Isinf", "Isfinite")
def tests(o: Operation) -> str:
    """What kind of number each element is."""
    x = o.float()
    if o.class_name != "Isfinite":
        return o.node(compare.IsNaN() if o.class_name == "Isnan" else compare.IsInf(), [x])
    either = [o.node(compare.IsNaN(), [x], "nan"), o.node(compare.IsInf(), [x], "infinite")]
    return o.node(compare.Not(), [o.node(compare.Or(), either, "either")])


@operation("Where", call="condition x1 x2")
def where(o: Operation) -> str:
    """One of two operands for each element."""
    condition = o.cast(o.tensor("condition"), DType.BOOL)
    if o.given.raw("x1") is None:
        raise UnsupportedError("where with one argument finds a number of places that varies")
    return o.node(compare.Where(), [condition, *o.both("x1", "x2")])


@operation("OnesLike", "ZerosLike", "FullLike", call="x fill_value")
def filled(o: Operation) -> str:
    """A constant of the shape of x."""
    x = o.tensor()
    kind = _dtype(o.given.word("dtype", o.dtype(x).value))
    number = {"OnesLike": 1, "ZerosLike": 0}.get(o.class_name, o.given.raw("fill_value"))
    if not isinstance(number, int | float):
        raise UnsupportedError("its fill_value is not a number")
    return o.literal("value", np.full(o.shape(x), number), kind)
