"""Memory layouts: one module per order, found by its name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.ir.tensor import DType
from cannery.layouts import nhwc, phase_split, planar
from cannery.layouts.layout import Halo, Layout, Want, image_dims, reinterpret

__all__ = [
    "ORDERS",
    "Halo",
    "Layout",
    "Want",
    "image_dims",
    "pack",
    "plainest",
    "reinterpret",
    "unpack",
]

#: The orders, most preferred first if all else is equal.
ORDERS = (nhwc.ORDER, planar.ORDER, phase_split.ORDER)

_MODULES = {module.ORDER: module for module in (nhwc, planar, phase_split)}


def plainest(shape: tuple[int, int, int], want: Want, dtype: DType = DType.FLOAT32) -> Layout:
    """The plainest layout of an image (H, W, C) that meets `want`."""
    if want.order == planar.ORDER:
        return planar.make(shape, want.halo, slack=want.slack, dtype=dtype)
    if want.order == phase_split.ORDER:
        return phase_split.make(shape, slack=want.slack, dtype=dtype)
    pitch = nhwc.pitch_apart(shape[2], dtype) if want.apart else shape[2]
    return nhwc.make(shape, want.halo, slack=want.slack, pitch=pitch, dtype=dtype)


def pack(image: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) as stored under any layout; gaps are zero."""
    return np.asarray(_MODULES[layout.order].pack(image, layout))


def unpack(flat: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) from its memory under any layout."""
    return np.asarray(_MODULES[layout.order].unpack(flat, layout))
