"""The most cycles that instructions take on Arm's small cores, by Arm's tables of timing.

The sources, of memory without wait states:

- Cortex-M0+ Technical Reference Manual, r0p1 (DDI 0484), table 3-1.
- Cortex-M3 Technical Reference Manual, r2p1 (DDI 0337), table 3-1.
- Cortex-M4 Technical Reference Manual, r0p1 (100166), tables 3-1 and 7-1.

Where a table gives a range, the largest counts: every branch is taken and refills the pipeline in 3
cycles, no load overlaps another, a sum of floats waits a cycle for its operands. Accesses are taken
as aligned. For the Cortex-M7 Arm publishes no table: its figure is that of the Cortex-M4 with the
branches of its longer pipeline, one instruction at a time, and no bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cannery.analysis.arm import listed_registers
from cannery.analysis.disassembly import Function, Instruction


@dataclass(frozen=True)
class Core:
    """How the tables of two cores differ.

    `refill`: cycles beyond the first of a branch that is taken, `call` those of one with a link,
    `to_pc` those of loading the program counter. `long_multiply` is for a product of 64 bits,
    `accumulate` for a product with a sum. `slow_multiply`: what a multiplier takes that the chip
    may have instead of the fast one. `table` is the source; empty if there is none.
    """

    name: str
    refill: int
    call: int
    to_pc: int
    long_multiply: int
    long_accumulate: int
    accumulate: int
    slow_multiply: int
    table: str


#: The cores by the names of their targets.
CORES: Mapping[str, Core] = {
    core.name: core
    for core in (
        Core("cortex-m0plus", 1, 2, 2, 1, 1, 1, 32, "DDI 0484, table 3-1"),
        Core("cortex-m3", 3, 3, 3, 5, 7, 2, 1, "DDI 0337, table 3-1"),
        Core("cortex-m4", 3, 3, 3, 1, 1, 1, 1, "100166, tables 3-1 and 7-1"),
        Core("cortex-m7", 8, 8, 8, 1, 1, 1, 1, ""),
    )
}

_CONDITION = "(?:eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)"
_FLAGS = rf"s?{_CONDITION}?"

_BRANCH = re.compile(rf"b{_CONDITION}?|bx{_CONDITION}?|cbn?z")
_CALL = re.compile(r"blx?")
_LIST = re.compile(rf"v?(?:push|pop|(?:ldm|stm)(?:ia|db|fd|ea)?){_CONDITION}?")
_ACCESS = re.compile(rf"(v?)(?:ldr|str)(?:s?[bh]|d)?{_CONDITION}?")
_DIVIDE = re.compile(rf"[su]div{_CONDITION}?")
_MULTIPLY = re.compile(rf"mul{_FLAGS}")
_ACCUMULATE = re.compile(rf"ml[as]{_CONDITION}?")
_LONG = re.compile(rf"[su]mull{_CONDITION}?")
_LONG_SUM = re.compile(rf"(?:[su]mlal|umaal){_CONDITION}?")
_SIMPLE = re.compile(
    rf"(?:ad[cdr]|addw|and|[al]s[lr]|bf[ci]|bic|clz|cm[np]|cpy|eor|mov|mov[tw]|mvn|neg|or[nr]|ror|rrx"
    rf"|rsb|sbc|subw?|teq|tst|nop|rbit|rev|rev16|revsh|sel|[su]sat|[su]sat16|[su]bfx"
    rf"|[su]xta?[bh]|[su]xta?b16|pkh(?:bt|tb)){_FLAGS}|it[te]*"
    rf"|(?:q|qd|[su]h?|[su]?q|sh|uh|uq)(?:add|sub)(?:8|16)?{_CONDITION}?"
    rf"|(?:[su]h?|[su]?q|uq)(?:asx|sax){_CONDITION}?"
    rf"|smul(?:[bt][bt]|w[bt])|smla(?:[bt][bt]|w[bt]|l[bt][bt])|smu[as]dx?|sml[as]l?dx?|smm(?:l[as]|ul)r?"
    rf"|usada?8"
)
_FLOAT_SUM = re.compile(rf"v(?:add|sub|n?mul){_CONDITION}?")
_FLOAT_FUSED = re.compile(rf"v(?:fn?m[as]|n?ml[as]){_CONDITION}?")
_FLOAT_LONG = re.compile(rf"v(?:div|sqrt){_CONDITION}?")
_FLOAT_SIMPLE = re.compile(
    rf"v(?:abs|neg|cmpe?|cvt[rmnpabt]?|mrs|msr|sel{_CONDITION}|(?:max|min)nm|rint[amnprxz])"
    rf"{_CONDITION}?"
)

#: Cycles of a division, and of a division or square root of floats.
_MOST_DIVIDE, _MOST_FLOAT_DIVIDE = 12, 14


@dataclass(frozen=True)
class CycleBound:
    """The most cycles of code that ran, `cycles + per_wait_state * w` with w wait states.

    A wait state delays each access to memory: that of every word of code, without prefetching or a
    cache, and of every word that is loaded or stored. `slow_multiplier` is what a multiplier of 32
    cycles adds, `per_float_cycle` each cycle of an FPU's latency. `unknown` instructions are in no
    table, and do not count; `source` is the table, empty if the figure is no bound.
    """

    core: str
    cycles: int
    per_wait_state: int
    slow_multiplier: int
    unknown: tuple[str, ...]
    source: str
    per_float_cycle: int = 0


def most_cycles(instruction: Instruction, core: Core) -> int | None:
    """The most cycles that one instruction takes, of memory without wait states; None: unknown."""
    stem = instruction.mnemonic.split(".")[0]
    to_pc = _names_pc(instruction)
    if stem in ("tbb", "tbh"):
        return 2 + core.refill
    if _CALL.fullmatch(stem):
        return 1 + core.call
    if _BRANCH.fullmatch(stem):
        return 1 + core.refill
    if (words := words_moved(instruction)) is not None:
        return 1 + words + (core.to_pc if to_pc else 0)
    if to_pc and _SIMPLE.fullmatch(stem):
        return 1 + core.refill
    rows: tuple[tuple[re.Pattern[str], int], ...] = (
        (_SIMPLE, 1), (_MULTIPLY, 1), (_ACCUMULATE, core.accumulate), (_LONG, core.long_multiply),
        (_LONG_SUM, core.long_accumulate), (_DIVIDE, _MOST_DIVIDE),
        (_FLOAT_SUM, 2), (_FLOAT_FUSED, 4), (_FLOAT_LONG, _MOST_FLOAT_DIVIDE), (_FLOAT_SIMPLE, 1),
    )  # fmt: skip
    if re.fullmatch(rf"vmov{_CONDITION}?", stem):
        return max(1, sum(o[0] == "r" for o in instruction.operands))
    return next((cycles for pattern, cycles in rows if pattern.fullmatch(stem)), None)


def _names_pc(instruction: Instruction) -> bool:
    """Whether an instruction writes the program counter."""
    operands = instruction.operands
    listed = operands[-1] if operands and operands[-1].startswith("{") else ""
    stem = instruction.mnemonic.split(".")[0]
    loads = not re.match(r"v?(push|st)|cmp|cmn|tst", stem)
    return loads and (operands[:1] == ("pc",) or "pc" in listed_registers(listed or "{}"))


def words_moved(instruction: Instruction) -> int | None:
    """Words that a load or store moves; None for another instruction."""
    stem, operands = instruction.mnemonic.split(".")[0], instruction.operands
    if _LIST.fullmatch(stem):
        listed = next((o for o in operands if o.startswith("{")), "{}")
        return sum(2 if r.startswith("d") else 1 for r in listed_registers(listed) if r)
    if found := _ACCESS.fullmatch(stem):
        double = operands[0].startswith("d") if found[1] else re.match(r"(ldr|str)d", stem)
        return 2 if double else 1
    return None


def bound_cycles(
    functions: Sequence[Function], most: Callable[[Mapping[int, int]], int], core: Core
) -> CycleBound:
    """The most cycles of code, if `most` says what it costs by costs of instructions."""
    cycles, accesses, multiplications = dict[int, int](), dict[int, int](), dict[int, int]()
    unknown: set[str] = set()
    for function in functions:
        code = function.instructions
        for instruction, following in zip(code, (*code[1:], None), strict=True):
            found, at = most_cycles(instruction, core), instruction.address
            if found is None:
                unknown.add(instruction.mnemonic)
            cycles[at] = found or 0
            accesses[at] = words_fetched(instruction, following) + (words_moved(instruction) or 0)
            multiplications[at] = bool(_MULTIPLY.fullmatch(instruction.mnemonic.split(".")[0]))
    slower = (core.slow_multiply - 1) * most(multiplications) if core.slow_multiply > 1 else 0
    return CycleBound(
        core.name, most(cycles), most(accesses), slower, tuple(sorted(unknown)), core.table
    )


def words_fetched(instruction: Instruction, following: Instruction | None) -> int:
    """Words of memory in which an instruction lies; of the last one, whose length is unknown, 2."""
    if following is None or following.address - instruction.address > 4:
        return 2
    return (following.address - 1) // 4 - instruction.address // 4 + 1
