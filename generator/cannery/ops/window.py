"""Arithmetic of sliding windows, shared by convolutions and pools.

Per spatial axis, tap k of output o reads input  o * stride + k * dilation - pad_begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, product
from math import prod

from cannery.ir.registry import Op
from cannery.ops.checks import require

#: ((begin, end), ...) per spatial axis.
Pads = tuple[tuple[int, int], ...]


#: Taps of a window.
MAX_TAPS = 2**22

#: What strides, pads and the extents of windows may be: sums of them are int32 in generated code.
MAX_STEP = 2**29

#: Pixels of an image with its padding, or before it is cropped, if it is much larger than without.
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
    """Raises ModelError unless all are given once per spatial axis, and positive (pads: >= 0)."""
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

    Raises ModelError for bad attributes and where the window does not fit even once.
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


def check_padded(op: Op, image: Sequence[int], padded: Sequence[int]) -> None:
    """Raises ModelError where padding makes an image huge."""
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


def require_no_empty_window(
    op: Op,
    spatial: tuple[int, ...],
    out: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: Pads,
    dilations: tuple[int, ...],
) -> None:
    """Raises ModelError if some window reads nothing but padding."""
    for axis, (size, count, k, s, (begin, _), d) in enumerate(
        zip(spatial, out, kernel, strides, pads, dilations, strict=True)
    ):
        # A window that begins within the input has a tap there: others are the first and the last.
        for o in chain(range(min(count, -(-begin // s))), (count - 1,)):
            first = max(0, -(-(begin - o * s) // d))  # the first tap that is not before the input
            require(
                first < k and o * s + first * d - begin < size,
                op,
                f"window {o} on spatial axis {axis} lies wholly in the padding {pads}",
            )
