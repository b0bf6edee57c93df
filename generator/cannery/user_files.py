"""Files that users name: before reading, rejects huge ones and those that are not plain files.

A pipe without a writer blocks forever, /dev/zero never ends, and a sparse file of a terabyte takes
no space on disk.
"""

from __future__ import annotations

import os
import stat

from cannery.errors import CanneryError, OptionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket",
}  # fmt: skip

#: Most bytes of texts: tuning records, listings of macros, commands. Real ones are 1000 times
#: smaller.
MAX_TEXT = 2**28


def unusual(path: str | os.PathLike[str]) -> str:
    """What is at a path, for example "a pipe"; empty for a plain file and for nothing."""
    try:
        mode = os.stat(path).st_mode
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
    """Raise `error` if there is something other than a plain file of at most `limit` bytes.

    Without a limit, the caller reads only part. `where` is the path unless given. A path without a
    file passes: whatever opens it reports that.
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
        raise error(f"{size} bytes are too many, at most {limit} are read", where=where, cure=cure)


def read_file(
    path: Path,
    limit: int = MAX_TEXT,
    *,
    error: type[CanneryError] = OptionError,
    where: str = "",
) -> bytes:
    """The bytes of a plain file; see `check_file`. Raises OSError if it cannot be read."""
    check_file(path, limit, error=error, where=where)
    return path.read_bytes()
