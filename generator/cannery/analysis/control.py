"""What decides which way generated C goes: shapes, the caller's arguments, the call, or data.

Every condition of a branch, loop or choice (`a ? b : c`) is traced to what it is computed from. If
no condition depends on data, every run executes the same instructions.

The text is that of generated files: functions begin and end in the first column, and variables are
declared with a value. What is not understood counts as data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum


class Depends(IntEnum):
    """What a number is computed from; a number made of several has the largest."""

    SHAPES = 0  # known when the code is generated
    CALL = 1  # how many calls of `step` there were since the reset
    ARGUMENTS = 2  # n of `run_many`, `length`: numbers that the caller gives
    DATA = 3  # inputs, states and what is computed from them


@dataclass(frozen=True)
class Condition:
    """A condition in generated code: its function, its kind (`if`, `for`, `while`, `switch`, `?`),
    its text, and what it depends on.
    """

    function: str
    kind: str
    text: str
    depends: Depends


@dataclass(frozen=True)
class _Function:
    """A function of generated code; `public` ones are called by the user."""

    name: str
    parameters: tuple[tuple[str, str], ...]  # type and name
    body: str
    public: bool


_HEAD = re.compile(r"^(?!#)([\w ]+?[\s*])(\w+)\(([^;{}]*)\)\n\{\n(.*?)^\}", re.M | re.S)
_IGNORED = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|^[ \t]*#.*?(?<!\\)$", re.M | re.S)
_WORD = re.compile(r"[A-Za-z_]\w*")
_INTEGER = r"(?:u?int\d*(?:_t)?|size_t|ptrdiff_t|unsigned|long|short|char|_Bool)"
_TYPE = re.compile(rf"(?:const|static|struct|float|double|void|{_INTEGER}|[fism]\d+x\d+)")
#: A variable with its first value, or one that changes: the name, and what it is made of.
_SET = re.compile(r"(?<![\w.>\])])(\w+) *(?:[-+*/%&|^]|<<|>>)?=(?!=) *([^;,{}]*)")
_STEPPED = re.compile(r"(?:\+\+|--)(\w+)|(\w+)(?:\+\+|--)")
#: Constants and tables at file scope.
_TABLE = re.compile(
    r"^static const [\w ]+?[\s*](\w+)(?:\[[^=;]*\])? *(?:CANNERY_\w+(?:\(\w*\))? *)?=", re.M
)
#: Words of a state that count calls: where rings are, which layers run, how weights are read.
_COUNTERS = frozenset({"at", "counter", "turns"})


def conditions(code: str) -> tuple[Condition, ...]:
    """The conditions of all functions in a generated file, in its order."""
    plain = _IGNORED.sub(" ", code)
    functions = {f.name: f for f in _functions(plain)}
    tables = frozenset(_TABLE.findall(plain))
    known = _known(functions, tables)
    return tuple(
        Condition(name, kind, " ".join(text.split()), _depends(text, known[name], tables))
        for name, function in functions.items()
        for kind, text in _conditions(function.body)
    )


def _functions(code: str) -> Iterator[_Function]:
    for found in _HEAD.finditer(code):
        parameters = []
        for each in (part.strip() for part in found[3].split(",")):
            if words := re.fullmatch(r"(.*?)(\w+)", each, re.S):
                parameters.append((words[1].strip(), words[2]))
        yield _Function(
            found[2],
            tuple(parameters),
            found[4],
            not {"static", "CANNERY_APART"} & {*found[1].split()},
        )


def _known(
    functions: Mapping[str, _Function], tables: frozenset[str]
) -> dict[str, dict[str, Depends]]:
    """What the variables of each function depend on: grows until nothing changes."""
    known = {f.name: _at_first(f) for f in functions.values()}
    changed = True
    while changed:
        changed = False
        for function in functions.values():
            changed |= _assign(function, known[function.name], tables)
            changed |= _pass_on(function, functions, known, tables)
    return known


def _at_first(function: _Function) -> dict[str, Depends]:
    """The least that variables can depend on. Of parameters, pointers are known, as places; numbers
    are the caller's, or what calls will show.
    """
    found = {}
    for type_, name in function.parameters:
        number = "*" not in type_
        if number and not re.search(_INTEGER, type_):
            found[name] = Depends.DATA
        else:
            found[name] = Depends.ARGUMENTS if number and function.public else Depends.SHAPES
    return {set_[1]: Depends.SHAPES for set_ in _SET.finditer(function.body)} | found


def _assign(function: _Function, known: dict[str, Depends], tables: frozenset[str]) -> bool:
    """Note what variables are set from, and under which conditions."""
    changed = False
    under = [
        (range(begin, end), depends)
        for _, text, begin, end in _branches(function.body)
        if (depends := _depends(text, known, tables)) > Depends.SHAPES
    ]
    for found in _SET.finditer(function.body):
        depends = max([d for extent, d in under if found.start() in extent], default=Depends.SHAPES)
        changed |= _raise(known, found[1], max(depends, _depends(found[2], known, tables)))
    for found in re.finditer(r"[(,] *&(\w+)\b(?! *[\[.])", function.body):
        changed |= _raise(known, found[1], Depends.DATA)  # who has the address may change it
    for found in _STEPPED.finditer(function.body):
        changed |= _raise(known, found[1] or found[2], Depends.SHAPES)
    return changed


def _raise(known: dict[str, Depends], name: str, depends: Depends) -> bool:
    """Note what a variable depends on, if that is more than before."""
    if name in known and known[name] >= depends:
        return False
    known[name] = depends
    return True


def _pass_on(
    function: _Function, functions: Mapping[str, _Function],
    known: Mapping[str, dict[str, Depends]], tables: frozenset[str],
) -> bool:  # fmt: skip
    """Give the arguments of calls to the functions that are called."""
    changed = False
    for found in re.finditer(r"\b(\w+)\(", function.body):
        called = functions.get(found[1])
        if called is None:
            continue
        given = _arguments(function.body, found.end())
        for (type_, name), text in zip(called.parameters, given, strict=False):
            if "*" not in type_:
                depends = _depends(text, known[function.name], tables)
                changed |= _raise(known[called.name], name, depends)
    return changed


def _arguments(text: str, begin: int) -> list[str]:
    """The arguments of a call after its opening parenthesis."""
    inside = text[begin : _closing(text, begin)]
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(inside):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            parts.append(inside[start:at])
            start = at + 1
    return [*parts, inside[start:]]


def _closing(text: str, begin: int) -> int:
    """Where the parenthesis closes that opens before `begin`."""
    depth = 1
    for at in range(begin, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at
    return len(text)


def _depends(text: str, known: Mapping[str, Depends], tables: frozenset[str]) -> Depends:
    """What an expression depends on."""
    worst = Depends.SHAPES
    for word in _WORD.finditer(text):
        before, after = text[: word.start()].rstrip(), text[word.end() :].lstrip()
        worst = max(worst, _of_word(word[0], before, after, known, tables))
    return worst


def _of_word(
    word: str, before: str, after: str, known: Mapping[str, Depends], tables: frozenset[str]
) -> Depends:
    number = before[-1:].isdigit() or re.search(r"\d\.?$", before)
    if _TYPE.fullmatch(word) or word in ("sizeof", "u", "f", "return") or number or word in tables:
        return Depends.SHAPES
    read = after.startswith(("[", "->")) or _dereferenced(before)
    if read and word in _COUNTERS:
        return Depends.CALL
    if read or after.startswith("("):
        return Depends.SHAPES if word.startswith("CANNERY_") else Depends.DATA
    return known.get(word, Depends.SHAPES if word.isupper() else Depends.DATA)


def _dereferenced(before: str) -> bool:
    """Whether a star before a word reads what it points to: not a product, nor a type's."""
    if not before.endswith("*"):
        return False
    left = before[:-1].rstrip()
    cast = re.search(rf"(?:{_TYPE.pattern})$", left)
    return not cast and (not left or left[-1] in "=(,;?:<>+-*/%&|!{" or left.endswith("return"))


