"""Integer instructions of Arm, A32, T32 and A64, as actions on a `State`."""

from __future__ import annotations

import re

from cannery.analysis import arm
from cannery.analysis.disassembly import Instruction
from cannery.analysis.integers import Action, Condition, Reader, State, combine, signed
from cannery.analysis.integers_arm_memory import access, moving
from cannery.analysis.integers_arm_operands import (
    CONDITIONS,
    canonical,
    constant_of,
    forget,
    put,
    reader,
    shifted,
    width_of,
    with_place,
)

_SUFFIX = "|".join((*CONDITIONS, "vs", "vc", "al"))

_BINARY = {
    "add": "add", "addw": "add", "sub": "sub", "subw": "sub", "rsb": "rsub", "mul": "mul",
    "and": "and", "orr": "or", "eor": "xor", "bic": "clear",
    "lsl": "left", "lsr": "right", "asr": "right",
}  # fmt: skip
_WORDS = (
    "mov|movw|movt|movz|movk|movn|mvn|neg|cmp|cmn|tst|mla|mls|madd|msub|[su]m(?:add|sub|ul)l|adr|adrp"
    "|sbfiz|ubfiz|clz|sxtw|uxtw|sxth|uxth|sxtb|uxtb|" + "|".join(_BINARY)
)
_NAME = re.compile(rf"({_WORDS})(s?)({_SUFFIX})?")
_SELECT = re.compile(r"cset|csetm|csel|csinc|cinc|csneg|csinv")
_ACCESS = re.compile(
    rf"(ldr|str|ldp|stp|ldrd|strd|ldrsw|ldur|stur|push|pop|stmdb|stmia|stm|ldmia|ldm)({_SUFFIX})?"
)


def condition(instruction: Instruction) -> Condition | None:
    """What a conditional branch tests; None where that is no comparison of integers."""
    name = instruction.mnemonic.removesuffix(".n").removesuffix(".w")
    if name in ("cbz", "cbnz"):
        return CONDITIONS["eq" if name == "cbz" else "ne"]
    return CONDITIONS.get(name.removeprefix("b").removeprefix("."))


def action(instruction: Instruction, following: int, bits: int) -> Action | None:
    """What an instruction, before one at `following`, does; None: nothing that matters."""
    name = re.sub(r"\.[nw]$", "", instruction.mnemonic)
    operands = tuple(with_place(o, instruction.address) for o in instruction.operands)
    if name in ("cbz", "cbnz"):
        read, width = reader(operands[0], bits), width_of(operands[0], bits)
        return lambda state: state.compare(read(state), 0, width)
    if name in ("tbz", "tbnz"):
        return forget((), flags=True)
    if name == "ccmp" and len(operands) == 4:
        return _chained(operands, bits)
    if _SELECT.fullmatch(name):
        return _select(name, operands, bits)
    on_vectors = any(arm._VECTOR.match(o.lstrip("{")) for o in operands)
    if (found := _ACCESS.fullmatch(name)) and not on_vectors:
        return _predicated(found[2], access(found[1], operands, bits), operands)
    if (found := _NAME.fullmatch(name)) and not on_vectors:
        act = _arithmetic(found[1], operands, bits, sets_flags=bool(found[2]))
        return _predicated(found[3], act, operands)
    return _other(instruction, name, operands, bits)


def _nothing(state: State) -> int | None:
    return None


def _predicated(suffix: str | None, act: Action, operands: tuple[str, ...]) -> Action:
    """An instruction of A32 and T32 that is executed under a condition."""
    if not suffix or suffix == "al":
        return act
    wanted = CONDITIONS.get(suffix)
    name = canonical(operands[0])

    def maybe(state: State) -> None:
        holds = state.holds(wanted) if wanted else None
        if holds:
            act(state)
        elif holds is None:
            state.put(name, None)

    return maybe


def _arithmetic(name: str, operands: tuple[str, ...], bits: int, *, sets_flags: bool) -> Action:
    if name in ("cmp", "cmn", "tst"):
        return _comparison(name, operands, bits)
    target, width = operands[0], width_of(operands[0], bits)
    value = _value(name, operands, bits)
    left = reader(operands[1], bits) if len(operands) > 2 else reader(target, bits)
    right = shifted(operands[2:] if len(operands) > 2 else operands[1:], bits)
    subtracts = name in ("sub", "subw") and sets_flags

    def act(state: State) -> None:
        result = value(state)
        if subtracts:
            state.compare(left(state), right(state), width)
        elif sets_flags:
            state.compare(result, 0, width)
        put(state, target, result, bits)

    return act


def _value(name: str, operands: tuple[str, ...], bits: int) -> Reader:
    """What an arithmetic instruction computes."""
    if name in _BINARY:
        three = len(operands) > 2 and not re.match(r"[lau]s[lr]\b|[su]xt", operands[2])
        left = reader(operands[1] if three else operands[0], bits)
        right = shifted(operands[2:] if three else operands[1:], bits)
        unsigned = (1 << width_of(operands[0], bits)) - 1 if name == "lsr" else -1
        operation = _BINARY[name]

        def binary(state: State) -> int | None:
            first = left(state)
            return combine(operation, None if first is None else first & unsigned, right(state))

        return binary
    if re.fullmatch(r"ml[as]|[su]?m(add|sub)l?", name) and len(operands) == 4:
        return _multiply_add(name, operands, bits)
    if name in ("smull", "umull"):
        # Of two halves (A32) only the lower one is followed, and that only if there is no other.
        return _multiply_add("madd", (*operands, "#0"), bits) if len(operands) == 3 else _nothing
    if name in ("movk", "movt"):
        return _inserted(operands, bits, 16 if name == "movt" else 0)
    if name in ("sbfiz", "ubfiz"):
        return _field(name, operands, bits)
    if name in ("adr", "adrp"):
        found = re.match(r"(?:0x)?([0-9a-f]+)", operands[1])
        return lambda _: int(found[1], 16) if found else None
    return _moved(name, operands, bits)


