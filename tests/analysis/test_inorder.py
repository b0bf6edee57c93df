"""The model of Arm's small processors, against what others measured and published."""

from __future__ import annotations

import pytest

from cannery.analysis.arm_pipeline import operation
from cannery.analysis.disassembly import Instruction, Machine, parse_disassembly
from cannery.analysis.inorder import CORES, cycles_of_loop, cycles_once
from cannery.analysis.models import find_estimator

A53, A55 = "cortex-a53", "cortex-a55"


def code(text: str) -> tuple[Instruction, ...]:
    """Instructions, separated by semicolons or lines."""
    lines = [line.strip() for line in text.replace(";", "\n").splitlines() if line.strip()]
    listing = "\n".join(f"   {4 * k:x}:\t{line}" for k, line in enumerate(lines))
    (function,) = parse_disassembly(f"0 <f>:\n{listing}", Machine.AARCH64)
    assert len(function.instructions) == len(lines)
    return function.instructions


def once(text: str, cpu: str = A53) -> float:
    return cycles_once([operation(i, CORES[cpu]) for i in code(text)], CORES[cpu])


def loop(text: str, cpu: str = A53) -> float:
    return cycles_of_loop([operation(i, CORES[cpu]) for i in code(text)], CORES[cpu])


_ADD = "fadd v{0}.4s, v{0}.4s, v{0}.4s"

#: Cycles measured on a Cortex-A53: Estévez, qsdr-benchmarks/tests/instruction_benchmark/aarch64.
MEASURED = {
    # Pairs: vector units of 64 bits, what has to come first, one access to memory.
    "ldr d0, [x0]; fadd v1.4s, v1.4s, v1.4s": 2,
    "fadd v1.4s, v1.4s, v1.4s; ldr d0, [x0]": 2,
    "ldr x1, [x0]; fadd v1.4s, v1.4s, v1.4s": 2,
    "fadd v1.4s, v1.4s, v1.4s; ldr x1, [x0]": 1,
    "fadd v0.2s, v0.2s, v0.2s; ldr d1, [x0]": 1,
    "ldr d1, [x0]; fadd v0.2s, v0.2s, v0.2s": 1,
    "ldr d0, [x0]; ins v1.d[1], x0": 1,
    "ins v1.d[1], x0; ldr d0, [x0]": 1,
    "ldr d0, [x0]; ins v0.d[1], x1": 2,
    "ld1 {v0.d}[0], [x0]; ins v1.d[1], x0": 2,
    "ins v1.d[1], x0; ld1 {v0.d}[0], [x0]": 2,
    "ins v0.d[1], x0; ins v1.d[1], x1": 1,
    "ins v0.d[0], x0; ins v0.d[1], x1": 2,
    "fadd v0.4s, v0.4s, v0.4s; str q1, [x0]": 2,
    "str q1, [x0]; fadd v0.4s, v0.4s, v0.4s": 2,
    "ldr d0, [x0]; str q1, [x0]": 2,
    "ins v0.d[1], x0; str q1, [x0]": 2,
    "ldr d0, [x0]; str d1, [x0, #64]": 2,
    "fadd v0.4s, v0.4s, v0.4s; str x0, [x1]": 1,
    "str x0, [x1]; fadd v0.4s, v0.4s, v0.4s": 2,
    "fadd v0.4s, v0.4s, v0.4s; mov x0, v1.d[0]": 2,
    "mov x0, v1.d[0]; fadd v0.4s, v0.4s, v0.4s": 2,
    # Latencies, of the last instruction's operand.
    "fadd v0.4s, v0.4s, v0.4s; fadd v0.4s, v0.4s, v0.4s": 5,
    "fmul v0.4s, v0.4s, v31.4s; fmul v0.4s, v0.4s, v31.4s; fmul v0.4s, v0.4s, v31.4s": 9,
    "ins v0.d[1], x0; fadd v0.4s, v0.4s, v0.4s": 3,
    "ldr d0, [x0]; fadd v0.4s, v0.4s, v0.4s": 4,
    "ldr q0, [x0]; fadd v0.4s, v0.4s, v0.4s": 5,
    "ldr q0, [x0]; ldr q1, [x0]; fadd v1.4s, v1.4s, v1.4s": 7,
    "ldp q0, q1, [x0]; fadd v1.4s, v1.4s, v1.4s": 7,
    "ldp q0, q1, [x0]; ldp q2, q3, [x0]; fadd v2.4s, v2.4s, v2.4s": 9,
    "ldp q0, q1, [x0]; ldp q2, q3, [x0]; fadd v3.4s, v3.4s, v3.4s": 11,
    "ldp d0, d1, [x0]; ldp d2, d3, [x0]; fadd v2.4s, v2.4s, v2.4s": 6,
    "ldp d0, d1, [x0]; ldp d2, d3, [x0]; fadd v3.4s, v3.4s, v3.4s": 7,
    "ld1 {v0.4s-v3.4s}, [x0]; fadd v3.4s, v3.4s, v3.4s": 11,
    # How long they issue.
    "ldr q0, [x0]": 2,
    "str q0, [x0]; str q1, [x0]": 2,
    "stp q0, q1, [x0]; fadd v2.4s, v2.4s, v2.4s": 3,
    "st1 {v0.4s-v3.4s}, [x0]": 4,
    # Simple arithmetic waits for its operands in the second stage.
    "add x0, x0, x0; add x0, x0, x0": 1,
    "add x0, x0, x0; add x0, x0, x0; add x0, x0, x0": 2,
    "add x0, x0, x0; add x0, x0, x0; add x0, x0, x0; add x0, x0, x0": 3,
    "add x0, x0, x0; add x1, x1, x1; add x0, x0, x0; add x1, x1, x1": 2,
    "cmp x0, #42; b.eq 10 <f>; fadd v0.4s, v0.4s, v0.4s; fadd v1.4s, v1.4s, v1.4s": 3,
}

