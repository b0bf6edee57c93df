"""Integer instructions of Arm, A32, T32 and A64, as actions on a `State`."""

from __future__ import annotations

import re

from cannery.analysis import arm
from cannery.analysis.disassembly import Instruction
from cannery.analysis.integers import (
    Action,
    Condition,
    Reader,
    State,
    Test,
    combine,
    signed,
)

_CONDITIONS: dict[str, Condition] = {
    "eq": (Test.EQ, False), "ne": (Test.NE, False), "lt": (Test.LT, False),
    "ge": (Test.GE, False), "le": (Test.LE, False), "gt": (Test.GT, False),
    "mi": (Test.LT, False), "pl": (Test.GE, False),
    "cc": (Test.LT, True), "lo": (Test.LT, True), "cs": (Test.GE, True), "hs": (Test.GE, True),
    "ls": (Test.LE, True), "hi": (Test.GT, True),
}  # fmt: skip
_SUFFIX = "|".join((*_CONDITIONS, "vs", "vc", "al"))

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
_ACCESS = re.compile(rf"(ldr|str|ldp|stp|ldrd|strd|ldrsw|ldur|stur|push|pop|stmdb|stmia|stm|ldmia|ldm)({_SUFFIX})?")
_ALIASES = {
    "sb": "r9", "sl": "r10", "fp": "r11", "ip": "r12", "sp": "sp", "lr": "r14", "pc": "pc",
    "wsp": "sp", "xzr": "zero", "wzr": "zero",
}  # fmt: skip
_CORE = re.compile(r"[rwx]\d+|sb|sl|fp|ip|w?sp|lr|[wx]zr|pc")


def condition(instruction: Instruction) -> Condition | None:
    """What a conditional branch tests; None where that is no comparison of integers."""
    name = instruction.mnemonic.removesuffix(".n").removesuffix(".w")
    if name in ("cbz", "cbnz"):
        return _CONDITIONS["eq" if name == "cbz" else "ne"]
    return _CONDITIONS.get(name.removeprefix("b").removeprefix("."))


def action(instruction: Instruction, following: int, bits: int) -> Action | None:
    """What an instruction, before one at `following`, does; None: nothing that matters."""
    name = re.sub(r"\.[nw]$", "", instruction.mnemonic)
    operands = tuple(_with_place(o, instruction.address) for o in instruction.operands)
    if name in ("cbz", "cbnz"):
        read, width = _reader(operands[0], bits), _width(operands[0], bits)
        return lambda state: state.compare(read(state), 0, width)
    if name in ("tbz", "tbnz"):
        return _forget((), flags=True)
    if name == "ccmp" and len(operands) == 4:
        return _chained(operands, bits)
    if _SELECT.fullmatch(name):
        return _select(name, operands, bits)
    on_vectors = any(arm._VECTOR.match(o.lstrip("{")) for o in operands)
    if (found := _ACCESS.fullmatch(name)) and not on_vectors:
        return _predicated(found[2], _access(found[1], operands, bits), operands)
    if (found := _NAME.fullmatch(name)) and not on_vectors:
        act = _arithmetic(found[1], operands, bits, sets_flags=bool(found[2]))
        return _predicated(found[3], act, operands)
    return _other(instruction, name, operands, bits)


def _with_place(operand: str, address: int) -> str:
    """The address of an instruction of T32 for `pc`, which loads take from whole words."""
    if operand == "pc":
        return f"#{address + 4}"
    return re.sub(r"^\[pc\b", f"[#{(address + 4) & ~3}", operand)


def _canonical(text: str) -> str:
    """One name for `x3` and `w3`, for `fp` and `r11`."""
    if not _CORE.fullmatch(text):
        return ""
    return _ALIASES.get(text) or (f"x{text[1:]}" if text[0] == "w" else text)


def _width(text: str, bits: int) -> int:
    return 32 if text.startswith("w") else bits


def _constant(text: str) -> int | None:
    found = re.match(r"#(-?(?:0x)?[0-9a-fA-F]+)\b", text)
    return int(found[1], 0) if found else None


def _reader(text: str, bits: int) -> Reader:
    """The number of a register or constant, with sign."""
    if text.startswith("#"):
        value = _constant(text)
        return lambda _: value
    name, width = _canonical(text), _width(text, bits)
    if name == "zero":
        return lambda _: 0

    def register(state: State) -> int | None:
        found = state.get(name, width)
        return None if found is None else signed(found, width)

    return register


def _shifted(operands: tuple[str, ...], bits: int) -> Reader:
    """The last operand of an instruction, with the shift or extension written behind it."""
    if len(operands) < 2:
        return _reader(operands[0], bits)
    read, words = _reader(operands[0], bits), operands[1].split()
    amount = _constant(words[1]) if len(words) > 1 else 0
    if amount is None:
        return lambda _: None
    operation = "right" if words[0] in ("lsr", "asr") else "left"
    mask = 0xFFFF_FFFF if words[0] == "uxtw" else -1

    def shifted(state: State) -> int | None:
        value = read(state)
        return combine(operation, None if value is None else value & mask, amount)

    return shifted


