"""Builds harness programs through a generated ninja file.

So all cores, ccache and distributed compilers work. A translation unit that fails is rebuilt
candidate by candidate.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cannery.contents import Content
from cannery.deadline import OutOfTimeError, now, time_left, until
from cannery.errors import ToolchainError
from cannery.measure.elf import function_places
from cannery.measure.harness import Candidate, Harness
from cannery.target.compiler import CURE, first_error
from cannery.target.processes import run_to_end, temporary_in
from cannery.target.toolchain import Toolchain
from cannery.target.user_code import error_of_user

_TIMEOUT = 4 * 3600.0

#: The share of the remaining time for compiling candidates; the rest is for linking and for using
#: them.
COMPILE_SHARE = 0.6

EXECUTABLE = "harness"

#: From this many translation units on, gcc precompiles the vector header. That takes as long as
#: parsing it three times, which is most of the time of a unit with AVX2.
HEADER_UNITS = 8


@dataclass(frozen=True)
class Built:
    """An executable, the candidates in it by number, and why others (by symbol) are missing.

    There is no reason for those that there was no time to compile.
    """

    executable: Path
    candidates: tuple[Candidate, ...]
    failed: Mapping[str, str]


def find_ninja() -> str:
    """The program, on PATH or beside Python; raises ToolchainError."""
    beside = Path(sys.executable).parent
    for found in (shutil.which("ninja"), shutil.which("ninja-build"), beside / "ninja"):
        if found and Path(found).exists():
            return str(found)
    raise ToolchainError(
        "ninja not found", cure="apt install ninja-build, or pip install cannery[build]"
    )


def write(folder: Path, files: Mapping[str, Content]) -> None:
    """Write those files (relative path -> content) under a folder that differ.

    Raises OSError with the name of the file, also for a full disk.
    """
    for name, data in files.items():
        path = folder / name
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.write_bytes(data)
        except OSError as error:
            error.filename = str(path)
            raise


def ninja_file(
    toolchain: Toolchain, sources: Sequence[str], *, executable: str = "", shared: bool = False,
    header: str = "",
) -> str:  # fmt: skip
    """Rules that compile `sources` and, with `executable`, link their objects.

    `header` is precompiled, for sources that include it first.
    """
    link_flags = [*toolchain.cflags, *toolchain.ldflags, "-lm"]
    compile_flags = [*toolchain.cflags, *toolchain.warnings, "-I."]
    if shared:
        link_flags = [*toolchain.cflags, "-shared", "-lm"]
        compile_flags.append("-fPIC")
    lines = [
        "ninja_required_version = 1.5",
        f"cc = {_words(toolchain.compiler.command)}",
        f"cflags = {_words(compile_flags)}",
        f"ldflags = {_words(link_flags)}",
        "rule cc",
        "  command = $cc $cflags -c $in -o $out",
        "  description = $out",
        "rule link",
        "  command = $cc $in -o $out $ldflags",
    ]
    if header:
        lines += [
            "rule header",
            "  command = $cc $cflags -x c-header $in -o $out",
            "  description = $out",
            f"build {_precompiled(header)}: header {header}",
        ]
    after = f" | {_precompiled(header)}" if header else ""
    lines += [f"build {_object(name)}: cc {name}{after}" for name in sources]
    if executable:
        objects = " ".join(map(_object, sources))
        lines.append(f"build {executable}: link {objects}")
    return "\n".join(lines) + "\n"


def _precompiled(header: str) -> str:
    return f"{header}.gch"


def _object(source: str) -> str:
    return str(Path(source).with_suffix(".o"))


def _words(words: Sequence[str]) -> str:
    return shlex.join(words).replace("$", "$$")


def run_ninja(folder: Path, text: str, *, jobs: int = 0) -> dict[str, str]:
    """Run a ninja file, continuing after failures; returns the first error of each failed output.

    Raises ToolchainError if ninja itself fails, and OutOfTimeError.
    """
    write(folder, {"build.ninja": text.encode()})
    command = [find_ninja(), "-k", "0", *(["-j", str(jobs)] if jobs else [])]
    try:
        environment = {**temporary_in(folder), "NINJA_STATUS": ""}
        done = run_to_end(command, timeout=_TIMEOUT, cwd=folder, env=environment)
    except OSError as error:
        cure = "apt install ninja-build, or pip install cannery[build]"
        raise ToolchainError(f"cannot start ninja: {error.strerror}", cure=cure) from None
    except subprocess.TimeoutExpired:
        raise ToolchainError(f"building took more than {_TIMEOUT:.0f} s", cure=CURE) from None
    if done.returncode == 0:
        return {}
    failures = _failures(done.stdout)
    if not failures:
        what = first_error(done.stderr + done.stdout) or f"failed with exit code {done.returncode}"
        raise ToolchainError(what, where="ninja", cure="run cannery doctor")
    return failures


def build_error(failures: Mapping[str, str], toolchain: Toolchain, folder: Path) -> ToolchainError:
    """The error of the first output that failed, in the folder where ninja ran."""
    output, message = next(iter(failures.items()))
    if error := error_of_user(folder, message):
        return error
    where = f"{shlex.join(toolchain.compiler.command)}, {output}"
    return ToolchainError(message, where=where, cure=CURE)


def _failures(text: str) -> dict[str, str]:
    """The program prints `FAILED: outputs`, the command, and the command's output."""
    found: dict[str, str] = {}
    for block in re.split(r"^FAILED: ", text, flags=re.MULTILINE)[1:]:
        # Newer versions of ninja put the exit code before the outputs.
        head, _, rest = block.partition("\n")
        output = re.sub(r"^\[[^]]*\] ", "", head).split()[0]
        said = rest.partition("\n")[2]
        found[output] = first_error(said) or "failed without a message"
    return found


