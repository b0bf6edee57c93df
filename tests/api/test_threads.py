"""Networks that take several threads: the same bits, whoever calls."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import cannery
from cannery.api.net import Net
from cannery.errors import OptionError, ToolchainError
from needs import need_toolchain
from tiny_models import tiny_image

m = pytest.importorskip("frontends.onnx_models")

SHAPE = (1, 16, 64, 64)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose convolution is worth cutting."""
    need_toolchain("native")
    weights = {"w": m.floats(32, 16, 3, 3, seed=1)}
    nodes = [m.node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
    proto = m.model(nodes, {"x": SHAPE}, weights=weights)
    return Path(m.write(tmp_path_factory.mktemp("large") / "large.onnx", proto))


@pytest.fixture
def nets(large: Path, cache: Path) -> tuple[Net, Net]:
    """The network with one thread and with three."""
    return cannery.load(large), cannery.load(large, threads=3)


def test_one_input_is_cut(nets: tuple[Net, Net], monkeypatch: pytest.MonkeyPatch) -> None:
    alone, together = nets
    assert (alone.threads, together.threads) == (1, 3)
    x = m.floats(*SHAPE, seed=2)
    expected = alone(x)
    assert np.array_equal(together(x), expected)
    monkeypatch.setattr(together, "_run", None)  # what one thread would call
    assert np.array_equal(together(x), expected)
    monkeypatch.setattr(together, "_run_many", None)
    assert np.array_equal(together(np.repeat(x, 5, axis=0)), np.repeat(expected, 5, axis=0))


def test_small_networks_take_the_short_way(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = cannery.load(model, threads=4)
    monkeypatch.setattr(net, "_threads", None)
    assert np.array_equal(net(tiny_image()), cannery.load(model)(tiny_image()))


def test_callers_do_not_wait_for_the_threads_of_others(nets: tuple[Net, Net]) -> None:
    """They compute alone, to the same bits."""
    alone, together = nets
    images = [m.floats(*SHAPE, seed=k) for k in range(6)]
    expected = [alone(x) for x in images]
    with ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            for y, z in zip(pool.map(together, images), expected, strict=True):
                assert np.array_equal(y, z)
    threads = together._threads
    assert threads is not None
    with threads.lock:  # held by another caller
        assert np.array_equal(together(images[0]), expected[0])


def test_a_forked_process_starts_its_own(large: Path) -> None:
    program = f"""
import os, sys, numpy as np, cannery
net = cannery.load({str(large)!r}, threads=3)
x = np.ones({SHAPE}, np.float32)
y = net(x)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(net(x), y) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, timeout=300)
    assert done.returncode == 0


@pytest.mark.parametrize("threads", [0, 33, -1, 2.0, "4", True, None])
def test_wrong_numbers_of_threads(model: Path, threads: object) -> None:
    with pytest.raises(OptionError, match=r"threads: .* is not a number from 1 to 32"):
        cannery.load(model, threads=threads)  # type: ignore[arg-type]


def test_threads_that_cannot_be_started(
    nets: tuple[Net, Net], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes again, and not a call of threads that are not there."""
    _, together = nets
    threads = together._threads
    assert threads is not None
    monkeypatch.setattr(threads, "_start", lambda *_: 11)
    for _ in range(2):
        with pytest.raises(ToolchainError, match=r"threads cannot be started: .*take fewer"):
            together(np.ones(SHAPE, np.float32))
    monkeypatch.undo()
    assert together(np.ones(SHAPE, np.float32)).shape == (1, 32, 64, 64)
