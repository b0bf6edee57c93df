"""How deep a function's stack gets: from a program's machine code, over all paths.

The stack pointer is followed from instruction to instruction; a function that is called begins
where it stands at the call. That is exact to the byte, also for calls at a function's end, which
reuse its frame, and for functions of libraries. Arm and RISC-V; x86 aligns frames at run time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cannery.analysis.arm import listed_registers
from cannery.analysis.disassembly import Function, Instruction, Machine
from cannery.analysis.instructions import branch_kind, stack_registers
from cannery.analysis.kinds import Branch
from cannery.analysis.loops import BasicBlock, split_blocks

_SAVE = re.compile(r"v?push|v?stm(db|fd)")
_RESTORE = re.compile(r"(v?pop|v?ldm(ia|fd)?)([a-z]{2})?")
_BEFORE = re.compile(r"\[sp, #(-?\d+)\]!")
_NUMBER = re.compile(r"#?(-?)(0x[0-9a-f]+|\d+)")


@dataclass(frozen=True)
class Call:
    """A call: how deep the stack is there, and the address; None if a register holds it."""

    depth: int
    target: int | None


@dataclass(frozen=True)
class Frame:
    """What one function does with the stack: the most bytes that it takes itself, and its calls.

    The lowest `padding` of these no instruction names. Not `exact`: the stack pointer could not be
    followed, and `bytes` are what the compiler says, or 0 if it says nothing.
    """

    bytes: int
    calls: tuple[Call, ...]
    padding: int = 0
    exact: bool = True


@dataclass(frozen=True)
class Depth:
    """The deepest stack below a caller, and the functions on the way there, the called one first.

    The lowest `padding` bytes nothing writes: they only keep the stack aligned.
    """

    bytes: int
    path: tuple[str, ...]
    padding: int = 0


@dataclass(frozen=True)
class StackUse:
    """The functions of a program by ascending address, and how much stack they take.

    `told` are bytes by function as a compiler says (-fstack-usage), for code that is not
    understood.
    """

    machine: Machine
    functions: Sequence[Function]
    told: Mapping[str, int] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the program has a function of this name."""
        return name in self._numbers

    def is_own(self, name: str) -> bool:
        """Whether the compiler said something of a function: it is not of a library."""
        return name in self.told or name.split(".")[0] in self._told_stems

    def frame(self, name: str) -> Frame:
        """What a function does itself."""
        return self._frame(self._numbers[name])

    def depth(self, name: str) -> Depth:
        """The deepest stack that a call of a function may reach; recursion counts once."""
        return self._depth(self._numbers[name], frozenset())

    def reached(self, names: Sequence[str]) -> tuple[str, ...]:
        """These functions and everything that they may call, by address."""
        seen: set[int] = set()
        waiting = [self._numbers[name] for name in names]
        while waiting:
            if (number := waiting.pop()) not in seen:
                seen.add(number)
                waiting += self._called(number)
        return tuple(self.functions[k].name for k in sorted(seen))

    def recursive(self, names: Sequence[str]) -> tuple[str, ...]:
        """The functions among all that these may call which may call themselves."""
        return tuple(
            name for name in self.reached(names)
            if name in self.reached([self.functions[k].name for k in self._called_from(name)])
        )  # fmt: skip

    def indirect(self, names: Sequence[str]) -> tuple[str, ...]:
        """The functions among all that these may call which call what a register holds."""
        found = ((name, self.frame(name).calls) for name in self.reached(names))
        return tuple(name for name, calls in found if any(c.target is None for c in calls))

    def inexact(self, names: Sequence[str]) -> tuple[str, ...]:
        """The functions among all that these may call whose stack pointer is not followed."""
        return tuple(name for name in self.reached(names) if not self.frame(name).exact)

    def _called_from(self, name: str) -> list[int]:
        return self._called(self._numbers[name])

    def _called(self, number: int) -> list[int]:
        places = (self._place(call) for call in self._frame(number).calls)
        return [place for place in places if place is not None]

    def _place(self, call: Call) -> int | None:
        """The function that a call reaches, perhaps in its middle."""
        if call.target is None:
            return None
        found = bisect_right(self._starts, call.target) - 1
        return found if found >= 0 else None

    def _frame(self, number: int) -> Frame:
        if number not in self._frames:
            function = self.functions[number]
            after = self.functions[number + 1 : number + 2]
            follows = after[0].instructions[0].address if after else None
            told = self.told.get(function.name, 0)
            self._frames[number] = frame_of(function, self.machine, follows, told)
        return self._frames[number]

    def _depth(self, number: int, above: frozenset[int]) -> Depth:
        if number in self._depths:
            return self._depths[number]
        frame, name = self._frame(number), self.functions[number].name
        deepest = Depth(frame.bytes, (name,), frame.padding)
        for call in frame.calls:
            place = self._place(call)
            if place is None or place == number or place in above:
                continue
            below = self._depth(place, above | {number})
            if call.depth + below.bytes > deepest.bytes:
                path = (name, *below.path)
                deepest = Depth(call.depth + below.bytes, path, below.padding)
        self._depths[number] = deepest
        return deepest

    @cached_property
    def _told_stems(self) -> frozenset[str]:
        return frozenset(name.split(".")[0] for name in self.told)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {function.name: k for k, function in enumerate(self.functions)}

    @cached_property
    def _starts(self) -> list[int]:
        return [function.instructions[0].address for function in self.functions]

    @cached_property
    def _frames(self) -> dict[int, Frame]:
        return {}

    @cached_property
    def _depths(self) -> dict[int, Depth]:
        return {}


