"""Code on the pages works: commands, Python and C are run or compiled, page by page.

A comment before a block says how it is meant: `not run: WHY`, `fails` (exit code 2), `compile:
MODEL OPTIONS` (C that includes the header of that network), `file: NAME`, `project: FILES` (a
CMakeLists.txt). The blocks of a page share a folder, in which there are `ball.h5` and `amp.nam`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cannery.cli import invoke
from needs import need_program
from warm_python import warm_python

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("docs/**/*.md"))
BLOCK = re.compile(r"(?:^<!-- ([^>]*) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: Excerpts of files that other tests look at, and output.
SHOWN = {"cmake", "sh", "toml"}
STRICT = ("-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Iout")


@dataclass(frozen=True)
class Block:
    """A block of code on a page, and the comment before it."""

    comment: str
    language: str
    text: str


def blocks(path: Path) -> list[Block]:
    found = [Block(*map(str, match)) for match in BLOCK.findall(path.read_text())]
    return [block for block in found if not block.comment.startswith("not run: ")]


def runs(path: Path) -> bool:
    return any(block.language not in SHOWN for block in blocks(path))


@pytest.mark.parametrize(
    "path", [*filter(runs, PAGES)], ids=lambda path: str(path.relative_to(ROOT / "docs"))
)
def test_code_on_a_page(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(ROOT / "examples" / "ball" / "ball.h5", folder)
    shutil.copy(ROOT / "tests" / "frontends" / "nam" / "wavenet.nam", folder / "amp.nam")
    monkeypatch.chdir(folder)
    for block in _in_order(blocks(path)):
        _run(block, tmp_path)


def _in_order(found: list[Block]) -> list[Block]:
    """Files first: commands on the page need them."""
    return sorted(found, key=lambda b: not b.comment.startswith(("file: ", "project: ")))


def _run(block: Block, tmp_path: Path) -> None:
    kind, _, rest = block.comment.partition(": ")
    if kind == "file":
        Path(rest).write_text(block.text)
    elif kind == "project":
        Path("CMakeLists.txt").write_text(block.text)
    elif kind == "compile":
        _compile(block, rest.replace(" C++", ""))
    elif block.language == "console":
        _shell(block, tmp_path, 2 if kind == "fails" else 0)
    elif block.language == "python":
        subprocess.run([sys.executable, "-c", block.text], check=True)
    else:
        assert block.language in SHOWN or kind == "interface", block


def _compile(block: Block, words: str) -> None:
    """The block is a file that includes the header of a network with these options."""
    assert invoke(["compile", *shlex.split(words), "-o", "out"]) == 0
    language = {"c": ("-xc", "-std=c11"), "cpp": ("-xc++", "-std=c++11")}[block.language]
    subprocess.run(["cc", *STRICT, *language, "-"], input=block.text.encode(), check=True)


def _shell(block: Block, tmp_path: Path, code: int) -> None:
    """The lines after `$`, as a person would type them."""
    lines = block.text.replace("\\\n", " ").splitlines()
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    assert commands, block
    if any(command.startswith("cmake") for command in commands):
        need_program("cmake")
    programs = tmp_path / "bin"
    if not programs.exists():
        programs.mkdir()
        program = programs / "cannery"
        program.write_text(f'#!/bin/sh\nexec {warm_python()} -m cannery "$@"\n')
        program.chmod(0o755)
    places = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {**os.environ, "PATH": ":".join(places)}
    done = subprocess.run(["sh", "-ec", "\n".join(commands)], env=environment, check=False)
    assert done.returncode == code
