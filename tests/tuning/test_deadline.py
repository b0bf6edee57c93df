"""A budget of a whole tuning: every stage knows when it is over, and says what it left out."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import Timeout

from cannery import deadline
from cannery.choose.record import Record, read_record
from cannery.cli import invoke
from cannery.cli.tuning_report import as_dict, print_report
from cannery.deadline import OutOfTimeError, check_time, now, time_left, until
from cannery.errors import RecordError
from cannery.measure import build, measure
from cannery.measure.measure import Protocol
from cannery.options import Options, make_options
from cannery.pipeline import compile_model
from cannery.target.processes import run_to_end
from cannery.target.runner import Origin, Runner
from cannery.tuning import confirm, prepare, tuner
from cannery.tuning.outcome import Outcome, Settings
from cannery.tuning.tuner import tune, usable_record
from needs import need_program, need_toolchain
from tiny_models import write_tiny_model

FAST = Protocol(first=2, more=1, sample_us=5.0, limit=5.0)

#: More than any budget of these tests.
LONG = 1e6


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(deadline, "time", made)
    return made


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network of one layer, few candidates, a cache of the test's own."""
    need_program("ninja", "ninja-build")
    need_toolchain("generic")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tuner, "CONTEST_CANDIDATES", 3)
    monkeypatch.setattr("cannery.tuning.search.Protocol", lambda limit: FAST)
    monkeypatch.setattr(confirm, "ROUNDS", 2)
    monkeypatch.setattr(confirm, "TURN_SECONDS", 0.005)
    return write_tiny_model(tmp_path / "tiny.h5")


def options(model: Path, **more: object) -> Options:
    return make_options(model, {"target": "generic", **more})


def record_of(outcome: Outcome) -> Record:
    record = read_record(outcome.path)
    assert record is not None
    return record


def slow(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, place: Any, name: str, seconds: float = LONG
) -> list[object]:
    """What a call of `name` takes so many seconds more from now on; collects the calls."""
    function: Callable[..., object] = getattr(place, name)
    calls: list[object] = []

    def slower(*args: Any, **more: Any) -> object:
        calls.append(args)
        clock.time += seconds
        check_time()
        return function(*args, **more)

    monkeypatch.setattr(place, name, slower)
    return calls


def test_blocks_end_when_the_outer_one_does(clock: Clock) -> None:
    check_time()
    with until(5.0):
        with until(9.0):
            assert time_left() == 5.0
        clock.time = 4.0
        with until(4.5):
            assert time_left() == 0.5
        check_time()
        clock.time = 5.0
        with pytest.raises(OutOfTimeError):
            check_time()
    check_time()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_programs_end_with_all_that_they_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"(sleep 300 & echo $! >> {pids}; echo $$ >> {pids}; wait) & echo $! >> {pids}; wait"
    with pytest.raises(OutOfTimeError), until(now() + 0.5):
        run_to_end(["sh", "-c", script], timeout=LONG)
    found = [int(text) for text in pids.read_text().split()]
    assert len(found) == 3
    for _ in range(200):
        if not any(map(is_alive, found)):
            break
        time.sleep(0.01)
    assert not any(map(is_alive, found))
    with pytest.raises(OutOfTimeError), until(now()):
        run_to_end(["touch", str(tmp_path / "begun")], timeout=LONG)
    assert not (tmp_path / "begun").exists(), "nothing is started when time is over"


