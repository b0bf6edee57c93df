"""Sizes in exported programs of PyTorch, which PyTorch evaluates as Python: examined before.

A program with open dimensions holds them as texts such as `Mul(Integer(2), Symbol('s40',
positive=True, integer=True))`, SymPy's own form (`srepr`), and older ones as `2*s40`.
"""

from __future__ import annotations

import ast
import re

_MOST_CHARACTERS = 4000
_LARGEST = 10**18
#: Powers are computed at once where the base is a number, so both are small.
_LARGEST_EXPONENT = 9

#: How torch.export calls dimensions: backed by an example, or known only at run time.
_SYMBOL = re.compile(r"(s|u|zuf|zf)\d{1,9}")
_NAMES = frozenset({"true", "false"})
_FLAGS = frozenset({"integer", "positive", "nonnegative", "nonzero", "finite", "real", "negative"})
_POWERS = frozenset({"Pow", "PowByNatural"})
_FUNCTIONS = frozenset(
    "Add Mul Max Min Mod PythonMod FloorDiv CleanDiv CeilDiv CeilToInt FloorToInt TruncToInt "
    "IntTrueDiv FloatTrueDiv ToFloat Where And Or Not Equality Unequality GreaterThan LessThan "
    "StrictGreaterThan StrictLessThan".split()
)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)


def is_size(text: object) -> bool:
    """Whether a text is a size: numbers, symbols, and sums, products, quotients of these."""
    if not isinstance(text, str) or len(text) > _MOST_CHARACTERS:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    waiting: list[ast.expr] = [tree.body]
    while waiting:
        parts = _parts(waiting.pop())
        if parts is None:
            return False
        waiting += parts
    return True


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """The expressions in one that is allowed, else None."""
    match node:
        case ast.Constant():
            return [] if _is_number(node) else None
        case ast.Name(id=name):
            return [] if name in _NAMES or _SYMBOL.fullmatch(name) else None
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return [inner]
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
            return [left, right]
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]):
            return [] if _SYMBOL.fullmatch(name) and all(map(_is_flag, node.keywords)) else None
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _arguments(name, args)
    return None


def _arguments(name: str, args: list[ast.expr]) -> list[ast.expr] | None:
    """The arguments of a function, if it may be called with them, else None."""
    if name in {"Integer", "Rational"}:
        return args if all(map(_is_number, args)) else None
    if name in _POWERS:
        return args if len(args) == 2 and _is_exponent(args[1]) else None
    return args if name in _FUNCTIONS else None


def _is_number(node: ast.expr) -> bool:
    """Whether it is an integer of moderate size, with or without a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        return False
    return node.value < _LARGEST


def _is_exponent(node: ast.expr) -> bool:
    """Whether it is a small whole number."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    numbers = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return _is_number(node) and isinstance(numbers[0], int) and numbers[0] <= _LARGEST_EXPONENT


def _is_flag(keyword: ast.keyword) -> bool:
    """Whether it says something about a symbol, such as `positive=True`."""
    value = keyword.value
    return keyword.arg in _FLAGS and isinstance(value, ast.Constant) and type(value.value) is bool
