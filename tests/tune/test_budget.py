"""A budget of seconds: what is measured within it, on a clock that only measuring moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cannery.tune import search as module
from cannery.tune.cache import Environment
from cannery.tune.contests import Contest
from cannery.tune.measure import Context
from cannery.tune.search import BATCH_CANDIDATES, Quiet, Search


class Clocked(Search):
    """Measuring a candidate takes `each` seconds, and a program `more`."""

    now = 0.0
    each = 0.1
    more = 1.0

    def _decide(self, batch: Sequence[Contest]) -> None:
        self.batches.append([(c.name, len(c.candidates)) for c in batch])
        count = sum(len(c.candidates) for c in batch)
        Clocked.now += self.more + self.each * count
        self.seconds_each = self.each + self.more / count

    @property
    def batches(self) -> list[list[tuple[str, int]]]:
        found: list[list[tuple[str, int]]] = self.__dict__.setdefault("_batches", [])
        return found


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clocked, "now", 0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: Clocked.now))
    monkeypatch.setattr("cannery.tune.cache.MeasurementCache.load", lambda self: None)


def contests(*sizes: int) -> list[Contest]:
    """Contests named a, b, ..., the dearest first."""
    found = []
    for k, size in enumerate(sizes):
        candidates = [SimpleNamespace(code_key=lambda k=k, n=n: f"{k} {n}") for n in range(size)]
        ranked = (cast(Any, SimpleNamespace(cycles=1000.0 - k)),)
        found.append(Contest("abcdef"[k], (k,), ranked, cast(Any, tuple(candidates)), {}))
    return found


def searched(budget: float | None, *sizes: int, each: float = 0.1) -> Clocked:
    environment = Environment("cc", "", "", "host")
    bench = SimpleNamespace(environment=lambda: environment, context=Context.WARM, mhz=0.0)
    search = Clocked(cast(Any, bench), 1e-4, Quiet(), budget, started=0.0)
    search.each = each
    search.run(contests(*sizes))
    return search


def names(found: Sequence[Contest]) -> str:
    return "".join(contest.name for contest in found)


def test_without_a_budget_programs_are_full_and_all_is_measured() -> None:
    search = searched(None, 100, 60, 1, BATCH_CANDIDATES + 40)
    assert search.batches == [[("a", 100), ("b", 60)], [("c", 1)], [("d", BATCH_CANDIDATES + 40)]]
    assert (search.untried, search.partly) == ((), [])


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
    assert Clocked.now <= budget + 1.0
    assert search.batches
    measured = sum(size for batch in search.batches for _, size in batch)
    assert measured == 89 or search.untried or search.partly


def test_the_most_promising_of_the_dearest_contest_come_first() -> None:
    search = searched(4.0, 24, 24)
    assert search.batches[0] == [("a", 10)]
    assert names(search.partly)[0] == "a"
    assert "a" not in names(search.untried)


def test_a_contest_beyond_a_program_is_whole_if_there_is_time() -> None:
    search = searched(1000.0, BATCH_CANDIDATES + 40, 3)
    assert search.batches == [[("a", BATCH_CANDIDATES + 40)], [("b", 3)]]


def test_a_program_holds_only_so_many_bytes_of_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CONSTANTS", 100)
    bench = SimpleNamespace(
        environment=lambda: Environment("cc", "", "", "host"), context=Context.WARM, mhz=0.0
    )
    search = Clocked(cast(Any, bench), 1e-4, Quiet(), None, started=0.0)
    sizes = (60, 50, 40, 500, 1)
    search.run(
        [replace(c, constant_bytes=n) for c, n in zip(contests(2, 2, 2, 2, 2), sizes, strict=True)]
    )
    assert search.batches == [[("a", 2)], [("b", 2), ("c", 2)], [("d", 2)], [("e", 2)]]
