"""The interface of a network, as its shared library declares it and loading programs expect it.

Both are read from the text of the header, so they cannot differ from it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cannery.ctext.environment import render

if TYPE_CHECKING:
    from cannery.emit.source import Source

#: What the processor must have if compilers define a macro, in the terms of
#: `__builtin_cpu_supports` and of Linux. `cannery/loader.h` uses the latter.
NEEDS = {
    "__SSE2__": "sse2", "__SSE3__": "sse3", "__SSSE3__": "ssse3", "__SSE4_1__": "sse4.1",
    "__SSE4_2__": "sse4.2", "__POPCNT__": "popcnt", "__AVX__": "avx", "__FMA__": "fma",
    "__AVX2__": "avx2", "__BMI__": "bmi", "__BMI2__": "bmi2", "__AVX512F__": "avx512f",
    "__AVX512VL__": "avx512vl", "__AVX512BW__": "avx512bw", "__AVX512DQ__": "avx512dq",
    "__AVX512VNNI__": "avx512vnni",
    "__ARM_NEON && __aarch64__": "asimd", "__ARM_FEATURE_DOTPROD": "asimddp",
    "__ARM_FEATURE_MATMUL_INT8": "i8mm", "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC": "bf16",
    "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC": "asimdhp", "__ARM_FEATURE_SVE": "sve",
    "__ARM_NEON && __arm__": "neon", "__ARM_FEATURE_FMA && __arm__": "vfpv4",
    "__riscv_v": "v",
}  # fmt: skip

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_NUMBERS = re.compile(
    r"^#define \w+_(?:BYTES|ALIGN|LENGTH|LEN|RANK|DIMS|SCALE|POINT)\b.*$", re.MULTILINE
)
_FUNCTION = re.compile(r"^(?:[A-Z0-9_]+_API )?((?:const )?\w+ \*?)(\w+)\((.*)\);$", re.MULTILINE)


@dataclass(frozen=True)
class Function:
    """A function of the header; `member` is its name without the network's."""

    result: str
    name: str
    member: str
    parameters: str


def public_functions(source: Source, header: str) -> tuple[Function, ...]:
    """The functions that a header declares."""
    code = _COMMENT.sub("", header)
    return tuple(
        Function(result.strip(), name, name.removeprefix(f"{source.name}_"), parameters)
        for result, name, parameters in _FUNCTION.findall(code)
    )


def interface_hash(header: str) -> str:
    """Sixteen hex digits that change with everything a program compiles in: sizes and functions."""
    code = _COMMENT.sub("", header)
    enums = re.findall(r"^enum \{.*?\};", code, re.MULTILINE | re.DOTALL)
    told = [
        *_NUMBERS.findall(code),
        *enums,
        *(f"{f[0].strip()} {f[1]}({f[2]})" for f in _FUNCTION.findall(code)),
    ]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def condition(macros: str) -> str:
    """`defined(__arm__) && ...` of the macros of a row of NEEDS."""
    return " && ".join(f"defined({macro})" for macro in macros.split(" && "))


def render_header(source: Source, *, part: bool) -> str:
    """The text of `<name>.h`; a `part` is one instruction set of several in a library."""
    return render("emit/header.h.j2", s=source, up=source.name.upper(), part=part)


def render_static(source: Source) -> str:
    """The text of `<name>_static.c`."""
    needs = [(condition(macros), word) for macros, word in NEEDS.items()]
    digest = interface_hash(render_header(source, part=False)) if source.shared else ""
    return render(
        "emit/static.c.j2", s=source, up=source.name.upper(), needs=needs, interface_hash=digest
    )


def loader_texts(source: Source) -> dict[str, str]:
    """`<name>_loader.h`, of a shared library."""
    if not source.shared:
        return {}
    header = render_header(source, part=False)
    text = render(
        "emit/loader.h.j2", s=source, up=source.name.upper(), interface_hash=interface_hash(header),
        functions=public_functions(source, header),
    )  # fmt: skip
    return {f"{source.name}_loader.h": text}
