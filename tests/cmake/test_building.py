"""Projects that use add_nn_model(): generators, languages, rebuilds, installation."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from cmake_project import MAIN_C, MAIN_CPP, Project
from frontends.keras_files import LayerSpec, chain, image, write_h5
from tiny_models import write_tiny_classifier, write_tiny_model

ROOT = Path(__file__).parents[2]

BALL = """
add_nn_model(ball MODEL ball.h5)
add_executable(robot main.{suffix})
target_link_libraries(robot PRIVATE ball)
add_test(NAME robot COMMAND robot)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a model ball.h5 and both main files; the path has a space in it."""
    folder = tmp_path / "a project"
    folder.mkdir()
    write_tiny_model(folder / "ball.h5")
    made = Project(folder)
    made.write("main.c", MAIN_C)
    made.write("main.cpp", MAIN_CPP)
    return made


def _later(path: Path) -> None:
    """Give a file a time stamp after that of everything built so far."""
    now = path.stat().st_mtime
    os.utime(path, (now + 5, now + 5))


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles", "Ninja Multi-Config"])
def test_generators_and_rebuilds(project: Project, generator: str) -> None:
    write_tiny_model(project.folder / "goal.h5", seed=2)
    goal = "add_nn_model(goal MODEL goal.h5)\ntarget_link_libraries(robot PRIVATE goal)\n"
    project.lists(BALL.format(suffix="c") + goal)
    project.configure(generator=generator)
    config = ("--config", "Debug") if "Multi" in generator else ()
    project.build(*config)
    assert "right" in project.test(*(("-C", "Debug") if config else ()))

    assert "Generating" not in project.build(*config)
    assert "Building" not in project.build(*config)

    write_tiny_model(project.folder / "ball.h5", seed=3)
    _later(project.folder / "ball.h5")
    changed = project.build(*config)
    assert "Generating the network ball" in changed
    assert "ball.c" in changed
    assert "goal" not in changed.replace("Built target goal", "")


def test_a_record_that_appears_or_changes_is_read(project: Project) -> None:
    project.lists(BALL.format(suffix="c"))
    project.configure()
    project.build()
    record = project.write("ball.sse2.tuning.json", "{}")
    assert "Generating the network ball" in project.build(ok=None)
    record.unlink()


@pytest.mark.parametrize("config", ["", "Release"])
def test_only_cxx_inside_a_function_with_strict_warnings(project: Project, config: str) -> None:
    project.lists(
        'add_compile_options(-Wall -Wextra -Wpedantic -Wold-style-cast -Wpadded -Werror)\n'
        "function(robot)" + BALL.format(suffix="cpp") + "endfunction()\nrobot()\n",
        languages="CXX",
    )  # fmt: skip
    project.configure(generator="Ninja Multi-Config" if config else "Ninja")
    project.build(*(["--config", config] if config else []))
    assert "right" in project.test(*(["-C", config] if config else []))


def test_debug_builds_are_optimised(project: Project) -> None:
    project.lists(BALL.format(suffix="c"))
    project.configure("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0 -g -ffast-math")
    lines = [x for x in project.build("--verbose", "--clean-first").splitlines() if "ball.c.o" in x]
    (line,) = [x for x in lines if " -c " in x and "robot.dir" not in x]
    assert line.index("-O2") > line.index("-O0")
    assert line.index("-fno-fast-math") > line.index("-ffast-math")


def test_shared_libraries_and_link_time_optimisation(project: Project) -> None:
    project.write("lib.c", '#include "ball.h"\nvoid f(float *x) { ball_run(x, x + 4096); }\n')
    project.lists(
        "set(CMAKE_POSITION_INDEPENDENT_CODE ON)\nset(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)\n"
        + BALL.format(suffix="c")
        + "add_library(vision SHARED lib.c)\ntarget_link_libraries(vision PRIVATE cannery::ball)\n"
    )
    project.configure()
    project.build()
    assert "right" in project.test()


@pytest.mark.parametrize(
    "how",
    [
        f'add_subdirectory("{ROOT}" cannery-build)\n',
        f'include(FetchContent)\nFetchContent_Declare(cannery SOURCE_DIR "{ROOT}")\n'
        "FetchContent_MakeAvailable(cannery)\n",
    ],
    ids=["add_subdirectory", "FetchContent"],
)
def test_without_installing(project: Project, how: str) -> None:
    project.lists(how + BALL.format(suffix="c"), find=False)
    project.configure("-UCannery_DIR")
    project.build()
    assert "right" in project.test()


def test_an_installed_library_is_found_by_others(project: Project) -> None:
    install = (
        "install_nn_model(ball EXPORT nets)\n"
        "install(EXPORT nets DESTINATION lib/cmake/nets NAMESPACE nets:: FILE nets-config.cmake)\n"
    )
    project.lists(BALL.format(suffix="c") + install)
    project.configure()
    project.build()
    prefix = project.folder / "prefix"
    project.run("cmake", "--install", project.tree, "--prefix", prefix)
    assert [path.name for path in prefix.glob("include/cannery/*")] == ["cannery.h"]

    user = Project(project.folder / "user")
    user.write("main.cpp", MAIN_CPP)
    user.lists(
        "find_package(nets CONFIG REQUIRED)\nadd_executable(user main.cpp)\n"
        "target_link_libraries(user PRIVATE nets::ball)\nadd_test(NAME user COMMAND user)\n",
        languages="C CXX",
        find=False,
    )
    user.configure(f"-DCMAKE_PREFIX_PATH={prefix}")
    user.build()
    assert "right" in user.test()


def test_the_environment_that_owns_the_wheel_is_found(project: Project) -> None:
    project.lists(BALL.format(suffix="c"))
    bin_dir = str(Path(sys.executable).parent)
    os_path = os.environ["PATH"]
    assert bin_dir in os_path
    project.configure("-UCANNERY_PYTHON")
    project.build()


def test_large_weights_are_assembled_and_rebuilt(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5)\n")
    write_tiny_classifier(project.folder / "ball.h5", inputs=16 * 20000)
    project.configure()
    project.build()
    archive = project.tree / "libball.a"
    weights = project.tree / "cannery" / "ball" / "ball_weights.bin"
    assert weights.stat().st_size >= 16 * 20000 * 2 * 4
    assert weights.read_bytes() in archive.read_bytes()
    write_tiny_classifier(project.folder / "ball.h5", inputs=16 * 20000, seed=2)
    _later(project.folder / "ball.h5")
    project.build()
    assert weights.read_bytes() in archive.read_bytes()


def test_code_in_several_files(project: Project) -> None:
    project.lists(
        "add_nn_model(ball MODEL ball.h5 SPLIT 3)\n" + BALL.split("\n", 2)[2].format(suffix="c")
    )
    project.configure()
    project.build()
    project.test()
    names = {f"ball_steps{number}.c" for number in (1, 2, 3)}
    assert names < set(project.manifest()["sources"])
    assert "Generating" not in project.build()
    for name in names:
        (project.tree / "cannery" / "ball" / name).unlink()
    assert "Generating" in project.build()
    project.test()


def test_large_models_have_several_files_by_themselves(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5)\nadd_nn_model(one MODEL ball.h5 SPLIT 1)\n")
    write_tiny_classifier(project.folder / "ball.h5", inputs=16 * 40000)
    project.configure()
    project.build()
    found = sorted(path.name for path in (project.tree / "cannery").rglob("*_steps*.c"))
    assert found == [f"ball_steps{number}.c" for number in (1, 2, 3, 4)]


COLOURS_C = r"""
#include "bgr.h"
#include "raw.h"
#include "rgb.h"
#include <stdio.h>

