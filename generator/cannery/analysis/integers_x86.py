"""Integer instructions of x86 in AT&T syntax, as actions on a `State`."""

from __future__ import annotations

import re

from cannery.analysis import x86
from cannery.analysis.disassembly import Instruction
from cannery.analysis.integers import (
    BINARY,
    Action,
    Condition,
    Reader,
    State,
    Test,
    Writer,
    combine,
    signed,
)

_WIDTHS = {"b": 8, "w": 16, "l": 32, "q": 64}


def _registers() -> dict[str, tuple[str, int]]:
    """The whole register of each name, and the bits of it that the name means."""
    found = {}
    for letter in ("a", "b", "c", "d"):
        names = (f"r{letter}x", f"e{letter}x", f"{letter}x", f"{letter}l")
        found.update({n: (names[0], bits) for n, bits in zip(names, (64, 32, 16, 8), strict=True)})
    for word in ("si", "di", "sp", "bp"):
        names = (f"r{word}", f"e{word}", word, f"{word}l")
        found.update({n: (names[0], bits) for n, bits in zip(names, (64, 32, 16, 8), strict=True)})
    for number in range(8, 16):
        for suffix, bits in (("", 64), ("d", 32), ("w", 16), ("b", 8)):
            found[f"r{number}{suffix}"] = (f"r{number}", bits)
    return found


_REGISTERS = _registers()

_CONDITIONS: dict[str, Condition] = {
    "e": (Test.EQ, False), "z": (Test.EQ, False), "ne": (Test.NE, False), "nz": (Test.NE, False),
    "l": (Test.LT, False), "ge": (Test.GE, False), "le": (Test.LE, False), "g": (Test.GT, False),
    "s": (Test.LT, False), "ns": (Test.GE, False),
    "b": (Test.LT, True), "c": (Test.LT, True), "ae": (Test.GE, True), "nc": (Test.GE, True),
    "be": (Test.LE, True), "a": (Test.GT, True),
}  # fmt: skip

_BINARY = {
    "add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "imul": "mul",
    "shl": "left", "sal": "left", "sar": "right", "shr": "right",
}  # fmt: skip
_NAME = re.compile(r"(add|sub|and|or|xor|imul|shl|sal|sar|shr|cmp|test|inc|dec|neg|not)([bwlq]?)")
_MOVE = re.compile(r"mov(abs)?([bwlq]?)")
_EXTEND = re.compile(r"mov([sz])([bwl])([wlq])")
_BETWEEN = re.compile(r"v?mov[dq]")
_DIVIDES = re.compile(r"c[lqw]t[dol]|i?div[bwlq]?|mul[bwlq]?")
_NEUTRAL = re.compile(r"nop|prefetch|endbr|vzero")
_MEMORY = re.compile(r"(?:%\w+:)?(-?0x[0-9a-f]+|-?\d+)?\(([^)]*)\)")


def condition(instruction: Instruction) -> Condition | None:
    """What a conditional jump tests; None where that is no comparison of integers."""
    return _CONDITIONS.get(instruction.mnemonic[1:])


def action(instruction: Instruction, following: int, bits: int) -> Action | None:
    """What an instruction, before one at `following`, does; None: nothing that matters."""
    name, operands = instruction.mnemonic, instruction.operands
    if found := _NAME.fullmatch(name):
        return _arithmetic(found[1], _width(found[2], operands, bits), operands, following)
    if found := _MOVE.fullmatch(name):
        return _move(_width(found[2], operands, bits), operands, following)
    if found := _EXTEND.fullmatch(name):
        return _extended(_WIDTHS[found[2]], _WIDTHS[found[3]], found[1] == "s", operands, following)
    if name in ("lea", "leal", "leaq", "push", "pop", "leave", "cltq"):
        return _special(name, operands, following, bits)
    if name.startswith(("cmov", "set")):
        return _conditional(name, operands, following, bits)
    if _BETWEEN.fullmatch(name):
        return _move(64 if name.endswith("q") else 32, operands, following)
    return _forgetting(instruction)


