"""Single operators of TensorFlow Lite on floats, and what they compute, by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.tflite_case import IMAGE, ROWS, Case, i32, normal
from frontends.tflite_element_cases import ELEMENTS
from frontends.tflite_move_cases import MOVES, RESIZES
from frontends.tflite_rare_cases import RARE
from frontends.tflite_segment_cases import SEGMENTS
from frontends.tflite_volume_cases import VOLUMES
from frontends.tflite_window_cases import WINDOWS


def softmax(x: NDArray[Any]) -> NDArray[Any]:
    """Along the last axis."""
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def lrn(x: NDArray[Any], radius: int, bias: float, alpha: float, beta: float) -> NDArray[Any]:
    """Channels around each one."""
    squares = np.pad(x.astype(np.float64) ** 2, ((0, 0),) * 3 + ((radius, radius),))
    total = sum(squares[..., k : k + x.shape[3]] for k in range(2 * radius + 1))
    return np.asarray(x / (bias + alpha * total) ** beta)


_SUMS: dict[str, Case] = {
    "dense": Case("FULLY_CONNECTED", [(3, 6), normal(5, 6), normal(5)],
                  lambda x, w, b: np.maximum(x @ w.T + b, 0), "FullyConnectedOptions",
                  {"FusedActivationFunction": 1}),
    "dense_flat": Case("FULLY_CONNECTED", [IMAGE, normal(5, 168)],
                       lambda x, w: x.reshape(2, 168) @ w.T, "FullyConnectedOptions"),
    "dense_rows": Case("FULLY_CONNECTED", [ROWS, normal(5, 6), normal(5)],
                       lambda x, w, b: x @ w.T + b, "FullyConnectedOptions", {"KeepNumDims": True}),
    "batch_matmul": Case("BATCH_MATMUL", [ROWS, (2, 4, 6)], lambda a, b: a @ b.swapaxes(1, 2),
                         "BatchMatMulOptions", {"AdjY": True}),
    "mean": Case("MEAN", [IMAGE, i32(2, 1)], lambda x, a: x.mean((1, 2)), "ReducerOptions"),
    "sum": Case("SUM", [IMAGE, i32(-1)], lambda x, a: x.sum(-1, keepdims=True), "ReducerOptions",
                {"KeepDims": True}),
    "reduce_max": Case("REDUCE_MAX", [ROWS, i32(1)], lambda x, a: x.max(1), "ReducerOptions"),
    "reduce_min": Case("REDUCE_MIN", [ROWS, i32(0, 2)], lambda x, a: x.min((0, 2)),
                       "ReducerOptions"),
    "reduce_prod": Case("REDUCE_PROD", [ROWS, i32(1)], lambda x, a: x.prod(1), "ReducerOptions"),
    "reduce_any": Case("REDUCE_ANY", [ROWS, i32(1)], lambda x, a: x.any(1), "ReducerOptions",
                       dtype="bool"),
    "reduce_all": Case("REDUCE_ALL", [ROWS, i32(1)], lambda x, a: x.all(1), "ReducerOptions",
                       dtype="bool"),
    "softmax": Case("SOFTMAX", [ROWS], softmax, "SoftmaxOptions", {"Beta": 1.0}),
    "softmax_beta": Case("SOFTMAX", [(3, 6)], lambda x: softmax(0.5 * x), "SoftmaxOptions",
                         {"Beta": 0.5}),
    "log_softmax": Case("LOG_SOFTMAX", [(3, 6)], lambda x: np.log(softmax(x)), "LogSoftmaxOptions"),
    "l2_normalization": Case(
        "L2_NORMALIZATION", [(3, 6)], lambda x: x / np.sqrt((x**2).sum(-1, keepdims=True)),
        "L2NormOptions"),
    "lrn": Case("LOCAL_RESPONSE_NORMALIZATION", [IMAGE], lambda x: lrn(x, 2, 1.5, 0.2, 0.75),
                "LocalResponseNormalizationOptions",
                {"Radius": 2, "Bias": 1.5, "Alpha": 0.2, "Beta": 0.75}),
    "lrn_of_all": Case("LOCAL_RESPONSE_NORMALIZATION", [IMAGE], lambda x: lrn(x, 9, 1.5, 0.2, 0.5),
                       "LocalResponseNormalizationOptions",
                       {"Radius": 9, "Bias": 1.5, "Alpha": 0.2, "Beta": 0.5}),
}  # fmt: skip

CASES = {**SEGMENTS, **WINDOWS, **VOLUMES, **ELEMENTS, **MOVES, **RESIZES, **RARE, **_SUMS}
