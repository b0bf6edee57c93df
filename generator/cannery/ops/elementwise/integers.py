"""The arithmetic operators on integers, in C: results wrap around, nothing is undefined."""

from __future__ import annotations

from collections.abc import Callable

from cannery.ir.registry import Elementwise
from cannery.ir.tensor import DType
from cannery.ops.elementwise.activations import Relu
from cannery.ops.elementwise.binary import Add, Div, Max, Min, Mul, Sub
from cannery.ops.elementwise.unary import Abs, Neg, Sign, Square

#: Maps the C expressions of the operands to that of the result.
IntegerForm = Callable[..., str]


def wrapped(dtype: DType, operator: str) -> IntegerForm:
    """`a <operator> b` modulo 2^bits, computed unsigned, where overflow is defined."""
    wide = "uint64_t" if dtype.bytes == 8 else "uint32_t"
    return lambda a, b: f"({dtype.c_name})(({wide}){a} {operator} ({wide}){b})"


def is_signed(dtype: DType) -> bool:
    """Whether an integer type has negative numbers."""
    return dtype.value.startswith("int")


def quotient(dtype: DType) -> IntegerForm:
    """`a / b` rounded towards 0; 0 where b is 0."""
    c = dtype.c_name
    if not is_signed(dtype):
        return lambda a, b: f"({c})({b} == 0 ? 0 : {a} / {b})"
    minus = wrapped(dtype, "-")
    return lambda a, b: f"({c})({b} == 0 ? 0 : {b} == -1 ? {minus('0', a)} : {a} / {b})"


def _absolute(dtype: DType) -> IntegerForm:
    if not is_signed(dtype):
        return lambda a: f"{a}"
    minus = wrapped(dtype, "-")
    return lambda a: f"({dtype.c_name})({a} < 0 ? {minus('0', a)} : {a})"


def _sign(dtype: DType) -> IntegerForm:
    below = " - ({0} < 0)" if is_signed(dtype) else ""
    return lambda a: f"({dtype.c_name})(({a} > 0){below.format(a)})"


def integer_form(op: Elementwise, dtype: DType) -> IntegerForm | None:
    """How an operator is computed on an integer type; None if it has no such form."""
    c = dtype.c_name
    if dtype in (DType.FLOAT32, DType.BOOL):
        return None
    minus = wrapped(dtype, "-")
    forms: dict[type[Elementwise], IntegerForm] = {
        Add: wrapped(dtype, "+"),
        Sub: minus,
        Mul: wrapped(dtype, "*"),
        Div: quotient(dtype),
        Max: lambda a, b: f"({c})({a} > {b} ? {a} : {b})",
        Min: lambda a, b: f"({c})({a} < {b} ? {a} : {b})",
        Abs: _absolute(dtype),
        Neg: lambda a: minus("0", a),
        Sign: _sign(dtype),
        Square: lambda a: wrapped(dtype, "*")(a, a),
        Relu: lambda a: f"({c})({a} > 0 ? {a} : 0)",
    }
    return forms.get(type(op))
