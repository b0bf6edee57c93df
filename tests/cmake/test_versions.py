"""Which versions of the package serve a project: of the same major version, and not older."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from needs import need_program

VERSIONS = Path(__file__).parents[2] / "cmake" / "CanneryConfigVersion.cmake"


def found(folder: Path, version: str, asked: str) -> bool:
    """Whether a package of a version is found where a project asks so."""
    text, count = re.subn(r'"\d+\.\d+\.\d+"', f'"{version}"', VERSIONS.read_text(), count=1)
    assert count == 1
    (folder / VERSIONS.name).write_text(text)
    (folder / "CanneryConfig.cmake").write_text("")
    script = folder / "find.cmake"
    script.write_text(
        f"cmake_minimum_required(VERSION 3.21)\n"
        f'find_package(Cannery {asked} QUIET CONFIG PATHS "{folder}" NO_DEFAULT_PATH)\n'
        'message("found ${Cannery_FOUND}")\n'
    )
    done = subprocess.run(
        [need_program("cmake"), "-P", script], capture_output=True, text=True, check=True
    )
    return done.stderr.strip() == "found 1"


@pytest.mark.parametrize(
    ("asked", "serves"),
    [
        ("", True), ("2", True), ("2.0", True), ("2.3", True), ("2.3.4", True), ("2.3.5", False),
        ("2.4", False), ("3", False), ("1", False), ("1.9", False), ("2.3.4 EXACT", True),
        ("2.3 EXACT", False), ("1...3", True), ("1...2", False), ("1...<2.3.4", False),
        ("1...2.3.4", True), ("2.3.4...<2.3.5", True), ("2.4...3", False), ("1...<2.3.5", True),
    ],
)  # fmt: skip
def test_versions(asked: str, serves: bool, tmp_path: Path) -> None:
    assert found(tmp_path, "2.3.4", asked) == serves
