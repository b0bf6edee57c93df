"""The mode in which processors take subnormal numbers for zero (subnormals.h)."""

from __future__ import annotations

from pathlib import Path

import pytest

from vec_programs import Build, run_json

#: Builds, and whether the processor has such a mode.
BUILDS = {
    Build("sse2"): True,
    Build("avx2", "clang", "c++11"): True,
    Build("atom32"): True,
    Build("neon32"): True,
    Build("neon64", "", "c++11"): True,
    Build("riscv64"): False,
}


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_products(build: Build, tmp_path: Path) -> None:
    """As asked for and no longer, results and operands."""
    (found,) = run_json("subnormals.c", build, tmp_path)
    has = BUILDS[build]
    assert bool(found.pop("mode")) is has
    kept, zeros = [0, 0], [1, 1] if has else [0, 0]
    assert found == {"before": kept, "flushed": zeros, "still": zeros, "after": kept}
