"""Straight-line code on vectors of four numbers: found in C text, and taken apart into operations.

A run is a sequence of statements without branches over the words that `WORDS` lists. Each of its
operations becomes one instruction: nested words are values of their own, scopes are gone, and a
variable that is assigned again has a name for each of its values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

#: Types of values that runs may hold: floats, sums of integers, 16 bytes.
FLOATS, INTEGERS, BYTES = "f32x4", "i32x4", "q8x4"
_TYPES = f"(?:{FLOATS}|{INTEGERS}|{BYTES})"

#: Words that read registers, by type, without its prefix. Those of floats become one instruction
#: each; what products of integers become, `cannery.ctext.byte_products` says.
WORDS = {
    FLOATS: frozenset(
        {"add", "sub", "mul", "max", "min", "fma", "fnma"}
        | {f"{word}_lane{k}" for word in ("mul", "fma") for k in range(4)}
    ),
    INTEGERS: frozenset(f"{word}_lane{k}" for word in ("dot4", "dot4w") for k in range(4)),
}
_LOADS = {FLOATS: ("load", "load_aligned"), BYTES: ("load", "load4")}
#: What reads and writes memory, and keeps the lanes whose mask is set.
LOAD, STORE, MASK = "load", "store", "mask"

_STATEMENT = re.compile(rf"((?:const )?{_TYPES} )?(\w+) = (.*)")
_NAMES = re.compile(r"f32x4 (\w+(?:, \w+)*)")
#: What keeps compilers from moving a value does nothing.
_OPAQUE = re.compile(r"CANNERY_OPAQUE_VEC\(\w+\)")
_STORED = re.compile(r"f32x4_store(?:_aligned)?\((.*)\)")
_CALL = re.compile(rf"({_TYPES})_(\w+)\((.*)\)")
_MASKED = re.compile(r"i32x4_as_f32\(i32x4_and\(f32x4_as_i32\((.*)\), (\w+)\)\)")
_CONSTANT = re.compile(r"(?:set1\(-?[\d.]+(?:e[-+]?\d+)?f\)|zero\(\))")
_LANE = re.compile(r"lane(\d)")
#: Words that add to the value that they read last, and overwrite it.
_ADDS_TO = re.compile(r"fma|fnma|dot|mla|add_pairs")
_COMMENT = re.compile(r"/\*.*?\*/")


@dataclass(frozen=True)
class Operation:
    """One instruction: `word` of values `uses`, or from or to memory at `address`.

    It gives the value `name` of a `type`; stores give none.
    """

    word: str
    uses: tuple[str, ...]
    name: str = ""
    address: str = ""
    type: str = FLOATS

    @property
    def adds_to(self) -> str:
        """The value that a multiply-add adds to, whose register it overwrites; else empty."""
        return self.uses[-1] if _ADDS_TO.match(self.word) else ""


@dataclass(frozen=True)
class Run:
    """Operations in a sound order; expressions that are `constants`, with their names.

    `results`: variables from outside the run, with their last values. No others are read after it.
    """

    operations: tuple[Operation, ...]
    constants: tuple[tuple[str, str], ...]
    results: tuple[tuple[str, str], ...]


class _UnknownError(Exception):
    """A statement that is not understood."""


@dataclass
class _Reader:
    """What is known of a run while its statements are read."""

    taken: set[str]
    declared: set[str]
    operations: list[Operation] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    scopes: list[dict[str, str]] = field(default_factory=lambda: [{}])
    lanes: dict[str, tuple[str, str]] = field(default_factory=dict)
    outer: dict[str, str] = field(default_factory=dict)
    #: Variables from outside the run that it reads.
    given: set[str] = field(default_factory=set)

    def read(self, statement: str) -> None:
        """Raises _UnknownError."""
        if found := _STORED.fullmatch(statement):
            address, value = _arguments(found[1])
            self.operations.append(Operation(STORE, (self.value(value),), "", address))
        elif found := _NAMES.fullmatch(statement):
            self.scopes[-1] |= dict.fromkeys(found[1].split(", "), "")
        elif found := _STATEMENT.fullmatch(statement):
            self._assign(found[2], found[3], declared=bool(found[1]))
        elif not _OPAQUE.fullmatch(statement):
            raise _UnknownError

    def _assign(self, name: str, expression: str, *, declared: bool) -> None:
        value = self.value(expression, name)
        if declared:
            self.scopes[-1][name] = value
            return
        scope = next((s for s in reversed(self.scopes) if name in s), self.outer)
        scope[name] = value

    def value(self, expression: str, name: str = "") -> str:
        """The value of an expression, which may be called `name`."""
        if re.fullmatch(r"\w+", expression):
            return self._variable(expression)
        if found := _MASKED.fullmatch(expression):
            return self._made(Operation(MASK, (self.value(found[1]), found[2])), name)
        found = _CALL.fullmatch(expression)
        if not found:
            raise _UnknownError
        kind, word, given = found[1], found[2], _arguments(found[3])
        if kind == FLOATS and _CONSTANT.fullmatch(f"{word}({found[3]})"):
            if expression not in self.constants:
                self.constants[expression] = self._fresh("constant")
            return self.constants[expression]
        if word in _LOADS.get(kind, ()):
            return self._made(Operation(LOAD, (), "", given[0], kind), name)
        if lane := _LANE.fullmatch(word):
            made = self._fresh(name or "lanes")
            self.lanes[made] = (lane[1], self.value(given[0]))
            return made
        if word not in WORDS.get(kind, ()):
            raise _UnknownError
        uses = tuple(self.value(each) for each in given)
        if word == "mul" and uses[1] in self.lanes:
            lane_of, vector = self.lanes[uses[1]]
            word, uses = f"mul_lane{lane_of}", (uses[0], vector)
        if any(use in self.lanes for use in uses):
            raise _UnknownError
        return self._made(Operation(word, uses, type=kind), name)

    def _variable(self, name: str) -> str:
        for scope in (*reversed(self.scopes), self.outer):
            if name in scope:
                if not scope[name]:
                    raise _UnknownError
                return scope[name]
        self.given.add(name)
        return name

    def _made(self, operation: Operation, name: str) -> str:
        made = self._fresh(name or "value")
        self.operations.append(replace(operation, name=made))
        return made

    def _fresh(self, name: str) -> str:
        """A name that nothing has, as near to `name` as possible."""
        if name in self.declared:
            self.declared.remove(name)
            return name
        number, made = 1, name
        while made in self.taken:
            number += 1
            made = f"{name}_{number}"
        self.taken.add(made)
        return made


def split_runs(code: str) -> Iterator[tuple[str, Run | None]]:
    """Pieces of the code: text, and the run that it is, or None."""
    lines = code.splitlines(keepends=True)
    parsed = [_items(line) for line in lines]
    at = 0
    while at < len(lines):
        end = _end(parsed, at)
        run = _run(lines, parsed, at, end) if end > at else None
        end = end if run else at + 1
        yield "".join(lines[at:end]), run
        at = end


def _items(line: str) -> list[str]:
    """The braces and statements of a line; empty if it holds anything else."""
    found, text, depth = [], "", 0
    for char in _COMMENT.sub("", line.strip()):
        depth += (char == "(") - (char == ")")
        if depth == 0 and char in "{};":
            text = text.strip()
            if bool(text) != (char == ";"):
                return []
            found.append(text or char)
            text = ""
        else:
            text += char
    known = all(item in "{}" or _known(item) for item in found)
    return found if known and not text.strip() else []


def _known(statement: str) -> bool:
    """Whether a statement is understood."""
    try:
        _Reader(set(), set()).read(statement)
    except (_UnknownError, ValueError):
        return False
    return True


def _end(parsed: Sequence[list[str]], at: int) -> int:
    """The line after the longest run from a line on whose braces are paired."""
    depth, end = 0, at
    for number in range(at, len(parsed)):
        if not parsed[number]:
            break
        for item in parsed[number]:
            depth += (item == "{") - (item == "}")
            if depth < 0:
                return end
        if depth == 0:
            end = number + 1
    return end


def _run(lines: Sequence[str], parsed: Sequence[list[str]], at: int, end: int) -> Run | None:
    """The run of some lines; None if it is not understood."""
    text = "".join(lines[at:end])
    declared = set(re.findall(rf"\b{_TYPES} (\w+) =", text))
    for names in re.findall(r"\bf32x4 (\w+(?:, \w+)+);", text):
        declared.update(names.split(", "))
    reader = _Reader(set(re.findall(r"\w+", text)), set(declared))
    try:
        for item in (item for line in parsed[at:end] for item in line):
            if item == "{":
                reader.scopes.append({})
            elif item == "}":
                reader.scopes.pop()
            else:
                reader.read(item)
    except (_UnknownError, ValueError):
        return None
    after = _rest_of_scope(lines[end:])
    made = {operation.name for operation in reader.operations}
    read_later = any(re.search(rf"\b{name}\b", after) for name in reader.scopes[0])
    hidden = declared & (reader.given | reader.outer.keys())  # one name for two variables
    if read_later or hidden or not made >= {*reader.outer.values()}:
        return None
    constants, results = (tuple(pairs.items()) for pairs in (reader.constants, reader.outer))
    return Run(tuple(reader.operations), constants, results)


def _rest_of_scope(lines: Sequence[str]) -> str:
    """The text up to the brace that closes the scope."""
    depth = 0
    for number, line in enumerate(lines):
        for char in line:
            depth += (char == "{") - (char == "}")
            if depth < 0:
                return "".join(lines[:number])
    return "".join(lines)


def _arguments(text: str) -> list[str]:
    """What commas outside parentheses separate."""
    found, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            found.append("")
        else:
            found[-1] += char
    return [part.strip() for part in found]
