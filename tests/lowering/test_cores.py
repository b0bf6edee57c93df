"""Which steps are cut for several cores."""

from __future__ import annotations

from itertools import product

import pytest

from cannery.lowering.cores import (
    MOVED_BYTES_PER_US,
    ROWS,
    TILES,
    UNITS,
    Cores,
    Work,
    cut_steps,
    two_thread_us,
)

LARGE = 600_000


def chain(*us: float, size: int = 0, parts: int = 60) -> list[Work]:
    """Steps that each read what the one before wrote."""
    return [Work(t, ROWS, parts, ((k - 1, size),)) for k, t in enumerate(us)]


def is_cut(works: list[Work]) -> list[bool]:
    return [pieces > 1 for pieces in cut_steps(works, Cores())]


def test_large_steps_are_cut_and_small_ones_are_not() -> None:
    assert is_cut(chain(100.0, 1.0, 100.0)) == [True, False, True]
    assert is_cut(chain(3.0, 2.0, 1.0)) == [False] * 3


def test_a_small_step_is_cut_where_its_input_lies_on_two_cores() -> None:
    assert is_cut(chain(100.0, 1.0, 100.0, size=LARGE)) == [True] * 3


def test_a_step_is_not_cut_if_its_input_takes_longer_to_move() -> None:
    """Half of it comes from the calling thread's core, 30 us."""
    one = Work(40.0, ROWS, 1, ())
    assert is_cut([one, Work(20.0, ROWS, 60, ((0, LARGE),))]) == [False, False]
    assert is_cut([one, Work(200.0, ROWS, 60, ((0, LARGE),))]) == [False, True]


def test_what_cannot_be_cut_is_not() -> None:
    assert cut_steps(chain(100.0, 100.0, parts=1), Cores()) == [1, 1]
    assert cut_steps(chain(1000.0, parts=3), Cores()) == [3]
    assert cut_steps(chain(0.1, parts=3), Cores(piece_us=0.0)) == [3]


def test_pieces_are_worth_a_thread() -> None:
    assert cut_steps(chain(20.0), Cores()) == [4]
    assert cut_steps(chain(11.0), Cores()) == [2]


def test_uneven_parts_count() -> None:
    """Three parts on two threads take two thirds of the time."""
    assert two_thread_us(chain(90.0, parts=3), [True]) == pytest.approx(62.0)


def test_the_search_finds_the_best() -> None:
    works = [
        Work(30.0, ROWS, 30, ((-1, 60_000),)), Work(1.0, ROWS, 30, ((0, 300_000),)),
        Work(5.0, ROWS, 1, ((1, 80_000),)), Work(9.0, UNITS, 8, ((2, 80_000),)),
        Work(2.0, ROWS, 15, ((3, 40_000), (1, 80_000))), Work(12.0, ROWS, 15, ((4, 40_000),)),
    ]  # fmt: skip
    options = [(False, True) if work.parts > 1 else (False,) for work in works]
    best = min(two_thread_us(works, cut) for cut in product(*options))
    assert two_thread_us(works, is_cut(works)) == pytest.approx(best)


@pytest.mark.parametrize(
    ("before", "now", "moved"),
    [("", ROWS, 0.5), (ROWS, ROWS, 0.0), (UNITS, ROWS, 0.25), (TILES, ROWS, 0.25),
     ("", UNITS, 1.0), (ROWS, UNITS, 0.5), (UNITS, TILES, 0.5), (ROWS, "", 0.5), ("", "", 0.0)],
)  # fmt: skip
def test_what_comes_from_the_other_core(before: str, now: str, moved: float) -> None:
    """By the axes along which a value is written and read."""
    size = 1_000_000
    works = [Work(9.0, before or ROWS, 2), Work(9.0, now or ROWS, 2, ((0, size),))]
    cut = [bool(before), bool(now)]
    alone = [Work(9.0, before or ROWS, 2), Work(9.0, now or ROWS, 2)]
    more = two_thread_us(works, cut) - two_thread_us(alone, cut)
    assert more == pytest.approx(moved * size / MOVED_BYTES_PER_US)
