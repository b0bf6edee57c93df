"""C of users within generated files: marked, so that an error of the compiler names their file."""

from __future__ import annotations

import re
from pathlib import Path

from cannery.errors import ToolchainError

_BEGIN = re.compile(r"\s*/\* From (.*): \*/$")
_END = re.compile(r"\s*/\* End of .*\. \*/$")


def marked(file: str, code: str) -> str:
    """The text of a user's file for a generated one; `file` is a name that suits a comment."""
    return f"/* From {file}: */\n{code.strip()}\n/* End of {file}. */\n"


def error_of_user(folder: Path, said: str) -> ToolchainError | None:
    """What to raise if a compiler's error, `file:line: ...`, is in a user's code; else None.

    `folder` is that in which the compiler ran.
    """
    found = re.search(r"([^\s:]+\.c):(\d+):(?:\d+:)? *(.*)", said)
    if not found or not (folder / found[1]).is_file():
        return None
    before = (folder / found[1]).read_text(errors="replace").splitlines()[: int(found[2])]
    for line in reversed(before):
        if _END.match(line):
            return None
        if begin := _BEGIN.match(line):
            return ToolchainError(
                f"{found[3]}, in the line {before[-1].strip()!r}", where=begin[1],
                cure="correct this file, which CUSTOM names",
            )  # fmt: skip
    return None
