"""Images of another size: interpolation by tables, and the layer Resizing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.keras.config import LayerConfig
from cannery.frontends.keras.layers.base import LayerPlan, Scope, layer
from cannery.ops.movement.op import Pad, Slice
from cannery.ops.resize.interpolate import Interpolate
from cannery.ops.resize.op import Resize
from cannery.ops.resize.positions import MOST_OUTPUTS, ResizedAxis
from cannery.ops.resize.tables import Filter, axis_table

#: What TensorFlow computes: its bicubic takes weights from a table of 1024 steps.
FILTERS = {
    "bicubic": Filter("cubic", 2, -0.5, exclude_outside=True, steps=1024),
    "lanczos3": Filter("lanczos", 3, exclude_outside=True),
    "lanczos5": Filter("lanczos", 5, exclude_outside=True),
}


def filtered(scope: Scope, x: str, k: int, wanted: int, how: Filter) -> str:
    """The value with `wanted` elements along axis k."""
    size = scope.shape(x)[k]
    if wanted > MOST_OUTPUTS:
        raise UnsupportedError(f"an axis of {wanted} elements, more than {MOST_OUTPUTS}")
    table = axis_table(how, ResizedAxis("half_pixel", size, wanted))
    names = [
        scope.constant(f"places{k}_{size}", lambda: table.places),
        scope.constant(f"weights{k}_{size}", lambda: table.weights),
    ]
    return scope.node(Interpolate(k), [x, *names], f"axis{k}")


def _averaged(scope: Scope, x: str, k: int, wanted: int) -> str:
    """The value with `wanted` elements along axis k: means of the parts that each of them covers.

    Only Keras' TensorFlow backend has "area"; these are the weights of its ResizeArea.
    """
    size = scope.shape(x)[k]
    if wanted > MOST_OUTPUTS:
        raise UnsupportedError(f"an axis of {wanted} elements, more than {MOST_OUTPUTS}")
    places, weights = _covered(size, wanted)
    names = [
        scope.constant(f"places{k}_{size}", lambda: places),
        scope.constant(f"weights{k}_{size}", lambda: weights),
    ]
    return scope.node(Interpolate(k), [x, *names], f"axis{k}")


def _covered(size: int, wanted: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """What each of `wanted` outputs covers of `size` elements, in units of 1/`wanted` of one."""
    starts = np.arange(wanted)[:, np.newaxis] * size
    first, last = starts // wanted, (starts + size - 1) // wanted
    at = first + np.arange(int((last - first).max()) + 1)
    shares = np.minimum((at + 1) * wanted, starts + size) - np.maximum(at * wanted, starts)
    weights = np.maximum(shares, 0) / size
    return np.minimum(at, size - 1).astype(np.int32), weights.astype(np.float32)


_INTERPOLATIONS = ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5")


@layer("Resizing")
def resizing(config: LayerConfig) -> LayerPlan:
    """Images of its size; those of another one are cut or padded to its proportions if wanted.

    The positions of pixels are those of all of Keras' backends, bicubic weights TensorFlow's.
    """
    size = (config.integer("height"), config.integer("width"))
    first = config.channels_first()
    # "gaussian" and "mitchellcubic" blur even images that they do not resize.
    how = config.choice("interpolation", "bilinear", _INTERPOLATIONS)
    crop, pad = (config.flag(f"{word}_to_aspect_ratio", False) for word in ("crop", "pad"))
    smooth, value = config.flag("antialias", False), config.number("fill_value", 0.0)
    config.choice("fill_mode", "constant", ("constant",))

    def build(scope: Scope, inputs: Sequence[str]) -> str:
        x = scope.to_float(scope.single(inputs))
        if scope.rank(x) != 4:
            raise ModelError(f"its input has shape {scope.shape(x)}, expected images")
        x = scope.channels_last(x, first)
        if crop:
            x = _cropped(scope, x, size)
        elif pad:
            x = _padded(scope, x, size, value)
        found = scope.shape(x)[1:3]
        if smooth and any(a < b for a, b in zip(size, found, strict=True)):
            raise UnsupportedError(
                f"it shrinks {found} to {size} with antialias", cure="shrink without antialias"
            )
        y = x if found == size else _resized(scope, x, size, how)
        return scope.channels_back(y, first)

    return LayerPlan(build, trains_by_default=True)


def _resized(scope: Scope, x: str, size: tuple[int, int], how: str) -> str:
    if how == "bilinear":
        return scope.node(Resize("linear", size, "half_pixel", "floor"), [x])
    if how == "nearest":
        return scope.node(Resize("nearest", size, "half_pixel", "round_prefer_ceil"), [x])
    for k, wanted in enumerate(size, start=1):
        if how == "area":
            x = _averaged(scope, x, k, wanted)
        else:
            x = filtered(scope, x, k, wanted, FILTERS[how])
    return x


def _of_proportion(shape: tuple[int, ...], size: tuple[int, int]) -> tuple[int, int]:
    """The height that fits the image's width, and the width that fits its height."""
    (_, h, w, _), (height, width) = shape, size
    return int(float(w * height) / width), int(float(h * width) / height)


def _cropped(scope: Scope, x: str, size: tuple[int, int]) -> str:
    """The largest part in the middle that has the proportions of `size`."""
    n, h, w, c = scope.shape(x)
    fits = _of_proportion((n, h, w, c), size)
    rows, columns = (max(min(d, k), 1) for d, k in zip((h, w), fits, strict=True))
    if (rows, columns) == (h, w):
        return x
    top, left = (h - rows) // 2, (w - columns) // 2
    ends = (n, top + rows, left + columns, c)
    return scope.node(Slice((0, top, left, 0), ends, (1, 1, 1, 1)), [x], "cropped")


def _padded(scope: Scope, x: str, size: tuple[int, int], value: float) -> str:
    """The image with as much on both sides as it takes to get the proportions of `size`."""
    shape = scope.shape(x)
    fits = _of_proportion(shape, size)
    rows, columns = ((max(d, k) - d) // 2 for d, k in zip(shape[1:3], fits, strict=True))
    if not rows and not columns:
        return x
    pads = ((0, 0), (rows, rows), (columns, columns), (0, 0))
    return scope.node(Pad(pads, value), [x], "padded")
