"""Operands of Arm's instructions: registers by one name, constants, shifts, conditions."""

from __future__ import annotations

import re

from cannery.analysis.integers import Action, Condition, Reader, State, Test, combine, signed

#: What conditional instructions test.
CONDITIONS: dict[str, Condition] = {
    "eq": (Test.EQ, False), "ne": (Test.NE, False), "lt": (Test.LT, False),
    "ge": (Test.GE, False), "le": (Test.LE, False), "gt": (Test.GT, False),
    "mi": (Test.LT, False), "pl": (Test.GE, False),
    "cc": (Test.LT, True), "lo": (Test.LT, True), "cs": (Test.GE, True), "hs": (Test.GE, True),
    "ls": (Test.LE, True), "hi": (Test.GT, True),
}  # fmt: skip

_ALIASES = {
    "sb": "r9", "sl": "r10", "fp": "r11", "ip": "r12", "sp": "sp", "lr": "r14", "pc": "pc",
    "wsp": "sp", "xzr": "zero", "wzr": "zero",
}  # fmt: skip
_CORE = re.compile(r"[rwx]\d+|sb|sl|fp|ip|w?sp|lr|[wx]zr|pc")


def with_place(operand: str, address: int) -> str:
    """The address of an instruction of T32 for `pc`, which loads take from whole words."""
    if operand == "pc":
        return f"#{address + 4}"
    return re.sub(r"^\[pc\b", f"[#{(address + 4) & ~3}", operand)


def canonical(text: str) -> str:
    """One name for `x3` and `w3`, for `fp` and `r11`."""
    if not _CORE.fullmatch(text):
        return ""
    return _ALIASES.get(text) or (f"x{text[1:]}" if text[0] == "w" else text)


def width_of(text: str, bits: int) -> int:
    """Bits of the register that an operand names."""
    return 32 if text.startswith("w") else bits


def constant_of(text: str) -> int | None:
    """The number of `#16`; None for what is none."""
    found = re.match(r"#(-?(?:0x)?[0-9a-fA-F]+)\b", text)
    return int(found[1], 0) if found else None


def reader(text: str, bits: int) -> Reader:
    """The number of a register or constant, with sign."""
    if text.startswith("#"):
        value = constant_of(text)
        return lambda _: value
    name, width = canonical(text), width_of(text, bits)
    if name == "zero":
        return lambda _: 0

    def register(state: State) -> int | None:
        found = state.get(name, width)
        return None if found is None else signed(found, width)

    return register


def shifted(operands: tuple[str, ...], bits: int) -> Reader:
    """The last operand of an instruction, with the shift or extension written behind it."""
    if len(operands) < 2:
        return reader(operands[0], bits)
    read, words = reader(operands[0], bits), operands[1].split()
    amount = constant_of(words[1]) if len(words) > 1 else 0
    if amount is None:
        return lambda _: None
    operation = "right" if words[0] in ("lsr", "asr") else "left"
    mask = 0xFFFF_FFFF if words[0] == "uxtw" else -1

    def shifted(state: State) -> int | None:
        value = read(state)
        return combine(operation, None if value is None else value & mask, amount)

    return shifted


def forget(names: tuple[str, ...], *, flags: bool) -> Action:
    """The action of an instruction that is not followed: what it writes is not known any more."""

    def act(state: State) -> None:
        for name in names:
            state.put(name, None)
        if flags:
            state.compared = None

    return act


def put(state: State, text: str, value: int | None, bits: int) -> None:
    """Write a register by any of its names."""
    name = canonical(text)
    if name and name != "zero":
        width = width_of(text, bits)
        state.put(name, None if value is None else value & ((1 << width) - 1))
