"""Operators of TensorFlow Lite on integers. What LiteRT's reference kernels make of them is in
`tflite_quantised.npz`; `python tests/frontends/tflite_quantised.py` writes it, and needs LiteRT.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from frontends.tflite_files import Graph, TfliteFile, input_shape
from frontends.tflite_nets import NETS, samples

GOLDEN = Path(__file__).with_suffix(".npz")


@dataclass(frozen=True)
class Value:
    """A tensor: a shape is an input, or the output; an array is a constant."""

    what: tuple[int, ...] | NDArray[Any]
    dtype: str = "INT8"
    scales: Sequence[float] = (0.05,)
    zeros: Sequence[int] = (3,)
    axis: int = 0

    @property
    def more(self) -> dict[str, Any]:
        """The tensor's other facts."""
        if self.dtype == "FLOAT32":
            return {}
        return {"scales": self.scales, "zeros": self.zeros, "axis": self.axis}

    def random(self, seed: int) -> NDArray[Any]:
        """All numbers of the type may occur."""
        assert isinstance(self.what, tuple)
        random = np.random.default_rng(seed)
        if self.dtype == "FLOAT32":
            return 4 * random.standard_normal(self.what, np.float32)
        info = np.iinfo(self.dtype.lower())
        return random.integers(info.min, info.max, self.what, self.dtype.lower(), endpoint=True)


@dataclass(frozen=True)
class Case:
    """One operator."""

    kind: str
    given: Sequence[Value]
    output: Value
    options: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def inputs(self) -> dict[str, NDArray[Any]]:
        """Random inputs, by name."""
        values = [v for v in self.given if isinstance(v.what, tuple)]
        return {f"x{k}": v.random(k) for k, v in enumerate(values)}

    def file(self) -> TfliteFile:
        """The file, which may be changed."""
        file = TfliteFile()
        g: Graph = file.main
        given = [
            g.input(v.what, v.dtype, **v.more)
            if isinstance(v.what, tuple)
            else g.constant(v.what, v.dtype, **v.more)
            for v in self.given
        ]
        assert isinstance(self.output.what, tuple)
        y = g.tensor(self.output.what, self.output.dtype, **self.output.more)
        g.outputs = [g.add(self.kind, given, y, options=self.options, **self.fields)]
        return file

    def data(self) -> bytes:
        """Its bytes."""
        return self.file().data()


_RANDOM = np.random.default_rng(11)
_IMAGE = (2, 7, 6, 8)
_WINDOW = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


def _weights(shape: tuple[int, ...], axis: int, per_channel: bool, dtype: str = "INT8") -> Value:
    info = np.iinfo(dtype.lower())
    low = info.min + (dtype == "INT8")
    array = _RANDOM.integers(low, info.max, shape, dtype.lower(), endpoint=True)
    count = shape[axis] if per_channel else 1
    scales = tuple(float(v) for v in _RANDOM.uniform(0.001, 0.02, count).astype(np.float32))
    return Value(array, dtype, scales, (131 if dtype == "UINT8" else 0,) * count, axis)


def _bias(count: int, x: Value, w: Value) -> Value:
    scales = tuple(float(np.float32(x.scales[0]) * np.float32(s)) for s in w.scales)
    array = _RANDOM.integers(-3000, 3000, count).astype(np.int32)
    return Value(array, "INT32", scales, (0,) * len(scales))


def product(
    kind: str, x: Value, w: Value, y: Value, channels: int, options: str, **fields: Any
) -> Case:
    """With a bias."""
    return Case(kind, [x, w, _bias(channels, x, w)], y, options, fields)


_X, _UX = Value(_IMAGE), Value(_IMAGE, "UINT8", (0.05,), (120,))
_Y = Value((2, 7, 6, 5), scales=(0.9,), zeros=(-11,))
_CONV, _DEPTHWISE = "Conv2DOptions", "DepthwiseConv2DOptions"
_FIVE, _EIGHT = (5, 3, 3, 8), (1, 3, 3, 8)

