"""The header of vectors is compiled in advance where a program has many translation units."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cannery.measure.build import HEADER_UNITS, Built, build
from cannery.measure.harness import Harness, make_candidate
from cannery.measure.measure import check
from cannery.target.toolchain import Toolchain
from measure.test_harness import Copy, trial
from needs import need_program, need_runner, need_toolchain


@pytest.fixture(params=["native", "aarch64-a53"])
def toolchain(request: pytest.FixtureRequest) -> Toolchain:
    need_program("ninja", "ninja-build")
    found = need_toolchain(request.param)
    return replace(found, cflags=(*found.cflags, "-DFLAG=1"))


def built(toolchain: Toolchain, folder: Path, units: int, broken: str = "") -> Built:
    """A program with a candidate in each unit, and one that is not C if requested."""
    isa = toolchain.target.isa
    copies = [Copy(value="* (float)FLAG")] * (units - bool(broken))
    bodies = [*copies, *([Copy(broken)] if broken else [])]
    candidates = [make_candidate(trial(body, isa), k) for k, body in enumerate(bodies)]
    return build(folder, Harness(isa, unit=1), candidates, toolchain)


def right(program: Built, toolchain: Toolchain) -> int:
    return sum(not found.fault for found in check(program, need_runner(toolchain)).values())


def header(toolchain: Toolchain, folder: Path) -> Path:
    return folder / f"cannery/{toolchain.target.isa.header}.gch"


def test_many_units_share_it(toolchain: Toolchain, tmp_path: Path) -> None:
    if toolchain.compiler.kind != "gcc":
        pytest.skip("for gcc")
    program = built(toolchain, tmp_path, HEADER_UNITS)
    assert right(program, toolchain) == HEADER_UNITS
    assert header(toolchain, tmp_path).is_file()
    words = [*toolchain.compiler.command, *toolchain.cflags, "-I.", "-H", "-fsyntax-only"]
    done = subprocess.run(
        [*words, "unit000.c"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.startswith("! "), "the compiler takes it"


def test_few_do_not(toolchain: Toolchain, tmp_path: Path) -> None:
    program = built(toolchain, tmp_path, HEADER_UNITS - 1)
    assert right(program, toolchain) == HEADER_UNITS - 1
    assert not header(toolchain, tmp_path).exists()


def test_units_that_fail_are_told(toolchain: Toolchain, tmp_path: Path) -> None:
    program = built(toolchain, tmp_path, HEADER_UNITS, broken="this is no C;")
    assert right(program, toolchain) == HEADER_UNITS - 1
    (reason,) = program.failed.values()
    assert "error" in reason


def test_without_it_where_it_cannot_be_made(toolchain: Toolchain, tmp_path: Path) -> None:
    header(toolchain, tmp_path).mkdir(parents=True)
    program = built(toolchain, tmp_path, HEADER_UNITS)
    assert (right(program, toolchain), dict(program.failed)) == (HEADER_UNITS, {})
