"""The completion that the documentation describes works in the shells that are here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from warm_python import warm_python

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"

#: What asks each shell how a line goes on, after the line of the documentation.
ASK = {
    "bash": """
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_cannery_completion cannery 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "fish": "complete --do-complete '{words}' | string split --fields 1 \\t\n",
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One that finds a `cannery`."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "cannery"
    program.write_text(f'#!/bin/sh\nexec {warm_python()} -m cannery "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def described(shell: str) -> str:
    """The line of the documentation."""
    found = re.search(rf"^ +(.*_CANNERY_COMPLETE={shell}_source.*?) +# in ", PAGE.read_text(), re.M)
    assert found
    return found[1]


@pytest.mark.parametrize("shell", ASK)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cannery ev", {"evaluate"}),
        ("cannery compile --max-s", {"--max-size"}),
        ("cannery bench ball.h5 --context c", {"cold"}),
        ("cannery compile ball.h5 --quantize int", {"int16", "int8"}),
        ("cannery compile ball.h5 --target cortex-m7", {"cortex-m7"}),
        ("cannery compile ball.h5 --isa avx512v", {"avx512vnni"}),
    ],
)
def test_the_described_line_completes(
    shell: str, words: str, expected: set[str], environment: dict[str, str], tmp_path: Path
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    script = tmp_path / "script"
    script.write_text(f"{described(shell)}\n{ASK[shell].format(words=words)}")
    done = subprocess.run(
        [shell, script], env=environment, capture_output=True, text=True, check=False
    )
    assert set(done.stdout.split()) == expected, done.stderr


def test_zsh_takes_the_described_line(environment: dict[str, str], tmp_path: Path) -> None:
    """Its completion wants a terminal: the line defines it, which is all that is asked."""
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh here")
    script = tmp_path / "script"
    text = f"autoload -Uz compinit; compinit -u -d {tmp_path}/dump\n{described('zsh')}\n"
    script.write_text(text + "print ${_comps[cannery]}\n")
    done = subprocess.run(
        ["zsh", "-f", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["_cannery_completion"], done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_described(shell: str, environment: dict[str, str]) -> None:
    """The variable is the one that the program obeys."""
    found = re.search(r"(_CANNERY_COMPLETE)=(\w+_source)", described(shell))
    assert found
    done = subprocess.run(
        ["cannery"], env={**environment, found[1]: found[2]}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "_cannery_completion" in done.stdout
