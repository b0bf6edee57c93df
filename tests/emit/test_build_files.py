"""A Makefile or meson.build next to the C builds and installs a library that programs find."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cannery.cli import invoke
from cannery.emit.build_files import BUILD_FILES, build_file
from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.resources import ball_example_dir
from needs import need_program, need_toolchain

BALL = ball_example_dir() / "ball.h5"
USED = """
#include "ball.h"
#include <stdio.h>
static float image[BALL_IMAGE_LEN], scores[BALL_SCORES_LEN];
static unsigned char workspace[BALL_WORKSPACE_BYTES + 64];
int main(void)
{
    ball_run(image, scores);
    printf("%d", ball_selftest(workspace + (64 - (size_t)workspace % 64) % 64));
    return 0;
}
"""


def run(*words: str | Path, cwd: Path, **environment: str) -> str:
    """What a program prints; it must succeed."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env={**os.environ, "PATH": paths, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compiled(folder: Path, kind: str, *options: str) -> Path:
    """The folder of the generated files."""
    assert invoke(["compile", str(BALL), "-o", str(folder / "net"), "--emit", kind, *options]) == 0
    assert (folder / "net" / BUILD_FILES[kind]).exists()
    return folder / "net"


def check_installed(prefix: Path) -> None:
    """A program that finds the library through pkg-config gets the stored result."""
    need_program("pkg-config")
    (found,) = prefix.glob("**/ball.pc")
    path = {"PKG_CONFIG_PATH": str(found.parent)}
    words = run("pkg-config", "--cflags", "--libs", "ball", cwd=prefix, **path)
    (prefix / "main.c").write_text(USED)
    run("cc", "main.c", *shlex.split(words), "-o", "main", cwd=prefix)
    assert run(prefix / "main", cwd=prefix) == "0"
    headers = {path.name for path in prefix.glob("include/cannery/*")}
    assert "cannery.h" in headers and not any(name.startswith("vec_") for name in headers)


FORMS = [
    ("--isa", "generic"),
    ("--isa", "generic", "--split", "3", "--trace-steps", "--openmp"),
    ("--isa", "generic", "--isa", "sse2", "--parallel"),
]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("options", FORMS, ids=lambda options: options[-1])
def test_make_builds_and_installs(tmp_path: Path, options: tuple[str, ...], compiler: str) -> None:
    need_program("make")
    need_program(compiler)
    if "sse2" in options:
        need_toolchain("sse2")
    if "--openmp" in options and compiler == "clang":
        options = tuple(word for word in options if word != "--openmp")  # its omp.h may be absent
    folder = compiled(tmp_path, "make", *options)
    told = run("make", f"CC={compiler}", "CFLAGS=-g", cwd=folder)
    assert ("-fno-tree-ter" in told) is (compiler == "gcc") and "-ffp-contract=off" in told
    assert run("make", f"CC={compiler}", "-q", cwd=folder) == ""
    run("make", f"CC={compiler}", "install", f"PREFIX={tmp_path / 'usr'}", cwd=folder)
    check_installed(tmp_path / "usr")
    run("make", "clean", cwd=folder)
    assert not [*folder.glob("*.[ao]")]


@pytest.mark.parametrize("options", FORMS, ids=lambda options: options[-1])
def test_meson_builds_and_installs(tmp_path: Path, options: tuple[str, ...]) -> None:
    need_program("meson")
    need_program("ninja")
    if "sse2" in options:
        need_toolchain("sse2")
    folder = compiled(tmp_path, "meson", *options)
    run("meson", "setup", "--prefix", tmp_path / "usr", "build", cwd=folder)
    run("meson", "install", "-C", "build", cwd=folder)
    check_installed(tmp_path / "usr")


def test_large_weights_are_found(tmp_path: Path) -> None:
    need_program("make")
    files = dict(compile_model(make_options(BALL, {"isa": "generic"})).files)
    files["ball_weights.bin"] = b"weights"
    _, make = build_file("make", "ball", files)
    _, meson = build_file("meson", "ball", files)
    assert b"ball_weights.o: ball_weights.bin" in make
    assert b"'-DBALL_WEIGHTS_FILE=\"' + meson.current_source_dir()" in meson
    assert meson.count(b"'ball_weights.c'") == 1


