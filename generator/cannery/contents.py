"""What generated files hold: bytes, and large weights in temporary files that are mapped.

Weights of hundreds of megabytes would else be in memory several times: in the model, packed for
kernels, and in the file.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, MADV_DONTNEED, mmap

import numpy as np
from numpy.typing import NDArray

from cannery.errors import CanneryError

#: The content of a file. Both kinds have a length, and slices that are bytes: `content[:]` is all.
Content = bytes | mmap

#: Contents and arrays of more bytes are kept in temporary files.
IN_MEMORY = 2**26

#: How many bytes are taken at a time.
_PIECE = 2**24


class ContentWriter:
    """A content that grows."""

    def __init__(self) -> None:
        # Not `with`: the file lives until `content` has taken it.
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. Raises CanneryError if they cannot be stored, as on a full disk."""
        with _naming_folder():
            self._file.write(data)
        self.size += len(data)

    def content(self) -> Content:
        """All that was written; no more can be."""
        with self._file as file, _naming_folder():
            if self.size <= IN_MEMORY:
                file.seek(0)
                return file.read()
            file.rollover()
            file.flush()
            return mmap(file.fileno(), 0, access=ACCESS_READ)


def pieces(content: Content) -> Iterator[bytes]:
    """The content from beginning to end; what was read of a map leaves the memory."""
    for at in range(0, len(content), _PIECE):
        yield content[at : at + _PIECE]
        if isinstance(content, mmap):
            content.madvise(MADV_DONTNEED)


def zeros(elements: int) -> NDArray[np.float32]:
    """float32[elements] to be filled; a long one is in a temporary file.

    Raises CanneryError if they cannot be stored, as on a full disk.
    """
    size = elements * np.dtype(np.float32).itemsize
    if size <= IN_MEMORY:
        return np.zeros(elements, np.float32)
    with _naming_folder(), tempfile.TemporaryFile() as file:
        # All is written: a page without a place on a full disk would kill the process later.
        for at in range(0, size, _PIECE):
            file.write(bytes(min(_PIECE, size - at)))
        file.flush()
        return np.frombuffer(mmap(file.fileno(), size), np.float32)


@contextmanager
def _naming_folder() -> Iterator[None]:
    """Make errors name the folder of temporary files, which have no names themselves."""
    try:
        yield
    except OSError as error:
        place = tempfile.tempdir or os.environ.get("TMPDIR") or "temporary files"
        raise CanneryError(
            f"large weights cannot be stored in a temporary file: {error.strerror}",
            where=str(place), cure="make room, or set TMPDIR to another folder",
        ) from None  # fmt: skip


def put_aside(array: NDArray[np.generic]) -> None:
    """An array made by `zeros`, or a view of it, is read later: until then, its file has it."""
    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview) and isinstance(base.obj, mmap):
        base.obj.madvise(MADV_DONTNEED)


def array_pieces(array: NDArray[np.generic]) -> Iterator[memoryview]:
    """The bytes of an array in C order; what was read of one made by `zeros` is put aside."""
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for at in range(0, len(content), _PIECE):
        yield content[at : at + _PIECE].data
        put_aside(content)


def array_digest(array: NDArray[np.generic]) -> bytes:
    """The SHA-256 of an array's bytes."""
    digest = hashlib.sha256()
    for piece in array_pieces(array):
        digest.update(piece)
    return digest.digest()
