"""Kernels in half precision: the code of a float32 kernel over the words of vec_half.h.

Kernels are written over the vocabulary, so `f32x8_fma` becomes `f16x8_fma`, `const float *` the
pointer to bits of float16, `const uint16_t *`, and every array of constants one of such bits. What
is not a vector, such as the factor of a mean, stays float32; it must not be read from memory. Code
that this module does not understand is an error, so no kernel can take bits for numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from cannery.ctext.tidy import tidy
from cannery.resources import runtime_include_dir
from cannery.schedule.schedule import ConstArray, Kernel

_COMMENT = re.compile(r"(/\*.*?\*/)", re.DOTALL)
_WORD = re.compile(r"\bf32x(\d+)(_\w+)?")
_ALIGNED = re.compile(r"(CANNERY_ASSUME_ALIGNED\(\w+, )(\d+)\)")
#: Single numbers are in the first of four lanes.
_SINGLE = {"_load": "_load1", "_store": "_store1"}
#: Scratch memory is of floats for all kernels.
_SCRATCH = re.compile(r"float \*CANNERY_RESTRICT scratch\b([^{]*)\{\n", re.DOTALL)
_HERE = "    uint16_t *const scratch = (uint16_t *)(void *)floats;\n"
#: Single floats: factors that are computed, and literals that become vectors or are arguments.
_FACTOR = re.compile(r"\bconst float \w+ = [^;\[]*;")
_NUMBER = r"(?:-?[\d.]+(?:e[-+]?\d+)?f|\(-?1\.0f / 0\.0f\))"
_LITERAL = re.compile(rf"_(?:set1|elu)\((?:\w+, )?{_NUMBER}\)")
#: Copies and zeros of so many numbers, before and after.
_FLOATS = re.compile(r"(\bmem(?:cpy|set)\([^;]* \* sizeof\()float\)\);")
_HALVES = re.compile(r"\bmem(?:cpy|set)\([^;]* \* sizeof\(uint16_t\)\);")
#: What must not be left: floats, integers of 32 lanes' bits, sizes in bytes.
_LEFT = re.compile(r"\bfloat\b|\d\.\d*(?:e[-+]?\d+)?f\b|\b[fim]32x\w*|\bmem(?:cpy|set)\b")


#: Words that have a form which converts; other ways to read and write memory.
_MOVED = re.compile(r"\b(f32x\d+_)(load1?|store)(?:_aligned)?(_n)?\(")
_UNMOVED = re.compile(r"\bf32x\d+_(?:load|store|gather)(?!1?_f16)\w*|\w+\[|\bmem(?:cpy|set)\b")


@cache
def half_words() -> frozenset[str]:
    """The words of vec_half.h, which are the same for both widths."""
    text = (runtime_include_dir() / "cannery" / "vec_half.h").read_text(encoding="utf-8")
    both = re.findall(r"\bT##_(\w+)\b(?!##)", text)
    functions = re.findall(r"^CANNERY_HALF_FUNCTION\d?\((\w+)\)", text, re.MULTILINE)
    by_lane = {f"fma_lane{k}" for k in range(4)}
    each = re.findall(r"\bf16x[48]_([a-z]\w+)", text)
    return frozenset([*both, *functions, *by_lane, *each])


def unknown_words(code: str) -> set[str]:
    """The words on floats in some code that half precision does not have."""
    return {word[1:] for _, word in _WORD.findall(code) if word} - half_words()


def with_half(kernel: Kernel) -> Kernel:
    """The same kernel in half precision. Raises ValueError for code that is not known here."""
    code = "".join(
        part if part.startswith("/*") else _retyped(part)
        for part in _COMMENT.split(tidy(kernel.code))
    )
    return replace(
        kernel,
        code=_with_scratch(code),
        constants=tuple(map(half_constant, kernel.constants)),
        scratch_bytes=-(-kernel.scratch_bytes // 128) * 64,
        needs_half=True,
    )


def with_half_memory(kernel: Kernel) -> Kernel:
    """The same kernel, which computes in float32, over values and constants in half precision.

    Loads convert, and stores round. Raises ValueError for code that is not known here.
    """
    if kernel.scratch_bytes:
        raise ValueError("scratch memory is of floats")
    code = "".join(
        part if part.startswith("/*") else _converting(part)
        for part in _COMMENT.split(tidy(kernel.code))
    )
    constants = tuple(map(half_constant, kernel.constants))
    return replace(kernel, code=code, constants=constants, needs_half=True)


def _converting(code: str) -> str:
    """Code whose loads and stores are the words that convert."""
    code = _MOVED.sub(r"\1\2_f16\3(", code).replace("float *", "uint16_t *")
    code = _ALIGNED.sub(lambda found: f"{found[1]}{int(found[2]) // 2})", code)
    left = _UNMOVED.search(code)
    if left:
        raise ValueError(f"values in half precision are not known in `{left[0]}`")
    return code


def _with_scratch(code: str) -> str:
    """The code whose functions see scratch memory as float16."""
    return _SCRATCH.sub(rf"float *CANNERY_RESTRICT floats\1{{\n{_HERE}", code)


def half_constant(constant: ConstArray) -> ConstArray:
    """The array with numbers as bits of float16; integers stay as they are."""
    if constant.values.dtype != np.float32:
        return constant
    with np.errstate(over="ignore"):
        values = constant.values.astype(np.float16)
    comment = f"{constant.comment}, bits of float16" if constant.comment else "bits of float16"
    return replace(constant, values=values, comment=comment)


def _retyped(code: str) -> str:
    unknown = unknown_words(code)
    if unknown:
        raise ValueError(f"half precision has no words {', '.join(sorted(unknown))}")
    kept: list[str] = []
    code = _FACTOR.sub(_keeper(kept), code)
    code = _WORD.sub(_half_word, code).replace("m32x1", "m16x4").replace("m32x", "m16x")
    code = re.sub(r"\bfloat \*(?!CANNERY_RESTRICT scratch)", "uint16_t *", code)
    code = re.sub(r"\bfloat (\w+\[)", r"uint16_t \1", code)
    code = _FLOATS.sub(r"\1uint16_t));", code)
    code = _ALIGNED.sub(lambda found: f"{found[1]}{int(found[2]) // 2})", code)
    bare = code.replace("float *CANNERY_RESTRICT scratch", "")
    left = _LEFT.search(_HALVES.sub("", _LITERAL.sub("", bare)))
    if left:
        line = bare[bare.rfind("\n", 0, left.start()) + 1 :].partition("\n")[0]
        raise ValueError(f"half precision is not known in `{line.strip()}`")
    for text in kept:
        code = code.replace("\0", text, 1)
    return code


def _half_word(found: re.Match[str]) -> str:
    lanes, word = found[1], found[2] or ""
    return f"f16x4{_SINGLE.get(word, word)}" if lanes == "1" else f"f16x{lanes}{word}"


def _keeper(kept: list[str]) -> Callable[[re.Match[str]], str]:
    """Replaces what it finds by a mark, and adds it to a list."""

    def keep(found: re.Match[str]) -> str:
        kept.append(found[0])
        return "\0"

    return keep
