"""Weights as float16: a kernel's arrays of weights, and in its code the pointers to them and the
loads.

Kernels are written for float32. Where the network stores their weights as float16, this module
gives the arrays and everything that points into them another type, and every load of them the word
that converts: `f32x8_load_aligned(wp + 8)` becomes `f32x8_load_f16(wp + 8)`. The rest of the code
stays as it is. Pointers are followed from the arrays through declarations, parameters and
assignments; a use that is not understood is an error, so no kernel can read bits of the wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cannery.ctext.tidy import tidy
from cannery.schedule.schedule import ConstArray, Job, Kernel, Schedule

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
#: The name of the function that begins in a line, and of one that is called.
_FUNCTION = re.compile(r"^(?:static|CANNERY_\w+) .*?(\w+)\(")
_CALL = re.compile(r"\b(\w+)\(")
_DECLARED = re.compile(r"const float \*(?:const )?(\w+) = ([^;]*);")
#: What may stand before the name of a pointer: what stays, and what is replaced.
_KEPT = re.compile(r"(?:CANNERY_OPAQUE_PTR|CANNERY_PREFETCH(?:_NEAR)?)\($")
_LOAD = re.compile(r"(f32x\d+_load1?)(?:_aligned)?(_n)?\($")
_HALVES = "const uint16_t *"
_DECLARES = re.compile(r"const float \*(const )?$")
_FROM = re.compile(r"const uint16_t \*(?:const )?\w+ = [^;]*$")
_ALIGNED = re.compile(r"(\w+) = \(const float \*\)CANNERY_ASSUME_ALIGNED\((\w+), (\d+)\);")


def make_kernel(schedule: Schedule, job: Job) -> Kernel:
    """The kernel of a job, with weights as float16 where the graph says so.

    Chains make the kernels of their parts with this function.
    """
    kernel = schedule.kernel(job)
    return with_halves(kernel) if job.stores_halves and not job.step.parts else kernel


def with_halves(kernel: Kernel) -> Kernel:
    """The same kernel with all arrays of weights as float16.

    Their numbers must be those of float16. Raises ValueError for code that uses weights in a way
    that is not known here.
    """
    names = [c.name for c in kernel.constants if c.is_weights]
    if not names:
        return kernel
    constants = tuple(_as_half(c) if c.is_weights else c for c in kernel.constants)
    return replace(kernel, constants=constants, code=_retyped(tidy(kernel.code), names))


def _as_half(constant: ConstArray) -> ConstArray:
    values = constant.values.astype(np.float16)
    if not np.array_equal(values.astype(np.float32), constant.values):
        raise ValueError(f"{constant.name} has numbers that float16 cannot hold")
    comment = f"{constant.comment}, bits of float16" if constant.comment else "bits of float16"
    return replace(constant, values=values, comment=comment)


@dataclass(frozen=True)
class _Function:
    """One function of tidy code, or the lines between two; `name` is empty then."""

    name: str
    text: str

    @property
    def body(self) -> int:
        """Where the body begins."""
        return self.text.find("\n{\n") if self.name else 0

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters."""
        head = _COMMENT.sub("", self.text[: self.body])
        listed = head[head.rfind(f"{self.name}(") + len(self.name) + 1 : head.rfind(")")]
        return [_NAME.findall(each)[-1] for each in listed.split(",")]


def _functions(code: str) -> Iterator[_Function]:
    lines, begin = code.splitlines(keepends=True), 0
    for k, line in enumerate(lines):
        if line.rstrip() == "}":
            text = "".join(lines[begin : k + 1])
            heads = [found[1] for each in text.splitlines() if (found := _FUNCTION.match(each))]
            yield _Function(heads[-1] if heads else "", text)
            begin = k + 1
    yield _Function("", "".join(lines[begin:]))


