"""A budget of seconds: what is measured within it, on a clock that only measuring moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cannery import deadline
from cannery.deadline import check_time, until
from cannery.measure.cache import Environment, Measurement
from cannery.measure.measure import Context
from cannery.tuning import search as module
from cannery.tuning.budget import CONFIRM_FACTOR, CONFIRM_SECONDS, CONFIRM_SHARE, Budget
from cannery.tuning.contests import Contest, Prospect
from cannery.tuning.search import BATCH_CANDIDATES, Quiet, Search


class Clocked(Search):
    """Measuring a candidate takes `each` seconds, and a program `more`; nothing can end it."""

    each = 0.1
    more = 1.0

    def _decide(self, batch: Sequence[Contest]) -> None:
        self.batches.append([(c.name, len(c.candidates)) for c in batch])
        count = sum(len(c.candidates) for c in batch)
        Clock.now += self.more + self.each * count
        self.seconds_each = self.each + self.more / count
        done = Measurement(0.0, us=1.0)
        self.cache.known.update((c.code_key(), done) for each in batch for c in each.candidates)

    @property
    def batches(self) -> list[list[tuple[str, int]]]:
        found: list[list[tuple[str, int]]] = self.__dict__.setdefault("_batches", [])
        return found


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "now", 0.0)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: Clock.now))
    monkeypatch.setattr("cannery.measure.cache.MeasurementCache.load", lambda self: None)


class Clock:
    """The time."""

    now = 0.0


def prospects(*sizes: int, seconds: float = 0.0) -> list[Prospect]:
    """Contests named a, b, ..., the dearest first; to generate one takes so many seconds."""
    return [_prospect(k, size, seconds) for k, size in enumerate(sizes)]


def _prospect(k: int, size: int, seconds: float) -> Prospect:
    def make() -> Contest:
        Clock.now += seconds
        check_time()
        candidates = [SimpleNamespace(code_key=lambda n=n: f"{k} {n}") for n in range(size)]
        ranked = (cast(Any, SimpleNamespace(cycles=1000.0 - k)),)
        return Contest("abcdef"[k], (k,), ranked, cast(Any, tuple(candidates)), {})

    return Prospect((k,), "abcdef"[k], (k,), 1000.0 - k, make)


def searched(
    budget: float | None, *sizes: int, each: float = 0.1, generating: float = 0.0
) -> Clocked:
    environment = Environment("cc", "", "", "host")
    bench = SimpleNamespace(environment=lambda: environment, context=Context.WARM, mhz=0.0)
    search = Clocked(cast(Any, bench), 1e-4, Quiet())
    search.each = each
    with until(math.inf if budget is None else budget):
        search.run(prospects(*sizes, seconds=generating))
    return search


def names(found: Sequence[Contest | Prospect]) -> str:
    return "".join(contest.name for contest in found)


def test_without_a_budget_programs_are_full_and_all_is_measured() -> None:
    search = searched(None, 100, 60, 1, BATCH_CANDIDATES + 40)
    assert search.batches == [[("a", 100), ("b", 60)], [("c", 1)], [("d", BATCH_CANDIDATES + 40)]]
    assert (search.untried, search.partly) == ((), ())


def test_no_time_means_nothing() -> None:
    search = searched(0.0, 8, 8)
    assert search.batches == []
    assert names(search.untried) == "ab"


def test_the_first_program_is_small_and_shows_how_long_one_takes() -> None:
    search = searched(60.0, 8, 8, 8, 8, 8)
    assert search.batches == [[("a", 8), ("b", 8)], [("c", 8), ("d", 8), ("e", 8)]]


@pytest.mark.parametrize("each", [0.01, 0.1, 0.4])
@pytest.mark.parametrize("budget", [1.0, 3.0, 5.0, 10.0, 30.0])
def test_the_time_is_hardly_exceeded(budget: float, each: float) -> None:
    search = searched(budget, 24, 24, 24, 8, 8, 1, each=each)
    assert Clock.now <= budget + 1.0
    assert search.batches
    measured = sum(size for batch in search.batches for _, size in batch)
    assert measured == 89 or search.untried or search.partly


def test_the_most_promising_of_the_dearest_contest_come_first() -> None:
    search = searched(4.0, 24, 24)
    assert search.batches[0] == [("a", 10)]
    assert names(search.partly)[0] == "a"
    assert "a" not in names(search.untried)


def test_candidates_are_generated_when_it_is_their_turn() -> None:
    search = searched(6.0, 8, 8, 8, 8, generating=1.0)
    assert search.batches == [[("a", 8)], [("b", 8)]]
    assert names(search.untried) == "cd"
    assert Clock.now == pytest.approx(2 * 1.8 + 3.0), "three were generated, and no more"


def test_time_that_is_over_while_generating_ends_all() -> None:
    search = searched(3.0, 8, 8, generating=10.0)
    assert search.batches == []
    assert names(search.untried) == "ab"
    assert Clock.now == 10.0, "only one contest was begun"


def test_a_contest_beyond_a_program_is_whole_if_there_is_time() -> None:
    search = searched(1000.0, BATCH_CANDIDATES + 40, 3)
    assert search.batches == [[("a", BATCH_CANDIDATES + 40)], [("b", 3)]]


def test_a_program_holds_only_so_many_bytes_of_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CONSTANTS", 100)
    bench = SimpleNamespace(
        environment=lambda: Environment("cc", "", "", "host"), context=Context.WARM, mhz=0.0
    )
    search = Clocked(cast(Any, bench), 1e-4, Quiet())
    sizes = (60, 50, 40, 500, 1)

    def sized(prospect: Prospect, size: int) -> Prospect:
        made = cast(Contest, prospect.make())
        return replace(prospect, make=lambda: replace(made, constant_bytes=size))

    search.run([sized(p, n) for p, n in zip(prospects(2, 2, 2, 2, 2), sizes, strict=True)])
    assert search.batches == [[("a", 2)], [("b", 2), ("c", 2)], [("d", 2)], [("e", 2)]]


@pytest.mark.parametrize("left", [0.5, 4.0, 30.0, 400.0])
@pytest.mark.parametrize("prepared_in", [0.0, 0.3, 5.0, 60.0])
def test_whole_networks_have_a_share_of_the_time(left: float, prepared_in: float) -> None:
    """As long as they take, but no more than half of what is left."""
    Clock.now = 100.0
    budget = Budget(left + 7.0, started=93.0)
    kept = budget.end - budget.search_end(prepared_in)
    assert budget.end == pytest.approx(100.0 + left)
    assert 0.0 < kept <= CONFIRM_SHARE * left * (1 + 1e-9)
    assert kept == pytest.approx(
        min(CONFIRM_SECONDS + CONFIRM_FACTOR * prepared_in, CONFIRM_SHARE * left)
    )
    later = [budget.search_end(seconds) for seconds in (0.0, 1.0, 10.0, 100.0)]
    assert later == sorted(later, reverse=True)
    assert Budget(None).search_end(prepared_in) == math.inf
