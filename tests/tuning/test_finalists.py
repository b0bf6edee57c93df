"""Which network wins among those that keep the bound, and how errors are mended before that."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cannery.choose.plan import Plan
from cannery.measure.measure import TIE
from cannery.tuning import finalists
from cannery.tuning.confirm import Judge
from cannery.tuning.finalists import MAX_REPAIRS, aim, best_of, fastest, make_exact
from choose.test_defaults import deep_net

GOOD, BAD, LIMIT = 1e-5, 2e-4, 1e-4


@pytest.mark.parametrize(
    ("tuned", "untuned", "winner"),
    [
        ([3.0, 1.0, 2.0], 9.0, 1),
        ([1.0, 3.0, 2.0], 9.0, 0),
        ([2.0, 3.0, 1.0], 9.0, 2),
        ([1.0 + TIE / 2, 1.0, 5.0], 9.0, 0),
        ([5.0, 1.0 + TIE / 2, 1.0], 9.0, 1),
        ([1.0 + 2 * TIE, 1.0], 9.0, 1),
        ([2.0, 1.0], 1.0, 1),
        ([2.0, 1.0], 1.0 - TIE / 2, 1),
        ([2.0, 1.0], 1.0 - 2 * TIE, 2),
        ([1.0], 0.5, 1),
        ([1.0], 1.5, 0),
    ],
)
def test_the_first_of_those_that_tie_with_the_best(
    tuned: Sequence[float], untuned: float, winner: int
) -> None:
    """The last one is that without tuning, which a tie does not help."""
    assert fastest([*tuned, untuned]) == winner


def exact(errors: Sequence[float], bound: float, *, steps: int = 99) -> tuple[float, list[float]]:
    """The error that is left, and what was asked to mend; so many mendings change anything."""
    asked: list[float] = []

    def more_exact(plan: Plan, bound: float, error: float) -> Plan:
        asked.append(error)
        return Plan(min(plan.cost + 1, steps), ((int(min(plan.cost + 1, steps)), cast(Any, "x")),))

    judge = SimpleNamespace(
        program=lambda stack, plan: plan, error=lambda plan: errors[int(plan.cost)]
    )
    optimizer = SimpleNamespace(more_exact=more_exact)
    first = Plan(0.0, ((0, cast(Any, "x")),))
    with ExitStack() as stack:
        net = make_exact(cast(Any, judge), cast(Any, optimizer), first, bound, stack)
    assert net.error == errors[int(net.plan.cost)]
    assert cast(Any, net.program) is net.plan
    return net.error, asked


def test_what_keeps_the_bound_stays() -> None:
    assert exact([1e-5, 0.0], 1e-4) == (1e-5, [])
    assert exact([1e-4, 0.0], 1e-4) == (1e-4, [])


def test_errors_are_mended_until_the_bound_is_kept() -> None:
    assert exact([4e-4, 2e-4, 1e-5, 0.0], 1e-4) == (1e-5, [4e-4, 2e-4])


def test_mending_ends_where_nothing_helps() -> None:
    error, asked = exact([4e-4, 3e-4], 1e-4, steps=1)
    assert (error, asked) == (3e-4, [4e-4, 3e-4])
    assert len(exact([1.0] * 99, 1e-4)[1]) == MAX_REPAIRS


@pytest.mark.parametrize(
    ("errors", "times", "winner"),
    [
        ([GOOD, GOOD, GOOD], [9.0, 7.0, 8.0], 1),
        ([GOOD, GOOD, GOOD], [9.0, 8.0, 4.0], 2),
        ([GOOD, BAD, GOOD], [6.0, 1.0, 8.0], 0),
        ([GOOD, BAD, BAD], [6.0, 1.0, 2.0], 0),
        ([BAD, GOOD, BAD], [6.0, 7.0, 2.0], 1),
        ([GOOD, GOOD, BAD], [9.0, 6.0, 2.0], 1),
        ([BAD, BAD, GOOD], [1.0, 2.0, 9.0], 2),
        ([BAD, 1.5e-4, 3e-4], [1.0, 3.0, 0.5], 1),
        ([BAD, GOOD], [1.0, 9.0], 1),
    ],
)
def test_the_fastest_that_keeps_the_bound_wins(
    errors: list[float], times: list[float], winner: int
) -> None:
    assert best_of(errors, times, LIMIT) == winner


@pytest.mark.parametrize(
    ("rounding", "goal"), [(None, 0.5e-4), (1e-6, 0.5e-4), (0.8e-4, 0.8e-4), (1.0, 1e-4)]
)
def test_no_more_is_aimed_at_than_rounding_allows(
    monkeypatch: pytest.MonkeyPatch, rounding: float | None, goal: float
) -> None:
    monkeypatch.setattr(finalists, "rounding_error", lambda graph, bound: rounding)
    assert aim(deep_net(), LIMIT) == goal


def test_the_worst_output_tells_the_error() -> None:
    expected = {name: np.ones(2) for name in ("exact", "wrong")}
    found = {"exact": np.ones(2), "wrong": np.array([1.0, 1.5])}
    judge = SimpleNamespace(runner=None, expected=[expected])
    program = SimpleNamespace(run=lambda runner: [found])
    assert Judge.error(cast(Any, judge), cast(Any, program)) == 0.5
