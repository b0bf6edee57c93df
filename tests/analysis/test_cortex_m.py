"""Cycles of instructions on small Arm cores, against rows of Arm's tables."""

from __future__ import annotations

import pytest

from cannery.analysis.cortex_m import CORES, bound_cycles, most_cycles, words_moved
from cannery.analysis.disassembly import Function, Instruction


def instruction(text: str, address: int = 0) -> Instruction:
    """An instruction with operands that are separated by `; `."""
    name, _, rest = text.partition(" ")
    return Instruction(address, name, tuple(filter(None, rest.split("; "))))


#: What the tables say, P being 3: M0+, M3, M4; None where there is no such instruction.
ROWS = (
    ("movs r0; #1", 1, 1, 1),
    ("add.w r0; r1; r2; lsl #2", None, 1, 1),
    ("muls r0; r1", 1, 1, 1),
    ("mla r0; r1; r2; r3", None, 2, 1),
    ("smull r0; r1; r2; r3", None, 5, 1),
    ("smlal r0; r1; r2; r3", None, 7, 1),
    ("sdiv r0; r1; r2", None, 12, 12),
    ("smlad r0; r1; r2; r3", None, None, 1),
    ("ssat r0; #8; r1", None, 1, 1),
    ("ldr r0; [r1, #4]", 2, 2, 2),
    ("ldrsh.w r0; [r1, #4]", None, 2, 2),
    ("str r0; [r1, #4]", 2, 2, 2),
    ("ldrd r0; r1; [r2]", None, 3, 3),
    ("ldmia r0!; {r1, r2, r3}", 4, 4, 4),
    ("push {r4, r5, lr}", 4, 4, 4),
    ("pop {r4, pc}", 5, 6, 6),
    ("bne.n 100", 2, 4, 4),
    ("b.n 100", 2, 4, 4),
    ("bl 100", 3, 4, 4),
    ("bx lr", 2, 4, 4),
    ("cbz r0; 100", None, 4, 4),
    ("tbb [pc, r0]", None, 5, 5),
    ("it eq", None, 1, 1),
    ("vldr s0; [r0]", None, None, 2),
    ("vldr d0; [r0]", None, None, 3),
    ("vldmia r0!; {s0-s7}", None, None, 9),
    ("vpush {d8-d11}", None, None, 9),
    ("vadd.f32 s0; s1; s2", None, None, 2),
    ("vfma.f32 s0; s1; s2", None, None, 4),
    ("vdiv.f32 s0; s1; s2", None, None, 14),
    ("vmov s0; r1", None, None, 1),
    ("vmov r0; r1; d2", None, None, 2),
    ("vmrs APSR_nzcv; fpscr", None, None, 1),
)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_rows_of_the_tables(row: tuple[str, int | None, int | None, int | None]) -> None:
    text, *expected = row
    for name, cycles in zip(("cortex-m0plus", "cortex-m3", "cortex-m4"), expected, strict=True):
        if cycles is not None:
            assert most_cycles(instruction(text), CORES[name]) == cycles, name


def test_what_no_table_has() -> None:
    assert most_cycles(instruction("vmladava.s8 r0; q1; q2"), CORES["cortex-m4"]) is None
    assert CORES["cortex-m7"].table == "" != CORES["cortex-m4"].table
    assert words_moved(instruction("adds r0; r1; r2")) is None


def test_sums_with_wait_states_and_slow_multipliers() -> None:
    """Words of code: a halfword in one word, four bytes across two; and the word that is loaded."""
    code = tuple(
        instruction(text, address)
        for text, address in (
            ("muls r0; r1", 0), ("ldr.w r0; [r1]", 2), ("vmladava.s8 r0", 6), ("bx lr", 8)
        )
    )  # fmt: skip
    costs: list[dict[int, int]] = []

    def once(each: object) -> int:
        assert isinstance(each, dict)
        costs.append(each)
        return sum(each.values())

    found = bound_cycles([Function("f", code)], once, CORES["cortex-m0plus"])
    assert (found.cycles, found.slow_multiplier) == (1 + 2 + 2, 31)
    assert found.per_wait_state == 1 + (2 + 1) + 1 + 2
    assert found.unknown == ("vmladava.s8",)
