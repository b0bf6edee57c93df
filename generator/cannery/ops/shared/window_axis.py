"""Sliding windows along one spatial axis: which taps of an output lie inside the input.

Tap k of output o reads input  o * stride + k * dilation - pad. Outputs with the same taps inside
form spans, so that borders can be peeled exactly and no kernel tests every tap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cannery.ir.tensor import TensorType
from cannery.ops.window import WindowOp


@dataclass(frozen=True)
class TapSpan:
    """Outputs start .. start+count-1, whose taps first .. last-1 lie inside the input."""

    start: int
    count: int
    first: int
    last: int

    @property
    def taps(self) -> int:
        return self.last - self.first


@dataclass(frozen=True)
class WindowAxis:
    """Input and output sizes, taps, stride, dilation, and the pad before the first input."""

    size: int
    out: int
    taps: int
    stride: int
    dilation: int
    pad: int

    def source(self, o: int, tap: int) -> int:
        """The input index of a tap; it may lie outside."""
        return o * self.stride + tap * self.dilation - self.pad

    def inside(self, o: int) -> tuple[int, int]:
        """The taps (first, last + 1) of output `o` that lie inside; (0, 0) if none does."""
        near = self.pad - o * self.stride  # tap k is inside if 0 <= k * dilation - near < size
        first = max(0, -(-near // self.dilation))
        last = min(self.taps, (near + self.size - 1) // self.dilation + 1)
        return (first, last) if first < last else (0, 0)

    def spans(self) -> tuple[TapSpan, ...]:
        """All outputs, in order."""
        return _spans(self)

    def whole(self) -> tuple[int, int]:
        """The outputs (first, last + 1) all of whose taps lie inside; (0, 0) if none."""
        for span in self.spans():
            if span.taps == self.taps:
                return span.start, span.start + span.count
        return 0, 0


@lru_cache(maxsize=1024)
def _spans(axis: WindowAxis) -> tuple[TapSpan, ...]:
    """See `WindowAxis.spans`; in the middle all taps are inside, so only the borders are
    searched.
    """
    spans: list[TapSpan] = []
    start = 0
    while start < axis.out:
        inside = axis.inside(start)
        end = start + 1
        if inside == (0, axis.taps):  # until the last tap leaves the input
            last = (axis.size - 1 + axis.pad - (axis.taps - 1) * axis.dilation) // axis.stride
            end = min(axis.out, last + 1)
        while end < axis.out and axis.inside(end) == inside:
            end += 1
        spans.append(TapSpan(start, end - start, *inside))
        start = end
    return tuple(spans)


def window_axes(op: WindowOp, x: TensorType, y: TensorType) -> tuple[WindowAxis, WindowAxis]:
    """Rows and columns of a window that slides over an image."""
    rows, cols = (
        WindowAxis(
            x.shape[k + 1], y.shape[k + 1],
            op.kernel[k], op.strides[k], op.dilations[k], op.pads[k][0],
        )
        for k in range(2)
    )  # fmt: skip
    return rows, cols
