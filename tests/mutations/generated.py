"""Small mistakes in Python and in text (C, templates, CMake), made by machine.

Python is changed by its syntax tree, everything else by its words. Each mistake is one that people
make: a comparison that is off by one, a condition that is missing, operands swapped, a number one
too large, an element or an argument dropped, a statement left out. Messages, comments and
annotations stay as they are, as nothing is computed from them, and so do functions that guess
times, as only a clock would see the mistake.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutations.change import ROOT

#: Where code is, and what ends the names of its files.
PLACES = (
    ("generator/cannery", (".py", ".j2", ".h", ".c")),
    ("runtime/include/cannery", (".h",)),
    ("cmake", (".cmake", ".py")),
)


@dataclass(frozen=True)
class Edit:
    """One mistake: bytes `start` to `end` of a file in UTF-8 become `new`."""

    kind: str
    line: int
    start: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        """The text with the mistake."""
        data = text.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()


@dataclass(frozen=True)
class Mutant:
    """A mistake in a file, named relative to the checkout."""

    file: str
    edit: Edit

    @property
    def folder(self) -> str:
        """What it is counted under."""
        return str(Path(self.file.removeprefix("generator/cannery/")).parent)


def edits(file: str, text: str) -> list[Edit]:
    """All mistakes that are made in a file."""
    found = python_edits(text) if file.endswith(".py") else text_edits(file, text)
    return [edit for edit in found if edit.applied(text) != text]


def sample(number: int, seed: int, under: Sequence[str] = ("",), root: Path = ROOT) -> list[Mutant]:
    """The same number of mistakes from each folder, if it has that many; always the same ones."""
    chance = random.Random(seed)
    folders: dict[str, list[Mutant]] = {}
    for file in code_files(root):
        if any(file.startswith(place) for place in under):
            for edit in edits(file, (root / file).read_text()):
                mutant = Mutant(file, edit)
                folders.setdefault(mutant.folder, []).append(mutant)
    for mutants in folders.values():
        chance.shuffle(mutants)
    chosen: list[Mutant] = []
    while folders and len(chosen) < number:
        names = sorted(folders)
        chance.shuffle(names)
        chosen += [folders[name].pop() for name in names[: number - len(chosen)]]
        folders = {name: mutants for name, mutants in folders.items() if mutants}
    return chosen


def code_files(root: Path = ROOT) -> list[str]:
    """Files that mistakes are made in."""
    return sorted(
        path.relative_to(root).as_posix()
        for place, endings in PLACES
        for path in (root / place).rglob("*")
        if path.name.endswith(endings)
    )


# Python

_COMPARE = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "in": "not in", "not in": "in", "is": "is not", "is not": "is",
}  # fmt: skip
_ARITHMETIC = {
    "+": "-", "-": "+", "*": "+", "//": "*", "/": "*", "%": "//", "**": "*",
    "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|",
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list",
          "reversed": "list", "floor": "ceil", "ceil": "floor"}  # fmt: skip
#: Functions that guess times: only a clock would see what is wrong with them.
_ESTIMATE = re.compile("cost|cycles|estimate")
_WORD = re.compile(r"not\s+in|is\s+not|[<>=!]=|//|\*\*|<<|>>|[-+*/%<>&|^]|in|is")


def python_edits(text: str) -> Iterator[Edit]:
    """Mistakes in a module."""
    yield from _Python(text).of(ast.parse(text))


class _Python:
    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def of(self, node: ast.AST) -> Iterator[Edit]:
        """Mistakes in a node and below it."""
        if isinstance(node, ast.FunctionDef) and _ESTIMATE.search(node.name):
            return
        yield from getattr(self, f"_{type(node).__name__}", self._nothing)(node)
        for child in self._below(node):
            yield from self.of(child)

    def _below(self, node: ast.AST) -> Iterator[ast.AST]:
        """Its children, without messages, annotations, decorators, docstrings."""
        skipped = {"annotation", "returns", "decorator_list", "exc", "msg", "cause", "type_params"}
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                text = isinstance(child, ast.JoinedStr) or (
                    isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
                )
                if isinstance(child, ast.AST) and not text and name not in skipped:
                    yield child

    def _nothing(self, _: ast.AST) -> Iterator[Edit]:
        return iter(())

    def _place(self, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _source(self, node: ast.expr) -> str:
        start, end = self._place(node)
        return self.data[start:end].decode()

    def _edit(self, kind: str, node: ast.expr | ast.stmt | ast.keyword, new: str) -> Edit:
        return Edit(kind, node.lineno, *self._place(node), new)

    def _between(
        self, kind: str, left: ast.expr, right: ast.expr, table: dict[str, str]
    ) -> Iterator[Edit]:
        """Another operator between two operands."""
        start, end = self._place(left)[1], self._place(right)[0]
        found = _WORD.search(self.data[start:end].decode())
        new = table.get(" ".join(found[0].split())) if found else None
        if found and new:
            yield Edit(kind, left.end_lineno or 0, start + found.start(), start + found.end(), new)

    def _Compare(self, node: ast.Compare) -> Iterator[Edit]:  # noqa: N802 - the tree's name
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            yield from self._between("comparison", left, right, _COMPARE)

    def _BinOp(self, node: ast.BinOp) -> Iterator[Edit]:  # noqa: N802
        sides = (node.left, node.right)
        texts = (ast.JoinedStr, ast.Constant)
        if any(isinstance(s, texts) and not _is_number(s) for s in sides):
            return
        yield from self._between("arithmetic", *sides, _ARITHMETIC)

    def _BoolOp(self, node: ast.BoolOp) -> Iterator[Edit]:  # noqa: N802
        parts = [f"({self._source(value)})" for value in node.values]
        word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield self._edit("and/or", node, f"({f' {other} '.join(parts)})")
        for k in range(len(parts)):
            left = f" {word} ".join(parts[:k] + parts[k + 1 :])
            yield self._edit("condition dropped", node, f"({left})")

    def _UnaryOp(self, node: ast.UnaryOp) -> Iterator[Edit]:  # noqa: N802
        if isinstance(node.op, ast.Not | ast.USub):
            yield self._edit("negation dropped", node, f"({self._source(node.operand)})")

    def _Constant(self, node: ast.Constant) -> Iterator[Edit]:  # noqa: N802
        if isinstance(node.value, bool):
            yield self._edit("constant", node, str(not node.value))
        elif isinstance(node.value, int):
            yield self._edit("constant", node, str(node.value + 1))
            if node.value > 0:
                yield self._edit("constant", node, str(node.value - 1))
        elif isinstance(node.value, float):
            yield self._edit("constant", node, repr(node.value * 2 if node.value else 1.0))

    def _Call(self, node: ast.Call) -> Iterator[Edit]:  # noqa: N802
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _CALLS and isinstance(node.func, ast.Name):
            yield self._edit("call", node.func, _CALLS[name])
        if name == "range":
            yield self._edit("range", node.args[-1], f"{self._source(node.args[-1])} - 1")
        plain = [arg for arg in node.args if not isinstance(arg, ast.Starred | ast.JoinedStr)]
        if len(plain) == len(node.args) == 2 and name not in {*_CALLS, "isinstance", "getattr"}:
            start, end = self._place(plain[0])[0], self._place(plain[1])[1]
            new = f"{self._source(plain[1])}, {self._source(plain[0])}"
            yield Edit("arguments swapped", node.lineno, start, end, new)
        for keyword in node.keywords:
            if keyword.arg == "strict":  # of zip: where lengths differ, something else is wrong
                continue
            given: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
            yield from self._without("argument dropped", node, given, keyword)

    def _without(
        self,
        kind: str,
        whole: ast.expr,
        parts: Sequence[ast.expr | ast.keyword],
        part: ast.expr | ast.keyword,
    ) -> Iterator[Edit]:
        """An element of a list of elements left out, with its comma."""
        start, end = self._place(part)
        rest = re.match(rb"\s*,\s*", self.data[end : self._place(whole)[1]])
        if rest and part is not parts[-1]:
            yield Edit(kind, part.lineno, start, end + rest.end(), "")
        elif part is parts[-1]:
            before = self.data[self._place(whole)[0] : start]
            comma = re.search(rb",?\s*$", before)
            first = start - (len(comma[0]) if comma else 0)
            yield Edit(kind, part.lineno, first, end, "")

    def _elements(self, node: ast.Tuple | ast.List | ast.Set) -> Iterator[Edit]:
        if isinstance(node, ast.Set) or isinstance(node.ctx, ast.Load):
            for part in node.elts if len(node.elts) > 1 else ():
                yield from self._without("element dropped", node, node.elts, part)

    _Tuple = _List = _Set = _elements

    def _IfExp(self, node: ast.IfExp) -> Iterator[Edit]:  # noqa: N802
        yield self._edit("choice", node, f"({self._source(node.body)})")
        yield self._edit("choice", node, f"({self._source(node.orelse)})")

    def _condition(self, node: ast.If | ast.While) -> Iterator[Edit]:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        yield self._edit("condition", node.test, "False")
        if isinstance(node, ast.If):
            yield self._edit("condition", node.test, "True")

    _If = _While = _condition

    def _comprehension(self, node: ast.comprehension) -> Iterator[Edit]:
        for test in node.ifs:
            yield self._edit("filter dropped", test, "True")

    def _Slice(self, node: ast.Slice) -> Iterator[Edit]:  # noqa: N802
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                yield self._edit("bound", bound, f"({self._source(bound)}) + 1")

    def _statement(self, node: ast.stmt) -> Iterator[Edit]:
        yield self._edit("statement dropped", node, "pass")

    _Raise = _Continue = _Break = _AugAssign = _statement

    def _Expr(self, node: ast.Expr) -> Iterator[Edit]:  # noqa: N802
        if isinstance(node.value, ast.Call | ast.YieldFrom | ast.Yield):
            yield from self._statement(node)

    def _Assign(self, node: ast.Assign) -> Iterator[Edit]:  # noqa: N802
        if not any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets):
            yield from self._statement(node)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


# Text

_COMMENTS = re.compile(
    r"/\*.*?\*/|//[^\n]*|\{#.*?#\}|^%#[^\n]*|\"(?:\\.|[^\"\\\n])*\""
    r"|^[ ]*#[ ]*(?:include|error)[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_CMAKE_COMMENTS = re.compile(r"#[^\n]*|message\([^)]*\)", re.DOTALL)
_C_WORDS: tuple[tuple[str, str, str], ...] = (
    ("comparison", r" (<|<=|>|>=|==|!=) ", ""),
    ("arithmetic", r" ([-+*/%]|//|<<|>>|&|\||\+=|-=) ", ""),
    ("and/or", r" (&&|\|\||and|or) ", ""),
    ("min/max", r"(?<![A-Za-z])(min|max)(?![A-Za-z])", ""),
    ("negation dropped", r"((?:\bnot )|!(?=[A-Za-z(]))", ""),
    ("constant", r"(?<![\w.])(\d+)(?![\w.])", ""),
    ("statement dropped", r"^[ ]+([a-z_][^\n;{}#]*(?:=|\()[^\n;{}#]*;)[^\n;]*$", ""),
    ("condition dropped", r"^%%[ ]+(?:el)?if ([^\n]+)$", "False"),
)
_C_SWAPS = {
    **_COMPARE, **_ARITHMETIC, "&&": "||", "||": "&&", "and": "or", "or": "and", "min": "max",
    "max": "min", "+=": "-=", "-=": "+=",
}  # fmt: skip
_CMAKE_WORDS: tuple[tuple[str, str, str], ...] = (
    ("negation dropped", r"\b(NOT )", ""),
    ("and/or", r" (AND|OR) ", ""),
    ("comparison", r" (STREQUAL|LESS|GREATER|EQUAL|VERSION_LESS|VERSION_GREATER_EQUAL) ", ""),
    ("condition dropped", r"^[ ]*(?:else)?if\(([^\n]+)\)$", "FALSE"),
    ("statement dropped", r"^[ ]*((?:set|list|string|target_\w+|set_\w+|add_\w+)\([^\n]*\))$", ""),
)
_CMAKE_SWAPS = {
    "AND": "OR", "OR": "AND", "LESS": "GREATER", "GREATER": "LESS", "EQUAL": "LESS",
    "STREQUAL": "STRLESS", "VERSION_LESS": "VERSION_GREATER_EQUAL",
    "VERSION_GREATER_EQUAL": "VERSION_LESS",
}  # fmt: skip


def text_edits(file: str, text: str) -> Iterator[Edit]:
    """Mistakes in C, a template of it, or CMake."""
    cmake = file.endswith(".cmake")
    comments = _CMAKE_COMMENTS if cmake else _COMMENTS
    masked = comments.sub(lambda found: re.sub(r"[^\n]", "\x00", found[0]), text)
    for kind, pattern, new in _CMAKE_WORDS if cmake else _C_WORDS:
        for found in re.finditer(pattern, masked, re.MULTILINE):
            word = found[1]
            swapped = (_CMAKE_SWAPS if cmake else _C_SWAPS).get(word)
            if kind == "constant":
                swapped = str(int(word) + 1)
            if swapped is None:
                swapped = new
            start, end = (len(text[: found.start(1)].encode()), len(text[: found.end(1)].encode()))
            yield Edit(kind, text.count("\n", 0, start) + 1, start, end, swapped)
