"""A state that decays: both ways are timed, over noise and silence."""

from __future__ import annotations

from pathlib import Path

from frontends.keras_files import write_h5
from needs import need_program, need_toolchain
from silence import Silence, decaying, measure, summary


def test_a_decaying_state(tmp_path: Path) -> None:
    need_toolchain("native")
    need_program("ninja", "ninja-build")
    found = measure(write_h5(tmp_path / "net.h5", decaying("GRU")), "", 0.01)
    assert list(found) == ["as_it_is", "flushed"]
    assert all(0 < min(s.noise, s.last) <= max(s.noise, s.slowest) for s in found.values())


def test_the_slowest_window_of_the_silence() -> None:
    windows = [3.0, 5.0, 4.0, 1.0, 9.0, *8 * [2.0]]
    assert summary(3, windows) == Silence(4.0, 9.0, 2.0)
