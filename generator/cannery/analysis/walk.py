"""How often each block of machine code runs: its integer instructions are followed to the end.

Loops of kernels end by counters and addresses, which depend on nothing that is computed. A loop
whose passes change registers and comparisons by the same amounts is not followed pass by pass: all
passes after which every branch still goes the same way are counted at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cannery.analysis import integers_arm, integers_x86
from cannery.analysis.disassembly import Function, Instruction, Machine
from cannery.analysis.instructions import branch_kind
from cannery.analysis.integers import STACK, Action, Comparison, Condition, State
from cannery.analysis.kinds import Branch
from cannery.analysis.loops import Block, back_edges, split_blocks

#: Blocks that are followed before a function is given up, and functions within functions.
MOST_BLOCKS = 200_000
MOST_CALLS = 20

#: Where the buffers of an argument array lie, and how far apart.
BUFFERS, BUFFER_BYTES = 0x1000_0000, 0x100_0000
#: Where that array lies: above the stack, so that it is remembered.
ARGUMENTS = STACK + 0x100
MOST_ARGUMENTS = 64

#: A block of a function: the function's address and the block's number.
Place = tuple[int, int]


@dataclass(frozen=True)
class _Code:
    """A function prepared: its blocks, what each does, how it ends, and the edges of its loops."""

    function: Function
    blocks: tuple[Block, ...]
    steps: tuple[tuple[Action | Instruction, ...], ...]
    ends: tuple[tuple[Branch, Condition | None], ...]
    by_address: Mapping[int, int]
    back: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class _Pass:
    """What was there when a loop came round: registers, counts, and the length of the trace."""

    values: Mapping[str | int, int]
    counts: Mapping[Place, int]
    traced: int


#: A branch that was decided (where, how), and by what numbers; None: by nothing that is known.
_Decision = tuple[Place, Condition | None, bool, Comparison | None]


@dataclass
class Walker:
    """Follows functions of a program.

    `functions` by address are all that may be called; `constants` reads the program's file.
    """

    machine: Machine
    functions: Mapping[int, Function]
    constants: Callable[[int, int], int | None]
    prepared: dict[int, _Code] = field(default_factory=dict)

    @property
    def bits(self) -> int:
        return 32 if self.machine in (Machine.I386, Machine.ARM) else 64

    def code(self, start: int) -> _Code:
        """A function, prepared once."""
        if start not in self.prepared:
            self.prepared[start] = _prepare(self.functions[start], self.machine, self.bits)
        return self.prepared[start]

    def counts(self, start: int) -> dict[Place, int] | None:
        """How often each block runs when the function at `start` is called once.

        Its argument is an array of pointers to buffers. None where that cannot be seen.
        """
        state = State(self.bits, self.constants)
        _arguments(state, self.machine)
        walk = _Walk(self, state)
        return dict(walk.counts) if walk.function(start, 0) else None


def _arguments(state: State, machine: Machine) -> None:
    """One argument: the address of an array of addresses."""
    word = state.bits // 8
    for k in range(MOST_ARGUMENTS):
        state.values[ARGUMENTS + k * word] = BUFFERS + k * BUFFER_BYTES
    stack = "rsp" if machine.is_x86 else "sp"
    state.values[stack] = STACK
    if machine is Machine.I386:
        state.values[STACK + word] = ARGUMENTS
    else:
        first = {Machine.X86_64: "rdi", Machine.ARM: "r0", Machine.AARCH64: "x0"}[machine]
        state.values[first] = ARGUMENTS


def _prepare(function: Function, machine: Machine, bits: int) -> _Code:
    blocks = split_blocks(function, machine)
    follow = [i.address for i in function.instructions[1:]] + [0]
    after = {i.address: a for i, a in zip(function.instructions, follow, strict=True)}
    make = integers_x86.action if machine.is_x86 else integers_arm.action
    test = integers_x86.condition if machine.is_x86 else integers_arm.condition
    steps, ends = [], []
    for block in blocks:
        actions: list[Action | Instruction] = []
        for instruction in block.instructions:
            kind = branch_kind(instruction, machine)
            compares = instruction.mnemonic.startswith(("cb", "tb")) and not machine.is_x86
            if kind is Branch.CALL:
                actions.append(instruction)
            elif kind is Branch.NONE or compares or _returns_by_pop(instruction):
                act = make(instruction, after[instruction.address], bits)
                actions += [act] if act else []
        last = block.instructions[-1]
        kind = branch_kind(last, machine)
        steps.append(tuple(actions))
        ends.append((kind, test(last) if kind is Branch.MAYBE else None))
    by_address = {b.instructions[0].address: k for k, b in enumerate(blocks)}
    return _Code(
        function, tuple(blocks), tuple(steps), tuple(ends), by_address,
        frozenset(back_edges(blocks)),
    )  # fmt: skip


def _returns_by_pop(instruction: Instruction) -> bool:
    return instruction.mnemonic.startswith(("pop", "ldmia")) and "pc" in instruction.operands[-1]


@dataclass
class _Walk:
    """One call, as it goes on."""

    walker: Walker
    state: State
    counts: Counter[Place] = field(default_factory=Counter)
    trace: list[_Decision] = field(default_factory=list)
    followed: int = 0

    def function(self, start: int, depth: int) -> bool:
        """Follow a function until it returns; False where that fails."""
        if depth > MOST_CALLS:
            return False
        code = self.walker.code(start)
        passes: dict[int, list[_Pass]] = {}
        number = 0
        while True:
            self.followed += 1
            if self.followed > MOST_BLOCKS:
                return False
            self.counts[start, number] += 1
            for step in code.steps[number]:
                if callable(step):
                    step(self.state)
                elif not self.call(step, code, depth):
                    return False
            kind, condition = code.ends[number]
            if kind is Branch.AWAY:
                return self.leave(code.blocks[number].instructions[-1])
            following = self.following(code, number, kind, condition)
            if following is None:
                target = code.blocks[number].instructions[-1].target
                # A jump to another function takes the place of a call.
                known = kind is Branch.ALWAYS and target in self.walker.functions
                return known and target is not None and self.function(target, depth + 1)
            if (number, following) in code.back:
                self.again(passes.setdefault(following, []))
            else:
                passes.pop(following, None)
            number = following

    def following(
        self, code: _Code, number: int, kind: Branch, condition: Condition | None
    ) -> int | None:
        """The block that comes next; of an unknown condition, the one behind."""
        successors = code.blocks[number].successors
        if kind is not Branch.MAYBE:
            return successors[0] if successors else None
        compared = self.state.comparison(condition) if condition else None
        taken = bool(condition and self.state.holds(condition))
        self.trace.append(((code.function.instructions[0].address, number), condition, taken,
                           compared))  # fmt: skip
        if taken:
            return successors[1] if len(successors) > 1 else None
        return successors[0]

    def call(self, instruction: Instruction, code: _Code, depth: int) -> bool:
        """Follow a call to a function that is known; others return at once."""
        target = instruction.target
        x86 = self.walker.machine.is_x86
        if target not in self.walker.functions or target is None:
            return True
        if x86:
            top = self.state.values.get("rsp", STACK) - self.walker.bits // 8
            self.state.put("rsp", top)
            listed = code.function.instructions
            behind = next(i.address for i in listed if i.address > instruction.address)
            self.state.store(top, behind)
        return self.function(target, depth + 1)

    def leave(self, last: Instruction) -> bool:
        """Return; False for a jump whose target is not known."""
        if self.walker.machine.is_x86:
            if not last.mnemonic.startswith("ret"):
                return False
            self.state.put("rsp", self.state.values.get("rsp", STACK) + self.walker.bits // 8)
            return True
        return last.mnemonic.split(".")[0] in ("ret", "bx", "pop", "ldmia", "ldr")

    def again(self, passes: list[_Pass]) -> None:
        """A loop has come round: count the passes that will be like the last two."""
        passes.append(_Pass(dict(self.state.values), self.counts.copy(), len(self.trace)))
        if len(passes) < 3:
            return
        del passes[:-3]
        first, second, third = passes
        counted = third.counts - second.counts  # type: ignore[operator]
        if counted != second.counts - first.counts:  # type: ignore[operator]
            return
        like = self.passes_alike(first.traced, second.traced, third.traced)
        if like < 2:
            return
        for name, value in third.values.items():
            before, earlier = second.values.get(name), first.values.get(name)
            if before is None or earlier is None or value - before != before - earlier:
                continue
            mask = (1 << self.state.bits) - 1
            self.state.values[name] = (value + like * (value - before)) & mask
        for place, count in counted.items():
            self.counts[place] += like * count
        passes.clear()

    def passes_alike(self, first: int, second: int, third: int) -> int:
        """Passes during which all branches go as in the last one; 0 if that is not known."""
        earlier, later = self.trace[first:second], self.trace[second:third]
        if len(earlier) != len(later):
            return 0
        passes: float = float("inf")
        for before, now in zip(earlier, later, strict=True):
            if before[:3] != now[:3]:
                return 0
            if before[3] is not None and now[3] is not None and now[1] is not None:
                passes = min(passes, _until(now[1], before[3], now[3]))
        return 0 if passes == float("inf") else int(passes)


def _until(condition: Condition, before: Comparison, now: Comparison) -> float:
    """How many more times a test comes out the same if its numbers go on changing as they did."""
    found = min(
        _room(now.left, now.left - before.left, now),
        _room(now.right, now.right - before.right, now),
    )
    difference = now.left - now.right
    step = difference - (before.left - before.right)
    if not step:
        return found
    holds = condition[0].holds(difference)
    # The difference is zero, or changes its sign, at this pass; a test changes there or next.
    near = -difference // step
    for passes in range(max(near - 1, 1), near + 3):
        if condition[0].holds(difference + passes * step) != holds:
            return min(found, passes - 1)
    return found


def _room(value: int, step: int, bounds: Comparison) -> float:
    """Steps until a number leaves what it can be, and begins again at the other end."""
    if not step:
        return float("inf")
    return (bounds.most - value) // step if step > 0 else (value - bounds.least) // -step
