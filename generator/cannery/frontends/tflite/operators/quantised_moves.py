"""Moves of integers that fill or mix: padding, images of another size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.tflite.operators.movement import pads_of
from cannery.frontends.tflite.operators.resize import coordinates, new_sizes
from cannery.frontends.tflite.quantities import output_range, quantity, require_same
from cannery.frontends.tflite.rescaled import in_float64
from cannery.frontends.tflite.scope import Scope, quantised
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add, Mul
from cannery.ops.indexing.gather import Gather
from cannery.ops.movement.op import Cast, Pad

#: Weights of pixels are in units of 2^-BITS.
_BITS = 10


@quantised("PAD", "PADV2")
def pad(scope: Scope) -> str:
    """With the zero point, or with the integer that is the third input."""
    require_same(scope)
    known = quantity(scope, 0)
    assert known is not None
    value = known.zero
    if scope.kind == "PADV2":
        given = scope.known(2, "its value")
        if given.size != 1:
            raise ModelError(f"{given.size} values for padding")
        value = int(given.item())
    return scope.node(Pad(pads_of(scope, scope.input(0)), float(value)), [scope.input(0)])


@quantised("RESIZE_BILINEAR")
def resize_bilinear(scope: Scope) -> str:
    """Weighted sums of four pixels, exact, then rounded, halves away from zero."""
    require_same(scope)
    x, sizes, mode = scope.input(0), new_sizes(scope), coordinates(scope)
    known, y = quantity(scope, 0), output_range(scope, activation=False)
    assert known is not None
    if known.dtype is DType.UINT8:
        raise UnsupportedError("on uint8 it is not supported")
    dtype = DType.INT64 if known.dtype is DType.INT16 else DType.INT32
    value = scope.node(Cast(dtype), [x], "wide")
    for axis, size in enumerate(sizes):
        value = _between(scope, value, axis + 1, size, mode, dtype)
    whole = replace(y, zero=0)
    return in_float64(scope, value, 2.0 ** (-2 * _BITS), whole)


def _between(scope: Scope, x: str, axis: int, size: int, mode: str, dtype: DType) -> str:
    """Weighted sums of two neighbours along an axis."""
    places, weights = _neighbours(scope.shape(x)[axis], size, mode)
    shape = tuple(size if a == axis else 1 for a in range(4))
    parts = []
    for k in range(2):
        indices = scope.constant(f"places{axis}{k}", places[k].astype(np.int32))
        taken = scope.node(Gather(axis), [x, indices], f"taken{axis}{k}")
        weight = scope.constant(f"weights{axis}{k}", weights[k].astype(dtype.numpy).reshape(shape))
        parts.append(scope.node(Mul(), [taken, weight], f"part{axis}{k}"))
    return scope.node(Add(), parts, f"along{axis}")


def _neighbours(before: int, after: int, mode: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The two elements between which each new one is, and their weights."""
    one = 1 << _BITS
    step = (one * before + after // 2) // after
    if mode == "align_corners" and after > 1:
        step = (one * (before - 1) + (after - 1) // 2) // (after - 1)
    at = np.arange(after, dtype=np.int64) * step
    if mode == "half_pixel":
        at += step // 2 - one // 2
    low = np.clip(at // one, 0, before - 1)
    high = np.clip((at + one - 1) // one, 0, before - 1)
    share = at - one * low
    return np.stack([low, high]), np.stack([one - share, share])
