"""Which calls a contest consists of, and what it says of their times.

With its own clock: each reading takes a microsecond, and calls take as long as their kernel says.
So every number is known in advance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cannery.ir.graph import Graph
from cannery.layouts import Want, nhwc, planar
from cannery.lowering.lower import cut
from cannery.measure.build import Built, build, with_flags
from cannery.measure.harness import Harness, make_candidate
from cannery.measure.measure import measure_peak
from cannery.measure.trial import all_data, make_trial, random_inputs
from cannery.schedule.program import Step
from cannery.schedule.schedule import Job, Kernel, Params
from cannery.target.isa import Isa
from cannery.target.toolchain import Toolchain
from measure.test_harness import Copy, identity
from needs import need_program, need_runner, need_toolchain

#: Until the first call a look takes longer, so that the device is soon known. At the end the
#: program says which kernels were called, by their letters.
CLOCK = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define clock_gettime(clock, time) clock_of_calls(time)
__attribute__((weak)) double clock_now;
__attribute__((weak)) int calls_made;
__attribute__((weak)) char calls[4096];
__attribute__((weak)) int clock_of_calls(struct timespec *t)
{
    clock_now += calls_made ? 1e-6 : 1e-3;
    t->tv_sec = (time_t)clock_now;
    t->tv_nsec = (long)(1e9 * (clock_now - (double)t->tv_sec) + 0.5);
    return 0;
}
__attribute__((weak)) void say_calls(void)
{
    printf("{\\"calls\\": \\"%s\\"}\\n", calls);
}
__attribute__((weak)) void one_call(char name, double seconds)
{
    if (!calls_made) {
        atexit(say_calls);
    }
    calls[calls_made++] = name;
    clock_now += seconds;
}
"""


@dataclass(frozen=True)
class Timed(Copy):
    """A call takes `us` microseconds, the first ones as long as `begins` says."""

    id = "test.timed"

    name: str = "a"
    us: float = 10
    begins: tuple[float, ...] = ()
    order: str = nhwc.ORDER

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(self.order),)

    def kernel(self, job: Job) -> Kernel:
        count, first = len(self.begins), ", ".join(map(repr, (*self.begins, self.us)))
        body = (
            f"static const double us[] = {{ {first} }}; static int k;"
            f"one_call('{self.name}', 1e-6 * us[k < {count} ? k++ : {count}]);"
        )
        return Copy(body=body).kernel(job)


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    """One whose programs have the clock."""
    need_program("ninja", "ninja-build")
    found = need_toolchain("native")
    header = tmp_path_factory.mktemp("clock") / "clock.h"
    header.write_text(CLOCK)
    return with_flags(found, "-D_GNU_SOURCE", "-include", str(header))


def built(folder: Path, toolchain: Toolchain, *contests: Sequence[Timed]) -> Built:
    """A program with contests."""
    graph, isa = identity(), toolchain.target.isa
    (step,) = cut(graph)
    (data,) = all_data(graph, [step], random_inputs(graph))
    made = []
    for number, contest in enumerate(contests):
        for schedule in contest:
            trial = make_trial(graph, step, schedule, {}, isa, data)
            assert trial
            made.append(make_candidate(trial, len(made), number))
    return build(folder, Harness(isa), made, toolchain)


def run(program: Built, toolchain: Toolchain, arguments: str) -> tuple[list[dict[str, Any]], str]:
    """What it says of candidates, and the calls."""
    lines = need_runner(toolchain).run(program.executable, arguments.split())
    calls = [line["calls"] for line in lines if "calls" in line]
    return [line for line in lines if "trial" in line], "".join(calls)


