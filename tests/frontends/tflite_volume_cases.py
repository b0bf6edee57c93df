"""Convolutions of TensorFlow Lite with three spatial axes, on floats."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.tflite_case import Case, normal


def conv_3d(
    x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any], *, stride: int = 1, same: bool = True
) -> NDArray[Any]:
    """x[N,D,H,W,IC], w[KD,KH,KW,IC,OC], tap by tap."""
    kernel = w.shape[:3]
    if same:
        total = [
            max((-(-n // stride) - 1) * stride + k - n, 0)
            for n, k in zip(x.shape[1:4], kernel, strict=True)
        ]
        x = np.pad(x, ((0, 0), *((t // 2, t - t // 2) for t in total), (0, 0)))
    sizes = [(n - k) // stride + 1 for n, k in zip(x.shape[1:4], kernel, strict=True)]
    y = np.zeros((x.shape[0], *sizes, w.shape[4]))
    for tap in product(*map(range, kernel)):
        spans = [
            slice(t, t + (n - 1) * stride + 1, stride) for t, n in zip(tap, sizes, strict=True)
        ]
        y += x[:, spans[0], spans[1], spans[2]] @ w[tap]
    return y + bias


def transposed_3d(
    shape: NDArray[Any], w: NDArray[Any], x: NDArray[Any], *, stride: int, same: bool
) -> NDArray[Any]:
    """Each input adds its taps w[KD,KH,KW,OC,IC] to a volume, which is then cropped."""
    room = [(n - 1) * stride + k + 9 for n, k in zip(x.shape[1:4], w.shape[:3], strict=True)]
    full = np.zeros((x.shape[0], *room, w.shape[3]))
    for place in product(*map(range, x.shape[1:4])):
        spans = [slice(p * stride, p * stride + k) for p, k in zip(place, w.shape, strict=False)]
        taps = np.einsum("dhwoc,nc->ndhwo", w, x[(slice(None), *place)])
        full[:, spans[0], spans[1], spans[2]] += taps
    begins = [0, 0, 0]
    if same:
        sizes = zip(x.shape[1:4], w.shape[:3], shape[1:4], strict=True)
        begins = [max((n - 1) * stride + k - int(o), 0) // 2 for n, k, o in sizes]
    cut = [slice(b, b + int(o)) for b, o in zip(begins, shape[1:4], strict=True)]
    return full[:, cut[0], cut[1], cut[2]]


_VOLUME = (2, 5, 4, 6, 3)
_PLAIN = {f"Stride{axis}": 1 for axis in "DHW"} | {f"Dilation{axis}Factor": 1 for axis in "DHW"}
_TWO = _PLAIN | {f"Stride{axis}": 2 for axis in "DHW"}

VOLUMES: dict[str, Case] = {
    "conv_3d": Case(
        "CONV_3D", [_VOLUME, normal(3, 2, 3, 3, 4), normal(4)], conv_3d, "Conv3DOptions",
        {**_PLAIN, "Padding": 0},
    ),
    "conv_3d_valid": Case(
        "CONV_3D", [_VOLUME, normal(2, 3, 3, 3, 4), normal(4)],
        lambda x, w, b: np.maximum(conv_3d(x, w, b, stride=2, same=False), 0), "Conv3DOptions",
        {**_TWO, "Padding": 1, "FusedActivationFunction": 1},
    ),
    "conv_3d_transpose": Case(
        "CONV_3D_TRANSPOSE",
        [np.array([2, 10, 8, 12, 4], np.int32), normal(3, 3, 3, 4, 3), _VOLUME],
        lambda s, w, x: transposed_3d(s, w, x, stride=2, same=True), "Conv3DOptions",
        {**_TWO, "Padding": 0},
    ),
    "conv_3d_transpose_valid": Case(
        "CONV_3D_TRANSPOSE",
        [np.array([2, 11, 9, 13, 4], np.int32), normal(3, 2, 3, 4, 3), _VOLUME],
        lambda s, w, x: transposed_3d(s, w, x, stride=2, same=False), "Conv3DOptions",
        {**_TWO, "Padding": 1},
    ),
}  # fmt: skip
