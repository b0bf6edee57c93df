"""Convolutions and matrix products of TensorFlow Lite on integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import tflite

from frontends.tflite_integers import IMAGE, WINDOW, Case, Value, product, random_of, weights

_X, _UX = Value(IMAGE), Value(IMAGE, "UINT8", (0.05,), (120,))
_Y = Value((2, 7, 6, 5), scales=(0.9,), zeros=(-11,))
_CONV, _DEPTHWISE = "Conv2DOptions", "DepthwiseConv2DOptions"
_FIVE, _EIGHT = (5, 3, 3, 8), (1, 3, 3, 8)

_PRODUCTS: dict[str, Case] = {
    "conv": product("CONV_2D", _X, weights(_FIVE, 0, True), _Y, 5, _CONV, **WINDOW),
    "conv_one_scale": product("CONV_2D", _X, weights(_FIVE, 0, False), _Y, 5, _CONV, **WINDOW),
    "conv_relu6": product(
        "CONV_2D", _X, weights(_FIVE, 0, True), Value((2, 4, 3, 5), scales=(0.04,), zeros=(-20,)),
        5, _CONV, **{**WINDOW, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": 3},
    ),
    "conv_point": product(
        "CONV_2D", _X, weights((6, 1, 1, 8), 0, True), Value((2, 7, 6, 6), scales=(0.4,)), 6,
        _CONV, **{**WINDOW, "Padding": 1, "FusedActivationFunction": 1},
    ),
    "conv_dilated": product(
        "CONV_2D", _X, weights(_FIVE, 0, True), Value((2, 3, 2, 5), scales=(0.7,)), 5, _CONV,
        **{**WINDOW, "Padding": 1, "DilationHFactor": 2, "DilationWFactor": 2},
    ),
    "conv_uint8": product(
        "CONV_2D", _UX, weights(_FIVE, 0, False, "UINT8"),
        Value((2, 7, 6, 5), "UINT8", (0.9,), (128,)), 5, _CONV, **WINDOW,
    ),
    "conv_small_scale": product(
        "CONV_2D", _X, weights(_FIVE, 0, True), Value((2, 7, 6, 5), scales=(0.0003,)), 5, _CONV,
        **WINDOW,
    ),
    "depthwise": product(
        "DEPTHWISE_CONV_2D", _X, weights(_EIGHT, 3, True), Value(IMAGE, scales=(0.3,)), 8,
        _DEPTHWISE, **WINDOW, DepthMultiplier=1,
    ),
    "depthwise_strides": product(
        "DEPTHWISE_CONV_2D", _X, weights(_EIGHT, 3, False),
        Value((2, 4, 3, 8), scales=(0.1,), zeros=(-128,)), 8, _DEPTHWISE,
        **{**WINDOW, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": 1}, DepthMultiplier=1,
    ),
    "depthwise_multiplier": product(
        "DEPTHWISE_CONV_2D", Value((1, 5, 5, 2)), weights((1, 3, 3, 6), 3, True),
        Value((1, 5, 5, 6), scales=(0.3,)), 6, _DEPTHWISE, **WINDOW, DepthMultiplier=3,
    ),
    "depthwise_of_one": product(
        "DEPTHWISE_CONV_2D", Value((1, 9, 5, 1)), weights((1, 4, 3, 8), 3, True),
        Value((1, 9, 5, 8), scales=(0.3,)), 8, _DEPTHWISE, **WINDOW, DepthMultiplier=8,
    ),
    "depthwise_uint8": product(
        "DEPTHWISE_CONV_2D", _UX, weights(_EIGHT, 3, False, "UINT8"),
        Value(IMAGE, "UINT8", (0.3,), (90,)), 8, _DEPTHWISE, **WINDOW, DepthMultiplier=1,
    ),
    "conv_many": product(
        "CONV_2D", Value((1, 16, 16, 24), scales=(0.13,)), weights((32, 1, 1, 24), 0, True),
        Value((1, 16, 16, 32), scales=(0.31,), zeros=(-5,)), 32, _CONV, **WINDOW,
    ),
    "depthwise_many": product(
        "DEPTHWISE_CONV_2D", Value((1, 16, 16, 32), scales=(0.13,)),
        weights((1, 3, 3, 32), 3, True),
        Value((1, 16, 16, 32), scales=(0.31,), zeros=(-5,)), 32, _DEPTHWISE, **WINDOW,
        DepthMultiplier=1,
    ),
    "dense_many": product(
        "FULLY_CONNECTED", Value((256, 24), scales=(0.13,)), weights((32, 24), 0, False),
        Value((256, 32), scales=(0.31,), zeros=(-5,)), 32, "FullyConnectedOptions",
    ),
    "dense_many_channels": product(
        "FULLY_CONNECTED", Value((256, 24), scales=(0.13,)), weights((32, 24), 0, True),
        Value((256, 32), scales=(0.31,), zeros=(-5,)), 32, "FullyConnectedOptions",
    ),
    "dense": product(
        "FULLY_CONNECTED", Value((3, 40)), weights((9, 40), 0, False),
        Value((3, 9), scales=(0.4,)), 9, "FullyConnectedOptions",
    ),
    "dense_channels": product(
        "FULLY_CONNECTED", Value((3, 40)), weights((9, 40), 0, True),
        Value((3, 9), scales=(0.4,)), 9, "FullyConnectedOptions",
    ),
    "dense_relu": product(
        "FULLY_CONNECTED", Value((1, 2, 4, 5)), weights((9, 40), 0, False),
        Value((1, 9), scales=(0.2,), zeros=(-128,)), 9, "FullyConnectedOptions",
        FusedActivationFunction=1,
    ),
    "dense_uint8": product(
        "FULLY_CONNECTED", Value((3, 40), "UINT8", (0.05,), (7,)),
        weights((9, 40), 0, False, "UINT8"), Value((3, 9), "UINT8", (0.4,), (100,)), 9,
        "FullyConnectedOptions",
    ),
}  # fmt: skip


def _hybrid(kind: str, x: tuple[int, ...], w: Value, y: tuple[int, ...], **fields: Any) -> Case:
    """Floats times integer weights, and a bias of floats."""
    bias = random_of(x, y).standard_normal(y[-1]).astype(np.float32)
    names = {"CONV_2D": _CONV, "DEPTHWISE_CONV_2D": _DEPTHWISE}
    given = [Value(x, "FLOAT32"), w, Value(bias, "FLOAT32")]
    options = names.get(kind, "FullyConnectedOptions")
    return Case(kind, given, Value(y, "FLOAT32"), options, fields)


_HYBRIDS: dict[str, Case] = {
    "hybrid_transposed": Case(
        "TRANSPOSE_CONV",
        [
            Value(np.array([2, 15, 13, 5], np.int32), "INT32", (), ()), weights(_FIVE, 0, True),
            Value(IMAGE, "FLOAT32"), Value(np.linspace(-1, 1, 5).astype(np.float32), "FLOAT32"),
        ],
        Value((2, 15, 13, 5), "FLOAT32"), "TransposeConvOptions",
        {"Padding": 1, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": 1},
    ),
    "hybrid_dense": _hybrid("FULLY_CONNECTED", (6, 40), weights((9, 40), 0, False), (6, 9)),
    "hybrid_dense_asymmetric": _hybrid(
        "FULLY_CONNECTED", (6, 40), weights((9, 40), 0, True), (6, 9),
        AsymmetricQuantizeInputs=True, FusedActivationFunction=1,
    ),
    "hybrid_dense_rows": _hybrid(
        "FULLY_CONNECTED", (2, 3, 40), weights((9, 40), 0, False), (2, 3, 9), KeepNumDims=True,
    ),
    "hybrid_conv": _hybrid("CONV_2D", IMAGE, weights(_FIVE, 0, True), (2, 7, 6, 5), **WINDOW),
    "hybrid_conv_one_scale": _hybrid(
        "CONV_2D", IMAGE, weights(_FIVE, 0, False), (2, 7, 6, 5), **WINDOW
    ),
    "hybrid_depthwise": _hybrid(
        "DEPTHWISE_CONV_2D", IMAGE, weights(_EIGHT, 3, True), IMAGE, **WINDOW,
        DepthMultiplier=1,
    ),
}  # fmt: skip


def _wide(
    kind: str, x: Value, w: Value, y: Value, channels: int, options: str, bias: int, **fields: Any
) -> Case:
    """On int16, with a bias of int64 or int32, or none."""
    scales = tuple(float(np.float32(x.scales[0]) * np.float32(s)) for s in w.scales)
    large = 10**6 if x.dtype == "INT16" else 3000
    array = random_of(kind, channels, bias).integers(-large, large, channels)
    given = [x, w]
    if bias:
        stored = array.astype(f"int{bias}")
        given.append(Value(stored, f"INT{bias}", scales, (0,) * len(scales)))
    if bias == 32 and x.dtype == "INT16":
        fields["QuantizedBiasType"] = tflite.TensorType.INT32
    return Case(kind, given, y, options, fields)


def _int16(shape: tuple[int, ...], scale: float) -> Value:
    return Value(shape, "INT16", (scale,), (0,))


_X16 = _int16(IMAGE, 0.0003)
_DENSE = "FullyConnectedOptions"
_WIDE: dict[str, Case] = {}
for _bits in (32, 64):
    _WIDE |= {
        f"conv_int16_bias{_bits}": _wide(
            "CONV_2D", _X16, weights(_FIVE, 0, True), _int16((2, 7, 6, 5), 0.0009), 5, _CONV,
            _bits, **WINDOW,
        ),
        f"conv_int16_relu6_bias{_bits}": _wide(
            "CONV_2D", _X16, weights(_FIVE, 0, False), _int16((2, 4, 3, 5), 0.0003), 5, _CONV,
            _bits, **{**WINDOW, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": 3},
        ),
        f"conv_int16_many_bias{_bits}": _wide(
            "CONV_2D", _int16((1, 3, 2, 900), 0.0003), weights((4, 1, 1, 900), 0, True),
            _int16((1, 3, 2, 4), 0.004), 4, _CONV, _bits, **WINDOW,
        ),
        f"dense_int16_bias{_bits}": _wide(
            "FULLY_CONNECTED", _int16((30, 40), 0.0003), weights((9, 40), 0, False),
            _int16((30, 9), 0.001), 9, _DENSE, _bits,
        ),
        f"dense_int16_channels_bias{_bits}": _wide(
            "FULLY_CONNECTED", _int16((3, 900), 0.0003), weights((9, 900), 0, True),
            _int16((3, 9), 0.02), 9, _DENSE, _bits, FusedActivationFunction=1,
        ),
    }  # fmt: skip
_WIDE["depthwise_int16"] = _wide(
    "DEPTHWISE_CONV_2D", _X16, weights(_EIGHT, 3, True), _int16(IMAGE, 0.0004), 8, _DEPTHWISE, 64,
    **WINDOW, DepthMultiplier=1,
)  # fmt: skip
_WIDE["dense_int16"] = _wide(
    "FULLY_CONNECTED", _int16((30, 40), 0.0003), weights((9, 40), 0, False),
    _int16((30, 9), 0.001), 9, _DENSE, 0,
)  # fmt: skip
# Products that are half way between two integers.
for _dtype, _ties in (("INT8", [[1, 1, -1], [1, 1, 2]]), ("UINT8", [[1, 1, 3], [1, 1, 2]])):
    _zero = (128,) if _dtype == "UINT8" else (0,)
    _w = Value(np.array(_ties, _dtype.lower()), _dtype, (0.5,), (0,))
    _b = Value(np.array([1, 2], np.int32), "INT32", (0.25,), (0,))
    _WIDE[f"dense_halves_{_dtype.lower()}"] = Case(
        "FULLY_CONNECTED", [Value((50, 3), _dtype, (0.5,), _zero), _w, _b],
        Value((50, 2), _dtype, (0.5,), _zero), _DENSE,
    )  # fmt: skip


def _transposed(dtype: str, padding: int, bias: int, per_channel: bool) -> Case:
    """Rows by 2, columns by 3."""
    scale, zero = (0.0003, 0) if dtype == "INT16" else (0.05, 120 if dtype == "UINT8" else 3)
    x = Value((2, 4, 5, 6), dtype, (scale,), (zero,))
    w = weights((5, 3, 4, 6), 0, per_channel, "UINT8" if dtype == "UINT8" else "INT8")
    made = _wide("TRANSPOSE_CONV", x, w, x, 5, "", bias)
    size = (8, 15) if padding == 0 else (9, 16)
    out = np.array([2, *size, 5], np.int32)
    y = Value((2, *size, 5), dtype, (scale * 8,), (0 if dtype == "INT16" else 110,))
    given = [Value(out, "INT32", (), ()), w, x, *made.given[2:]]
    fields = {"Padding": padding, "StrideH": 2, "StrideW": 3}
    if bias == 32:
        fields["QuantizedBiasType"] = tflite.TensorType.INT32
    return Case("TRANSPOSE_CONV", given, y, "TransposeConvOptions", fields)


_TRANSPOSED = {
    "transposed": _transposed("INT8", 0, 32, True),
    "transposed_valid": _transposed("INT8", 1, 32, False),
    "transposed_alone": _transposed("INT8", 0, 0, True),
    "transposed_uint8": _transposed("UINT8", 0, 32, False),
    "transposed_int16": _transposed("INT16", 0, 64, True),
    "transposed_int16_bias32": _transposed("INT16", 1, 32, True),
}


def _matrices(dtype: str, adjoint: bool) -> Case:
    a, b = (2, 3, 4, 5), (2, 1, 6, 5) if adjoint else (2, 1, 5, 6)
    x, zero = (0.0003, 0) if dtype == "INT16" else (0.05, 3)
    given = [Value(a, dtype, (x,), (zero,)), Value(b, dtype, (x * 0.7,), (zero - 9 * bool(zero),))]
    y = Value((2, 3, 4, 6), dtype, (1.1 if dtype == "INT16" else 0.3,), (zero,))
    return Case("BATCH_MATMUL", given, y, "BatchMatMulOptions", {"AdjY": adjoint})


_MATRICES = {
    f"batch_matmul_{_dtype.lower()}{'_adjoint' * _adjoint}": _matrices(_dtype, _adjoint)
    for _dtype in ("INT8", "INT16")
    for _adjoint in (False, True)
}

CASES = {**_PRODUCTS, **_HYBRIDS, **_WIDE, **_TRANSPOSED, **_MATRICES}