CONTESTS = (
    (Timed(name="a"), Timed(name="b", us=20), Timed(name="c", us=10.9), Timed(name="d", us=12.2)),
    (Timed(name="e", us=30), Timed(name="f", order=planar.ORDER)),
    (Timed(name="g", begins=(90, 90, 30, 40, 10, 20, 30, 50)),),
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Built:
    return built(tmp_path_factory.mktemp("rounds"), toolchain, *CONTESTS)


def test_rounds(program: Built, toolchain: Toolchain) -> None:
    """Three calls to warm up; there and back; those within a tenth of their best rival go on."""
    found, calls = run(program, toolchain, "--time --sample 1 --rounds 4 3")
    first = "aaabbbcccddd" + "abcd" + "dcba" + "abcd" + "dcba" + "ac" + "ca" + "ac"
    second = "eeefff" + "ef" + "fe" + "ef" + "fe" + "ef" + "fe" + "ef"
    assert calls == first + second + "ggg" + 7 * "g"
    assert [line["trial"] for line in found] == list(range(7))
    assert [line["samples"] for line in found] == [7, 4, 7, 4, 7, 7, 7]
    us = [line["us"] for line in found]
    assert us == pytest.approx([11, 21, 11.9, 13.2, 31, 11, 11], rel=1e-3)
    assert found[-1]["median_us"] == pytest.approx(21, rel=1e-3)
    assert not any(line["cold"] for line in found)


@pytest.mark.parametrize(("skipped", "went_on"), [("0", "c"), ("0 --skip 2", "d"), ("3", "ac")])
def test_skipped_ones_are_no_rivals(
    program: Built, toolchain: Toolchain, skipped: str, went_on: str
) -> None:
    rounds = "--to 4 --sample 1 --rounds 3 1"
    found, calls = run(program, toolchain, f"--time {rounds} --skip {skipped}")
    others = "".join(c for k, c in enumerate("abcd") if str(k) not in skipped.split())
    warm = "".join(3 * c for c in others)
    assert calls == warm + others + others[::-1] + others + went_on
    assert [line["trial"] for line in found] == ["abcd".index(c) for c in others]


@pytest.mark.parametrize(
    ("bounds", "names"),
    [("--from 4 --to 5", "e"), ("--from 1 --to 3", "bc"), ("--from 6 --to 99", "g")],
)
def test_some_candidates_alone(
    program: Built, toolchain: Toolchain, bounds: str, names: str
) -> None:
    _, calls = run(program, toolchain, f"--time --sample 1 --rounds 2 0 {bounds}")
    assert "".join(sorted(set(calls))) == names
    found, _ = run(program, toolchain, f"--check {bounds}")
    assert [line["trial"] for line in found] == ["abcdefg".index(name) for name in names]
    assert not any(line["fault"] for line in found)


@pytest.mark.parametrize(
    ("rounds", "limit", "samples"),
    [
        ("9 9", 1e-3, 18),
        ("20 9", 300e-6, 13 + 9),  # a sample is 11 us: half of the limit is 13.6 rounds
        ("5 20", 300e-6, 5 + 13),
        ("9 9", 1e-6, 3 + 2),  # the least
        ("1 0", 1e-6, 3),
    ],
)
def test_a_limit_leaves_out_rounds(
    program: Built, toolchain: Toolchain, rounds: str, limit: float, samples: int
) -> None:
    arguments = f"--time --from 5 --to 6 --sample 1 --rounds {rounds} --limit {limit}"
    (found,), calls = run(program, toolchain, arguments)
    assert (found["samples"], calls) == (samples, "fff" + samples * "f")


def test_a_limit_is_shared(program: Built, toolchain: Toolchain) -> None:
    """Both take part in the first rounds, of 42 us; one in the rest."""
    found, _ = run(
        program, toolchain, "--time --from 4 --to 6 --sample 1 --rounds 20 20 --limit 500e-6"
    )
    assert [line["samples"] for line in found] == [5 + 5, 5 + 5]
    found, _ = run(program, toolchain, "--time --to 2 --sample 1 --rounds 20 20 --limit 500e-6")
    assert [line["samples"] for line in found] == [7 + 20, 7]


def test_short_calls_are_timed_together(program: Built, toolchain: Toolchain) -> None:
    """As many as make a sample, after one that is not timed; of the second try, as the first may
    have been interrupted.
    """
    (found,), calls = run(program, toolchain, "--time --from 5 --to 6 --sample 50 --rounds 3 2")
    assert found["us"] == pytest.approx(10.2, rel=1e-3)
    assert calls == "f" * (3 + 5 + 5 * (1 + 5))
    (found,), calls = run(program, toolchain, "--time --from 6 --to 7 --sample 42 --rounds 3 2")
    # Warm calls take 90, 90 and 30 us: two at once, which take 40 + 10, so again two.
    assert calls == "g" * (3 + 2 + 5 * (1 + 2))
    assert found["median_us"] == pytest.approx(10.5, rel=1e-3)


def test_cold_calls_are_single(program: Built, toolchain: Toolchain) -> None:
    """The time in which caches are emptied counts for the limit alone."""
    found, calls = run(program, toolchain, "--time --to 2 --sample 50 --rounds 4 3 --cold")
    assert calls == "ab" + "ab" + "ba" + "ab" + "ba" + "aaa"
    assert [line["us"] for line in found] == pytest.approx([11, 21], rel=1e-3)
    assert all(line["cold"] for line in found)
    rounds = "--rounds 20 2 --limit 100e-6"
    (found,), _ = run(program, toolchain, f"--time --to 1 --sample 1 {rounds} --cold")
    assert found["samples"] == 3 + 2
    (found,), _ = run(program, toolchain, f"--time --to 1 --sample 1 {rounds}")
    assert found["samples"] == 4 + 2


def test_peak(program: Built, toolchain: Toolchain) -> None:
    """The most multiply-adds in flight, as all ways take a look at the clock."""
    assert measure_peak(program, need_runner(toolchain)) == pytest.approx(
        2e-9 * 24 * 4000 * toolchain.target.isa.widest / 1e-3, rel=1e-3
    )
