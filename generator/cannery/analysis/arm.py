"""Arm instructions, A32, T32 and A64, with VFP and NEON; the destination comes first."""

from __future__ import annotations

import re

from cannery.analysis.disassembly import Instruction
from cannery.analysis.kinds import Branch, Effect, Kind

#: Registers that hold the stack pointer.
STACK = frozenset({"sp", "wsp"})

_CONDITION = "eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
_MAYBE = re.compile(
    rf"b({_CONDITION})(\.[nw])?|b\.\w\w|cbn?z|tbn?z|b\.(any|none|first|nlast)|(le|wls)(tp)?(\.\d+)?"
)
_ALWAYS = re.compile(r"b(al)?(\.[nw])?")
_CALL = re.compile(rf"(bl|blx|blr)({_CONDITION})?(\.w)?")
_AWAY = re.compile(r"br|bxj?|ret|tb[bh]|udf|brk")
_RETURNS = re.compile(r"pop(\.w)?|ldmia(\.w)?|ldmfd|ldr(\.w)?")

_MULTIPLY = re.compile(
    r"f(n?mul|mulx|mlal?2?|mlsl?2?|n?madd|n?msub)|[su]?q?r?d?m(ul|la|ls|lal|lsl|ull)h?2?|[su]dot"
    r"|f?n?m(ul|la|ls)|fn?m[as]|[su]?mm?la"
)
_ADD = re.compile(
    r"f?(add|sub|max|min|maxnm|minnm|abs|neg|abd)[plvw]*2?|[su]q?r?h?(add|sub|max|min|abd)[plvw]*2?"
    r"|q?(add|sub|abs|neg)[lw]?|p(add|max|min)l?"
)
_SHUFFLE = re.compile(r"dup|ext|(zip|uzp|trn)[12]?|rev(16|32|64)|tb[lx]|ins|swp")
_MOVE = re.compile(r"mov|fmov|orr")
_VECTOR = re.compile(r"(?:v\d+\.\d*[bhsdq]|[vqdsbh]\d+)")
_ACCESS = re.compile(r"(v?ld|v?st)(?!c)\w*")
_NO_WRITE = re.compile(rf"cmp|cmn|tst|teq|v?cmpe?|it[te]*|push|vpush|nop|({_MAYBE.pattern})")


def branch_kind(instruction: Instruction) -> Branch:
    """How the instruction directs control."""
    name = instruction.mnemonic
    if _CALL.fullmatch(name):
        return Branch.CALL
    if _AWAY.fullmatch(name) or (_RETURNS.fullmatch(name) and _loads_pc(instruction)):
        return Branch.AWAY
    if _ALWAYS.fullmatch(name):
        return Branch.ALWAYS
    return Branch.MAYBE if _MAYBE.fullmatch(name) else Branch.NONE


def _loads_pc(instruction: Instruction) -> bool:
    operands = instruction.operands
    listed = operands and operands[-1].startswith("{") and re.search(r"\bpc\b", operands[-1])
    return bool(listed) or (instruction.mnemonic.startswith("ldr") and operands[:1] == ("pc",))


def effect(instruction: Instruction) -> Effect:
    """What the instruction does."""
    operands = instruction.operands
    if branch_kind(instruction) is not Branch.NONE:
        return Effect(Kind.BRANCH)
    on_vectors = any(_VECTOR.match(o.lstrip("{")) for o in operands)
    stem = _stem(instruction.mnemonic)
    if _ACCESS.fullmatch(stem) and operands:
        return _access(instruction, stem, on_vectors)
    kind = _kind(stem, operands) if on_vectors else Kind.OTHER
    writes = () if _NO_WRITE.fullmatch(stem) else operands[:1]
    return Effect(
        kind, on_vectors=on_vectors, lanes=_lanes(instruction.mnemonic, operands), writes=writes,
        copies=_address_of(stem, operands),
    )  # fmt: skip


def _stem(mnemonic: str) -> str:
    """The mnemonic: `vmlaeq.f32` gives `vmlaeq`, `ldr.w` gives `ldr`."""
    return mnemonic.split(".")[0]


