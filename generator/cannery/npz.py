"""Arrays from .npz and .npy files that users give."""

from __future__ import annotations

import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from cannery.errors import OptionError
from cannery.ir.registry import RefArray
from cannery.user_files import check_file

_CURE = "name a file made by numpy.savez, with one array for each tensor"

#: Most bytes of all arrays together: more than any sample needs.
_MAX_BYTES = 2**32

_DAMAGES = (
    ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError,
    SyntaxError, OverflowError,
)  # fmt: skip


def read_arrays(path: Path) -> dict[str, RefArray]:
    """The arrays of a .npz file by name. Raises OptionError if it is missing or damaged."""
    where = str(path)
    check_file(path, _MAX_BYTES, cure=_CURE)
    try:
        with path.open("rb") as file:
            head = file.read(len(npy.MAGIC_PREFIX))
        if head == npy.MAGIC_PREFIX:
            raise OptionError("one array without a name", where=where, cure=_CURE)
        if not zipfile.is_zipfile(path):
            raise OptionError("not a valid .npz file", where=where, cure=_CURE)
        _check_sizes(path)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except OSError as error:
        raise OptionError(error.strerror or "cannot be read", where=where, cure=_CURE) from None
    except _DAMAGES as error:
        what = f"not a valid .npz file: {error}"
        raise OptionError(what, where=where, cure=_CURE) from None


def read_array_or_arrays(path: Path) -> dict[str, RefArray]:
    """The same, or of a .npy file the only array, whose name is empty. Raises OptionError."""
    where, cure = str(path), "name a file made by numpy.save or numpy.savez"
    check_file(path, _MAX_BYTES, cure=cure)
    try:
        with path.open("rb") as file:
            if file.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
                if not zipfile.is_zipfile(path):
                    raise OptionError("not a valid .npy or .npz file", where=where, cure=cure)
                return read_arrays(path)
            file.seek(0)
            _check_array(file, path.name, path.stat().st_size)
        return {"": np.load(path, allow_pickle=False)}
    except OSError as error:
        raise OptionError(error.strerror or "cannot be read", where=where, cure=cure) from None
    except _DAMAGES as error:
        raise OptionError(f"not a valid .npy file: {error}", where=where, cure=cure) from None


def _check_sizes(path: Path) -> None:
    """Raise ValueError unless each array has as many bytes as its header declares."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        if sum(info.file_size for info in infos) > _MAX_BYTES:
            raise ValueError(f"its arrays have more than {_MAX_BYTES} bytes")
        for info in infos:
            with archive.open(info) as member:
                _check_array(member, info.filename, info.file_size)


def _check_array(member: IO[bytes], name: str, size: int) -> None:
    """Raise ValueError unless a file of so many bytes is the array that its header promises."""
    version = npy.read_magic(member)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"{name!r} is stored in version {version}")
    shape, _, dtype = read(member)
    if dtype.hasobject:
        raise ValueError(f"{name!r} holds Python objects")
    if member.tell() + prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name!r} does not have the bytes of its shape {shape}")
