"""Confidence intervals of medians."""

from __future__ import annotations

from math import comb

import pytest

from cannery.measure.intervals import CONFIDENCE, Interval, around, interval


def coverage(count: int, cut: int) -> float:
    """How likely the median lies between the values that `cut` others are beyond on each side."""
    beyond = sum(comb(count, k) for k in range(cut + 1)) / 2**count
    return 1 - 2 * beyond


@pytest.mark.parametrize("count", range(6, 40))
def test_it_is_as_short_as_the_confidence_allows(count: int) -> None:
    found = interval([float(k) for k in reversed(range(count))])
    cut = int(found.low)
    assert (found.low, found.high) == (cut, count - 1 - cut)
    assert coverage(count, cut) >= CONFIDENCE > coverage(count, cut + 1)
    assert found.mid == (count - 1) / 2


@pytest.mark.parametrize("count", range(1, 6))
def test_of_few_all_are_taken(count: int) -> None:
    values = [float(k) for k in range(count)]
    assert interval(values) == Interval(0.0, (count - 1) / 2, count - 1.0)


def test_overlap() -> None:
    one = Interval(1.0, 2.0, 3.0)
    for low, high, expected in ((3.0, 4.0, True), (3.1, 4.0, False), (0.0, 0.9, False)):
        other = Interval(low, low, high)
        assert one.overlaps(other) is other.overlaps(one) is expected
    assert one.overlaps(Interval(1.5, 2.0, 2.5)) and str(one) == "2 (1 to 3)"
    assert str(Interval(999.4, 12345.6, 1.2e6)) == "12,346 (999 to 1,200,000)"


def test_what_was_measured_in_all_is_within() -> None:
    parts = [float(k) for k in range(10)]
    assert around(4.0, parts) == Interval(1.0, 4.0, 8.0)
    assert around(0.5, parts) == Interval(0.5, 0.5, 8.0)
    assert around(9.5, [1.0]) == Interval(1.0, 9.5, 9.5)
