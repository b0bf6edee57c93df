"""Finds what `load` made before, without generating any code.

An entry says which library a model became, and everything this depends on: the content of the model
and of other files (also that a tuning record did *not* exist), options, compiler, processor, and
Cannery's own files. It also keeps the warnings.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import msgspec

from cannery import __version__
from cannery.api.interface import Interface
from cannery.api.model import GivenModel
from cannery.api.store import is_whole, kept_library
from cannery.atomic import replace_files
from cannery.measure.cache import user_cache
from cannery.options import Options
from cannery.resources import runtime_include_dir
from cannery.user_files import unusual

#: Bytes of the largest file that is examined, and of the pieces in which it is read.
_MAX_FILE = 2**33
_PIECE = 2**20

#: Bytes of /proc/cpuinfo that describe the first processor, and what in them varies.
_CPUINFO = 16384
_VARYING = (b"cpu MHz", b"BogoMIPS", b"bogomips")


@dataclass(frozen=True)
class Entry:
    """A library that was made: the folder of `store`; digests of the files that were read, None if
    there was none; the stamps of programs; warnings.
    """

    folder: str
    interface: Interface
    files: Mapping[str, str | None]
    programs: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def library(self) -> Path:
        """Where it is."""
        return kept_library(self.folder, self.interface.name)

    def holds(self) -> bool:
        """Whether everything is unchanged."""
        return (
            all(program_stamp(name) == stamp for name, stamp in self.programs.items())
            and all(file_digest(Path(path)) == digest for path, digest in self.files.items())
            and is_whole(self.library)
        )


def find_entry(key: str) -> Entry | None:
    """The entry for a key, if it is still valid."""
    path = _path(key)
    if unusual(path):  # reading a pipe would never end
        return None
    with suppress(OSError, ValueError, msgspec.MsgspecError):
        digest, _, data = path.read_bytes().partition(b"\n")
        if digest == hashlib.sha256(data).hexdigest().encode():
            entry = msgspec.json.decode(data, type=Entry)
            return entry if entry.holds() else None
    return None


def keep_entry(key: str, entry: Entry) -> None:
    """Keep it; disk errors are ignored."""
    data = msgspec.json.encode(entry)
    digest = hashlib.sha256(data).hexdigest().encode()
    with suppress(OSError):
        _path(key).parent.mkdir(parents=True, exist_ok=True)
        replace_files({_path(key): digest + b"\n" + data})


def _path(key: str) -> Path:
    return user_cache() / "loaded" / f"{key}.json"


def key_of(model: GivenModel) -> str:
    """The key of a result, before anything except the model is read; empty if impossible."""
    if model.data is None:
        where, digest = str(model.options.model.absolute()), file_digest(model.options.model)
    else:
        where, digest = "", hashlib.sha256(model.data).hexdigest()
    if digest is None:
        return ""
    parts = [
        __version__, own_stamp(), processor_stamp(), where, digest, *_option_texts(model.options),
        *(program_stamp(name) for name in _compilers(model.options)),
    ]  # fmt: skip
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:32]


def _option_texts(options: Options) -> list[str]:
    """All options except the model, with paths relative to here."""
    found = []
    for field in fields(options):
        value = getattr(options, field.name)
        if isinstance(value, Path):
            value = value.absolute()
        elif isinstance(value, Mapping):
            value = dict(value)
        found += [f"{field.name}={value}"] if field.name != "model" else []
    return found


def _compilers(options: Options) -> list[str]:
    """Programs that may be the compiler of this machine."""
    words = (options.cc or os.environ.get("CC") or "").split()
    return [*words[:1], "cc", "gcc", "clang"]


def read_files(options: Options) -> list[Path]:
    """The files that options name; those that compiling reports come in addition."""
    named = (options.peepholes, options.calibration, options.macros, options.class_names)
    return [path for path in named if path is not None]


def digests(paths: Iterable[Path]) -> dict[str, str | None]:
    """The digest of each file."""
    return {str(path.absolute()): file_digest(path) for path in paths}


def file_digest(path: Path) -> str | None:
    """The digest of a file's content, None if it cannot be read."""
    if unusual(path):  # reading a pipe would never end
        return None
    digest = hashlib.sha256()
    try:
        if path.stat().st_size > _MAX_FILE:
            return None
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()


def program_stamp(name: str) -> str:
    """A stamp that changes if a program is replaced, or another one of its name is found first."""
    found = shutil.which(name)
    if found is None:
        return f"{name}: none"
    path = Path(found).resolve()
    try:
        status = path.stat()
    except OSError:
        return f"{name}: none"
    return f"{name}: {path} {status.st_size} {status.st_mtime_ns}"


@cache
def own_stamp() -> str:
    """A stamp that changes with any file of Cannery: an edited checkout keeps its version."""
    roots = (Path(__file__).parents[1], runtime_include_dir())
    lines = sorted(line for root in roots for line in _stamps(str(root)))
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()


def _stamps(folder: str) -> Iterator[str]:
    """A line for each file in a folder and below, without Python's own compiled files."""
    with os.scandir(folder) as entries:
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
        with Path("/proc/cpuinfo").open("rb") as file:
            first = file.read(_CPUINFO).split(b"\n\n")[0]
    except OSError:
        return ""
    lines = [line for line in first.splitlines() if not line.startswith(_VARYING)]
    return hashlib.sha256(b"\n".join(lines)).hexdigest()
