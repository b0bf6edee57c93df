"""Makes operators from the text of their attributes: Python literals, element types, operators."""

from __future__ import annotations

import ast
import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from cannery.errors import ModelError, one_of
from cannery.ir.registry import Op, all_ops
from cannery.ir.tensor import DType

_NUMBERS = {"inf": float("inf"), "nan": float("nan")}


def make_op(kind: type[Op], attributes: Mapping[str, str]) -> Op:
    """An operator. Raises ModelError for missing, unknown or impossible attributes."""
    values = {}
    for name, text in attributes.items():
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            raise ModelError(f"{name}={text}: not a value") from None
        values[name] = tree
    return typing.cast(Op, _make(kind, values))


def _make(kind: type, trees: Mapping[str, ast.expr]) -> Any:
    """A dataclass from its fields."""
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    values = {}
    for name, tree in trees.items():
        if name not in fields:
            raise ModelError(f"{kind.__name__} has no {name!r}", cure=one_of(name, fields))
        values[name] = _value(tree, hints[name])
        if not _fits(values[name], hints[name]):
            raise ModelError(f"{kind.__name__} cannot have {name}={ast.unparse(tree)}")
    for name, field in fields.items():
        needed = field.default is field.default_factory is dataclasses.MISSING
        if needed and name not in values:
            raise ModelError(f"{kind.__name__} needs {name}")
    return kind(**values)


def _value(tree: ast.expr, hint: Any) -> Any:
    """The value of an expression where type `hint` is expected."""
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.Tuple | ast.List):
        inner = typing.get_args(hint)
        alike = inner[1:] == (...,) or len(inner) != len(tree.elts)
        hints = inner[:1] * len(tree.elts) if alike else inner
        pairs = zip(tree.elts, hints or (None,) * len(tree.elts), strict=True)
        return tuple(_value(element, own) for element, own in pairs)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        value = _value(tree.operand, hint)
        if isinstance(value, int | float):
            return -value
    if isinstance(tree, ast.Name):
        if tree.id in _NUMBERS:
            return _NUMBERS[tree.id]
        if tree.id in [d.value for d in DType]:
            return DType(tree.id)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.args:
        kind = _class(tree.func.id, hint)
        return _make(kind, {str(word.arg): word.value for word in tree.keywords})
    raise ModelError(f"{ast.unparse(tree)}: not a value")


def _class(name: str, hint: Any) -> type:
    """A class by its name: the expected one, or an operator."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and hint.__name__ == name:
        return hint
    if name not in all_ops():
        raise ModelError(f"no operator {name!r}", cure=one_of(name, all_ops()))
    return all_ops()[name]


def _fits(value: object, hint: Any) -> bool:
    """Whether a value has a type; integers count as floats too."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, own) for own in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inner) == 2 and inner[1] is ...:
            return all(_fits(own, inner[0]) for own in value)
        return len(value) == len(inner) and all(map(_fits, value, inner))
    if hint in (int, float):
        allowed = (int, float) if hint is float else (int,)
        return isinstance(value, allowed) and not isinstance(value, bool)
    return isinstance(value, hint)