class _LostError(Exception):
    """The stack pointer cannot be followed."""


def frame_of(
    function: Function, machine: Machine, follows: int | None = None, told: int = 0
) -> Frame:
    """The frame of a function; `told` is what the compiler says, if its code is not understood.

    `follows` is the address after it, where code without a branch at its end goes on.
    """
    blocks = split_blocks(function, machine)
    try:
        return _followed(function, machine, blocks, follows)
    except _LostError:
        calls = [
            call for number, block in enumerate(blocks)
            for call in _calls(function, machine, blocks, number, [told] * len(block.instructions),
                               follows)
        ]  # fmt: skip
        return Frame(told, tuple(dict.fromkeys(calls)), exact=False)


def _followed(
    function: Function, machine: Machine, blocks: Sequence[BasicBlock], follows: int | None
) -> Frame:
    entry: dict[int, int] = {0: 0}
    waiting, calls, deepest, named = [0], list[Call](), 0, 0
    while waiting:
        number = waiting.pop()
        depths = list(_depths(blocks[number], machine, entry[number]))
        for instruction, depth in zip(blocks[number].instructions, depths, strict=True):
            named = max(named, depth - _lowest(instruction, machine))
            deepest = max(deepest, depth)
        calls += _calls(function, machine, blocks, number, depths, follows)
        for successor in blocks[number].successors:
            if successor not in entry:
                entry[successor] = depths[-1]
                waiting.append(successor)
            elif entry[successor] != depths[-1]:
                raise _LostError
        if not waiting:
            # What only a table of jumps reaches is as deep as the function gets.
            hidden = [k for k in range(len(blocks)) if k not in entry]
            if hidden and _has_table(function):
                entry[hidden[0]] = deepest
                waiting.append(hidden[0])
    return Frame(deepest, tuple(dict.fromkeys(calls)), deepest - named)


def _has_table(function: Function) -> bool:
    return any(i.mnemonic in ("tbb", "tbh") for i in function.instructions)


def _depths(block: BasicBlock, machine: Machine, depth: int) -> Iterator[int]:
    """How deep the stack is after each instruction of a block."""
    for instruction in block.instructions:
        change = stack_change(instruction, machine)
        if change is None:
            raise _LostError
        depth += change
        yield depth


#: Above every place on the stack.
_NOWHERE = 1 << 62

#: How an operand names a place on the stack: `[sp, #8]`, `8(sp)`; `[sp, #-8]!` is where it is then.
_PLACE = re.compile(r"\[sp(?:, #(?P<arm>\d+))?[\],].*|\[sp, #-\d+\]!|(?P<riscv>\d+)\(sp\)")