#: What rustc makes of y = a x + b: 16 cycles measured.
_PLAIN_LOOP = """
    add x3, x1, x0; add x0, x0, #32; cmp x0, x2; ldp q0, q1, [x3]
    fmul v0.4s, v0.4s, v2.s[0]; fmul v1.4s, v1.4s, v2.s[0]
    fadd v0.4s, v0.4s, v3.4s; fadd v1.4s, v1.4s, v3.4s; stp q0, q1, [x3]; b.ne 0 <f>
"""


def wide_half(a: int, b: int, p: str) -> str:
    """Half of the loop that was written for the processor: of four vectors, four are loaded."""
    return f"""
        fmul v{a}.4s, v{a}.4s, v31.4s; ldr x0, [{p}, #136]; fmul v{a + 1}.4s, v{a + 1}.4s, v31.4s
        fmul v{a + 2}.4s, v{a + 2}.4s, v31.4s; ldr x1, [{p}, #152]
        fmul v{a + 3}.4s, v{a + 3}.4s, v31.4s; ldr x2, [{p}, #168]
        fadd v{a}.4s, v{a}.4s, v30.4s; ldr x3, [{p}, #184]
        fadd v{a + 1}.4s, v{a + 1}.4s, v30.4s; ldr x4, [{p}, #176]
        st1 {{v{b}.4s-v{b + 3}.4s}}, [{p}]; ldr d{b + 1}, [{p}, #144]; ins v{b + 3}.d[1], x3
        ldr d{b + 2}, [{p}, #160]; ins v{b + 1}.d[1], x1; ldr d{b}, [{p}, #128]!
        ins v{b + 2}.d[1], x2; ins v{b + 3}.d[0], x4; ins v{b}.d[1], x0
        fadd v{a + 2}.4s, v{a + 2}.4s, v30.4s; fadd v{a + 3}.4s, v{a + 3}.4s, v30.4s
    """


def narrow_quarter(name: str, access: str, first: int, other: int, p: str) -> str:
    """Four sums or products of 64 bits, each beside a load or a store."""
    advanced = ["", "", "", "!"]
    return "\n".join(
        f"f{name} v{first + k}.2s, v{first + k}.2s, v31.2s\n"
        f"{access} d{other + k}, [{p}, #{8 + 8 * k}]{advanced[k]}"
        for k in range(4)
    )


@pytest.mark.parametrize("text", MEASURED)
def test_measured_pairs_and_latencies(text: str) -> None:
    assert once(text) == MEASURED[text]


def test_measured_loops() -> None:
    assert loop(_PLAIN_LOOP) == 16
    assert loop(wide_half(0, 4, "x10") + wide_half(4, 0, "x11")) == 32
    narrow = [
        narrow_quarter("mul", "str", 0, 4, "x11"), narrow_quarter("add", "ldr", 0, 4, "x10"),
        narrow_quarter("mul", "str", 4, 0, "x11"), narrow_quarter("add", "ldr", 4, 0, "x10"),
    ]  # fmt: skip
    assert loop("\n".join(narrow)) == 16


