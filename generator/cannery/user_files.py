"""Files that users name: what is not a plain file, or absurdly large, is refused before it is read.

A pipe that nobody writes to blocks for ever, /dev/zero never ends, and a sparse file of a terabyte
takes no room on the disk.
"""

from __future__ import annotations

import stat
from pathlib import Path

from cannery.errors import CanneryError, OptionError

_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket",
}  # fmt: skip

#: Bytes of texts: tuning records, listings of macros, commands. The largest are 1000 times smaller.
MAX_TEXT = 2**28


def unusual(path: Path) -> str:
    """What lies at a path, "a pipe" for example; empty for a plain file and where nothing is."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "not a file")


def check_file(
    path: Path,
    limit: int | None = None,
    *,
    error: type[CanneryError] = OptionError,
    where: str = "",
    cure: str = "name a plain file",
) -> None:
    """Raise `error` where there is something that is not a plain file of at most `limit` bytes.

    Without a limit the caller reads a part. `where` is the path unless it is given. A path
    where nothing is passes: what opens it says what that means.
    """
    where = where or str(path)
    kind = unusual(path)
    if kind:
        raise error(f"{kind}, not a file", where=where, cure=cure)
    try:
        size = path.stat().st_size
    except (OSError, ValueError):
        return
    if limit is not None and size > limit:
        raise error(f"{size} bytes are too many, {limit} are read at most", where=where, cure=cure)


def read_file(
    path: Path,
    limit: int = MAX_TEXT,
    *,
    error: type[CanneryError] = OptionError,
    where: str = "",
) -> bytes:
    """The bytes of a plain file; see `check_file`. Raises OSError where it cannot be read."""
    check_file(path, limit, error=error, where=where)
    return path.read_bytes()
