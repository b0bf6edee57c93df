"""Errors of the recurrent cells in vec_math.h against the double libm (vec_cells.c)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runtime.test_vec_math import HEADER
from vec_programs import NATIVE, Build, run_json

#: name -> absolute and relative bound in the table of vec_math.h
STATED = {
    name: (float(absolute), float(relative))
    for name, absolute, relative in re.findall(
        r"^ \*   T_(\w+)\(\w, \w(?:, \w)*\) +(\S+) +(\S+) +\S", HEADER, re.MULTILINE
    )
}
#: Each family of registers; the words below them are tested elsewhere.
BUILDS = [
    *map(Build, ("generic", "sse2", "avx512", "neon32", "neon64")), Build("avx2", "clang", "c++11"),
    Build("riscv64v256"),
]  # fmt: skip


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_cells_stay_within_the_stated_bounds(build: Build, tmp_path: Path) -> None:
    count = 200_000 if build.target in NATIVE else 20_000
    rows = run_json("vec_cells.c", build, tmp_path, [str(count)])
    assert {row["function"] for row in rows} == set(STATED)
    assert [row for row in rows if row["wrong"] or not row["ratio"] <= 1.0] == []


def test_the_stated_bounds_are_those_that_are_measured() -> None:
    source = (Path(__file__).parent / "vec_cells.c").read_text()
    for name, (absolute, relative) in STATED.items():
        row = re.search(rf'"{name}", \d, \d, ([\d.e-]+), ([\d.e-]+),', source)
        assert row is not None
        assert (float(row[1]), float(row[2])) == (absolute, relative)
