"""How often code runs: short listings, and loops as compilers leave them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from cannery.analysis.disassembly import Machine, disassemble, parse_disassembly
from cannery.analysis.instructions import effect
from cannery.analysis.kinds import Kind
from cannery.analysis.walk import MOST_BLOCKS, Walker
from needs import need_program, need_toolchain

OBJDUMPS = {
    "sse2": "objdump", "atom32": "i686-linux-gnu-objdump",
    "armv7-a9": "arm-linux-gnueabihf-objdump", "aarch64-a53": "aarch64-linux-gnu-objdump",
}  # fmt: skip

#: A loop of 5 passes around one of 300000, whose counter is spilled, then a call.
LISTINGS = {
    Machine.I386: """
00000000 <f>:
   0:	push   %ebx
   1:	mov    0x8(%esp),%ebx
   2:	movl   $0x5,-0x8(%esp)
   3:	xor    %eax,%eax
   4:	add    $0x10,%eax
   5:	cmp    $0x493e00,%eax
   6:	jne    4 <f+0x4>
   7:	subl   $0x1,-0x8(%esp)
   8:	jne    3 <f+0x3>
   9:	call   10 <g>
   a:	mov    0x4(%ebx),%ecx
   b:	pop    %ebx
   c:	cmp    $0x11000000,%ecx
   d:	je     f <f+0xf>
   e:	mulps  %xmm0,%xmm0
   f:	ret
00000010 <g>:
  10:	ret
""",
    Machine.X86_64: """
0000000000000000 <f>:
   0:	movq   %rdi,%xmm5
   1:	mov    $0x4,%ecx
   3:	lea    0x493e00(%rdi),%rdx
   4:	movq   %xmm5,%rax
   5:	add    $0x10,%rax
   6:	cmp    %rdx,%rax
   7:	jb     5 <f+0x5>
   8:	sub    $0x1,%ecx
   9:	jns    3 <f+0x3>
   a:	call   10 <g>
   b:	mov    0x8(%rdi),%rcx
   c:	cmp    $0x11000000,%rcx
   d:	je     f <f+0xf>
   e:	mulps  %xmm0,%xmm0
   f:	ret
0000000000000010 <g>:
  10:	ret
""",
    Machine.ARM: """
00000000 <f>:
   0:	stmdb	sp!, {r4, r5, fp, lr}
   2:	movs	r5, #5
   4:	str	r5, [sp, #-8]!
   6:	movw	r3, #37856
   8:	movt	r3, #4
   a:	subs	r3, #1
   c:	vld1.32	{d0-d1}, [r0]!
   e:	bne.n	a <f+0xa>
  10:	ldr	r4, [sp, #0]
  12:	subs	r4, r4, #1
  14:	it	ge
  16:	strge	r4, [sp, #0]
  18:	cmp	r4, #0
  1a:	bgt.w	6 <f+0x6>
  1c:	bl	30 <g>
  1e:	vmul.f32	q0, q0, q0
  20:	add	sp, #8
  22:	ldmia.w	sp!, {r4, r5, fp, pc}
00000030 <g>:
  30:	bx	lr
""",
    Machine.AARCH64: """
0000000000000000 <f>:
   0:	stp	x29, x30, [sp, #-16]!
   4:	mov	w4, #0x0                   	// #0
   8:	mov	w2, #0x93e0                	// #37856
   c:	movk	w2, #0x4, lsl #16
  10:	add	x3, x0, w2, sxtw #4
  14:	mov	x1, x0
  18:	ldr	q0, [x1], #16
  1c:	cmp	x1, x3
  20:	b.ne	18 <f+0x18>  // b.any
  24:	add	w4, w4, #0x1
  28:	cmp	w4, #0x9
  2c:	ccmp	w4, #0x5, #0x4, ne
  30:	b.ne	14 <f+0x14>
  34:	bl	50 <g>
  38:	ldp	x29, x30, [sp], #16
  3c:	cbz	w4, 44 <f+0x44>
  40:	fmul	v0.4s, v0.4s, v0.4s
  44:	ret
0000000000000050 <g>:
  50:	ret
""",
}


def walker_of(text: str, machine: Machine) -> Walker:
    functions = {f.instructions[0].address: f for f in parse_disassembly(text, machine)}
    return Walker(machine, functions, lambda address, size: None)


def runs(walker: Walker, counts: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """How often the block at each address runs."""
    starts = {place: walker.code(place[0]).blocks[place[1]].instructions[0] for place in counts}
    return {starts[place].address: count for place, count in counts.items()}


@pytest.mark.parametrize("machine", LISTINGS)
def test_loops_are_counted_by_what_ends_them(machine: Machine) -> None:
    walker = walker_of(LISTINGS[machine], machine)
    counts = walker.counts(0)
    assert counts is not None
    found = runs(walker, counts)
    inner, outer = {
        Machine.I386: (4, 3), Machine.X86_64: (5, 3), Machine.ARM: (10, 6),
        Machine.AARCH64: (0x18, 0x14),
    }[machine]  # fmt: skip
    # The first pass of the outer loop may belong to the block before it.
    assert found[inner] in (5 * 300_000, 5 * 300_000 - 5)
    assert found[outer] in (4, 5)
    assert found[max(walker.functions)] == 1


@pytest.mark.parametrize("target", OBJDUMPS)
def test_what_compilers_make_of_nested_loops(target: str, tmp_path: Path) -> None:
    toolchain = need_toolchain(target)
    need_program(OBJDUMPS[target])
    source = tmp_path / "f.c"
    source.write_text("""
typedef float v4 __attribute__((vector_size(16)));
static __attribute__((noinline)) void row(const v4 *x, v4 *y, int from, int to)
{
    for (int c = from; c < to; ++c) {
        v4 a = x[c] * x[c + 7];
        if (c >= 4 && c < 1000) a = a * x[c + 1] * x[c + 2];
        y[c] = a;
    }
}
void f(void *const *p);
void f(void *const *p)
{
    for (int n = 0; n < 3; ++n)
        for (int y = 0; y < 500; ++y)
            row((const v4 *)p[0] + n, (v4 *)p[1] + 2000 * y, y == 0, y < 499 ? 1003 : 9);
}
""")
    flags = [*toolchain.cflags, "-funsafe-math-optimizations", "-fno-associative-math"]
    toolchain.compiler.compile(source, tmp_path / "f.o", flags)
    machine, functions = disassemble(tmp_path / "f.o", toolchain.compiler)
    walker = Walker(
        machine, {f.instructions[0].address: f for f in functions}, lambda address, size: None
    )
    (start,) = (f.instructions[0].address for f in functions if f.name == "f")
    counts = walker.counts(start)
    assert counts is not None
    lanes = 0
    for (function, block), count in counts.items():
        for instruction in walker.code(function).blocks[block].instructions:
            known = effect(instruction, machine)
            lanes += count * known.lanes if known.kind is Kind.MULTIPLY else 0
    rows = [1002] + [1003] * 498 + [9]
    assert lanes == 4 * 3 * (sum(rows) + 2 * (996 * 499 + 5))


def test_what_does_not_end_is_given_up() -> None:
    endless = "00000000 <f>:\n   0:\tadd    $0x1,%eax\n   3:\tjmp    0 <f>\n"
    walker = walker_of(endless, Machine.X86_64)
    assert walker.counts(0) is None
    table = "00000000 <f>:\n   0:\tjmp    *%rax\n"
    assert walker_of(table, Machine.X86_64).counts(0) is None
    assert MOST_BLOCKS < 1_000_000
