"""Sixteen planes per channel, by (y mod 4, x mod 4): tiles of Winograd F(4x4) in the lanes.

Stored coordinates are shifted by the halo (1 above and left), so the 6x6 input tile of output tile
(ty, tx) reads plane (i%4, j%4) at (ty + i//4, tx + j//4): neighbouring tiles are neighbouring
elements, and no shuffle is ever needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.layouts.layout import Halo, Layout

ORDER = "phase_split"
HALO = Halo(1, 1, 1, 1)


def make(shape: tuple[int, int, int], *, slack: int = 0, dtype: DType = DType.FLOAT32) -> Layout:
    """A layout for an image (H, W, C) with a halo of one cell on each side.

    A plane has ceil(H/4)+1 rows of ceil(W/4)+1 elements, then `slack`.
    """
    h, w, c = shape
    row = -(-w // 4) + 1
    plane = (-(-h // 4) + 1) * row + slack
    return Layout(ORDER, shape, row, 1, 16 * plane, 0, 16 * plane * c, HALO, slack, plane, dtype)


def _indices(layout: Layout) -> NDArray[np.intp]:
    h, w, c = layout.shape
    y = np.arange(h)[:, None, None] + 1
    x = np.arange(w)[None, :, None] + 1
    plane = (y % 4 * 4 + x % 4) * layout.phase + y // 4 * layout.row + x // 4
    return np.asarray(plane + np.arange(c)[None, None, :] * layout.channel, dtype=np.intp)


def pack(image: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) as it lies in memory; gaps are zero."""
    flat = np.zeros(layout.elements, image.dtype)
    flat[_indices(layout)] = image
    return flat


def unpack(flat: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) from its memory."""
    return np.asarray(flat[_indices(layout)])
