"""The stack of functions, followed through what objdump prints."""

from __future__ import annotations

import re

import pytest

from cannery.analysis.disassembly import Function, Machine, parse_disassembly
from cannery.analysis.stack import Frame, StackUse, frame_of


def frame(text: str, machine: Machine = Machine.ARM, told: int = 0) -> Frame:
    """The frame of the only function, whose instructions are lines."""
    return frame_of(functions(f"f:\n{text}", machine)[0], machine, None, told)


def functions(text: str, machine: Machine = Machine.ARM) -> list[Function]:
    """Functions from `name:` lines and instructions of 2 bytes, which refer to `<name+offset>`."""
    lines, places, at = list[tuple[int, str]](), dict[str, int](), 0x100
    for line in filter(None, map(str.strip, text.splitlines())):
        lines.append((at, line))
        if line.endswith(":"):
            places[line[:-1]] = at
        else:
            at += 2

    def target(found: re.Match[str]) -> str:
        return f"{places[found[1]] + int(found[2] or 0):x} <{found[1]}>"

    place = re.compile(r"<(\w+)(?:[+](\d+))?>")
    printed = [
        f"{at:08x} <{line[:-1]}>:" if line.endswith(":") else f" {at:x}:\t{place.sub(target, line)}"
        for at, line in lines
    ]
    return parse_disassembly("\n".join(printed), machine)


@pytest.mark.parametrize(
    ("text", "bytes_", "padding"),
    [
        ("push {r4, r5, lr}\nsub sp, #20\nstr r0, [sp, #4]\nadd sp, #20\npop {r4, r5, pc}", 32, 4),
        ("stmdb sp!, {r4-r7, lr}\nvpush {d8-d11}\nldmia.w sp!, {r4, pc}", 52, 0),
        ("vpush {s16-s19}\nbx lr", 16, 0),
        ("strd r4, r5, [sp, #-16]!\nbx lr", 16, 0),
        ("sub.w sp, sp, #1024\nmov r0, sp\nbx lr", 1024, 0),
        ("sub.w sp, sp, #1024\nadd r0, sp, #8\nbx lr", 1024, 8),
        ("cmp r0, #0\nit eq\npopeq {r4, pc}\npush {r0}\nbx lr", 4, 0),
        ("ldr r0, [sp, #8]\nbx lr", 0, 0),
    ],
)
def test_frames_of_arm(text: str, bytes_: int, padding: int) -> None:
    found = frame(text)
    assert (found.bytes, found.padding, found.exact) == (bytes_, padding, True)


def test_frames_of_other_machines() -> None:
    text = "stp x29, x30, [sp, #-64]!\nsub sp, sp, #0x1, lsl #12\nstr x0, [sp, #16]\nret"
    found = frame(text, Machine.AARCH64)
    assert (found.bytes, found.padding) == (64 + 4096, 16)
    found = frame("addi sp,sp,-48\nsd ra,40(sp)\nsd s0,16(sp)\nret", Machine.RISCV64)
    assert (found.bytes, found.padding) == (48, 16)


def test_only_the_longer_way_counts_with_its_call() -> None:
    """What a branch skips is not below what follows it."""
    text = """
        cbz r0, <f+10>
        push {r4, lr}
        bl <g>
        pop {r4, pc}
        nop
        b <g>
        g:
        sub sp, #40
        add sp, #40
        bx lr
    """
    use = StackUse(Machine.ARM, functions(f"f:\n{text}"))
    found = use.depth("f")
    assert (found.bytes, found.path) == (48, ("f", "g"))
    assert {call.depth for call in use.frame("f").calls} == {0, 8}
    assert use.depth("g").path == ("g",)


def test_code_that_runs_into_the_next_function() -> None:
    use = StackUse(Machine.ARM, functions("f:\npush {r4}\npop {r4}\ng:\npush {r4, r5}\nbx lr"))
    assert use.reached(["f"]) == ("f", "g")
    assert use.depth("f").bytes == 8


def test_what_is_not_followed_is_what_the_compiler_says() -> None:
    text = "f:\npush {r4, lr}\nadd sp, r4\nbl <g>\nbx lr\ng:\npush {r4, lr}\npop {r4, pc}"
    use = StackUse(Machine.ARM, functions(text), {"f": 600})
    assert use.inexact(["f"]) == ("f",)
    assert use.depth("f").bytes == 608
    unequal = "cbz r0, <f+4>\nsub sp, #8\nnop\nbx lr"
    assert not frame(unequal).exact


def test_recursion_and_pointers() -> None:
    text = """
        f:
        push {lr}
        bl <g>
        pop {pc}
        g:
        push {lr}
        bl <h>
        pop {pc}
        h:
        b <g>
        i:
        blx r3
        bx r2
        j:
        b.n <j>
        k:
        bl <k+4>
        nop
        bx lr
        l:
        nop
        nop
        bl <l+2>
        m:
        push {r4, lr}
        bl <l>
        pop {r4, pc}
    """
    use = StackUse(Machine.ARM, functions(text))
    assert use.recursive(["f"]) == ("g", "h")
    assert use.recursive(["m"]) == () and use.depth("l").bytes == 0, "it does not go on after that"
    assert use.indirect(["i", "f"]) == ("i",)
    assert use.recursive(["j", "k"]) == (), "a loop, and a long jump of Thumb-1"
    assert use.depth("f").bytes == 8


def test_a_call_from_where_the_frame_is_small() -> None:
    """The function's own frame is deeper than what it calls before it has one."""
    text = "f:\nbl <g>\nsub sp, #44\nstr r0, [sp, #0]\nadd sp, #44\nbx lr\ng:\nsub sp, #40\nbx lr"
    use = StackUse(Machine.ARM, functions(text))
    found = use.depth("f")
    assert (found.bytes, found.path) == (44, ("f",))
