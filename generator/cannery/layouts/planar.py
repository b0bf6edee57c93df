"""One plane per channel: float[C][H][W]; pixels of a row, and rows, are neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.layouts import nhwc
from cannery.layouts.layout import Halo, Layout

ORDER = "planar"


def make(
    shape: tuple[int, int, int],
    halo: Halo = Halo(),  # noqa: B008 (frozen)
    *,
    slack: int = 0,
    dtype: DType = DType.FLOAT32,
) -> Layout:
    """A layout for an image (H, W, C). Each plane ends with its own `slack` elements.

    Rows share their pad column: row pitch = W + max(left, right).
    """
    h, w, c = shape
    row = w + max(halo.left, halo.right)
    tail = min(halo.left, halo.right)
    plane = (halo.top + h + halo.bottom) * row + tail + slack
    origin = halo.top * row + halo.left
    return Layout(ORDER, shape, row, 1, plane, origin, plane * c, halo, slack, 0, dtype)


def pack(image: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) as stored in memory; gaps are zero."""
    return nhwc.pack(image, layout)


def unpack(flat: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) from its memory."""
    return nhwc.unpack(flat, layout)
