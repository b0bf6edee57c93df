"""Sixteen planes per channel, by (y mod 4, x mod 4): tiles of Winograd F(4x4) in the lanes.

Plane (i, j) holds pixel (4*ty + i, 4*tx + j) at row ty, column tx, so that neighbouring tiles are
neighbouring elements, even across rows, and tiles are read and written without shuffles:

    plane (1, 2) of a 6 x 8 image     1,2   1,6     tile row 0
    (ceil(H/4) + 1 rows of            5,2   5,6     tile row 1
     ceil(W/4) elements):             0     0       zero row

There is a row of zeros below the pixels, and one above them (where the previous plane ends). Pixels
that make H and W multiples of 4 are zero too. There are no zero columns: a window that crosses the
left or right border reads a neighbouring row, and must mask it. Planes begin at multiples of 64
bytes, so that whole cache lines are written; smaller planes share lines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.layouts.layout import Halo, Layout

ORDER = "phase_split"

#: Planes begin at multiples of this many elements; smaller ones at a power of two.
ALIGNMENT = 16


def halo(shape: tuple[int, int, int]) -> Halo:
    """The zero cells that every phase-split image (H, W, C) has."""
    h, w, _ = shape
    return Halo(1, -h % 4 + 1, 0, -w % 4)


def make(shape: tuple[int, int, int], *, slack: int = 0, dtype: DType = DType.FLOAT32) -> Layout:
    """A layout for an image (H, W, C); each plane ends with at least `slack` extra elements."""
    h, w, c = shape
    row = -(-w // 4)
    plane = (-(-h // 4) + 1) * row + slack
    plane += -plane % min(ALIGNMENT, 1 << (plane - 1).bit_length())
    elements = 16 * plane * c
    return Layout(ORDER, shape, row, 1, 16 * plane, 0, elements, halo(shape), slack, plane, dtype)


def _indices(layout: Layout) -> NDArray[np.intp]:
    h, w, c = layout.shape
    y = np.arange(h)[:, None, None]
    x = np.arange(w)[None, :, None]
    plane = (y % 4 * 4 + x % 4) * layout.phase + y // 4 * layout.row + x // 4
    return np.asarray(plane + np.arange(c)[None, None, :] * layout.channel, dtype=np.intp)


def pack(image: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) as stored in memory; gaps are zero."""
    flat = np.zeros(layout.elements, image.dtype)
    flat[_indices(layout)] = image
    return flat


def unpack(flat: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) from its memory."""
    return np.asarray(flat[_indices(layout)])
