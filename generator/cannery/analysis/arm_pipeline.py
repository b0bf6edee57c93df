"""A64 instructions as the pipeline of a processor sees them: registers, units, latencies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cannery.analysis.arm import branch_kind, listed_registers
from cannery.analysis.disassembly import Instruction
from cannery.analysis.inorder import Core, Operation
from cannery.analysis.kinds import Branch

_FLAGS = "nzcv"
_REGISTER = re.compile(r"\b([vqdshbxw])(\d+)\b|\b(w?sp)\b")
_WIDE = re.compile(r"v\d+\.(16b|8h|4s|2d)|q\d+")
_VECTOR = re.compile(r"v\d+\.\d*[bhsdq]|[qdshb]\d+$")
_GENERAL = re.compile(r"[xw](\d+|zr)$")
_ELEMENT = re.compile(r"v\d+\.[bhsd]\[\d+\]")

_SETS_FLAGS = re.compile(r"cmp|cmn|tst|fcmpe?|ccmp|ccmn|(add|sub|and|bic|ngc|sbc|adc|neg)s")
_ONLY_FLAGS = re.compile(r"cmp|cmn|tst|fcmpe?|ccmp|ccmn")
_READS_FLAGS = re.compile(r"b\..*|c(sel|set|setm|sinc|sinv|sneg|inc|inv|neg|cmp|cmn)|fcsel|adc|sbc")
_NOTHING = re.compile(r"nop|prfu?m|hint|yield|isb|dmb|dsb|bti|paciasp|autiasp")
_FMA = re.compile(r"f(mla|mls|madd|msub|nmadd|nmsub)l?2?")
_INTEGER_SUM = re.compile(
    r"[su]?q?r?d?(mlal|mlsl)2?|ml[as]|[su](adalp|aba|abal2?)|(us|su|[su])dot|(us|[su])mmla"
)
_INTEGER_PRODUCT = re.compile(r"[su]?q?r?d?(mull?2?|mulh)|sqr?dmulh")
_KEEPS = re.compile(
    r"[su]r?sra|s[lr]i|bsl|bit|bif|tbx|movk|bfi|bfxil|bfm|[su]?q?r?shr?u?n2|xtn2|addhn2|fcvtn2|bic|orr"
)
_ADDITION = re.compile(r"f(add|sub|abd|addp)")
_DIVIDE = re.compile(r"fdiv|fsqrt")
_MULTIPLY = re.compile(r"mul|madd|msub|mneg|[su]m(ull|addl|subl|ulh|negl)")

#: Latencies of floats, of a move from a general register, and to one.
_FLOAT, _INSERT, _EXTRACT = 4, 2, 4

#: Of general loads, and of loads of at most and of more than 64 bits into a vector.
_LOAD, _LOAD_64, _LOAD_128 = 3, 3, 4

#: By how many cycles a half that stays may arrive later: those of a load.
_KEPT = 3

#: Latency, and cycles for which a division of floats keeps its unit.
_DIVISION = {"s": (13, 10), "d": (22, 19)}
_BYTES = {"q": 16, "d": 8, "s": 4, "h": 2, "b": 1, "x": 8, "w": 4}


def operation(instruction: Instruction, core: Core) -> Operation:
    """What the pipeline has to know of one instruction."""
    name, operands = instruction.mnemonic, instruction.operands
    kind = branch_kind(instruction)
    if kind is not Branch.NONE:
        flags = (_FLAGS,) if name.startswith("b.") else ()
        reads = (*_registers(operands[:1] if name.startswith(("cb", "tb", "br", "blr")) else ()),)
        ends = kind is not Branch.MAYBE
        return Operation(operands=(*reads, *flags), branches=True, ends=ends)
    if _NOTHING.fullmatch(name) or not operands:
        return Operation(accesses=name.startswith("prf"), address=tuple(_registers(operands)))
    if any(o.startswith("[") for o in operands):
        return _access(name, operands, core)
    if any(_VECTOR.match(o) for o in operands):
        return _vector(name, operands, core)
    return _general(name, operands)


def _registers(operands: Sequence[str]) -> Iterator[str]:
    """The registers that operands name: `v3` for all its widths, `x3` for both."""
    for operand in operands:
        if operand.startswith("{"):
            names = listed_registers(operand)
            yield from (f"v{name[1:]}" for name in names)
            continue
        for found in _REGISTER.finditer(operand):
            kind = "x" if found[1] in ("x", "w") else "v"
            yield "sp" if found[3] else f"{kind}{found[2]}"


def _general(name: str, operands: Sequence[str]) -> Operation:
    """Integer arithmetic; its operands may come from the instruction beside it."""
    only_flags = bool(_ONLY_FLAGS.fullmatch(name))
    reads = list(_registers(operands if only_flags else operands[1:]))
    if _KEEPS.fullmatch(name):
        reads += _registers(operands[:1])
    if _READS_FLAGS.fullmatch(name):
        reads.append(_FLAGS)
    written = [] if only_flags else [*_registers(operands[:1])]
    if _SETS_FLAGS.fullmatch(name):
        written.append(_FLAGS)
    if name in ("udiv", "sdiv"):
        return Operation(reads=tuple(reads), writes=_after(written, 8), first=True)
    if _MULTIPLY.fullmatch(name):
        return Operation(reads=tuple(reads), writes=_after(written, 3), alone=True)
    return Operation(operands=tuple(reads), writes=_after(written, 1))


def _after(registers: Sequence[str], latency: int) -> tuple[tuple[str, int], ...]:
    return tuple((register, latency) for register in registers)


def _access(name: str, operands: Sequence[str], core: Core) -> Operation:
    """Loads and stores of one register, a pair, or a list."""
    at = next(k for k, o in enumerate(operands) if o.startswith("["))
    address = tuple(_registers([operands[at]]))
    moved = address[:1] if operands[at].endswith("!") or len(operands) > at + 1 else ()
    data = operands[:at]
    registers = tuple(_registers(data))
    vector = data[0][:1] not in ("x", "w")
    moves = _moved_bytes(data)
    address += tuple(_registers(operands[at + 1 :]))
    if name.startswith("st"):
        # 128 bits per cycle; what stores more, or interleaves, issues alone.
        cycles = max(-(-moves // 16), 1) * (2 if re.match(r"st[234]", name) else 1)
        halves = min(-(-moves // 8), 2) if vector else 0
        return Operation(
            address=address, data=_beats(registers, moves), moved=moved, cycles=cycles,
            alone=cycles > 1, halves=halves, accesses=True,
        )  # fmt: skip
    if not vector:
        cycles = max(-(-moves // 8), 1)
        return Operation(
            address=address, writes=_steps(registers, _LOAD, moves, 8), moved=moved, cycles=cycles,
            alone=len(registers) > 1, accesses=True,
        )  # fmt: skip
    return _vector_load(name, data, registers, address, moved, moves, core)


def _vector_load(
    name: str, data: Sequence[str], registers: tuple[str, ...], address: tuple[str, ...],
    moved: tuple[str, ...], moves: int, core: Core,
) -> Operation:  # fmt: skip
    """64 bits per cycle; what loads more issues alone."""
    element = "]" in data[0] or name.endswith("r")
    if element and not name.startswith("ldr"):
        return Operation(
            reads=registers if "]" in data[0] else (), address=address,
            writes=_after(registers, _LOAD_128), moved=moved, first=True, halves=2, accesses=True,
            cycles=len(registers), alone=len(registers) > 1, meets=True,
        )  # fmt: skip
    cycles = max(-(-moves // 8), 1)
    extra = 2 * len(registers) if re.match(r"ld[234]", name) else 0
    latency = _LOAD_128 if moves // max(len(registers), 1) > 8 else _LOAD_64
    return Operation(
        address=address, writes=_steps(registers, latency + extra, moves, 8), moved=moved,
        cycles=cycles, alone=cycles > 1, halves=core.load_halves, accesses=True, meets=True,
    )  # fmt: skip


def _steps(
    registers: Sequence[str], latency: int, moves: int, rate: int
) -> tuple[tuple[str, int], ...]:
    """Registers of a list arrive one after the other."""
    each = moves / max(len(registers), 1) / rate
    return tuple((r, latency + int(k * each)) for k, r in enumerate(registers))


def _beats(registers: Sequence[str], moves: int) -> tuple[tuple[str, int], ...]:
    """The cycle of a store in which each register goes."""
    each = moves / max(len(registers), 1) / 16
    return tuple((register, int(k * each)) for k, register in enumerate(registers))


def _moved_bytes(data: Sequence[str]) -> int:
    if not data[0].startswith("{"):
        return sum(_BYTES.get(o[0], 8) for o in data)
    count = len(listed_registers(data[0]))
    if element := re.search(r"\.([bhsd])\}?\[", data[0]):
        return count * _BYTES[element[1]]
    return count * (16 if _WIDE.search(data[0]) else 8)


def _vector(name: str, operands: Sequence[str], core: Core) -> Operation:
    """Arithmetic and moves of vector registers."""
    target, sources = operands[0], operands[1:]
    wide = any(_WIDE.match(o) for o in operands)
    if _ONLY_FLAGS.fullmatch(name):
        return Operation(reads=tuple(_registers(operands)), writes=((_FLAGS, _FLOAT),), halves=1)
    written, reads = tuple(_registers([target])), list(_registers(sources))
    if _READS_FLAGS.fullmatch(name):
        reads.append(_FLAGS)
    if _GENERAL.match(target):
        return Operation(reads=tuple(reads), writes=_after(written, _EXTRACT), halves=1)
    if any(_GENERAL.match(o) for o in sources) and not wide:
        # The half of a register that stays need not have arrived.
        kept = written if _ELEMENT.match(target) else ()
        return Operation(
            sums=kept, adds=_KEPT, data=_beats(reads, 0), writes=_after(written, _INSERT),
            halves=core.insert_halves,
        )  # fmt: skip
    if _DIVIDE.fullmatch(name):
        latency, busy = _DIVISION["d" if ".2d" in target or target[0] == "d" else "s"]
        times = 2 if wide else 1
        return Operation(
            reads=tuple(reads), writes=_after(written, latency + busy * (times - 1)), first=True,
            halves=2 if wide else 1, divides=busy * times,
        )  # fmt: skip
    sums, adds, latency = _sums(name, operands, core)
    if _KEEPS.fullmatch(name) or _ELEMENT.match(target):
        reads += written
    return Operation(
        reads=tuple(reads), sums=sums, adds=adds, writes=_after(written, latency), first=wide,
        halves=2 if wide else 1, meets=bool(_ADDITION.fullmatch(name)),
    )  # fmt: skip


def _sums(name: str, operands: Sequence[str], core: Core) -> tuple[tuple[str, ...], int, int]:
    """The registers that are added to, when they are read, and the latency of the result."""
    if _FMA.fullmatch(name):
        scalar = len(operands) == 4
        sums = tuple(_registers(operands[3:] if scalar else operands[:1]))
        return sums, core.fma_adds, core.fma
    if _INTEGER_SUM.fullmatch(name):
        return tuple(_registers(operands[:1])), core.product_adds, core.product
    if _INTEGER_PRODUCT.fullmatch(name):
        return (), 0, core.product
    floats = name.startswith(("f", "scvtf", "ucvtf")) and name != "fmov"
    return (), 0, _FLOAT if floats else core.integer
