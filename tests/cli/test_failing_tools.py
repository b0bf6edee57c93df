"""Compilers and runners that fail: one line each, with what, where and a cure, and exit code 2."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cannery.cli import invoke
from needs import need_program, need_toolchain
from tiny_models import write_tiny_classifier

#: Passes the probe, and fails as soon as it has to compile.
_BROKEN_CC = """\
#!/bin/sh
case "$*" in *-dM*) exec cc "$@" ;; esac
echo "cc1: fatal error: no space in this compiler" >&2
exit 1
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_program("ninja")
    need_toolchain("native")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "here"
    folder.mkdir()
    return write_tiny_classifier(folder / "ball.h5")


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "tool"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def words(command: str, model: Path) -> list[str]:
    """A whole command line."""
    more: dict[str, list[str]] = {}
    if command == "run":
        np.savez(model.parent.parent / "in.npz", image=np.zeros((1, 16, 16, 1), np.float32))
        more["run"] = [
            "--inputs", str(model.parent.parent / "in.npz"), "-o", str(model.parent / "out.npz"),
        ]  # fmt: skip
    return [command, str(model), *more.get(command, [])]


def told(capsys: pytest.CaptureFixture[str], arguments: list[str], model: Path) -> str:
    """The one line of a run that must end with exit code 2 and leave no files."""
    assert invoke(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"cannery: error: .+: .+ \(.+\)\n", printed.err), printed.err
    assert list(model.parent.iterdir()) == [model]
    return printed.err


@pytest.mark.parametrize("command", ["verify", "bench", "run", "autotune"])
def test_a_compiler_that_fails(
    model: Path, command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = told(capsys, [*words(command, model), "--cc", "false"], model)
    assert "false" in line
    assert "failed with exit code 1" in line
    assert "--cc" in line
    broken = script(tmp_path, _BROKEN_CC)
    line = told(capsys, [*words(command, model), "--cc", broken], model)
    assert broken in line
    assert "no space in this compiler" in line
    assert "(check the compiler and its flags: --cc" in line


def test_what_is_no_compiler(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = told(capsys, ["verify", str(model), "--cc", "true"], model)
    assert "true: no predefined macros are listed (give gcc or clang as --cc)" in line


@pytest.mark.parametrize("command", ["verify", "bench", "run", "autotune"])
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("exit 1", "failed with exit code 1"),
        ("echo lost connection >&2; exit 255", "failed with exit code 255: lost connection"),
        ("kill -SEGV $$", "crashed (SIGSEGV)"),
        ("exit 0", "report|time|print"),
        ("echo '{\"hello\": 1}'", "report|time|print"),
        ("echo '{\"out'", "damaged output line"),
    ],
)
def test_a_runner_that_fails(
    model: Path,
    command: str,
    text: str,
    what: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    runner = script(tmp_path, f"#!/bin/sh\n{text}\n")
    line = told(capsys, [*words(command, model), "--runner", runner], model)
    assert runner in line
    assert re.search(what.replace("(", r"\(").replace(")", r"\)"), line)
    assert "(check the runner: CMD program args..." in line


def test_a_runner_that_times_the_network_and_not_its_steps(
    model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (
        '#!/bin/sh\nif [ "$2" != --steps ]; then exec "$@"; fi\n'
        '"$1" --device\necho \'{"steps": []}\'\n'
    )
    runner = script(tmp_path, text)
    line = told(capsys, ["bench", str(model), "--seconds", "0.01", "--runner", runner], model)
    assert "not all steps were timed" in line


@pytest.mark.parametrize(
    ("option", "value", "what"),
    [
        ("--runner", "", "--runner: the command is empty"),
        ("--runner", "''", "--runner: the command is empty"),
        ("--cc", "", "--cc: the command is empty"),
        ("--cc", "gcc '", "--cc: No closing quotation"),
    ],
)
def test_commands_that_are_none(
    model: Path, option: str, value: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["verify", str(model), option, value]) == 2
    assert what in capsys.readouterr().err
