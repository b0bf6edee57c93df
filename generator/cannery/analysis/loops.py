"""Loops of a disassembled function: basic blocks, dominators, natural loops.

The algorithms are those of Aho, Lam, Sethi, Ullman, Compilers, 2nd edition, 9.6; sets of blocks are
the bits of an int.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cannery.analysis.disassembly import Function, Instruction, Machine
from cannery.analysis.instructions import branch_kind
from cannery.analysis.kinds import Branch


@dataclass(frozen=True)
class BasicBlock:
    """Instructions that run one after the other; `successors` are the numbers of the blocks that
    may follow.
    """

    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]


@dataclass(frozen=True)
class Region:
    """The blocks of a loop outside its inner loops; depth 0 is the code outside all loops."""

    depth: int
    blocks: tuple[int, ...]
    innermost: bool


def split_blocks(function: Function, machine: Machine) -> list[BasicBlock]:
    """The basic blocks of a function, by ascending address."""
    code = function.instructions
    starts = {i.address: k for k, i in enumerate(code)}
    # A call into the function itself, but not to its beginning, is Thumb-1's long jump.
    inside = {i.address for i in code[1:]}
    kinds = [
        Branch.ALWAYS if kind is Branch.CALL and i.target in inside else kind
        for i, kind in ((i, branch_kind(i, machine)) for i in code)
    ]
    leaders = {0}
    for k, (instruction, kind) in enumerate(zip(code, kinds, strict=True)):
        if kind in (Branch.NONE, Branch.CALL):
            continue
        leaders.add(k + 1)
        # A relocation appears as a jump to the branch itself or into its middle: not a place in
        # here.
        if instruction.target in starts and instruction.target != instruction.address:
            leaders.add(starts[instruction.target])
    firsts = sorted(leader for leader in leaders if leader < len(code))
    numbers = {first: number for number, first in enumerate(firsts)}
    blocks = []
    for first, end in zip(firsts, [*firsts[1:], len(code)], strict=True):
        last, kind = code[end - 1], kinds[end - 1]
        follow = []
        if kind not in (Branch.ALWAYS, Branch.AWAY) and end < len(code):
            follow.append(numbers[end])
        if kind in (Branch.ALWAYS, Branch.MAYBE) and last.target in starts:
            target = numbers.get(starts[last.target])
            follow += [target] if target is not None and last.target != last.address else []
        blocks.append(BasicBlock(code[first:end], tuple(follow)))
    return blocks


def without_padding(blocks: Sequence[BasicBlock]) -> list[BasicBlock]:
    """The same blocks without those that only align what follows, to which nothing leads.

    They would count as further entries into the loops after them.
    """
    before = predecessors(blocks)
    kept = [
        k for k, block in enumerate(blocks)
        if k == 0 or before[k] or any(not i.mnemonic.startswith("nop") for i in block.instructions)
    ]  # fmt: skip
    numbers = {old: new for new, old in enumerate(kept)}
    return [
        BasicBlock(blocks[k].instructions, tuple(numbers[s] for s in blocks[k].successors))
        for k in kept
    ]


def predecessors(blocks: Sequence[BasicBlock]) -> list[list[int]]:
    """The blocks before each block."""
    found: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for successor in block.successors:
            found[successor].append(number)
    return found


def _dominators(blocks: Sequence[BasicBlock], before: Sequence[Sequence[int]]) -> list[int]:
    """The blocks without which each block is not reached; blocks without predecessors are entries.

    Blocks reached through jump tables are such entries.
    """
    everything = (1 << len(blocks)) - 1
    found = [everything if before[k] and k else 1 << k for k in range(len(blocks))]
    changed = True
    while changed:
        changed = False
        for k in range(1, len(blocks)):
            if not before[k]:
                continue
            common = everything
            for other in before[k]:
                common &= found[other]
            changed |= found[k] != common | 1 << k
            found[k] = common | 1 << k
    return found


def natural_loops(blocks: Sequence[BasicBlock]) -> dict[int, set[int]]:
    """The blocks of each loop, by its header."""
    before = predecessors(blocks)
    loops: dict[int, set[int]] = {}
    for number, header in back_edges(blocks):
        body = loops.setdefault(header, {header})
        waiting = [number]
        while waiting:
            if (one := waiting.pop()) not in body:
                body.add(one)
                waiting.extend(before[one])
    return loops


def back_edges(blocks: Sequence[BasicBlock]) -> Iterator[tuple[int, int]]:
    """The edges (from, to) by which loops return to their headers."""
    dominators = _dominators(blocks, predecessors(blocks))
    for number, block in enumerate(blocks):
        for header in block.successors:
            if dominators[number] >> header & 1:
                yield number, header


def find_regions(blocks: Sequence[BasicBlock]) -> Iterator[Region]:
    """The code outside all loops, then every loop without its inner loops."""
    loops = natural_loops(blocks)
    inside = set().union(*loops.values())
    yield Region(0, tuple(k for k in range(len(blocks)) if k not in inside), not loops)
    for header, body in sorted(loops.items()):
        inner = [other for at, other in loops.items() if at != header and at in body]
        depth = sum(header in other for other in loops.values())
        own = body.difference(*inner)
        yield Region(depth, tuple(sorted(own)), not inner)
