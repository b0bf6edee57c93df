"""What cppcheck's addon says of generated code by the rules of MISRA C:2012."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from cannery.atomic import temporary_folder
from cannery.contents import Content
from cannery.errors import ToolchainError
from cannery.measure.build import write
from cannery.target.processes import run_to_end
from cannery.target.toolchain import Toolchain

#: Deviations with their reasons; docs/how-to/guarantees.md has the same for people.
DEVIATIONS: Mapping[str, str] = {
    "2.2": "literal shapes stay visible as sums and products with 0 and 1, which compilers remove",
    "2.3": "headers declare types for all networks",
    "2.4": "headers declare tags for all networks",
    "2.5": "headers define macros for all networks and compilers",
    "2.7": "all kernels of a kind have the same parameters",
    "5.6": "words have a definition for each compiler, of which one is read",
    "5.9": "words have a definition for each compiler, of which one is read",
    "8.7": "functions of the library are for the program, which is not checked with it",
    "8.9": "constants stand beside the functions that use them, at file scope for the linker",
    "9.3": "the addon takes four bytes in a structure for an array",
    "10.1": "bits of floats are read as integers, and integers are shifted with their sign",
    "10.3": "weights and sums are narrowed after they were bounded",
    "10.4": "widths of integer types are those of the data",
    "10.8": "sums of narrow integers are widened as a whole",
    "11.3": "bytes of one memory serve as arrays of several types, which never overlap in time",
    "11.5": "the workspace is a pointer to void, from which arrays are made",
    "12.1": "precedence of * over + is not written out by parentheses",
    "12.3": "several variables are declared at once",
    "14.4": "flags of loops are integers",
    "15.5": "functions return early where nothing is to be computed",
    "15.6": "short bodies stand on the line of their condition",
    "17.7": "memcpy and memset return what nobody needs",
    "17.8": "loops count down their parameters",
    "18.4": "places in tensors are pointers plus literal offsets",
    "20.1": "headers follow the words that they need",
    "20.5": "macros that make words are undefined after that",
    "20.7": "macros declare words, whose names cannot be in parentheses",
    "20.10": "macros make the names of words",
}

_TIMEOUT = 1800.0
_FINDING = re.compile(r"^misra-c2012-(\d+\.\d+)$", re.M)


@dataclass(frozen=True)
class MisraFindings:
    """How often each rule is not kept, by its number; rules that are listed nowhere are kept, as
    far as the addon checks them.
    """

    counts: Mapping[str, int]

    @property
    def unexplained(self) -> tuple[str, ...]:
        """Rules that are not kept, and have no reason in DEVIATIONS."""
        return tuple(rule for rule in self.counts if rule not in DEVIATIONS)


def misra_findings(name: str, files: Mapping[str, Content], toolchain: Toolchain) -> MisraFindings:
    """Check the library `name` with its headers, as the toolchain's compiler reads them.

    Raises ToolchainError if there is no cppcheck with the addon, or it fails.
    """
    program = shutil.which("cppcheck")
    if program is None:
        raise ToolchainError("cppcheck not found", where="--misra", cure="apt install cppcheck")
    macros = toolchain.compiler.macros(toolchain.cflags)
    defines = [f"-D{key}={value}" for key, value in macros.items() if key.startswith("__ARM")]
    defines += [
        f"-D{key}=1" for key in ("__thumb__", "__thumb2__", "__OPTIMIZE__") if key in macros
    ]
    with temporary_folder() as folder:
        write(folder, files)
        sources = [f"{name}.c", f"{name}_static.c"]
        command = [
            program, "--addon=misra", "--std=c99", "-q", "--template={id}", "-D__GNUC__=12",
            "-D__SIZEOF_POINTER__=4", *defines, f"-I{folder}", *(str(folder / s) for s in sources),
        ]  # fmt: skip
        try:
            done = run_to_end(command, timeout=_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainError(f"cannot check: {error}", where="cppcheck") from None
    found = Counter(_FINDING.findall(done.stderr))
    if done.returncode != 0 or not found:
        raise ToolchainError(
            "the MISRA addon said nothing", where="cppcheck", cure="apt install cppcheck"
        )
    order = sorted(found, key=lambda rule: tuple(map(int, rule.split("."))))
    return MisraFindings({rule: found[rule] for rule in order})
