"""Memory layouts: one module per order, found by its name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cannery.layouts import nhwc, phase_split, planar
from cannery.layouts.layout import Halo, Layout, Want, image_dims, reinterpret

__all__ = ["ORDERS", "Halo", "Layout", "Want", "image_dims", "pack", "reinterpret", "unpack"]

#: The orders, most preferred first if all else is equal.
ORDERS = (nhwc.ORDER, planar.ORDER, phase_split.ORDER)

_MODULES = {module.ORDER: module for module in (nhwc, planar, phase_split)}


def pack(image: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) as stored under any layout; gaps are zero."""
    return np.asarray(_MODULES[layout.order].pack(image, layout))


def unpack(flat: NDArray[np.generic], layout: Layout) -> NDArray[np.generic]:
    """The image (H, W, C) from its memory under any layout."""
    return np.asarray(_MODULES[layout.order].unpack(flat, layout))
