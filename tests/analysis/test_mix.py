"""Loops and their instruction mix in small disassemblies of every processor."""

from __future__ import annotations

import pytest

from cannery.analysis.disassembly import Function, Machine, parse_disassembly
from cannery.analysis.kernels import function_pieces, hotness, step_functions
from cannery.analysis.mix import Mix, Piece
from cannery.errors import ToolchainError
from cannery.passes import run_passes
from cannery.target.isa import isa
from emit.c_programs import network
from nets.net_bench import make_net_source

#: An outer loop that pushes a pointer forward, and in it: two FMAs, one with an operand in memory,
#: a broadcast of memory and one of a register, a spill and its reload through the frame pointer.
X86_64 = """
0000000000000000 <net_L00_conv>:
   0:\tpush   %rbp
   1:\tmov    %rsp,%rbp
   4:\tvmovups 0x0(%rip),%ymm0        # c <net_L00_conv+0xc>
   c:\txor    %ecx,%ecx
   e:\txchg   %ax,%ax
  10:\tvmovaps (%rdx),%ymm1
  14:\tvbroadcastss 0x4(%rax,%rcx,4),%ymm2
  18:\tvbroadcastss %xmm2,%ymm3
  1c:\tvfmadd231ps %ymm1,%ymm2,%ymm4
  20:\tvfmadd231ps 0x20(%rdx),%ymm3,%ymm5
  24:\tvmovaps %ymm5,-0x40(%rbp)
  28:\tvaddps -0x40(%rbp),%ymm4,%ymm4
  2c:\tvmovaps %ymm4,%ymm6
  30:\tvmovups %ymm6,(%rdi)
  34:\tadd    $0x4,%rcx
  38:\tcmp    %rcx,%r8
  3c:\tjne    10 <net_L00_conv+0x10>
  40:\tadd    $0x40,%rdi
  44:\tcmp    %rdi,%r9
  48:\tjne    c <net_L00_conv+0xc>
  4c:\tpop    %rbp
  4d:\tret
"""

#: Eight registers: products and sums, an accumulator in the stack frame, a pointer reloaded.
I386 = """
00000000 <net_L00_conv>:
   0:\tsub    $0x1c,%esp
   3:\tlea    0x10(%esp),%edx
  10:\tmovss  (%ecx),%xmm1
  14:\tshufps $0x0,%xmm1,%xmm1
  18:\tmovaps (%eax),%xmm2
  1c:\tmulps  %xmm1,%xmm2
  20:\tmulps  0x10(%eax),%xmm1
  24:\taddps  %xmm2,%xmm3
  28:\taddps  (%esp),%xmm1
  2c:\tmovaps %xmm1,(%esp)
  30:\tmovaps 0x10(%edx),%xmm4
  34:\tmov    0x18(%esp),%ebx
  38:\tmovaps %xmm4,%xmm5
  3c:\tdec    %esi
  3d:\tjne    10 <net_L00_conv+0x10>
  3f:\tadd    $0x1c,%esp
  42:\tret
"""

#: A load of one vector and of four, a broadcast, an address in the frame computed before the loop.
ARM = """
00000000 <net_L00_conv>:
   0:\tvpush\t{d8-d15}
   4:\tsub\tsp, #32
   6:\tadd\tr7, sp, #16
   8:\tadd.w\tip, r0, #64\t@ 0x40
   c:\tvld1.32\t{d16-d17}, [r0 :128]!
  10:\tvld1.32\t{d20[]-d21[]}, [r2]
  14:\tvldmia\tr3!, {d24-d31}
  18:\tvmla.f32\tq9, q8, q10
  1c:\tvmla.f32\tq11, q12, d20[0]
  20:\tvmul.f32\tq13, q14, q15
  24:\tvadd.f32\tq9, q9, q13
  28:\tvst1.64\t{d18-d19}, [r7 :64]
  2c:\tvldr\td8, [sp, #8]
  30:\tvdup.32\tq10, d16[0]
  34:\tvorr\tq11, q9, q9
  38:\tcmp\tr0, ip
  3a:\tbne.n\tc <net_L00_conv+0xc>
  3c:\tadd\tsp, #32
  3e:\tvpop\t{d8-d15}
  42:\tbx\tlr
  44:\t.word\t0x00000000
"""

