"""Finds what `load` made before, without generating any code, or reading what options mean.

An entry says which library a model became, and everything this depends on: the content of the model
and of other files (also that a tuning record did *not* exist), options as they were given,
compiler, processor, and Cannery's own files. It also keeps the warnings.

Most processes that load a network need no more than this module, so it imports little.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from cannery import __version__
from cannery.api.interface import Interface, interface_from
from cannery.api.stamps import file_digest, own_stamp, processor_stamp, program_stamp
from cannery.errors import OptionError
from cannery.options_given import text_of, texts_of
from cannery.user_files import unusual
from cannery.user_folders import user_cache

#: Options that name files: what they mean depends on the folder.
PATHS = ("tuning", "weights", "peepholes", "calibration", "macros", "class_names", "custom")


class Entry(NamedTuple):
    """A library that was made: its folder below that of all; digests of the files that were read,
    None if there was none; the stamps of programs; warnings.
    """

    folder: str
    interface: Interface
    files: Mapping[str, str | None]
    programs: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def library(self) -> str:
        """Where it is."""
        return kept_library(self.folder, self.interface.name)

    def holds(self) -> bool:
        """Whether everything is unchanged."""
        return (
            all(program_stamp(name) == stamp for name, stamp in self.programs.items())
            and all(file_digest(path) == digest for path, digest in self.files.items())
            and is_whole(self.library)
        )


def kept_library(folder: str, name: str) -> str:
    """Where a library is kept, in its own folder."""
    return os.path.join(user_cache(), "libraries", folder, f"{name}.so")


def digest_file(library: str) -> str:
    """The file next to a library that holds its SHA-256."""
    return library.removesuffix(".so") + ".sha256"


def is_whole(library: str) -> bool:
    """Whether there is a library, identical to what was built."""
    digest = file_digest(library)
    return digest is not None and _read(digest_file(library)) == digest.encode()


def _read(path: str) -> bytes:
    """What is in a file; nothing if it cannot be read."""
    with suppress(OSError):
        if not unusual(path):  # reading a pipe would never end
            with open(path, "rb") as file:
                return file.read()
    return b""


def find_entry(key: str) -> Entry | None:
    """The entry for a key, if it is still valid."""
    digest, _, data = _read(_path(key)).partition(b"\n")
    if digest != hashlib.sha256(data).hexdigest().encode():
        return None
    with suppress(OSError, ValueError, TypeError):
        found = Entry._make(json.loads(data))
        entry = found._replace(interface=interface_from(found.interface))
        return entry if entry.holds() else None
    return None


def keep_entry(key: str, entry: Entry) -> None:
    """Keep it; disk errors are ignored."""
    from pathlib import Path

    from cannery.atomic import replace_files

    data = json.dumps(entry).encode()
    digest = hashlib.sha256(data).hexdigest()
    with suppress(OSError):
        path = Path(_path(key))
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_files({path: digest.encode() + b"\n" + data})


def _path(key: str) -> str:
    return os.path.join(user_cache(), "loaded", f"{key}.json")


def key_of(model: object, options: Mapping[str, object]) -> str:
    """The key of a result, before anything except the model is read; empty if there is none.

    Options that mean the same in other words have another key. There is none where only files that
    parsing reads say what options mean.
    """
    given = {name: value for name, value in sorted(options.items()) if value is not None}
    try:
        words = [_option(name, value) for name, value in given.items()]
        compiler = text_of(given.get("cc", os.environ.get("CC", "")))
        where, digest = _model(model)
    except (OptionError, OSError, BufferError):  # parsing says what is wrong
        return ""
    if digest is None or compiler.startswith("@") or "device" in given:
        return ""
    parts = [
        __version__, own_stamp(), processor_stamp(), where, digest, *words,
        *(program_stamp(name) for name in (*compiler.split()[:1], "cc", "gcc", "clang")),
    ]  # fmt: skip
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:32]


def _model(model: object) -> tuple[str, str | None]:
    """Where a model is, and its digest; None if there is none."""
    if isinstance(model, bytes | bytearray | memoryview):
        return "", hashlib.sha256(model).hexdigest()
    if isinstance(model, str | os.PathLike):
        path = _absolute(os.fsdecode(model))
        return path, file_digest(path)
    return "", None


def _option(name: str, value: object) -> str:
    """An option as text: no two values that mean different things have the same."""
    if isinstance(value, bool | np.bool_):
        return f"{name} is {value}"
    try:
        text = text_of(value)
        return f"{name}={_absolute(text) if name in PATHS else text}"
    except OptionError:
        if not isinstance(value, Collection):  # reading an iterator would empty it
            raise
        place = f" in {os.getcwd()}" if name in PATHS else ""
        return f"{name} {type(value).__name__}={texts_of(value, pairs=True)}{place}"


def _absolute(path: str) -> str:
    return os.path.join(os.getcwd(), path)


def digests(paths: Iterable[str | os.PathLike[str]]) -> dict[str, str | None]:
    """The digest of each file."""
    places = [_absolute(os.fspath(path)) for path in paths]
    return {place: file_digest(place) for place in places}