static float apart(const float *a, const float *b)
{
    float most = 0.0f;
    for (int i = 0; i < RGB_C_LEN; ++i) {
        const float d = a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
        most = d > most ? d : most;
    }
    return most;
}

int main(void)
{
    static const float scale[3] = {0.001f, 0.002f, 0.003f}, offset[3] = {-0.1f, 0.0f, 0.1f};
    static uint8_t bytes[RGB_IMAGE_LEN];
    static float floats[RGB_IMAGE_LEN], wanted[RGB_C_LEN], found[RGB_C_LEN];
    for (int i = 0; i < RGB_IMAGE_LEN; ++i) bytes[i] = (uint8_t)(i * 37 % 256);
    for (int i = 0; i < RGB_IMAGE_LEN; ++i) {
        floats[i] = scale[i % 3] * (float)bytes[i - i % 3 + 2 - i % 3] + offset[i % 3];
    }
    rgb_run(floats, wanted);
    bgr_run(bytes, found);
    const float as_bytes = apart(found, wanted);

    static int8_t integers[RGB_IMAGE_LEN], results[RGB_C_LEN];
    for (int i = 0; i < RGB_IMAGE_LEN; ++i) {
        integers[i] = (int8_t)(i * 53 % 128);
        floats[i] = RAW_IMAGE_SCALE * (float)(integers[i] - RAW_IMAGE_ZERO_POINT);
    }
    rgb_run(floats, wanted);
    raw_run(integers, results);
    for (int i = 0; i < RGB_C_LEN; ++i) {
        found[i] = RAW_C_SCALE * (float)(results[i] - RAW_C_ZERO_POINT);
    }
    const float as_integers = apart(found, wanted);
    puts(as_bytes < 1e-4f && as_integers < 0.1f ? "right" : "wrong");
    return 0;
}
"""


def test_bytes_of_bgr_and_raw_integers(project: Project) -> None:
    random = np.random.default_rng(0)
    weights = {"kernel": random.uniform(-1, 1, (3, 3, 3, 4)), "bias": random.uniform(-1, 1, 4)}
    config = {"filters": 4, "kernel_size": [3, 3], "padding": "same"}
    floats = {name: w.astype(np.float32) for name, w in weights.items()}
    conv = LayerSpec("Conv2D", "c", (), config, floats)
    write_h5(project.folder / "rgb.h5", chain(image("image", 8, 8, 3), conv))
    np.savez(project.folder / "samples.npz", image=random.random((8, 8, 8, 3), np.float32))
    project.write("colours.c", COLOURS_C)
    project.lists("""
add_nn_model(rgb MODEL rgb.h5)
add_nn_model(bgr MODEL rgb.h5 INPUT_DTYPE image=uint8 SCALE 0.001,0.002,0.003 OFFSET -0.1,0,0.1
  REVERSE_CHANNELS image)
add_nn_model(raw MODEL rgb.h5 QUANTIZE int8 CALIBRATION samples.npz IO_TYPE raw)
add_executable(robot colours.c)
target_link_libraries(robot PRIVATE rgb bgr raw)
add_test(NAME robot COMMAND robot)
""")
    project.configure()
    project.build()
    assert "right" in project.test()


def test_the_verify_target_uses_what_cmake_uses(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5)\n", languages="CXX")
    project.configure("-DCMAKE_CXX_FLAGS=-DNDEBUG -g")
    told = project.build("--target", "ball_verify")
    assert "scores" in told
    (command,) = project.tree.rglob("*.command")
    assert {"-DNDEBUG", "-g", "-O2"} <= set(command.read_text().split())
