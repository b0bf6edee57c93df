"""Sliding windows along one spatial axis: which taps of an output lie inside the input.

Tap k of output o reads input  o * stride + k * dilation - pad. Outputs with the same taps inside
form spans, so that borders can be peeled exactly and no kernel has to test every tap.
"""

from __future__ import annotations

from dataclasses import dataclass


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
        found = [k for k in range(self.taps) if 0 <= self.source(o, k) < self.size]
        return (found[0], found[-1] + 1) if found else (0, 0)

    def spans(self) -> tuple[TapSpan, ...]:
        """All outputs, in order."""
        spans: list[TapSpan] = []
        for o in range(self.out):
            first, last = self.inside(o)
            if spans and (spans[-1].first, spans[-1].last) == (first, last):
                spans[-1] = TapSpan(spans[-1].start, spans[-1].count + 1, first, last)
            else:
                spans.append(TapSpan(o, 1, first, last))
        return tuple(spans)

    def whole(self) -> tuple[int, int]:
        """The outputs (first, last + 1) all of whose taps lie inside; (0, 0) if none."""
        for span in self.spans():
            if span.taps == self.taps:
                return span.start, span.start + span.count
        return 0, 0
