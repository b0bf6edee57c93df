"""Instructions of calls, by kind, and the cycles that a model gives them: under an emulator, exact.

Contestants of any origin are counted alike: as the pieces of code that the emulator translates and
runs, each up to a branch. A model of a pipeline gives each piece the cycles that it takes when it
runs again and again; what overlaps from one piece to the next is not seen, nor are caches.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cannery.analysis.counting import Counting, Piece
from cannery.analysis.disassembly import Function, Machine, disassemble
from cannery.analysis.estimator import Task
from cannery.analysis.loops import split_blocks
from cannery.analysis.mix import Mix, executed_mix, sum_mixes
from cannery.analysis.models import find_estimator
from cannery.errors import ToolchainError
from cannery.target.compiler import Compiler
from rivals.served import rival_environment

#: Macros of compilers for x86, whose instructions are bytes to an assembler.
X86 = {"__x86_64__", "__i386__"}

#: A repeated string instruction of x86, of which QEMU makes a piece that runs once per element.
_REPEATED = re.compile("(66)?f[23](4[0-9a-f])?a[4-7a-f]")

#: The share of all instructions whose pieces are looked at; the rest count as these do.
_COVERED = 0.995


@dataclass(frozen=True)
class CallCount:
    """One call: instructions, what they are, and cycles by a model."""

    instructions: float
    mix: Mix
    cycles: float

    @property
    def multiplies(self) -> float:
        """The share of instructions that multiply, most of them on vectors."""
        return self.mix.multiplies / max(self.mix.instructions, 1)


def count_calls(
    command: Sequence[str], counter: Counting, calls: int, environment: Mapping[str, str]
) -> tuple[Counter[Piece], tuple[str, ...]]:
    """How often each piece runs in `calls` calls of a contestant, and what it calls its outputs.

    `command` reads numbers of calls from its standard input (`child.py`, `driver.c`): what a run
    with one call takes is subtracted. Raises ToolchainError if it fails.
    """
    found, outputs = _pieces(command, counter, 1 + calls, environment)
    found.subtract(_pieces(command, counter, 1, environment)[0])
    return Counter({piece: runs for piece, runs in found.items() if runs > 0}), outputs


def _pieces(
    command: Sequence[str], counter: Counting, calls: int, environment: Mapping[str, str]
) -> tuple[Counter[Piece], tuple[str, ...]]:
    done = subprocess.run(
        command, input=f"{calls}\n", capture_output=True, text=True, check=False,
        env={**rival_environment(), **environment},
    )  # fmt: skip
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise ToolchainError(
            said[-1] if said else f"ended with {done.returncode}", where=os.fspath(command[-1])
        )
    return counter.read(), tuple(json.loads(done.stdout.splitlines()[0])["outputs"])


def judge_pieces(
    pieces: Mapping[Piece, int], calls: int, cpu: str, compiler: Compiler, folder: Path
) -> CallCount:
    """What one of `calls` calls takes, on a processor by LLVM's name. Raises ToolchainError.

    Elements that a string instruction of x86 goes through are left out: a processor begins one, and
    models of pipelines give each the cycles of all.
    """
    pieces = {piece: runs for piece, runs in pieces.items() if not _repeats(piece)}
    total = sum(piece.instructions * runs for piece, runs in pieces.items())
    chosen: list[tuple[Piece, int]] = []
    covered = 0
    for piece, runs in sorted(pieces.items(), key=lambda item: -item[0].instructions * item[1]):
        if covered >= _COVERED * total:
            break
        chosen.append((piece, runs))
        covered += piece.instructions * runs
    machine, functions = _disassembled([piece for piece, _ in chosen], compiler, folder)
    mixes, tasks, times = [], [], []
    for function, (_, runs) in zip(functions, chosen, strict=True):
        each = {instruction.address: runs for instruction in function.instructions}
        mixes.append(executed_mix(split_blocks(function, machine), machine, each))
        tasks.append(Task(function.instructions, loop=True))
        times.append(runs)
    cycles = 0.0
    for task, runs, each in zip(
        tasks, times, find_estimator(cpu, machine).batch(tasks), strict=True
    ):
        cycles += runs * (each if each is not None else float(len(task.code)))
    scale = total / max(covered, 1) / calls
    return CallCount(total / calls, sum_mixes(mixes), cycles * scale)


def _repeats(piece: Piece) -> bool:
    return len(piece.code) == 1 and _REPEATED.fullmatch(piece.code[0]) is not None


def _disassembled(
    pieces: Sequence[Piece], compiler: Compiler, folder: Path
) -> tuple[Machine, list[Function]]:
    """Each piece as a function: its words are assembled, and read again."""
    word = _bytes if X86 & compiler.macros().keys() else _instruction
    lines = [".text"]
    for number, piece in enumerate(pieces):
        lines += [f".globl piece{number}", f".type piece{number}, %function", f"piece{number}:"]
        lines += [word(bytes.fromhex(code)) for code in piece.code]
    source = folder / "pieces.s"
    source.write_text("\n".join(lines) + "\n")
    built = folder / "pieces.o"
    compiler.compile(source, built, [], [])
    machine, functions = disassemble(built, compiler)
    by_name = {function.name: function for function in functions}
    return machine, [by_name[f"piece{number}"] for number in range(len(pieces))]


def _bytes(code: bytes) -> str:
    return f".byte {', '.join(map(str, code))}"


def _instruction(code: bytes) -> str:
    """Of Arm: what is not said to be an instruction counts as data."""
    return f".inst 0x{code[::-1].hex()}"
