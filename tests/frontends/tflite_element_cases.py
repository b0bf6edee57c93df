"""Operators of TensorFlow Lite on each element, or on pairs."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.tflite_case import IMAGE, ROWS, Case, normal


def gelu(x: NDArray[Any], approximate: bool) -> NDArray[Any]:
    """By the error function, or by a hyperbolic tangent."""
    if approximate:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def _unary(kind: str, function: Callable[..., Any], options: str = "", **more: Any) -> Case:
    return Case(kind, [ROWS], function, options, **more)


def _binary(
    kind: str, function: Callable[..., Any], options: str = "", dtype: str = "float32",
    least: float | None = None,
) -> Case:  # fmt: skip
    fields = {"FusedActivationFunction": 0} if kind in ("ADD", "SUB", "MUL", "DIV") else {}
    return Case(kind, [ROWS, (3, 1)], function, options, fields, dtype, least)


ELEMENTS: dict[str, Case] = {
    "abs": _unary("ABS", np.abs, "AbsOptions"), "ceil": _unary("CEIL", np.ceil),
    "cos": _unary("COS", np.cos, "CosOptions"), "exp": _unary("EXP", np.exp, "ExpOptions"),
    "floor": _unary("FLOOR", np.floor), "log": _unary("LOG", np.log, least=0.1),
    "hard_swish": _unary(
        "HARD_SWISH", lambda x: x * np.clip(x + 3, 0, 6) / 6, "HardSwishOptions"
    ),
    "logistic": _unary("LOGISTIC", lambda x: 1 / (1 + np.exp(-x))),
    "neg": _unary("NEG", np.negative, "NegOptions"),
    "relu": _unary("RELU", lambda x: np.maximum(x, 0)),
    "elu": _unary("ELU", lambda x: np.where(x < 0, np.expm1(x), x)),
    "relu6": _unary("RELU6", lambda x: np.clip(x, 0, 6)),
    "relu_n1_to_1": _unary("RELU_N1_TO_1", lambda x: np.clip(x, -1, 1)),
    "round": _unary("ROUND", np.rint), "sign": _unary("SIGN", np.sign),
    "sin": _unary("SIN", np.sin), "sqrt": _unary("SQRT", np.sqrt, least=0.0),
    "square": _unary("SQUARE", np.square, "SquareOptions"), "tanh": _unary("TANH", np.tanh),
    "rsqrt": _unary("RSQRT", lambda x: x**-0.5, least=0.1),
    "leaky_relu": _unary(
        "LEAKY_RELU", lambda x: np.where(x < 0, 0.3 * x, x), "LeakyReluOptions",
        fields={"Alpha": 0.3},
    ),
    "gelu": _unary("GELU", lambda x: gelu(x, False), "GeluOptions"),
    "gelu_tanh": _unary(
        "GELU", lambda x: gelu(x, True), "GeluOptions", fields={"Approximate": True}
    ),
    "prelu": Case("PRELU", [IMAGE, normal(1, 1, 4)], lambda x, a: np.where(x < 0, x * a, x)),
    "not": _unary("LOGICAL_NOT", np.logical_not, "LogicalNotOptions", dtype="bool"),
    "add": _binary("ADD", np.add, "AddOptions"), "sub": _binary("SUB", np.subtract, "SubOptions"),
    "mul": _binary("MUL", np.multiply, "MulOptions"),
    "div": _binary("DIV", np.divide, "DivOptions", least=0.5),
    "add_relu6": Case(
        "ADD", [ROWS, normal(6)], lambda a, b: np.clip(a + b, 0, 6), "AddOptions",
        {"FusedActivationFunction": 3},
    ),
    "add_n": Case("ADD_N", [ROWS, ROWS, ROWS], lambda *a: sum(a), "AddNOptions"),
    "maximum": _binary("MAXIMUM", np.maximum, "MaximumMinimumOptions"),
    "minimum": _binary("MINIMUM", np.minimum, "MaximumMinimumOptions"),
    "squared_difference": _binary(
        "SQUARED_DIFFERENCE", lambda a, b: (a - b) ** 2, "SquaredDifferenceOptions"
    ),
    "pow": _binary("POW", np.power, "PowOptions", least=0.3),
    "floor_div": _binary("FLOOR_DIV", lambda a, b: np.floor(a / b), "FloorDivOptions", least=0.3),
    "floor_div_integers": Case(
        "FLOOR_DIV", [(2, 3, 6), np.array([[-3], [2], [7]], np.int32)],
        lambda a, b: a // b, "FloorDivOptions", dtype="int32",
    ),
    "floor_mod": _binary("FLOOR_MOD", np.mod, "FloorModOptions"),
    "equal": _binary("EQUAL", np.equal, "EqualOptions", "int32"),
    "not_equal": _binary("NOT_EQUAL", np.not_equal, "NotEqualOptions", "int32"),
    "less": _binary("LESS", np.less, "LessOptions"),
    "less_equal": _binary("LESS_EQUAL", np.less_equal, "LessEqualOptions", "int32"),
    "greater": _binary("GREATER", np.greater, "GreaterOptions"),
    "greater_equal": _binary("GREATER_EQUAL", np.greater_equal, "GreaterEqualOptions", "int32"),
    "and": _binary("LOGICAL_AND", np.logical_and, "LogicalAndOptions", "bool"),
    "or": _binary("LOGICAL_OR", np.logical_or, "LogicalOrOptions", "bool"),
    "select": Case(
        "SELECT_V2", [(3, 1), normal(1, 6), normal(3, 6)], np.where, "SelectV2Options", dtype="bool"
    ),
    "select_samples": Case(
        "SELECT", [(3,), normal(3, 6), normal(3, 6)],
        lambda c, a, b: np.where(c[:, None], a, b), "SelectOptions", dtype="bool",
    ),
    "cast": Case("CAST", [ROWS], lambda x: x.astype(np.int32), "CastOptions",
                 {"InDataType": 0, "OutDataType": 2}),
    "cast_back": Case("CAST", [ROWS], lambda x: x.astype(np.float32), "CastOptions",
                      {"InDataType": 2, "OutDataType": 0}, "int32"),
}  # fmt: skip
