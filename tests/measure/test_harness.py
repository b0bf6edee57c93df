"""The judge of kernels must notice what kernels do wrong."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cannery.errors import ToolchainError
from cannery.ir.graph import Graph, GraphBuilder
from cannery.layouts import Halo, Want
from cannery.lowering.lower import cut
from cannery.measure.build import Built, build
from cannery.measure.harness import LIGHT_BYTES, Harness, make_candidate
from cannery.measure.measure import Check, Protocol, alone, check, measure, measure_peak
from cannery.measure.trial import Placing, Trial, all_data, make_trial, random_inputs
from cannery.ops.movement.op import Identity
from cannery.ops.shared.function import signature
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule
from cannery.target.isa import Isa
from cannery.target.runner import Origin, Runner
from cannery.target.toolchain import Toolchain
from needs import need_program, need_runner, need_toolchain

SHAPE = (1, 3, 5, 4)
COPY = """
for (int i = y0; i < y1; ++i) {
    for (int j = 0; j < 5; ++j) {
        for (int c = 0; c < 4; ++c) {
            y[Y + i * YR + j * YC + c] = x[X + i * XR + j * XC + c] VALUE;
        }
    }
}
"""


@dataclass(frozen=True)
class Copy(Schedule):
    """Copies an image; `body` is what it also does, `value` is put after each element."""

    id = "test.copy"

    body: str = ""
    value: str = ""
    band: int = 1
    halo: Halo = Halo()  # noqa: RUF009 (frozen)
    slack: int = 0
    scratch: int = 0
    constants: tuple[ConstArray, ...] = ()

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        return ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        return [{}]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(halo=self.halo),)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(slack=self.slack),)

    def in_place(self, step: Step) -> bool:
        return True

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(1.0)

    def kernel(self, job: Job) -> Kernel:
        x, y = job.inputs[0], job.output
        head = signature(job, scratch=self.scratch > 0, band=self.band > 0)
        text = COPY + self.body if self.band else "const int y0 = 0, y1 = 3;" + COPY + self.body
        strides = {"XR": x.row, "XC": x.col, "YR": y.row, "YC": y.col, "X": x.origin, "Y": y.origin}
        for name, number in {"VALUE": self.value, **strides}.items():
            text = text.replace(name, str(number))
        return Kernel(f"{head}\n{{{text}}}\n", self.constants, self.scratch, self.band)


def identity() -> Graph:
    builder = GraphBuilder("copy")
    builder.output(builder.node(Identity(), [builder.input("x", SHAPE)], name="y"))
    return builder.build()


def trial(schedule: Schedule, isa: Isa, placing: Placing = Placing.PLAIN) -> Trial:
    graph = identity()
    steps = cut(graph)
    (data,) = all_data(graph, steps, random_inputs(graph))
    made = make_trial(graph, steps[0], schedule, {}, isa, data, placing=placing)
    assert made is not None
    return made


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    need_program("ninja", "ninja-build")
    return need_toolchain("native")


def build_one(folder: Path, toolchain: Toolchain, *trials: Trial, bands: bool = True) -> Built:
    candidates = [make_candidate(t, k) for k, t in enumerate(trials)]
    return build(folder, Harness(toolchain.target.isa, bands), candidates, toolchain)


GOOD = {
    "halo is zero": Copy(halo=Halo(1, 1, 1, 1), value="+ x[X - XR] + x[X - XC] + x[X + 3 * XR]"),
    "slack is free": Copy(body="y[3 * YR] = y[3 * YR + 7] = 0.0f;", slack=8),
    "scratch is there": Copy(body="scratch[63] = 1.0f; scratch[0] = 2.0f;", scratch=256),
    "stored constant": Copy(value="+ the_zeros[0]", constants=(
        ConstArray("the_zeros", np.zeros(5000, np.float32)),)),
}  # fmt: skip


OUTSIDE = "touched memory outside its buffers"
BAD = {
    "reads behind": (Copy(body="y[Y] += 0.0f * x[X + 60];"), Placing.PLAIN, OUTSIDE),
    "reads before": (Copy(body="y[Y] += 0.0f * x[X - 2];"), Placing.PLAIN, OUTSIDE),
    "writes behind": (Copy(body="y[Y + 60] = 0.0f;"), Placing.PLAIN, OUTSIDE),
    "writes a gap": (Copy(body="y[Y + 4] = 0.0f;"), Placing.WIDE, "wrote outside the valid box"),
    "writes beside a box": (Copy(body="y[Y - 1] = 0.0f;"), Placing.WINDOW, "outside the valid box"),
    "writes beyond the slack": (
        Copy(body="y[Y + 3 * YR + 20] = 0.0f;", slack=8), Placing.WIDE, "outside the valid box"),
    "writes before scratch": (
        Copy(body="scratch[-1] = 0.0f;", scratch=64), Placing.PLAIN, OUTSIDE),
    "changes its input": (
        Copy(body="((float *)x)[X] = 3.0f;"), Placing.PLAIN, "changed an input"),
    "depends on bands": (Copy(body="y[Y + y0 * YR] += (float)(y1 - y0);"), Placing.PLAIN, "bands"),
    "depends on scratch": (
        Copy(body="y[Y] = scratch[0] != scratch[0] ? 0.0f : 1.0f;", scratch=64, band=0),
        Placing.PLAIN, "memory around or before"),
    "depends on the address": (
        Copy(body="y[Y] += (size_t)x % 16 == 0 ? 1.0f : 2.0f;", band=0),
        Placing.PLAIN, "memory around or before"),
    "illegal instruction": (
        Copy(body="__builtin_trap();"), Placing.PLAIN, "illegal instruction"),
    "null pointer": (Copy(body="*(volatile float *)0 = 0.0f;"), Placing.PLAIN, OUTSIDE),
}  # fmt: skip


WRONG = {
    "value": (Copy(value="* 1.25f"), Placing.PLAIN, 0.25),
    "garbage lane": (Copy(value="+ 0.0f * x[X + 4]"), Placing.WIDE, 1e300),
    "halo not asked for": (Copy(value="+ x[X - XR]"), Placing.WIDE, 1e300),
    "forgotten element": (Copy(body="y[Y] = y[Y] * 0.0f / 0.0f;"), Placing.PLAIN, 1e300),
}


@pytest.fixture(scope="module")
def verdicts(
    toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Check]:
    """All of them in one program, by group and name."""
    isa = toolchain.target.isa
    tried = {("placed", p.value): trial(Copy(), isa, p) for p in Placing}
    tried |= {("good", name): trial(s, isa) for name, s in GOOD.items()}
    tried |= {("bad", name): trial(s, isa, p) for name, (s, p, _) in BAD.items()}
    tried |= {("wrong", name): trial(s, isa, p) for name, (s, p, _) in WRONG.items()}
    built = build_one(tmp_path_factory.mktemp("harness"), toolchain, *tried.values())
    return dict(zip(tried, check(built, need_runner(toolchain)).values(), strict=True))


@pytest.mark.parametrize("placing", list(Placing))
def test_right_kernel_passes(verdicts: dict[tuple[str, str], Check], placing: Placing) -> None:
    assert verdicts["placed", placing.value] == Check(0.0, "")


@pytest.mark.parametrize("name", GOOD)
def test_what_is_allowed(verdicts: dict[tuple[str, str], Check], name: str) -> None:
    assert verdicts["good", name] == Check(0.0, "")


@pytest.mark.parametrize("name", BAD)
def test_what_is_forbidden(verdicts: dict[tuple[str, str], Check], name: str) -> None:
    assert BAD[name][2] in verdicts["bad", name].fault


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_measured(verdicts: dict[tuple[str, str], Check], name: str) -> None:
    assert verdicts["wrong", name].error == pytest.approx(WRONG[name][2])


def test_a_crash_or_compile_error_costs_only_itself(toolchain: Toolchain, tmp_path: Path) -> None:
    isa = toolchain.target.isa
    trials = [
        trial(Copy(), isa),
        trial(Copy(body="this is no C;"), isa),
        trial(Copy(body="__builtin_trap();"), isa),
        trial(Copy(value="* 2.0f"), isa),
    ]
    built = build_one(tmp_path, toolchain, *trials)
    found = check(built, need_runner(toolchain))
    assert list(built.failed) == ["trial00001"]
    assert "error" in built.failed["trial00001"]
    assert {s: c.fault for s, c in found.items()} == {
        "trial00000": "", "trial00002": "illegal instruction", "trial00003": "",
    }  # fmt: skip
    assert found["trial00003"].error == pytest.approx(1.0)


def test_nothing_compiles(toolchain: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="no candidate compiles"):
        build_one(tmp_path, toolchain, trial(Copy(body="this is no C;"), toolchain.target.isa))


def test_times_tell_slow_from_fast(toolchain: Toolchain, tmp_path: Path) -> None:
    isa = toolchain.target.isa
    slow = 'for (int k = 0; k < 9999; ++k) { __asm__ volatile(""); }'
    built = build_one(tmp_path, toolchain, trial(Copy(body=slow), isa), trial(Copy(), isa))
    runner = need_runner(toolchain)
    times = measure(built, runner, Protocol(first=4, more=3, sample_us=20))
    assert times["trial00000"].us > 3 * times["trial00001"].us > 0
    assert times["trial00000"].samples < times["trial00001"].samples
    assert measure_peak(built, runner) > 0.01


def test_equal_code_has_equal_keys() -> None:
    from cannery.target.isa import isa

    a, b, c = (
        make_candidate(trial(s, isa("generic")), k).code_key()
        for k, s in enumerate([Copy(), Copy(), Copy(value="* 2.0f")])
    )
    assert a == b != c


def test_a_light_candidate_has_no_constants_and_the_key_of_the_whole_one() -> None:
    from cannery.target.isa import isa

    large = np.arange(LIGHT_BYTES // 4, dtype=np.float32)
    schedules = [Copy(constants=(ConstArray(f"trial{k:05d}_w", large.copy()),)) for k in range(2)]
    candidates = [make_candidate(trial(s, isa("generic")), k) for k, s in enumerate(schedules)]
    light = [c.light() for c in candidates]
    assert [c.kernel.constants for c in light] == [(), ()]
    assert [c.code_key() for c in light] == [c.code_key() for c in candidates]
    known: dict[bytes, ConstArray] = {}
    one, other = (c.whole(known) for c in light)
    assert [c.name for c in (*one.kernel.constants, *other.kernel.constants)] == [
        "trial00000_w", "trial00001_w",
    ]  # fmt: skip
    np.testing.assert_array_equal(one.kernel.constants[0].values, large)
    assert one.kernel.constants[0].values is other.kernel.constants[0].values
    small = make_candidate(trial(Copy(), isa("generic")), 0)
    assert small.light() is small and small.whole(known) is small


def test_other_headers_are_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured with the runtime headers of an earlier version does not count."""
    from cannery.target.isa import isa

    candidate = make_candidate(trial(Copy(), isa("generic")), 0)
    before = candidate.code_key()
    (tmp_path / "vec_scalar.h").write_text("/* changed */")
    monkeypatch.setattr("cannery.measure.harness.runtime_folder", lambda: tmp_path)
    assert candidate.code_key() != before


