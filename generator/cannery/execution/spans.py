"""What is proved of a value: where it lies in exact arithmetic, and its largest error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

#: The unit roundoff of float32, and the most that underflow changes a result by.
UNIT, UNDERFLOW = 2.0**-24, 2.0**-126


class NoBoundError(Exception):
    """A node of which nothing is proved: the reason."""


@dataclass(frozen=True)
class Span:
    """Where the elements of a value lie in exact arithmetic, and their largest errors.

    `reach` is the largest magnitude that is computed, where more is known than follows from these.
    """

    low: F64
    high: F64
    error: F64
    reach: F64 | None = None

    @staticmethod
    def zeros(shape: tuple[int, ...]) -> Span:
        """Exact zeros."""
        return Span(np.zeros(shape), np.zeros(shape), np.zeros(shape))

    @property
    def size(self) -> F64:
        """The largest magnitude that is computed."""
        size: F64 = self.exact + self.error
        return size if self.reach is None else np.minimum(size, self.reach)

    @property
    def exact(self) -> F64:
        """The largest magnitude in exact arithmetic."""
        size: F64 = np.maximum(np.abs(self.low), np.abs(self.high))
        return size

    def at(self, place: Any) -> Span:
        """Some elements, by numpy's indices."""
        reach = None if self.reach is None else self.reach[place]
        return Span(self.low[place], self.high[place], self.error[place], reach)

    def put(self, place: Any, other: Span) -> None:
        """Replace some elements."""
        for mine, given in zip(
            (self.low, self.high, self.error), (other.low, other.high, other.error), strict=True
        ):
            mine[place] = given


def capped(low: F64, high: F64, error: F64, reach: F64) -> Span:
    """A span of which the largest computed magnitude is known, which bounds the error, too."""
    exact = np.maximum(np.abs(low), np.abs(high))
    return Span(low, high, np.minimum(error, exact + reach), reach)


def gamma(terms: int) -> float:
    """Higham's bound of the relative error after this many roundings."""
    return terms * UNIT / (1.0 - terms * UNIT)


def product_ends(a: Span, b: Span) -> tuple[F64, F64]:
    """The least and the largest product of two values, element by element."""
    corners = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)
