"""Where shared libraries of networks are kept: a cache per user.

If that is not writable, they are in a temporary folder. A damaged library is made again, because
loading it may crash.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import platform
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from filelock import FileLock

from cannery.api.interface import Interface
from cannery.api.kept import digest_file, is_whole, kept_library
from cannery.api.net import Net
from cannery.atomic import replace_files, temporary_folder
from cannery.errors import ToolchainError
from cannery.target.runner import host_cpu_flags


def store(folder: str, name: str, make: Callable[[], bytes]) -> Path:
    """A library, made if it does not exist. Raises ToolchainError if it cannot be written
    anywhere.
    """
    try:
        library = Path(kept_library(folder, name))
        _make_once(library, make)
    except OSError:
        # A cache that is not writable does not count.
        try:
            library = _temporary_folder() / f"{name}.so"
            _write(library, make())
        except OSError as error:
            raise ToolchainError(
                f"cannot write a library: {error.strerror}",
                where=error.filename or f"network {name!r}",
                cure="make room, or set TMPDIR to a writable folder",
            ) from None
    return library


def _make_once(library: Path, make: Callable[[], bytes]) -> None:
    if is_whole(str(library)):
        return
    library.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(str(library.parent / "lock")):
        if not is_whole(str(library)):
            _write(library, make())


def _write(library: Path, data: bytes) -> None:
    digest = hashlib.sha256(data).hexdigest().encode()
    replace_files({library: data, Path(digest_file(str(library))): digest})


def _temporary_folder() -> Path:
    """A folder that exists until Python ends."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(temporary_folder())


def platform_name() -> str:
    """The kind of machine whose code runs in this Python."""
    bits = 8 * ctypes.sizeof(ctypes.c_void_p)
    return f"{platform.system()} {platform.machine()} {bits} bit"


def library_bytes(library: str) -> bytes:
    """The machine code of a network, for `restored`. Raises ToolchainError if it is gone."""
    if not is_whole(library):
        raise ToolchainError(
            "the library is no longer in the cache, or is damaged", where=library,
            cure="load the network again",
        )  # fmt: skip
    return Path(library).read_bytes()


def restored(data: bytes, interface: Interface, threads: int) -> Net:
    """The network whose machine code this is. Raises ToolchainError on another kind of machine."""
    missing = sorted(set(interface.needs) - host_cpu_flags())
    if interface.machine != platform_name() or missing:
        lacks = f" with {', '.join(missing[:5])}" if missing else ""
        raise ToolchainError(
            f"it was made for another machine, {interface.machine}{lacks}",
            where=f"network {interface.name!r}", cure="load the model here",
        )  # fmt: skip
    folder = hashlib.sha256(data).hexdigest()[:24]
    return Net(str(store(folder, interface.name, lambda: data)), interface, threads)
