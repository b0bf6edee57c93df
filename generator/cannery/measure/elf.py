"""Functions, constants and sections in an ELF file: their sizes and places.

Reads the symbol table (System V ABI, chapter 4) of little-endian files of 32 and 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SYMBOL_TABLE = 2
_OBJECT, _FUNCTION = 1, 2


@dataclass(frozen=True)
class _Class:
    """Where the fields of a file class are: headers, section headers, symbols."""

    header: str
    section: str
    symbol: str
    value_index: tuple[int, int, int, int]  # name, info, size, value in a symbol
    place_index: int  # the number of its section


_CLASSES = {
    1: _Class("<16xHHIIIIIHHHHHH", "<IIIIIIIIII", "<IIIBBH", (0, 3, 2, 1), 5),
    2: _Class("<16xHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ", (0, 1, 5, 4), 3),
}


#: Types and flags of sections: without content, unwinding tables of x86; in memory, code, writable.
_NOBITS, _UNWIND = 8, 0x70000001
_ALLOC, _EXEC, _WRITE = 2, 4, 1


@dataclass(frozen=True)
class SectionSizes:
    """Bytes of an object file that end up in memory: code, constants, data with values, zeros.

    Unwinding tables do not count: firmware has no use for them.
    """

    code: int = 0
    constants: int = 0
    data: int = 0
    zeros: int = 0

    def __add__(self, other: SectionSizes) -> SectionSizes:
        return SectionSizes(
            self.code + other.code, self.constants + other.constants, self.data + other.data,
            self.zeros + other.zeros,
        )  # fmt: skip


def symbol_sections(path: Path) -> dict[str, str]:
    """The section of every function and array that a file defines; empty if it is not such a
    file.
    """
    data = path.read_bytes()
    kind = _class_of(data)
    if kind is None:
        return {}
    try:
        sections = _sections(data, kind)
        names = sections[_section_names(data, kind)][4]
        return {
            _text(data, strings + symbol[kind.value_index[0]]): _text(
                data, names + sections[symbol[kind.place_index]][0]
            )
            for strings, symbol in _raw_symbols(data, kind)
            if symbol[kind.value_index[1]] & 0xF in (_OBJECT, _FUNCTION)
            and symbol[kind.place_index] < len(sections)
        }
    except (struct.error, IndexError, ValueError):
        return {}


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("ascii", "replace")


def section_sizes(path: Path) -> SectionSizes | None:
    """The sizes of a file's sections; None if it is not such a file."""
    data = path.read_bytes()
    kind = _class_of(data)
    if kind is None:
        return None
    total = SectionSizes()
    try:
        sections = _sections(data, kind)
        names = sections[_section_names(data, kind)][4]
        for section in sections:
            start = names + section[0]
            name = data[start : data.index(b"\0", start)]
            if name not in _UNWINDING and section[1] != _UNWIND:
                total += _section_size(section[1], section[2], section[5])
    except (struct.error, IndexError, ValueError):
        return None
    return total


#: Tables by which debuggers and C++ find the caller, on x86 and elsewhere, and on Arm.
_UNWINDING = (b".eh_frame", b".ARM.exidx", b".ARM.extab")


def _section_size(type_: int, flags: int, size: int) -> SectionSizes:
    if not flags & _ALLOC:
        return SectionSizes()
    if flags & _EXEC:
        return SectionSizes(code=size)
    if not flags & _WRITE:
        return SectionSizes(constants=size)
    return SectionSizes(zeros=size) if type_ == _NOBITS else SectionSizes(data=size)


def _sections(data: bytes, kind: _Class) -> list[tuple[int, ...]]:
    header = struct.unpack_from(kind.header, data)
    offset, size, count = header[5], header[10], header[11]
    return [struct.unpack_from(kind.section, data, offset + k * size) for k in range(count)]


def _section_names(data: bytes, kind: _Class) -> int:
    """The number of the section that holds the names of all."""
    return int(struct.unpack_from(kind.header, data)[12])


@dataclass(frozen=True)
class FunctionPlace:
    """Where a function begins, and its bytes."""

    address: int
    size: int


def function_places(path: Path) -> dict[str, FunctionPlace]:
    """Where every function is, by name; empty if it is not such a file."""
    return _places(path, _FUNCTION)


def array_sizes(path: Path) -> dict[str, int]:
    """The bytes of every array and variable, by name; empty if it is not such a file.

    Those that the compiler made part of the code are missing.
    """
    return {name: place.size for name, place in _places(path, _OBJECT).items()}


def _places(path: Path, type_: int) -> dict[str, FunctionPlace]:
    """The symbols of one type; empty if it is not such a file."""
    data = path.read_bytes()
    kind = _class_of(data)
    if kind is None:
        return {}
    try:
        return dict(_symbols(data, kind, type_))
    except struct.error:
        return {}


def _class_of(data: bytes) -> _Class | None:
    return _CLASSES.get(data[4]) if data[:4] == b"\x7fELF" and data[5:6] == b"\x01" else None


def _symbols(data: bytes, kind: _Class, type_: int) -> Iterator[tuple[str, FunctionPlace]]:
    for names, symbol in _raw_symbols(data, kind):
        name, info, size_of, value = (symbol[k] for k in kind.value_index)
        if info & 0xF == type_:
            yield _text(data, names + name), FunctionPlace(value, size_of)


def _raw_symbols(data: bytes, kind: _Class) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The fields of every symbol, and where the names of its table begin."""
    sections = _sections(data, kind)
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        start, length, link, each = section[4], section[5], section[6], section[9]
        for at in range(start, start + length, each):
            yield sections[link][4], struct.unpack_from(kind.symbol, data, at)
