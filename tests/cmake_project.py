"""A downstream CMake project in a temporary folder, driven as a user would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cannery.resources import cmake_dir, toolchains_dir
from needs import need_program, need_toolchain
from warm_python import warm_python

EXAMPLES = Path(__file__).parents[1] / "examples"

#: Each toolchain file and its target, and this machine without one.
everywhere = pytest.mark.parametrize(
    ("toolchain", "target"),
    [
        ("", "native"),
        ("i686-atom", "atom32"),
        ("x86_64-silvermont", "silvermont"),
        ("armv7-neon", "armv7-a9"),
        ("aarch64", "aarch64-a53"),
        ("arm-none-eabi", "cortex-m7"),
        ("riscv64-v", "riscv64v128"),
    ],
)


def need_tools(target: str) -> None:
    """The compiler of a target, and what runs its programs."""
    for emulator in need_toolchain(target).target.emulator[:1]:
        need_program(emulator)


MAIN_C = """\
#include "ball.h"
#include <stdio.h>
static float image[BALL_IMAGE_LEN], scores[BALL_SCORES_LEN];
static unsigned char memory[BALL_WORKSPACE_BYTES] __attribute__((aligned(BALL_WORKSPACE_ALIGN)));
int main(void)
{
    const int wrong = ball_selftest(memory);
    ball_run(image, scores);
    printf("%s\\n", wrong ? "wrong" : "right");
    return wrong;
}
"""

MAIN_CPP = """\
#include "ball.hpp"
#include <stdio.h>
static ball::Net net;
static unsigned char memory[BALL_WORKSPACE_BYTES] __attribute__((aligned(BALL_WORKSPACE_ALIGN)));
int main()
{
    net.run();
    const int wrong = ball_selftest(memory);
    puts(wrong ? "wrong" : "right");
    return wrong;
}
"""


@dataclass(frozen=True)
class Project:
    """`folder` holds the sources, `folder/build` is the build tree.

    `python` runs Cannery; without it a warm one, as most tests ask about what CMake does.
    """

    folder: Path
    python: Path | None = None

    @property
    def tree(self) -> Path:
        return self.folder / "build"

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def lists(self, body: str, *, languages: str = "C", find: bool = True) -> None:
        """Write CMakeLists.txt around `body`."""
        package = "find_package(Cannery CONFIG REQUIRED)\n" if find else ""
        self.write(
            "CMakeLists.txt",
            f"cmake_minimum_required(VERSION 3.21)\nproject(robot LANGUAGES {languages})\n"
            f"enable_testing()\n{package}{body}",
        )

    def run(self, *command: str | Path, ok: bool | None = True) -> str:
        """Run a command in the folder; its output. It must end as `ok` says (None: any)."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "CLICOLOR": "0", "NINJA_STATUS": "", "MAKEFLAGS": ""},
        )  # fmt: skip
        assert ok is None or (done.returncode == 0) is ok, done.stdout
        return done.stdout

    def configure(
        self, *arguments: str, generator: str = "Ninja", toolchain: str = "", ok: bool = True
    ) -> str:
        """Configure; returns CMake's output."""
        words = [f"-DCannery_DIR={cmake_dir()}", f"-DCANNERY_PYTHON={self.python or warm_python()}"]
        if "Ninja" in generator:
            need_program("ninja")
        if toolchain:
            words.append(f"--toolchain={toolchains_dir() / toolchain}.cmake")
        cmake = need_program("cmake")
        return self.run(
            cmake, "-S", ".", "-B", self.tree, "-G", generator, *words, *arguments, ok=ok
        )

    def build(self, *arguments: str, ok: bool | None = True) -> str:
        """Build; returns the build tool's output."""
        return self.run("cmake", "--build", self.tree, *arguments, ok=ok)

    def test(self, *arguments: str) -> str:
        """Run the tests; returns what they print."""
        return self.run(
            "ctest", "--test-dir", self.tree, "--no-tests=error", "--verbose", *arguments
        )

    def manifest(self, target: str = "ball", name: str = "ball", config: str = "") -> Any:
        """The manifest of a generated network."""
        path = self.tree / "cannery" / target / config / f"{name}.json"
        return json.loads(path.read_text())

    def isa(self, **where: str) -> str:
        """The instruction set that a network was generated for."""
        isa = self.manifest(**where)["isa"]
        assert isinstance(isa, str)
        return isa


def copy_of_example(folder: Path, name: str, *others: str) -> Project:
    """A project in `examples`, with others from which it takes files and what trainings share; this
    Python.
    """
    for each in (name, *others):
        ignored = shutil.ignore_patterns("build", "__pycache__", "*.npz")
        shutil.copytree(EXAMPLES / each, folder / each, ignore=ignored)
    shutil.copy(EXAMPLES / "training.py", folder)
    return Project(folder / name, Path(sys.executable))
