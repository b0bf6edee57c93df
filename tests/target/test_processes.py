"""Programs that never end, print for ever, do not read, or close what they print to."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from cannery.cli import invoke
from cannery.errors import ToolchainError
from cannery.execution import program
from cannery.target.processes import OutputLimitError, run_to_end
from cannery.target.runner import Origin, Runner
from frontends.keras_files import chain, image, write_h5
from needs import need_program, need_toolchain
from quantization.networks import dense

LONG = 300.0


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_program_that_prints_for_ever_is_ended(stream: str, tmp_path: Path) -> None:
    done = tmp_path / "done"
    command = ["sh", "-c", f"yes >&{stream}; touch {done}"]
    with pytest.raises(OutputLimitError):
        run_to_end(command, timeout=LONG, limit=100_000)
    assert not done.exists()
    ended = run_to_end(["sh", "-c", "echo 123; echo 45 >&2"], timeout=LONG, limit=4)
    assert (ended.stdout, ended.stderr) == ("123\n", "45\n")


def test_much_text_goes_in_and_comes_out() -> None:
    text = "".join(f"line {k}\n" for k in range(100_000))
    assert run_to_end(["cat"], timeout=LONG, text=text).stdout == text
    assert run_to_end(["true"], timeout=LONG, text=text).returncode == 0, "nobody reads it"


@pytest.mark.parametrize("before", ["", "exec >&- 2>&-; "])
def test_a_program_without_an_end(before: str) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_to_end(["sh", "-c", f"{before}sleep {LONG}"], timeout=0.3)


def test_a_runner_that_prints_for_ever(tmp_path: Path) -> None:
    runner = Runner((str(script(tmp_path / "robot", "yes")),), Origin.DEVICE, limit=2**20)
    with pytest.raises(ToolchainError) as caught:
        runner.run(tmp_path / "program")
    assert "printed more than 1 MiB, and was stopped" in str(caught.value)
    assert "check the runner" in str(caught.value)
    assert runner.printing(2**20).limit == 2**21


@pytest.mark.parametrize("command", ["verify", "bench"])
def test_nobody_waits_a_quarter_of_an_hour_for_a_small_network(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    need_program("ninja")
    need_toolchain("generic")
    monkeypatch.setattr(program, "_START_SECONDS", 1.0)
    monkeypatch.setattr("cannery.measure.identify.ANSWER_SECONDS", 1.0)
    model = write_h5(tmp_path / "net.h5", chain(image("x", 4), dense("d", 4, 3, "relu")))
    robot = script(tmp_path / "robot", f"sleep {LONG}")
    assert invoke([command, str(model), "--isa", "generic", "--runner", str(robot)]) == 2
    said = capsys.readouterr().err
    assert "it did not end within 1 s" in said
    assert "check the runner" in said


def test_large_networks_and_long_measurements_have_more_time() -> None:
    class Large:
        macs = 400_000_000

    runner = Runner((), Origin.HOST)
    large: Any = Large()
    made = program.NetworkProgram(Path("driver"), large, 1, pytest.fail)
    slow = made._patient(runner, 2.0, 10.0)
    assert slow.timeout == 120.0 + 3 * 10.0 + 200.0
