"""Constants that stand in a file once: those of the same type and content."""

from __future__ import annotations

import numpy as np

from cannery.ctext.known import KnownConstants
from cannery.schedule.schedule import ConstArray, Kernel


def kernel(name: str, *values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Kernel:
    return Kernel("", tuple(ConstArray(f"{name}{k}", v) for k, v in enumerate(values)))


def test_zeros_of_two_types_are_two_constants() -> None:
    """Their bytes are the same."""
    known = KnownConstants(vary=False)
    floats, integers = np.zeros(4, np.float32), np.zeros(4, np.int32)
    assert list(known.noting([kernel("a", floats)]))
    later, aliases = known.taken_from(kernel("b", integers, floats, integers))
    assert [c.name for c in later.constants] == ["b0"]
    assert aliases == (("b1", "a0"), ("b2", "b0"))


def test_where_weights_vary_none_are_the_same() -> None:
    known = KnownConstants(vary=True)
    same = kernel("a", np.ones(3, np.float32))
    assert list(known.noting([same])) == [same]
    assert known.taken_from(same) == (same, ())
