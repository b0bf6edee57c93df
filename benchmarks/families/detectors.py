"""Networks that find things in images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from families.onnx_builder import OnnxBuilder


def _blaze_block(b: OnnxBuilder, x: str, filters: int, stride: int = 1) -> str:
    """Depthwise and 1x1; the shortcut is pooled, and gets channels of zeros."""
    _, taken, h, w = b.shapes[x]
    source = x
    if stride == 2:
        ends = b.integers(0, 0, 0, 0, 0, 0, 2, 2)
        x = b.node("Pad", (1, taken, h + 2, w + 2), x, ends)
        source = b.pool(source, 2, 2)
    x = b.conv(x, taken, 3, stride, pad=0 if stride == 2 else 1, groups=taken, gain=1.0)
    x = b.conv(x, filters, 1)
    if filters > taken:
        ends = b.integers(0, 0, 0, 0, 0, filters - taken, 0, 0)
        source = b.node("Pad", (1, filters, *b.shapes[source][2:]), source, ends)
    return b.relu(b.add(x, source))


def _anchors(b: OnnxBuilder, x: str, values: int) -> str:
    """A head's values: one row for each anchor, of which a pixel has as many as fit."""
    _, c, h, w = b.shapes[x]
    return b.reshape(b.transpose(x, 0, 2, 3, 1), 1, h * w * c // values, values)


def blazeface() -> Any:
    """Bazarevsky et al., "BlazeFace", 2019; as MediaPipe's, 128x128x3, 896 anchors, 31 MMAC."""
    b = OnnxBuilder("blazeface", 51)
    x = b.input("image", 1, 3, 128, 128)
    padded = b.node("Pad", (1, 3, 131, 131), x, b.integers(0, 0, 1, 1, 0, 0, 2, 2))
    x = b.relu(b.conv(padded, 24, 5, 2, pad=0))
    for filters, stride in (
        (24, 1), (28, 1), (32, 2), (36, 1), (42, 1), (48, 2), (56, 1), (64, 1), (72, 1), (80, 1),
        (88, 1),
    ):  # fmt: skip
        x = _blaze_block(b, x, filters, stride)
    fine = x
    for stride in (2, 1, 1, 1, 1):
        x = _blaze_block(b, x, 96, stride)
    maps = ((fine, 2), (x, 6))
    scores = [_anchors(b, b.conv(v, n, 1), 1) for v, n in maps]
    boxes = [_anchors(b, b.conv(v, 16 * n, 1), 16) for v, n in maps]
    return b.model(boxes=b.concat(boxes), scores=b.concat(scores))


def unet() -> Any:
    """Ronneberger et al., "U-Net", 2015; 128x128x3, 16 to 256 channels, padded, 758 MMAC."""
    b = OnnxBuilder("unet", 52)
    x = b.input("image", 1, 3, 128, 128)

    def twice(x: str, filters: int) -> str:
        return b.relu(b.conv(b.relu(b.conv(x, filters)), filters))

    skips = []
    for filters in (16, 32, 64, 128):
        skips.append(twice(x, filters))
        x = b.pool(skips[-1], 2, 2)
    x = twice(x, 256)
    for skip in reversed(skips):
        _, c, h, w = b.shapes[skip]
        kernel = b.normal(2 * c, c, 2, 2, scale=(2 * c) ** -0.5)
        bias = b.normal(c, scale=0.1)
        x = b.node("ConvTranspose", (1, c, h, w), x, kernel, bias, kernel_shape=[2, 2],
                   strides=[2, 2])  # fmt: skip
        x = twice(b.concat([skip, x]), c)
    return b.model(mask=b.plain("Sigmoid", b.conv(x, 1, 1)))


def _silu_conv(b: OnnxBuilder, x: str, filters: int, kernel: int = 3, stride: int = 1) -> str:
    return b.silu(b.conv(x, filters, kernel, stride))


def _c2f(b: OnnxBuilder, x: str, filters: int, repeats: int, *, residual: bool) -> str:
    """Halves, one of which goes on through bottlenecks; all results are joined."""
    half = filters // 2
    parts = b.split(_silu_conv(b, x, filters, 1), half, half)
    for _ in range(repeats):
        inner = _silu_conv(b, _silu_conv(b, parts[-1], half), half)
        parts.append(b.add(parts[-1], inner) if residual else inner)
    return _silu_conv(b, b.concat(parts), filters, 1)


def _double(b: OnnxBuilder, x: str) -> str:
    _, c, h, w = b.shapes[x]
    scales = b.constant(np.array([1, 1, 2, 2], np.float32))
    return b.node("Resize", (1, c, 2 * h, 2 * w), x, "", scales, mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip


def _yolo_maps(b: OnnxBuilder, x: str) -> list[str]:
    """Backbone and neck: maps of 40x40, 20x20 and 10x10."""
    x = _silu_conv(b, _silu_conv(b, x, 16, 3, 2), 32, 3, 2)
    x = _silu_conv(b, _c2f(b, x, 32, 1, residual=True), 64, 3, 2)
    at_40 = _c2f(b, x, 64, 2, residual=True)
    at_20 = _c2f(b, _silu_conv(b, at_40, 128, 3, 2), 128, 2, residual=True)
    x = _c2f(b, _silu_conv(b, at_20, 256, 3, 2), 256, 1, residual=True)
    pooled = [_silu_conv(b, x, 128, 1)]
    for _ in range(3):
        pooled.append(b.pool(pooled[-1], 5, 1, 2))
    at_10 = _silu_conv(b, b.concat(pooled), 256, 1)
    up_20 = _c2f(b, b.concat([_double(b, at_10), at_20]), 128, 1, residual=False)
    out_40 = _c2f(b, b.concat([_double(b, up_20), at_40]), 64, 1, residual=False)
    down_20 = b.concat([_silu_conv(b, out_40, 64, 3, 2), up_20])
    out_20 = _c2f(b, down_20, 128, 1, residual=False)
    down_10 = b.concat([_silu_conv(b, out_20, 128, 3, 2), at_10])
    return [out_40, out_20, _c2f(b, down_10, 256, 1, residual=False)]


def _yolo_head(b: OnnxBuilder, x: str) -> str:
    """What a map says of boxes (four sides, 16 distances each) and of 80 classes."""
    sides = _silu_conv(b, _silu_conv(b, x, 64), 64)
    classes = _silu_conv(b, _silu_conv(b, x, 80), 80)
    joined = b.concat([b.conv(sides, 64, 1), b.conv(classes, 80, 1)])
    _, c, h, w = b.shapes[joined]
    return b.reshape(joined, 1, c, h * w)


def _centres(sizes: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The middle of each pixel of square maps, x above y."""
    grids = [np.mgrid[0:n, 0:n][::-1].reshape(2, -1) + 0.5 for n in sizes]
    return np.concatenate(grids, axis=1).astype(np.float32)[None]


def yolov8n() -> Any:
    """Jocher et al., "Ultralytics YOLOv8", 2023; size n, 320x320x3, 1.1 GMAC."""
    b = OnnxBuilder("yolov8n", 53)
    maps = _yolo_maps(b, b.input("image", 1, 3, 320, 320))
    joined = b.concat([_yolo_head(b, x) for x in maps], axis=2)
    sizes = [b.shapes[x][-1] for x in maps]
    count = b.shapes[joined][-1]
    sides, classes = b.split(joined, 64, 80)
    shares = b.transpose(b.reshape(sides, 1, 4, 16, count), 0, 2, 1, 3)
    shares = b.plain("Softmax", shares, axis=1)
    steps = b.constant(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    distances = b.node("Conv", (1, 1, 4, count), shares, steps, kernel_shape=[1, 1])
    near, far = b.split(b.reshape(distances, 1, 4, count), 2, 2)
    centres = b.constant(_centres(sizes))
    low, high = b.plain("Sub", near, centres), b.plain("Add", far, centres)
    low = b.plain("Neg", low)
    middle = b.plain("Div", b.add(low, high), b.scalar(2))
    boxes = b.concat([middle, b.plain("Sub", high, low)])
    pixels = np.concatenate([np.full(n * n, 320 // n, np.float32) for n in sizes])[None]
    boxes = b.plain("Mul", boxes, b.constant(pixels))
    return b.model(found=b.concat([boxes, b.plain("Sigmoid", classes)]))
