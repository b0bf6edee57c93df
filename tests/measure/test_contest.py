"""Which candidates a contest drops, how often it calls the others, and what it says of them.

Kernels move a clock of their own (`fake_clock.h`); the program watches its own memory.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cannery.layouts import Want
from cannery.measure.build import Built, build
from cannery.measure.harness import Harness, make_candidate
from cannery.measure.measure import Context, Protocol, measure
from cannery.target.toolchain import Toolchain
from measure.test_harness import Copy, trial
from needs import missing, need_program, need_runner, need_toolchain

CLOCK = Path(__file__).with_name("fake_clock.h")

#: Microseconds of a call, contest by contest; those of the last read other layouts in turn.
TIMES = ((5.0, 5.4, 5.6, 9.0), (30.0,), (8.0, 20.0, 70.0, 21.0))

PROTOCOL = Protocol(first=6, more=8, sample_us=50.0)
#: Calls of a sample: as many as take more than that; of those, the look at the clock is a part.
LOOK = 0.1


class Planar(Copy):
    """The same for images channel by channel: no rival of the others."""

    def reads(self, *_: object) -> tuple[Want, ...]:  # type: ignore[override]
        return (Want("planar"),)


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    need_program("ninja", "ninja-build")
    found = need_toolchain("generic")
    _need_sanitizer(found)
    watched = ("-D_GNU_SOURCE", "-include", str(CLOCK), "-fsanitize=address")
    return replace(found, cflags=(*found.cflags, *watched), ldflags=("-fsanitize=address",))


def _need_sanitizer(toolchain: Toolchain) -> None:
    command = [*toolchain.compiler.command, "-fsanitize=address", "-x", "c", "-", "-o", "/dev/null"]
    done = subprocess.run(
        command, input="int main(void) { return 0; }", capture_output=True, text=True, check=False
    )
    if done.returncode:
        missing(f"no sanitizers: {done.stderr[:200]}")


@pytest.fixture(autouse=True)
def leaks(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are failures, except where programs may not be traced."""
    done = subprocess.run([built.executable, "--to", "0"], capture_output=True, check=False)
    monkeypatch.setenv("ASAN_OPTIONS", f"detect_leaks={int(done.returncode == 0)}")


@pytest.fixture(scope="module")
def built(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Built:
    isa = toolchain.target.isa
    candidates = []
    for contest, times in enumerate(TIMES):
        for k, us in enumerate(times):
            kind = Planar if contest == 2 and k % 2 else Copy
            made = trial(kind(body=f"spend({1000 * us:.0f});", scratch=64), isa)
            candidates.append(make_candidate(made, len(candidates), contest))
    return build(tmp_path_factory.mktemp("contest"), Harness(isa), candidates, toolchain)


def samples(built: Built, protocol: Protocol, words: Sequence[str] = ()) -> list[list[int]]:
    """How many samples there are of each candidate, contest by contest; 0 of those skipped."""
    timings = measure(built, need_runner(need_toolchain("generic")), protocol, words)
    found, number = [], 0
    for times in TIMES:
        row = []
        for us in times:
            timing = timings.get(f"trial{number:05d}")
            row.append(timing.samples if timing else 0)
            if timing:
                calls = 1 if protocol.context is Context.COLD else int(50.0 / us) + 1
                assert timing.us == pytest.approx(us + LOOK / calls, rel=2e-3)
                assert timing.median_us == pytest.approx(timing.us, rel=1e-3)
            number += 1
        found.append(row)
    return found


def test_those_more_than_a_tenth_slower_than_a_rival_are_out(built: Built) -> None:
    assert samples(built, PROTOCOL) == [[14, 14, 6, 6], [14], [14, 14, 6, 14]]


def test_without_time_there_are_a_few_of_each(built: Built) -> None:
    few = replace(PROTOCOL, limit=1e-5)
    assert samples(built, few) == [[5, 5, 3, 3], [5], [5, 5, 3, 5]]


def test_some_of_the_time_is_for_the_best(built: Built) -> None:
    """Half of what remains of it; a round of the second contest takes 60 us."""
    limit = 2 * 60.2e-6 * 4
    assert samples(built, replace(PROTOCOL, limit=limit))[1] == [4 + 4]


def test_with_cold_caches_each_call_is_a_sample(built: Built) -> None:
    cold = replace(PROTOCOL, first=2, more=1, context=Context.COLD)
    assert samples(built, cold)[1] == [3 + 1]


def test_a_part_of_the_candidates(built: Built) -> None:
    words = ["--from", "1", "--to", "7", "--skip", "2"]
    assert samples(built, PROTOCOL, words) == [[0, 14, 0, 6], [14], [14, 14, 0, 0]]
