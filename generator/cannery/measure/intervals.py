"""How sure a median of several measurements is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

#: The least probability that an interval holds the median, if there are enough measurements.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """The median of some measurements, and the measurements between which the true one lies."""

    low: float
    mid: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        """Whether both may be equal."""
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        low, mid, high = (
            f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
            for value in (self.low, self.mid, self.high)
        )
        return f"{mid} ({low} to {high})"


def interval(values: Sequence[float]) -> Interval:
    """The median's confidence interval, by order statistics, for any distribution.

    The true median is above the k-th smallest of n values unless less than k of them are below it:
    binomial, p = 1/2. There must be at least one value; with fewer than six, all are used, which is
    less certain than CONFIDENCE.
    """
    ordered = sorted(values)
    count = len(ordered)
    tail, below, cut = (1 - CONFIDENCE) / 2, 0.0, 0
    for k in range(count // 2):
        below += comb(count, k) / 2**count
        if below > tail:
            break
        cut = k
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return Interval(ordered[cut], middle, ordered[count - 1 - cut])


def around(value: float, parts: Sequence[float]) -> Interval:
    """The total measurement, within the interval of its consecutive parts."""
    found = interval(parts)
    return Interval(min(found.low, value), value, max(found.high, value))