def test_another_processor_has_a_compiler_of_its_own(tmp_path: Path) -> None:
    need_program("make")
    need_toolchain("aarch64-a72")
    folder = compiled(tmp_path, "make", "--target", "aarch64-a72")
    told = run("make", cwd=folder)
    assert "aarch64-linux-gnu-gcc" in told and "-mcpu=cortex-a72" in told
    assert "aarch64-linux-gnu-ar" in told
    assert "AArch64" in run("readelf", "-h", "ball.o", cwd=folder)


def test_a_compiler_that_was_given_is_that_of_the_makefile(tmp_path: Path) -> None:
    need_program("make")
    gcc = need_toolchain("cortex-m7").compiler.command[0]
    folder = compiled(tmp_path, "make", "--target", "any", "--cc", f"{gcc} -mcpu=cortex-m0plus")
    told = run("make", cwd=folder)
    assert f"{gcc} -mcpu=cortex-m0plus" in told and f"{gcc.removesuffix('gcc')}ar rcs" in told
    assert "v6S-M" in run("readelf", "-A", "ball.o", cwd=folder)
    assert "\nar rcs" in run("make", "-B", "-n", "CC=cc", cwd=folder)
    assert "\nmy-ar rcs" in run("make", "-B", "-n", "CC=cc", "AR=my-ar", cwd=folder)


def test_shared_libraries_need_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["compile", str(BALL), "-o", str(tmp_path / "out"), "--emit", "make", "--shared"]
    assert invoke(words) == 2
    assert "leave out --shared" in capsys.readouterr().err


PACKAGING = Path(__file__).parents[2] / "examples" / "packaging"

#: What vcpkg's own functions do, so far as the port needs them.
VCPKG = """
function(vcpkg_check_linkage)
endfunction()
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "SOURCE_PATH" "OPTIONS")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${ARG_SOURCE_PATH} -B build ${ARG_OPTIONS}
    -DCMAKE_BUILD_TYPE=Release COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --build build COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_COMMAND} --install build --prefix ${CURRENT_PACKAGES_DIR}
    COMMAND_ERROR_IS_FATAL ANY)
endfunction()
function(vcpkg_cmake_config_fixup)
endfunction()
set(PORT ball-net)
include(PORTFILE)
"""


def test_the_port_of_vcpkg_installs_the_library(tmp_path: Path) -> None:
    need_program("cmake")
    portfile = PACKAGING / "vcpkg" / "ball-net" / "portfile.cmake"
    (tmp_path / "port.cmake").write_text(VCPKG.replace("PORTFILE", str(portfile)))
    run("cmake", f"-DCURRENT_PACKAGES_DIR={tmp_path / 'p'}", "-P", "port.cmake", cwd=tmp_path)
    installed = {path.name for path in (tmp_path / "p").rglob("*") if path.is_file()}
    assert {"libball.a", "ball.h", "ball-net-config.cmake", "copyright"} <= installed


def test_conan_builds_and_tests_the_package(tmp_path: Path) -> None:
    for path in PACKAGING.glob("conan/**/*.py"):
        compile(path.read_text(), str(path), "exec")
    need = shutil.which("conan")
    if need is None:
        pytest.skip("conan is not installed")
    home = {"CONAN_HOME": str(tmp_path / "home")}
    run(need, "profile", "detect", cwd=tmp_path, **home)
    recipe = tmp_path / "packaging" / "conan"
    shutil.copytree(PACKAGING / "conan", recipe)
    shutil.copytree(PACKAGING.parent / "ball", tmp_path / "ball")
    run(need, "create", recipe, "-nr", cwd=tmp_path, **home)  # runs its test, too
    beside = {path.name for path in (recipe / "test_package").iterdir()} - {
        "conanfile.py",
        "main.c",
    }
    assert all(name.startswith("build") for name in beside), beside
    assert [*(tmp_path / "home").glob("p/**/lib/libball.a")]
