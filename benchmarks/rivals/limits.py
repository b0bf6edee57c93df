"""Rivals that use no more of the processor than an instruction set has, and what they then use.

Every library decides by CPUID what it runs. `cpuid_mask.c` takes the place of these instructions;
`instructions.c` samples what a process really executes, so that nothing has to be believed.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cannery.errors import ToolchainError
from cannery.target.compiler import find_compiler
from rivals.compilers import LIMIT
from rivals.cpuid_sites import cpuid_sites

#: What may be left to rivals; "" is all.
LIMITS = ("sse", "avx2")

#: Samples of AVX code that mean nothing: in a few libraries, copying has some.
_TOLERATED = 0.05

#: What the C library must not use; its own code is not redirected.
_HWCAPS = {
    "sse": "-AVX,-AVX2,-FMA,-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD,-AVX512ER,-BMI2",
    "avx2": "-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD,-AVX512ER",
}


@dataclass(frozen=True)
class Used:
    """Samples of a process, and how many of them were in code of AVX and AVX2, of AVX-512."""

    samples: int = 0
    avx: int = 0
    avx512: int = 0

    def __str__(self) -> str:
        """What most of it is; empty without samples."""
        if not self.samples:
            return ""
        if self.avx512 > _TOLERATED * self.samples:
            return f"AVX-512 ({100 * self.avx512 // self.samples}% of samples)"
        if self.avx > _TOLERATED * self.samples:
            return f"AVX ({100 * self.avx // self.samples}% of samples)"
        return "no AVX"

    def breaks(self, limit: str) -> bool:
        """Whether it uses more than the limit allows."""
        beyond = {"": 0, "avx2": self.avx512, "sse": self.avx + self.avx512}[limit]
        return beyond > _TOLERATED * self.samples


def can_watch() -> bool:
    """Whether the two C files are for this machine."""
    return (sys.platform, platform.machine()) == ("linux", "x86_64")


def build_library(name: str, folder: Path) -> Path:
    """`name`.c of this folder as a shared library; raises ToolchainError without a compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    library, compiler = folder.resolve() / f"{name}.so", find_compiler("")
    source = Path(__file__).with_name(f"{name}.c")
    compiler.compile(source, library.with_suffix(".o"), ["-O2", "-fPIC"])
    compiler.link([library.with_suffix(".o")], library, ["-shared"])
    return library


def limited(limit: str, files: Sequence[Path], folder: Path) -> dict[str, str]:
    """The environment in which code of these files sees no more of the processor than `limit`.

    Raises ToolchainError where that cannot be done.
    """
    if not can_watch():
        raise ToolchainError("rivals are limited on x86-64 Linux alone")
    if not shutil.which("objdump"):
        raise ToolchainError("limits need objdump", cure="apt install binutils")
    sites = folder.resolve() / "cpuid_sites.txt"
    library = build_library("cpuid_mask", folder)
    lines = [f"{site:x} {file}\n" for file in files for site in cpuid_sites(file)]
    sites.write_text("".join(lines))
    return {
        "LD_AUDIT": str(library), "CPUID_SITES": str(sites), LIMIT: limit,
        "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={_HWCAPS[limit]}",
    }  # fmt: skip
