"""Floats become integers without an FPU with the bits of the floats (`cannery_scaled`), and biases
are words that hold all their bits.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from vec_programs import Build, run_json

#: A processor that multiplies to 64 bits, and one that has only the low half of a product.
EMULATED = ("riscv32imc", "cortex-m0plus")


@pytest.mark.parametrize("target", ["generic", *EMULATED])
def test_scaled_floats_have_the_bits_of_floats(target: str, tmp_path: Path) -> None:
    # Emulated, one number in 2^8 of those.
    lines = run_json("scaled.c", Build(target), tmp_path, ["i"] if target in EMULATED else [])
    assert len(lines) == 14
    assert all(line["count"] > 10**4 and line["wrong"] == 0 for line in lines)