def _moved(name: str, operands: tuple[str, ...], bits: int) -> Reader:
    """Moves, negations and extensions."""
    read = shifted(operands[1:], bits)
    if name in ("mvn", "movn"):
        return lambda state: combine("sub", -1, read(state))
    if name == "neg":
        return lambda state: combine("sub", 0, read(state))
    if name == "clz":
        return lambda state: _leading_zeros(read(state), width_of(operands[1], bits))
    if name[1:3] != "xt":
        return read
    kept = {"w": 32, "h": 16, "b": 8}[name[3]]

    def extended(state: State) -> int | None:
        value = read(state)
        if value is None:
            return None
        return signed(value, kept) if name[0] == "s" else value & ((1 << kept) - 1)

    return extended


def _leading_zeros(value: int | None, bits: int) -> int | None:
    return None if value is None else bits - (value & ((1 << bits) - 1)).bit_length()


def _multiply_add(name: str, operands: tuple[str, ...], bits: int) -> Reader:
    first, second, third = (reader(o, bits) for o in operands[1:])
    operation = "add" if "add" in name or name == "mla" else "sub"

    def value(state: State) -> int | None:
        return combine(operation, third(state), combine("mul", first(state), second(state)))

    return value


def _inserted(operands: tuple[str, ...], bits: int, shift: int) -> Reader:
    """`movt` and `movk`: sixteen bits of a register are replaced."""
    old, part = reader(operands[0], bits), constant_of(operands[1])
    if len(operands) > 2:
        shift = constant_of(operands[2].split()[-1]) or 0

    def value(state: State) -> int | None:
        before = old(state)
        if before is None or part is None:
            return None
        return (before & ~(0xFFFF << shift)) | part << shift

    return value


def _field(name: str, operands: tuple[str, ...], bits: int) -> Reader:
    """`sbfiz`: the low bits of a register, moved up."""
    read = reader(operands[1], bits)
    shift, kept = (constant_of(o) or 0 for o in operands[2:4])

    def value(state: State) -> int | None:
        found = read(state)
        if found is None:
            return None
        part = signed(found, kept) if name == "sbfiz" else found & ((1 << kept) - 1)
        return part << shift

    return value


def _comparison(name: str, operands: tuple[str, ...], bits: int) -> Action:
    left, right = reader(operands[0], bits), shifted(operands[1:], bits)
    width = width_of(operands[0], bits)

    def act(state: State) -> None:
        first, second = left(state), right(state)
        if name == "tst":
            state.compare(combine("and", first, second), 0, width)
        else:
            state.compare(first, combine("sub", 0, second) if name == "cmn" else second, width)

    return act


def _chained(operands: tuple[str, ...], bits: int) -> Action:
    """`ccmp`: a comparison if a condition holds, else the flags of a constant."""
    left, right = reader(operands[0], bits), reader(operands[1], bits)
    flags, width = constant_of(operands[2]) or 0, width_of(operands[0], bits)
    wanted = CONDITIONS.get(operands[3])
    constant = 0 if flags & 4 else -1 if flags & 8 else 1

    def act(state: State) -> None:
        holds = state.holds(wanted) if wanted else None
        if holds is None:
            state.compared = None
        elif holds:
            state.compare(left(state), right(state), width)
        else:
            state.compare(constant, 0, width)

    return act


def _select(name: str, operands: tuple[str, ...], bits: int) -> Action:
    """`csel` and its relatives."""
    wanted = CONDITIONS.get(operands[-1])
    if name in ("cset", "csetm"):
        yes: Reader = lambda _: 1 if name == "cset" else -1  # noqa: E731
        no: Reader = lambda _: 0  # noqa: E731
    elif name == "cinc":
        no = reader(operands[1], bits)
        yes = lambda state: combine("add", no(state), 1)  # noqa: E731
    else:
        yes, other = reader(operands[1], bits), reader(operands[2], bits)
        no = {
            "csel": other,
            "csinc": lambda state: combine("add", other(state), 1),
            "csneg": lambda state: combine("sub", 0, other(state)),
            "csinv": lambda state: combine("sub", -1, other(state)),
        }[name]

    def act(state: State) -> None:
        holds = state.holds(wanted) if wanted else None
        put(state, operands[0], None if holds is None else (yes if holds else no)(state), bits)

    return act


def _other(
    instruction: Instruction, name: str, operands: tuple[str, ...], bits: int
) -> Action | None:
    """Vector loads and stores that move their address, and what is not followed."""
    known = arm.effect(instruction)
    if (known.base and known.base in known.writes) or name in ("vpush", "vpop"):
        return moving(name, operands, bits)
    names = tuple(filter(None, map(canonical, known.writes)))
    sets_flags = name == "vmrs" or name.startswith("fcmp")
    return forget(names, flags=sets_flags) if names or sets_flags else None
