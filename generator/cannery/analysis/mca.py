"""Cycles of a loop by llvm-mca, a static model of processors: estimated, never measured.

It ignores caches and mispredicted branches.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from cannery.analysis.arm import listed_registers
from cannery.analysis.disassembly import RISCV_FEATURES, Instruction, Machine, newest
from cannery.analysis.estimator import Estimator, Task
from cannery.analysis.instructions import branch_kind
from cannery.analysis.kinds import Branch
from cannery.errors import ToolchainError
from cannery.target.processes import run_to_end

_TIMEOUT = 120.0
_ITERATIONS = 100

_TRIPLES = {
    Machine.I386: "i686-linux-gnu",
    Machine.X86_64: "x86_64-linux-gnu",
    Machine.ARM: "armv7-linux-gnueabihf",
    Machine.AARCH64: "aarch64-linux-gnu",
    Machine.RISCV64: "riscv64-linux-gnu",
}

#: What stands in for a Neoverse N1 and V1 where LLVM is too old. The N1 was made of the Cortex-A76,
#: the V1 of the X1; LLVM takes an A57 for all cores that it has no model of.
_N1 = ("neoverse-n1", "cortex-a57")
_V1 = ("neoverse-v1", "neoverse-n1", "cortex-a57")

#: Other names of processors: LLVM's name, then the nearest models if LLVM is too old.
_NAMES = {
    "bonnell": ("bonnell", "atom"), "zen4": ("znver4", "znver3"), "znver4": ("znver4", "znver3"),
    "zen5": ("znver5", "znver4", "znver3"), "znver5": ("znver5", "znver4", "znver3"),
    "cortex-a7": ("cortex-a9",), "cortex-a8": ("cortex-a9",),
    **dict.fromkeys(("cortex-a76", "cortex-a77", "cortex-a78", "neoverse-n1"), _N1),
    **dict.fromkeys(("cortex-x1", "neoverse-v1"), _V1),
}  # fmt: skip

#: Processors of which newer versions of LLVM have a model: the first where we saw one (not 14).
_SINCE = dict.fromkeys(("neoverse-n1", "neoverse-v1"), 19)

#: Processors that LLVM describes with the model of another one (versions 14 to 19).
_MODELS = {
    **dict.fromkeys(("cortex-a72", "cortex-a73", "cortex-a75"), "cortex-a57"),
    **dict.fromkeys(("cortex-a15", "cortex-a17"), "cortex-a9"),
    "apple-m1": "apple-a7",
}  # fmt: skip

#: Instructions that LLVM may assume a processor lacks unless told otherwise.
_FEATURES = {Machine.ARM: "+neon,+vfp4", Machine.RISCV64: RISCV_FEATURES}

#: What begins a comment that llvm-mca reads, if not #.
_COMMENTS = {Machine.ARM: "@"}

#: Pieces per run of the program, which reads a whole file before it begins.
_BATCH = 400


@dataclass(frozen=True)
class LlvmMca(Estimator):
    """llvm-mca, where `cpu` is the name given to the program."""

    program: str
    machine: Machine

    @property
    def by(self) -> str:
        """See the base."""
        return "llvm-mca"

    @cached_property
    def version(self) -> str:
        """The program's name and version."""
        version = _version(self.program)
        return f"llvm-mca {version}" if version else self.program

    def cycles(self, code: Sequence[Instruction], *, loop: bool) -> float:
        """See the base."""
        passes = _ITERATIONS if loop else 1
        return self._simulated([assembly(code, self.machine)], passes)[0] / passes

    def batch(self, tasks: Sequence[Task]) -> list[float | None]:
        """See the base."""
        texts = [assembly(task.code, self.machine) for task in tasks]
        wanted = dict.fromkeys(zip(texts, (task.passes for task in tasks), strict=True))
        found: dict[tuple[str, int], float | None] = {}
        for passes in dict.fromkeys(p for _, p in wanted):
            same = [text for text, p in wanted if p == passes]
            for start in range(0, len(same), _BATCH):
                part = same[start : start + _BATCH]
                for text, cycles in zip(part, self._halved(part, passes), strict=True):
                    found[text, passes] = None if cycles is None else cycles / passes
        return [found[text, task.passes] for text, task in zip(texts, tasks, strict=True)]

    def _halved(self, texts: Sequence[str], passes: int) -> list[float | None]:
        """Total cycles of each; pieces that the program rejects are found by bisection."""
        try:
            return list(self._simulated(texts, passes))
        except ToolchainError:
            if len(texts) == 1:
                return [None]
        middle = len(texts) // 2
        return [*self._halved(texts[:middle], passes), *self._halved(texts[middle:], passes)]

    def _simulated(self, texts: Sequence[str], passes: int) -> list[float]:
        """Total cycles of this many passes of each piece. Raises ToolchainError."""
        mark = _COMMENTS.get(self.machine, "#")
        lines = ["piece:"]
        for text in texts:
            lines += [f"{mark} LLVM-MCA-BEGIN", text, f"{mark} LLVM-MCA-END"]
        command = _command(self.program, self.machine, self.cpu)
        said = _run([*command, f"-iterations={passes}", "-"], "\n".join(lines) + "\n")
        found = re.findall(r"^Total Cycles:\s+(\d+)", said, re.MULTILINE)
        if len(found) != len(texts):
            raise ToolchainError(
                "no cycles reported", where=self.program, cure="install another version of llvm"
            )
        return [float(cycles) for cycles in found]


