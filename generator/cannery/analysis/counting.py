"""Counts how often each instruction of a program runs: under QEMU, with a plugin.

If this machine has the instruction set but no emulator does, it stops the program after each
instruction instead. Counts are exact and the same in every run, however busy the machine is.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cannery.analysis.disassembly import Function
from cannery.atomic import temporary_folder
from cannery.errors import ToolchainError
from cannery.target.compiler import find_compiler
from cannery.target.runner import Runner, is_qemu

_PLUGIN = Path(__file__).with_name("counter.c")
_STEPPER = Path(__file__).with_name("stepper.c")

#: Machines whose programs `_STEPPER` can stop after each instruction.
_STEPPED = ("x86_64", "i686", "i386")

_INSTALL = "apt install qemu-user qemu-system-arm; static builds of QEMU take no plugins"

#: From this version on, QEMU requires version 2 of the plugin interface.
_SECOND = 9


@dataclass(frozen=True)
class Piece:
    """This many instructions in a row, from an address on; or their `code`, in hex digits each,
    wherever it was (address 0).
    """

    address: int
    instructions: int
    code: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counting:
    """Runs programs and counts their instructions; `out` is the file for the counts."""

    runner: Runner
    out: Path

    @property
    def steps(self) -> bool:
        """Whether it counts only what lies between two signals of the program."""
        return Path(self.runner.command[0]).name == "stepper"

    def pieces(self, executable: Path, args: Sequence[str] = ()) -> Counter[Piece]:
        """How often each piece of code ran. Raises ToolchainError like `Runner.run`."""
        self.runner.run_text(executable, args)
        return self.read()

    def read(self) -> Counter[Piece]:
        """How often each piece of code ran in the last run. Raises ToolchainError."""
        lines = self.out.read_text().splitlines() if self.out.is_file() else []
        self.out.unlink(missing_ok=True)
        if lines[-1:] != ["end"]:
            raise ToolchainError("no counts were written", where=self.runner.command[0])
        found: Counter[Piece] = Counter()
        for line in lines[:-1]:
            address, instructions, runs, *code = line.split()
            place = 0 if code else int(address, 16)
            found[Piece(place, int(instructions), tuple(code))] += int(runs)
        return found


@contextmanager
def counting(runner: Runner, *, code: bool = False) -> Iterator[Counting]:
    """A way to count the instructions of programs that `runner` runs: under QEMU, or directly.

    With `code`, which needs QEMU, pieces are known by what their instructions are. Raises
    ToolchainError for another emulator, or a device.
    """
    with temporary_folder() as folder:
        out = folder / "counts"
        if not runner.command:
            if platform.machine() not in _STEPPED:
                raise ToolchainError(
                    "instructions are counted one by one only on x86", where="this machine",
                    cure="name a target that has an emulator",
                )  # fmt: skip
            stepper = folder / "stepper"
            find_compiler("").link([_STEPPER], stepper, ["-O2", "-D_GNU_SOURCE"])
            command: tuple[str, ...] = (str(stepper), str(out))
        else:
            emulator, *words = runner.command
            plugin = _build_plugin(folder, emulator)
            asked = f"{plugin},out={out}" + ",code=on" * code
            command = (emulator, "-plugin", asked, *words)
        yield Counting(replace(runner, command=command), out)


def _build_plugin(folder: Path, emulator: str) -> Path:
    """The plugin as a library of this machine, for this version of QEMU."""
    if not is_qemu(emulator):
        raise ToolchainError(
            "instructions are counted under QEMU", where=emulator,
            cure="leave out --runner, or let it be qemu",
        )  # fmt: skip
    found = re.search(r"version (\d+)\.", _output([emulator, "--version"]))
    if found is None or "-plugin" not in _output([emulator, "--help"]):
        raise ToolchainError("takes no plugins", where=emulator, cure=_INSTALL)
    version = 2 if int(found[1]) >= _SECOND else 1
    built = folder / "counter.so"
    flags = ["-O2", "-fPIC", "-shared", "-fvisibility=hidden", f"-DPLUGIN_VERSION={version}"]
    find_compiler("").link([_PLUGIN], built, flags)
    return built


def _output(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        what = f"cannot start: {error.strerror}"
        raise ToolchainError(what, where=command[0], cure=_INSTALL) from None
    return done.stdout + done.stderr


def by_instruction(pieces: Mapping[Piece, int], functions: Sequence[Function]) -> Counter[int]:
    """How often each instruction of `functions` ran, by its address."""
    places = sorted(i.address for function in functions for i in function.instructions)
    index = {address: k for k, address in enumerate(places)}
    found: Counter[int] = Counter()
    for piece, runs in pieces.items():
        first = index.get(piece.address)
        if first is not None:
            for address in places[first : first + piece.instructions]:
                found[address] += runs
    return found