#: As llvm-objdump prints: pairs of loads, products by a lane, a pair spilled.
AARCH64 = """
0000000000000000 <net_L00_conv>:
       0:      \tstp\td8, d9, [sp, #-32]!
       4:      \tmov\tx9, sp
       8:      \tldp\tq0, q1, [x0], #32
       c:      \tldp\ts2, s3, [x1]
      10:      \tld1r\t{ v4.4s }, [x2]
      14:      \tfmla\tv16.4s, v0.4s, v2.s[0]
      18:      \tfmla\tv17.4s, v1.4s, v3.s[0]
      1c:      \tfmul\tv18.4s, v4.4s, v1.4s
      20:      \tfadd\tv18.4s, v18.4s, v17.4s
      24:      \tstp\tq16, q17, [sp, #64]
      28:      \tldr\tq5, [x9, #16]
      2c:      \tmov\tv19.16b, v18.16b
      30:      \tdup\tv6.4s, v5.s[1]
      34:      \tsubs\tw3, w3, #1
      38:      \tb.ne\t0x8 <net_L00_conv+0x8>
      3c:      \tldp\td8, d9, [sp], #32
      40:      \tret
"""

#: As llvm-objdump prints: eight elements, a spill by way of a register, a label of the assembler.
RISCV64 = """
0000000000000000 <net_L00_conv>:
       0:      \taddi\tsp, sp, -0x60
       4:      \taddi\ta4, sp, 0x10
       8:      \tvsetivli\tzero, 0x8, e32, m1, ta, ma

000000000000000c <.Lpcrel_hi0>:
       c:      \tauipc\ta5, 0x0
      10:      \tvl1re32.v\tv8, (a0)
      14:      \tvl2re32.v\tv10, (a4)
      18:      \tflw\tfa5, 0x4(a1)
      1c:      \tvfmacc.vf\tv16, fa5, v8
      20:      \tvfmul.vv\tv17, v8, v10
      24:      \tfmadd.s\tfa0, fa5, fa5, fa0
      28:      \tvfadd.vv\tv17, v17, v16
      2c:      \tvs1r.v\tv17, (a4)
      30:      \tvmv1r.v\tv18, v17
      34:      \tvrgather.vi\tv19, v17, 0x1
      38:      \tsd\ta0, 0x8(sp)
      3c:      \taddi\ta0, a0, 0x20
      40:      \tbne\ta0, a2, 0x10 <.Lpcrel_hi0+0x4>
      44:      \taddi\tsp, sp, 0x60
      48:      \tret
"""


def pieces(text: str, machine: Machine) -> list[Piece]:
    """Those of the only function, the hottest first."""
    (function,) = parse_disassembly(text, machine)
    return sorted(function_pieces(function, machine), key=hotness, reverse=True)


@pytest.mark.parametrize(
    ("machine", "text", "depth", "mix"),
    [
        (Machine.X86_64, X86_64, 2, Mix(
            instructions=12, multiplies=2, adds=1, loads=4, stores=2, shuffles=1, moves=1,
            branches=1, other=2, spills=2, vector_spills=2, lanes=16)),
        (Machine.I386, I386, 1, Mix(
            instructions=13, multiplies=2, adds=2, loads=6, stores=1, shuffles=1, moves=1,
            branches=1, other=1, spills=4, vector_spills=3, lanes=8)),
        (Machine.ARM, ARM, 1, Mix(
            instructions=13, multiplies=3, adds=1, loads=7, stores=1, shuffles=1, moves=1,
            branches=1, other=1, spills=2, vector_spills=2, lanes=12)),
        (Machine.AARCH64, AARCH64, 1, Mix(
            instructions=13, multiplies=3, adds=1, loads=6, stores=2, shuffles=1, moves=1,
            branches=1, other=1, spills=3, vector_spills=3, lanes=12)),
        (Machine.RISCV64, RISCV64, 1, Mix(
            instructions=13, multiplies=3, adds=1, loads=4, stores=2, shuffles=1, moves=1,
            branches=1, other=1, spills=4, vector_spills=3, lanes=17)),
    ],
    ids=lambda value: value.name if isinstance(value, Machine) else "",
)  # fmt: skip
def test_the_hot_loop_and_its_mix(machine: Machine, text: str, depth: int, mix: Mix) -> None:
    hot = pieces(text, machine)[0]
    assert (hot.depth, hot.innermost, hot.mix) == (depth, True, mix)
    assert hot.instructions[-1].target == hot.instructions[0].address


