"""Operators of TensorFlow Lite that put elements at known places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.tflite_case import Case, i32, scalar


def joined(ufunc: np.ufunc, first: float, x: NDArray[Any], rows: NDArray[Any], n: int) -> Any:
    """Rows of each segment, joined."""
    y = np.full((n, *x.shape[1:]), first, x.dtype)
    ufunc.at(y, rows, x)
    return y


def with_diagonal(x: NDArray[Any], diagonal: NDArray[Any]) -> NDArray[Any]:
    """A copy with another diagonal."""
    y = x.copy()
    for k in range(diagonal.shape[-1]):
        y[..., k, k] = diagonal[..., k]
    return y


def updated(x: NDArray[Any], box: NDArray[Any], starts: tuple[int, ...]) -> NDArray[Any]:
    """A copy with another box."""
    y = x.copy()
    y[tuple(slice(a, a + n) for a, n in zip(starts, box.shape, strict=True))] = box
    return y


_ROWS = i32(2, 0, 2, 1, 0)
_LIMITS = np.finfo(np.float32)

SEGMENTS: dict[str, Case] = {
    "segment_sum": Case("SEGMENT_SUM", [(5, 3), i32(0, 0, 1, 1, 2)],
                        lambda x, s: joined(np.add, 0, x, s, 3), "SegmentSumOptions"),
    "unsorted_segment_sum": Case("UNSORTED_SEGMENT_SUM", [(5, 3), _ROWS, scalar(4)],
                                 lambda x, s, n: joined(np.add, 0, x, s, n),
                                 "UnsortedSegmentSumOptions"),
    "unsorted_segment_prod": Case("UNSORTED_SEGMENT_PROD", [(5, 3), _ROWS, scalar(4)],
                                  lambda x, s, n: joined(np.multiply, 1, x, s, n),
                                  "UnsortedSegmentProdOptions"),
    "unsorted_segment_max": Case("UNSORTED_SEGMENT_MAX", [(5, 3), _ROWS, scalar(4)],
                                 lambda x, s, n: joined(np.maximum, _LIMITS.min, x, s, n),
                                 "UnsortedSegmentMaxOptions"),
    "unsorted_segment_min": Case("UNSORTED_SEGMENT_MIN", [(5, 3), _ROWS, scalar(3)],
                                 lambda x, s, n: joined(np.minimum, _LIMITS.max, x, s, n),
                                 "UnsortedSegmentMinOptions"),
    "sparse_to_dense": Case(
        "SPARSE_TO_DENSE",
        [i32([0, 2], [1, 1], [3, 0]), i32(4, 3), (3,), np.float32(-1).reshape(())],
        lambda p, s, v, d: updated_places(np.full(s, d), p, v), "SparseToDenseOptions"),
    "matrix_diag": Case("MATRIX_DIAG", [(2, 4)], lambda x: x[..., None] * np.eye(4, dtype="f4"),
                        "MatrixDiagOptions"),
    "matrix_set_diag": Case("MATRIX_SET_DIAG", [(2, 3, 5), (2, 3)], with_diagonal,
                            "MatrixSetDiagOptions"),
    "matrix_set_diag_tall": Case("MATRIX_SET_DIAG", [(4, 3), (3,)], with_diagonal,
                                 "MatrixSetDiagOptions"),
    "dynamic_update_slice": Case("DYNAMIC_UPDATE_SLICE", [(4, 6), (2, 3), i32(1, 2)],
                                 lambda x, u, s: updated(x, u, (1, 2)),
                                 "DynamicUpdateSliceOptions"),
    "dynamic_update_slice_beyond": Case("DYNAMIC_UPDATE_SLICE", [(4, 6), (2, 3), i32(9, -2)],
                                        lambda x, u, s: updated(x, u, (2, 0)),
                                        "DynamicUpdateSliceOptions"),
}  # fmt: skip


def updated_places(y: NDArray[Any], places: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Other values at places."""
    y[tuple(places.T)] = values
    return y
