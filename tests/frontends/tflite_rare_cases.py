"""Rare operators of TensorFlow Lite on floats and integers, and what they compute, by numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.tflite_case import ROWS, Case, i32


def spread(x: NDArray[Any], dilations: NDArray[Any], value: NDArray[Any]) -> NDArray[Any]:
    """With gaps between its elements."""
    shape = [(n - 1) * d + 1 for n, d in zip(x.shape, dilations, strict=True)]
    y = np.full(shape, value, x.dtype)
    y[tuple(slice(None, None, d) for d in dilations)] = x
    return y


def windows(
    function: Callable[..., Any], x: NDArray[Any], begin: NDArray[Any], size: NDArray[Any],
    strides: NDArray[Any], dilations: NDArray[Any],
) -> NDArray[Any]:  # fmt: skip
    """Window by window."""
    spans = [(s - 1) * d + 1 for s, d in zip(size, dilations, strict=True)]
    shape = [(n - s) // t + 1 for n, s, t in zip(x.shape, spans, strides, strict=True)]
    y = np.empty(shape, x.dtype)
    for at in np.ndindex(*shape):
        box = tuple(
            slice(k * t, k * t + s, d)
            for k, t, s, d in zip(at, strides, spans, dilations, strict=True)
        )
        y[at] = function([begin, function(x[box])])
    return y


def _window(function: Callable[..., Any], number: int, begin: Any, **more: Any) -> Case:
    sizes = [np.array(v, np.int64) for v in ((1, 2, 3), (1, 1, 2), (1, 1, 1))]
    return Case(
        "REDUCE_WINDOW", [ROWS, np.asarray(begin), *sizes],
        lambda *given: windows(function, *given), "ReduceWindowOptions",
        {"ReduceFunction": number}, **more,
    )  # fmt: skip


def looked_up(
    rows: NDArray[Any], places: NDArray[Any], shape: NDArray[Any], weights: NDArray[Any],
    table: NDArray[Any], norm: Callable[[NDArray[Any]], Any],
) -> NDArray[Any]:  # fmt: skip
    """Row by row."""
    y = np.zeros((*shape[:-1], *table.shape[1:]), np.float32)
    for at in np.ndindex(*shape[:-1]):
        here = (places[:, :-1] == at).all(1)
        if here.any():
            y[at] = np.tensordot(weights[here], table[rows[here]], 1) / norm(weights[here])
    return y


_PLACES = i32([0, 0], [0, 1], [2, 0], [3, 0], [3, 2])
_WEIGHTS = np.array([1, 2, 0.5, 3, 1], np.float32)


def _lookup(combiner: int, norm: Callable[[NDArray[Any]], Any]) -> Case:
    return Case(
        "EMBEDDING_LOOKUP_SPARSE", [i32(3, 1, 0, 2, 1), _PLACES, i32(4, 3), _WEIGHTS, (4, 3)],
        lambda r, p, s, w, t: looked_up(r, p, s, w, t, norm), "EmbeddingLookupSparseOptions",
        {"Combiner": combiner},
    )  # fmt: skip


def fake_quant(x: NDArray[Any], low: float, high: float, bits: int) -> NDArray[Any]:
    """In float32, step by step."""
    f = np.float32
    last = f(2**bits - 1)
    unit = (f(high) - f(low)) / last
    zero = f(np.clip(np.floor(f(0.5) - f(low) / unit), 0, last))
    below, above = -zero * unit, (last - zero) * unit
    steps = (np.clip(x, below, above) - below) * (f(1) / unit)
    return np.asarray(np.floor(steps.astype(np.float64) + 0.5) * unit + below, f)


def _fake(low: float, high: float, bits: int) -> Case:
    return Case(
        "FAKE_QUANT", [ROWS], lambda x: fake_quant(x, low, high, bits), "FakeQuantOptions",
        {"Min": low, "Max": high, "NumBits": bits},
    )  # fmt: skip


def _same(kind: str, function: Callable[..., Any], dtype: str = "float32") -> Case:
    return Case(kind, [ROWS, ROWS], function, dtype=dtype)


RARE: dict[str, Case] = {
    "atan2": Case("ATAN2", [ROWS, ROWS], np.arctan2, "ATan2Options"),
    "right_shift": Case("RIGHT_SHIFT", [ROWS, ROWS], np.right_shift, "RightShiftOptions",
                        dtype="int32"),
    "right_shift_far": Case(
        "RIGHT_SHIFT", [ROWS, np.tile(i32(-1, 40), (2, 3, 3))],
        lambda x, s: x >> np.clip(s, 0, 31), "RightShiftOptions", dtype="int32",
    ),
    "bitcast": Case("BITCAST", [ROWS], lambda x: x.view(np.int32), "BitcastOptions"),
    "bitcast_bytes": Case(
        "BITCAST", [ROWS], lambda x: x.view(np.int8).reshape(*x.shape, 4), "BitcastOptions",
    ),
    "bitcast_wide": Case(
        "BITCAST", [(3, 4)], lambda x: x.view(np.float32)[:, 0], "BitcastOptions", dtype="uint8",
    ),
    "bucketize": Case(
        "BUCKETIZE", [ROWS],
        lambda x: np.digitize(x, np.float32([-1.5, 0.25, 0.25, 2])).astype(np.int32),
        "BucketizeOptions", {"Boundaries": np.float32([-1.5, 0.25, 0.25, 2])},
    ),
    "bucketize_integers": Case(
        "BUCKETIZE", [ROWS], lambda x: np.digitize(x, [1, 2]).astype(np.int32),
        "BucketizeOptions", {"Boundaries": np.float32([1, 2])}, "int32",
    ),
    "fake_quant": _fake(-1.3, 2.1, 8), "fake_quant_4": _fake(0, 3, 4),
    "dilate": Case("DILATE", [(2, 3, 4), i32(1, 3, 2), np.float32(-7).reshape(())], spread),
    "window_sums": _window(np.sum, 1, np.float32(0.5)),
    "window_products": _window(np.prod, 2, np.float32(2)),
    "window_least": _window(np.min, 3, np.float32(0)),
    "window_most": _window(np.max, 4, np.int32(1), dtype="int32"),
    "window_all": _window(np.all, 5, True, dtype="bool"),
    "window_any": _window(np.any, 6, False, dtype="bool"),
    "embedding_sums": _lookup(0, lambda w: 1), "embedding_means": _lookup(1, np.sum),
    "embedding_norms": _lookup(2, lambda w: np.sqrt((w**2).sum())),
    "stablehlo_add": _same("STABLEHLO_ADD", np.add),
    "stablehlo_multiply": _same("STABLEHLO_MULTIPLY", np.multiply),
    "stablehlo_maximum": _same("STABLEHLO_MAXIMUM", np.maximum),
    "stablehlo_minimum": _same("STABLEHLO_MINIMUM", np.minimum, "int32"),
    "stablehlo_and": _same("STABLEHLO_AND", np.bitwise_and, "int32"),
    "stablehlo_and_logic": _same("STABLEHLO_AND", np.logical_and, "bool"),
    "stablehlo_shift_left": _same("STABLEHLO_SHIFT_LEFT", np.left_shift, "int32"),
    "stablehlo_pad": Case(
        "STABLEHLO_PAD", [(3, 4), np.float32(9).reshape(())],
        lambda x, v: np.pad(spread(x, np.array([2, 3]), v), ((1, 0), (0, 2)),
                            constant_values=9.0)[:, 1:],
        "StablehloPadOptions", {"EdgePaddingLow": np.array([1, -1]),
                                "EdgePaddingHigh": np.array([0, 2]),
                                "InteriorPadding": np.array([1, 2])},
    ),
}  # fmt: skip
