"""What functions run in one call, with all that they call: shared callees, tail calls, loops."""

from __future__ import annotations

from pathlib import Path

import pytest

from cannery.analysis.calls import Calls
from cannery.analysis.counting import by_instruction, counting
from cannery.analysis.disassembly import Machine, disassemble, parse_disassembly
from cannery.analysis.instructions import effects
from cannery.analysis.kinds import Kind
from cannery.errors import ToolchainError
from needs import missing, need_runner, need_toolchain

LISTING = """
0000000000000000 <run_a>:
   0:\tnop
   1:\tcall   20 <body>
   2:\tcall   20 <body>
   3:\tret
0000000000000010 <run_b>:
  10:\tjmp    20 <body>
0000000000000020 <body>:
  20:\tadd    $0x1,%eax
  21:\tjne    20 <body>
  22:\tcall   30 <leaf>
  23:\tret
0000000000000030 <leaf>:
  30:\tret
"""


def test_shared_functions_are_shared_out_by_their_calls() -> None:
    """`run_a` was called 3 times and calls `body` twice, `run_b` once; `body` loops 10 times."""
    functions = {f.instructions[0].address: f for f in parse_disassembly(LISTING, Machine.X86_64)}
    runs = {0: 3, 1: 3, 2: 3, 3: 3, 0x10: 1, 0x20: 70, 0x21: 70, 0x22: 7, 0x23: 7, 0x30: 7}
    calls = Calls(Machine.X86_64, functions, runs)
    a, b = calls.counted(0), calls.counted(0x10)
    assert a is not None
    assert b is not None
    assert [f.name for f in a.functions] == ["run_a", "body", "leaf"]
    assert a.runs == {0: 1, 1: 1, 2: 1, 3: 1, 0x20: 20, 0x21: 20, 0x22: 2, 0x23: 2, 0x30: 2}
    assert b.runs == {0x10: 1, 0x20: 10, 0x21: 10, 0x22: 1, 0x23: 1, 0x30: 1}


def test_callers_that_are_not_listed_count() -> None:
    """`leaf`, as what 32-bit code asks for its place, was called 93 times by others, too."""
    functions = {f.instructions[0].address: f for f in parse_disassembly(LISTING, Machine.X86_64)}
    runs = {0: 3, 1: 3, 2: 3, 3: 3, 0x10: 1, 0x20: 70, 0x21: 70, 0x22: 7, 0x23: 7, 0x30: 100}
    a = Calls(Machine.X86_64, functions, runs).counted(0)
    assert a is not None
    assert a.runs[0x30] == 2


def test_what_never_ran_is_not_counted() -> None:
    functions = {f.instructions[0].address: f for f in parse_disassembly(LISTING, Machine.X86_64)}
    assert Calls(Machine.X86_64, functions, {}).counted(0) is None


NESTED = """
typedef float v4 __attribute__((vector_size(16)));
static __attribute__((noinline)) void row(const v4 *x, v4 *y, int from, int to)
{
    for (int c = from; c < to; ++c) {
        v4 a = x[c] * x[c + 7];
        if (c >= 4 && c < 1000) a = a * x[c + 1] * x[c + 2];
        y[c] = a;
    }
}
static v4 x[1100], y[2000 + 1100];
int main(int argc, char **argv)
{
    (void)argv;
    for (int n = 0; n < 3; ++n)
        for (int k = 0; k < 500; ++k)
            row(x + n, y + argc, k == 0, k < 499 ? 1003 : 9);
    return 0;
}
"""


@pytest.mark.parametrize("target", ["sse2", "atom32", "armv7-a9", "aarch64-a53"])
def test_what_compilers_make_of_nested_loops(target: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(target)
    need_runner(toolchain, strict=True)
    source = tmp_path / "f.c"
    source.write_text(NESTED)
    # Without the first flag, gcc does not use NEON for vectors that are not intrinsics.
    flags = ("-funsafe-math-optimizations", "-fno-associative-math", "-static", "-no-pie")
    toolchain.compiler.link([source], tmp_path / "f", [*toolchain.cflags, *flags])
    try:
        with counting(toolchain.emulator()) as way:
            pieces = way.pieces(tmp_path / "f")
    except ToolchainError as error:
        missing(str(error))
    machine, functions = disassemble(tmp_path / "f", toolchain.compiler)
    runs = by_instruction(pieces, functions)
    lanes = 0
    for function in functions:
        if function.name.startswith(("row", "main")):
            for instruction in function.instructions:
                (known,) = effects([instruction], machine)
                lanes += runs[instruction.address] * known.lanes * (known.kind is Kind.MULTIPLY)
    rows = [1002] + [1003] * 498 + [9]
    assert lanes == 4 * 3 * (sum(rows) + 2 * (996 * 499 + 5))
