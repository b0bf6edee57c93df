"""RISC-V instructions with the extensions F, D and V; the destination comes first."""

from __future__ import annotations

import re

from cannery.analysis.disassembly import Instruction
from cannery.analysis.kinds import Branch, Effect, Kind

#: Registers that hold the stack pointer.
STACK = frozenset({"sp"})

_MAYBE = re.compile(r"b(eq|ne|lt|ge|gt|le)u?z?")
_AWAY = re.compile(r"jr|ret|tail|unimp|ebreak")

_VECTOR = re.compile(r"v\d+|f[ast]\d+")
_PLACE = re.compile(r"-?\w*\((\w+)\)")
_KINDS = (
    (Kind.MULTIPLY, re.compile(
        r"vf?w?n?m(acc|add|sub|sac)(u|su|us)?\.\w+|v[fs]?w?mulh?(u|su)?\.\w+|fn?m(add|sub)\.\w|fmul\.\w")),
    (Kind.ADD, re.compile(
        r"vf?[wsa]?r?(add|sub|min|max)u?\.\w+|vf?w?red[uo]?(sum|min|max)u?\.vs|f(add|sub|min|max)\.\w")),
    (Kind.SHUFFLE, re.compile(
        r"vf?slide1?(up|down)\.\w+|vrgather(ei16)?\.\w+|vcompress\.vm|vf?mv\.v\.[fx]")),
    (Kind.MOVE, re.compile(r"vmv\d+r\.v|vmv\.v\.v|fmv\.[hsd]")),
)  # fmt: skip
_LOAD = re.compile(r"l[bhwd]u?|fl[hwd]|vl(?:(\d)re?\d*|m|[su]?[ox]?(?:seg(\d))?ei?\d+(?:ff)?)\.v")
_STORE = re.compile(r"s[bhwd]|fs[hwd]|vs(?:(\d)r|m|[su]?[ox]?(?:seg(\d))?ei?\d+)\.v")


def branch_kind(instruction: Instruction) -> Branch:
    """How the instruction directs control."""
    name = instruction.mnemonic
    if name in ("jal", "jalr", "call"):
        return Branch.CALL
    if _AWAY.fullmatch(name):
        return Branch.AWAY
    if name == "j":
        return Branch.ALWAYS
    return Branch.MAYBE if _MAYBE.fullmatch(name) else Branch.NONE


def vector_length(instruction: Instruction, before: int) -> int:
    """How many elements vector instructions compute from here on; `before` is the number up to
    here.

    One if a register says how many.
    """
    name, operands = instruction.mnemonic, instruction.operands
    if name == "vsetivli":
        return int(operands[1], 0)
    if name in ("vsetvli", "vsetvl"):
        return before if operands[:2] == ("zero", "zero") else 1
    return before


def effect(instruction: Instruction, elements: int) -> Effect:
    """What the instruction does, if vectors have this many elements."""
    name, operands = instruction.mnemonic, instruction.operands
    if branch_kind(instruction) is not Branch.NONE:
        return Effect(Kind.BRANCH)
    on_vectors = any(_VECTOR.fullmatch(o) for o in operands)
    place = next((found for o in operands if (found := _PLACE.fullmatch(o))), None)
    if place and (load := _LOAD.fullmatch(name)):
        return Effect(Kind.LOAD, _moved(load), 0, place[1], on_vectors, writes=operands[:1])
    if place and (store := _STORE.fullmatch(name)):
        return Effect(Kind.STORE, 0, _moved(store), place[1], on_vectors)
    kinds = (kind for kind, pattern in _KINDS if pattern.fullmatch(name))
    return Effect(
        next(kinds, Kind.OTHER), on_vectors=on_vectors,
        lanes=elements if name.startswith("v") else 1, writes=operands[:1],
        copies=_address_of(name, operands),
    )  # fmt: skip


def _moved(found: re.Match[str]) -> int:
    """Registers of `vl4re32.v` and `vlseg4e32.v`; one for most others."""
    return int(found[1] or found[2] or 1)


def _address_of(name: str, operands: tuple[str, ...]) -> str:
    """The register of `mv s0, sp`, `addi a0, sp, 16` and `add a0, sp, a0`; "" for anything else."""
    if name == "mv" and len(operands) == 2:
        return operands[1]
    if name not in ("add", "addi") or len(operands) != 3:
        return ""
    constant = re.fullmatch(r"-?\d\w*", operands[2])
    return operands[1] if constant or operands[1] in STACK else ""
