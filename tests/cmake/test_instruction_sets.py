"""What add_nn_model() uses: what TARGET or ISA says, else what the flags in use allow."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from cmake_project import MAIN_C, MAIN_CPP, Project
from needs import need_program, need_toolchain
from tiny_models import write_tiny_classifier, write_tiny_model

x86_only = pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of x86")

ROBOT = """
add_executable(robot main.{suffix})
target_link_libraries(robot PRIVATE ball)
add_test(NAME robot COMMAND robot)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    write_tiny_model(tmp_path / "ball.h5")
    made = Project(tmp_path)
    made.write("main.c", MAIN_C)
    made.write("main.cpp", MAIN_CPP)
    return made


@x86_only
@pytest.mark.parametrize(
    ("before", "arguments", "isa"),
    [
        ("", "", "sse2"),
        ("add_compile_options(-mssse3)", "", "ssse3"),
        ("add_compile_options($<$<CONFIG:Release>:-msse4.2>)", "", "sse42"),
        ("string(APPEND CMAKE_C_FLAGS_RELEASE \" -mavx2 -mfma\")", "", "avx2"),
        ("add_library(cpu INTERFACE)\ntarget_compile_options(cpu INTERFACE -msse4.2)",
         "FLAGS_FROM cpu", "sse42"),
        ("add_library(cpu STATIC IMPORTED)\ntarget_compile_options(cpu INTERFACE -mssse3)",
         "FLAGS_FROM cpu", "ssse3"),
        ("add_library(cpu OBJECT EXCLUDE_FROM_ALL main.c)\n"
         "target_compile_options(cpu PRIVATE -mssse3)", "FLAGS_FROM cpu", "ssse3"),
        ("", "ISA avx2", "avx2"),
        ("", "ISA generic", "generic"),
        ("", "TARGET silvermont", "sse42"),
        ("set(CANNERY_TARGET ssse3)", "", "ssse3"),
        ("set(CANNERY_TARGET silvermont)", "ISA sse2", "sse2"),
    ],
)  # fmt: skip
def test_flags_decide(project: Project, before: str, arguments: str, isa: str) -> None:
    project.lists(f"{before}\nadd_nn_model(ball MODEL ball.h5 {arguments})\n")
    project.configure("-DCMAKE_BUILD_TYPE=Release")
    text = project.build()
    assert project.isa() == isa
    assert ("limited to SSE2" in text) == (isa == "sse2" and not arguments)
    assert "limited to SSE2" not in project.build()


@x86_only
def test_configurations_may_differ(project: Project) -> None:
    project.lists(
        'string(APPEND CMAKE_C_FLAGS_RELEASE " -mssse3")\nadd_nn_model(ball MODEL ball.h5)'
    )
    project.configure(generator="Ninja Multi-Config")
    for config, isa in (("Debug", "sse2"), ("Release", "ssse3")):
        project.build("--config", config)
        assert project.isa(config=config) == isa


@x86_only
def test_any_is_what_the_flags_allow(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5 TARGET any)\n")
    for flags, isa in (("-mssse3", "ssse3"), ("-mavx2 -mfma", "avx2")):
        project.configure(f"-DCMAKE_C_FLAGS={flags}", "-DCANNERY_TARGET=sse42")
        project.build()
        assert project.isa() == isa


@x86_only
def test_a_target_that_the_compiler_contradicts(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5 TARGET neon64)\n")
    project.configure()
    assert "neon64 needs __ARM_NEON" in project.build(ok=False)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_native_with_both_compilers(project: Project, compiler: str) -> None:
    need_program(compiler)
    project.lists("add_nn_model(ball MODEL ball.h5 TARGET native)" + ROBOT.format(suffix="c"))
    project.configure(f"-DCMAKE_C_COMPILER={compiler}")
    project.build()
    assert "right" in project.test()


