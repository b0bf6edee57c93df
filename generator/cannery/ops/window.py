"""Arithmetic of sliding windows, shared by convolutions and pools.

Per spatial axis, tap k of output o reads input  o * stride + k * dilation - pad_begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cannery.ir.registry import Op
from cannery.ops.checks import require

T = TypeVar("T", bound=np.generic)

#: ((begin, end), ...) per spatial axis.
Pads = tuple[tuple[int, int], ...]


#: Taps of a window.
MAX_TAPS = 2**22

#: Limit on strides, pads and extents of windows: sums of them are int32 in generated code.
MAX_STEP = 2**29

#: Most pixels of an image with padding, or before cropping, if that makes it much larger.
MAX_PADDED = 2**24


def extent(kernel: int, dilation: int) -> int:
    """Input elements from the first to the last tap of a window."""
    return dilation * (kernel - 1) + 1


def check_attributes(
    op: Op,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: Pads,
    dilations: tuple[int, ...],
) -> None:
    """Raises ModelError unless all have one value per spatial axis, and are positive (pads:
    >= 0).
    """
    rank = len(kernel)
    require(rank >= 1, op, "needs at least one spatial axis")
    for name, values in (("strides", strides), ("pads", pads), ("dilations", dilations)):
        require(len(values) == rank, op, f"{name} {values} must have one entry per axis ({rank})")
    for name, sizes in (("kernel", kernel), ("strides", strides), ("dilations", dilations)):
        require(all(s >= 1 for s in sizes), op, f"{name} {sizes} must be positive")
    steps = max(*kernel, *strides, *dilations, *(p for pair in pads for p in pair))
    steps = max(steps, *map(extent, kernel, dilations))
    small = prod(kernel) <= MAX_TAPS and steps <= MAX_STEP
    require(
        small,
        op,
        f"kernel {kernel}, strides {strides}, pads {pads}, or dilations {dilations} are too large",
    )
    sound = all(len(pair) == 2 and min(pair) >= 0 for pair in pads)
    require(sound, op, f"pads {pads} must be pairs (begin, end), none negative")


def output_sizes(
    op: Op,
    spatial: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: Pads,
    dilations: tuple[int, ...],
) -> tuple[int, ...]:
    """Spatial output sizes of a window that slides over the padded input, rounded down.

    Raises ModelError for bad attributes, and if the window does not fit even once.
    """
    check_attributes(op, kernel, strides, pads, dilations)
    require(
        len(spatial) == len(kernel), op, f"input has {len(spatial)} spatial axes, not {len(kernel)}"
    )
    sizes = []
    for axis, (size, k, s, (begin, end), d) in enumerate(
        zip(spatial, kernel, strides, pads, dilations, strict=True)
    ):
        padded = begin + size + end
        fits = extent(k, d) <= padded
        what = (
            f"kernel {k} (dilation {d}) spans {extent(k, d)}, more than the padded input {padded}"
        )
        require(fits, op, f"{what} on spatial axis {axis}")
        sizes.append((padded - extent(k, d)) // s + 1)
    check_padded(op, spatial, [b + size + e for size, (b, e) in zip(spatial, pads, strict=True)])
    return tuple(sizes)


def same_pads(
    spatial: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Pads:
    """Pads for ceil(size / stride) outputs; if they are odd, the end gets more."""
    pads = []
    for size, k, s, d in zip(spatial, kernel, strides, dilations, strict=True):
        outputs = -(-size // s)
        total = max((outputs - 1) * s + extent(k, d) - size, 0)
        pads.append((total // 2, total - total // 2))
    return tuple(pads)


def check_padded(op: Op, image: Sequence[int], padded: Sequence[int]) -> None:
    """Raises ModelError if padding makes an image huge."""
    fits = prod(padded) <= max(MAX_PADDED, 4 * prod(image))
    require(
        fits, op, f"an image of {tuple(image)} is padded to {tuple(padded)}, which is too large"
    )


def tap_slices(
    kernel: tuple[int, ...],
    out: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Every tap in row-major order, with the index into x[N,*S,C], padded, that it reads."""
    for tap in product(*map(range, kernel)):
        slices = tuple(
            slice(k * d, k * d + (o - 1) * s + 1, s)
            for k, o, s, d in zip(tap, out, strides, dilations, strict=True)
        )
        yield tap, (slice(None), *slices)


@dataclass(frozen=True)
class WindowOp(Op):
    """An operator that slides a window over space, each channel on its own."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: Pads
    dilations: tuple[int, ...]

    def sizes(self, spatial: tuple[int, ...], *, padding_alone: bool = False) -> tuple[int, ...]:
        """Spatial output sizes; raises ModelError for attributes that do not fit.

        Windows that read only padding also raise it, unless `padding_alone`.
        """
        window = (self.kernel, self.strides, self.pads, self.dilations)
        sizes = output_sizes(self, spatial, *window)
        if not padding_alone:
            require_no_empty_window(self, spatial, sizes, *window)
        return sizes

    def taps(self, x: NDArray[T], fill: float = 0) -> Iterator[NDArray[T]]:
        """What each tap of all windows reads from x[N,*S,C], surrounded by `fill`; row-major
        order.
        """
        sizes = self.sizes(x.shape[1:-1], padding_alone=True)
        padded = np.pad(x, ((0, 0), *self.pads, (0, 0)), constant_values=fill)
        for _, slices in tap_slices(self.kernel, sizes, self.strides, self.dilations):
            yield padded[slices]

    def sums(self, x: NDArray[Any]) -> NDArray[Any]:
        """The sum of each window of x[N,*S,C], tap by tap in row-major order; padding is 0."""
        total = np.zeros(1, x.dtype)
        for tap in self.taps(x):
            total = total + tap
        return total


def require_no_empty_window(
    op: Op,
    spatial: tuple[int, ...],
    out: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: Pads,
    dilations: tuple[int, ...],
) -> None:
    """Raises ModelError if some window reads only padding."""
    for axis, (size, count, k, s, (begin, _), d) in enumerate(
        zip(spatial, out, kernel, strides, pads, dilations, strict=True)
    ):
        # A window that begins within the input has a tap there: others are the first and the last.
        for o in chain(range(min(count, -(-begin // s))), (count - 1,)):
            first = max(0, -(-(begin - o * s) // d))  # the first tap that is not before the input
            require(
                first < k and o * s + first * d - begin < size,
                op,
                f"window {o} on spatial axis {axis} lies entirely in the padding {pads}",
            )
