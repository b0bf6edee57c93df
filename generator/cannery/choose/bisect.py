"""How many of the things that lose something a bound allows, by bisection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def longest(order: Sequence[T], bears: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """The longest beginning of a list for which `bears` holds; empty if there is none.

    `bears` is taken to hold for all beginnings up to some length. It is not asked about the empty
    one, nor about the whole list, which the caller knows to be too much.
    """
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        if bears(order[:middle]):
            low = middle
        else:
            high = middle
    return order[:low]
