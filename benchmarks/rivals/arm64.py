"""Python and runtimes for AArch64, for an emulator on a machine of another kind.

Python comes from the distribution's packages for arm64, unpacked below a folder; runtimes are
wheels from the Python package index. Nothing is installed, and no rights of an administrator are
needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cannery.errors import ToolchainError
from cannery.target.compiler import Compiler
from rivals.cores import GENERATOR, STEADY, Core

#: What is unpacked, with all that it depends on.
_DEBIAN = ("python3-minimal", "libpython3-stdlib", "libgomp1", "libstdc++6")

#: What the runtimes need beside themselves.
_NEEDED = ("numpy", "flatbuffers", "protobuf")

#: Platforms of wheels, the newest that the unpacked C library serves first.
_PLATFORMS = (
    "manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64",
    "manylinux2014_aarch64", "any",
)  # fmt: skip

_CURE = "this needs apt-get and dpkg-deb (Debian, Ubuntu), pip, and the network"


@dataclass(frozen=True)
class ArmPython:
    """An unpacked Python. `command` runs it as on a core, `environment` says where packages are."""

    prefix: Path
    site: Path

    def command(self, core: Core) -> list[str]:
        """What goes before a script; the files that tell what the processor is are written."""
        _describe(self.prefix, core)
        python = self.prefix / "usr" / "bin" / "python3"
        return ["qemu-aarch64", "-L", str(self.prefix), "-cpu", core.emulated, str(python)]

    @property
    def environment(self) -> dict[str, str]:
        """Beside the caller's."""
        return {"PYTHONPATH": f"{self.site}:{GENERATOR}", **STEADY}

    def compiler(self, ours: Compiler) -> Compiler:
        """Cannery's."""
        return ours

    def version(self, package: str) -> str:
        """Of an unpacked wheel; empty: there is none."""
        name = package.lower().replace("-", "_")
        for found in self.site.glob("*.dist-info"):
            own, _, version = found.stem.partition("-")
            if own.lower() == name:
                return version
        return ""


def unpack(folder: Path, packages: Sequence[str]) -> ArmPython:
    """Fetch and unpack what is not there yet. Packages without a wheel are left out.

    Raises ToolchainError.
    """
    arm = ArmPython(folder / "root", folder / "packages")
    if not (arm.prefix / "usr" / "bin" / "python3").exists():
        _unpack_debian(folder, arm.prefix)
    python = next((arm.prefix / "usr" / "lib").glob("python3.*"), None)
    if python is None:
        raise ToolchainError("holds no Python", where=str(arm.prefix), cure="remove it")
    for package in (*_NEEDED, *packages):
        if not arm.version(package):
            _unpack_wheel(package, python.name.removeprefix("python"), folder / "wheels", arm.site)
    return arm


def _unpack_debian(folder: Path, prefix: Path) -> None:
    lists = folder / "apt"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (lists / part).mkdir(parents=True, exist_ok=True)
    options = {
        "APT::Architecture": "arm64", "APT::Architectures": "arm64", "Debug::NoLocking": "1",
        "Dir::State": lists / "state", "Dir::State::status": os.devnull,
        "Dir::Cache": lists / "cache", "APT::Sandbox::User": "",
    }  # fmt: skip
    apt = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in options.items())]
    _run(*apt, "update")
    _run(*apt, "install", "--download-only", "--yes", "--no-install-recommends", *_DEBIAN)
    prefix.mkdir(exist_ok=True)
    for package in sorted((lists / "cache" / "archives").glob("*.deb")):
        _run("dpkg-deb", "--extract", str(package), str(prefix))


def _unpack_wheel(package: str, python: str, wheels: Path, site: Path) -> None:
    """The newest wheel for AArch64, if there is one."""
    own = wheels / package
    platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
    try:
        _run(
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(own),
            "--only-binary=:all:", "--implementation=cp", f"--python-version={python}",
            *platforms, package,
        )  # fmt: skip
    except ToolchainError:
        return
    for wheel in own.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)


def _describe(prefix: Path, core: Core) -> None:
    """Files of the kernel, which QEMU takes from the prefix: one processor, and what it is."""
    (prefix / "proc").mkdir(exist_ok=True)
    (prefix / "proc" / "cpuinfo").write_text(
        f"processor\t: 0\nBogoMIPS\t: 38.40\nFeatures\t: {core.features}\n"
        f"CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\n"
        f"CPU part\t: 0x{core.part:03x}\nCPU revision\t: 4\n\n"
    )
    processors = prefix / "sys" / "devices" / "system" / "cpu"
    processors.mkdir(parents=True, exist_ok=True)
    for name in ("possible", "present", "online"):
        (processors / name).write_text("0\n")


def _run(*command: str) -> None:
    """Raises ToolchainError with what a failing command says."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ToolchainError(
            f"cannot start: {error.strerror}", where=command[0], cure=_CURE
        ) from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise ToolchainError(said[-1] if said else "failed", where=command[0], cure=_CURE)
