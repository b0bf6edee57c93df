"""Instructions of every processor through one interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cannery.analysis import arm, riscv, x86
from cannery.analysis.disassembly import Instruction, Machine
from cannery.analysis.kinds import Branch, Effect


def branch_kind(instruction: Instruction, machine: Machine) -> Branch:
    """How an instruction directs control."""
    if machine.is_x86:
        return x86.branch_kind(instruction)
    return arm.branch_kind(instruction) if machine.is_arm else riscv.branch_kind(instruction)


def effects(code: Iterable[Instruction], machine: Machine) -> Iterator[Effect]:
    """What the instructions of a function do, by ascending address."""
    if machine.is_x86 or machine.is_arm:
        yield from map(x86.effect if machine.is_x86 else arm.effect, code)
        return
    elements = 1
    for instruction in code:
        elements = riscv.vector_length(instruction, elements)
        yield riscv.effect(instruction, elements)


def stack_registers(machine: Machine) -> frozenset[str]:
    """The names of the stack pointer."""
    if machine.is_x86:
        return x86.STACK
    return arm.STACK if machine.is_arm else riscv.STACK
