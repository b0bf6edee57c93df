"""Splits long functions: neighbouring blocks of straight-line code become functions.

Long functions are thousands of lines like these, one pair of braces per input of a sum:

    {
        const f32x1 w0 = f32x1_load(wk + 8);
        const f32x1 x0 = f32x1_load1(xp + 1);
        a0 = f32x1_fma(x0, w0, a0);
    }

Values that such blocks read are passed as arguments, and sums that they change pass through an
array on the stack, which costs next to nothing compared with hundreds of lines. Code that is not
understood stays where it is. The code must be tidy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cannery.ctext.functions import longest_function
from cannery.ctext.tidy import tidy

#: The fraction of the limit that neighbouring blocks must exceed to be cut out of a function.
WORTH = 0.2

_COMMENT = re.compile(r"/\*.*?\*/")
#: A word, and whether it is called.
_WORD = re.compile(r"\b([A-Za-z_]\w*)\b(\()?")
#: A variable: `const float *xp = ...`, `f32x8 a0 = ...`, `for (int t = ...`.
_DECLARED = re.compile(r"^\s*(?:for \()?((?:const )?\w+ \*?)(\w+) = ")
_PARAMETER = re.compile(r"((?:const )?\w+ \*?)(?:CANNERY_RESTRICT )?(\w+)[,)]")
#: An assignment to a variable, whose name is filled in.
_CHANGED = r"\b{0} *([-+*/|]?=(?!=)|\+\+|--)|(\+\+|--){0}\b"
_VECTOR = re.compile(r"[fis]\d+x\d+ ")
#: What blocks may contain besides variables: types, and names that the preprocessor replaces.
_PLAIN = re.compile(r"const|float|int|u?int\d+_t|[fims]\d+x\d+|[A-Z][A-Z0-9_]*|[fF]|e\d*")


def pull_apart(code: str, symbol: str, most: int) -> str:
    """The same code in functions of at most `most` lines, as far as they can be split this way.

    `symbol` begins the names of its functions and constants; new ones are `<symbol>_part0` ...
    """
    if longest_function(code) <= most:
        return code
    lines, made, begin, count = code.splitlines(), list[str](), 0, 0
    for end in (k for k, line in enumerate(lines) if line == "}"):
        function = lines[begin : end + 1]
        if longest_function("\n".join(function)) > most:
            for first, last in reversed(list(_runs(function, int(most * WORTH)))):
                pieces = _Pieces.of(function, first, last, symbol)
                if pieces is not None:
                    made += pieces.functions(count, most)
                    function[first:last] = pieces.calls(count, most)
                    count += len(pieces.groups(most))
        made += function
        begin = end + 1
    return tidy("\n".join([*made, *lines[begin:]]))


def _runs(function: Sequence[str], least: int) -> Iterator[tuple[int, int]]:
    """The ranges of lines in which blocks follow each other with only comments between them."""
    first = last = 0
    k = 0
    while k < len(function):
        end = _end(function, k) if function[k].strip() == "{" else 0
        if end and not any("{" in line for line in function[k + 1 : end]):
            first = first or k
            k = last = end
            continue
        bare = _COMMENT.sub("", function[k]).strip()
        if bare and first:
            if last - first > least:
                yield first, last
            first = 0
        k += 1


def _end(function: Sequence[str], begin: int) -> int:
    """The line after the block that begins in a line."""
    close = function[begin].replace("{", "}")
    return next(k for k in range(begin, len(function)) if function[k] == close) + 1


def _scope(function: Sequence[str], to: int) -> dict[str, str]:
    """The variables that a line sees: types by name."""
    opening = function.index("{")
    head = " ".join(function[:opening])
    found = [{name: kind for kind, name in _PARAMETER.findall(head)}]
    for line in function[opening + 1 : to]:
        bare = _COMMENT.sub("", line)
        opens = bare.count("{") - bare.count("}")
        if opens > 0:
            found.append({})
        elif opens < 0:
            found.pop()
        declared = _DECLARED.match(bare)
        if declared:
            found[-1][declared[2]] = declared[1]
    return {name: kind for scope in found for name, kind in scope.items()}


@dataclass(frozen=True)
class _Pieces:
    """Blocks that are cut out: their lines, the variables they read, and the sums they change."""

    symbol: str
    blocks: tuple[tuple[str, ...], ...]
    reads: Mapping[str, str]
    sums: Mapping[str, str]

    @staticmethod
    def of(function: Sequence[str], first: int, last: int, symbol: str) -> _Pieces | None:
        """The blocks of some lines; None if these do more than that."""
        lines = function[first:last]
        text = _COMMENT.sub("", "\n".join(lines))
        scope = _scope(function, first)
        own = {found[2] for line in lines if (found := _DECLARED.match(line))}
        words = {word for word, called in _WORD.findall(text) if not called} - own
        reads, sums = dict[str, str](), dict[str, str]()
        for word in sorted(words):
            if word not in scope:
                if not (_PLAIN.fullmatch(word) or word.startswith(symbol)):
                    return None
            elif re.search(rf"& ?{word}\b", text):
                return None
            elif not re.search(_CHANGED.format(word), text):
                reads[word] = scope[word]
            elif _VECTOR.fullmatch(scope[word]):
                sums[word] = scope[word]
            else:
                return None
        leaves = re.search(r"\b(return|break|continue|goto|CANNERY_OPAQUE_PTR)\b", text)
        if own & set(scope) or leaves or len(set(sums.values())) > 1:
            return None
        return _Pieces(symbol, tuple(_blocks(lines)), reads, sums)

    def groups(self, most: int) -> list[list[tuple[str, ...]]]:
        """The blocks of each function: about as many lines each, and never too many."""
        room = max(most - 2 * len(self.sums) - 2, 1)
        total = sum(map(len, self.blocks))
        even = total / -(-total // room)
        found: list[list[tuple[str, ...]]] = []
        size = 0
        for block in self.blocks:
            if not found or size + len(block) / 2 > even or size + len(block) > room:
                found.append([])
                size = 0
            found[-1].append(block)
            size += len(block)
        return found

    def functions(self, number: int, most: int) -> list[str]:
        """The functions, numbered from `number`."""
        kind = next(iter(self.sums.values()), "").strip()
        parameters = [f"{kind}{name}" for name, kind in self.reads.items()]
        parameters += [f"{kind} *sums"] if self.sums else []
        found: list[str] = []
        for k, group in enumerate(self.groups(most), number):
            head = f"CANNERY_APART void {self.symbol}_part{k}({', '.join(parameters) or 'void'})"
            found += [f"/* Part of {self.symbol}. */", head, "{"]
            found += [f"{kind} {name} = sums[{j}];" for j, name in enumerate(self.sums)]
            found += [line for block in group for line in block]
            found += [f"sums[{j}] = {name};" for j, name in enumerate(self.sums)]
            found += ["}", ""]
        return found

    def calls(self, number: int, most: int) -> list[str]:
        """The code that replaces the blocks."""
        arguments = ", ".join([*self.reads, *(["sums"] if self.sums else [])])
        kind = next(iter(self.sums.values()), "").strip()
        found = ["{", *([f"{kind} sums[{len(self.sums)}];"] if self.sums else [])]
        found += [f"sums[{j}] = {name};" for j, name in enumerate(self.sums)]
        for k, _ in enumerate(self.groups(most), number):
            found.append(f"{self.symbol}_part{k}({arguments});")
        return [*found, *(f"{name} = sums[{j}];" for j, name in enumerate(self.sums)), "}"]


def _blocks(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Each block with the comments before it."""
    begin = k = 0
    while k < len(lines):
        if lines[k].strip() == "{":
            end = _end(lines, k)
            yield tuple(lines[begin:end])
            begin = k = end
        else:
            k += 1
