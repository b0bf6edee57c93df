"""C compilers: finding one, asking what it can do, compiling and linking with it."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

from cannery.atomic import temporary_folder
from cannery.errors import ToolchainError
from cannery.target.isa import Isa
from cannery.target.processes import run_to_end, temporary_in
from cannery.target.user_code import error_of_user

#: Debian's names of the packages that hold a cross compiler with its C library.
PACKAGES = {
    "i686-linux-gnu": "gcc-i686-linux-gnu libc6-dev-i386-cross",
    "x86_64-linux-gnu": "gcc-x86-64-linux-gnu libc6-dev-amd64-cross",
    "arm-linux-gnueabihf": "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
    "aarch64-linux-gnu": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "riscv64-linux-gnu": "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
    "arm-none-eabi": "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "riscv64-unknown-elf": "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
    "": "gcc libc6-dev",
}
#: What makes cross compilers without a C library of their own use Debian's.
_C_LIBRARY = {"riscv64-unknown-elf": ("--specs=picolibc.specs",)}

_TIMEOUT = 1800.0
_NEWEST_CLANG = 24

#: Advice if a compiler fails.
CURE = "check the compiler and its flags: --cc, --cflags, --ldflags, or those of the CMake build"
_MACRO = re.compile(r"^#define (\w+)(?:\([^)]*\))? ?(.*)$", re.MULTILINE)


#: How generated code is compiled in every configuration; CMake gets the same table. Contraction and
#: reassociation are up to the schedules. `-fno-tree-ter` keeps gcc from joining independent
#: accumulators, the next flag from calling memmove instead of a loop, the last one (for Arm; it is
#: off on x86) from moving loads so far ahead that registers are spilled. After registers are chosen
#: it moves loads ahead, too, which other registers than the nearest leave room for (`gcc_128`: NEON
#: and SSE): processors that issue in order gain 4 to 19%, by the model of a Cortex-A53; Intel's
#: Atoms 5 to 21%, by llvm-mca; others less than 1% either way. x87 arithmetic would round
#: differently.
PRIVATE_FLAGS = {
    "all": ("-O2", "-fno-fast-math", "-ffp-contract=off"),
    "gcc": ("-fno-tree-ter", "-fno-tree-loop-distribute-patterns", "-fno-schedule-insns"),
    "gcc_128": ("-frename-registers",),
    "x86_32": ("-mfpmath=sse",),
}


def private_flags(kind: str, isa: Isa) -> tuple[str, ...]:
    """The flags of PRIVATE_FLAGS that apply to a compiler (`gcc`, `clang`) and instruction set."""
    flags = PRIVATE_FLAGS["all"]
    if kind == "gcc":
        flags += PRIVATE_FLAGS["gcc"]
    if kind == "gcc" and (isa.family == "arm" or (isa.family == "x86" and isa.widest == 4)):
        flags += PRIVATE_FLAGS["gcc_128"]
    if isa.family == "x86" and isa.bits == 32:
        flags += PRIVATE_FLAGS["x86_32"]
    return flags


@dataclass(frozen=True)
class Compiler:
    """A C compiler that works: the command, `gcc` or `clang`, and its version for people."""

    command: tuple[str, ...]
    kind: str
    version: str

    def macros(self, flags: Sequence[str] = ()) -> dict[str, str]:
        """The macros that are predefined under `flags`. Raises ToolchainError."""
        listing = _run([*self.command, *flags, "-dM", "-E", "-x", "c", os.devnull])
        return parse_macros(listing, where=shlex.join(self.command))

    def compile(
        self, source: Path, output: Path, flags: Sequence[str] = (), includes: Sequence[Path] = ()
    ) -> None:
        """Compile one file to an object. Raises ToolchainError with the compiler's first error."""
        paths = [f"-I{path}" for path in includes]
        try:
            _make([*self.command, *flags, *paths, "-c", str(source), "-o", str(output)], output)
        except ToolchainError as error:
            raise error_of_user(source.parent, error.what) or error from None

    def link(self, objects: Sequence[Path], output: Path, flags: Sequence[str] = ()) -> None:
        """Link an executable (or, with -shared, a library); `flags` follow the objects."""
        _make([*self.command, *map(str, objects), "-o", str(output), *flags], output)


def parse_macros(text: str, *, where: str) -> dict[str, str]:
    """The macros of a `-dM -E` listing, by name; raises ToolchainError at `where` for other
    text.
    """
    macros = dict(_MACRO.findall(text))
    if not macros:
        raise ToolchainError(
            "no predefined macros are listed", where=where, cure="give gcc or clang as --cc"
        )
    return macros


def _make(command: Sequence[str], output: Path) -> None:
    """Runs a compiler that must write `output`. Raises ToolchainError, OutOfTimeError.

    Its temporary files go there too, so they vanish with the folder even if it is killed.
    """
    _run(command, output.parent)
    if not output.exists():
        raise ToolchainError(
            f"the compiler reports success but did not write {output.name}",
            where=shlex.join(command), cure="give another --cc",
        )  # fmt: skip