def build(
    folder: Path,
    harness: Harness,
    candidates: Sequence[Candidate],
    toolchain: Toolchain,
    *,
    jobs: int = 0,
) -> Built:
    """Generate and build a harness program in `folder`, from what is compiled in time.

    Raises ToolchainError if the program cannot be linked, or none of the candidates compiles,
    OutOfTimeError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sources = harness.sources(candidates)
    units = {name: list(group) for name, group in sources.units.items()}
    write(folder, sources.files)
    failed: dict[str, str] = {}
    try:
        with until(now() + time_left() * COMPILE_SHARE):
            failures = _compile(folder, list(units), harness, toolchain, jobs)
            if failures:
                units, failed = _singly(folder, harness, units, failures, toolchain, jobs)
    except OutOfTimeError:
        done = _finished(folder)
        units = {name: group for name, group in units.items() if _object(name) in done}
        if not units:
            raise
    compiled = {c.symbol for group in units.values() for c in group}
    good = [c for c in candidates if c.symbol in compiled]
    if not good and candidates:
        what = f"no candidate compiles: {next(iter(failed.values()))}"
        raise ToolchainError(what, where=shlex.join(toolchain.compiler.command), cure=CURE)
    main = harness.main_source(good)
    write(folder, main)
    names = [*units, *(name for name in main if name.endswith(".c"))]
    failures = run_ninja(folder, ninja_file(toolchain, names, executable=EXECUTABLE), jobs=jobs)
    if failures:
        raise build_error(failures, toolchain, folder)
    numbered = tuple(good)
    return Built(folder / EXECUTABLE, numbered, failed)


def _compile(
    folder: Path, units: Sequence[str], harness: Harness, toolchain: Toolchain, jobs: int
) -> dict[str, str]:
    """The first error of each unit that fails, as of `run_ninja`."""
    header = f"cannery/{harness.isa.header}"
    if toolchain.compiler.kind == "gcc" and len(units) >= HEADER_UNITS:
        text = ninja_file(toolchain, units, header=header)
        failures = run_ninja(folder, text, jobs=jobs)
        if _precompiled(header) not in failures:
            return failures
        with suppress(OSError):
            (folder / _precompiled(header)).unlink()
    return run_ninja(folder, ninja_file(toolchain, units), jobs=jobs)


def _finished(folder: Path) -> set[str]:
    """The outputs that ninja has made: it logs each when it is complete."""
    try:
        lines = (folder / ".ninja_log").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return {fields[3] for line in lines if len(fields := line.split("\t")) > 3}


def _singly(
    folder: Path,
    harness: Harness,
    units: Mapping[str, Sequence[Candidate]],
    failures: Mapping[str, str],
    toolchain: Toolchain,
    jobs: int,
) -> tuple[dict[str, list[Candidate]], dict[str, str]]:
    """Split the units that failed. Returns those that compile, and the errors of other symbols."""
    good = {n: list(g) for n, g in units.items() if _object(n) not in failures}
    single = {}
    for name, group in units.items():
        if _object(name) in failures:
            for candidate in group:
                single[f"single_{candidate.symbol}.c"] = candidate
    write(folder, {name: harness.unit_source([c]) for name, c in single.items()})
    again = run_ninja(folder, ninja_file(toolchain, [*good, *single]), jobs=jobs)
    failed = {}
    for name, candidate in single.items():
        if _object(name) in again:
            failed[candidate.symbol] = again[_object(name)]
        else:
            good[name] = [candidate]
    return good, failed


def with_flags(toolchain: Toolchain, *flags: str) -> Toolchain:
    """The same toolchain with more compiler flags."""
    return replace(toolchain, cflags=(*toolchain.cflags, *flags))


def code_sizes(built: Built) -> dict[str, int]:
    """Bytes of machine code of each candidate, by symbol."""
    sizes = dict.fromkeys((c.symbol for c in built.candidates), 0)
    length = len(next(iter(sizes), ""))
    for name, place in function_places(built.executable).items():
        at = name.find("trial")
        symbol = name[at : at + length]
        if at >= 0 and symbol in sizes:
            sizes[symbol] += place.size
    return sizes