def test_no_time_for_more_than_the_model(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow(monkeypatch, clock, tuner, "import_graph", 4.0)
    built = slow(monkeypatch, clock, build, "run_ninja", 0.0)
    outcome = tune(options(model), Settings(budget=3.0))
    assert built == []
    assert outcome.seconds == 4.0
    assert outcome.untried == ("scores",)
    told = "within 3 s there was no time for more than reading the model, which took 4.0 s"
    assert told in outcome.notes
    assert not outcome.path.exists()
    assert as_dict(outcome)["not_done"] == ["more than reading the model, which took 4.0 s"]
    print_report(outcome)
    printed = capsys.readouterr().out
    assert told in printed
    assert "not compared with the reference; 0 candidates measured in 4.0 s\n" in printed
    assert "layer" not in printed, "there is no table of nothing"


@pytest.mark.parametrize("place", ["evaluate_all", "rank"])
def test_no_time_to_prepare(
    place: str, model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, clock, prepare, place)
    built = slow(monkeypatch, clock, build, "run_ninja", 0.0)
    outcome = tune(options(model), Settings(budget=3.0))
    assert built == []
    assert (outcome.measured, outcome.untried) == (0, ("scores",))


def test_compilers_that_are_too_slow(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = slow(monkeypatch, clock, build, "run_ninja")
    outcome = tune(options(model), Settings(budget=60.0))
    assert len(built) == 1, "no other program is begun"
    assert clock.time < 2 * LONG
    assert (outcome.measured, outcome.untried, outcome.error) == (0, ("scores",), None)
    assert "within 60 s nothing was tried for scores" in outcome.notes
    told = "nothing was measured, so no record is written; give --budget 120 or more"
    assert told in outcome.notes
    assert not outcome.path.exists()
    with pytest.raises(RecordError, match="there is no tuning record"):
        compile_model(options(model, locked=True))
    assert usable_record(options(model)) is None
    layers = as_dict(outcome)["steps"]
    assert [(s["name"], s["recorded"]) for s in layers if s["macs"]] == [("scores", False)]


def test_time_for_confirming_serves_candidates_where_there_are_none(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first program is not compiled in the time that candidates have, the second one is."""
    function = build.run_ninja
    began: list[float] = []

    def slow_at_first(folder: Path, text: str, *, jobs: int = 0) -> dict[str, str]:
        began.append(clock.time)
        if len(began) == 1:
            clock.time += time_left() * 1.01
            check_time()
        return function(folder, text, jobs=jobs)

    monkeypatch.setattr(build, "run_ninja", slow_at_first)
    monkeypatch.setattr("cannery.tuning.search.CANDIDATE_SECONDS", 1e-3)
    outcome = tune(options(model), Settings(budget=60.0))
    assert outcome.measured > 0
    assert outcome.untried == ()


def test_nobody_waits_longer_for_a_device_than_there_is_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    patience: list[float] = []

    def lock(path: str, timeout: float) -> None:
        patience.append(timeout)
        raise Timeout(path)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(measure, "FileLock", lock)
    for seconds in (7.0, -1.0):
        with until(seconds), measure.alone(Runner((), Origin.HOST)):
            pass
    with measure.alone(Runner((), Origin.HOST)):
        pass
    assert patience == [7.0, 0.0, 600.0]


def test_what_was_compiled_in_time_is_measured(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second translation unit is not ready when the time of compiling is over."""
    function = build.run_ninja

    def one_unit(folder: Path, text: str, *, jobs: int = 0) -> dict[str, str]:
        if "build unit001.o" not in text or clock.time:
            return function(folder, text, jobs=jobs)
        function(folder, re.sub("build unit001.o: .*\n", "", text), jobs=jobs)
        clock.time += 0.7 * time_left() / build.COMPILE_SHARE
        check_time()
        raise AssertionError("there was time left")

    monkeypatch.setattr(build, "run_ninja", one_unit)
    monkeypatch.setattr("cannery.tuning.search.CANDIDATE_SECONDS", 1e-3)
    outcome = tune(options(model), Settings(budget=60.0))
    (candidates,) = [s["candidates"] for s in as_dict(outcome)["steps"] if s["macs"]]
    assert 1 <= len(candidates) < 3
    assert (outcome.untried, outcome.partly) == ((), ("scores",))
    (entry,) = record_of(outcome).steps
    assert entry.us is not None


def test_no_time_for_whole_networks(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = slow(monkeypatch, clock, tuner, "reference_outputs")
    outcome = tune(options(model), Settings(budget=60.0))
    assert len(judged) == 1
    assert outcome.measured > 0
    assert (outcome.error, outcome.before_us, outcome.samples) == (None, None, 0)
    assert outcome.missed == (tuner.UNJUDGED,)
    record = record_of(outcome)
    assert [e.origin for e in record.steps] == ["host"]
    assert record.error is None
    assert not any(layer.chosen.inexact for layer in outcome.layers)
    compile_model(options(model, locked=True))


def test_no_time_to_compare_whole_networks(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, clock, confirm.Judge, "times")
    outcome = tune(options(model), Settings(budget=60.0))
    assert outcome.error is not None
    assert outcome.error < 1e-6
    assert (outcome.before_us, outcome.missed) == (None, (tuner.UNTIMED,))


def test_no_time_for_several_images(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(monkeypatch, clock, confirm.Judge, "times", 0.0)
    slow(monkeypatch, clock, tuner.ManyTuner, "tune")
    outcome = tune(options(model, many="4"), Settings(budget=60.0))
    assert outcome.missed == ("4 images at once",)
    assert record_of(outcome).many is None


def test_a_record_is_not_lost_for_want_of_time(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tune(options(model), Settings())
    before = first.path.read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(model.parent / "another"))
    slow(monkeypatch, clock, build, "run_ninja")
    for budget in (0.0, 60.0):
        outcome = tune(options(model), Settings(budget=budget))
        assert (outcome.measured, outcome.changed, outcome.idle) == (0, False, True)
        assert any("the earlier record stays as it is" in note for note in outcome.notes)
        assert first.path.read_bytes() == before
    assert "1 steps stay as they are in the record" in outcome.notes


def test_a_compiler_that_hangs_is_ended(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real processes, and the real clock: without an end they would take hours."""
    pids = model.parent / "pids"
    compiler = model.parent / "compiler"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *-dM*) exec cc "$@";; esac\necho $$ >> "{pids}"\nsleep 9999\n'
    )
    compiler.chmod(0o755)
    words = ["autotune", str(model), "--target", "generic", "--cc", str(compiler)]
    assert invoke([*words, "--budget", "4", "--json"]) == 1, "there is no record"
    found = json.loads(capsys.readouterr().out)
    assert (found["record"], found["changed"]) == (None, False)
    assert list(model.parent.glob("*.tuning.json")) == []
    assert (found["measured"], found["not_measured"]) == (0, ["scores"])
    begun = [int(text) for text in pids.read_text().split()] if pids.exists() else []
    assert len(begun) <= 3 * (2 + (os.cpu_count() or 1))
    assert not any(map(is_alive, begun))


def test_the_command_counts_from_its_beginning(
    model: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Settings] = []

    def fake(options: Options, settings: Settings, progress: object) -> Outcome:
        seen.append(settings)
        raise RecordError("enough")

    monkeypatch.setattr(tuner, "tune", fake)
    clock.time = 17.0
    assert invoke(["autotune", str(model), "--target", "generic", "--budget", "3"]) == 2
    assert (seen[0].budget, seen[0].started) == (3.0, 17.0)


def test_members_of_chains_are_told_from_chains() -> None:
    from cannery.choose.plan import Plan, Segment
    from cannery.tuning.budget import segment_names

    def step(name: str, *parts: Any) -> Any:
        return SimpleNamespace(name=name, parts=parts)

    one, two, three = step("one"), step("two"), step("three")
    segments = [Segment(s, k) for k, s in enumerate((one, two, three))]
    segments.append(Segment(step("one", one, two), 0))
    choice: Any = None
    everything = [0, 1, 2, 3]
    alone = Plan(0.0, ((0, choice), (1, choice), (2, choice)))
    assert segment_names(segments, everything, alone) == (
        "one",
        "one to two in one",
        "two",
        "three",
    )
    chained = Plan(0.0, ((3, choice), (2, choice)))
    assert segment_names(segments, everything, chained) == (
        "one by itself", "one to two in one", "two by itself", "three"
    )  # fmt: skip