def _kind(stem: str, operands: tuple[str, ...]) -> Kind:
    """The kind of an instruction on vector registers; Arm v7 writes a v before it."""
    name = re.sub(rf"({_CONDITION})$", "", stem[1:]) if stem.startswith("v") else stem
    if _MULTIPLY.fullmatch(name):
        return Kind.MULTIPLY
    if _ADD.fullmatch(name):
        return Kind.ADD
    if _SHUFFLE.fullmatch(name):
        return Kind.SHUFFLE
    if not _MOVE.fullmatch(name):
        return Kind.OTHER
    if name == "orr":
        same = len(operands) == 3 and operands[1] == operands[2]
        return Kind.MOVE if same else Kind.OTHER
    if any("[" in o for o in operands) or len(operands) == 3:
        return Kind.SHUFFLE
    return Kind.MOVE if all(_VECTOR.match(o) for o in operands) else Kind.OTHER


def _lanes(mnemonic: str, operands: tuple[str, ...]) -> int:
    """Elements of the first operand: `v0.4s`, or `q0` with the size after the mnemonic."""
    first = operands[0] if operands else ""
    if found := re.match(r"v\d+\.(\d+)", first):
        return int(found[1])
    size = re.search(r"\.[a-z]+(\d+)", mnemonic)
    bits = {"q": 128, "d": 64}.get(first[:1], 0)
    return max(bits // int(size[1]), 1) if size and bits else 1


def _access(instruction: Instruction, stem: str, on_vectors: bool) -> Effect:
    """Loads and stores, of one register, a pair or a list; `ldm` and `stm` name the base first."""
    operands = instruction.operands
    at = next((k for k, o in enumerate(operands) if o.startswith("[")), -1)
    listed = next((o for o in operands if o.startswith("{")), "")
    base = operands[at].lstrip("[") if at >= 0 else operands[0] if listed else ""
    base = re.split(r"[\s,:\]!]", base)[0]
    data = operands[:at] if at > 0 else operands[:1]
    count = _vectors(
        stem, len(listed_registers(listed)) if listed else len(data), listed or data[0]
    )
    moved = (base,) if _moves_base(instruction) else ()
    if stem.lstrip("v").startswith("st"):
        return Effect(Kind.STORE, 0, count, base, on_vectors, writes=moved)
    writes = moved if listed else (*data, *moved)
    return Effect(Kind.LOAD, count, 0, base, on_vectors, writes=writes)


def _moves_base(instruction: Instruction) -> bool:
    """Whether the address register is changed: `[r0]!`, `[x0], #16`, `r0!`."""
    place = [k for k, o in enumerate(instruction.operands) if o.startswith("[")]
    behind = bool(place) and place[0] + 1 < len(instruction.operands)
    return behind or any(o.endswith("!") for o in instruction.operands)


def listed_registers(listed: str) -> list[str]:
    """The registers of `{d0-d3}`, `{r4, lr}` or `{v0.4s, v1.4s}`, without their lanes."""
    plain = re.sub(r"\.\d*[bhsd]|\[\d*\]", "", listed.strip("{}"))
    found: list[str] = []
    for part in (text.strip() for text in plain.split(",")):
        span = re.fullmatch(r"([a-z])(\d+)\s*-\s*[a-z](\d+)", part)
        if span:
            found += [f"{span[1]}{k}" for k in range(int(span[2]), int(span[3]) + 1)]
        else:
            found.append(part)
    return found


def _vectors(stem: str, count: int, first: str) -> float:
    """Registers moved; a d register of Arm v7 is half of one."""
    halves = stem.startswith("v") and first.lstrip("{").startswith("d")
    return count / 2 if halves else count


def _address_of(stem: str, operands: tuple[str, ...]) -> str:
    """The register of `mov r7, sp` and `add r2, sp, #16`; "" for anything else."""
    if stem == "mov" and len(operands) == 2:
        return operands[1]
    constant = len(operands) == 3 and operands[2].startswith("#")
    return operands[1] if stem in ("add", "sub", "addw", "subw") and constant else ""