def _run(command: Sequence[str], temporary: Path | None = None) -> str:
    try:
        environment = temporary_in(temporary) if temporary else None
        done = run_to_end(command, timeout=_TIMEOUT, env=environment)
    except OSError as error:
        raise ToolchainError(
            f"cannot start the compiler: {error.strerror}",
            where=command[0],
            cure="give another --cc",
        ) from None
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            f"the compiler took more than {_TIMEOUT:.0f} s", where=shlex.join(command), cure=CURE
        ) from None
    if done.returncode != 0:
        raise ToolchainError(
            first_error(done.stderr) or f"failed with exit code {done.returncode}",
            where=shlex.join(command), cure=_cure(done.stderr),
        )  # fmt: skip
    return done.stdout


def _cure(text: str) -> str:
    """Advice for a compiler's output; on full disks, SIGBUS kills linkers."""
    if re.search(r"No space left|Disk quota|Bus error", text):
        return f"make room; programs are built in {tempfile.gettempdir()}, or where TMPDIR says"
    return CURE


def first_error(text: str) -> str:
    """The line of a compiler's output that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    full = (line for line in lines if "No space left" in line)
    wrong = (line for line in lines if re.search(r"error|undefined|cannot|fatal", line, re.I))
    return next(chain(full, wrong), lines[-1] if lines else "")


@cache
def probe_compiler(command: tuple[str, ...]) -> Compiler:
    """What `command` is; ToolchainError if it is missing, fails, or is neither gcc nor clang."""
    if shutil.which(command[0]) is None:
        raise ToolchainError(f"compiler {command[0]!r} not found", cure="install it, or give --cc")
    macros = Compiler(command, "", "").macros()
    if "__GNUC__" not in macros:
        raise ToolchainError("neither gcc nor clang", where=command[0], cure="give another --cc")
    kind = "clang" if "__clang__" in macros else "gcc"
    return Compiler(command, kind, version_text(macros))


def version_text(macros: Mapping[str, str]) -> str:
    """The compiler with these macros, for people: `gcc 12.2.0`."""
    version = macros.get("__VERSION__", "").strip('"')
    return version if "__clang__" in macros else f"gcc {version}"


def _is_host(triple: str) -> bool:
    machine = platform.machine()
    return not triple or (triple.startswith(f"{machine}-linux-gnu") and os.name == "posix")


def _candidates(triple: str) -> list[tuple[str, ...]]:
    if _is_host(triple):
        return [("cc",), ("gcc",), ("clang",)]
    found: list[tuple[str, ...]] = [(f"{triple}-gcc", *_C_LIBRARY.get(triple, ()))]
    if triple == "i686-linux-gnu" and platform.machine() == "x86_64":
        found.append(("gcc", "-m32"))
    return found


@cache
def find_compiler(triple: str) -> Compiler:
    """The compiler for a GNU triple ("" : the host), or ToolchainError with the package to install.

    For the host, $CC comes first.
    """
    host = _is_host(triple)
    if host and os.environ.get("CC"):
        return probe_compiler(tuple(shlex.split(os.environ["CC"])))
    for command in _candidates(triple):
        if shutil.which(command[0]) and _links(command):
            return probe_compiler(command)
    name = "C compiler" if host else f"C compiler for {triple}"
    package = PACKAGES["" if host else triple]
    raise ToolchainError(f"no {name} found", cure=f"apt install {package}, or give --cc")


@cache
def find_clang(triple: str, oldest: int) -> Compiler:
    """A clang for a GNU triple, version `oldest` or newer, or ToolchainError with the package."""
    names = [*(f"clang-{version}" for version in range(_NEWEST_CLANG, oldest - 1, -1)), "clang"]
    for name in filter(shutil.which, names):
        command = (name, f"--target={triple}")
        macros = Compiler(command, "", "").macros()
        if int(macros.get("__clang_major__", "0")) >= oldest and _links(command):
            return probe_compiler(command)
    raise ToolchainError(
        f"no clang {oldest} or newer found that links for {triple}",
        cure=f"apt install clang-{oldest} {PACKAGES[triple]}, or give --cc",
    )


def _links(command: tuple[str, ...]) -> bool:
    """Whether the C library is installed: `gcc -m32` starts everywhere but rarely works."""
    if len(command) == 1:
        return True
    program = "#include <stdio.h>\nint main(void) { return 0; }\n"
    with temporary_folder() as folder:
        done = subprocess.run(
            [*command, "-x", "c", "-", "-o", os.devnull], env=temporary_in(folder),
            input=program, text=True, capture_output=True, check=False,
        )  # fmt: skip
    return done.returncode == 0
