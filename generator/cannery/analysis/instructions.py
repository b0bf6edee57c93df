"""Instructions of every processor by one interface."""

from __future__ import annotations

from cannery.analysis import arm, x86
from cannery.analysis.disassembly import Instruction, Machine
from cannery.analysis.kinds import Branch, Effect


def branch_kind(instruction: Instruction, machine: Machine) -> Branch:
    """How an instruction directs control."""
    return x86.branch_kind(instruction) if machine.is_x86 else arm.branch_kind(instruction)


def effect(instruction: Instruction, machine: Machine) -> Effect:
    """What an instruction does."""
    return x86.effect(instruction) if machine.is_x86 else arm.effect(instruction)


def stack_registers(machine: Machine) -> frozenset[str]:
    """The names of the stack pointer."""
    return x86.STACK if machine.is_x86 else arm.STACK
