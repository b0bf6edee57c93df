"""How many things a bound allows."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.choose.bisect import longest


def test_the_longest_beginning_in_few_questions() -> None:
    for size in range(1, 20):
        order = [f"layer {k}" for k in range(size)]
        for most in range(size):
            asked: list[int] = []

            def bears(some: Sequence[str], most: int = most, asked: list[int] = asked) -> bool:
                asked.append(len(some))
                return len(some) <= most

            assert longest(order, bears) == order[:most]
            assert len(asked) <= size.bit_length() and all(0 < n < size for n in asked)
