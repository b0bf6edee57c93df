"""Sizes and paddings of sliding windows, as Keras and TensorFlow define them."""

from __future__ import annotations

from cannery.errors import ModelError
from cannery.ops.window import Pads, extent, same_pads


def window_pads(
    padding: str,
    spatial: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Pads:
    """Pads for padding "valid", "same" or "causal" (all before, so that no output looks ahead)."""
    check_rank(spatial, len(kernel))
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "causal":
        return tuple((extent(k, d) - 1, 0) for k, d in zip(kernel, dilations, strict=True))
    return same_pads(spatial, kernel, strides, dilations)


def check_rank(spatial: tuple[int, ...], rank: int) -> None:
    """Raises ModelError unless the input has `rank` spatial axes."""
    if len(spatial) != rank:
        raise ModelError(f"its input has {len(spatial)} spatial axes, expected {rank}")


def transpose_geometry(
    padding: str,
    spatial: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    output_padding: tuple[int, ...] | None,
) -> tuple[Pads, tuple[int, ...]]:
    """Pads and output paddings of a ConvTranspose that computes what TensorFlow computes.

    That is the gradient of a convolution with the same padding, whose input has the output's size.
    The result is the part of the full output, of that size, that begins where the padding ends.
    """
    check_rank(spatial, len(kernel))
    pads, extra = [], []
    for axis, (size, k, s, d) in enumerate(zip(spatial, kernel, strides, dilations, strict=True)):
        more = None if output_padding is None else output_padding[axis]
        outputs = _transposed_size(padding, size, extent(k, d), s, more)
        full = (size - 1) * s + extent(k, d)
        begin = max(full - outputs, 0) // 2 if padding == "same" else 0
        pads.append((begin, max(full - begin - outputs, 0)))
        extra.append(max(outputs - (full - begin), 0))
    return tuple(pads), tuple(extra)


def _transposed_size(padding: str, size: int, window: int, stride: int, more: int | None) -> int:
    """Output size of a transposed convolution in Keras; `more` is the output padding, if given."""
    if more is None:
        return size * stride + (max(window - stride, 0) if padding == "valid" else 0)
    pad = window // 2 if padding == "same" else 0
    return (size - 1) * stride + window - 2 * pad + more
