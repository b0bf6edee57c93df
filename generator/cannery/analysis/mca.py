"""Cycles of a loop by llvm-mca, a static model of processors: estimated, never measured.

It knows neither caches nor mispredicted branches.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from cannery.analysis.disassembly import Instruction, Machine, newest
from cannery.analysis.instructions import branch_kind
from cannery.analysis.kinds import Branch
from cannery.errors import ToolchainError

_TIMEOUT = 120.0
_ITERATIONS = 100

_TRIPLES = {
    Machine.I386: "i686-linux-gnu",
    Machine.X86_64: "x86_64-linux-gnu",
    Machine.ARM: "armv7-linux-gnueabihf",
    Machine.AARCH64: "aarch64-linux-gnu",
}

#: Other names of processors: what LLVM calls them, then what comes nearest where it is too old.
_NAMES = {
    "bonnell": ("bonnell", "atom"), "zen4": ("znver4", "znver3"), "znver4": ("znver4", "znver3"),
    "zen5": ("znver5", "znver4", "znver3"), "znver5": ("znver5", "znver4", "znver3"),
}  # fmt: skip

#: Processors that LLVM describes by the model of another one (versions 14 to 19).
_MODELS = dict.fromkeys(
    ("cortex-a72", "cortex-a73", "cortex-a75", "cortex-a76", "cortex-a77", "cortex-a78"),
    "cortex-a57",
)


@dataclass(frozen=True)
class Estimator:
    """llvm-mca for one processor. `note` tells whose model it is where it is not its own."""

    program: str
    machine: Machine
    cpu: str
    note: str

    def cycles(self, code: Sequence[Instruction], *, loop: bool) -> float:
        """Cycles of one pass: of a loop in its steady state, of other code once from start to end.

        Raises ToolchainError for instructions that llvm-mca does not know for this processor.
        """
        passes = _ITERATIONS if loop else 1
        command = _command(self.program, self.machine, self.cpu)
        said = _run([*command, f"-iterations={passes}", "-"], assembly(code, self.machine))
        found = re.search(r"^Total Cycles:\s+(\d+)", said, re.MULTILINE)
        if not found:
            raise ToolchainError(
                "no cycles reported", where=self.program, cure="install another version of llvm"
            )
        return int(found[1]) / passes


def find_estimator(cpu: str, machine: Machine) -> Estimator:
    """llvm-mca for a processor by LLVM's name or a common one.

    Raises ToolchainError for an unknown processor, or where the program is not installed.
    """
    program = next((p for p in newest("llvm-mca") if shutil.which(p)), None)
    if program is None:
        raise ToolchainError("llvm-mca not found", where="--mca", cure="apt install llvm")
    names = _NAMES.get(cpu, (cpu,))
    name = next((n for n in names if _knows(program, machine, n)), None)
    if name is None:
        raise ToolchainError(
            f"unknown processor {cpu!r}", where="--mca",
            cure=f"one of LLVM's for {machine.value}, such as {_example(machine)}",
        )  # fmt: skip
    model = _MODELS.get(name, "" if name in (names[0], "atom") else name)
    return Estimator(program, machine, name, f"by the model of {model}" if model else "")


def _knows(program: str, machine: Machine, cpu: str) -> bool:
    said = _start([*_command(program, machine, cpu), "-"], "")
    return "not a recognized processor" not in said.stderr


def _command(program: str, machine: Machine, cpu: str) -> list[str]:
    features = ["-mattr=+neon"] if machine is Machine.ARM else []
    views = ["-instruction-info=0", "-resource-pressure=0"]
    return [program, f"-mtriple={_TRIPLES[machine]}", f"-mcpu={cpu}", *features, *views]


def _example(machine: Machine) -> str:
    if machine.is_x86:
        return "atom, silvermont, haswell, znver3"
    return "cortex-a9, cortex-a15" if machine is Machine.ARM else "cortex-a53, cortex-a72"


def _start(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace",
            timeout=_TIMEOUT, check=False,
        )  # fmt: skip
    except OSError as error:
        raise ToolchainError(
            f"cannot start: {error.strerror}", where=command[0], cure="apt install llvm"
        ) from None
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            f"took more than {_TIMEOUT:.0f} s", where=command[0], cure="leave out --mca"
        ) from None


def _run(command: Sequence[str], text: str) -> str:
    """What the program reports. Raises ToolchainError with its first error and what it is about."""
    done = _start(command, text)
    lines = done.stderr.splitlines()
    wrong = next((k for k, line in enumerate(lines) if "error:" in line), -1)
    if wrong >= 0 or done.returncode:
        what = " ".join(line.strip() for line in lines[max(wrong, 0) : wrong + 3])
        cure = "give a processor that has these instructions, or a newer llvm"
        raise ToolchainError(what or "failed", where=command[0], cure=cure)
    return done.stdout


def assembly(code: Sequence[Instruction], machine: Machine) -> str:
    """Code for an assembler: addresses become one label, calls are left out."""
    lines = []
    for instruction in code:
        if branch_kind(instruction, machine) is Branch.CALL:
            continue
        operands = ["piece" if o.endswith(">") else o for o in instruction.operands]
        if machine is Machine.ARM:
            lines += _arm_lines(instruction.mnemonic, operands)
        else:
            lines.append(f"{instruction.mnemonic} {', '.join(operands)}")
    return "piece:\n" + "\n".join(lines) + "\n"


def _arm_lines(mnemonic: str, operands: Sequence[str]) -> list[str]:
    """T32 as A32, whose conditions need no IT, as the models know none; constants need not be true.

    A32 cannot encode all of T32's, and GNU's objdump shows the codes of floating ones.
    """
    name = re.sub(r"\.[nw]$", "", mnemonic)
    if re.fullmatch(r"it[te]*|nop", name):
        return []
    if name in ("cbz", "cbnz"):
        return [f"cmp {operands[0]}, #0", f"b{'eq' if name == 'cbz' else 'ne'} piece"]
    if name.startswith("vmov.f") and operands[-1].startswith("#"):
        operands = [*operands[:-1], "#1.0"]
    elif not name.startswith("v"):
        operands = [re.sub(r"#-?\w+", "#4", o) for o in operands]
    name = {"addw": "add", "subw": "sub"}.get(name, name)
    return [f"{name} {', '.join(operands)}"]