@pytest.mark.parametrize(
    ("toolchain", "target", "isa", "bits"),
    [
        ("i686-atom", "atom32", "ssse3", 32),
        ("x86_64-silvermont", "silvermont", "sse42", 64),
        ("armv7-neon", "armv7-a9", "neon32", 32),
        ("aarch64", "aarch64-a53", "neon64", 64),
        ("arm-none-eabi", "cortex-m7", "thumbdsp", 32),
        ("cortex-m0plus", "cortex-m0plus", "generic", 32),
        ("cortex-m33", "cortex-m33", "thumbdsp", 32),
        ("riscv32imc", "riscv32imc", "generic", 32),
        ("riscv32imafc", "riscv32imafc", "generic", 32),
        ("riscv64", "riscv64", "generic", 64),
        ("riscv64-v", "riscv64v128", "riscv64v128", 64),
    ],
)
def test_toolchain_files(
    project: Project, toolchain: str, target: str, isa: str, bits: int
) -> None:
    need_program(need_toolchain(target).target.emulator[0])
    project.lists(
        "add_nn_model(ball MODEL ball.h5)" + ROBOT.format(suffix="cpp"), languages="C CXX"
    )
    project.configure(toolchain=toolchain)
    project.build()
    manifest = project.manifest()
    assert (manifest["isa"], manifest["bits"]) == (isa, bits)
    assert "right" in project.test()


@x86_only
@pytest.mark.parametrize("language", ["C", "CXX"])
def test_several_are_chosen_between_at_the_first_call(project: Project, language: str) -> None:
    suffix = {"C": "c", "CXX": "cpp"}[language]
    call = "add_nn_model(ball MODEL ball.h5 ISA sse2 avx2 avx512)\n"
    project.lists(call + ROBOT.format(suffix=suffix), languages=language)
    project.configure()
    project.build()
    project.test()
    assert sorted(project.manifest()) == ["avx2", "avx512", "sse2"]
    again = project.build()
    assert "Generating" not in again
    robot = project.tree / "robot"
    for cpu in ("qemu64", "Haswell"):
        project.run(need_program("qemu-x86_64", "qemu-x86_64-static"), "-cpu", cpu, robot)


@x86_only
def test_several_are_verified_one_after_the_other(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5 ISA sse2 avx2)\n")
    project.configure()
    said = project.build("--target", "ball_verify", "--verbose")
    assert len(re.findall(r"^scores .* ok\b", said, re.MULTILINE)) == 2
    assert re.findall(r"--isa (\w+)", said) == ["sse2", "avx2"]


@x86_only
def test_no_choice_between_those_of_other_processors(project: Project) -> None:
    project.lists("add_nn_model(ball MODEL ball.h5 ISA neon64 sse2)\n")
    project.configure()
    assert "no processor can be asked which of neon64, sse2" in project.build(ok=False)


MANY_C = """\
#include "ball.h"
#include <string.h>
static uint8_t frame[240][2 * 320];
static unsigned char memory[BALL_MANY_WORKSPACE_BYTES] __attribute__((aligned(64)));
int main(void)
{
    const uint8_t *patches[7];
    float many[7 * BALL_SCORES_LEN], one[BALL_SCORES_LEN];
    int wrong = ball_selftest(memory);
    for (int i = 0; i < 240 * 2 * 320; ++i) {
        (&frame[0][0])[i] = (uint8_t)(i * 7919 >> 8);
    }
    for (int k = 0; k < 7; ++k) {
        patches[k] = &frame[20 * k][60 * k];
    }
    ball_run_many(memory, 7, patches, 2, 2 * 320, many);
    for (int k = 0; k < 7; ++k) {
        ball_run(patches[k], 2, 2 * 320, one);
        wrong |= memcmp(one, many + k * BALL_SCORES_LEN, sizeof one) != 0;
    }
    return wrong;
}
"""


@x86_only
@pytest.mark.parametrize("isas", ["ISA sse2", "ISA sse2 ssse3"])
def test_patches_of_a_frame(project: Project, isas: str) -> None:
    write_tiny_classifier(project.folder / "ball.h5")
    project.write("main.c", MANY_C)
    project.lists(
        f"add_nn_model(ball MODEL ball.h5 {isas} MANY 4 INPUT_VIEW image INPUT_DTYPE image=uint8)"
        + ROBOT.format(suffix="c")
    )
    project.configure()
    project.build()
    project.test()
