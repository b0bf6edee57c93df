"""Pools, sums, moves and other operators of TensorFlow Lite on many integers."""

from __future__ import annotations

import numpy as np
import tflite

from frontends.tflite_integers import IMAGE, Case, Value

_X, _UX = Value(IMAGE), Value(IMAGE, "UINT8", (0.05,), (120,))

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
_X16 = Value(IMAGE, "INT16", (0.0004,), (0,))
_PLACES = Value(np.array([1, 2], np.int32), "INT32", (), ())
_SHORTS: dict[str, Case] = {
    "max_pool_int16": Case(
        "MAX_POOL_2D", [_X16], Value((2, 4, 6, 8), "INT16", (0.0004,), (0,)), "Pool2DOptions",
        {**_POOL, "FusedActivationFunction": 3},
    ),
    "average_pool_int16": Case(
        "AVERAGE_POOL_2D", [_X16], Value((2, 4, 6, 8), "INT16", (0.0004,), (0,)), "Pool2DOptions",
        _POOL,
    ),
    "mean_int16": Case(
        "MEAN", [_X16, _PLACES], Value((2, 8), "INT16", (0.0001,), (0,)), "ReducerOptions"
    ),
    "mean_uint8": Case(
        "MEAN", [_UX, _PLACES], Value((2, 8), "UINT8", (0.01,), (140,)), "ReducerOptions"
    ),
    # LiteRT 2.3 writes -1 everywhere.
    "sum": Case(
        "SUM", [_X, _PLACES], Value((2, 8), scales=(0.4,)), "ReducerOptions", reference=False
    ),
    "sum_kept": Case(
        "SUM", [_UX, _PLACES], Value((2, 1, 1, 8), "UINT8", (0.4,), (90,)), "ReducerOptions",
        {"KeepDims": True},
    ),
    "sum_int16": Case(
        "SUM", [_X16, _PLACES], Value((2, 8), "INT16", (0.003,), (0,)), "ReducerOptions",
        reference=False, units=1,
    ),
    "reduce_max_int16": Case(
        "REDUCE_MAX", [_X16, _PLACES], Value((2, 8), "INT16", (0.0004,), (0,)), "ReducerOptions"
    ),
    "pad_int16": Case(
        "PAD", [_X16, _PADS], Value((2, 10, 9, 8), "INT16", (0.0004,), (0,)), "PadOptions"
    ),
    "concatenation_int16": Case(
        "CONCATENATION", [_X16, _X16], Value((2, 7, 6, 16), "INT16", (0.0004,), (0,)),
        "ConcatenationOptions", {"Axis": 3},
    ),
}  # fmt: skip
for _sizes in ((14, 12), (5, 9)):
    for _mode in ("", "AlignCorners", "HalfPixelCenters"):
        for _dtype in ("INT8", "INT16"):
            _of = _X if _dtype == "INT8" else _X16
            _made = Value((2, *_sizes, 8), _dtype, _of.scales, _of.zeros)
            _shape = Value(np.array(_sizes, np.int32), "INT32", (), ())
            _fields = {_mode: True} if _mode else {}
            _SHORTS[f"bilinear_{_sizes[0]}_{_mode or 'plain'}_{_dtype.lower()}"] = Case(
                "RESIZE_BILINEAR", [_of, _shape], _made, "ResizeBilinearOptions", _fields
            )
    _SHORTS[f"nearest_{_sizes[0]}"] = Case(
        "RESIZE_NEAREST_NEIGHBOR", [_X, _shape], Value((2, *_sizes, 8)),
        "ResizeNearestNeighborOptions",
    )  # fmt: skip
_ONE = Value(np.array(1, np.int32), "INT32", (), ())
_MOVES |= {
    "arg_max": Case(
        "ARG_MAX", [Value((4, 30)), _ONE], Value((4,), "INT32", (), ()), "ArgMaxOptions",
        {"OutputType": tflite.TensorType.INT32},
    ),
    "gather": Case(
        "GATHER", [Value((4, 30)), Value(np.array([3, 0], np.int32), "INT32", (), ())],
        Value((2, 30)), "GatherOptions",
    ),
}  # fmt: skip

_REDUCED = Value((5, 7, 6, 4), scales=(0.02,), zeros=(-11,))
_MOVES |= {
    "reduce_prod": Case(
        "REDUCE_PROD", [_REDUCED, Value(np.array([3], np.int32), "INT32", (), ())],
        Value((5, 7, 6), scales=(0.05,), zeros=(4,)), "ReducerOptions",
    ),
    "reduce_prod_kept": Case(
        "REDUCE_PROD", [_REDUCED, Value(np.array([0, 2], np.int32), "INT32", (), ())],
        Value((1, 7, 1, 4), scales=(0.00001,), zeros=(0,)), "ReducerOptions", {"KeepDims": True},
    ),
    "reduce_prod_int16": Case(
        "REDUCE_PROD", [_X16, Value(np.array([1], np.int32), "INT32", (), ())],
        Value((2, 6, 8), "INT16", (0.04,), (0,)), "ReducerOptions",
    ),
}  # fmt: skip

CASES = {**_POOLS, **_MOVES, **_SHORTS}
