"""The example classifier: right on its images, on this machine and with every toolchain file."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from cmake_project import Project, everywhere, need_tools

ROOT = Path(__file__).parents[2]
TIME = re.compile(r"12 of 12 right, ([0-9.e+]+) us per image")


@pytest.fixture
def example(tmp_path: Path) -> Project:
    """A copy of the example."""
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / "ball", folder)
    return Project(folder)


@everywhere
def test_labels_are_right(example: Project, toolchain: str, target: str) -> None:
    need_tools(target)
    warnings = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
    extra = () if toolchain else ("-DCANNERY_TARGET=native", f"-DCMAKE_C_FLAGS={warnings}")
    example.configure(*extra, toolchain=toolchain)
    example.build()
    found = TIME.search(example.test())
    assert found is not None
    assert float(found[1]) > 0


def test_inside_a_project_that_brings_cannery(example: Project) -> None:
    outer = Project(example.folder.parent, Path(sys.executable))
    outer.lists(
        f'add_subdirectory("{ROOT}" cannery)\nadd_subdirectory("{example.folder}" ball)\n',
        find=False,
    )
    outer.configure("-UCannery_DIR")
    outer.build()
    assert TIME.search(outer.test())


def test_a_wrong_label_is_told(example: Project) -> None:
    labels = example.folder / "images" / "labels.txt"
    labels.write_text(labels.read_text().replace("01_grass.pgm no_ball", "01_grass.pgm ball"))
    example.configure()
    example.build()
    told = example.run(example.tree / "classify", ok=False)
    assert re.search(r"01_grass\.pgm .* ball WRONG\n", told)
    assert "11 of 12 right" in told


@pytest.mark.parametrize("content", [b"", b"P5\n16 16\n255\n" + bytes(255), b"P5\n8 8\n255\n"])
def test_damaged_images_are_told(example: Project, content: bytes) -> None:
    (example.folder / "images" / "03_line.pgm").write_bytes(content)
    example.configure()
    example.build()
    told = example.run(example.tree / "classify", ok=False)
    assert "03_line.pgm: cannot be read, or is no grey image of 16x16" in told