def _nothing(state: State) -> int | None:
    return None


def _forget(names: tuple[str, ...], *, flags: bool) -> Action:
    def act(state: State) -> None:
        for name in names:
            state.put(name, None)
        if flags:
            state.compared = None

    return act


def _put(state: State, text: str, value: int | None, bits: int) -> None:
    name = _canonical(text)
    if name and name != "zero":
        width = _width(text, bits)
        state.put(name, None if value is None else value & ((1 << width) - 1))


def _predicated(suffix: str | None, act: Action, operands: tuple[str, ...]) -> Action:
    """An instruction of A32 and T32 that is executed under a condition."""
    if not suffix or suffix == "al":
        return act
    wanted = _CONDITIONS.get(suffix)
    name = _canonical(operands[0])

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
    target, width = operands[0], _width(operands[0], bits)
    value = _value(name, operands, bits)
    left = _reader(operands[1], bits) if len(operands) > 2 else _reader(target, bits)
    right = _shifted(operands[2:] if len(operands) > 2 else operands[1:], bits)
    subtracts = name in ("sub", "subw") and sets_flags

    def act(state: State) -> None:
        result = value(state)
        if subtracts:
            state.compare(left(state), right(state), width)
        elif sets_flags:
            state.compare(result, 0, width)
        _put(state, target, result, bits)

    return act


def _value(name: str, operands: tuple[str, ...], bits: int) -> Reader:
    """What an arithmetic instruction computes."""
    if name in _BINARY:
        three = len(operands) > 2 and not re.match(r"[lau]s[lr]\b|[su]xt", operands[2])
        left = _reader(operands[1] if three else operands[0], bits)
        right = _shifted(operands[2:] if three else operands[1:], bits)
        unsigned = (1 << _width(operands[0], bits)) - 1 if name == "lsr" else -1
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
    read = _shifted(operands[1:], bits)
    if name in ("mvn", "movn"):
        return lambda state: combine("sub", -1, read(state))
    if name == "neg":
        return lambda state: combine("sub", 0, read(state))
    if name == "clz":
        return lambda state: _leading_zeros(read(state), _width(operands[1], bits))
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
    first, second, third = (_reader(o, bits) for o in operands[1:])
    operation = "add" if "add" in name or name == "mla" else "sub"

    def value(state: State) -> int | None:
        return combine(operation, third(state), combine("mul", first(state), second(state)))

    return value


def _inserted(operands: tuple[str, ...], bits: int, shift: int) -> Reader:
    """`movt` and `movk`: sixteen bits of a register are replaced."""
    old, part = _reader(operands[0], bits), _constant(operands[1])
    if len(operands) > 2:
        shift = _constant(operands[2].split()[-1]) or 0

    def value(state: State) -> int | None:
        before = old(state)
        if before is None or part is None:
            return None
        return (before & ~(0xFFFF << shift)) | part << shift

    return value


def _field(name: str, operands: tuple[str, ...], bits: int) -> Reader:
    """`sbfiz`: the low bits of a register, moved up."""
    read = _reader(operands[1], bits)
    shift, kept = (_constant(o) or 0 for o in operands[2:4])

    def value(state: State) -> int | None:
        found = read(state)
        if found is None:
            return None
        part = signed(found, kept) if name == "sbfiz" else found & ((1 << kept) - 1)
        return part << shift

    return value


def _comparison(name: str, operands: tuple[str, ...], bits: int) -> Action:
    left, right = _reader(operands[0], bits), _shifted(operands[1:], bits)
    width = _width(operands[0], bits)

    def act(state: State) -> None:
        first, second = left(state), right(state)
        if name == "tst":
            state.compare(combine("and", first, second), 0, width)
        else:
            state.compare(first, combine("sub", 0, second) if name == "cmn" else second, width)

    return act


def _chained(operands: tuple[str, ...], bits: int) -> Action:
    """`ccmp`: a comparison if a condition holds, else the flags of a constant."""
    left, right = _reader(operands[0], bits), _reader(operands[1], bits)
    flags, width = _constant(operands[2]) or 0, _width(operands[0], bits)
    wanted = _CONDITIONS.get(operands[3])
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
    wanted = _CONDITIONS.get(operands[-1])
    if name in ("cset", "csetm"):
        yes: Reader = lambda _: 1 if name == "cset" else -1  # noqa: E731
        no: Reader = lambda _: 0  # noqa: E731
    elif name == "cinc":
        no = _reader(operands[1], bits)
        yes = lambda state: combine("add", no(state), 1)  # noqa: E731
    else:
        yes, other = _reader(operands[1], bits), _reader(operands[2], bits)
        no = {
            "csel": other,
            "csinc": lambda state: combine("add", other(state), 1),
            "csneg": lambda state: combine("sub", 0, other(state)),
            "csinv": lambda state: combine("sub", -1, other(state)),
        }[name]

    def act(state: State) -> None:
        holds = state.holds(wanted) if wanted else None
        _put(state, operands[0], None if holds is None else (yes if holds else no)(state), bits)

    return act