def test_outer_loops_are_without_the_inner_ones() -> None:
    inner, outer, outside = pieces(X86_64, Machine.X86_64)
    assert [inner.depth, outer.depth, outside.depth] == [2, 1, 0]
    assert [i.address for i in outer.instructions] == [0xC, 0xE, 0x40, 0x44, 0x48]
    assert not outer.innermost
    assert outside.mix.instructions == 5
    # Saving a register is not a spill.
    assert outside.mix.spills == 0


def test_the_hot_loop_is_where_products_are_summed() -> None:
    def piece(depth: int, instructions: int, multiplies: int, adds: int) -> Piece:
        mix = Mix(instructions, multiplies, adds, lanes=4 * multiplies)
        return Piece("f", depth, True, (), mix)

    sums = piece(2, 100, 36, 36)
    transform = piece(3, 200, 20, 100)
    remainder = piece(2, 700, 36, 36)
    border = piece(1, 300, 90, 90)
    pool = piece(3, 40, 0, 16)
    found = sorted([pool, border, remainder, transform, sums], key=hotness, reverse=True)
    assert found == [sums, remainder, border, transform, pool]


def test_code_without_loops_is_one_piece() -> None:
    straight = "".join(f"{line}\n" for line in AARCH64.splitlines() if "b.ne" not in line)
    (only,) = pieces(straight, Machine.AARCH64)
    assert (only.depth, only.mix.multiplies, only.mix.spills) == (0, 3, 3)


def test_a_register_that_is_overwritten_no_longer_points_into_the_frame() -> None:
    text = ARM.replace("add.w\tip, r0, #64", "ldr\tr7, [r1, #0]")
    (hot, _) = pieces(text, Machine.ARM)
    assert (hot.mix.spills, hot.mix.vector_spills) == (1, 1)


def test_jumps_out_of_sight_make_no_loop() -> None:
    text = "00000000 <f>:\n   0:\tmulps  %xmm0,%xmm1\n   3:\tjmp    4 <f+0x4>\n"
    (only,) = pieces(text, Machine.I386)
    assert (only.depth, only.mix.branches) == (0, 1)


def single(machine: Machine, line: str) -> Mix:
    (only,) = pieces(f"00000000 <f>:\n   0:\t{line}\n", machine)
    return only.mix


@pytest.mark.parametrize(
    ("machine", "line", "loads", "stores"),
    [
        (Machine.X86_64, "vfmadd231ps 0x40(%rax){1to16},%zmm4,%zmm2", 1, 0),
        (Machine.X86_64, "vmovups %zmm1,(%rax){%k1}", 0, 1),
        (Machine.X86_64, "addl   $0x1,0x8(%rax)", 1, 1),
        (Machine.X86_64, "lea    0x8(%rax,%rbx,4),%rcx", 0, 0),
        (Machine.X86_64, "nopw   0x0(%rax,%rax,1)", 0, 0),
        (Machine.X86_64, "cmpl   $0x1,0x8(%rax)", 1, 0),
        (Machine.I386, "fmuls  0x4(%eax)", 1, 0),
        (Machine.I386, "fstps  0x4(%eax)", 0, 1),
        (Machine.AARCH64, "ld1\t{v0.4s-v3.4s}, [x0], #64", 4, 0),
        (Machine.AARCH64, "prfm\tpldl1keep, [x0, #64]", 0, 0),
        (Machine.ARM, "ldmia.w\tr0, {r4, r5, fp}", 3, 0),
        (Machine.ARM, "vst1.32\t{d0}, [r3]", 0, 1),
        (Machine.RISCV64, "vlseg4e32.v\tv8, (a0)", 4, 0),
        (Machine.RISCV64, "vs8r.v\tv8, (a0)", 0, 8),
        (Machine.RISCV64, "vlse32.v\tv8, (a0), a1", 1, 0),
        (Machine.RISCV64, "lbu\ta5,-1(a4)", 1, 0),
        (Machine.RISCV64, "vsll.vi\tv8, v8, 2", 0, 0),
    ],
)
def test_loads_and_stores(machine: Machine, line: str, loads: int, stores: int) -> None:
    mix = single(machine, line)
    assert (mix.loads, mix.stores) == (loads, stores)


