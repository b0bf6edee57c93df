"""Processors that are emulated, and a Python on each for the rivals."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Protocol

from cannery.target.compiler import Compiler, find_compiler

#: Where packages of this repository are that rivals' processes import.
GENERATOR = Path(__file__).resolve().parents[2] / "generator"

#: Sets and dictionaries have the same order in each run, and NumPy's own threads do not wait for
#: work in loops that would be counted.
STEADY = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Core:
    """A processor: Cannery's target, what QEMU and models of pipelines call it, and what
    /proc/cpuinfo says of it, by which runtimes for Arm choose their kernels.

    `runner` is the emulator for Cannery's program, if the target would do without one.
    """

    target: str
    emulated: str
    model: str
    part: int = 0
    features: str = ""
    runner: str = ""


class RivalPython(Protocol):
    """A Python with the rivals' packages."""

    def command(self, core: Core) -> list[str]:
        """What goes before a script: an emulator, its options, and Python."""
        ...

    @property
    def environment(self) -> dict[str, str]:
        """What its processes get beside the caller's environment."""
        ...

    def version(self, package: str) -> str:
        """Of a package; empty: there is none."""
        ...

    def compiler(self, ours: Compiler) -> Compiler:
        """One for the instructions that its processes run; `ours` is Cannery's for the core."""
        ...


_V8 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
_V82 = f"{_V8} atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"

#: Arm processors whose kernels can be counted. QEMU (7.2) has all of them.
CORES: Mapping[str, Core] = {
    "cortex-a53": Core("aarch64-a53", "cortex-a53", "cortex-a53", 0xD03, _V8),
    "cortex-a72": Core("aarch64-a72", "cortex-a72", "cortex-a72", 0xD08, _V8),
    "cortex-a76": Core("aarch64-a76", "cortex-a76", "cortex-a76", 0xD0B, _V82),
    "neoverse-n1": Core("neoverse-n1", "neoverse-n1", "neoverse-n1", 0xD0C, _V82),
}

#: Intel's Atoms. QEMU has no Silvermont: a Denverton is the nearest without AVX. Runtimes have no
#: wheels of 32 bits: beside a Bonnell's Cannery of 32 bits they get 64, and SSE4.2, without which
#: NumPy does not start.
ATOMS: Mapping[str, Core] = {
    "silvermont": Core(
        "silvermont", "Denverton", "silvermont", runner="qemu-x86_64 -cpu Denverton"
    ),
    "bonnell": Core("atom32", "Nehalem", "atom", runner="qemu-i386 -cpu n270"),
}


@dataclass(frozen=True)
class HostPython:
    """The Python that runs this, under an emulator of a smaller processor of the same kind."""

    def command(self, core: Core) -> list[str]:
        """QEMU as that processor, and Python."""
        return ["qemu-x86_64", "-cpu", core.emulated, sys.executable]

    @property
    def environment(self) -> dict[str, str]:
        """Where packages are."""
        return {"PYTHONPATH": str(GENERATOR), **STEADY}

    def version(self, package: str) -> str:
        """The installed version; empty: none is installed."""
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return ""

    def compiler(self, ours: Compiler) -> Compiler:
        """This machine's: Cannery may have 32 bits."""
        return find_compiler("")
