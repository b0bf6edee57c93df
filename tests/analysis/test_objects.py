"""Real object files: what compilers do with more accumulators than there are registers."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from cannery.analysis.disassembly import Instruction, Machine, disassemble, machine_of
from cannery.analysis.estimator import Estimator, Task
from cannery.analysis.kernels import function_pieces, hotness, object_flags
from cannery.analysis.mca import assembly
from cannery.analysis.mix import Piece
from cannery.analysis.models import find_estimator
from cannery.errors import ToolchainError
from cannery.target.toolchain import Toolchain
from needs import need_program, need_toolchain

#: The objdump of each target's binutils.
TARGETS = {
    "ssse3": "objdump", "atom32": "i686-linux-gnu-objdump",
    "armv7-a9": "arm-linux-gnueabihf-objdump", "aarch64-a53": "aarch64-linux-gnu-objdump",
    "riscv64v128": "riscv64-linux-gnu-objdump",
}  # fmt: skip


def products(count: int) -> str:
    """C: `count` sums of products of vectors in a loop."""
    numbers = range(count)
    lines = [
        "typedef float v4 __attribute__((vector_size(16)));",
        "void f(const v4 *w, const v4 *x, v4 *y, int n);",
        "void f(const v4 *w, const v4 *x, v4 *y, int n)",
        "{",
        *(f"v4 a{k} = y[{k}];" for k in numbers),
        "for (int i = 0; i < n; ++i, ++w, x += 64) {",
        *(f"a{k} += w[0] * x[{k}];" for k in numbers),
        "}",
        *(f"y[{k}] = a{k};" for k in numbers),
        "}",
    ]
    return "\n".join(lines) + "\n"


def compiled(folder: Path, toolchain: Toolchain, text: str) -> Path:
    source = folder / "f.c"
    source.write_text(text)
    # Without this, gcc does not use NEON for vectors that are not intrinsics.
    flags = [*toolchain.cflags, "-funsafe-math-optimizations", "-fno-unroll-loops"]
    toolchain.compiler.compile(source, folder / "f.o", [*flags, *object_flags(toolchain)])
    return folder / "f.o"


def hot_loop(path: Path, toolchain: Toolchain) -> Piece:
    machine, functions = disassemble(path, toolchain.compiler)
    (function,) = (f for f in functions if f.name == "f")
    return max(function_pieces(function, machine), key=hotness)


@pytest.mark.parametrize("target", TARGETS)
def test_spills_are_found_where_registers_do_not_suffice(target: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(target)
    need_program(TARGETS[target], "llvm-objdump")
    few = hot_loop(compiled(tmp_path, toolchain, products(4)), toolchain)
    assert (few.depth, few.mix.multiplies, few.mix.lanes, few.mix.spills) == (1, 4, 16, 0)
    assert few.mix.loads == 5
    many = hot_loop(compiled(tmp_path, toolchain, products(40)), toolchain)
    assert (many.depth, many.mix.multiplies, many.mix.lanes) == (1, 40, 160)
    assert many.mix.vector_spills >= 2 * (40 - toolchain.target.isa.registers)
    assert many.mix.loads + many.mix.stores >= 41 + many.mix.spills


def test_llvm_and_gnu_are_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for target, program in TARGETS.items():
        toolchain = need_toolchain(target)
        need_program(program)
        llvm = Path(need_program("llvm-objdump", "llvm-objdump-14")).name
        path = compiled(tmp_path, toolchain, products(40))
        gnu = hot_loop(path, toolchain)
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "which", {llvm: llvm}.get)
            assert hot_loop(path, toolchain).mix == gnu.mix


def test_a_missing_objdump_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = need_toolchain("ssse3")
    path = compiled(tmp_path, toolchain, products(1))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ToolchainError, match=r"no objdump .*x86_64.* install binutils"):
        disassemble(path, toolchain.compiler)


@pytest.mark.parametrize("data", [b"", b"MZ" * 20, b"\x7fELF\x02\x01" + bytes(30)])
def test_other_object_files_are_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "f.o").write_bytes(data)
    with pytest.raises(ToolchainError, match=r"f.o: .*not understood"):
        machine_of(tmp_path / "f.o")


def chain_of_sums() -> Sequence[Instruction]:
    return (
        Instruction(0, "addps", ("%xmm0", "%xmm1")),
        Instruction(4, "dec", ("%ecx",)),
        Instruction(5, "jne", ("0 <f>",), 0),
    )


def need_estimator(cpu: str, machine: Machine) -> Estimator:
    need_program("llvm-mca", "llvm-mca-14")
    return find_estimator(cpu, machine)


def test_estimated_cycles_are_those_of_a_chain_of_sums() -> None:
    code = chain_of_sums()
    # Intel's optimization manual: addps takes 3 cycles on Silvermont, 5 on Bonnell.
    silvermont = need_estimator("silvermont", Machine.X86_64)
    assert silvermont.cycles(code, loop=True) == pytest.approx(3, abs=0.2)
    atom = need_estimator("bonnell", Machine.I386)
    assert 5 <= atom.cycles(code, loop=True) < 6.5


def test_the_model_of_another_processor_is_told() -> None:
    assert need_estimator("cortex-a53", Machine.AARCH64).note == ""
    assert "cortex-a57" in need_estimator("cortex-a72", Machine.AARCH64).note
    assert "cortex-a9" in need_estimator("cortex-a15", Machine.ARM).note


@pytest.mark.parametrize("program", ["llvm-mca-14", "llvm-mca-19"])
def test_a_newer_llvm_has_nearer_models(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")  # which versions there are differs
    monkeypatch.setattr("cannery.analysis.mca.newest", lambda name: [program])
    nearest = {"llvm-mca-14": ("cortex-a57",) * 3, "llvm-mca-19": ("neoverse-n1",) * 2}
    wanted = ("cortex-a76", "cortex-a78", "cortex-x1")
    models = [find_estimator(cpu, Machine.AARCH64).model for cpu in wanted]
    assert models == [*nearest[program], "neoverse-v1"][:3]
    # The two models differ: LLVM takes the A57's for a processor that it has none of.
    chain = (Instruction(0, "fdiv", ("v0.4s", "v0.4s", "v1.4s")),)
    here, a57 = (find_estimator(cpu, Machine.AARCH64) for cpu in ("neoverse-n1", "cortex-a57"))
    assert (here.cycles(chain, loop=True) < a57.cycles(chain, loop=True)) is (
        program == "llvm-mca-19"
    )


def test_what_llvm_mca_does_not_know_is_told() -> None:
    with pytest.raises(ToolchainError, match=r"unknown processor 'abacus'.*cortex-a53"):
        need_estimator("abacus", Machine.AARCH64)
    fused = [Instruction(0, "vfmadd231ps", ("%xmm0", "%xmm1", "%xmm2"))]
    with pytest.raises(ToolchainError, match=r"vfmadd231ps.*give a processor that has"):
        need_estimator("silvermont", Machine.X86_64).cycles(fused, loop=True)


def test_a_missing_llvm_mca_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ToolchainError, match=r"llvm-mca not found \(apt install llvm\)"):
        find_estimator("atom", Machine.I386)


def test_thumb_code_is_given_to_llvm_mca_as_a32() -> None:
    code = [
        Instruction(0, "it", ("ge",)),
        Instruction(2, "movge.w", ("r3", "#1000")),
        Instruction(6, "addw", ("r1", "r3", "#1028")),
        Instruction(10, "vmov.f32", ("s15", "#112")),
        Instruction(14, "bl", ("0 <g>",), 0),
        Instruction(18, "cbz", ("r3", "0 <f>"), 0),
        Instruction(20, "bne.n", ("0 <f>",), 0),
    ]
    text = assembly(code, Machine.ARM)
    assert text.split("\n") == [
        "movge r3, #4", "add r1, r3, #4", "vmov.f32 s15, #1.0", "cmp r3, #0", "beq piece",
        "bne piece",
    ]  # fmt: skip
    assert need_estimator("cortex-a9", Machine.ARM).cycles(code, loop=False) > 0


def test_what_moves_several_registers_is_many_instructions() -> None:
    code = [
        Instruction(0, "push", ("{r4, lr}",)),
        Instruction(2, "ldrd", ("r0", "r3", "[r0]")),
        Instruction(6, "vldmia", ("r1!", "{d8-d9}")),
        Instruction(10, "vmla.f32", ("q8", "q9", "d6[0]")),
        Instruction(14, "pop", ("{r4, pc}",)),
    ]
    assert assembly(code, Machine.ARM).split("\n") == [
        "str r4, [sp, #4]", "str lr, [sp, #4]", "add sp, sp, #4",
        "ldr r3, [r0]", "ldr r0, [r0]",
        "vldr d8, [r1, #4]", "vldr d9, [r1, #4]", "add r1, r1, #4",
        "vmla.f32 d16, d18, d6[0]", "vmla.f32 d17, d19, d6[0]",
        "ldr r4, [sp, #4]", "ldr lr, [sp, #4]", "add sp, sp, #4",
    ]  # fmt: skip
    need_estimator("cortex-a9", Machine.ARM).cycles(code, loop=False)


@pytest.mark.parametrize("machine", [Machine.X86_64, Machine.ARM, Machine.AARCH64])
def test_many_pieces_take_what_each_takes(machine: Machine) -> None:
    cpu, add, none = {
        Machine.X86_64: ("silvermont", ("addps", "%xmm0", "%xmm1"), "vfmadd231ps"),
        Machine.ARM: ("cortex-a9", ("vadd.f32", "d0", "d0", "d1"), "abacus"),
        Machine.AARCH64: ("cortex-a72", ("fadd", "v0.4s", "v0.4s", "v1.4s"), "abacus"),
    }[machine]
    one = Instruction(0, add[0], add[1:])
    bad = Instruction(0, none, ("%xmm0", "%xmm1", "%xmm2"))
    estimator = need_estimator(cpu, machine)
    once, loop, long = (
        Task((one,), loop=False),
        Task((one,), loop=True),
        Task((one,) * 4, loop=True),
    )
    found = estimator.batch([once, loop, Task((bad,), loop=True), long, loop])
    alone = [estimator.cycles((one,), loop=False), estimator.cycles((one,), loop=True)]
    assert found[:2] == alone
    assert found[2] is None
    assert found[3] == pytest.approx(4 * alone[1], rel=0.1)
    assert found[4] == alone[1]
