"""A network at a fixed rate: what is asked for, and the statistics."""

from __future__ import annotations

import math

import pytest

from cannery.errors import OptionError
from cannery.execution.pace import DEFAULT_SECONDS, judge_pace, make_pace, spread
from cannery.measure.measure import Context


def test_the_period_is_the_deadline_by_default() -> None:
    pace = make_pace(500, None, None)
    assert (pace.deadline_us, pace.seconds) == (2000, DEFAULT_SECONDS)
    assert pace.calls == 500 * DEFAULT_SECONDS
    assert make_pace(30, 2000, 0.1).calls == 3
    assert pace.arguments() == ["--rate", "500", "2500"]


@pytest.mark.parametrize(
    ("rate", "deadline", "seconds", "message"),
    [
        (0, None, None, "--rate: 0 is not a rate"),
        (-5, None, None, "--rate: -5 is not a rate"),
        (math.nan, None, None, "--rate: nan is not a rate"),
        (math.inf, None, None, "--rate: inf is not a rate"),
        (30, 0, None, "--deadline: 0 is not a time"),
        (30, math.nan, None, "--deadline: nan is not a time"),
        (0.5, None, 1, "0.5 calls, not 1 to"),
        (1e6, None, 2, r"2e\+06 calls, not 1 to"),
        (30, 2e6, 1, "longer than the measurement, 1 s"),
    ],
)
def test_nonsense(rate: float, deadline: float | None, seconds: float, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_pace(rate, deadline, seconds)


def test_percentiles_are_nearest_ranks() -> None:
    found = spread([float(k) for k in range(2000, 0, -1)])
    assert (found.p50, found.p99, found.p999, found.max) == (1000, 1980, 1998, 2000)
    few = spread([3.0, 1.0, 2.0])
    assert (few.p50, few.p99, few.p999, few.max) == (2, 3, 3, 3)
    assert spread([7.0]).p50 == 7


def test_misses_are_counted_from_the_due_time() -> None:
    pace = make_pace(10, 100, 0.4)
    latencies, runs = [100.0, 100.5, 40.0, 900.0], [90.0, 10.0, 30.0, 20.0]
    found = judge_pace(pace, {"latencies": latencies, "runs": runs, "seconds": 0.8})
    assert found.hz == 5
    assert (found.calls, found.misses, found.unbegun) == (4, 2, 0)
    assert (found.latency_us.max, found.run_us.max) == (900, 90)


def test_calls_that_never_began_are_misses() -> None:
    line = {"latencies": [50.0, 500.0], "runs": [50.0, 450.0], "seconds": 2.0}
    found = judge_pace(make_pace(10, 100, 0.5), line)
    assert (found.calls, found.misses, found.unbegun) == (2, 4, 3)
    assert found.as_dict()["misses"] == 4


def test_calls_put_off_to_empty_the_caches_are_none() -> None:
    pace = make_pace(10, 100, 0.5, Context.COLD)
    assert pace.arguments() == ["--rate", "10", "5", "--cold"]
    line = {"latencies": [50.0, 500.0], "runs": [50.0, 450.0], "seconds": 2.0}
    found = judge_pace(pace, line)
    assert (found.calls, found.misses, found.unbegun, found.hz) == (2, 1, 0, 1)
