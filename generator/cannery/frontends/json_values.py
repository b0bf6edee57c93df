"""Typed access to JSON that describes a network.

A value of an unexpected type is a ModelError that names it. `Fields` remembers which fields were
read, so that none is silently ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TypeVar

from cannery.errors import ModelError, UnsupportedError
from cannery.ir.tensor import MAX_ELEMENTS
from cannery.user_files import read_file

T = TypeVar("T")

#: What a JSON object becomes, where it is not a dictionary.
Hook = Callable[[dict[str, object]], object]


#: How a JSON object begins in a file, as a pattern.
OBJECT_START = rb'^(\xef\xbb\xbf)?\s*\{\s*"'


def parse_json(text: str | bytes, what: str, hook: Hook | None = None) -> object:
    """Decoded JSON; ModelError naming `what` if it is damaged or nested absurdly deep."""
    try:
        value: object = json.loads(text, object_hook=hook)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ModelError(f"{what} is damaged: {reason}", cure="save the model again") from None
    return value


def read_object(path: Path) -> Mapping[str, object]:
    """The JSON object in a file; ModelError if it is damaged or huge."""
    whole = read_file(path, error=ModelError)
    return mapping(parse_json(whole, "the file"), "the file")


def mapping(value: object, what: str) -> Mapping[str, object]:
    """`value` as a JSON object; ModelError naming `what` otherwise."""
    if not isinstance(value, dict):
        raise ModelError(f"{what} is {shown(value)}, expected an object")
    return value


def sequence(value: object, what: str) -> Sequence[object]:
    """`value` as a JSON array; ModelError naming `what` otherwise."""
    if not isinstance(value, list):
        raise ModelError(f"{what} is {shown(value)}, expected a list")
    return value


def text(value: object, what: str) -> str:
    """`value` as a string that is not empty; ModelError naming `what` otherwise."""
    if not isinstance(value, str) or not value:
        raise ModelError(f"{what} is {shown(value)}, expected a text")
    return value


def shown(value: object) -> str:
    """A value for a message: its beginning."""
    whole = repr(value)
    return whole if len(whole) <= 60 else f"{whole[:57]}..."


class Fields:
    """The fields of a JSON object; each getter raises ModelError, at `where`, for a malformed
    value.
    """

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self.where = where
        self._values = values
        self._read: set[str] = set()

    def raw(self, key: str) -> object:
        """The value as JSON; None if it is absent."""
        self._read.add(key)
        return self._values.get(key)

    def has(self, key: str) -> bool:
        """Whether the file has the field at all."""
        return key in self._values

    def _get(self, key: str, default: T | None, read: Callable[[object], T | None], kind: str) -> T:
        value = self.raw(key)
        if value is None and default is not None:
            return default
        result = read(value)
        if result is None:
            what = f"{key} is {shown(value)}" if self.has(key) else f"{key} is missing"
            raise ModelError(f"{what}, expected {kind}", where=self.where)
        return result

    def integer(self, key: str, default: int | None = None, *, minimum: int = 1) -> int:
        """A whole number from `minimum` to the greatest number of elements."""
        kind = f"a whole number from {minimum} to {MAX_ELEMENTS}"
        return self._get(key, default, lambda v: whole_number(v, minimum), kind)

    def shape(self, key: str, *, minimum: int) -> tuple[int, ...]:
        """Any number of whole numbers."""
        kind = f"whole numbers of at least {minimum}"
        return self._get(key, None, lambda v: whole_numbers(v, None, minimum), kind)

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        return self._get(key, default, finite_number, "a finite number")

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false; integers count as in Python."""
        return self._get(
            key, default, lambda v: bool(v) if isinstance(v, int) else None, "true or false"
        )

    def word(self, key: str, default: str | None = None) -> str:
        """A text."""
        return self._get(key, default, lambda v: v if isinstance(v, str) else None, "a name")

    def items(self, key: str) -> Sequence[object]:
        """A list."""
        return self._get(key, None, lambda v: v if isinstance(v, list) else None, "a list")

    def inner(self, key: str) -> Fields:
        """A JSON object in this one."""
        found = self._get(key, None, lambda v: v if isinstance(v, dict) else None, "an object")
        return Fields(found, f"{self.where}, {key}".removeprefix(", "))

    def unread(self) -> Iterator[tuple[str, object]]:
        """The fields that are not null, and that no getter asked for."""
        for key, value in self._values.items():
            if key not in self._read and value is not None:
                yield key, value

    def ignore(self, *keys: str) -> None:
        """Mark fields as having no influence on inference."""
        self._read.update(keys)

    def check_all_read(self) -> None:
        """Raises UnsupportedError if a field is set that no getter asked for."""
        for key, value in self.unread():
            raise UnsupportedError(f"field {key}={shown(value)} is unknown", where=self.where)


def whole_number(value: object, minimum: int) -> int | None:
    """`value` if it is a whole number from `minimum` to the greatest number of elements."""
    if isinstance(value, float) and isfinite(value) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if minimum <= value <= MAX_ELEMENTS else None


def whole_numbers(value: object, count: int | None, minimum: int) -> tuple[int, ...] | None:
    """A list of so many whole numbers, of which one applies to all; without `count` any number."""
    if count is not None and not isinstance(value, list):
        value = [value] * count
    if isinstance(value, list) and len(value) == 1 and count is not None:
        value = value * count
    if not isinstance(value, list) or (count is not None and len(value) != count):
        return None
    numbers = [whole_number(v, minimum) for v in value]
    result = tuple(n for n in numbers if n is not None)
    return result if len(result) == len(numbers) else None


def finite_number(value: object) -> float | None:
    """`value` if it is a number that float64 has."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None