@pytest.mark.parametrize(
    ("machine", "line", "lanes"),
    [
        (Machine.X86_64, "vfmadd231ps (%rax),%zmm4,%zmm2", 16),
        (Machine.X86_64, "mulss  %xmm0,%xmm1", 1),
        (Machine.X86_64, "mulpd  %xmm0,%xmm1", 2),
        (Machine.AARCH64, "fmla\tv0.2s, v1.2s, v2.2s", 2),
        (Machine.AARCH64, "fmadd\ts0, s1, s2, s0", 1),
        (Machine.ARM, "vmla.f32\td0, d1, d2[0]", 2),
        (Machine.ARM, "vmul.f32\ts0, s1, s2", 1),
        (Machine.AARCH64, "mul\tw0, w1, w2", 0),
        (Machine.RISCV64, "fnmsub.s\tfa0, fa1, fa2, fa0", 1),
        (Machine.RISCV64, "mul\ta0, a1, a2", 0),
        (Machine.RISCV64, "vmerge.vim\tv24, v24, 0, v0", 0),
        (Machine.X86_64, "imul   %rax,%rbx", 0),
    ],
)
def test_how_many_elements_are_multiplied(machine: Machine, line: str, lanes: int) -> None:
    mix = single(machine, line)
    assert (mix.lanes, mix.multiplies) == (lanes, int(lanes > 0))


def test_a_ratio_needs_a_multiplication() -> None:
    assert Mix(multiplies=4).per_multiply(6) == 1.5
    assert Mix().per_multiply(6) is None


def test_the_length_of_vectors_of_riscv_is_what_was_set_before() -> None:
    product = "vfmacc.vf\tv16, fa5, v8"
    settings = [
        ("vsetivli\tzero, 0x3, e32, m1, ta, ma", 3), ("vsetvli\tzero, zero, e8, mf4, ta, ma", 3),
        ("vsetivli\tzero,8,e32,m1,ta,ma", 8), ("vsetvli\tzero, a0, e32, m1, ta, ma", 1),
    ]  # fmt: skip
    lines = [line for setting, _ in settings for line in (setting, product)]
    text = "".join(f"   {4 * k:x}:\t{line}\n" for k, line in enumerate(lines))
    (only,) = pieces(f"00000000 <f>:\n{text}", Machine.RISCV64)
    assert only.mix.lanes == sum(elements for _, elements in settings)


