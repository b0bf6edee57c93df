"""Networks on several threads, as CMake projects use them: OpenMP, a pool of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmake_project import Project
from tiny_models import write_tiny_model

MAIN = """\
#include "ball.h"
#include <stdio.h>
#include <string.h>
{include}
enum {{ N = 50, THREADS = 2 }};
static float image[N * BALL_IMAGE_LEN], one[N * BALL_SCORES_LEN], all[N * BALL_SCORES_LEN];
#define ALIGNED __attribute__((aligned(BALL_WORKSPACE_ALIGN)))
static unsigned char memory[BALL_PARALLEL_WORKSPACE_BYTES(THREADS)] ALIGNED;
static unsigned char many[BALL_MANY_PARALLEL_WORKSPACE_BYTES(THREADS)] ALIGNED;
int main(void)
{{
    int wrong = 0;
    for (int i = 0; i < N * BALL_IMAGE_LEN; ++i) {{
        image[i] = (float)(i * 31 % 101) / 101.0f;
    }}
    {start}
    ball_run_many(many, N, image, one);
    for (int k = 0; k < 100; ++k) {{
        memset(all, 0, sizeof all);
        ball_run_many_parallel(many, &pool, N, image, all);
        wrong |= memcmp(one, all, sizeof all);
        memset(all, 0, sizeof all);
        ball_run_parallel(memory, &pool, image, all);
        wrong |= memcmp(one, all, sizeof one / N);
    }}
    {stop}
    puts(wrong ? "wrong" : "right");
    return wrong != 0;
}}
"""

OPENMP = {
    "include": "",
    "start": """const cannery_pool pool = ball_openmp(THREADS);
    if (ball_openmp(0).threads < 1) { /* as many as OpenMP likes */
        return 9;
    }""",
    "stop": "",
}
PTHREADS = {
    "include": '#include "cannery/pthread_pool.h"',
    "start": "static cannery_pthread_pool threads;\n    cannery_pool pool;\n"
    "    if (cannery_pthread_pool_start(&threads, THREADS, &pool)) {\n        return 2;\n    }",
    "stop": "cannery_pthread_pool_stop(&threads);",
}

PROJECT = """
add_nn_model(ball MODEL ball.h5 {options})
add_executable(robot main.{suffix})
target_link_libraries(robot PRIVATE ball {libraries})
target_compile_options(robot PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
add_test(NAME robot COMMAND robot)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a model ball.h5."""
    write_tiny_model(tmp_path / "ball.h5")
    return Project(tmp_path)


@pytest.mark.parametrize("suffix", ["c", "cpp"])
def test_openmp(project: Project, suffix: str) -> None:
    language = {"c": "C", "cpp": "CXX"}[suffix]
    project.write(f"main.{suffix}", MAIN.format(**OPENMP))
    project.lists(PROJECT.format(options="OPENMP", suffix=suffix, libraries=""), languages=language)
    project.configure()
    project.build()
    assert "right" in project.test()
    assert project.manifest()["parallel"]["openmp"]["source"] == "ball_openmp.c"


def test_threads_of_the_program(project: Project) -> None:
    """One library for two instruction sets, in a program with a pool of POSIX threads."""
    project.write("main.cpp", MAIN.format(**PTHREADS))
    threads = "find_package(Threads REQUIRED)\n"
    body = PROJECT.format(
        options="PARALLEL ISA generic sse2", suffix="cpp", libraries="Threads::Threads"
    )
    project.lists(threads + body, languages="CXX")
    project.configure()
    project.build()
    assert "right" in project.test()


def test_a_compiler_without_openmp(project: Project) -> None:
    project.write("main.c", MAIN.format(**OPENMP))
    project.lists(PROJECT.format(options="OPENMP", suffix="c", libraries=""))
    said = project.configure("-DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=TRUE", ok=False)
    assert "OPENMP is given, but" in said
    assert "PARALLEL and a pool of your own" in " ".join(said.split())
