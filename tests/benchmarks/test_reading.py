"""A policy beside loops that read its weights: both are timed, all of them is read."""

from __future__ import annotations

from pathlib import Path

from needs import need_program, need_toolchain
from onnx_networks import write_onnx_network
from reading import Reading, measure

WEIGHTS = 4 * (48 * 512 + 512 * 256 + 256 * 128 + 128 * 12)


def test_a_policy(tmp_path: Path) -> None:
    need_toolchain("native")
    need_program("ninja", "ninja-build")
    found = measure(write_onnx_network("walking_policy", tmp_path), "", 0.02)
    assert WEIGHTS < found.bytes < 1.02 * WEIGHTS
    assert 16 in found.loops_us
    assert 0 < found.best_us == min(found.loops_us.values())


def test_the_share_is_that_of_the_fastest_loop() -> None:
    assert Reading(1000, 4.0, {16: 5.0, 32: 3.0}).share == 0.75