#: Of each machine some instructions of each kind.
KINDS = {
    Machine.X86_64: {
        "multiplies":
            "mulps %xmm0,%xmm1; vmulsd (%rax),%xmm0,%xmm1; vfnmadd231ps %ymm0,%ymm1,%ymm2; "
            "pmaddubsw %xmm0,%xmm1; vpdpbusd %zmm0,%zmm1,%zmm2; dpps $0xff,%xmm0,%xmm1; "
            "fmuls 0x4(%rax); fmulp %st,%st(1); pmulhrsw %xmm0,%xmm1",
        "adds":
            "addps %xmm0,%xmm1; vsubss (%rax),%xmm0,%xmm1; vmaxps %ymm0,%ymm1,%ymm2; "
            "vhaddps %ymm0,%ymm1,%ymm2; paddd %xmm0,%xmm1; vpminsd %zmm0,%zmm1,%zmm2; "
            "pabsb %xmm0,%xmm1; fadds 0x4(%rax); fsubrp %st,%st(1)",
        "loads":
            "vmovups (%rax),%ymm0; movss (%rax),%xmm0; mov (%rax),%rcx; flds (%rax); "
            "fildl (%rax); vbroadcastss (%rax),%ymm0; movddup (%rax),%xmm0; "
            "vpmovsxbw (%rax),%ymm0; lddqu (%rax),%xmm0; vmaskmovps (%rax),%ymm0,%ymm1; "
            "kmovw (%rax),%k1; vgatherdps %ymm2,(%rax,%ymm1,4),%ymm0",
        "stores":
            "vmovups %ymm0,(%rax); movss %xmm0,(%rax); mov %rcx,(%rax); fstps (%rax); "
            "vextractf128 $0x1,%ymm0,(%rax); pextrd $0x1,%xmm0,(%rax); sete (%rax); "
            "vmaskmovps %ymm0,%ymm1,(%rax); vpmovdb %zmm0,(%rax); vmovntps %zmm0,(%rax)",
        "shuffles":
            "shufps $0x0,%xmm0,%xmm1; vunpcklps %ymm0,%ymm1,%ymm2; vpermd %ymm0,%ymm1,%ymm2; "
            "vbroadcastss %xmm0,%ymm1; vinsertf128 $0x1,%xmm0,%ymm1,%ymm2; "
            "palignr $0x4,%xmm0,%xmm1; blendps $0x1,%xmm0,%xmm1; movhlps %xmm0,%xmm1; "
            "packsswb %xmm0,%xmm1; pslldq $0x4,%xmm0; vpmovsxbw %xmm0,%ymm1; "
            "movddup %xmm0,%xmm1",
        "moves":
            "movaps %xmm0,%xmm1; vmovdqa64 %zmm0,%zmm1; movd %eax,%xmm0; "
            "vmovss %xmm0,%xmm1,%xmm2",
        "branches": "ret; ud2",
        "other":
            "xorps %xmm0,%xmm0; andps (%rax),%xmm0; mov %rax,%rcx; lea 0x8(%rax),%rcx; "
            "cvtps2dq %xmm0,%xmm1; divps %xmm0,%xmm1; add $0x4,%rax; nop",
    },
    Machine.AARCH64: {
        "multiplies":
            "fmla v0.4s, v1.4s, v2.4s; fmul s0, s1, s2; fmadd s0, s1, s2, s0; "
            "smlal2 v0.8h, v1.16b, v2.16b; sdot v0.4s, v1.16b, v2.4b[0]; "
            "mla v0.4s, v1.4s, v2.4s; sqrdmulh v0.4s, v1.4s, v2.4s; fnmsub s0, s1, s2, s0; "
            "smmla v0.4s, v1.16b, v2.16b",
        "adds":
            "fadd v0.4s, v1.4s, v2.4s; fsub s0, s1, s2; fmaxnm v0.4s, v1.4s, v2.4s; "
            "saddw2 v0.8h, v1.8h, v2.16b; faddp v0.4s, v1.4s, v2.4s; addv s0, v1.4s; "
            "sqadd v0.8h, v1.8h, v2.8h; fabs v0.4s, v1.4s; uabd v0.16b, v1.16b, v2.16b",
        "loads":
            "ldr q0, [x0]; ldp q0, q1, [x0, #32]; ld1 {v0.4s}, [x0]; ld1r {v0.4s}, [x0]; "
            "ldrb w0, [x1]",
        "stores": "str q0, [x0]; stp s0, s1, [x0], #8; st1 {v0.4s}, [x0]; strb w0, [x1]",
        "shuffles":
            "dup v0.4s, v1.s[0]; ext v0.16b, v1.16b, v2.16b, #4; zip1 v0.4s, v1.4s, v2.4s; "
            "rev64 v0.4s, v1.4s; tbl v0.16b, {v1.16b}, v2.16b; mov v0.s[1], v1.s[0]",
        "moves": "mov v0.16b, v1.16b; fmov s0, s1; orr v0.16b, v1.16b, v1.16b",
        "branches": "ret",
        "other":
            "orr v0.16b, v1.16b, v2.16b; add x0, x0, #4; mov x0, x1; mul w0, w1, w2; "
            "fdiv s0, s1, s2; shl v0.4s, v1.4s, #2; fmov s0, w0; nop",
    },
    Machine.ARM: {
        "multiplies":
            "vmla.f32 q0, q1, d2[0]; vmul.f32 s0, s1, s2; vfma.f32 q0, q1, q2; "
            "vmlal.s16 q0, d2, d3; vnmla.f32 s0, s1, s2; vqdmulh.s32 q0, q1, q2",
        "adds":
            "vadd.f32 q0, q1, q2; vsub.f32 s0, s1, s2; vmax.f32 q0, q1, q2; "
            "vpadd.f32 d0, d1, d2; vabs.f32 q0, q1; vaddl.s8 q0, d2, d3; vqadd.s16 q0, q1, q2",
        "loads": "vld1.32 {d0-d1}, [r0]; vldr s0, [r0]; ldr r0, [r1]; vldmia r0, {d0-d3}",
        "stores": "vst1.32 {d0-d1}, [r0]; vstr s0, [r0]; str r0, [r1]; stmia r0!, {r1, r2}",
        "shuffles":
            "vdup.32 q0, d1[0]; vext.8 q0, q1, q2, #4; vzip.32 q0, q1; vrev64.32 q0, q1; "
            "vtrn.32 q0, q1; vswp d0, d1; vtbl.8 d0, {d1}, d2",
        "moves": "vmov q0, q1; vmov.f32 s0, s1; vorr q0, q1, q1",
        "branches": "bx lr",
        "other":
            "add r0, r0, #4; vorr q0, q1, q2; vmov r0, s0; mov r0, r1; vdiv.f32 s0, s1, s2; "
            "nop",
    },
    Machine.RISCV64: {
        "multiplies":
            "vfmacc.vf v8, fa0, v16; fmadd.s fa0, fa1, fa2, fa0; fmul.s fa0, fa1, fa2; "
            "vwmacc.vx v8, a0, v16; vfmul.vv v8, v9, v10; vmulh.vv v8, v9, v10",
        "adds":
            "vfadd.vv v8, v9, v10; fsub.s fa0, fa1, fa2; vmax.vx v8, v9, a0; "
            "fmax.s fa0, fa1, fa2; vfredusum.vs v8, v9, v10; vwadd.vv v8, v9, v10; "
            "vsadd.vv v8, v9, v10",
        "loads":
            "vle32.v v8, (a0); flw fa0, 0(a0); ld a0, 8(sp); vl4re32.v v8, (a0); "
            "lbu a0, 0(a1); vlm.v v0, (a0)",
        "stores":
            "vse32.v v8, (a0); fsw fa0, 0(a0); sd a0, 8(sp); vs8r.v v8, (a0); vsm.v v0, (a0)",
        "shuffles":
            "vslidedown.vi v8, v9, 1; vrgather.vv v8, v9, v10; vfmv.v.f v8, fa0; "
            "vmv.v.x v8, a0; vfslide1up.vf v8, v9, fa0; vcompress.vm v8, v9, v0",
        "moves": "vmv1r.v v8, v9; vmv.v.v v8, v9; fmv.s fa0, fa1",
        "branches": "ret",
        "other":
            "add a0, a0, a1; mul a0, a1, a2; vsll.vi v8, v8, 2; fdiv.s fa0, fa1, fa2; nop",
    },
}  # fmt: skip


