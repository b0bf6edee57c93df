"""Operators of TensorFlow Lite on each integer, or on pairs of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontends.tflite_integers import Case, Value

_ROWS = (3, 40)


def _two(kind: str, a: Value, b: Value, y: Value, activation: int = 0) -> Case:
    options = f"{kind.capitalize()}Options"
    return Case(kind, [a, b], y, options, {"FusedActivationFunction": activation})


_PAIRS: dict[str, Case] = {}
for _kind in ("ADD", "SUB", "MUL"):
    _name = _kind.lower()
    _PAIRS |= {
        _name: _two(
            _kind, Value(_ROWS), Value(_ROWS, scales=(0.013,), zeros=(-7,)),
            Value(_ROWS, scales=(0.06,), zeros=(5,)),
        ),
        f"{_name}_broadcast": _two(
            _kind, Value(_ROWS, scales=(0.4,), zeros=(-128,)), Value((1, 40), zeros=(127,)),
            Value(_ROWS, scales=(1.0 if _kind == "MUL" else 0.03,), zeros=(-20,)), 3,
        ),
        f"{_name}_int16": _two(
            _kind, Value(_ROWS, "INT16", (0.0002,), (0,)), Value(_ROWS, "INT16", (0.00013,), (0,)),
            Value(_ROWS, "INT16", (0.0004 if _kind != "MUL" else 0.0005,), (0,)),
        ),
        f"{_name}_uint8": _two(
            _kind, Value(_ROWS, "UINT8", (0.02,), (9,)), Value(_ROWS, "UINT8", (0.3,), (200,)),
            Value(_ROWS, "UINT8", (0.4,), (128,)),
        ),
    }  # fmt: skip

_ALL = Value((4, 256), scales=(0.043,), zeros=(4,))


def _function(kind: str, scale: float, zero: int, options: str = "", **fields: Any) -> Case:
    return Case(kind, [_ALL], Value((4, 256), scales=(scale,), zeros=(zero,)), options, fields)


_FUNCTIONS: dict[str, Case] = {
    "logistic": _function("LOGISTIC", 1 / 256, -128), "tanh": _function("TANH", 1 / 128, 0),
    "relu": _function("RELU", 0.06, -9), "relu6": _function("RELU6", 0.02, -9),
    "relu_n1_to_1": _function("RELU_N1_TO_1", 0.02, -9),
    "leaky_relu": _function("LEAKY_RELU", 0.06, -9, "LeakyReluOptions", Alpha=0.2),
    "requantize": _function("QUANTIZE", 0.031, -20, "QuantizeOptions"),
    "exp": _function("EXP", 1.0, -128, "ExpOptions"),
    "hard_swish": _function("HARD_SWISH", 0.03, -20, "HardSwishOptions"),
    "hard_swish_wide": Case(
        "HARD_SWISH", [Value((4, 256), scales=(0.004,), zeros=(-70,))],
        Value((4, 256), scales=(0.003,), zeros=(10,)), "HardSwishOptions",
    ),
    "gelu": _function("GELU", 0.03, -20, "GeluOptions"),
    "softmax": Case(
        "SOFTMAX", [Value((50, 12))], Value((50, 12), scales=(1 / 256,), zeros=(-128,)),
        "SoftmaxOptions", {"Beta": 1.0},
    ),
    "softmax_of_two": Case(
        "SOFTMAX", [Value((50, 2), scales=(0.11,))],
        Value((50, 2), scales=(1 / 256,), zeros=(-128,)), "SoftmaxOptions", {"Beta": 0.7},
    ),
    "softmax_uint8": Case(
        "SOFTMAX", [Value((9, 40), "UINT8")], Value((9, 40), "UINT8", (1 / 256,), (0,)),
        "SoftmaxOptions", {"Beta": 1.0},
    ),
    "softmax_int16": Case(
        "SOFTMAX", [Value((50, 12))], Value((50, 12), "INT16", (1 / 65536,), (-32768,)),
        "SoftmaxOptions", {"Beta": 1.0},
    ),
    "l2_normalization": Case(
        "L2_NORMALIZATION", [Value((50, 12))], Value((50, 12), scales=(1 / 128,), zeros=(0,)),
        "L2NormOptions",
    ),
    "l2_normalization_long": Case(
        "L2_NORMALIZATION", [Value((3, 900), zeros=(-128,))],
        Value((3, 900), scales=(1 / 128,), zeros=(0,)), "L2NormOptions",
    ),
    "l2_normalization_of_one": Case(
        "L2_NORMALIZATION", [Value((256, 1))], Value((256, 1), scales=(1 / 128,), zeros=(0,)),
        "L2NormOptions",
    ),
    "l2_normalization_uint8": Case(
        "L2_NORMALIZATION", [Value((50, 12), "UINT8")],
        Value((50, 12), "UINT8", (1 / 128,), (128,)), "L2NormOptions",
    ),
    "log_softmax": Case(
        "LOG_SOFTMAX", [Value((50, 12))], Value((50, 12), scales=(1 / 16,), zeros=(127,)),
        "LogSoftmaxOptions",
    ),
    "log_softmax_wide": Case(
        "LOG_SOFTMAX", [Value((9, 200), scales=(0.4,))],
        Value((9, 200), scales=(1 / 16,), zeros=(127,)), "LogSoftmaxOptions",
    ),
    "log_softmax_uint8": Case(
        "LOG_SOFTMAX", [Value((20, 3), "UINT8", (0.01,), (7,))],
        Value((20, 3), "UINT8", (1 / 16,), (255,)), "LogSoftmaxOptions",
    ),
    "quantize": Case(
        "QUANTIZE", [Value((9, 40), "FLOAT32")], Value((9, 40), scales=(0.05,), zeros=(-9,)),
        "QuantizeOptions",
    ),
    "quantize_int16": Case(
        "QUANTIZE", [Value((9, 40), "FLOAT32")], Value((9, 40), "INT16", (0.0003,), (0,)),
        "QuantizeOptions",
    ),
    "quantize_wider": Case(
        "QUANTIZE", [Value((9, 40))], Value((9, 40), "INT16", (0.0003,), (0,)), "QuantizeOptions"
    ),
    "quantize_narrower": Case(
        "QUANTIZE", [Value((9, 40), "INT16", (0.0003,), (0,))], Value((9, 40)), "QuantizeOptions"
    ),
    "dequantize": Case(
        "DEQUANTIZE", [Value((9, 40))], Value((9, 40), "FLOAT32"), "DequantizeOptions"
    ),
}  # fmt: skip


def _short(kind: str, x: float, y: float, options: str = "", **fields: Any) -> Case:
    """A function of int16."""
    given, made = Value((9, 300), "INT16", (x,), (0,)), Value((9, 300), "INT16", (y,), (0,))
    return Case(kind, [given], made, options, fields)


_UNIT16 = 1 / 32768
_SHORTS: dict[str, Case] = {
    "logistic_int16": _short("LOGISTIC", 0.0007, _UNIT16),
    "logistic_int16_power": _short("LOGISTIC", 2.0**-12, _UNIT16),
    "logistic_int16_narrow": _short("LOGISTIC", 0.00003, _UNIT16),
    "tanh_int16": _short("TANH", 0.0001, _UNIT16),
    "tanh_int16_power": _short("TANH", 2.0**-12, _UNIT16),
    "tanh_int16_power_twice": _short("TANH", 2.0**-11, _UNIT16),
    "exp_int16": _short("EXP", 0.0001, 0.0009, "ExpOptions"),
    "log_int16": _short("LOG", 0.003, 0.0002),
    "rsqrt_int16": Case(
        "RSQRT", [Value((9, 300), "INT16", (0.003,), (0,), least=0)],
        Value((9, 300), "INT16", (0.0004,), (0,)),
    ),
    "abs_int16": _short("ABS", 0.003, 0.004, "AbsOptions"),
    "relu_int16": _short("RELU", 0.003, 0.002),
    "leaky_relu_int16": _short("LEAKY_RELU", 0.003, 0.0023, "LeakyReluOptions", Alpha=0.3),
    "abs": _function("ABS", 0.05, -100, "AbsOptions"), "log": _function("LOG", 0.02, -20),
    "rsqrt": Case(
        "RSQRT", [Value((4, 64), scales=(0.05,), zeros=(-128,))],
        Value((4, 64), scales=(0.04,), zeros=(-128,)),
    ),
    "softmax_shorts": Case(
        "SOFTMAX", [Value((9, 40), "INT16", (0.0003,), (0,))],
        Value((9, 40), "INT16", (_UNIT16,), (0,)), "SoftmaxOptions", {"Beta": 1.0},
    ),
    "softmax_shorts_narrow": Case(
        "SOFTMAX", [Value((20, 2), "INT16", (0.00005,), (0,))],
        Value((20, 2), "INT16", (_UNIT16,), (0,)), "SoftmaxOptions", {"Beta": 0.7},
    ),
    "softmax_shorts_many": Case(
        "SOFTMAX", [Value((2, 700), "INT16", (0.00001,), (0,))],
        Value((2, 700), "INT16", (_UNIT16,), (0,)), "SoftmaxOptions", {"Beta": 1.0},
    ),
    "dequantize_int16": Case(
        "DEQUANTIZE", [Value((9, 40), "INT16", (0.0003,), (0,))], Value((9, 40), "FLOAT32"),
        "DequantizeOptions",
    ),
    "requantize_int16": Case(
        "QUANTIZE", [Value((9, 40), "INT16", (0.0003,), (0,))],
        Value((9, 40), "INT16", (0.0005,), (0,)), "QuantizeOptions",
    ),
    "mul_int16_many": _two(
        "MUL", Value((50, 400), "INT16", (0.00031,), (0,)),
        Value((50, 400), "INT16", (0.00047,), (0,)), Value((50, 400), "INT16", (0.0044,), (0,)),
    ),
}  # fmt: skip
for _kind in ("ADD", "SUB"):
    for _name, _scales in (("", (2.0**-9, 2.0**-9)), ("_first", (2.0**-11, 2.0**-9))):
        _a, _b = (Value(_ROWS, "INT16", (s,), (0,)) for s in _scales)
        _SHORTS[f"{_kind.lower()}_int16_powers{_name}"] = _two(_kind, _a, _b, _b, 3)
for _kind in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
    for _dtype in ("INT8", "UINT8", "INT16"):
        _zeros = (0, 0) if _dtype == "INT16" else (3, 60)
        _wide = _dtype == "INT16" and "EQUAL" in (_kind, _kind[4:])
        _a = Value((30, 20), _dtype, (0.02 if not _wide else 0.0001,), (_zeros[0],))
        _b = Value((30, 1) if _wide else (1, 20), _dtype, (0.04,), (_zeros[1],))
        _made = Value((30, 20), "BOOL")
        _SHORTS[f"{_kind.lower()}_{_dtype.lower()}"] = Case(_kind, [_a, _b], _made)
_ALPHA = Value(np.arange(-30, 30, dtype=np.int8).reshape(1, 60), "INT8", (0.013,), (4,))
_PAIRS |= {
    "squared_difference": Case(
        "SQUARED_DIFFERENCE",
        [Value(_ROWS), Value(_ROWS, scales=(0.013,), zeros=(-7,))],
        Value(_ROWS, scales=(0.3,), zeros=(-100,)),
    ),
    "prelu": Case("PRELU", [Value((9, 60)), _ALPHA], Value((9, 60), scales=(0.043,), zeros=(-9,))),
    "prelu_uint8": Case(
        "PRELU",
        [
            Value((9, 60), "UINT8", (0.05,), (120,)),
            Value(np.arange(100, 160, dtype=np.uint8).reshape(1, 60), "UINT8", (0.013,), (140,)),
        ],
        Value((9, 60), "UINT8", (0.043,), (99,)),
    ),
}

#: Divisors of both signs, none of which is zero. The scales leave no quotient undefined.
_DIVISORS = np.array([n for n in range(-128, 128) if n != -7], np.int8)[::2].reshape(1, 128)
_PAIRS |= {
    "div": _two(
        "DIV", Value((9, 128)), Value(_DIVISORS, "INT8", (0.05,), (-7,)),
        Value((9, 128), scales=(0.01,), zeros=(20,)), 1,
    ),
    "div_uint8": _two(
        "DIV", Value((40, 30), "UINT8", (0.05,), (120,)),
        Value((40, 30), "UINT8", (0.02,), (0,), least=1), Value((40, 30), "UINT8", (0.03,), (99,)),
    ),
    "div_int16": _two(
        "DIV", Value((40, 300), "INT16", (0.0005,), (0,)),
        Value((40, 300), "INT16", (0.0005,), (0,), least=1),
        Value((40, 300), "INT16", (0.00005,), (0,)),
    ),
}  # fmt: skip

CASES = {**_PAIRS, **_FUNCTIONS, **_SHORTS}
