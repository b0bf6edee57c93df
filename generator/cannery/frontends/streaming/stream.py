"""How a value of a whole sequence comes call by call, and what a window along time needs of it.

Elements are counted along time as in the whole sequence, from 0. A call brings the next `count`
elements of each value; with strides, values have fewer elements than the input has steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.frontends.time_axis import FINAL, Time
from cannery.ir.graph import Array


@dataclass(frozen=True)
class Stream:
    """The elements of a value that a call brings, along the axis `time`.

    The first call brings the elements from -delay on. With a positive delay a value needs inputs
    that come later; its elements before 0 do not exist in the sequence, and nobody may use them.
    With a negative one its first -delay elements are known before the first call: padding, or
    what layers make of it. `lead` has them, in the shape that the value has for so many elements.
    Or the first `copies` elements are copies of the next one; then there is no `lead`.
    With strides, calls may be too short for a whole element: a value comes once in `every` calls,
    and then `count` elements.
    A value that is FINAL has one element, what would be if the sequence ended with this call;
    `count` and `delay` are those of what it was made of.
    """

    time: Time
    count: int = 1
    delay: int = 0
    lead: Array | None = None
    every: int = 1
    copies: int = 0

    @property
    def final(self) -> bool:
        """Whether the value is that of a sequence that ends with this call."""
        return self.time == FINAL


@dataclass(frozen=True)
class Window:
    """Element j of the result reads the elements j * stride + k * dilation - before, k < taps."""

    taps: int
    stride: int = 1
    dilation: int = 1
    before: int = 0

    @property
    def span(self) -> int:
        """From the first to the last element that a window reads."""
        return (self.taps - 1) * self.dilation + 1

    def delay(self, source: int) -> int:
        """The least delay of the result, where the source has the delay `source`; below 0, as many
        windows read nothing that comes with a call.

        After a call the source is known before the element e = n - source, for n elements a call;
        the last window that ends before e is that of the element n / stride - 1 - delay.
        """
        return -((self.stride + self.before - self.span - source) // self.stride)

    def reach(self, source: int, delay: int) -> int:
        """How many elements before those of a call the windows of a result with this delay read;
        below 0: they skip some.
        """
        return delay * self.stride + self.before - source

    def length(self, results: int) -> int:
        """How many elements this many windows read, from the first to the last."""
        return (results - 1) * self.stride + self.span
