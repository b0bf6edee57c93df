"""The instruction mix of a loop, and which accesses go to the function's own stack frame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice

from cannery.analysis.disassembly import Instruction, Machine
from cannery.analysis.instructions import effects, stack_registers
from cannery.analysis.kinds import Effect, Kind
from cannery.analysis.loops import BasicBlock, predecessors


@dataclass(frozen=True)
class Mix:
    """Instructions of one pass through a piece of code, by purpose.

    Every instruction is in exactly one of `multiplies` (including FMAs), `adds` (including
    subtractions, minima and maxima), `shuffles` (broadcasts of registers), `moves` (copies between
    vector registers), `branches`, `other` and pure loads and stores. `loads` and `stores` count
    registers instead: two for a pair, one for an operand in memory, halves rounded up. `spills` are
    those in the stack frame, `vector_spills` those of them that move vectors. `lanes` is the number
    of elements that the multiplies compute.
    """

    instructions: int = 0
    multiplies: int = 0
    adds: int = 0
    loads: int = 0
    stores: int = 0
    shuffles: int = 0
    moves: int = 0
    branches: int = 0
    other: int = 0
    spills: int = 0
    vector_spills: int = 0
    lanes: int = 0

    def per_multiply(self, count: int) -> float | None:
        """`count` per multiply-accumulate of a vector; None if nothing is multiplied."""
        return count / self.multiplies if self.multiplies else None


#: Kinds that are counted by instructions; loads and stores are counted by registers.
_COUNTED = (Kind.MULTIPLY, Kind.ADD, Kind.SHUFFLE, Kind.MOVE, Kind.BRANCH, Kind.OTHER)


def count_mix(effects: Iterable[tuple[Effect, bool]]) -> Mix:
    """The mix of instructions, each with whether its address is in the stack frame."""
    return _weighted((one, framed, 1) for one, framed in effects)


def executed_mix(blocks: Sequence[BasicBlock], machine: Machine, runs: Mapping[int, int]) -> Mix:
    """The mix of the instructions of a function that ran: `runs` by their addresses."""
    framed = framed_effects(blocks, machine)
    return _weighted(
        (one, in_frame, runs.get(instruction.address, 0))
        for block, effects in zip(blocks, framed, strict=True)
        for instruction, (one, in_frame) in zip(block.instructions, effects, strict=True)
    )


def sum_mixes(mixes: Iterable[Mix]) -> Mix:
    """The sum of several mixes."""
    found = list(mixes)
    names = Mix.__dataclass_fields__
    return Mix(**{name: sum(getattr(mix, name) for mix in found) for name in names})


def _weighted(effects: Iterable[tuple[Effect, bool, int]]) -> Mix:
    """The mix of instructions: what each does, whether in the stack frame, how often it runs."""
    counts = dict.fromkeys(Mix.__dataclass_fields__, 0.0)
    for one, framed, times in effects:
        counts["instructions"] += times
        if one.kind in _COUNTED:
            counts[one.kind.value] += times
        counts["loads"] += times * one.loads
        counts["stores"] += times * one.stores
        spilled = times * (one.loads + one.stores) if framed else 0
        counts["spills"] += spilled
        counts["vector_spills"] += spilled if one.on_vectors else 0
        counts["lanes"] += times * one.lanes if one.kind is Kind.MULTIPLY else 0
    return Mix(**{name: math.ceil(count) for name, count in counts.items()})


def framed_effects(
    blocks: Sequence[BasicBlock], machine: Machine
) -> list[list[tuple[Effect, bool]]]:
    """The effects of every block, each with whether it accesses the function's stack frame.

    A register holds a frame address if on every path to it the last write was a copy of the stack
    pointer, perhaps plus a constant. Pushing and popping (which moves the address register) does
    not count.
    """
    stack = stack_registers(machine)
    does = effects((i for block in blocks for i in block.instructions), machine)
    by_block = [list(islice(does, len(block.instructions))) for block in blocks]
    known = _frame_registers(blocks, by_block, stack)
    found = []
    for number, block in enumerate(by_block):
        frame = set(known[number])
        rows = []
        for one in block:
            framed = one.base in frame | stack and one.base not in one.writes
            rows.append((one, framed and bool(one.loads or one.stores)))
            _follow(frame, one, stack)
        found.append(rows)
    return found


def _follow(frame: set[str], one: Effect, stack: frozenset[str]) -> None:
    """What an instruction does to the set of registers with frame addresses."""
    made = one.copies in frame | stack and one.copies not in one.writes
    frame.difference_update(one.writes)
    if made:
        frame.update(one.writes[:1])
    frame.difference_update(stack)


def _frame_registers(
    blocks: Sequence[BasicBlock], effects: Sequence[Sequence[Effect]], stack: frozenset[str]
) -> list[frozenset[str]]:
    """The registers with frame addresses at the start of each block, by iteration from the full
    set.
    """
    before = predecessors(blocks)
    everything = frozenset(r for block in effects for one in block for r in one.writes)
    starts = [everything if before[k] and k else frozenset() for k in range(len(blocks))]
    ends = [everything] * len(blocks)
    changed = True
    while changed:
        changed = False
        for k, block in enumerate(effects):
            if before[k] and k:
                starts[k] = reduce(frozenset.intersection, (ends[p] for p in before[k]))
            frame = set(starts[k])
            for one in block:
                _follow(frame, one, stack)
            changed |= ends[k] != frame
            ends[k] = frozenset(frame)
    return starts


@dataclass(frozen=True)
class Piece:
    """A loop without its inner loops, or (depth 0) the part of a function outside all loops."""

    function: str
    depth: int
    innermost: bool
    instructions: tuple[Instruction, ...]
    mix: Mix