_PRODUCTS: dict[str, Case] = {
    "conv": product("CONV_2D", _X, _weights(_FIVE, 0, True), _Y, 5, _CONV, **_WINDOW),
    "conv_one_scale": product("CONV_2D", _X, _weights(_FIVE, 0, False), _Y, 5, _CONV, **_WINDOW),
    "conv_relu6": product(
        "CONV_2D", _X, _weights(_FIVE, 0, True), Value((2, 4, 3, 5), scales=(0.04,), zeros=(-20,)),
        5, _CONV, **{**_WINDOW, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": 3},
    ),
    "conv_point": product(
        "CONV_2D", _X, _weights((6, 1, 1, 8), 0, True), Value((2, 7, 6, 6), scales=(0.4,)), 6,
        _CONV, **{**_WINDOW, "Padding": 1, "FusedActivationFunction": 1},
    ),
    "conv_dilated": product(
        "CONV_2D", _X, _weights(_FIVE, 0, True), Value((2, 3, 2, 5), scales=(0.7,)), 5, _CONV,
        **{**_WINDOW, "Padding": 1, "DilationHFactor": 2, "DilationWFactor": 2},
    ),
    "conv_uint8": product(
        "CONV_2D", _UX, _weights(_FIVE, 0, False, "UINT8"),
        Value((2, 7, 6, 5), "UINT8", (0.9,), (128,)), 5, _CONV, **_WINDOW,
    ),
    "conv_small_scale": product(
        "CONV_2D", _X, _weights(_FIVE, 0, True), Value((2, 7, 6, 5), scales=(0.0003,)), 5, _CONV,
        **_WINDOW,
    ),
    "depthwise": product(
        "DEPTHWISE_CONV_2D", _X, _weights(_EIGHT, 3, True), Value(_IMAGE, scales=(0.3,)), 8,
        _DEPTHWISE, **_WINDOW, DepthMultiplier=1,
    ),
    "depthwise_strides": product(
        "DEPTHWISE_CONV_2D", _X, _weights(_EIGHT, 3, False),
        Value((2, 4, 3, 8), scales=(0.1,), zeros=(-128,)), 8, _DEPTHWISE,
        **{**_WINDOW, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": 1}, DepthMultiplier=1,
    ),
    "depthwise_multiplier": product(
        "DEPTHWISE_CONV_2D", Value((1, 5, 5, 2)), _weights((1, 3, 3, 6), 3, True),
        Value((1, 5, 5, 6), scales=(0.3,)), 6, _DEPTHWISE, **_WINDOW, DepthMultiplier=3,
    ),
    "depthwise_of_one": product(
        "DEPTHWISE_CONV_2D", Value((1, 9, 5, 1)), _weights((1, 4, 3, 8), 3, True),
        Value((1, 9, 5, 8), scales=(0.3,)), 8, _DEPTHWISE, **_WINDOW, DepthMultiplier=8,
    ),
    "depthwise_uint8": product(
        "DEPTHWISE_CONV_2D", _UX, _weights(_EIGHT, 3, False, "UINT8"),
        Value(_IMAGE, "UINT8", (0.3,), (90,)), 8, _DEPTHWISE, **_WINDOW, DepthMultiplier=1,
    ),
    "conv_many": product(
        "CONV_2D", Value((1, 16, 16, 24), scales=(0.13,)), _weights((32, 1, 1, 24), 0, True),
        Value((1, 16, 16, 32), scales=(0.31,), zeros=(-5,)), 32, _CONV, **_WINDOW,
    ),
    "depthwise_many": product(
        "DEPTHWISE_CONV_2D", Value((1, 16, 16, 32), scales=(0.13,)),
        _weights((1, 3, 3, 32), 3, True),
        Value((1, 16, 16, 32), scales=(0.31,), zeros=(-5,)), 32, _DEPTHWISE, **_WINDOW,
        DepthMultiplier=1,
    ),
    "dense_many": product(
        "FULLY_CONNECTED", Value((256, 24), scales=(0.13,)), _weights((32, 24), 0, False),
        Value((256, 32), scales=(0.31,), zeros=(-5,)), 32, "FullyConnectedOptions",
    ),
    "dense_many_channels": product(
        "FULLY_CONNECTED", Value((256, 24), scales=(0.13,)), _weights((32, 24), 0, True),
        Value((256, 32), scales=(0.31,), zeros=(-5,)), 32, "FullyConnectedOptions",
    ),
    "dense": product(
        "FULLY_CONNECTED", Value((3, 40)), _weights((9, 40), 0, False),
        Value((3, 9), scales=(0.4,)), 9, "FullyConnectedOptions",
    ),
    "dense_channels": product(
        "FULLY_CONNECTED", Value((3, 40)), _weights((9, 40), 0, True),
        Value((3, 9), scales=(0.4,)), 9, "FullyConnectedOptions",
    ),
    "dense_relu": product(
        "FULLY_CONNECTED", Value((1, 2, 4, 5)), _weights((9, 40), 0, False),
        Value((1, 9), scales=(0.2,), zeros=(-128,)), 9, "FullyConnectedOptions",
        FusedActivationFunction=1,
    ),
    "dense_uint8": product(
        "FULLY_CONNECTED", Value((3, 40), "UINT8", (0.05,), (7,)),
        _weights((9, 40), 0, False, "UINT8"), Value((3, 9), "UINT8", (0.4,), (100,)), 9,
        "FullyConnectedOptions",
    ),
}  # fmt: skip

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

_POOL = {"Padding": 0, "StrideH": 2, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 2}
_POOLS: dict[str, Case] = {
    "max_pool": Case(
        "MAX_POOL_2D", [_X], Value((2, 4, 6, 8)), "Pool2DOptions",
        {**_POOL, "FusedActivationFunction": 3},
    ),
    "average_pool": Case("AVERAGE_POOL_2D", [_X], Value((2, 4, 6, 8)), "Pool2DOptions", _POOL),
    "average_pool_uint8": Case(
        "AVERAGE_POOL_2D", [_UX], Value((2, 4, 6, 8), "UINT8", (0.05,), (120,)), "Pool2DOptions",
        {**_POOL, "FusedActivationFunction": 1},
    ),
    "average_pool_whole": Case(
        "AVERAGE_POOL_2D", [_X], Value((2, 1, 1, 8)), "Pool2DOptions",
        {**_POOL, "Padding": 1, "FilterHeight": 7, "FilterWidth": 6},
    ),
    "mean": Case(
        "MEAN", [_X, Value(np.array([1, 2], np.int32), "INT32", (), ())],
        Value((2, 8), scales=(0.02,), zeros=(-9,)), "ReducerOptions",
    ),
    "mean_kept": Case(
        "MEAN", [Value((1, 5, 5, 16)), Value(np.array([1, 2], np.int32), "INT32", (), ())],
        Value((1, 1, 1, 16)), "ReducerOptions", {"KeepDims": True},
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


def _hybrid(kind: str, x: tuple[int, ...], w: Value, y: tuple[int, ...], **fields: Any) -> Case:
    """Floats times integer weights, and a bias of floats."""
    bias = _RANDOM.standard_normal(y[-1]).astype(np.float32)
    names = {"CONV_2D": _CONV, "DEPTHWISE_CONV_2D": _DEPTHWISE}
    given = [Value(x, "FLOAT32"), w, Value(bias, "FLOAT32")]
    options = names.get(kind, "FullyConnectedOptions")
    return Case(kind, given, Value(y, "FLOAT32"), options, fields)


_HYBRIDS: dict[str, Case] = {
    "hybrid_dense": _hybrid("FULLY_CONNECTED", (6, 40), _weights((9, 40), 0, False), (6, 9)),
    "hybrid_dense_asymmetric": _hybrid(
        "FULLY_CONNECTED", (6, 40), _weights((9, 40), 0, True), (6, 9),
        AsymmetricQuantizeInputs=True, FusedActivationFunction=1,
    ),
    "hybrid_dense_rows": _hybrid(
        "FULLY_CONNECTED", (2, 3, 40), _weights((9, 40), 0, False), (2, 3, 9), KeepNumDims=True,
    ),
    "hybrid_conv": _hybrid("CONV_2D", _IMAGE, _weights(_FIVE, 0, True), (2, 7, 6, 5), **_WINDOW),
    "hybrid_conv_one_scale": _hybrid(
        "CONV_2D", _IMAGE, _weights(_FIVE, 0, False), (2, 7, 6, 5), **_WINDOW
    ),
    "hybrid_depthwise": _hybrid(
        "DEPTHWISE_CONV_2D", _IMAGE, _weights(_EIGHT, 3, True), _IMAGE, **_WINDOW,
        DepthMultiplier=1,
    ),
}  # fmt: skip

_PADS = Value(np.array([[0, 0], [1, 2], [3, 0], [0, 0]], np.int32), "INT32", (), ())
_MOVES: dict[str, Case] = {
    "pad": Case("PAD", [_X, _PADS], Value((2, 10, 9, 8)), "PadOptions"),
    "concatenation": Case(
        "CONCATENATION", [_X, _X], Value((2, 7, 6, 16)), "ConcatenationOptions", {"Axis": 3}
    ),
    "space_to_batch": Case(
        "SPACE_TO_BATCH_ND",
        [
            _X,
            Value(np.array([2, 3], np.int32), "INT32", (), ()),
            Value(np.array([[1, 2], [2, 1]], np.int32), "INT32", (), ()),
        ],
        Value((12, 5, 3, 8)),
        "SpaceToBatchNDOptions",
    ),
    "reduce_max": Case(
        "REDUCE_MAX",
        [_X, Value(np.array([1, 2], np.int32), "INT32", (), ())],
        Value((2, 8)),
        "ReducerOptions",
    ),
    "reduce_min": Case(
        "REDUCE_MIN",
        [_X, Value(np.array([3], np.int32), "INT32", (), ())],
        Value((2, 7, 6, 1)),
        "ReducerOptions",
        {"KeepDims": True},
    ),
    "maximum": Case("MAXIMUM", [_X, _X], _X, "MaximumMinimumOptions"),
    "minimum": Case("MINIMUM", [_X, _X], _X, "MaximumMinimumOptions"),
}

CASES = {**_PRODUCTS, **_PAIRS, **_POOLS, **_FUNCTIONS, **_MOVES, **_HYBRIDS}


def write_golden() -> None:
    """What LiteRT computes."""
    from frontends.tflite_files import by_litert

    found = {name: by_litert(case.data(), case.inputs())[0] for name, case in CASES.items()}
    for name, make in NETS.items():
        data = make()
        results = [by_litert(data, {"x0": x})[0] for x in samples(input_shape(data))]
        found[f"net_{name}"] = np.concatenate(results)
    np.savez_compressed(GOLDEN, **found)


if __name__ == "__main__":
    write_golden()
