"""Errors of vec_math.h against the double libm (vec_math_accuracy.c), on every width and ISA.

Samples, a third over all bit patterns and the rest where the functions live, with the neighbours
of every edge; `-m slow` takes all 2^32 floats, which is some minutes per function.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cannery.resources import runtime_include_dir
from vec_programs import CROSS, NATIVE, Build, run_json

SOURCE = "vec_math_accuracy.c"
HEADER = (runtime_include_dir() / "cannery" / "vec_math.h").read_text()
#: name -> the rest of its row in the table of vec_math.h
STATED = dict(re.findall(r"^ \*   T_(\w+)\(x(?:, alpha)?\)(.*)$", HEADER, re.MULTILINE))
BUILDS = [
    *(Build(target) for target in (*NATIVE, *CROSS)),
    Build("sse2", "clang"), Build("avx512", "clang", "c++11"), Build("neon32", level="-O0"),
]  # fmt: skip


def _name(row: dict[str, Any]) -> str:
    """The function's name without the parameter that the program gives it."""
    return re.sub(r"_\d.*", "", row["function"])


def _assert_within_bounds(rows: list[dict[str, Any]]) -> None:
    bad = [row for row in rows if row["wrong"] or not row["ratio"] <= 1.0]
    assert not bad


def _assert_bounds_are_the_stated_ones(row: dict[str, Any]) -> None:
    stated = STATED[_name(row)]
    if row["bound_ulp"]:
        assert f" {row['bound_ulp']:g} ulp" in stated
        assert row["bound_ulp"] <= 6
    else:
        bounds = [row["bound_absolute"], row["bound_relative"]]
        numbers = [float(n) for n in re.findall(r" (\d[\d.]*e-\d+)\b", stated)]
        assert numbers == [b for b in bounds if b]


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_errors_stay_within_the_stated_bounds(build: Build, tmp_path: Path) -> None:
    count = 400_000 if build.target in NATIVE else 60_000
    rows = run_json(SOURCE, build, tmp_path, [str(count)])
    widths = {row["lanes"] for row in rows}
    assert {_name(row) for row in rows} == set(STATED)
    assert len(rows) == len({row["function"] for row in rows}) * len(widths)
    for row in rows:
        _assert_bounds_are_the_stated_ones(row)
    _assert_within_bounds(rows)


@pytest.mark.parametrize(("target", "widest"), [("generic", 1), ("sse2", 4), ("avx512", 16)])
def test_all_widths_are_measured(target: str, widest: int, tmp_path: Path) -> None:
    rows = run_json(SOURCE, Build(target), tmp_path, ["1"])
    assert max(row["lanes"] for row in rows) == widest


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sse2", "avx512"])
@pytest.mark.parametrize("function", sorted(STATED))
def test_errors_for_all_floats(function: str, target: str, tmp_path: Path) -> None:
    """Without and with fused multiply-add."""
    name = {"elu": "elu_1_5", "exp_normal": "exp_normal_87"}.get(function, function)
    rows = run_json(SOURCE, Build(target), tmp_path, ["all", name], timeout=7200.0)
    assert rows
    _assert_within_bounds(rows)