def find_mca(cpu: str, machine: Machine) -> LlvmMca:
    """llvm-mca for a processor by LLVM's name or a common one.

    Raises ToolchainError for an unknown processor, or if the program is not installed.
    """
    program = installed()
    if not program:
        raise ToolchainError("llvm-mca not found", where="--mca", cure="apt install llvm")
    names = _NAMES.get(cpu, (cpu,))
    name = next((n for n in names if _knows(program, machine, n)), None)
    if name is None:
        raise ToolchainError(
            f"unknown processor {cpu!r}", where="--mca",
            cure=f"one of LLVM's for {machine.value}, such as {_example(machine)}",
        )  # fmt: skip
    return LlvmMca(name, _MODELS.get(name, name), cpu, program, machine)


def installed() -> str:
    """The newest llvm-mca that is installed, as it has the most models; empty if there is none."""
    names = newest("llvm-mca")
    return next(filter(shutil.which, (*names[1:], *names[:1])), "")


def _knows(program: str, machine: Machine, cpu: str) -> bool:
    """Whether it knows the processor, with a model of its instructions' times."""
    if _major(program) < _SINCE.get(cpu, 0):
        return False
    said = _start([*_command(program, machine, cpu), "-"], "").stderr
    absent = ("not a recognized processor", "unable to find instruction-level scheduling")
    return not any(text in said for text in absent)


def _version(program: str) -> str:
    found = re.search(r"LLVM version (\S+)", _start([program, "--version"], "").stdout)
    return found[1] if found else ""


def _major(program: str) -> int:
    found = re.match(r"\d+", _version(program))
    return int(found[0]) if found else 0


def _command(program: str, machine: Machine, cpu: str) -> list[str]:
    features = [f"-mattr={_FEATURES[machine]}"] if machine in _FEATURES else []
    views = ["-instruction-info=0", "-resource-pressure=0"]
    return [program, f"-mtriple={_TRIPLES[machine]}", f"-mcpu={cpu}", *features, *views]


def _example(machine: Machine) -> str:
    if machine.is_x86:
        return "atom, silvermont, haswell, znver3"
    if machine is Machine.RISCV64:
        return "rocket-rv64, sifive-u74"
    return "cortex-a9, cortex-a15" if machine is Machine.ARM else "cortex-a53, cortex-a72"


