"""Runs a target's programs: here, under an emulator, or on a device.

The contract: `CMD executable args...` with one self-contained executable, which prints JSON lines.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannery.atomic import temporary_folder
from cannery.errors import ToolchainError
from cannery.target.device import Device, printable, read_device
from cannery.target.processes import OutputLimitError, run_to_end
from cannery.target.targets import NATIVE, Target

if TYPE_CHECKING:
    from cannery.target.remote import Remote


class Origin(str, Enum):
    """Where a time comes from, best first. Emulated times never decide a choice."""

    DEVICE = "device"  # the processor for which it is meant
    HOST = "host"  # another processor that runs the same code
    ESTIMATED = "estimated"  # a model of the processor, or the cost model; nothing was measured
    EMULATED = "emulated"


def origin_text(origin: Origin, device: Device | None) -> str:
    """An origin for people, with the processor if its times count: `host: AMD EPYC`."""
    timed = device is not None and origin in (Origin.DEVICE, Origin.HOST)
    return f"{origin.value}: {device.title}" if device and timed else origin.value


@dataclass(frozen=True)
class Runner:
    """A way to run executables. `command` goes before the executable, or a `remote` runs it on one
    `core` (None: any); `timeout` is in seconds, `limit` in bytes of output.

    A system emulator takes the program's arguments as one word after `-append` (`append`). `device`
    is what it reaches, if that was asked (`cannery.measure.identify`): then every program must
    report the same. `origin` is a guess before that.
    """

    command: tuple[str, ...]
    origin: Origin
    timeout: float = 900.0
    limit: int = 2**26
    append: bool = False
    device: Device | None = None
    remote: Remote | None = None
    core: int | None = None

    @property
    def given(self) -> bool:
        """Whether a user named it, rather than this machine or its emulator."""
        return bool(self.command) or self.remote is not None

    @property
    def name(self) -> str:
        """What a given runner is called in messages: the option that names it."""
        return self.remote.where if self.remote else f"--runner {' '.join(self.command[:1])}"

    @property
    def state(self) -> str:
        """How a device is now: its clock, governor, load, temperature; empty if it does not say."""
        told = self.remote.vitals.text if self.remote is not None else ""
        return f"{self.name}: {told}" if told else ""

    @property
    def way(self) -> str:
        """By what a device is reached, as text: for one that does not say what it is."""
        if self.remote is not None:
            return f"{self.remote.where} {self.core}"
        return " ".join(self.command)

    @property
    def cure(self) -> str:
        """Advice if a program fails, or does not print what it should."""
        if self.remote is not None:
            return "check the device: a program must be able to run there and to finish"
        if self.command:
            return "check the runner: CMD program args... must run it, and pass on its output"
        return "run cannery doctor; if all is well there, please report this"

    def with_timeout(self, seconds: float) -> Runner:
        """The same runner with another limit of time."""
        return replace(self, timeout=seconds)

    def printing(self, size: int) -> Runner:
        """The same runner for programs that print about `size` bytes."""
        return replace(self, limit=max(self.limit, 2 * size))

    def command_line(self, executable: Path, args: Sequence[str] = ()) -> list[str]:
        """The full command that runs `executable`."""
        tail = ["-append", shlex.join(args)] if self.append and args else list(args)
        return [*self.command, str(executable.resolve()), *tail]

    def run(self, executable: Path, args: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The JSON objects that the program prints, one per line; other lines are skipped.

        Raises ToolchainError if it cannot start, crashes, fails, takes too long, prints a damaged
        line, or runs on another processor than `device`.
        """
        where = self.where(executable)
        try:
            lines = parse_json_lines(self.run_text(executable, args), where=where)
        except ToolchainError as error:
            error.cure = error.cure or self.cure
            raise
        if self.device is not None:
            now = read_device(lines, where=where, cure=self.cure)
            if now.processor != self.device.processor:
                raise ToolchainError(
                    f"this ran on {now.title} ({now.part}), earlier programs on "
                    f"{self.device.title} "
                    f"({self.device.part})",
                    where=where, cure="a runner must reach the same processor every time",
                )  # fmt: skip
        return lines

    @contextmanager
    def reading(self, executable: Path) -> Iterator[None]:
        """Turn an error of the block, which reads a program's output, into a ToolchainError."""
        try:
            yield
        except (LookupError, TypeError, ValueError, ArithmeticError):
            what, where = "damaged output line: that is not a result", self.where(executable)
            raise ToolchainError(what, where=where, cure=self.cure) from None

    def where(self, executable: Path) -> str:
        """The command in messages: without the temporary folder."""
        if self.remote is not None:
            return f"{executable.name} on {self.remote.place.name}"
        return shlex.join([*self.command, executable.name])

    def run_text(self, executable: Path, args: Sequence[str] = ()) -> str:
        """What the program prints. Raises ToolchainError like `run`, and OutOfTimeError."""
        where, cure = self.where(executable), self.cure
        try:
            done = self._run(executable, args)
        except OSError as error:
            what = f"cannot start: {error.strerror}"
            raise ToolchainError(what, where=where, cure=cure) from None
        except subprocess.TimeoutExpired:
            what = f"it did not end within {self.timeout:.0f} s"
            raise ToolchainError(what, where=where, cure=cure) from None
        except OutputLimitError:
            what = f"it printed more than {self.limit >> 20} MiB, and was stopped"
            raise ToolchainError(what, where=where, cure=cure) from None
        if done.returncode != 0:
            raise ToolchainError(_failure(done), where=where, cure=cure)
        return done.stdout

    def _run(self, executable: Path, args: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if self.remote is None:
            command = self.command_line(executable, args)
            return run_to_end(command, timeout=self.timeout, limit=self.limit)
        watched = max(self.device.core, 0) if self.device else 0
        return self.remote.run(
            executable, args, self.core, timeout=self.timeout, limit=self.limit, watched=watched
        )


def number(line: Mapping[str, Any], key: str) -> float:
    """A number from a line that a program printed; ValueError or similar unless it is finite and >=
    0.
    """
    found = float(line[key])
    if not (math.isfinite(found) and found >= 0):
        raise ValueError(key)
    return found


def position(line: Mapping[str, Any], key: str, count: int) -> int:
    """Which of `count` things a line is about; ValueError or similar if none."""
    return range(count).index(line[key])


def _failure(done: subprocess.CompletedProcess[str]) -> str:
    code = done.returncode
    # A shell, ssh and most emulators report a death by signal n as 128 + n.
    number = -code if code < 0 else code - 128
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    detail = f": {printable(lines[-1])}" if lines else ""
    try:
        return f"crashed ({signal.Signals(number).name}){detail}"
    except ValueError:
        return f"failed with exit code {code}{detail}"


def parse_json_lines(text: str, *, where: str) -> list[dict[str, Any]]:
    """The objects in the lines that begin with a brace; raises ToolchainError for a damaged one."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except (ValueError, RecursionError):
                raise ToolchainError(f"damaged output line {line[:80]!r}", where=where) from None
    return found


@cache
def host_cpu_flags() -> frozenset[str]:
    """What /proc/cpuinfo lists as flags (x86) or Features (Arm); empty if it does not exist."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    found = (line.partition(":") for line in lines)
    values = (value for key, _, value in found if key.strip() in ("flags", "Features"))
    return frozenset(next(values, "").split())


@cache
def host_cpu_name() -> str:
    """The processor of this machine, for people and for provenance."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


#: The smallest 32-bit x86 program: exit(0).
_EXIT_386 = bytes.fromhex(
    "7f454c4601010100000000000000000002000300010000005480040834000000"
    "000000000000000034002000010000000000000001000000000000000080040800800408"
    "5d0000005d0000000500000000100000b80100000031dbcd80"
)


@cache
def host_runs_i386() -> bool:
    """Whether the kernel of an x86 machine starts 32-bit programs."""
    with temporary_folder() as folder:
        program = folder / "exit"
        program.write_bytes(_EXIT_386)
        program.chmod(0o755)
        try:
            return subprocess.run([program], check=False).returncode == 0
        except OSError:
            return False


def why_not_here(target: Target) -> str:
    """Why this machine cannot run the target's programs itself; empty if it can."""
    machine = platform.machine()
    machines = {
        "x86_64-linux-gnu": ("x86_64",),
        "i686-linux-gnu": ("x86_64", "i686"),
        "aarch64-linux-gnu": ("aarch64",),
        "arm-linux-gnueabihf": ("armv7l", "armv8l"),
        "riscv64-linux-gnu": ("riscv64",),
        "": (machine,),
    }
    if machine not in machines.get(target.triple, ()) or os.name != "posix":
        return f"this machine is {machine}"
    missing = [flag for flag in target.cpu_flags if flag not in host_cpu_flags()]
    if missing:
        return f"this processor does not have {', '.join(missing)}"
    if target.triple == "i686-linux-gnu" and not host_runs_i386():
        return "this kernel does not start 32-bit programs"
    return ""


def _emulated(target: Target) -> Runner:
    program = target.emulator[0]
    if shutil.which(program) is None:
        raise ToolchainError(
            f"{program} not found, and {why_not_here(target) or 'it was asked for'}",
            where=f"target {target.name}",
            cure=f"apt install {emulator_package(program)}, or give --runner",
        )  # fmt: skip
    return Runner(target.emulator, Origin.EMULATED, append=program.startswith("qemu-system"))


def emulator_package(program: str) -> str:
    """Debian's package that holds a program of QEMU."""
    if program.startswith("qemu-system"):
        return "qemu-system-arm" if program.endswith("-arm") else "qemu-system-misc"
    return "qemu-user"


def is_qemu(program: str) -> bool:
    """Whether a program is QEMU itself, by its name."""
    return Path(program).name.startswith("qemu")


def find_emulator(target: Target) -> Runner:
    """The target's emulator, which has only the target's instructions; ToolchainError if absent."""
    return _emulated(target)


def find_runner(target: Target, command: str = "", *, strict: bool = False) -> Runner:
    """How to run the target's programs: `command`, else directly, else emulated.

    `strict` prefers the emulator, which has only the target's instructions. Raises ToolchainError
    if there is no way.
    """
    if command:
        words = tuple(shlex.split(command))
        origin = Origin.EMULATED if is_qemu(words[0]) else Origin.DEVICE
        return Runner(words, origin, append=Path(words[0]).name.startswith("qemu-system"))
    reason = why_not_here(target)
    if strict and target.emulator and (reason or shutil.which(target.emulator[0])):
        return _emulated(target)
    if not reason:
        return Runner((), Origin.DEVICE if target.name == NATIVE else Origin.HOST)
    if not target.emulator:
        raise ToolchainError(
            f"{reason}, and no emulator knows {target.isa.name}",
            where=f"target {target.name}", cure="give --runner",
        )  # fmt: skip
    return _emulated(target)
