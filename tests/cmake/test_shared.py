"""SHARED: libraries that programs link to, load, install and find again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmake_project import MAIN_C, MAIN_CPP, Project, everywhere, need_tools
from emit.test_interface import symbols
from tiny_models import write_tiny_model

LOADING = """\
#include "ball_loader.h"
int main(int argc, char **argv)
{
    static unsigned char memory[BALL_WORKSPACE_BYTES] __attribute__((aligned(64)));
    char error[400];
    ball_library net;
    if (ball_library_open(&net, argv[argc - 1], error, sizeof(error)) != CANNERY_LOADED) {
        puts(error);
        return 1;
    }
    puts(net.selftest(memory) ? "wrong" : "right");
    ball_library_close(&net);
    return 0;
}
"""

PROJECT = """
add_nn_model(ball MODEL ball.h5 SHARED {more})
add_executable(robot main.c)
target_link_libraries(robot PRIVATE ball)
add_test(NAME robot COMMAND robot)
add_executable(loading loading.c)
target_link_libraries(loading PRIVATE cannery::ball_loader)
add_test(NAME loading COMMAND loading $<TARGET_FILE:ball>)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a model and programs that link to it and load it."""
    folder = tmp_path / "a project"
    folder.mkdir()
    write_tiny_model(folder / "ball.h5")
    made = Project(folder)
    made.write("main.c", MAIN_C)
    made.write("loading.c", LOADING)
    return made


@pytest.mark.parametrize("more", ["", "SPLIT 2", "ISA sse2 avx2", "PARALLEL MANY 4"])
def test_libraries_are_linked_and_loaded(project: Project, more: str) -> None:
    project.lists(PROJECT.format(more=more))
    project.configure()
    project.build()
    assert project.test().count("right") >= 2
    exported = symbols(project.tree / "libball.so", "-D", "--defined-only")
    assert {"ball_run", "ball_about", "ball_model"} <= exported
    assert all(name.count("_") < 3 or "parallel" in name for name in exported), exported
    assert "Generating" not in project.build()


def test_an_installed_library_is_found_and_runs(project: Project) -> None:
    install = (
        "install_nn_model(ball ball_loader EXPORT nets)\n"
        "install(EXPORT nets DESTINATION lib/cmake/nets NAMESPACE nets:: FILE nets-config.cmake)\n"
    )
    project.lists(PROJECT.format(more="") + install)
    project.configure()
    project.build()
    prefix = project.folder / "prefix"
    project.run("cmake", "--install", project.tree, "--prefix", prefix)
    user = Project(project.folder / "user")
    user.write("main.cpp", MAIN_CPP)
    user.write("loading.c", LOADING)
    user.lists(
        "find_package(nets CONFIG REQUIRED)\nadd_executable(user main.cpp)\n"
        "target_link_libraries(user PRIVATE nets::ball)\nadd_test(NAME user COMMAND user)\n"
        "add_executable(loading loading.c)\n"
        "target_link_libraries(loading PRIVATE nets::ball_loader)\n"
        "add_test(NAME loading COMMAND loading $<TARGET_FILE:nets::ball>)\n",
        languages="C CXX",
        find=False,
    )
    user.configure(f"-DCMAKE_PREFIX_PATH={prefix}")
    user.build()
    assert user.test().count("right") >= 2


#: Of a library that has no weights of its own.
APART = LOADING.replace(
    "    puts(net.selftest",
    "    if (net.weights_open(argv[1], error, sizeof(error)) != 0) {\n"
    "        puts(error);\n        return 1;\n    }\n    puts(net.selftest",
)


@everywhere
def test_everywhere(project: Project, toolchain: str, target: str) -> None:
    if toolchain == "arm-none-eabi":
        pytest.skip("there are no shared libraries")
    need_tools(target)
    project.write("loading.c", APART)
    lists = PROJECT.format(more="WEIGHTS ball.weights").split("add_executable(robot")[0]
    project.lists(
        f"{lists}add_executable(loading loading.c)\n"
        "target_link_libraries(loading PRIVATE ball_loader)\n"
        "get_target_property(weights ball CANNERY_WEIGHTS)\n"
        "add_test(NAME loading COMMAND loading ${weights} $<TARGET_FILE:ball>)\n"
    )
    project.configure(toolchain=toolchain)
    project.build()
    assert "right" in project.test()


def test_boards_have_none(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5 SHARED)\n")
    said = project.configure(
        "-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", ok=False
    )
    assert "no shared libraries" in said
