"""What is timed, what counts as known, and how the harness's answers are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cannery.errors import ToolchainError
from cannery.measure import measure as measure_module
from cannery.measure.cache import Environment, Measurement
from cannery.measure.measure import Context, Protocol, Timing, check, measure
from cannery.tuning import search as module
from cannery.tuning.search import Quiet, Search
from cannery.tuning.tune_many import LEAST_GAIN, ManyTuner

BOUND = 1e-4
GOOD, WRONG = Measurement(1e-7, "", 2.0), Measurement(1e-3, "", 1.0)
FAULTY, UNTIMED = Measurement(0.0, "wrote outside a buffer", 0.5), Measurement(1e-7)


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Search:
    """A search that knows nothing."""
    monkeypatch.setattr("cannery.measure.cache.MeasurementCache.load", lambda self: None)
    monkeypatch.setattr(module, "alone", lambda runner: nullcontext())
    bench = SimpleNamespace(
        environment=lambda: Environment("cc", "", "", "host"), context=Context.WARM, mhz=0.0
    )
    return Search(cast(Any, bench), BOUND, Quiet())


def contest(count: int) -> Any:
    """So many candidates; code keys are their symbols."""
    candidates = [
        SimpleNamespace(symbol=f"s{k}", code_key=lambda k=k: f"s{k}",
                        trial=SimpleNamespace(label=f"l{k}"))
        for k in range(count)
    ]  # fmt: skip
    ranked = [SimpleNamespace(label=f"l{k}", choice=f"choice {k}") for k in range(count)]
    same = {f"l{k}": f"l{k}" for k in range(count)}
    return SimpleNamespace(candidates=tuple(candidates), ranked=tuple(ranked), same=same)


@pytest.mark.parametrize(
    ("found", "known"),
    [
        ([GOOD, GOOD], True),
        ([GOOD, None], False),
        ([None, None], False),
        ([GOOD, UNTIMED], False),
        ([GOOD, FAULTY], True),
        ([WRONG, Measurement(1e-3)], True),
    ],
)
def test_a_contest_is_known_if_all_of_it_is(
    search: Search, found: Sequence[Measurement | None], known: bool
) -> None:
    """Times of different runs are not compared; what is wrong needs no time."""
    search.cache.known = {f"s{k}": m for k, m in enumerate(found) if m is not None}
    assert search._known(contest(len(found))) is known


@pytest.mark.parametrize(
    ("found", "skipped"),
    [
        ([GOOD, GOOD, GOOD], ()),
        ([GOOD, WRONG, GOOD], (1,)),
        ([FAULTY, GOOD, WRONG], (0, 2)),
        ([FAULTY, WRONG, WRONG], None),
    ],
)
def test_only_what_is_right_is_timed(
    search: Search, found: Sequence[Measurement], skipped: Sequence[int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked: list[Sequence[str]] = []

    def measured(built: Any, runner: Any, protocol: Any, where: Sequence[str]) -> Any:
        asked.append(where)
        return {"s0": Timing(1.0, 2.0, 3)}

    monkeypatch.setattr(module, "measure", measured)
    some = contest(len(found))
    built = cast(Any, SimpleNamespace(candidates=some.candidates))
    checked = {f"s{k}": m for k, m in enumerate(found)}
    times = search._time_contest(built, some, checked, cast(Any, None))
    if skipped is None:
        assert (times, asked) == ({}, [])
        return
    words = [word for k in skipped for word in ("--skip", str(k))]
    assert (times, asked) == ({"s0": 1.0}, [["--from", "0", "--to", str(len(found)), *words]])


@pytest.mark.parametrize(
    ("found", "best"),
    [
        ([GOOD, Measurement(0.0, "", 1.5)], 1),
        ([GOOD, WRONG], 0),
        ([GOOD, FAULTY], 0),
        ([UNTIMED, GOOD], 1),
        ([WRONG, FAULTY], None),
        ([None, GOOD], 1),
    ],
)
def test_of_stacked_steps_the_fastest_that_is_right(
    search: Search, found: Sequence[Measurement | None], best: int | None
) -> None:
    known: Mapping[str, Measurement] = {f"s{k}": m for k, m in enumerate(found) if m is not None}
    tuner = ManyTuner(cast(Any, None), (), cast(Any, None), 4)
    chosen = tuner._best(contest(len(found)), known, search)
    assert chosen == (None if best is None else (f"choice {best}", found[best]))


@pytest.mark.parametrize(
    ("gains", "chunks", "gain"),
    [
        ({8: 2.0, 4: 1.5}, [8, 4], 2.0),
        ({8: 2.0, 4: 1.0}, [8], 2.0),
        ({8: 0.9, 4: 1.5}, [4], 1.0),
        ({8: LEAST_GAIN - 1e-3, 4: LEAST_GAIN}, [4], 1.0),
        ({8: 1.0, 4: 0.5}, [], 1.0),
    ],
)
def test_chunks_that_gain_nothing_are_left_out(
    gains: Mapping[int, float], chunks: list[int], gain: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = [SimpleNamespace(images=images) for images in gains]
    monkeypatch.setattr("cannery.tuning.tune_many.choose_stacks", lambda *given: stacks)
    judge = SimpleNamespace(
        program=lambda *given: None, error=lambda program: 0.0,
        gain=lambda program, images: gains[images],
    )  # fmt: skip
    tuner = ManyTuner(cast(Any, None), (), cast(Any, None), 8)
    plan = cast(Any, SimpleNamespace(steps=lambda units: (), choices=()))
    assert tuner._confirm(plan, cast(Any, judge), cast(Any, None)) == (chunks, gain)


class Device:
    """Prints lines, whatever it is asked."""

    cure = ""

    def __init__(self, *lines: dict[str, Any]) -> None:
        self.lines = lines

    def run(self, executable: object, arguments: Sequence[str]) -> Sequence[dict[str, Any]]:
        return self.lines

    def where(self, executable: object) -> str:
        return "harness"

    def reading(self, executable: object) -> Any:
        return nullcontext()


BUILT = cast(Any, SimpleNamespace(executable="harness", candidates=contest(2).candidates))


def test_times_are_quartile_median_and_samples() -> None:
    device = Device(
        {"trial": 1, "us": 1.5, "median_us": 2.5, "samples": 7}, {"peak_gflops": 3.0},
        {"trial": 0, "us": 4.0, "median_us": 5.0, "samples": 6},
    )  # fmt: skip
    found = measure(BUILT, cast(Any, device), Protocol())
    assert found == {"s1": Timing(1.5, 2.5, 7), "s0": Timing(4.0, 5.0, 6)}


def test_every_candidate_has_a_verdict() -> None:
    lines = [{"trial": k, "error": 0.5 * k, "fault": "f" * k} for k in range(2)]
    found = check(BUILT, cast(Any, Device(*lines)))
    assert found == {"s0": measure_module.Check(0.0), "s1": measure_module.Check(0.5, "f")}
    with pytest.raises(ToolchainError, match="only 1 of 2"):
        check(BUILT, cast(Any, Device(lines[0])))
    with pytest.raises(ToolchainError, match="only 1 of 2"):
        check(BUILT, cast(Any, Device(lines[0], lines[0])))