def _retyped(code: str, arrays: Sequence[str]) -> str:
    """Tidy code whose pointers into these arrays are those to float16."""
    functions = list(_functions(code))
    given: dict[str, set[int]] = {f.name: set() for f in functions if f.name}
    before = -1
    while before != (before := sum(map(len, given.values()))):
        for function in functions:
            pointers = _pointers(function, given, arrays)
            for name, arguments in _calls(function.text, given):
                halves = (k for k, each in enumerate(arguments) if _words(each) & pointers)
                given[name].update(halves)
    found = []
    for function in functions:
        pointers = _pointers(function, given, arrays)
        change = partial(_line, function, pointers=pointers, given=given)
        found.append(_each_line(function.text, change))
    return "".join(found)


def _words(text: str) -> set[str]:
    return set(_NAME.findall(_COMMENT.sub("", text)))


def _pointers(
    function: _Function, given: Mapping[str, set[int]], arrays: Sequence[str]
) -> set[str]:
    """The names that point to weights in a function."""
    found = set(arrays)
    if function.name:
        found |= {function.parameters[k] for k in given[function.name]}
    declared = _DECLARED.findall(_COMMENT.sub("", function.text))
    before = -1
    while before != (before := len(found)):
        found |= {name for name, value in declared if _words(value) & found}
    mixed = {name for name, value in declared if not _words(value) & found} & found
    if mixed:
        raise ValueError(f"{function.name}: {', '.join(sorted(mixed))} are weights and others")
    return found


def _calls(text: str, known: Mapping[str, object]) -> Iterator[tuple[str, list[str]]]:
    """Calls of known functions, with their arguments."""
    start = text.find("\n{\n")
    bare = _COMMENT.sub("", text[max(start, 0) :])
    for found in _CALL.finditer(bare):
        if found[1] in known:
            yield found[1], _arguments(bare, found.end())


def _arguments(text: str, begin: int) -> list[str]:
    """The arguments of a call, whose parenthesis opens before `begin`."""
    depth, found = 0, [""]
    for letter in text[begin:]:
        if letter == ")" and depth == 0:
            break
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found


def _each_line(text: str, change: Callable[[str], str]) -> str:
    """The text with its code changed line by line; comments stay."""
    found, at = [], 0
    for comment in _COMMENT.finditer(text):
        found += [_lines(text[at : comment.start()], change), comment[0]]
        at = comment.end()
    return "".join([*found, _lines(text[at:], change)])


def _lines(text: str, change: Callable[[str], str]) -> str:
    return "\n".join(map(change, text.split("\n")))


def _line(function: _Function, line: str, pointers: set[str], given: Mapping[str, set[int]]) -> str:
    """One line; all uses of pointers in it are known ones."""
    if not pointers & set(_NAME.findall(line)):
        return line
    aligned = _ALIGNED.search(line)
    if aligned:
        bytes_ = int(aligned[3]) // 2
        name = aligned[1]
        new = f"{name} = ({_HALVES.strip()})CANNERY_ASSUME_ALIGNED({aligned[2]}, {bytes_});"
        return line.replace(aligned[0], new)
    made, at = "", 0
    for found in _NAME.finditer(line):
        if found[0] in pointers:
            before = made + line[at : found.start()]
            made = _before(function, before, line[found.end() :], found[0], given) + found[0]
            at = found.end()
    return made + line[at:]


def _before(
    function: _Function, before: str, after: str, name: str, given: Mapping[str, set[int]]
) -> str:
    """What stands before a pointer in a line, for one to float16."""
    declares = _DECLARES.search(before)
    if declares:
        return f"{before[: declares.start()]}{_HALVES}{declares[1] or ''}"
    loads = _LOAD.search(before)
    if loads:
        return f"{before[: loads.start()]}{loads[1]}_f16{loads[2] or ''}("
    moved = not before.strip() and re.match(r" [+-]= ", after)
    passes = any(call in given for call in _CALL.findall(before))
    if _KEPT.search(before) or moved or _FROM.search(before) or passes:
        return before
    raise ValueError(
        f"{function.name}: weights as float16 are not known in `{before}{name}{after}`"
    )
