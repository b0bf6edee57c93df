"""A network that runs at a fixed rate, such as once per frame: its latencies against a deadline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cannery.errors import OptionError
from cannery.measure.measure import Context

#: Most calls of one measurement, because each is printed.
MAX_CALLS = 1_000_000

#: Default seconds of one measurement.
DEFAULT_SECONDS = 5.0


@dataclass(frozen=True)
class Pace:
    """`hz` calls per second for about `seconds`; each should end `deadline_us` after it is due."""

    hz: float
    deadline_us: float
    seconds: float
    context: Context = Context.WARM

    @property
    def calls(self) -> int:
        """How many calls are due in that time."""
        return int(self.hz * self.seconds + 0.5)

    def arguments(self) -> list[str]:
        """Arguments of the driver."""
        return ["--rate", f"{self.hz:.9g}", str(self.calls), *self.context.arguments]


def make_pace(
    rate: float,
    deadline: float | None,
    seconds: float | None,
    context: Context = Context.WARM,
) -> Pace:
    """A pace of `rate` calls per second; the deadline (microseconds) is the period by default.

    Raises OptionError for numbers that make no sense.
    """
    if not (rate > 0 and math.isfinite(rate)):
        raise OptionError(
            f"{rate:g} is not a rate", where="--rate", cure="give calls per second, such as 30"
        )
    seconds = DEFAULT_SECONDS if seconds is None else seconds
    deadline = 1e6 / rate if deadline is None else deadline
    if not (deadline > 0 and math.isfinite(deadline)):
        raise OptionError(
            f"{deadline:g} is not a time",
            where="--deadline",
            cure="give microseconds, such as 2000",
        )
    pace = Pace(rate, deadline, seconds, context)
    if not 1 <= rate * seconds <= MAX_CALLS:
        raise OptionError(
            f"{rate:g} calls per second for {seconds:g} s are {rate * seconds:g} calls, not 1 to "
            f"{MAX_CALLS:,}", where="--rate", cure="change --rate or --seconds",
        )  # fmt: skip
    if deadline > 1e6 * seconds:
        raise OptionError(
            f"{deadline:g} us are longer than the measurement, {seconds:g} s", where="--deadline",
            cure="give a longer --seconds",
        )  # fmt: skip
    return pace


@dataclass(frozen=True)
class Spread:
    """Microseconds: nearest-rank percentiles and the maximum."""

    p50: float
    p99: float
    p999: float
    max: float


def spread(values: Sequence[float]) -> Spread:
    """The distribution of values; there must be at least one."""
    ordered = sorted(values)

    def rank(per_mille: int) -> float:
        return ordered[max(-(-per_mille * len(ordered) // 1000) - 1, 0)]

    return Spread(rank(500), rank(990), rank(999), ordered[-1])


@dataclass(frozen=True)
class Paced:
    """The result of a pace; `hz` is the rate that was reached.

    `latency_us` is from the time when a call was due to its end, `run_us` is the call alone.
    `misses` includes the calls that were due but never started, because earlier ones took too long:
    `unbegun`.
    """

    pace: Pace
    hz: float
    calls: int
    misses: int
    unbegun: int
    latency_us: Spread
    run_us: Spread

    def as_dict(self) -> dict[str, Any]:
        """The JSON of bench."""
        return {
            "hz": self.pace.hz, "reached_hz": self.hz, "deadline_us": self.pace.deadline_us,
            "calls": self.calls, "misses": self.misses, "unbegun": self.unbegun,
            "latency_us": vars(self.latency_us), "run_us": vars(self.run_us),
        }  # fmt: skip


def judge_pace(pace: Pace, line: Mapping[str, Any]) -> Paced:
    """The statistics of what the driver printed."""
    latencies = [float(us) for us in line["latencies"]]
    # Calls that never started waited longer than the whole measurement takes. If caches are
    # emptied, that may have taken the time, and calls were delayed for it.
    unbegun = pace.calls - len(latencies) if pace.context is Context.WARM else 0
    misses = sum(us > pace.deadline_us for us in latencies) + unbegun
    runs = spread([float(us) for us in line["runs"]])
    hz = len(latencies) / float(line["seconds"])
    return Paced(pace, hz, len(latencies), misses, unbegun, spread(latencies), runs)
