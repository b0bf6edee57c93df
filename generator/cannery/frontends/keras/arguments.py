"""Calls of layers and operations with more than tensors: `keras.ops.reshape(x, (2, -1))`.

A call keeps its arguments as in the file, with a TensorRef for each tensor; when its layer is
built, each reference becomes the Operand that it means. The `...` of an index is Python's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from cannery.errors import ModelError, UnsupportedError
from cannery.frontends.json_values import shown, whole_number
from cannery.ir.graph import Array

_MAX_DEPTH = 32

T = TypeVar("T")


@dataclass(frozen=True)
class Span:
    """A slice of an axis, as in Python."""

    start: int | None
    stop: int | None
    step: int | None


@dataclass(frozen=True)
class Operand:
    """A tensor of the graph, by the name of its value."""

    name: str


@dataclass(frozen=True)
class Call:
    """The arguments of a call: by position and by name."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object]


def leaves(call: Call) -> Iterator[object]:
    """All arguments, and what is in lists and mappings of them, in a fixed order."""
    for value in (*call.args, *(call.kwargs[k] for k in sorted(call.kwargs))):
        yield from _leaves(value)


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(value[key])
    else:
        yield value


def replaced(call: Call, new: Callable[[object], object]) -> Call:
    """The same call with other leaves, which are asked for in the order of `leaves`."""
    args = tuple(_replaced(value, new) for value in call.args)
    return Call(args, {k: _replaced(call.kwargs[k], new) for k in sorted(call.kwargs)})


def _replaced(value: object, new: Callable[[object], object]) -> object:
    if isinstance(value, tuple):
        return tuple(_replaced(part, new) for part in value)
    if isinstance(value, dict):
        return {key: _replaced(value[key], new) for key in sorted(value)}
    return new(value)


def parse_value(value: object, ref: Callable[[object], object], depth: int = 0) -> object:
    """An argument as JSON has it: tensors by `ref`, lists as tuples, slices and arrays as such.

    Raises ModelError for malformed ones, UnsupportedError for objects that are unknown here.
    """
    if depth > _MAX_DEPTH:
        raise ModelError("inbound_nodes are nested too deeply")
    found = ref(value)
    if found is not None:
        return found
    if isinstance(value, list):
        return tuple(parse_value(part, ref, depth + 1) for part in value)
    if not isinstance(value, dict):
        return value
    if "class_name" in value:
        return _parse_object(value)
    return {str(k): parse_value(v, ref, depth + 1) for k, v in value.items()}


def _parse_object(value: Mapping[str, object]) -> object:
    name, config = value.get("class_name"), value.get("config")
    given = config if isinstance(config, dict) else {}
    if name == "__slice__":
        return Span(*(_bound(given.get(key)) for key in ("start", "stop", "step")))
    if name == "__ellipsis__":
        return ...
    if name in ("__numpy__", "__tensor__"):
        return _array(given.get("value"), given.get("dtype"))
    if name in ("DTypePolicy", "__dtype__") and isinstance(given.get("name"), str):
        return given["name"]
    raise UnsupportedError(f"it is called with an object of class {name!r}")


def _bound(value: object) -> int | None:
    if value is None:
        return None
    number = whole_number(value, -(2**31))
    if number is None:
        raise UnsupportedError(
            "it is called with a slice whose ends are computed",
            cure="give slices whole numbers as their ends",
        )
    return number


def _array(value: object, dtype: object) -> Array:
    """A constant in a call; float32 unless the file says bool or integers."""
    try:
        found = np.asarray(value)
        whole = found.dtype.kind in "iub" and str(dtype).startswith(("int", "uint", "bool"))
        return found.astype(str(dtype)) if whole else found.astype(np.float32)
    except (ValueError, TypeError, OverflowError):
        raise ModelError(f"it is called with {shown(value)}, expected numbers") from None


class Arguments:
    """The arguments of one call by the names of the function's parameters.

    Raises ModelError for malformed ones. `check_all_read` finds those that nobody asked for.
    """

    def __init__(self, call: Call, names: Sequence[str], config: Mapping[str, object]) -> None:
        if len(call.args) > len(names):
            raise UnsupportedError(f"it is called with {len(call.args)} arguments")
        given = dict(zip(names, call.args, strict=False))
        self._values: dict[str, object] = {**config, **given, **call.kwargs}
        #: The names of what the call gives, in the order of its tensors.
        self.order = (*given, *sorted(call.kwargs))
        self._read: set[str] = set()

    def raw(self, key: str, default: object = None) -> object:
        """The value; `default` if it is absent or None."""
        self._read.add(key)
        found = self._values.get(key)
        return default if found is None else found

    def tensor(self, key: str) -> str:
        """The name of a value of the graph."""
        found = self.optional_tensor(key)
        if found is None:
            raise ModelError(f"argument {key} is missing")
        return found

    def optional_tensor(self, key: str) -> str | None:
        """The name of a value of the graph, or None."""
        found = self.raw(key)
        if found is None or isinstance(found, Operand):
            return None if found is None else found.name
        raise UnsupportedError(f"it is called with {key}={shown(found)}, expected a tensor")

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        return bool(self._typed(key, default, bool, "true or false"))

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        found = whole_number(self.raw(key, default), -(2**31))
        if found is None:
            raise ModelError(f"argument {key} is {shown(self.raw(key))}, expected a whole number")
        return found

    def number(self, key: str, default: float) -> float:
        """A number."""
        found = self.raw(key, default)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise UnsupportedError(f"argument {key} is {shown(found)}, expected a number")
        return float(found)

    def word(self, key: str, default: str) -> str:
        """A text."""
        return self._typed(key, default, str, "a name")

    def integers(self, key: str) -> tuple[int, ...] | None:
        """Whole numbers, or one; None if it is absent."""
        found = self.raw(key)
        if found is None:
            return None
        items = found if isinstance(found, tuple | list) else (found,)
        numbers = [whole_number(v, -(2**31)) for v in items]
        if any(n is None for n in numbers):
            raise UnsupportedError(f"argument {key} is {shown(found)}, expected whole numbers")
        return tuple(n for n in numbers if n is not None)

    def array(self, key: str, rank: int, *, whole: bool = False) -> Array:
        """Known numbers with up to `rank` axes, as float64 or int64; UnsupportedError otherwise."""
        found = self.raw(key)
        wanted, kinds = (np.int64, "iub") if whole else (np.float64, "iubf")
        try:
            array = np.asarray(found)
        except ValueError:
            array = np.asarray(None)
        if array.dtype.kind not in kinds or array.ndim > rank:
            raise UnsupportedError(f"argument {key} is {shown(found)}, expected known numbers")
        return array.astype(wanted)

    def _typed(self, key: str, default: T, kind: type[T], expected: str) -> T:
        found = self.raw(key, default)
        if not isinstance(found, kind):
            raise ModelError(f"argument {key} is {shown(found)}, expected {expected}")
        return found

    def ignore(self, *keys: str) -> None:
        """Mark arguments as having no influence on the result."""
        self._read.update(keys)

    def check_all_read(self) -> None:
        """Raises UnsupportedError if an argument is set that nobody asked for."""
        for key, value in self._values.items():
            if key not in self._read and value is not None and value is not False:
                raise UnsupportedError(f"it is called with the argument {key}={shown(value)}")
