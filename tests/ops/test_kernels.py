"""Every operator, by every schedule, on every instruction set, against the reference.

All candidates of an instruction set are one program, which runs once. Each candidate is run between
poisoned bytes, with unaligned pointers where the layout allows them, and in bands. How to add
cases: `cases.py`. How to try a single schedule: `kernel_bench.py`. Kindred targets
share the cases that show nothing new; the slow tests (`each`) have all of them on all targets.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from cannery.schedule.program import Step
from cannery.schedule.schedule import all_schedules, legal
from cannery.target.targets import find_target
from cannery.tuning.contests import is_view
from needs import need_program, need_toolchain
from nets.compilation import MAY_NEED, needed
from ops.cases import all_cases
from ops.kernel_bench import TARGETS, Want, case_steps, run


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_kernels(target: str, each: bool, tmp_path: Path) -> None:
    need_program("ninja", "ninja-build")
    need_toolchain(target)
    report = run(target, Want(each=each), tmp_path)
    lines = "\n".join(report.failures)
    assert not report.failures, f"{len(report.failures)} of {report.count} failed:\n{lines}"
    # Of the C library kernels use no more than whole networks may.
    assert needed(sorted(tmp_path.glob("unit*.o"))) <= {*MAY_NEED, "harness_data"}
    if report.not_run:
        pytest.skip(f"{report.count} candidates compiled, not run: {report.not_run}")


@cache
def legal_schedules() -> dict[tuple[str, Step, str], list[str]]:
    """The schedules of every step of every case, on every instruction set."""
    isas = [find_target(name).isa for name in TARGETS]
    found = {}
    for case in all_cases():
        graph, steps = case_steps(case)
        with case.caches():
            for step, _ in steps:
                for isa in isas:
                    found[case.name, step, isa.name] = [s.id for s in legal(graph, step, isa)]
    return found


def test_every_schedule_has_a_case() -> None:
    views = {name for name, schedule in all_schedules().items() if is_view(schedule)}
    assert set(all_schedules()) <= views.union(*legal_schedules().values())


def test_every_step_has_a_schedule() -> None:
    missing = [
        f"{case}/{step.name} on {isa}"
        for (case, step, isa), found in legal_schedules().items()
        if not step.parts and not found
    ]
    assert not missing
