"""STREAMING in CMake: calls of several sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmake_project import Project
from emit.stepping_models import causal
from frontends.keras_files import write_h5

MAIN = """\
#include "steps.h"
#include <stdio.h>
static double state[(STEPS_STATE_BYTES + 7) / 8];
int main(void)
{
    float x[STEPS_STEP_16_X_LEN] = { 1.0f }, y[STEPS_STEP_16_SCORES_LEN];
    steps_reset(state);
    steps_step(state, x, y);
    steps_step_16(state, x, y);
    puts(steps_steps(state, 9, x, y) == 9 ? "right" : "wrong");
    return 0;
}
"""

LISTS = """
add_nn_model(steps MODEL steps.h5 STREAMING BLOCK 1 16 {more})
add_executable(robot main.c)
target_link_libraries(robot PRIVATE steps)
add_test(NAME robot COMMAND robot)
"""


@pytest.mark.parametrize("more", ["", "SHARED SPLIT 2", "ISA sse2 avx2 PARALLEL"])
def test_blocks(tmp_path: Path, more: str) -> None:
    project = Project(tmp_path)
    write_h5(tmp_path / "steps.h5", causal(40))
    project.write("main.c", MAIN)
    project.lists(LISTS.format(more=more))
    project.configure()
    project.build()
    assert "right" in project.test()
