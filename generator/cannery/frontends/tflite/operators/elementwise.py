"""Operators on each element, comparisons and logic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.scope import DTYPES, Scope, operator
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops import elementwise as ops
from cannery.ops.logic import bits, compare, trigonometry
from cannery.ops.movement.op import Cast

_UNARY: Mapping[str, Op] = {
    "ABS": ops.Abs(), "CEIL": ops.Ceil(), "COS": trigonometry.Cos(), "EXP": ops.Exp(),
    "FLOOR": ops.Floor(), "HARD_SWISH": ops.HardSwish(), "LOG": ops.Log(),
    "LOGICAL_NOT": compare.Not(), "LOGISTIC": ops.Sigmoid(), "NEG": ops.Neg(), "RELU": ops.Relu(),
    "ELU": ops.Elu(1.0), "RELU6": ops.Clip(0.0, 6.0), "RELU_N1_TO_1": ops.Clip(-1.0, 1.0),
    "RELU_0_TO_1": ops.Clip(0.0, 1.0), "ROUND": ops.Round(), "SIGN": ops.Sign(),
    "SIN": trigonometry.Sin(), "SQRT": ops.Sqrt(), "SQUARE": ops.Square(), "TANH": ops.Tanh(),
}  # fmt: skip

_BINARY: Mapping[str, Op] = {
    "EQUAL": compare.Equal(), "GREATER": compare.Greater(),
    "GREATER_EQUAL": compare.GreaterOrEqual(), "LESS": compare.Less(),
    "LESS_EQUAL": compare.LessOrEqual(), "LOGICAL_AND": compare.And(), "LOGICAL_OR": compare.Or(),
    "MAXIMUM": ops.Max(), "MINIMUM": ops.Min(), "BITWISE_XOR": bits.BitwiseXor(),
    "ATAN2": trigonometry.Atan2(),
}  # fmt: skip

_ARITHMETIC: Mapping[str, Op] = {
    "ADD": ops.Add(), "DIV": ops.Div(), "MUL": ops.Mul(), "SUB": ops.Sub(),
}  # fmt: skip


@operator(*_UNARY)
def unary(scope: Scope) -> str:
    """One input, no option."""
    return scope.node(_UNARY[scope.kind], [scope.input(0)])


@operator(*_BINARY)
def binary(scope: Scope) -> str:
    """Two inputs that broadcast as in numpy."""
    return scope.node(_BINARY[scope.kind], [scope.input(0), scope.input(1)])


@operator(*_ARITHMETIC)
def arithmetic(scope: Scope) -> str:
    """Two inputs that broadcast as in numpy, then an activation."""
    scope.ignore("PotScaleInt16")
    inputs = [scope.input(0), scope.input(1)]
    return scope.fused(scope.node(_ARITHMETIC[scope.kind], inputs))


@operator("NOT_EQUAL")
def not_equal(scope: Scope) -> str:
    """Not equal."""
    same = scope.node(compare.Equal(), [scope.input(0), scope.input(1)], "same")
    return scope.node(compare.Not(), [same])


@operator("ADD_N")
def add_n(scope: Scope) -> str:
    """The sum of all inputs."""
    return reduce(lambda a, b: scope.node(ops.Add(), [a, b]), scope.inputs()[1:], scope.input(0))


@operator("RSQRT")
def rsqrt(scope: Scope) -> str:
    """1 over the square root."""
    return scope.node(ops.Reciprocal(), [scope.node(ops.Sqrt(), [scope.input(0)], "root")])


@operator("SQUARED_DIFFERENCE")
def squared_difference(scope: Scope) -> str:
    """(a - b)^2."""
    difference = scope.node(ops.Sub(), [scope.input(0), scope.input(1)], "difference")
    return scope.node(ops.Square(), [difference])


@operator("POW")
def power(scope: Scope) -> str:
    """a^b."""
    a, b = scope.input(0), scope.input(1)
    whole = scope.dtype(a) is not DType.FLOAT32
    return scope.node(bits.IntegerPow() if whole else ops.Pow(), [a, b])


@operator("FLOOR_DIV")
def floor_div(scope: Scope) -> str:
    """The floor of the quotient; of integers 0 for a divisor of 0 that is computed."""
    a, b = scope.input(0), scope.input(1)
    if scope.dtype(a) is DType.FLOAT32:
        return scope.node(ops.Floor(), [scope.node(ops.Div(), [a, b], "quotient")])
    divisors = scope.array(b)
    if divisors is not None and not np.all(divisors):
        raise ModelError("it divides by zero")
    return scope.node(bits.FloorDiv(), [a, b])


@operator("FLOOR_MOD")
def floor_mod(scope: Scope) -> str:
    """The remainder with the sign of the divisor."""
    a, b = scope.input(0), scope.input(1)
    return scope.node(bits.Mod(), [a, b])


@operator("RIGHT_SHIFT")
def right_shift(scope: Scope) -> str:
    """The sign remains. An amount below 0 is 0, one beyond the bits is that of the highest."""
    x, amount = scope.input(0), scope.input(1)
    dtype = scope.dtype(x)
    most = scope.constant("most", np.asarray(8 * dtype.bytes - 1, dtype.numpy))
    none = scope.constant("none", np.asarray(0, dtype.numpy))
    least = scope.node(ops.Min(), [amount, most], "at_most")
    inside = scope.node(ops.Max(), [least, none], "amount")
    return scope.node(bits.BitShift(right=True), [x, inside])


@operator("LEAKY_RELU")
def leaky_relu(scope: Scope) -> str:
    """x, or alpha x below 0."""
    return scope.node(ops.LeakyRelu(scope.number("Alpha")), [scope.input(0)])


@operator("PRELU")
def prelu(scope: Scope) -> str:
    """x, or a parameter times x below 0."""
    return scope.node(ops.PRelu(), [scope.input(0), scope.input(1)])


@operator("GELU")
def gelu(scope: Scope) -> str:
    """By the error function, or by a hyperbolic tangent."""
    return scope.node(ops.Gelu(scope.flag("Approximate")), [scope.input(0)])


@operator("SELECT", "SELECT_V2")
def select(scope: Scope) -> str:
    """A condition chooses each element; that of SELECT may choose whole samples."""
    condition, a, b = scope.input(0), scope.input(1), scope.input(2)
    rank = scope.rank(a)
    if scope.kind == "SELECT" and scope.rank(condition) == 1 < rank:
        shape = (*scope.shape(condition), *(1,) * (rank - 1))
        condition = scope.reshaped(condition, shape, "condition")
    return scope.node(compare.Where(), [condition, a, b])


@operator("CAST", moves=True)
def cast(scope: Scope) -> str:
    """To the type of the output; quantised integers as they are."""
    scope.ignore("InDataType", "OutDataType")
    return scope.node(Cast(_target(scope)), [scope.input(0)])


def _target(scope: Scope) -> DType:
    """The element type of the output."""
    to = DTYPES.get(scope.output.dtype)
    if to is None:
        raise UnsupportedError(f"to {scope.output.dtype} is not supported")
    return to


@operator("BITCAST")
def bitcast(scope: Scope) -> str:
    """The same bits as elements of another type."""
    return scope.node(bits.BitCast(_target(scope)), [scope.input(0)])