def _conditions(body: str) -> Iterator[tuple[str, str]]:
    """Kinds and texts of the conditions in a function."""
    yield from ((kind, text) for kind, text, *_ in _branches(body))
    for found in re.finditer(r"\?", body):
        yield "?", _before_choice(body, found.start())


def _branches(body: str) -> Iterator[tuple[str, str, int, int]]:
    """Kinds and texts of conditions of statements, and where what they decide begins and ends."""
    for found in re.finditer(r"\b(if|for|while|switch) \(", body):
        close = _closing(body, found.end())
        inside = body[found.end() : close]
        text = inside.split(";")[1] if found[1] == "for" else inside
        if text.strip():
            yield found[1], text, close, _decided(body, close + 1)


def _decided(body: str, begin: int) -> int:
    """Where a statement ends that begins here, with what follows an `else`."""
    end = body.find(";", begin)
    opens = re.compile(r"\s*\{").match(body, begin)
    if opens:
        depth = 0
        for end in range(opens.end() - 1, len(body)):
            depth += (body[end] == "{") - (body[end] == "}")
            if depth == 0:
                break
    otherwise = re.compile(r"\s*else\b").match(body, end + 1)
    return _decided(body, otherwise.end()) if otherwise else end


def _before_choice(body: str, at: int) -> str:
    """The expression before a question mark."""
    depth, begin = 0, at
    while begin > 0:
        sign = body[begin - 1]
        depth += (sign in ")]") - (sign in "([")
        if depth < 0 or (depth == 0 and (sign in ";{},?" or _assigns(body, begin - 1))):
            break
        if depth == 0 and sign == ":":
            break
        begin -= 1
    return body[begin:at].strip().removeprefix("return ")


def _assigns(body: str, at: int) -> bool:
    """Whether a sign is an assignment's."""
    return body[at] == "=" and body[at - 1] not in "=<>!" and body[at + 1] != "="
