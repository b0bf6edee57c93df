"""Channels last: float[H][W][C], with optional halo, channel pitch and slack."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.layouts.layout import Halo, Layout

ORDER = "nhwc"

#: Bytes of a cache line.
LINE = 64

#: Bytes; an eighth of one way of the first-level cache of most processors, see `pitch_apart`.
SHARED_SETS = 512


def make(
    shape: tuple[int, int, int],
    halo: Halo = Halo(),  # noqa: B008 (frozen)
    *,
    slack: int = 0,
    pitch: int = 0,
    dtype: DType = DType.FLOAT32,
) -> Layout:
    """A layout for an image (H, W, C); `pitch` is the distance between neighbouring pixels
    (0: C).
    """
    h, w, c = shape
    col = pitch or c
    row = (w + max(halo.left, halo.right)) * col
    origin = halo.top * row + halo.left * col
    rows = halo.top + h + halo.bottom
    tail = min(halo.left, halo.right) * col
    elements = rows * row + tail + slack
    return Layout(ORDER, shape, row, col, 1, origin, elements, halo, slack, 0, dtype)


def pitch_apart(channels: int, dtype: DType) -> int:
    """The smallest pitch that keeps neighbouring pixels (or others that are read together) from
    sharing cache sets.

    At multiples of `SHARED_SETS` bytes, the same channels of all pixels lie in at most 8 sets, so
    that windows of several rows evict what they read.
    """
    shared = channels * dtype.bytes % SHARED_SETS == 0
    return channels + (LINE // dtype.bytes if shared else 0)


def pack(image: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) as stored in memory; gaps are zero."""
    flat = np.zeros(layout.elements, image.dtype)
    view(flat, layout)[...] = image
    return flat


def unpack(flat: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) from its memory."""
    return np.array(view(flat, layout))


def view(flat: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The pixels of an affine layout as a (H, W, C) view of its memory."""
    item = flat.itemsize
    strides = (layout.row * item, layout.col * item, layout.channel * item)
    first = flat[layout.origin :]
    return np.asarray(np.lib.stride_tricks.as_strided(first, layout.shape, strides))
