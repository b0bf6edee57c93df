"""Every operator, by every schedule, on every instruction set, against the reference.

All candidates of an instruction set are one program, which runs once. Each candidate is run between
poisoned bytes, with unaligned pointers where the layout allows them, and in bands. How to add
cases: `cases.py`. How to try a single schedule: `kernel_bench.py`. Kindred targets
share the cases that show nothing new; the slow tests (`each`) have all of them on all targets.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cannery.target.targets import find_target
from needs import need_program, need_toolchain
from nets.compilation import MAY_NEED, needed
from ops.kernel_bench import EXTENDS, TARGETS, Want, attempts, own, run


@pytest.mark.long
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


@pytest.mark.parametrize(
    ("target", "cases"),
    [("cortex-m7", "fixed*"), ("cortex-m0plus", "quantized_dsp*"), ("riscv32imc", "quantized_dsp*"),
     ("riscv32imc", "quantized_[ab]*")],
)  # fmt: skip
def test_kernels_without_an_operating_system(target: str, cases: str, tmp_path: Path) -> None:
    """The memory of such boards has no room for all: integers, which run there, also without an
    FPU.
    """
    need_program("ninja", "ninja-build")
    need_toolchain(target)
    report = run(target, Want(cases=cases), tmp_path)
    assert report.count > 0
    assert not report.failures, "\n".join(report.failures)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXTENDS)
def test_what_a_target_takes_over_is_the_same_code(name: str) -> None:
    """Candidates that the fast tests try on the extended target alone."""
    codes = {}
    for each in (name, EXTENDS[name][0]):
        found, broken = attempts(find_target(each), Want(each=True))
        assert not broken
        codes[each] = {
            a.candidate.trial.label: a.candidate.kernel.code.replace(a.candidate.symbol, "trial")
            for a in found
            if not own(find_target(name), a.candidate.trial.choice.schedule)
        }
    mine, extended = codes[name], codes[EXTENDS[name][0]]
    shared = mine.keys() & extended.keys()
    assert len(shared) > len(mine) / 2
    assert [label for label in shared if mine[label] != extended[label]] == []