@pytest.mark.parametrize("machine", KINDS)
def test_kinds(machine: Machine) -> None:
    """Each instruction is of one kind, in loads and stores the registers count."""
    wrong = []
    for kind, lines in KINDS[machine].items():
        for line in lines.split("; "):
            mix = single(machine, line.replace(" ", "\t", 1))
            counted = ("multiplies", "adds", "shuffles", "moves", "branches", "other")
            found = [name for name in counted if getattr(mix, name)]
            if not found:
                found = [name for name in ("loads", "stores") if getattr(mix, name)]
            if found != [kind]:
                wrong.append((line, kind, found))
    assert not wrong


def test_a_kernel_without_a_function_of_its_own_is_an_error() -> None:
    """The compiler may have joined functions; a step without code has none."""
    source = make_net_source(run_passes(network()), isa("generic"), "net")
    computing = [call for call in source.calls if call.kernel.code.strip()]
    functions = [Function(call.symbol, ()) for call in computing]
    assert computing
    for call in source.calls:
        if call in computing:
            assert [f.name for f in step_functions(source, call, functions)] == [call.symbol]
            with pytest.raises(ToolchainError, match=f"no function {call.symbol} in the object"):
                step_functions(source, call, [])
        else:
            assert step_functions(source, call, functions) == []
