"""The commands that need no model, and how errors end."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannery import __version__
from cannery.cli import COMMANDS, invoke
from cannery.frontends import formats
from cannery.ir.registry import all_ops
from cannery.resources import cmake_dir
from cannery.schedule.schedule import all_schedules
from cannery.target.targets import TARGETS
from tiny_models import write_tiny_model
from warm_python import warm_python

ROOT = Path(__file__).parents[2]


def cannery(
    *arguments: str, python: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a separate process: forked, or a new Python."""
    return subprocess.run(
        [python or warm_python(), "-m", "cannery", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "generator"), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def output(*arguments: str, python: Path | None = None) -> str:
    """The standard output of a run that must succeed and say nothing else."""
    done = cannery(*arguments, python=python)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def parsed(*arguments: str) -> Any:
    return json.loads(output(*arguments))


def test_help_lists_every_command_and_each_has_help() -> None:
    text = output("--help")
    for name in COMMANDS:
        assert name in text
        assert "--json" in output(name, "--help")


def test_help_in_a_process_that_listed_something(capsys: pytest.CaptureFixture[str]) -> None:
    assert [invoke(["list", "--json"]), invoke(["--help"])] == [0, 0]
    assert "cmake-dir" in capsys.readouterr().out.rsplit("Commands:", 1)[1]


@pytest.mark.parametrize("words", [["--json", "--version"], ["--version", "--json"]])
def test_the_version(words: list[str]) -> None:
    assert parsed(*words) == {"version": __version__}
    assert __version__ in output("--version", python=Path(sys.executable))


def test_json_before_the_command_counts_too() -> None:
    for command in ("targets", "list", "cmake-dir"):
        assert parsed("--json", command) == parsed(command, "--json")


def test_no_command_shows_the_help_on_stderr() -> None:
    for words in ([], ["--json"]):
        done = cannery(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) > len(COMMANDS)


def test_cmake_dir() -> None:
    assert Path(output("cmake-dir").strip()) == cmake_dir()
    assert (Path(output("cmake-dir", "--toolchains").strip()) / "i686-atom.cmake").is_file()


def test_targets() -> None:
    rows = parsed("targets", "--json")
    assert [row["name"] for row in rows] == ["native", *TARGETS]
    assert "atom32" in output("targets")


def test_list_shows_the_registries() -> None:
    found = parsed("list", "--json")
    assert not output("list").startswith("{")
    assert found["operators"] == sorted(all_ops())
    assert list(found["schedules"]) == list(all_schedules())
    assert len(set(found["schedules"].values())) == len(all_schedules()), "two say the same"


def test_doctor_without_any_tool() -> None:
    done = cannery("doctor", PATH="/nonexistent", CC="")
    assert done.returncode == 1
    assert "apt install gcc libc6-dev" in done.stdout
    picolibc = "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"
    for package in ("qemu-user", "qemu-system-misc", picolibc, "cppcheck"):
        assert f"apt install {package}" in done.stdout


def test_doctor_names_the_formats_that_can_be_read() -> None:
    rows = json.loads(cannery("doctor", "--json").stdout)
    (found,) = [row["found"] for row in rows if row["what"] == "models that can be read"]
    assert found == ", ".join(formats())
    (package,) = [row for row in rows if "package onnx" in row["what"]]
    assert package["found"] or "cannery[onnx]" in package["cure"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-command"], "No such command 'no-such-command'"),
        (["compil", "{dir}/junk.h5"], "did you mean 'compile'?"),
        (["tune", "{dir}/junk.h5"], "did you mean 'autotune'?"),
        (["compile", "{dir}/junk.h5", "--taget", "avx2"], "did you mean '--target'?"),
        (["compile", "{dir}/junk.h5", "-o", "{dir}/out", "--isa", "AVX2"], "did you mean 'avx2'?"),
        (["compile", "{dir}/junk.h5", "-o", "{dir}/out", "--target", "esp32"], "take any"),
        (["compile"], "Missing argument 'MODEL'"),
        (["compile", "{dir}/none.h5", "-o", "{dir}/out"], "No such file"),
        (["compile", "{dir}/junk.h5", "-o", "{dir}/out"], "not a model file"),
        (["compile", "{dir}", "-o", "{dir}/out"], "a folder"),
        (["compile", "{dir}/junk.h5", "-o", "{dir}/out", "--name", "int x"], "not a C identifier"),
        (["compile", "{dir}/junk.h5", "-o", "{dir}/out", "--batch", "0"], "--batch: '0' is not"),
        (["compile", "{dir}/junk.h5", "-o", "{dir}/out", "--bach", "1"], "No such option"),
        (["inspect", "{dir}/junk.h5"], "not a model file"),
        (["inspect", "{dir}/junk.h5", "--isa", "avx9"], "unknown instruction set 'avx9'"),
        (["inspect", "{dir}/junk.h5", "--target", "nao9"], "unknown target 'nao9'"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "junk.h5").write_bytes(b"junk")
    done = cannery(*(argument.replace("{dir}", str(tmp_path)) for argument in arguments))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("cannery: error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_written_is_told_before_anything_is_done(tmp_path: Path) -> None:
    model = str(write_tiny_model(tmp_path / "ball.h5"))
    np.savez(tmp_path / "in.npz", image=np.zeros((1, 8, 8, 1), np.float32))
    run = ["run", model, "--inputs", str(tmp_path / "in.npz"), "-o"]
    out = ["compile", model, "-o", str(tmp_path / "out"), "--isa", "sse2"]
    missing = str(tmp_path / "no" / "such" / "file")
    before = sorted(tmp_path.rglob("*"))
    for words, message in (
        ([*run, missing], "--output: there is no folder"),
        ([*run, str(tmp_path)], "--output: "),
        (["autotune", model, "--tuning", missing], "--tuning: there is no folder"),
        ([*out, "--depfile", missing], "--depfile: there is no folder"),
        ([*out, "--dump", model], "--dump: "),
        (["compile", model, "-o", model, "--isa", "sse2"], "--output: "),
    ):
        done = cannery(*words, PATH="/nonexistent", CC="")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"cannery: error: {message}" in done.stderr
        assert done.stderr.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before


def test_a_full_disk_is_told_with_a_cure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(prefix: str) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / prefix))

    monkeypatch.setattr("cannery.cli.demo_project.tempfile.mkdtemp", full)
    assert invoke(["demo"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"cannery: error: {tmp_path}/cannery-demo-: No space left on device (")
    assert f"make room; programs are built in {tempfile.gettempdir()}" in told


def test_a_folder_that_cannot_be_copied_is_told_by_its_first_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        files = [("a.h5", "there/a.h5"), ("b.h5", "there/b.h5")]
        text = "[Errno 28] No space left on device: "
        raise shutil.Error([(a, b, f"{text}{a!r} -> {b!r}") for a, b in files])

    monkeypatch.setattr("cannery.cli.demo_project.shutil.copytree", full)
    assert invoke(["demo"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("cannery: error: there/a.h5: No space left on device (make room")
    assert told.count("\n") == 1


def test_where_nothing_can_be_written_is_told_with_a_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(write_tiny_model(tmp_path / "ball.h5"))
    words = ["compile", model, "--isa", "sse2", "-o"]
    for more in (["/proc/x"], [str(tmp_path / "out"), "--dump", "/proc/x"]):
        assert invoke([*words, *more]) == 2
        told = capsys.readouterr().err
        assert told.startswith("cannery: error: /proc/x: ")
        assert told.endswith("or name another place)\n")
    monkeypatch.setattr(
        "cannery.tuning.tuner.tune", None
    )  # The error comes before anything is measured.
    assert invoke(["autotune", model, "--tuning", "/proc"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("cannery: error: /proc: the tuning record cannot be written there")
    assert "--tuning PATH puts it elsewhere" in told


def test_a_disk_that_refuses_leaves_no_folder(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "ball.h5")
    # No file may have more than one block of 512 or 1024 bytes.
    words = [sys.executable, "-m", "cannery", "compile", str(model), "--isa", "sse2"]
    more = ["-o", str(tmp_path / "a" / "b"), "--dump", str(tmp_path / "c")]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *words, *more],
        env={
            **os.environ, "PYTHONPATH": str(ROOT / "generator"), "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(": File too large (raise the limit, see ulimit -f)\n")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == [model]
