"""Windows of TensorFlow Lite on floats: convolutions, pools."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontends.tflite_case import IMAGE, Case, i32, normal


def conv(
    x: NDArray[Any], w: NDArray[Any], bias: NDArray[Any], *, strides: tuple[int, int] = (1, 1),
    same: bool = True, dilations: tuple[int, int] = (1, 1), depthwise: bool = False,
) -> NDArray[Any]:  # fmt: skip
    """x[N,H,W,C], w[OC,H,W,C/groups] or, `depthwise`, w[1,H,W,C*m], tap by tap."""
    kernel = w.shape[1:3]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if same:
        sizes = [-(-n // s) for n, s in zip(x.shape[1:3], strides, strict=True)]
        total = [
            max((o - 1) * s + e - n, 0)
            for o, s, e, n in zip(sizes, strides, spans, x.shape[1:3], strict=True)
        ]
        x = np.pad(x, ((0, 0), *((t // 2, t - t // 2) for t in total), (0, 0)))
    sizes = [(n - e) // s + 1 for n, e, s in zip(x.shape[1:3], spans, strides, strict=True)]
    channels = w.shape[3] if depthwise else w.shape[0]
    y = np.zeros((x.shape[0], *sizes, channels))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = slice(
                i * dilations[0], i * dilations[0] + (sizes[0] - 1) * strides[0] + 1, strides[0]
            )
            cols = slice(
                j * dilations[1], j * dilations[1] + (sizes[1] - 1) * strides[1] + 1, strides[1]
            )
            part = x[:, rows, cols]
            if depthwise:
                y += np.repeat(part, channels // x.shape[3], axis=3) * w[0, i, j]
                continue
            groups = x.shape[3] // w.shape[3]
            for g in range(groups):
                outs = slice(g * channels // groups, (g + 1) * channels // groups)
                ins = slice(g * w.shape[3], (g + 1) * w.shape[3])
                y[..., outs] += part[..., ins] @ w[outs, i, j].T
    return y + bias


def transposed(
    shape: NDArray[Any], w: NDArray[Any], x: NDArray[Any], *, strides: tuple[int, int], same: bool
) -> NDArray[Any]:
    """Each input adds its taps w[OC,H,W,IC] to an image, which is then cropped."""
    _, kh, kw, _ = w.shape
    n, h, width, _ = x.shape
    full = np.zeros((n, max((h - 1) * strides[0] + kh, shape[1]) + 9,
                     max((width - 1) * strides[1] + kw, shape[2]) + 9, w.shape[0]))  # fmt: skip
    for i in range(h):
        for j in range(width):
            taps = np.einsum("nc,ohwc->nhwo", x[:, i, j], w)
            full[:, i * strides[0] : i * strides[0] + kh, j * strides[1] : j * strides[1] + kw] += (
                taps
            )
    starts = [0, 0]
    if same:
        sizes = [-(-o // s) for o, s in zip(shape[1:3], strides, strict=True)]
        pads = [
            (o - 1) * s + k - d
            for o, s, k, d in zip(sizes, strides, (kh, kw), shape[1:3], strict=True)
        ]
        starts = [max(p, 0) // 2 for p in pads]
    return full[:, starts[0] : starts[0] + shape[1], starts[1] : starts[1] + shape[2]]


def pool(x: NDArray[Any], kernel: tuple[int, int], stride: int, same: bool, kind: str) -> Any:
    """Windows over what is inside the image."""
    sizes = [
        -(-n // stride) if same else (n - k) // stride + 1
        for n, k in zip(x.shape[1:3], kernel, strict=True)
    ]
    total = [max((o - 1) * stride + k - n, 0) if same else 0
             for o, k, n in zip(sizes, kernel, x.shape[1:3], strict=True)]  # fmt: skip
    y = np.zeros((x.shape[0], *sizes, x.shape[3]))
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            top, left = i * stride - total[0] // 2, j * stride - total[1] // 2
            window = x[:, max(top, 0) : top + kernel[0], max(left, 0) : left + kernel[1]]
            window = window.reshape(x.shape[0], -1, x.shape[3]).astype(np.float64)
            found = {"max": window.max(1), "mean": window.mean(1), "l2": (window**2).mean(1) ** 0.5}
            y[:, i, j] = found[kind]
    return y


_CONV = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
_W, _B, _DW = normal(5, 3, 2, 4), normal(5), normal(1, 3, 2, 8)

WINDOWS: dict[str, Case] = {
    "conv": Case("CONV_2D", [IMAGE, _W, _B], conv, "Conv2DOptions", _CONV),
    "conv_valid": Case(
        "CONV_2D", [IMAGE, _W, _B],
        lambda x, w, b: np.maximum(conv(x, w, b, strides=(2, 1), same=False), 0),
        "Conv2DOptions", {**_CONV, "Padding": 1, "StrideH": 2, "FusedActivationFunction": 1},
    ),
    "conv_strides": Case(
        "CONV_2D", [IMAGE, _W, _B],
        lambda x, w, b: np.clip(conv(x, w, b, strides=(2, 3)), 0, 6),
        "Conv2DOptions", {**_CONV, "StrideH": 2, "StrideW": 3, "FusedActivationFunction": 3},
    ),
    "conv_dilated": Case(
        "CONV_2D", [IMAGE, _W, _B],
        lambda x, w, b: np.clip(conv(x, w, b, dilations=(2, 3)), -1, 1),
        "Conv2DOptions",
        {**_CONV, "DilationHFactor": 2, "DilationWFactor": 3, "FusedActivationFunction": 2},
    ),
    "conv_groups": Case(
        "CONV_2D", [IMAGE, normal(6, 3, 2, 2), normal(6)], conv, "Conv2DOptions", _CONV
    ),
    "depthwise": Case(
        "DEPTHWISE_CONV_2D", [IMAGE, _DW, normal(8)],
        lambda x, w, b: conv(x, w, b, strides=(2, 2), depthwise=True),
        "DepthwiseConv2DOptions", {**_CONV, "StrideH": 2, "StrideW": 2, "DepthMultiplier": 2},
    ),
    "depthwise_of_one": Case(
        "DEPTHWISE_CONV_2D", [(1, 5, 5, 1), normal(1, 3, 3, 3), normal(3)],
        lambda x, w, b: conv(x, w, b, depthwise=True),
        "DepthwiseConv2DOptions", {**_CONV, "DepthMultiplier": 3},
    ),
    "transposed": Case(
        "TRANSPOSE_CONV", [i32(1, 9, 8, 3), normal(3, 3, 2, 4), (1, 4, 4, 4)],
        lambda s, w, x: transposed(s, w, x, strides=(2, 2), same=False),
        "TransposeConvOptions", {"Padding": 1, "StrideH": 2, "StrideW": 2},
    ),
    "transposed_same": Case(
        "TRANSPOSE_CONV", [i32(1, 7, 9, 3), normal(3, 3, 4, 4), (1, 4, 3, 4)],
        lambda s, w, x: transposed(s, w, x, strides=(2, 3), same=True),
        "TransposeConvOptions", {"Padding": 0, "StrideH": 2, "StrideW": 3},
    ),
    "max_pool": Case(
        "MAX_POOL_2D", [IMAGE], lambda x: pool(x, (3, 2), 2, True, "max"), "Pool2DOptions",
        {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 2},
    ),
    "average_pool": Case(
        "AVERAGE_POOL_2D", [IMAGE], lambda x: pool(x, (3, 3), 1, True, "mean"), "Pool2DOptions",
        {"Padding": 0, "StrideH": 1, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 3},
    ),
    "average_pool_valid": Case(
        "AVERAGE_POOL_2D", [IMAGE], lambda x: pool(x, (2, 2), 2, False, "mean"), "Pool2DOptions",
        {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2},
    ),
    "l2_pool": Case(
        "L2_POOL_2D", [IMAGE], lambda x: pool(x, (2, 3), 2, True, "l2"), "Pool2DOptions",
        {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 3},
    ),
}  # fmt: skip
