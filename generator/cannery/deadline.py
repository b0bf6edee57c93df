"""How much time is left: set once around a piece of work, checked wherever work takes long.

Work within `until` ends with OutOfTimeError soon after its time is up: between the layers of a
network, the candidates of a layer, the states of a plan. Programs for which it waits are ended.
Without `until`, there is no deadline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_end: ContextVar[float] = ContextVar("end", default=math.inf)


class OutOfTimeError(Exception):
    """The time is up. The code that set the deadline catches this; users never see it."""


def now() -> float:
    """Seconds of a clock that never goes back."""
    return time.monotonic()


@contextmanager
def until(end: float) -> Iterator[None]:
    """Let the block end at `end`, by the clock of `now`, or when an outer block must."""
    token = _end.set(min(end, _end.get()))
    try:
        yield
    finally:
        _end.reset(token)


def time_left() -> float:
    """Seconds until work must end, which may be infinite or negative."""
    return _end.get() - now()


def check_time() -> None:
    """Raise OutOfTimeError if the time is up."""
    if time_left() <= 0:
        raise OutOfTimeError