def _start(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    try:
        return run_to_end(command, timeout=_TIMEOUT, text=text)
    except OSError as error:
        raise ToolchainError(
            f"cannot start: {error.strerror}", where=command[0], cure="apt install llvm"
        ) from None
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            f"took more than {_TIMEOUT:.0f} s", where=command[0], cure="leave out --mca"
        ) from None


def _run(command: Sequence[str], text: str) -> str:
    """What the program reports. Raises ToolchainError with its first error and the line
    concerned.
    """
    done = _start(command, text)
    lines = done.stderr.splitlines()
    wrong = next((k for k, line in enumerate(lines) if "error:" in line), -1)
    if wrong >= 0 or done.returncode:
        what = " ".join(line.strip() for line in lines[max(wrong, 0) : wrong + 3])
        cure = "give a processor that has these instructions, or a newer llvm"
        raise ToolchainError(what or "failed", where=command[0], cure=cure)
    return done.stdout


def assembly(code: Sequence[Instruction], machine: Machine) -> str:
    """Code for an assembler, without calls; addresses become the label `piece`."""
    lines = []
    for instruction in code:
        if branch_kind(instruction, machine) is Branch.CALL:
            continue
        operands = ["piece" if o.endswith(">") else o for o in instruction.operands]
        if machine is Machine.ARM:
            lines += _arm_lines(instruction.mnemonic, operands)
        else:
            lines.append(f"{instruction.mnemonic} {', '.join(operands)}")
    return "\n".join(lines)


def _arm_lines(mnemonic: str, operands: Sequence[str]) -> list[str]:
    """T32 as A32, whose conditions need no IT, which the models do not know.

    Constants need not be correct: A32 cannot encode all of T32's, and GNU's objdump shows the codes
    of floating ones. Moves of several registers, which the models do not know either, become one
    instruction each.
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
    if single := _single(name, operands):
        return single
    name = {"addw": "add", "subw": "sub"}.get(name, name)
    # The models have no arithmetic on pairs.
    name = re.sub(r"^vp(add|max|min)\.", r"v\1.", name)
    return [f"{name} {', '.join(half)}" for half in _halves(name, operands)]


def _halves(name: str, operands: Sequence[str]) -> list[Sequence[str]]:
    """Float arithmetic on q registers, doubled: Arm v7 processors have 64-bit units and need two
    cycles (Cortex-A9 NEON MPE, Technical Reference Manual); LLVM's model counts one.
    """
    if not re.fullmatch(r"v(add|sub|mul|ml[as]|fm[as]|max|min)\.f32", name):
        return [operands]
    if not operands[0].startswith("q"):
        return [operands]

    def half(operand: str, which: int) -> str:
        whole = re.fullmatch(r"q(\d+)", operand)
        return f"d{2 * int(whole[1]) + which}" if whole else operand

    return [[half(o, which) for o in operands] for which in (0, 1)]


_SEVERAL = re.compile(r"(v?)(push|pop|ldm|stm)(ia|db|fd)?")


def _single(name: str, operands: Sequence[str]) -> list[str]:
    """Loads and stores of several registers as single ones; empty for other instructions."""
    if name in ("ldrd", "strd"):
        # The address register last, as it may be loaded too.
        pair = sorted(operands[:2], key=lambda r: r in operands[2])
        return [f"{name[:3]} {r}, {', '.join(operands[2:])}" for r in pair]
    found = _SEVERAL.fullmatch(name)
    if not found:
        return []
    base = "sp" if "p" in found[2] else operands[0].rstrip("!")
    access = found[1] + ("ldr" if found[2] in ("pop", "ldm") else "str")
    names = listed_registers(operands[-1])
    kept = ["lr" if n == "pc" else n for n in names]
    moves = [f"add {base}, {base}, #4"] if "p" in found[2] or "!" in operands[0] else []
    return [*(f"{access} {n}, [{base}, #4]" for n in kept if n != base), *moves]
