"""Object files as instructions: finds GNU's or LLVM's objdump, runs it and reads its output."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cannery.errors import ToolchainError
from cannery.target.compiler import Compiler
from cannery.target.processes import run_to_end

_TIMEOUT = 300.0


class Machine(Enum):
    """Processors whose instructions Cannery understands, with the GNU triple of their tools."""

    I386 = "i686-linux-gnu"
    X86_64 = "x86_64-linux-gnu"
    ARM = "arm-linux-gnueabihf"
    AARCH64 = "aarch64-linux-gnu"
    RISCV64 = "riscv64-linux-gnu"

    @property
    def is_x86(self) -> bool:
        return self in (Machine.I386, Machine.X86_64)

    @property
    def is_arm(self) -> bool:
        return self in (Machine.ARM, Machine.AARCH64)


#: e_machine of the ELF header (System V ABI, chapter 4).
_ELF_MACHINES = {
    3: Machine.I386, 62: Machine.X86_64, 40: Machine.ARM, 183: Machine.AARCH64,
    243: Machine.RISCV64,
}  # fmt: skip

#: The extensions that LLVM's programs may need to be told about.
RISCV_FEATURES = "+m,+a,+f,+d,+c,+v"

#: Debian's packages with the objdump of a machine.
_PACKAGES = {
    Machine.I386: "binutils-i686-linux-gnu",
    Machine.X86_64: "binutils",
    Machine.ARM: "binutils-arm-linux-gnueabihf",
    Machine.AARCH64: "binutils-aarch64-linux-gnu",
    Machine.RISCV64: "binutils-riscv64-linux-gnu",
}


@dataclass(frozen=True)
class Instruction:
    """One line of a disassembly. `target` is the address that a direct branch or call goes to."""

    address: int
    mnemonic: str
    operands: tuple[str, ...] = ()
    target: int | None = None

    @property
    def text(self) -> str:
        """The instruction as an assembler would read it, except for a branch's target."""
        return f"{self.mnemonic:<8} {', '.join(self.operands)}".rstrip()


@dataclass(frozen=True)
class Function:
    """A function's instructions by ascending address, without data between them."""

    name: str
    instructions: tuple[Instruction, ...]


_LABEL = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*)$")
_TARGET = re.compile(r"^(?:0x)?([0-9a-f]+) <.*>$")
#: Tag_CPU_arch 21, Armv8.1-M, in an object file ("Addenda to, and Errata in, the ABI for the Arm
#: Architecture", 3.3.5): its vector instructions are only read by GNU's objdump if it is told.
_ARMV8_1_M = re.compile(rb"aeabi\0\x01.{4}(?:\x05[^\0]*\0)?\x06\x15", re.DOTALL)
_COMMENT = re.compile(r"\s#.*$")
_ARM_COMMENT = re.compile(r"\s(?:@|//|;).*$")
_PREFIXES = {"rep", "repz", "repnz", "lock", "notrack", "bnd", "data16", "cs", "ds"}


def parse_disassembly(text: str, machine: Machine) -> list[Function]:
    """The functions in the output of `objdump -d --no-show-raw-insn`, AT&T syntax for x86."""
    found: list[tuple[str, list[Instruction]]] = []
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label and not label[1].startswith(("$", ".L")):
            found.append((label[1], []))
        elif (code := _LINE.match(line)) and found:
            instruction = _instruction(int(code[1], 16), code[2], machine)
            found[-1][1].extend([instruction] if instruction else [])
    return [Function(name, tuple(lines)) for name, lines in found if lines]


def _instruction(address: int, text: str, machine: Machine) -> Instruction | None:
    """An instruction; None for data, such as Arm's literals."""
    comment = _ARM_COMMENT if machine.is_arm else _COMMENT
    words = comment.sub("", text).split()
    while len(words) > 1 and words[0] in _PREFIXES:
        words = words[1:]
    if not words or words[0].startswith((".", "<", "(")):
        return None
    operands = tuple(_split(" ".join(words[1:])))
    target = _TARGET.match(operands[-1]) if operands else None
    return Instruction(address, words[0], operands, int(target[1], 16) if target else None)


def _split(text: str) -> Iterator[str]:
    """Operands: commas inside brackets of any kind do not separate."""
    depth, start = 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "([{<") - (sign in ")]}>")
        if sign == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


def machine_of(path: Path) -> Machine:
    """The processor that an object file is for; raises ToolchainError if it is another."""
    head = path.read_bytes()[:20]
    known = head[:4] == b"\x7fELF" and head[5:6] == b"\x01" and len(head) == 20
    machine = _ELF_MACHINES.get(struct.unpack_from("<H", head, 18)[0]) if known else None
    if machine is None:
        raise ToolchainError(
            "the compiler's object files are not understood", where=path.name,
            cure="give a compiler that makes ELF files for x86, Arm or 64-bit RISC-V as --cc",
        )  # fmt: skip
    return machine


def disassemble(
    path: Path, compiler: Compiler, addresses: range | None = None
) -> tuple[Machine, list[Function]]:
    """The functions of an object file or program, read by the first objdump that can.

    All of them, or those at some addresses. Raises ToolchainError if there is no such objdump.
    """
    machine = machine_of(path)
    tried = list(_programs(compiler, machine))
    for program in tried:
        functions = parse_disassembly(
            _output([program, *_flags(program, machine, path), *_range(addresses), str(path)]),
            machine,
        )
        if functions:
            return machine, functions
    raise ToolchainError(
        f"no objdump found that reads {machine.value} object files",
        where=", ".join(tried) or "PATH",
        cure=f"apt install {_PACKAGES[machine]}, or llvm",
    )


def _flags(program: str, machine: Machine, path: Path) -> list[str]:
    flags = ["-d", "--no-show-raw-insn"]
    if not Path(program).name.startswith("llvm"):
        is_armv8_1_m = machine is Machine.ARM and _ARMV8_1_M.search(path.read_bytes())
        return [*flags, "-marmv8.1-m.main"] if is_armv8_1_m else flags
    # Older LLVM versions do not read which extensions a file declares.
    return [*flags, f"--mattr={RISCV_FEATURES}"] if machine is Machine.RISCV64 else flags


def _range(addresses: range | None) -> list[str]:
    if not addresses:
        return []
    return [f"--start-address={addresses[0]}", f"--stop-address={addresses[-1] + 1}"]


def _programs(compiler: Compiler, machine: Machine) -> Iterator[str]:
    """Disassemblers that exist: the compiler's own, the triple's, LLVM's."""
    own = _output([*compiler.command, "-print-prog-name=objdump"]).strip()
    names = [own, f"{machine.value}-objdump", *newest("llvm-objdump")]
    for name in dict.fromkeys(names):
        if name and shutil.which(name):
            yield name


def newest(program: str) -> list[str]:
    """Names under which Debian installs an LLVM tool, the unversioned one first."""
    return [program, *(f"{program}-{version}" for version in range(24, 13, -1))]


def _output(command: Sequence[str]) -> str:
    """What a command prints; empty if it cannot start or hangs."""
    try:
        done = run_to_end(command, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
