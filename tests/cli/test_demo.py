"""`cannery demo`: the whole way on the example project, and what happens if something is amiss."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cannery.cli import invoke
from cannery.cli.demo import gallery
from cannery.cli.demo_project import (
    Classified,
    Outcome,
    build_project,
    copy_project,
    demo_options,
    find_cmake,
    run_program,
)
from cannery.errors import OptionError, ToolchainError
from cannery.ir.tensor import DType
from needs import need_program, need_toolchain

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tools() -> tuple[str, str]:
    """Compiler (asserted), cmake and ninja."""
    need_toolchain("native")
    return need_program("cmake"), need_program("ninja")


def demo(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with its own measurement cache."""
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT / "generator"), "XDG_CACHE_HOME": str(tmp_path / "c"),
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "cannery", "demo", *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_whole_way_measured(tmp_path: Path, tools: tuple[str, str]) -> None:
    folder = tmp_path / "project"
    done = demo(tmp_path, "--folder", str(folder), "--budget", "120", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert Path(told["folder"]) == folder
    assert [image["right"] for image in told["images"]] == [True] * 12
    assert sum(image["label"] == "ball" for image in told["images"]) == 6
    assert told["latency_us"] > 0
    tuned = told["autotune"]
    (layer,) = [step for step in tuned["steps"] if step["name"] == "conv_1"]
    assert len([c for c in layer["candidates"] if c["us"]]) > 3
    assert tuned["total_us"]["after"] <= 1.02 * tuned["total_us"]["before"]
    manifest = json.loads((folder / "build" / "cannery" / "ball" / "ball.json").read_text())
    chosen = {step["nodes"][0]: step["schedule"] for step in manifest["steps"]}
    assert chosen["conv_1"] == layer["chosen"], "the build must use the record"


def test_the_whole_way_as_text(tmp_path: Path, tools: tuple[str, str]) -> None:
    done = demo(tmp_path, "--folder", str(tmp_path / "a folder"), "--budget", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "12 of 12 right, " in done.stdout
    assert done.stdout.count("no ball ") == 6
    assert "nothing was measured, so no record is written" in done.stdout
    assert list((tmp_path / "a folder").glob("*.tuning.json")) == []
    assert f"The project stays in {tmp_path / 'a folder'};" in done.stdout


def temporary_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def test_errors_that_do_not_name_the_project_leave_none(
    tmp_path: Path, tools: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = temporary_folders(tmp_path, monkeypatch)

    def fails(*_: object) -> None:
        raise ToolchainError("no reason")

    monkeypatch.setattr("cannery.tuning.tuner.tune", fails)
    assert invoke(["demo"]) == 2
    assert list(folder.iterdir()) == []


def test_a_log_that_an_error_names_stays(
    tmp_path: Path,
    tools: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = temporary_folders(tmp_path, monkeypatch)
    monkeypatch.setattr("cannery.cli.demo.find_cmake", lambda: need_program("false"))
    assert invoke(["demo", "--budget", "0"]) == 2
    (project,) = folder.iterdir()
    assert f"see {project}/build/log.txt" in capsys.readouterr().err
    assert (project / "build" / "log.txt").is_file()


def test_nothing_of_the_users_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = demo(tmp_path, "--folder", str(tmp_path))
    assert done.returncode == 2
    assert f"--folder: {tmp_path} is not an empty folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(OptionError, match="not an empty folder"):
        copy_project(tmp_path / "mine")


def test_a_missing_compiler_is_told_before_anything_is_done(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cannery", "demo", "--folder", str(tmp_path / "project")],
        env={"PYTHONPATH": str(ROOT / "generator"), "PATH": "/nonexistent"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "apt install gcc libc6-dev" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "project").exists()


def test_cmake_is_found_beside_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ToolchainError, match=r"cmake not found \(apt install cmake, or pip"):
        find_cmake()
    (tmp_path / "cmake").touch(mode=0o755)
    assert find_cmake() == str(tmp_path / "cmake")


def test_a_failing_build_names_the_log(tmp_path: Path, tools: tuple[str, str]) -> None:
    folder = copy_project(tmp_path / "project")
    (folder / "classify.c").write_text("int main(void) { return missing; }\n")
    with pytest.raises(ToolchainError, match=r"cmake: .*error.*'?missing'?.*see .*log\.txt"):
        build_project(folder, *tools)
    assert "missing" in (folder / "build" / "log.txt").read_text()


def test_a_program_that_says_nothing(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho no images >&2\nexit 2\n")
    program.chmod(0o755)
    with pytest.raises(ToolchainError, match="printed no result: no images"):
        run_program(program)


def test_options_are_those_of_the_project() -> None:
    options = demo_options(ROOT / "examples" / "ball" / "ball.h5")
    assert options.input_dtype == {"image": DType.UINT8}
    text = (ROOT / "examples" / "ball" / "CMakeLists.txt").read_text()
    assert f"INPUT_DTYPE image=uint8 SCALE {options.scale})" in text


def test_wrong_answers_stand_under_their_pictures() -> None:
    found = (Classified("01_grass.pgm", 0.2, 0.8, "no_ball"),)
    lines = gallery(ROOT / "examples" / "ball" / "images", Outcome(found, 1.0), colour=False)
    assert lines[-2:] == ["ball 80.0%", "WRONG: no ball"]
