"""Comparisons, logic, bits, choices, remainders and trigonometry."""

from __future__ import annotations

from cannery.errors import UnsupportedError
from cannery.frontends.onnx.model import HALVES
from cannery.frontends.onnx.operators.arithmetic import element_type
from cannery.frontends.onnx.operators.base import Scope, operator
from cannery.frontends.onnx.operators.elementwise import aligned, apply, combined
from cannery.frontends.onnx.operators.movement import as_type
from cannery.frontends.onnx.operators.values import Value, supported, unsupported_elements
from cannery.ir.registry import Op
from cannery.ir.tensor import MODEL_DTYPES, DType
from cannery.ops.elementwise.binary import Pow
from cannery.ops.logic import bits, compare, trigonometry

_BINARY: dict[str, Op] = {
    "Equal": compare.Equal(), "Less": compare.Less(), "LessOrEqual": compare.LessOrEqual(),
    "Greater": compare.Greater(), "GreaterOrEqual": compare.GreaterOrEqual(),
    "And": compare.And(), "Or": compare.Or(), "Xor": compare.Xor(),
    "BitwiseAnd": bits.BitwiseAnd(), "BitwiseOr": bits.BitwiseOr(), "BitwiseXor": bits.BitwiseXor(),
}  # fmt: skip

_UNARY: dict[str, Op] = {
    "Not": compare.Not(), "IsNaN": compare.IsNaN(), "BitwiseNot": bits.BitwiseNot(),
    "Sin": trigonometry.Sin(), "Cos": trigonometry.Cos(), "Tan": trigonometry.Tan(),
    "Asin": trigonometry.Asin(), "Acos": trigonometry.Acos(), "Atan": trigonometry.Atan(),
    "Sinh": trigonometry.Sinh(), "Cosh": trigonometry.Cosh(), "Asinh": trigonometry.Asinh(),
    "Acosh": trigonometry.Acosh(), "Atanh": trigonometry.Atanh(),
}  # fmt: skip


@operator(*_BINARY)
def binary(scope: Scope) -> Value:
    """Two inputs that broadcast as in numpy."""
    return combined(scope, _BINARY[scope.kind], scope.input(0), scope.input(1))


@operator(*_UNARY)
def unary(scope: Scope) -> Value:
    """One input, no attribute."""
    return apply(scope, _UNARY[scope.kind], scope.input(0))


@operator("IsInf")
def is_inf(scope: Scope) -> Value:
    """Infinity, minus infinity, or either."""
    negative = bool(scope.integer("detect_negative", 1))
    positive = bool(scope.integer("detect_positive", 1))
    return apply(scope, compare.IsInf(negative, positive), scope.input(0))


@operator("BitShift")
def bit_shift(scope: Scope) -> Value:
    """To the left or to the right."""
    right = scope.text("direction", "", ("LEFT", "RIGHT")) == "RIGHT"
    return combined(scope, bits.BitShift(right), scope.input(0), scope.input(1))


@operator("Mod")
def mod(scope: Scope) -> Value:
    """With the sign of the divisor, or as fmod in C."""
    fmod = bool(scope.integer("fmod", 0))
    return combined(scope, bits.Mod(fmod), scope.input(0), scope.input(1))


@operator("Where")
def where(scope: Scope) -> Value:
    """One of two tensors, element by element."""
    names, perm = aligned(scope, [scope.input(k) for k in range(3)])
    return scope.result(scope.node(compare.Where(), names), perm)


@operator("Pow")
def power(scope: Scope) -> Value:
    """The result has the type of the base; integers and floats may be mixed."""
    a, b = scope.input(0), scope.input(1)
    base, exponent = scope.dtype(a), scope.dtype(b)
    if base == exponent == "float32":
        return combined(scope, Pow(), a, b)
    if "float32" not in (base, exponent):
        return combined(scope, bits.IntegerPow(), a, b)
    a = as_type(scope, a, DType.FLOAT32, "base")
    b = as_type(scope, b, DType.FLOAT32, "exponent")
    if base == "float32":
        return combined(scope, Pow(), a, b)
    found = combined(scope, Pow(), a, b, "power")
    known = {d.value: d for d in MODEL_DTYPES}
    if base not in known:
        raise UnsupportedError(f"powers of {base} are not supported")
    return as_type(scope, found, known[base], "")


@operator("BitCast")
def bit_cast(scope: Scope) -> Value:
    """The same bits as another type of the same size."""
    number = scope.integer("to")
    if number in HALVES:
        raise unsupported_elements(HALVES[number])
    target, x = supported(element_type(number).name), scope.input(0)
    own = supported(scope.dtype(x))
    if target.bytes != own.bytes:
        raise UnsupportedError(f"from {own.value} to {target.value} is not supported")
    return apply(scope, bits.BitCast(target), x)
