"""x86 instructions in AT&T syntax: SSE, AVX, AVX-512 and x87; the destination comes last."""

from __future__ import annotations

import re

from cannery.analysis.disassembly import Instruction
from cannery.analysis.kinds import Branch, Effect, Kind

#: Registers that hold the stack pointer.
STACK = frozenset({"%rsp", "%esp"})

_MULTIPLY = re.compile(
    r"v?(mul|dp)[ps][sd]|vfn?m(add|sub|addsub|subadd)\d*[ps][sd]|v?pm(ul|add)\w+|vpdp\w+|fi?mulp?[sl]?"
)
_ADD = re.compile(
    r"v?(add|sub|max|min|hadd|hsub|addsub)[ps][sd]|v?p(add|sub|max|min|abs|hadd|hsub)\w+"
    r"|fi?(add|sub)r?p?[sl]?"
)
_SHUFFLE = re.compile(
    r"v?(shuf|unpck|pshuf|punpck|palignr|insert|extract|perm|p?blend|p?broadcast|movlh|movhl"
    r"|movs[hl]dup|movddup|pinsr|pextr|pack|align|p?expand|p?compress|pmov[sz]x|psl?r?ldq)\w*"
)
_VECTOR_MOVE = re.compile(
    r"v?mov([au]p[sd]|dq[au](8|16|32|64)?|s[sd]|[dq]|[lh]p[sd]|nt\w+)|kmov[bwdq]|v?lddqu|vmaskmov\w+"
)
#: Broadcasts and other forms that a load does on its own.
_LOADED = re.compile(r"v?(movs[hl]dup|movddup|p?broadcast\w+|pmov[sz]x\w+|p?expand\w+)")
_STORING = re.compile(
    r"v?mov\w*|set\w+|v?extract\w+|v?pextr\w+|fn?i?st\w*|kmov\w|vp?compress\w+|vp?scatter\w+"
    r"|vp?maskmov\w+|vpmov\w+|vcvtps2ph|fn?stcw|fn?stsw"
)
_READING = re.compile(
    r"cmp[bwlq]?|test[bwlq]?|v?u?comis[sd]|bt[lq]?|k?ortest\w+|f\w+|i?(mul|div)[lq]"
)
_NO_ACCESS = re.compile(r"lea[lq]?|nop[wlq]?|prefetch\w+|push\w?|pop\w?|call[lq]?|jmp[lq]?")
_NO_WRITE = re.compile(
    r"cmp[bwlq]?|test[bwlq]?|v?u?comis[sd]|push\w?|j\w+|call[lq]?|nop[wlq]?|ret[lq]?"
)
_MEMORY = re.compile(r"\((%\w+)?")
_REGISTER = re.compile(r"%(?:st(?:\(\d\))?|\w+)$")
_VECTOR = re.compile(r"%([xyz])mm\d+")
_WIDTHS = {"x": 4, "y": 8, "z": 16}


def branch_kind(instruction: Instruction) -> Branch:
    """How the instruction directs control."""
    name = instruction.mnemonic
    if name.startswith("call"):
        return Branch.CALL
    if name.startswith("ret") or name in ("ud2", "hlt"):
        return Branch.AWAY
    if name.startswith("jmp"):
        return Branch.AWAY if instruction.target is None else Branch.ALWAYS
    return Branch.MAYBE if name.startswith("j") else Branch.NONE


def effect(instruction: Instruction) -> Effect:
    """What the instruction does."""
    name = instruction.mnemonic
    operands = [re.sub(r"\{[^}]*\}", "", o) for o in instruction.operands]
    if branch_kind(instruction) is not Branch.NONE:
        return Effect(Kind.BRANCH)
    memory = [_MEMORY.search(o) for o in operands]
    loads, stores = _accesses(name, memory)
    base = next((m[1] or "" for m in memory if m), "")
    vectors = [m[1] for o in operands if (m := _VECTOR.match(o))]
    writes = () if _NO_WRITE.fullmatch(name) or not operands else _written(operands[-1])
    return Effect(
        _kind(name, loads, stores, bool(vectors)), loads, stores,
        base if loads or stores else "", bool(vectors), _lanes(name, vectors), writes,
        _address_of(name, operands),
    )  # fmt: skip


def _accesses(name: str, memory: list[re.Match[str] | None]) -> tuple[int, int]:
    """Loads and stores; an operand in memory at the end may be either or both."""
    if _NO_ACCESS.fullmatch(name) or not any(memory):
        return 0, 0
    if memory[-1] is None:
        return 1, 0
    if _STORING.fullmatch(name) and not name.startswith(("fild", "fld")):
        return 0, 1
    return (1, 0) if _READING.fullmatch(name) else (1, 1)


def _kind(name: str, loads: int, stores: int, on_vectors: bool) -> Kind:
    if _MULTIPLY.fullmatch(name):
        return Kind.MULTIPLY
    if _ADD.fullmatch(name):
        return Kind.ADD
    if stores and not loads:
        return Kind.STORE
    if loads and (_LOADED.fullmatch(name) or name.startswith(("mov", "vmov", "fld", "fild"))):
        return Kind.LOAD
    if loads and (_VECTOR_MOVE.fullmatch(name) or "gather" in name):
        return Kind.LOAD
    if _SHUFFLE.fullmatch(name):
        return Kind.SHUFFLE
    return Kind.MOVE if on_vectors and _VECTOR_MOVE.fullmatch(name) else Kind.OTHER


def _lanes(name: str, vectors: list[str]) -> int:
    """Elements of 32 bits, or the doubles of the scalar and packed forms."""
    if not vectors or name.endswith(("ss", "sd")):
        return 1
    width = max(_WIDTHS[v] for v in vectors)
    return width // 2 if name.endswith("pd") else width


def _written(operand: str) -> tuple[str, ...]:
    return (operand,) if _REGISTER.match(operand) else ()


def _address_of(name: str, operands: list[str]) -> str:
    """The register of `mov %rsp,%rbp` and of `lea 8(%rsp),%rax`; "" for anything else."""
    if len(operands) == 2 and re.fullmatch(r"mov[lq]?", name) and operands[0].startswith("%"):
        return operands[0]
    found = re.fullmatch(r"-?\w*\((%\w+)\)", operands[0]) if operands else None
    return found[1] if found and re.fullmatch(r"lea[lq]?", name) else ""
