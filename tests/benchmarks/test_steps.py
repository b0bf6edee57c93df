"""A WaveNet in calls: Cannery, the rivals' forms of it, what the table says of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from needs import need_program, need_toolchain
from rivals.cached import CACHED_RIVALS, CachedRival, run_calls
from rivals.served import Served
from rivals.wavenet import F32, Conv, compute, random_wavenet, standard_wavenet
from steps import Entrant, as_table, make_task, ours, relative_error, rival

BLOCK = 8

#: Pasts shorter and longer than a call.
TINY = random_wavenet((4, 2), (1, 3, 8))


def test_the_standard_network_has_as_many_weights() -> None:
    convs = list(standard_wavenet().convs())
    assert sum(len(conv.numbers()) for conv in convs) + 1 == 13_802
    assert max(conv.dilation for conv in convs) == 512


class InNumpy:
    """Operations on arrays."""

    def conv(self, x: F32, conv: Conv) -> F32:
        steps, apart = x.shape[2] - conv.reach, conv.dilation
        taps = [x[0, :, k * apart : k * apart + steps] for k in range(conv.weight.shape[2])]
        y = sum(conv.weight[:, :, k] @ tap for k, tap in enumerate(taps))
        return np.asarray(y + (0 if conv.bias is None else conv.bias[:, None]), np.float32)[None]

    def join(self, past: F32, x: F32) -> F32:
        return np.concatenate((past, x), 2)

    def last(self, x: F32, steps: int) -> F32:
        return x[:, :, -steps:]

    def add(self, a: F32, b: F32) -> F32:
        return a + b

    def tanh(self, x: F32) -> F32:
        return np.tanh(x)

    def scale(self, x: F32, factor: float) -> F32:
        return np.asarray(np.float32(factor) * x, np.float32)


def test_calls_compute_what_the_file_says(tmp_path: Path) -> None:
    """The network that rivals compute is that of the .nam file, whoever is installed."""
    task = make_task(TINY, BLOCK, tmp_path, 12 * BLOCK)
    pasts, found = [np.zeros(shape, np.float32) for shape in TINY.pasts()], []
    for x in task.x.reshape(-1, 1, 1, BLOCK):
        y, pasts = compute(TINY, InNumpy(), x, pasts)
        found.append(y.ravel())
        assert [past.shape for past in pasts] == TINY.pasts()
    assert relative_error(np.concatenate(found), task.expected) < 1e-5


@pytest.mark.parametrize("name", CACHED_RIVALS)
def test_a_rival_computes_the_same(name: str, tmp_path: Path) -> None:
    found = CACHED_RIVALS[name]
    pytest.importorskip("onnx" if found.package == "onnxruntime" else found.package)
    pytest.importorskip(found.package)
    task = make_task(TINY, BLOCK, tmp_path, 12 * BLOCK)
    outputs = run_calls(found.load(TINY, BLOCK), task.x, BLOCK)
    assert relative_error(outputs, task.expected) < 1e-5


def test_cannery_computes_the_same_in_its_program(tmp_path: Path) -> None:
    need_toolchain("native")
    need_program("ninja", "ninja-build")
    found = ours(make_task(TINY, BLOCK, tmp_path, 12 * BLOCK), "", None, tmp_path / "ours")
    assert found.served
    try:
        found.served.sample()
    finally:
        found.served.end()
    assert found.error < 1e-5
    assert found.worst >= 1
    assert found.served.times[0] > 0
    # Two products of layers of 4 and of 2 channels each, with 3 taps and 1, and what is around.
    layers = 3 * (4 * 4 * 3 + 4 + 4 * 4) + 3 * (2 * 2 * 3 + 2 + 2 * 2) - 2 * 2
    assert found.macs == pytest.approx(layers + 4 + 4 * 2 + 4 * 2 + 2, rel=0.1)


def test_who_is_missing_is_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = CachedRival("Nobody", "no-such-package", "rivals.nobody", "Nobody")
    broken = CachedRival("Broken", "numpy", "rivals.nobody", "Nobody")
    monkeypatch.setitem(CACHED_RIVALS, "nobody", absent)
    assert not absent.version
    assert broken.version == np.__version__
    task = make_task(TINY, BLOCK, tmp_path, BLOCK)
    table = as_table([rival(task, "nobody", tmp_path / "nobody")], BLOCK)
    assert "| Nobody |" in table
    assert "not installed: pip install no-such-package" in table


def test_a_rival_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process does not know the name."""
    monkeypatch.setitem(CACHED_RIVALS, "broken", CachedRival("Broken", "numpy", "json", "load"))
    found = rival(make_task(TINY, BLOCK, tmp_path, BLOCK), "broken", tmp_path / "broken")
    assert found.served is None
    assert "broken" in found.remark


def served(us: float) -> Served:
    """A contestant that was timed, without a process."""
    made: Served = object.__new__(Served)
    made.times = [us / 2, us, 3 * us]
    return made


def test_the_table() -> None:
    entrants = [
        Entrant("Cannery", "gcc", served(64.0), 1e-7, 3000.0, 1.25, peaks=[8.0, 12.0, 9.0]),
        Entrant("slow", "1.0", served(128.0), 1e-6),
        Entrant("wrong", "2.0", served(1.0), 0.5),
    ]
    _, _, first, second, third = as_table(entrants, 64).splitlines()
    assert first == "| Cannery | 1.000 | 20.8 | 67 | 1.0 | 1.25 | 1.0e-07 | gcc |"
    assert second == "| slow | 2.000 | 10.4 | 33 | 2.0 |  | 1.0e-06 | 1.0 |"
    assert third == "| wrong |  |  |  |  |  | 5.0e-01 | wrong outputs |"
