"""Functions in an ELF file: how much code a candidate has become, and where it is.

Reads the symbol table (System V ABI, chapter 4) of little-endian files of 32 and 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SYMBOL_TABLE = 2
_FUNCTION = 2


@dataclass(frozen=True)
class _Class:
    """Where the fields of a file class are: headers, section headers, symbols."""

    header: str
    section: str
    symbol: str
    value_index: tuple[int, int, int, int]  # name, info, size, value in a symbol


_CLASSES = {
    1: _Class("<16xHHIIIIIHHHHHH", "<IIIIIIIIII", "<IIIBBH", (0, 3, 2, 1)),
    2: _Class("<16xHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ", (0, 1, 5, 4)),
}


@dataclass(frozen=True)
class FunctionPlace:
    """Where a function begins, and its bytes."""

    address: int
    size: int


def function_places(path: Path) -> dict[str, FunctionPlace]:
    """Where every function is, by name; empty for what is no such file."""
    data = path.read_bytes()
    kind = _class_of(data)
    if kind is None:
        return {}
    try:
        return dict(_functions(data, kind))
    except struct.error:
        return {}


def _class_of(data: bytes) -> _Class | None:
    return _CLASSES.get(data[4]) if data[:4] == b"\x7fELF" and data[5:6] == b"\x01" else None


def _functions(data: bytes, kind: _Class) -> Iterator[tuple[str, FunctionPlace]]:
    header = struct.unpack_from(kind.header, data)
    offset, size, count = header[5], header[10], header[11]
    sections = [struct.unpack_from(kind.section, data, offset + k * size) for k in range(count)]
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        start, length, link, each = section[4], section[5], section[6], section[9]
        names = sections[link][4]
        for at in range(start, start + length, each):
            symbol = struct.unpack_from(kind.symbol, data, at)
            name, info, size_of, value = (symbol[k] for k in kind.value_index)
            if info & 0xF == _FUNCTION:
                end = data.index(b"\0", names + name)
                yield (
                    data[names + name : end].decode("ascii", "replace"),
                    FunctionPlace(value, size_of),
                )
