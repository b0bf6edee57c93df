"""Names of classes, from a text file of the user: one in each line."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from cannery.errors import OptionError
from cannery.user_files import read_file

#: Names, and the bytes of each, that C compilers take without complaint.
MAX_NAMES = 65_536
MAX_BYTES = 400

_CURE = "write one name in each line, as UTF-8"


def read_class_names(path: Path, sizes: Sequence[int]) -> tuple[str, ...]:
    """The names in a file, as many as some output has elements along its last axis (`sizes`).

    Raises OptionError for any other number, and for what is not such a text.
    """
    where = f"--class-names {path}"
    try:
        lines = read_file(path, where=where).decode("utf-8-sig").splitlines()
    except OSError as error:
        raise OptionError(error.strerror or "cannot be read", where=where, cure=_CURE) from None
    except UnicodeDecodeError:
        raise OptionError("not UTF-8", where=where, cure=_CURE) from None
    names = tuple(line.strip() for line in lines)
    for number, name in enumerate(names, 1):
        odd = any(unicodedata.category(c).startswith("C") for c in name)
        if not name or odd or len(name.encode()) > MAX_BYTES:
            what = "is empty" if not name else "has control characters" if odd else "is too long"
            raise OptionError(f"line {number} {what}", where=where, cure=_CURE)
    if not 0 < len(names) <= MAX_NAMES or len(names) not in sizes:
        known = ", ".join(map(str, dict.fromkeys(sizes)))
        raise OptionError(
            f"{len(names)} names, but outputs have {known} elements along their last axis",
            where=where, cure=_CURE,
        )  # fmt: skip
    return names
