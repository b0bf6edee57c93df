"""Texts that change with files, programs, the processor and Cannery itself.

It imports little, because `load` asks in every process; so paths are texts here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache

from cannery.user_files import unusual

#: Bytes of the largest file that is examined, and of the pieces in which it is read.
_MAX_FILE = 2**33
_PIECE = 2**20

#: Bytes of /proc/cpuinfo that describe the first processor, and what in them varies.
_CPUINFO = 16384
_VARYING = (b"cpu MHz", b"BogoMIPS", b"bogomips")

#: The package, and its C headers in a wheel or beside it in a checkout.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN = (
    _PACKAGE,
    os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "runtime", "include"),
)


def file_digest(path: str) -> str | None:
    """The digest of a file's content, None if it cannot be read."""
    if unusual(path):  # reading a pipe would never end
        return None
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size > _MAX_FILE:
                return None
            while piece := file.read(_PIECE):
                digest.update(piece)
    except (OSError, ValueError):
        return None
    return digest.hexdigest()


def program_stamp(name: str) -> str:
    """A stamp that changes if a program is replaced, or another one of its name is found first."""
    folders = [""] if os.path.dirname(name) else os.get_exec_path()
    for folder in folders:
        path = os.path.join(folder, name)
        if not os.access(path, os.X_OK) or unusual(path):
            continue
        try:
            status = os.stat(path)
        except OSError:
            continue
        path = os.path.realpath(path)
        return f"{name}: {path} {status.st_size} {status.st_mtime_ns}"
    return f"{name}: none"


@cache
def own_stamp() -> str:
    """A stamp that changes with any file of Cannery: an edited checkout keeps its version."""
    lines = sorted(line for root in _OWN for line in _stamps(root))
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def _stamps(folder: str) -> Iterator[str]:
    """A line for each file in a folder and below, without Python's own compiled files."""
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:  # headers are in the package, or beside it
        return
    with entries:
        for entry in entries:
            if not entry.is_dir():
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
            elif entry.name != "__pycache__":
                yield from _stamps(entry.path)


@cache
def processor_stamp() -> str:
    """What compilers see of this machine's processor."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            first = file.read(_CPUINFO).split(b"\n\n")[0]
    except OSError:
        return ""
    lines = [line for line in first.splitlines() if not line.startswith(_VARYING)]
    return hashlib.sha256(b"\n".join(lines)).hexdigest()