def _access(name: str, operands: tuple[str, ...], bits: int) -> Action:
    """Loads and stores of integer registers, with changes of the address."""
    if name in ("push", "pop"):
        return _several(name == "pop", "sp!", operands[0], upwards=name == "pop")
    if "ldm" in name or "stm" in name:
        return _several("ld" in name, *operands, upwards="db" not in name)
    at = next((k for k, o in enumerate(operands) if o.startswith("[")), len(operands))
    names = operands[:at]
    address, update = _address(operands[at:], bits)
    width = _width(names[0], bits) if names else bits
    loaded = 32 if name == "ldrsw" else width

    def act(state: State) -> None:
        place = address(state)
        for k, text in enumerate(names):
            here = combine("add", place, k * width // 8)
            if name.startswith("st"):
                state.store(here, _reader(text, bits)(state))
            else:
                value = state.load(here, loaded)
                known = value is not None and name == "ldrsw"
                _put(state, text, signed(value, 32) if known else value, bits)  # type: ignore[arg-type]
        update(state)

    return act


def _address(operands: tuple[str, ...], bits: int) -> tuple[Reader, Action]:
    """Where an access goes, and what becomes of the address register: `[x0, x1, lsl #2]`,
    `[x0, #16]!`, `[x0], #16`.
    """
    if not operands:
        return (lambda _: None), (lambda _: None)
    inside = [p.strip() for p in operands[0].strip("[]!").split(",")]
    name = _canonical(re.split(r"[\s:]", inside[0])[0])
    base = _reader(inside[0] if inside[0].startswith("#") else name, bits)
    more = _shifted(tuple(inside[1:]), bits) if len(inside) > 1 else (lambda _: 0)
    place: Reader = lambda state: combine("add", base(state), more(state))  # noqa: E731
    if operands[0].endswith("!"):
        return place, lambda state: state.put(name, place(state))
    if len(operands) > 1:
        after = _shifted(operands[1:], bits)
        return base, lambda state: state.put(name, combine("add", base(state), after(state)))
    return place, lambda _: None


def _several(loads: bool, base: str, listed: str, *, upwards: bool) -> Action:
    """Loads and stores of several core registers of A32 and T32, in rising order."""
    names = [_canonical(name) for name in arm.listed_registers(listed)]
    register = _canonical(base.rstrip("!"))
    size = 4 * len(names)

    def act(state: State) -> None:
        first = state.values.get(register)
        start = first if upwards else combine("sub", first, size)
        for k, each in enumerate(names):
            here = combine("add", start, 4 * k)
            if loads:
                state.put(each, state.load(here, 32))
            else:
                state.store(here, state.values.get(each))
        if base.endswith("!"):
            state.put(register, combine("add", start, size) if upwards else start)

    return act


def _other(
    instruction: Instruction, name: str, operands: tuple[str, ...], bits: int
) -> Action | None:
    """Vector loads and stores that move their address, and what is not followed."""
    known = arm.effect(instruction)
    if known.base and known.base in known.writes or name in ("vpush", "vpop"):
        return _moving(name, operands, bits)
    names = tuple(filter(None, map(_canonical, known.writes)))
    sets_flags = name == "vmrs" or name.startswith("fcmp")
    return _forget(names, flags=sets_flags) if names or sets_flags else None


def _moving(name: str, operands: tuple[str, ...], bits: int) -> Action:
    """The address register of `vld1.32 {d0-d3}, [r1]!`, `vldmia r1!, {d0-d3}`, `ldr q0, [x1], #16`."""
    if name in ("vpush", "vpop"):
        size = _list_bytes(operands[0]) * (-1 if name == "vpush" else 1)
        return lambda state: state.put("sp", combine("add", state.values.get("sp"), size))
    at = next((k for k, o in enumerate(operands) if o.startswith("[")), -1)
    if at < 0:
        base = _canonical(operands[0].rstrip("!"))
        size = _list_bytes(operands[1]) * (-1 if "db" in name else 1)
        return lambda state: state.put(base, combine("add", state.values.get(base), size))
    if operands[at].endswith("]!") and operands[0].startswith("{"):
        base = _canonical(re.split(r"[\s:\]]", operands[at].lstrip("["))[0])
        size = _list_bytes(operands[0], name)
        return lambda state: state.put(base, combine("add", state.values.get(base), size))
    return _address(operands[at:], bits)[1]


def _list_bytes(listed: str, name: str = "") -> int:
    """Bytes of `{d0-d3}`, `{s16-s31}`, `{q0}`; of single lanes as the name says: `vld1.32 {d0[0]}`."""
    count = len(arm.listed_registers(listed))
    if "[" in listed:
        found = re.search(r"\.(\d+)$", name)
        return count * (int(found[1]) // 8 if found else 4)
    return count * {"d": 8, "s": 4, "q": 16}.get(listed.strip("{} ")[:1], 8)
