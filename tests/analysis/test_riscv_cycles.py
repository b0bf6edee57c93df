"""Cycles of instructions on CV32E40P, against rows of its table."""

from __future__ import annotations

import pytest

from cannery.analysis.disassembly import Function, Instruction
from cannery.analysis.riscv_cycles import bound_cycles, most_cycles

ROWS = (
    ("addi", 1), ("slli", 1), ("sltiu", 1), ("snez", 1), ("lui", 1), ("li", 1), ("mv", 1),
    ("mul", 1), ("mulh", 5), ("mulhu", 5), ("mulhsu", 5), ("div", 35), ("remu", 35),
    ("lw", 2), ("lbu", 2), ("lhu", 2), ("flw", 2), ("sb", 1), ("fsw", 1),
    ("j", 3), ("jal", 3), ("ret", 4), ("jr", 4), ("bnez", 4), ("bgeu", 4), ("blt", 4),
    ("fmadd.s", 1), ("fnmsub.s", 1), ("fcvt.w.s", 1), ("fcvt.s.wu", 1), ("fdiv.s", 19),
    ("fsqrt.s", 19), ("fmv.w.x", 1), ("c.lw", 2),
)  # fmt: skip


@pytest.mark.parametrize(("name", "cycles"), ROWS)
def test_rows_of_the_table(name: str, cycles: int) -> None:
    assert most_cycles(Instruction(0, name, ("a0", "a1"))) == cycles


def test_what_the_table_lacks() -> None:
    for name in ("amoadd.w", "vadd.vv", "csrr", "fadd.d", "ecall"):
        assert most_cycles(Instruction(0, name, ())) is None, name


def test_sums_with_wait_states_and_latency() -> None:
    """Words of code: two halfwords of one word, four bytes across two; and the word of a load."""
    names = (("mv", 0), ("flw", 2), ("fadd.s", 6), ("vadd.vv", 10), ("ret", 14))
    code = tuple(Instruction(at, name, ("a0", "a1")) for name, at in names)

    def once(costs: object) -> int:
        assert isinstance(costs, dict)
        return sum(costs.values())

    found = bound_cycles([Function("f", code)], once)
    assert (found.core, found.cycles, found.per_float_cycle) == ("CV32E40P", 1 + 2 + 1 + 4, 1)
    assert found.per_wait_state == 1 + (2 + 1) + 2 + 2 + 2
    assert found.unknown == ("vadd.vv",)
