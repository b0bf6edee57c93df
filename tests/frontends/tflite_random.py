"""Operators of TensorFlow Lite on integers of random shapes, scales and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tflite

from frontends.tflite_integers import Case, Value, product, weights

#: Those that the tests try.
SEEDS = range(120)

_TYPES = ("INT8", "UINT8", "INT16")
_FUNCTIONS = (
    "RELU", "LEAKY_RELU", "ABS", "EXP", "LOG", "LOGISTIC", "TANH", "QUANTIZE", "SOFTMAX",
)  # fmt: skip


class _Draw:
    """Random choices."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def number(self, low: int, high: int) -> int:
        """From low to high."""
        return int(self.random.integers(low, high, endpoint=True))

    def one(self, *what: Any) -> Any:
        """One of them."""
        return what[self.number(0, len(what) - 1)]

    def scale(self, dtype: str, times: float = 1.0) -> tuple[float]:
        """Of activations."""
        unit = 10 ** self.random.uniform(-2.0, -0.8)
        return (float(np.float32(unit * times / (200 if dtype == "INT16" else 1))),)

    def zero(self, dtype: str) -> tuple[int]:
        """One that the type has."""
        info = np.iinfo(dtype.lower())
        return (0,) if dtype == "INT16" else (self.number(info.min, info.max),)

    def value(self, shape: tuple[int, ...], dtype: str, times: float = 1.0) -> Value:
        """A tensor."""
        return Value(shape, dtype, self.scale(dtype, times), self.zero(dtype))


def _with_bias(
    d: _Draw, kind: str, x: Value, w: Value, y: Value, options: str, **fields: Any
) -> Case:
    """With a bias of the type that the kernels have; dense layers may have none."""
    channels = y.what[-1] if isinstance(y.what, tuple) else 0
    case = product(kind, x, w, y, channels, options, **fields)
    if x.dtype != "INT16":
        return case
    narrow = d.one(True, False) and kind != "DEPTHWISE_CONV_2D"
    bias = case.given[2]
    assert isinstance(bias.what, np.ndarray)
    stored = (bias.what * 100).astype("int32" if narrow else "int64")
    more = {"QuantizedBiasType": tflite.TensorType.INT32} if narrow else {}
    wide = Value(stored, "INT32" if narrow else "INT64", bias.scales, bias.zeros)
    return Case(kind, [x, w, wide], y, options, {**fields, **more})


