"""The most cycles that instructions take on a small RISC-V core, by its published table of timing.

RV32IMC and RV32IMAFC name no core, and most makers publish no timing. OpenHW's CV32E40P, which has
both instruction sets, does: "CV32E40P User Manual", "Pipeline Details", cycle counts per
instruction type, of memory without wait states.

The largest figure of every range counts: every branch is taken, to an instruction of four bytes
that is not aligned (4 cycles; jumps 3), whatever follows a load or precedes a jump through a
register waits for it (1 more). Accesses are taken as aligned. Floats are those of an FPU without
latency; each cycle of latency (FPU_ADDMUL_LAT, FPU_OTHERS_LAT) adds one to each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cannery.analysis.cortex_m import CycleBound, words_fetched
from cannery.analysis.disassembly import Function, Instruction

#: The targets, and the core whose table counts.
TARGETS = frozenset({"riscv32imc", "riscv32imafc"})
CORE = "CV32E40P"
_TABLE = "the CV32E40P User Manual, Pipeline Details"

_LOAD = re.compile(r"l(?:[bh]u?|w)|flw")
_STORE = re.compile(r"s[bhw]|fsw")
_SHORT_FLOAT = re.compile(
    r"f(?:add|sub|mul|n?madd|n?msub|sgnj[nx]?|min|max|eq|lt|le|gt|ge|class|neg|abs|mv)\.s"
    r"|fcvt\.(?:s\.wu?|wu?\.s)|fmv\.(?:w\.x|x\.w|s\.x|x\.s)"
)
_ROWS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(
        r"(?:add|and|or|xor|sll|srl|sra|sltu?)i?|sltiu|sub|lui|auipc|li|la|mv|not|neg|nop"
        r"|s(?:eqz|nez|ltz|gtz)|zext\.b"), 1),
    (re.compile(r"mul"), 1),
    (re.compile(r"mulhs?u?"), 5),
    (re.compile(r"(?:div|rem)u?"), 35),
    (_LOAD, 2),
    (_STORE, 1),
    (re.compile(r"j|jal|call|tail"), 3),
    (re.compile(r"jr|jalr|ret"), 4),
    (re.compile(r"b(?:eq|ne|lt|ge|gt|le)u?z?"), 4),
    (_SHORT_FLOAT, 1),
    (re.compile(r"f(?:div|sqrt)\.s"), 19),
    (re.compile(r"f[rs](?:flags|rm|csr)i?"), 1),
)  # fmt: skip


def most_cycles(instruction: Instruction) -> int | None:
    """The most cycles that one instruction takes, of memory without wait states; None: unknown."""
    name = instruction.mnemonic.removeprefix("c.")
    return next((cycles for pattern, cycles in _ROWS if pattern.fullmatch(name)), None)


def bound_cycles(
    functions: Sequence[Function], most: Callable[[Mapping[int, int]], int]
) -> CycleBound:
    """The most cycles of code, if `most` says what it costs by costs of instructions."""
    cycles, accesses, floats = dict[int, int](), dict[int, int](), dict[int, int]()
    unknown: set[str] = set()
    for function in functions:
        code = function.instructions
        for instruction, following in zip(code, (*code[1:], None), strict=True):
            found, at = most_cycles(instruction), instruction.address
            name = instruction.mnemonic.removeprefix("c.")
            if found is None:
                unknown.add(instruction.mnemonic)
            cycles[at] = found or 0
            moves = bool(_LOAD.fullmatch(name) or _STORE.fullmatch(name))
            accesses[at] = words_fetched(instruction, following) + moves
            floats[at] = bool(_SHORT_FLOAT.fullmatch(name))
    return CycleBound(
        CORE, most(cycles), most(accesses), 0, tuple(sorted(unknown)), _TABLE, most(floats)
    )
