"""add_nn_model() with what tells of runs and networks, built for this machine and for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from cannery.cli import invoke
from cmake_project import Project, everywhere, need_tools
from needs import need_program
from tiny_models import write_tiny_model

LISTS = """
add_nn_model(ball MODEL ball.h5 TRACE_STEPS DUMP_VALUES METADATA CLASS_NAMES names.txt)
add_executable(robot main.c)
target_link_libraries(robot PRIVATE ball)
add_test(NAME robot COMMAND robot {files})
"""

#: Writes the files that it is given; without any, on a microcontroller, counts what it is shown.
MAIN = """
#include "ball.h"
#include "cannery/dump_file.h"
#include "cannery/trace_file.h"
#include <string.h>
static float image[BALL_IMAGE_LEN], scores[BALL_SCORES_LEN];
static int told;

static void count(void *context, int32_t value, const void *memory, size_t bytes)
{
    (void)context;
    told += value >= 0 && memory && bytes > 0;
}

int main(int argc, char **argv)
{
    cannery_trace_step steps[20];
    FILE *dump = NULL, *trace = NULL;
    (void)argv;
    ball_trace_reset();
    image[7] = 1.0f;
    if (argc > 2) {
        dump = fopen(argv[1], "wb");
        trace = fopen(argv[2], "w");
    }
    if (dump) {
        cannery_dump_start(dump, ball_dump_header());
    }
    ball_dump(dump ? cannery_dump_write : count, dump);
    ball_run(image, scores);
    ball_dump(0, 0);
    const int32_t n = ball_trace_read(steps, 20);
    if (dump && trace && (cannery_trace_write(trace, &ball_model, steps, n, 1000000000u) ||
                          fclose(dump) || fclose(trace))) {
        return 2;
    }
    if (n < 1 || steps[n - 1].calls != 1 || (!dump && told < 2)) {
        return 3;
    }
    puts(BALL_CLASSES == 4 && strcmp(ball_class_name(3), "cow") == 0 ? "right" : "wrong");
    return !ball_metadata("keras.version");
}
"""

OLD_PROGRAM = """
#include "ball_compiled_nn.h"
#include <cstdio>

int main()
{
    NeuralNetwork::CompiledNN nn;
    nn.compile("Config/ball.h5");
    if (!nn.valid()) {
        return 1;
    }
    nn.input(0)[7] = 1.0f;
    nn.apply();
    std::puts(nn.output(0).size() == BALL_SCORES_LEN ? "right" : "wrong");
    return 0;
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a model and names of its four classes."""
    write_tiny_model(tmp_path / "ball.h5")
    (tmp_path / "names.txt").write_text("cat\ndog\nhen\ncow\n")
    return Project(tmp_path)


@everywhere
def test_a_program_learns_what_runs_do(project: Project, toolchain: str, target: str) -> None:
    need_tools(target)
    project.write("main.c", MAIN)
    files = "" if target == "cortex-m7" else "run.dump run.trace"
    project.lists(LISTS.format(files=files))
    project.configure(toolchain=toolchain)
    project.build()
    assert "right" in project.test()
    if files:
        options = ["--target", target] if toolchain else ["--isa", project.isa()]
        words = [str(project.folder / "ball.h5"), *options]
        written = project.tree
        assert invoke(["compare", *words, "--dump", str(written / "run.dump")]) == 0
        assert invoke(["bench", *words, "--from", str(written / "run.trace")]) == 0


def test_a_program_for_compilednn_is_linked_to_the_network(project: Project) -> None:
    need_program("g++")
    project.write("main.cpp", OLD_PROGRAM)
    project.lists(
        "add_nn_model(ball MODEL ball.h5 COMPILED_NN)\n"
        "add_executable(robot main.cpp)\ntarget_link_libraries(robot PRIVATE ball)\n"
        "add_test(NAME robot COMMAND robot)\ninstall_nn_model(ball)\n",
        languages="C CXX",
    )
    project.configure()
    project.build()
    assert "right" in project.test()
    project.run("cmake", "--install", project.tree, "--prefix", project.folder / "usr")
    assert (project.folder / "usr" / "include" / "ball_compiled_nn.h").exists()


def test_names_that_change_are_generated_again(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5 CLASS_NAMES names.txt)\n")
    project.configure()
    project.build()
    assert project.manifest()["class_names"][3] == "cow"
    project.write("names.txt", "cat\ndog\nhen\nbull\n")
    project.build()
    assert project.manifest()["class_names"][3] == "bull"