def _width(suffix: str, operands: tuple[str, ...], bits: int) -> int:
    if suffix:
        return _WIDTHS[suffix]
    known = (_REGISTERS[o[1:]][1] for o in reversed(operands) if o[1:] in _REGISTERS)
    return next(known, bits)


def _forgetting(instruction: Instruction) -> Action | None:
    """Of an instruction that is not followed: what it writes is not known any more."""
    known = x86.effect(instruction)
    names = [_REGISTERS[w[1:]][0] for w in known.writes if w[1:] in _REGISTERS]
    if _DIVIDES.fullmatch(instruction.mnemonic):
        names = ["rax", "rdx"]
    sets_flags = "comis" in instruction.mnemonic or "test" in instruction.mnemonic
    if instruction.mnemonic == "xchg" and len(set(instruction.operands)) == 1:
        return None
    if not names and (known.on_vectors or _NEUTRAL.match(instruction.mnemonic)) and not sets_flags:
        return None
    return _lost(tuple(names))


def _address(text: str, following: int) -> Reader:
    found = _MEMORY.fullmatch(text)
    if not found:
        return lambda _: None
    offset = int(found[1] or "0", 0)
    if found[2] == "%rip":
        return lambda _: offset + following
    parts = re.sub(r",%[er]iz,1$", "", found[2]).split(",")
    base = _REGISTERS.get(parts[0].strip().lstrip("%"), ("", 0))[0]
    index = _REGISTERS.get(parts[1].strip().lstrip("%"), ("", 0))[0] if len(parts) > 1 else ""
    scale = int(parts[2]) if len(parts) > 2 else 1
    absent = (parts[0].strip() and not base) or (len(parts) > 1 and parts[1].strip() and not index)
    if absent:
        return lambda _: None

    def read(state: State) -> int | None:
        start = state.values.get(base) if base else 0
        more = state.values.get(index) if index else 0
        if start is None or more is None:
            return None
        return (start + more * scale + offset) & ((1 << state.bits) - 1)

    return read


def _reader(text: str, bits: int, following: int) -> Reader:
    """The number of an operand, with sign."""
    if text.startswith("$"):
        constant = signed(int(text[1:], 0), bits) if re.match(r"\$-?(0x)?\w+$", text) else None
        return lambda _: constant
    if text.startswith("%"):
        name = _REGISTERS.get(text[1:], (text, 0))[0]

        def register(state: State) -> int | None:
            value = state.get(name, bits)
            return None if value is None else signed(value, bits)

        return register
    address = _address(text, following)

    def memory(state: State) -> int | None:
        value = state.load(address(state), bits)
        return None if value is None else signed(value, bits)

    return memory


def _writer(text: str, bits: int, following: int) -> Writer:
    """Puts a number into a register, the rest of which becomes zero from 32 bits on, or memory."""
    mask = (1 << bits) - 1
    if text.startswith("%"):
        name = _REGISTERS.get(text[1:], (text, 0))[0]

        def register(state: State, value: int | None) -> None:
            old = 0 if bits >= 32 else state.values.get(name)
            known = value is not None and old is not None
            state.put(name, (old & ~mask) | (value & mask) if known else None)  # type: ignore[operator]

        return register
    address = _address(text, following)
    return lambda state, value: state.store(address(state), None if value is None else value & mask)


def _move(bits: int, operands: tuple[str, ...], following: int) -> Action:
    read, write = _reader(operands[0], bits, following), _writer(operands[-1], bits, following)
    return lambda state: write(state, read(state))


def _extended(
    source: int, target: int, with_sign: bool, operands: tuple[str, ...], following: int
) -> Action:
    read, write = _reader(operands[0], source, following), _writer(operands[1], target, following)
    mask = -1 if with_sign else (1 << source) - 1

    def act(state: State) -> None:
        value = read(state)
        write(state, None if value is None else value & mask)

    return act