def _window(
    d: _Draw, shape: tuple[int, ...], channels: int, kernel: tuple[int, int], *, wide: bool = True
) -> Any:
    """The shape of the result, the options, and dilations, which a `wide` window may have."""
    same = d.one(True, False)
    strides = d.number(1, 3), d.number(1, 3)
    near = not wide or strides != (1, 1)
    reach = kernel if near else tuple((k - 1) * d.number(1, 2) + 1 for k in kernel)
    dilations = [(r - 1) // (k - 1) if k > 1 else 1 for r, k in zip(reach, kernel, strict=True)]
    sizes = [
        -(-n // s) if same else -(-(n - r + 1) // s)
        for n, s, r in zip(shape[1:3], strides, reach, strict=True)
    ]
    fields = {
        "Padding": 0 if same else 1, "StrideH": strides[0], "StrideW": strides[1],
        "FusedActivationFunction": d.one(0, 0, 1, 3),
    }  # fmt: skip
    return (shape[0], *sizes, channels), fields, dilations


def _conv(d: _Draw) -> Case:
    dtype = d.one(*_TYPES)
    shape = (d.number(1, 2), d.number(6, 9), d.number(6, 11), d.number(1, 9))
    kernel, channels = (d.number(1, 3), d.number(1, 3)), d.number(1, 7)
    made, fields, dilations = _window(d, shape, channels, kernel)
    fields |= {"DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}
    per = d.one(True, False) and dtype != "UINT8"
    stored = "UINT8" if dtype == "UINT8" else "INT8"
    w = weights((channels, *kernel, shape[3]), 0, per, stored)
    x = d.value(shape, dtype)
    y = Value(made, dtype, (x.scales[0] * d.number(1, 9),), d.zero(dtype))
    return _with_bias(d, "CONV_2D", x, w, y, "Conv2DOptions", **fields)


def _depthwise(d: _Draw) -> Case:
    dtype, times = d.one(*_TYPES), d.number(1, 3)
    shape = (d.number(1, 2), d.number(6, 9), d.number(6, 11), d.number(1, 9))
    kernel = (d.number(1, 3), d.number(1, 3))
    made, fields, dilations = _window(d, shape, shape[3] * times, kernel)
    fields |= {"DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}
    fields["DepthMultiplier"] = times
    per = d.one(True, False) and dtype != "UINT8"
    stored = "UINT8" if dtype == "UINT8" else "INT8"
    w = weights((1, *kernel, made[3]), 3, per, stored)
    x = d.value(shape, dtype)
    y = Value(made, dtype, (x.scales[0] * d.number(1, 5),), d.zero(dtype))
    return _with_bias(d, "DEPTHWISE_CONV_2D", x, w, y, "DepthwiseConv2DOptions", **fields)


def _dense(d: _Draw) -> Case:
    dtype, rows, width, units = d.one(*_TYPES), d.number(1, 9), d.number(1, 700), d.number(1, 30)
    per = d.one(True, False) and dtype != "UINT8"
    w = weights((units, width), 0, per, "UINT8" if dtype == "UINT8" else "INT8")
    x = d.value((rows, width), dtype)
    y = Value((rows, units), dtype, (x.scales[0] * d.number(1, 20),), d.zero(dtype))
    return _with_bias(d, "FULLY_CONNECTED", x, w, y, "FullyConnectedOptions")


def _matrices(d: _Draw) -> Case:
    dtype, (m, k, n) = d.one("INT8", "INT16"), (d.number(1, 9) for _ in range(3))
    lead, left, right = (d.number(1, 3),), d.one(True, False), d.one(True, False)
    a, b = (
        d.value((*lead, *((k, m) if left else (m, k))), dtype),
        d.value((*lead, *((n, k) if right else (k, n))), dtype),
    )
    y = d.value((*lead, m, n), dtype, 100.0 if dtype == "INT16" else 1.0)
    return Case("BATCH_MATMUL", [a, b], y, "BatchMatMulOptions", {"AdjX": left, "AdjY": right})


def _transposed(d: _Draw) -> Case:
    dtype, kernel = d.one(*_TYPES), (d.number(1, 4), d.number(1, 4))
    strides, same = (d.number(1, 3), d.number(1, 3)), d.one(True, False)
    shape = (d.number(1, 2), d.number(1, 5), d.number(1, 5), d.number(1, 6))
    channels = d.number(1, 5)
    sizes = [
        n * s if same else (n - 1) * s + max(k, s)
        for n, s, k in zip(shape[1:3], strides, kernel, strict=True)
    ]
    made = (shape[0], *sizes, channels)
    per = d.one(True, False) and dtype != "UINT8"
    w = weights((channels, *kernel, shape[3]), 0, per, "UINT8" if dtype == "UINT8" else "INT8")
    x = d.value(shape, dtype)
    y = Value(made, dtype, (x.scales[0] * d.number(1, 9),), d.zero(dtype))
    fields = {"Padding": 0 if same else 1, "StrideH": strides[0], "StrideW": strides[1]}
    case = _with_bias(d, "TRANSPOSE_CONV", x, w, y, "TransposeConvOptions", **fields)
    out = Value(np.array(made, np.int32), "INT32", (), ())
    return Case(case.kind, [out, w, x, case.given[2]], y, case.options, case.fields)


def _shapes(d: _Draw) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Two that broadcast, and what comes out."""
    made = tuple(d.number(1, 6) for _ in range(d.number(1, 4)))
    one = tuple(n if d.number(0, 3) else 1 for n in made)
    two = tuple(n if one[k] == 1 or d.number(0, 2) else 1 for k, n in enumerate(made))
    return one, two, made


def _pair(d: _Draw) -> Case:
    kind, (one, two, made) = d.one("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE"), _shapes(d)
    dtype = "INT8" if kind == "SQUARED_DIFFERENCE" else d.one(*_TYPES)
    a, b = d.value(one, dtype), d.value(two, dtype)
    large = {"MUL": 3.0 + 97 * (dtype == "INT16"), "SQUARED_DIFFERENCE": 30.0}
    y = d.value(made, dtype, large.get(kind, 2.0))
    options = "" if kind == "SQUARED_DIFFERENCE" else f"{kind.capitalize()}Options"
    return Case(
        kind, [a, b], y, options, {"FusedActivationFunction": d.one(0, 1, 3)} if options else {}
    )


def _comparison(d: _Draw) -> Case:
    kind = d.one("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    one, two, made = _shapes(d)
    dtype = d.one(*_TYPES)
    return Case(kind, [d.value(one, dtype), d.value(two, dtype)], Value(made, "BOOL"))


def _function(d: _Draw) -> Case:
    kind = d.one(
        "RELU", "LEAKY_RELU", "ABS", "EXP", "LOG", "LOGISTIC", "TANH", "QUANTIZE", "SOFTMAX"
    )
    dtype = d.one("INT8", "INT16") if kind in ("ABS", "LOG") else d.one(*_TYPES)
    shape = (d.number(1, 30), d.number(1, 30))
    x, y = d.value(shape, dtype, 2.0), d.value(shape, dtype, 2.0)
    bits = {"INT8": 2.0**-8, "UINT8": 2.0**-8, "INT16": 2.0**-15}[dtype]
    least = {"INT8": -128, "UINT8": 0, "INT16": 0}[dtype]
    if kind in ("LOGISTIC", "SOFTMAX"):
        y = Value(shape, dtype, (bits,), (least,))
    elif kind == "TANH" and dtype == "INT16":
        y = Value(shape, dtype, (bits,), (0,))
    options = {"LEAKY_RELU": "LeakyReluOptions", "SOFTMAX": "SoftmaxOptions"}.get(kind, "")
    fields = {"LEAKY_RELU": {"Alpha": 0.27}, "SOFTMAX": {"Beta": 1.0}}.get(kind, {})
    return Case(kind, [x], y, options, fields)


def _reduction(d: _Draw) -> Case:
    dtype, shape = d.one(*_TYPES), tuple(d.number(1, 7) for _ in range(4))
    axes = sorted({d.number(0, 3) for _ in range(d.number(1, 3))})
    keep = d.one(True, False)
    made = tuple(1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes)
    x = d.value(shape, dtype)
    where = Value(np.array(axes, np.int32), "INT32", (), ())
    return Case("MEAN", [x, where], d.value(made, dtype), "ReducerOptions", {"KeepDims": keep})


def _pool(d: _Draw) -> Case:
    kind, dtype = d.one("MAX_POOL_2D", "AVERAGE_POOL_2D"), d.one(*_TYPES)
    shape = (d.number(1, 2), d.number(6, 9), d.number(6, 11), d.number(1, 9))
    kernel = (d.number(1, 4), d.number(1, 4))
    made, fields, _ = _window(d, shape, shape[3], kernel, wide=False)
    x = d.value(shape, dtype)
    y = Value(made, dtype, x.scales, x.zeros)
    fields |= {"FilterHeight": kernel[0], "FilterWidth": kernel[1]}
    return Case(kind, [x], y, "Pool2DOptions", fields)


def _resized(d: _Draw) -> Case:
    dtype, shape = d.one("INT8", "INT16"), (d.number(1, 2), *(d.number(1, 9) for _ in range(3)))
    sizes = d.number(1, 20), d.number(1, 20)
    x = d.value(shape, dtype)
    y = Value((shape[0], *sizes, shape[3]), dtype, x.scales, x.zeros)
    mode = d.one("", "AlignCorners", "HalfPixelCenters")
    given = [x, Value(np.array(sizes, np.int32), "INT32", (), ())]
    return Case("RESIZE_BILINEAR", given, y, "ResizeBilinearOptions", {mode: True} if mode else {})


def _prelu(d: _Draw) -> Case:
    dtype, shape = d.one("INT8", "UINT8"), tuple(d.number(1, 6) for _ in range(3))
    info = np.iinfo(dtype.lower())
    alpha = d.random.integers(info.min, info.max, (1, 1, shape[2]), dtype.lower(), endpoint=True)
    stored = Value(alpha, dtype, d.scale(dtype, 0.3), d.zero(dtype))
    return Case("PRELU", [d.value(shape, dtype), stored], d.value(shape, dtype))


MAKERS: tuple[Callable[[_Draw], Case], ...] = (
    _conv, _depthwise, _dense, _matrices, _transposed, _pair, _comparison, _function, _reduction,
    _pool, _resized, _prelu,
)  # fmt: skip


def random_case(seed: int) -> Case:
    """Every maker in turn."""
    return MAKERS[seed % len(MAKERS)](_Draw(seed))
