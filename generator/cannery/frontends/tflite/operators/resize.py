"""Resized images."""

from __future__ import annotations

import numpy as np

from cannery.errors import ModelError
from cannery.frontends.tflite.scope import Scope, operator
from cannery.ops.indexing.gather import Gather
from cannery.ops.resize.op import Resize


@operator("RESIZE_BILINEAR")
def resize_bilinear(scope: Scope) -> str:
    """Between the four elements around a position."""
    mode = coordinates(scope)
    return scope.node(Resize("linear", new_sizes(scope), mode, "floor"), [scope.input(0)])


def coordinates(scope: Scope) -> str:
    """How positions are computed, by ONNX's names."""
    aligned, centres = scope.flag("AlignCorners"), scope.flag("HalfPixelCenters")
    if aligned and centres:
        raise ModelError("its corners and its half pixels are both aligned")
    return "align_corners" if aligned else "half_pixel" if centres else "asymmetric"


def new_sizes(scope: Scope) -> tuple[int, int]:
    """The new size of an image."""
    sizes = scope.known_integers(1, "its size")
    if len(sizes) != 2 or not all(1 <= s <= 2**16 for s in sizes):
        raise ModelError(f"its size {sizes}")
    shape = scope.shape(scope.input(0))
    if len(shape) != 4 or 0 in shape:
        raise ModelError(f"its input has the shape {shape}")
    return sizes[0], sizes[1]


@operator("RESIZE_NEAREST_NEIGHBOR", moves=True)
def resize_nearest(scope: Scope) -> str:
    """The element at a position, in float32 as the reference kernels have it."""
    x, sizes, mode = scope.input(0), new_sizes(scope), coordinates(scope)
    names = {"asymmetric": "asymmetric", "half_pixel": "tf_half_pixel_for_nn"}
    taken = [_nearest(scope.shape(x)[a + 1], sizes[a], mode) for a in range(2)]
    if mode in names:
        op = Resize("nearest", sizes, names[mode], "floor")
        found = [[s.low for s in op.samples(a, scope.shape(x)[a + 1])] for a in range(2)]
        if found == taken:
            return scope.node(op, [x])
    for axis, places in enumerate(taken):
        indices = scope.constant(f"places{axis}", np.asarray(places, np.int32))
        x = scope.node(Gather(axis + 1), [x, indices], f"axis{axis}")
    return x


def _nearest(size: int, out: int, mode: str) -> list[int]:
    """Which element each output takes."""
    f32 = np.float32
    if mode == "align_corners" and out > 1:
        scale = f32(size - 1) / f32(out - 1)
    else:
        scale = f32(size) / f32(out)
    at = np.arange(out, dtype=f32) + f32(0.5 if mode == "half_pixel" else 0.0)
    exact = at * scale
    whole = np.floor(exact + f32(0.5)) if mode == "align_corners" else np.floor(exact)
    return [int(v) for v in np.clip(whole, 0, size - 1)]