def _arithmetic(name: str, bits: int, operands: tuple[str, ...], following: int) -> Action:
    if name in ("cmp", "test"):
        return _comparison(name, bits, operands, following)
    write = _writer(operands[-1], bits, following)
    last = _reader(operands[-1], bits, following)
    if name in ("inc", "dec", "neg", "not"):
        left = {"inc": 1, "dec": -1, "neg": 0, "not": -1}[name]
        operation = "add" if name in ("inc", "dec") else "sub"
        first: Reader = lambda _: left  # noqa: E731
    elif len(operands) == 1:
        one = name in ("shl", "sal", "sar", "shr")
        if not one:
            return _lost(("rax", "rdx"))
        operation, first = _BINARY[name], last
        last = lambda _: 1  # noqa: E731
    else:
        operation, first = _BINARY[name], last
        if len(operands) == 3:
            first = _reader(operands[1], bits, following)
        shifts = operation in ("left", "right")
        last = _reader(operands[0], 8 if shifts else bits, following)
    same = name in ("xor", "sub") and len(operands) == 2 and operands[0] == operands[1]
    mask = (1 << bits) - 1 if name == "shr" else -1

    def act(state: State) -> None:
        left_value, right = first(state), last(state)
        if left_value is not None:
            left_value &= mask
        result = 0 if same else combine(operation, left_value, right)
        write(state, result)
        if name == "sub" and not same:
            state.compare(left_value, right, bits)
        elif name != "not":
            state.compare(result, 0, bits)

    return act


def _lost(names: tuple[str, ...]) -> Action:
    def act(state: State) -> None:
        for name in names:
            state.put(name, None)
        state.compared = None

    return act


def _comparison(name: str, bits: int, operands: tuple[str, ...], following: int) -> Action:
    right, left = (_reader(o, bits, following) for o in operands)
    if name == "cmp":
        return lambda state: state.compare(left(state), right(state), bits)

    def act(state: State) -> None:
        state.compare(combine("and", left(state), right(state)), 0, bits)

    return act


def _special(name: str, operands: tuple[str, ...], following: int, bits: int) -> Action:
    word = bits // 8
    if name.startswith("lea") and name != "leave":
        address = _address(operands[0], following)
        write = _writer(operands[1], _REGISTERS[operands[1][1:]][1], following)
        return lambda state: write(state, address(state))
    if name == "push":
        read = _reader(operands[0], bits, following)

        def push(state: State) -> None:
            value = read(state)
            state.put("rsp", combine("sub", state.values.get("rsp"), word))
            state.store(state.values.get("rsp"), value)

        return push
    if name == "cltq":
        return _extended(32, 64, True, ("%eax", "%rax"), following)
    target = "rbp" if name == "leave" else _REGISTERS[operands[0][1:]][0]

    def pop(state: State) -> None:
        if name == "leave":
            state.put("rsp", state.values.get("rbp"))
        top = state.values.get("rsp")
        state.put(target, state.load(top, bits))
        state.put("rsp", combine("add", top, word))

    return pop


def _conditional(name: str, operands: tuple[str, ...], following: int, bits: int) -> Action | None:
    sets = name.startswith("set")
    wanted = _CONDITIONS.get(name[3:] if sets else name[4:])
    width = 8 if sets else _width("", operands, bits)
    write = _writer(operands[-1], width, following)
    read = _reader(operands[0], width, following)
    old = _reader(operands[-1], width, following)

    def act(state: State) -> None:
        holds = state.holds(wanted) if wanted else None
        if sets:
            write(state, None if holds is None else int(holds))
        elif holds is None:
            write(state, None)
        else:
            write(state, read(state) if holds else old(state))

    return act


assert set(_BINARY.values()) <= set(BINARY)
