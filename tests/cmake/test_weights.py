"""WEIGHTS: a program that is not linked again when its network was trained again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmake_project import Project, everywhere, need_tools
from tiny_models import write_tiny_model

MAIN = """\
#include "ball.h"
#include <stdio.h>
static unsigned char memory[BALL_WORKSPACE_BYTES] __attribute__((aligned(BALL_WORKSPACE_ALIGN)));
int main(int argc, char **argv)
{
    char error[300];
    if (ball_weights_open(argv[argc - 1], error, sizeof(error)) != 0) {
        puts(error);
        return 1;
    }
    printf("%s %s\\n", ball_selftest(memory) ? "wrong" : "right", ball_weights_hash());
    return 0;
}
"""

PROJECT = """
add_nn_model(ball MODEL ball.h5 WEIGHTS ball.weights {more})
add_executable(robot main.c)
target_link_libraries(robot PRIVATE ball)
get_target_property(weights ball CANNERY_WEIGHTS)
add_test(NAME robot COMMAND robot ${{weights}})
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a program that opens its weights."""
    folder = tmp_path / "a project"
    folder.mkdir()
    write_tiny_model(folder / "ball.h5")
    made = Project(folder)
    made.write("main.c", MAIN)
    return made


def retrain(project: Project, seed: int) -> None:
    write_tiny_model(project.folder / "ball.h5", seed=seed)


@pytest.mark.parametrize(
    ("generator", "more"),
    [
        ("Ninja", ""),
        ("Ninja Multi-Config", ""),
        ("Unix Makefiles", ""),
        ("Ninja", "SHARED SPLIT 2"),
    ],
)
def test_a_network_that_was_trained_again(project: Project, generator: str, more: str) -> None:
    project.lists(PROJECT.format(more=more))
    project.configure(generator=generator)
    config = ("--config", "Release") if "Multi" in generator else ()
    tested = ("-C", "Release") if config else ()
    project.build(*config)
    first = project.test(*tested)
    assert "right" in first
    retrain(project, 3)
    text = project.build(*config)
    assert "Generating the network ball" in text
    if "Ninja" in generator:
        assert "Building" not in text
        assert "Linking" not in text
    second = project.test(*tested)
    assert "right" in second
    assert first.split("right ")[1][:16] != second.split("right ")[1][:16]
    assert "Generating" not in project.build(*config)


@everywhere
def test_everywhere(project: Project, toolchain: str, target: str) -> None:
    if toolchain == "arm-none-eabi":
        pytest.skip("there are no files: tests/emit/test_weights.py compiles it")
    need_tools(target)
    project.lists(PROJECT.format(more=""))
    project.configure(toolchain=toolchain)
    project.build()
    assert "right" in project.test()


def test_weights_are_installed_where_that_is_wanted(project: Project) -> None:
    install = "install_nn_model(ball WEIGHTS share/robot)\n"
    project.lists(PROJECT.format(more="") + install)
    project.configure()
    project.build()
    prefix = project.folder / "prefix"
    project.run("cmake", "--install", project.tree, "--prefix", prefix)
    installed = prefix / "share" / "robot" / "ball.weights"
    assert installed.read_bytes() == (project.tree / "ball.weights").read_bytes()


def test_several_instruction_sets_are_refused(project: Project) -> None:
    project.lists(PROJECT.format(more="ISA sse2 avx2"))
    assert "WEIGHTS is for one instruction set" in project.configure(ok=False)
