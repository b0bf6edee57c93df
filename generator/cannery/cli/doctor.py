"""`cannery doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import platform
import shutil
import sys
from dataclasses import dataclass
from importlib import metadata

import click

from cannery import __version__
from cannery.analysis.mca import installed
from cannery.cli.help import Command
from cannery.cli.output import json_option, print_json, print_table
from cannery.errors import CanneryError
from cannery.frontends import formats
from cannery.target.compiler import PACKAGES, find_clang, find_compiler
from cannery.target.runner import emulator_package, host_cpu_name
from cannery.target.targets import TARGETS
from cannery.target.toolchain import toolchain_for


@dataclass(frozen=True)
class Check:
    """One line: `found` is empty if it is missing; `cure` then says what to do."""

    what: str
    found: str
    cure: str = ""
    required: bool = False


def _compiler(triple: str) -> Check:
    what = f"compiler {triple or 'for this machine'}"
    try:
        compiler = find_compiler(triple)
    except CanneryError as error:
        return Check(what, "", error.cure or str(error), required=not triple)
    return Check(what, f"{compiler.command[0]}, {compiler.version}", required=not triple)


def _clang(triple: str, oldest: int) -> Check:
    what = f"clang {oldest} for {triple}"
    try:
        compiler = find_clang(triple, oldest)
    except CanneryError as error:
        return Check(what, "", error.cure or str(error))
    return Check(what, f"{compiler.command[0]}, {compiler.version}")


def _native() -> Check:
    try:
        isa = toolchain_for("native").target.isa
    except CanneryError as error:
        return Check("native instruction set", "", str(error), required=True)
    return Check("native instruction set", f"{isa.name}, {isa.bits} bit", required=True)


def _program(name: str, package: str, extra: str = "") -> Check:
    return Check(f"program {name}", shutil.which(name) or "", f"apt install {package}{extra}")


def _analyser() -> Check:
    found = shutil.which(installed() or "llvm-mca") or ""
    use = "--mca of asm and count, and for tuning if only an emulator runs programs"
    return Check("program llvm-mca", found, f"apt install llvm; it is for {use}")


def _version(distribution: str) -> str:
    """The version of an installed Python package, empty if it is missing."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def checks() -> list[Check]:
    """Everything to look for."""
    emulators = {target.emulator[0] for target in TARGETS.values() if target.emulator}
    return [
        Check("cannery", f"{__version__}, Python {platform.python_version()} ({sys.executable})"),
        Check("processor", host_cpu_name()),
        *(_compiler(triple) for triple in ("", *sorted(filter(None, PACKAGES)))),
        *(
            _clang(*pair)
            for pair in sorted({(t.triple, t.clang) for t in TARGETS.values() if t.clang})
        ),
        _program("clang", "clang", ", for --cc clang"),
        _native(),
        *(_program(name, emulator_package(name)) for name in sorted(emulators)),
        _analyser(),
        _program("cppcheck", "cppcheck", ", for guarantees --misra"),
        _program("cmake", "cmake", ", or pip install cmake"),
        _program("ninja", "ninja-build", ", or pip install ninja"),
        Check("models that can be read", ", ".join(formats())),
        Check("Python package onnx, for .onnx", _version("onnx"), "pip install 'cannery[onnx]'"),
        Check(
            "Python package tflite, for .tflite",
            _version("tflite"),
            "pip install 'cannery[tflite]'",
        ),
        Check("Python package plotly, for report", _version("plotly"), "pip install plotly"),
    ]


@click.command("doctor", cls=Command)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> int:
    """Show compilers, emulators and tools. Exit code 1 if something indispensable is missing."""
    found = checks()
    if as_json:
        print_json([vars(check) for check in found])
    else:
        rows = [[c.what, c.found or f"missing: {c.cure}"] for c in found]
        print_table(["what", "found"], rows)
    return int(any(check.required and not check.found for check in found))
