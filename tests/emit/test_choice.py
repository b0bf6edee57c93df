"""A library for several instruction sets takes the richest one that the processor has."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cannery.options import make_options
from cannery.pipeline import compile_model
from cannery.resources import ball_example_dir
from cannery.target.compiler import private_flags
from cannery.target.isa import ISAS
from emit.c_programs import WARNINGS, write_all
from needs import need_program, need_toolchain

#: A program that writes which instruction sets ran; the linker puts the functions around.
MAIN = """
#include "net.h"
#include <stdio.h>
static unsigned char memory[NET_WORKSPACE_BYTES] __attribute__((aligned(NET_WORKSPACE_ALIGN)));
{wrapped}
int main(void) {{ return net_selftest(memory); }}
"""
WRAPPED = """
void __real_net_{isa}_run_in(void *workspace, const float *image, float *scores);
void __wrap_net_{isa}_run_in(void *workspace, const float *image, float *scores);
void __wrap_net_{isa}_run_in(void *workspace, const float *image, float *scores)
{{
    puts("{isa}");
    __real_net_{isa}_run_in(workspace, image, scores);
}}
"""


def _files(isas: Sequence[str]) -> dict[str, bytes]:
    options = make_options(ball_example_dir() / "ball.h5", {"isa": list(isas), "name": "net"})
    return dict(compile_model(options).files)


def _program(folder: Path, isas: Sequence[str]) -> Path:
    """A program around such a library, each part of it with the flags of its instruction set."""
    compiler = need_toolchain(isas[-1]).compiler
    main = MAIN.format(wrapped="".join(WRAPPED.format(isa=isa) for isa in isas))
    files = {**_files(isas), "main.c": main.encode()}
    write_all(folder, files)
    objects = []
    for name in sorted(n for n in files if n.endswith(".c")):
        isa = max((i for i in isas if name.startswith(f"net_{i}")), key=len, default=isas[0])
        flags = (*ISAS[isa].flags, *private_flags(compiler.kind, ISAS[isa]), "-std=c99")
        objects.append(folder / f"{name}.o")
        strict = () if name == "main.c" else WARNINGS
        compiler.compile(folder / name, objects[-1], [*flags, *strict], [folder])
    program = folder / "program"
    wrap = [f"-Wl,--wrap=net_{isa}_run_in" for isa in isas]
    compiler.link(objects, program, ["-static", *wrap, "-lm"])
    return program


@pytest.mark.parametrize(
    ("emulator", "isas", "cpus"),
    [
        (
            "qemu-aarch64",
            ("neon64", "neon64dot", "neon64half", "neon64i8mm", "neon64bf16"),
            {"cortex-a53": "neon64", "cortex-a76": "neon64half", "max": "neon64bf16"},
        ),
        (
            "qemu-arm",
            ("generic", "neon32"),
            {"cortex-a9,neon=off": "generic", "cortex-a9": "neon32"},
        ),
    ],
)
def test_arm_takes_what_linux_says(
    emulator: str, isas: tuple[str, ...], cpus: dict[str, str], tmp_path: Path
) -> None:
    """The same program, on processors that QEMU lacks the other instructions of."""
    emulator = need_program(emulator, f"{emulator}-static")
    program = _program(tmp_path, isas)
    for cpu, expected in cpus.items():
        command = [emulator, "-cpu", cpu, str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, set(done.stdout.split())) == (0, {expected}), cpu


def test_arm_takes_what_macos_says(tmp_path: Path) -> None:
    """With a header of sysctlbyname, as no macOS is at hand."""
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys" / "sysctl.h").write_text(
        "#include <stddef.h>\nint sysctlbyname(const char *, void *, size_t *, void *, size_t);\n"
    )
    write_all(tmp_path, _files(("neon64", "neon64i8mm")))
    clang = shutil.which("clang") or need_program("clang-19", "clang")
    flags = [*WARNINGS, "-std=c99", "-U__linux__", "-D__APPLE__", "-I."]
    command = [clang, "-fsyntax-only", "--target=aarch64-none-elf", *flags, "net.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "net.c").read_text()
    for feature in ("DotProd", "I8MM"):
        assert f'sysctlbyname("hw.optional.arm.FEAT_{feature}"' in asked
