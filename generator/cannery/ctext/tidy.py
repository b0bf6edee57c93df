"""Indents generated C by its braces and drops additions of 0, so that templates need not care."""

from __future__ import annotations

import re

_STRING = re.compile(r'"(?:\\.|[^"\\])*"' + r"|'(?:\\.|[^'\\])*'" + r"|/\*.*?\*/")

_NOT_CODE = re.compile(r"[\"']|/\*|^#")

#: What adds zero or multiplies by one, and space between a head and its block.
_IDLE = re.compile(
    r"(?<=[(\[])0 \+ |(?<=[=,] )0 \+ |( \+ 0| \* 1)(?=[)\];,]| [+-] )|(?<=\)) +(?= \{)"
)


def _may_idle(line: str) -> bool:
    """Whether `_IDLE` may match: in most lines it does not, which this finds sooner."""
    return "0 + " in line or " + 0" in line or " * 1" in line or ")  " in line


def _is_plain(line: str) -> bool:
    """Whether a line has no braces, text, comment or directive, as most lines."""
    return not ("{" in line or "}" in line or "/" in line or _quotes(line) or "#" in line)


def _quotes(line: str) -> bool:
    return '"' in line or "'" in line


def tidy(code: str) -> str:
    """The same code with four spaces per open brace, without additions of 0 and products with
    1, and without runs of empty lines.
    """
    lines: list[str] = []
    depth, margin = 0, ""
    in_comment = False
    for raw in code.splitlines():
        line = raw.strip()
        if in_comment:
            lines.append(" " * (4 * depth + 1) + line)
            in_comment = "*/" not in line
            continue
        if not line:
            if lines and lines[-1]:
                lines.append("")
            continue
        if _may_idle(line) and not _NOT_CODE.search(line):
            line = _IDLE.sub("", line)
        if _is_plain(line):
            lines.append(margin + line)
            continue
        bare = _STRING.sub("", line) if "/" in line or _quotes(line) else line
        if "/*" in bare:
            in_comment = True
            bare = bare[: bare.index("/*")]
        closing = len(bare) - len(bare.lstrip("}"))
        indent = 0 if line.startswith("#") else max(depth - closing, 0)
        lines.append("    " * indent + line)
        depth = max(depth + bare.count("{") - bare.count("}"), 0)
        margin = "    " * depth
    return "\n".join(lines).strip() + "\n"
