"""Builds and runs the C programs of tests/runtime for every instruction set.

A `Build` is a target, a compiler, a language and an optimisation level. Targets that an emulator
can prove to stay within their instructions (`atom32`) run there even if this machine could.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cannery.errors import CanneryError
from cannery.resources import runtime_include_dir
from cannery.target.compiler import Compiler, private_flags, probe_compiler
from cannery.target.runner import Runner
from cannery.target.toolchain import Toolchain
from needs import missing, need_program, need_runner, need_toolchain

PROGRAMS = Path(__file__).parent / "runtime"
NATIVE = ("generic", "sse2", "ssse3", "sse42", "avx2", "avx512")
CROSS = (
    "atom32",
    "thumbdsp",
    "helium",
    "neon32",
    "neon32-vfpv4",
    "neon64",
    "neon64dot",
    "neon64i8mm",
    "riscv64",
    "riscv64v128",
    "riscv64v256",
)
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
STANDARDS = {"c99": ("-x", "c", "-std=c99"), "c++11": ("-x", "c++", "-std=c++11")}

#: A target of this name is another one with flags and an emulated CPU of its own.
VARIANTS = {"neon32-vfpv4": ("neon32", "-mfpu=neon-vfpv4", ("qemu-arm", "-cpu", "cortex-a15"))}


@dataclass(frozen=True)
class Build:
    """One way to compile: `compiler` is gcc, clang or the target's own (""), `level` -O0 ...

    `language` is c99 or c++11.
    """

    target: str
    compiler: str = ""
    language: str = "c99"
    level: str = "-O2"

    def __str__(self) -> str:
        return f"{self.target}-{self.compiler or 'own'}-{self.language}{self.level}"


def toolchain(build: Build) -> Toolchain:
    """The toolchain of a build; skips the test where it is missing."""
    name, flag, emulator = VARIANTS.get(build.target, (build.target, "", ()))
    found = need_toolchain(name)
    if build.compiler not in ("", found.compiler.kind):
        triple = found.target.triple
        other = triple not in ("", f"{platform.machine()}-linux-gnu")
        if other and build.compiler != "clang":
            pytest.skip(f"{build.compiler} is tried for this machine only")
        command = (need_program(build.compiler), *([f"--target={triple}"] if other else []))
        compiler = probe_compiler(command)
        private = private_flags(build.compiler, found.target.isa)
        found = replace(found, compiler=compiler, cflags=(*found.target.flags, *private))
    if not emulator:
        return found
    return replace(
        found, cflags=(*found.cflags, flag), target=replace(found.target, emulator=emulator)
    )


def _need_language(compiler: Compiler, language: str, folder: Path) -> None:
    """A C compiler may come without its C++ half."""
    empty = folder / "empty.c"
    empty.write_text("")
    try:
        compiler.compile(empty, folder / "empty.o", STANDARDS[language])
    except CanneryError as error:
        missing(f"{shlex.join(compiler.command)} does not compile {language}: {error}")


def definitions(tools: Toolchain, header: str = "") -> list[str]:
    """What the programs want to know: the widest header, and whether subnormals are flushed."""
    isa = tools.target.isa
    found = ["-DFLUSHES_SUBNORMALS"] if isa.name in ("neon32", "helium") else []
    found += ["-DNO_PAGES"] if tools.target.board else []
    return [f'-DVEC_HEADER="{header or f"cannery/{isa.header}"}"', *found]


def compile_program(
    source: str, build: Build, folder: Path, header: str = ""
) -> tuple[Path, Runner]:
    """The executable of `source` (a file of tests/runtime), built in `folder`, and its runner.

    `header` is one of tests/runtime instead of the target's.
    """
    tools = toolchain(build)
    _need_language(tools.compiler, build.language, folder)
    flags = [*tools.cflags, *WARNINGS, *STANDARDS[build.language], build.level]
    obj, program = folder / "program.o", folder / "program"
    tools.compiler.compile(
        PROGRAMS / source, obj, [*flags, *definitions(tools, header)], [runtime_include_dir()]
    )
    runner = need_runner(tools, strict=build.target == "atom32")
    tools.compiler.link([obj], program, [*tools.cflags, *tools.ldflags, "-lm"])
    return program, runner


def run_json(
    source: str, build: Build, folder: Path, args: Sequence[str] = (), *, timeout: float = 900.0
) -> list[dict[str, Any]]:
    """The JSON lines that the program prints; a failing program fails the test."""
    program, runner = compile_program(source, build, folder)
    return runner.with_timeout(timeout).run(program, args)