def products(load: str = "", every: int = 4) -> str:
    """24 multiply-adds with independent sums, and a load after each few."""
    lines = []
    for k in range(24):
        lines.append(f"fmla v{8 + k}.4s, v0.4s, v1.s[0]")
        if load and k % every == every - 1:
            lines.append(load)
    return "\n".join(lines)


def test_loads_between_multiply_adds() -> None:
    """By ncnn's page: loads of general registers are free; those of vectors wait for the sums of a
    Cortex-A53, unless they come after three; on a Cortex-A55 loads of 64 bits are free, too.
    """
    assert loop(products()) == loop(products(), A55) == 24
    assert loop(products("ldr x2, [x0]")) == loop(products("ldr x2, [x0]"), A55) == 24
    assert loop(products("ldr d2, [x0]", 3)) == 24 + 8
    assert loop(products("ldr d2, [x0]")) == 24 + 6 * (1 + 4)
    assert loop(products("ldr d2, [x0]"), A55) == 24
    assert loop(products("ldr q2, [x0]"), A55) == 24 + 6 * 2


def tile() -> str:
    """A product of 6 rows and 8 columns as XNNPACK computes it for this processor: each four cycles
    a load and an insert, then three multiply-adds, the first with a load of the other half.
    """
    loaded = (3, 12, 4, 5, 13, 14, 15, 0, 1, 16, 2, 17, 18, 19, 6, 7)
    inserted = (19, *loaded[:-1])
    lines = []
    for block, (low, high) in enumerate(zip(loaded, inserted, strict=True)):
        lines += [f"ldr d{low}, [x{3 + block % 4}], #8", f"ins v{high}.d[1], x8"]
        for k in range(3):
            if block == 15 and k == 2:
                lines.append("subs x0, x0, #16")
            lines.append(f"fmla v{20 + (3 * block + k) % 12}.4s, v8.4s, v9.s[{k}]")
            if k == 0:
                lines.append("ldr x8, [x9], #8")
    return "\n".join([*lines, "b.hs 0 <f>"])


def test_the_loop_of_xnnpack_takes_four_cycles_for_three_multiply_adds() -> None:
    assert tile().count("fmla") == 48
    assert loop(tile()) == 64


def test_sums_follow_each_other_after_four_cycles() -> None:
    """A product waits longer: a Cortex-A53 multiplies for four cycles, then adds."""
    chain = "fmla v0.4s, v1.4s, v2.4s"
    assert loop(chain) == loop(chain, A55) == 4
    used = "fmla v0.4s, v1.4s, v2.4s; fmul v3.4s, v0.4s, v0.4s"
    assert once(used) == 9
    assert once(used, A55) == 5


def test_registers_of_instructions() -> None:
    core = CORES[A53]
    reads = {
        "ldp x29, x30, [sp], #16": ((), ("sp",), ("x29", "x30")),
        "ldr q0, [x1, x2, lsl #4]": ((), ("x1", "x2"), ("v0",)),
        "ld1r {v3.4s}, [x4]": ((), ("x4",), ("v3",)),
        "umov w3, v2.h[1]": (("v2",), (), ("x3",)),
        "fcmpe s0, #0.0": (("v0",), (), ("nzcv",)),
        "fcsel s0, s1, s2, mi": (("v1", "v2", "nzcv"), (), ("v0",)),
        "xtn2 v0.8h, v1.4s": (("v1", "v0"), (), ("v0",)),
        "ucvtf s0, w1": ((), (), ("v0",)),
    }
    for text, (read, address, written) in reads.items():
        one = operation(code(text)[0], core)
        assert (one.reads, one.address) == (read, address), text
        assert tuple(name for name, _ in one.writes) == written, text
    assert operation(code("sdot v0.4s, v1.16b, v2.4b[0]")[0], core).sums == ("v0",)
    assert operation(code("fmadd s0, s1, s2, s3")[0], core).sums == ("v3",)
    assert operation(code("prfm pldl1keep, [x3, #128]")[0], core).accesses
    assert operation(code("cbz x3, 10 <f>")[0], core).operands == ("x3",)


def test_the_model_needs_no_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cannery.analysis.mca.newest", lambda program: [])
    found = find_estimator(A53, Machine.AARCH64)
    assert not found.is_approximate
    assert found.cycles(code(products()), loop=True) == 24