def test_tunings_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("cannery.measure.measure._PATIENCE", 0.2)
    runner = Runner((), Origin.HOST)
    order: list[str] = []

    def other() -> None:
        with alone(runner):
            order.append("other")

    with alone(runner):
        with alone(Runner(("ssh", "robot"), Origin.DEVICE)):
            order.append("another device")
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.05)
        order.append("first")
    thread.join()
    assert order == ["another device", "first", "other"]


def test_a_lock_that_cannot_be_had_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with alone(Runner((), Origin.HOST)):
        pass


@pytest.mark.parametrize(
    "line",
    [
        {"trial": 2}, {"trial": -1}, {"trial": "x"}, {"trial": [0]}, {"error": "x"}, {"error": -1},
        {"error": math.nan}, {"error": None}, {"fault": 3}, {"us": math.inf}, {"us": {}},
        {"us": -1.0}, {"median_us": "1e999"}, {"samples": math.nan},
    ],
    ids=repr,
)  # fmt: skip
def test_what_a_device_prints_is_not_trusted(line: dict[str, Any], tmp_path: Path) -> None:
    good = {"trial": 0, "error": 0.0, "fault": "", "us": 1.0, "median_us": 1.0, "samples": 3}
    script = tmp_path / "script.py"
    runner = Runner((sys.executable,), Origin.DEVICE)
    candidates: Any = (SimpleNamespace(symbol="trial00000"),)
    built = Built(script, candidates, {})

    def told(content: dict[str, Any]) -> None:
        script.write_text(f"print({json.dumps(content)!r})\n")
        check(built, runner)
        measure(built, runner, Protocol())

    told(good)
    with pytest.raises(ToolchainError, match=r"script\.py: damaged output line.*check the runner"):
        told(good | line)
