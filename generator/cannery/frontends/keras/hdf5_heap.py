"""Checks the part of an HDF5 file that makes libhdf5 hang if it is damaged.

Variable-length texts are in global heaps: collections that begin with "GCOL", then objects of 16
bytes of header (index, references, reserved, size) and their data, in multiples of 8 bytes. The
library walks them without checking for progress; a block of zeros makes it loop forever. See the
HDF5 File Format Specification, "Disk Format: Level 1E - Global Heap".
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from cannery.errors import ModelError

_SIGNATURE = b"GCOL\x01\x00\x00\x00"
_HEADER = struct.Struct("<8sQ")
_OBJECT = struct.Struct("<HHIQ")
_ALIGNMENT = 8


def check_heaps(path: Path) -> None:
    """Raises ModelError if a global heap of the file would stop the walk through it."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            sound = all(_is_walkable(data, begin) for begin in _collections(data))
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot be read: {error}", where=str(path)) from None
    if not sound:
        raise ModelError(
            "a damaged HDF5 file: its texts are unreadable",
            where=str(path),
            cure="save the model again, or copy the file again",
        )


def _collections(data: mmap.mmap) -> Iterator[int]:
    """Where collections begin."""
    begin = data.find(_SIGNATURE)
    while begin >= 0:
        if begin % _ALIGNMENT == 0:
            yield begin
        begin = data.find(_SIGNATURE, begin + 1)


def _is_walkable(data: mmap.mmap, begin: int) -> bool:
    """Whether each object of a collection leads to the next one, up to the end."""
    if begin + _HEADER.size > len(data):
        return False
    _, size = _HEADER.unpack_from(data, begin)
    position, end = begin + _HEADER.size, begin + size
    if end > len(data):
        return False
    while position + _OBJECT.size <= end:
        index, _, _, length = _OBJECT.unpack_from(data, position)
        if length > size or (index == 0 and length == 0):
            return False
        # The size of free space, which has index 0, includes its header.
        step = length if index == 0 else _OBJECT.size + length
        position += -(-step // _ALIGNMENT) * _ALIGNMENT
    return True