def _lowest(instruction: Instruction, machine: Machine) -> int:
    """The lowest byte that an instruction names, from the stack pointer after it upwards.

    _NOWHERE if the instruction has no place on the stack.
    """
    change = stack_change(instruction, machine) or 0
    if re.match(r"v?push|v?stm", instruction.mnemonic) and change > 0:
        return 0
    stack = stack_registers(machine)
    found = list[int]()
    for operand in instruction.operands:
        if place := _PLACE.fullmatch(operand):
            found.append(int(place["arm"] or place["riscv"] or "0"))
    if not change and stack.intersection(instruction.operands[1:]):
        amount = _NUMBER.fullmatch(instruction.operands[-1])
        found.append(int(amount[1] + amount[2], 0) if amount else 0)
    return min(found, default=_NOWHERE)


def _calls(
    function: Function, machine: Machine, blocks: Sequence[BasicBlock], number: int,
    depths: Sequence[int], follows: int | None,
) -> Iterator[Call]:  # fmt: skip
    """The calls of a block, and jumps to other functions; `depths` are those of `_depths`."""
    own = range(function.instructions[0].address, function.instructions[-1].address + 1)
    kind = Branch.NONE
    for instruction, depth in zip(blocks[number].instructions, depths, strict=True):
        kind = branch_kind(instruction, machine)
        if kind is Branch.CALL and instruction.target in own[1:]:
            # A call into the function itself, but not to its beginning, is Thumb-1's long jump.
            kind = Branch.ALWAYS
        leaves = kind in (Branch.ALWAYS, Branch.MAYBE) and instruction.target not in own
        if leaves or kind is Branch.CALL:
            yield Call(depth, instruction.target)
        elif kind is Branch.AWAY and _through_register(instruction, machine):
            yield Call(depth, None)
    falls = number == len(blocks) - 1 and kind not in (Branch.ALWAYS, Branch.AWAY)
    if falls and follows is not None:
        yield Call(depths[-1], follows)


def _through_register(instruction: Instruction, machine: Machine) -> bool:
    """Whether a jump goes where a register says, and is neither a return nor a table's."""
    name, operands = instruction.mnemonic, instruction.operands
    if machine.is_arm:
        return name in ("bx", "br") and operands != ("lr",)
    return name == "jr" and operands not in (("ra",), ("t0",))


def stack_change(instruction: Instruction, machine: Machine) -> int | None:
    """By how many bytes an instruction deepens the stack; None if that is not known."""
    if machine.is_arm:
        change = _arm_change(instruction)
        if change is not None:
            return change
    return _added(instruction, machine)


def _arm_change(instruction: Instruction) -> int | None:
    """The change by saving and restoring registers; None if the instruction does neither."""
    stem = instruction.mnemonic.split(".")[0]
    operands = instruction.operands
    listed = next((o for o in operands if o.startswith("{")), "")
    if listed and (operands[0] == "sp!" or stem.lstrip("v") in ("push",) or "pop" in stem):
        size = sum(8 if r.startswith("d") else 4 for r in listed_registers(listed))
        if _SAVE.fullmatch(stem):
            return size
        found = _RESTORE.fullmatch(stem)
        # A return under a condition: where the code goes on, nothing was restored.
        return (0 if found[3] and "pc" in listed else -size) if found else None
    for k, operand in enumerate(operands):
        if found := _BEFORE.fullmatch(operand):
            return -int(found[1])
        if operand == "[sp]" and k + 1 < len(operands):
            moved = _NUMBER.fullmatch(operands[k + 1])
            return -int(moved[1] + moved[2], 0) if moved else None
    return None


def _added(instruction: Instruction, machine: Machine) -> int | None:
    """The change by adding a constant; 0 for an instruction that does not write the register."""
    operands = instruction.operands
    stack = stack_registers(machine)
    if not operands or operands[0] not in stack:
        return 0
    name = instruction.mnemonic.split(".")[0]
    if re.match(r"cmp|cmn|tst", name):
        return 0
    amount = _NUMBER.fullmatch(operands[-1])
    shifted = len(operands) == 4 and re.fullmatch(r"lsl #(\d+)", operands[3])
    if shifted:
        amount = _NUMBER.fullmatch(operands[2])
    if amount is None or name not in _SIGNS or (len(operands) > 2 and operands[1] not in stack):
        return None
    size = int(amount[1] + amount[2], 0) << (int(shifted[1]) if shifted else 0)
    return -_SIGNS[name] * size


#: Instructions that add a constant to a register or subtract it.
_SIGNS = {"add": 1, "addw": 1, "addi": 1, "sub": -1, "subw": -1}
