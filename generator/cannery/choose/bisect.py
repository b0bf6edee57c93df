"""How many of the things that lose something a bound allows, by bisection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def longest(order: Sequence[T], bears: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """The longest beginning of a list that `bears` it, empty if none does; all of it does not."""
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        if bears(order[:middle]):
            low = middle
        else:
            high = middle
    return order[:low]
