"""The driver of networks calls them as it says, and its figures are what a clock showed.

The network is `fake_model.c`, which checks each call; its clock moves only when something runs. The
program watches its own memory.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cannery.execution import program
from cannery.measure.identify import device_sources
from needs import missing, need_program

SAMPLES, STEPS = 3, 3

#: Microseconds of the fake network: a run of sample 0 with its three looks at the clock, one of n
#: at once, a run in pieces, one of n at once in pieces, a look at the clock.
RUN, MANY, PIECES, MANY_PIECES, CLOCK = 12.3, 5.0, 7.0, 3.0, 0.1

FLAGS = (
    "-std=gnu99", "-O1", "-Wall", "-Werror", "-pthread", "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all", "-Dclock_gettime=fake_clock_gettime",
    "-Dclock_nanosleep=fake_clock_nanosleep", "-DDRIVER_MODEL=fake_model",
    "-DDRIVER_PARALLEL=fake_parallel_model", "-DDRIVER_PTHREADS=1", "-DDRIVER_LAP=fake_lap",
    f"-DDRIVER_STEPS={STEPS}", f"-DDRIVER_SAMPLES={SAMPLES}",
)  # fmt: skip

#: The lines that a run of the driver prints after the one about the device.
Drive = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Drive:
    folder = tmp_path_factory.mktemp("driver")
    data = b"".join(bytes([16 * s + k]) * (8, 12)[k] for s in range(SAMPLES) for k in range(2))
    (folder / "driver_data.bin").write_bytes(data)
    for name, text in device_sources().items():
        (folder / name).write_bytes(text)
    here = Path(__file__)
    headers = here.parents[2] / "runtime" / "include"
    files = [here.with_name("fake_model.c"), Path(program.__file__).with_name("driver.c")]
    built = subprocess.run(
        [need_program("gcc"), *FLAGS, f"-I{folder}", f"-I{headers}", *files, "-o", "driver"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "cannot find" in built.stderr:
        missing(f"gcc has no sanitizers: {built.stderr[:200]}")
    assert not built.returncode, built.stderr

    def run(*words: str, wrong: str = "") -> list[dict[str, Any]]:
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "WRONG": wrong}
        done = subprocess.run(
            [folder / "driver", *words], env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        first, *lines = map(json.loads, done.stdout.splitlines())
        assert "device" in first
        return lines

    return run


@pytest.mark.parametrize("wrong", ["", "repeats", "many", "pieces"])
def test_results_are_compared_with_those_of_other_ways(drive: Drive, wrong: str) -> None:
    """In each output of each sample; what differs is said of that one alone."""
    *lines, counts = drive("--run", wrong=wrong)
    assert [(line["sample"], line["output"]) for line in lines] == [
        (s, k) for s in range(SAMPLES) for k in range(2)
    ]
    differs = {"repeats": {0, 1, 2}, "many": {2}, "pieces": {1}}
    for line in lines:
        sample, output = line["sample"], line["output"]
        assert bytes.fromhex(line["bytes"]) == bytes([100 + 16 * sample + output]) * (16, 4)[output]
        for way, samples in differs.items():
            assert line[way] == (way != wrong or output == 0 or sample not in samples), way
    assert counts["calls"] == [2] * SAMPLES
    assert (counts["many_calls"], counts["parallel_calls"]) == (1, SAMPLES)


def test_what_is_counted_is_the_first_sample_alone(drive: Drive) -> None:
    (counts,) = drive("--repeat", "5")
    assert counts["calls"] == [5, 0, 0] and counts["signals"] == 0
    (counts,) = drive("--step", "4")
    assert counts["calls"] == [5, 0, 0]  # one before the first signal
    assert (counts["signals"], counts["between"]) == (2, 4)


@pytest.mark.parametrize("cold", [False, True])
def test_times_of_a_run(drive: Drive, cold: bool) -> None:
    """The samples take their turns, each longer than the one before it."""
    line, counts = drive("--time", *(["15e-5", "--cold"] if cold else ["0.05"]))
    looks = CLOCK if cold else CLOCK / 8  # runs of 50 us together are timed as one
    for number, name in enumerate(("p25", "p50", "p99")):
        assert line[name] == pytest.approx(RUN + number + looks, rel=0.002)
    assert line["cold"] == cold and line["samples"] > 9
    assert counts["many_calls"] == counts["parallel_calls"] == 0


def test_a_long_measurement_is_of_all_its_time(drive: Drive) -> None:
    """More times than there is room for: some are dropped, from everywhere, not those at an end."""
    short, _ = drive("--time", "0.4")
    long, counts = drive("--time", "4.4", wrong="later")
    assert short["samples"] < 20_000
    assert sum(counts["calls"]) > 1.2 * 8 * 20_000
    assert 10_000 <= long["samples"] <= 20_000
    assert len(long["blocks"]) == 10
    first, *_, last = long["blocks"]
    assert first < 1.2 * RUN < 1.5 * RUN < last
    steps, counts = drive("--steps", "2")
    assert 250 <= steps["samples"] <= 500
    assert sum(counts["calls"]) > 1.5 * 128 * 500


@pytest.mark.parametrize("cold", [False, True])
def test_times_of_steps(drive: Drive, cold: bool) -> None:
    line, _ = drive("--steps", *(["1e-4", "--cold"] if cold else ["0.2"]))
    assert line["steps"] == pytest.approx([2.0, 4.0, 6.0], abs=0.01)
    assert line["samples"] > 5


def test_a_trace_has_every_step_of_every_run(drive: Drive) -> None:
    *runs, counts = drive("--trace", "5")
    assert [run["run"] for run in runs] == list(range(5))
    end = 0.0
    for run in runs:
        sample = run["run"] % SAMPLES
        laps = [2.0 + sample + CLOCK, 4.0 + CLOCK, 6.0 + CLOCK]
        assert run["laps"] == pytest.approx(laps, abs=1e-3)
        assert run["clock"] == pytest.approx(CLOCK, abs=1e-3)
        assert run["start"] > end
        assert run["end"] - run["start"] == pytest.approx(sum(laps) + CLOCK, abs=1e-3)
        end = run["end"]
    assert counts["calls"] == [1 + 2, 2, 1]


@pytest.mark.parametrize("cold", [False, True])
def test_times_of_many(drive: Drive, cold: bool) -> None:
    line, counts = drive("--many", *(["2e-4", "5", "--cold"] if cold else ["0.01", "5"]))
    assert line["single"] == pytest.approx(5 * RUN + 0 + 1 + 2 + 0 + 1 + CLOCK, rel=1e-4)
    assert line["many"] == pytest.approx(5 * MANY + CLOCK, rel=1e-4)
    assert sum(counts["calls"]) == 5 * counts["many_calls"] == 5 * line["samples"]


def test_times_of_threads(drive: Drive) -> None:
    line, counts = drive("--threads", "0.01", "3", "20")
    assert line["single"] == pytest.approx(RUN, rel=0.01)
    assert line["threads"] == pytest.approx(PIECES, rel=0.01)
    assert line["many_single"] == pytest.approx(20 * MANY, rel=0.01)
    assert line["many_threads"] == pytest.approx(20 * MANY_PIECES, rel=0.01)
    assert counts["calls"][1:] == [0, 0] and counts["parallel_calls"] > line["samples"]


def test_calls_at_a_rate(drive: Drive) -> None:
    line, counts = drive("--rate", "10000", "6")
    expected = [RUN + k % SAMPLES + CLOCK for k in range(6)]
    assert line["runs"] == pytest.approx(expected, abs=2e-3)
    assert all(0 <= a - b < 5 * CLOCK for a, b in zip(line["latencies"], line["runs"], strict=True))
    assert line["seconds"] == pytest.approx(6e-4, rel=0.01)
    assert sum(counts["calls"]) == 1 + 6


def test_calls_that_come_too_late_wait_for_one_another(drive: Drive) -> None:
    line, _ = drive("--rate", "200000", "9")
    over = [RUN + k % SAMPLES for k in range(9)]
    due = [sum(over[: k + 1]) - 5.0 * k for k in range(9)]
    assert line["latencies"] == pytest.approx(due, rel=0.1)


def test_of_calls_with_cold_caches_none_is_late_for_that(drive: Drive) -> None:
    line, _ = drive("--rate", "10000", "6", "--cold")
    assert line["cold"] == 1 and max(line["latencies"]) < RUN + SAMPLES + 5 * CLOCK
