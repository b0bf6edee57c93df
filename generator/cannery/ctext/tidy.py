"""Indents generated C by its braces, so that templates need not care."""

from __future__ import annotations

import re

_STRING = re.compile(r'"(?:\\.|[^"\\])*"' + r"|'(?:\\.|[^'\\])*'" + r"|/\*.*?\*/")

_MAYBE_STRING = re.compile(r"[\"'/]")


def tidy(code: str) -> str:
    """The same code with four spaces per open brace and no runs of empty lines."""
    lines: list[str] = []
    depth = 0
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
        bare = _STRING.sub("", line) if _MAYBE_STRING.search(line) else line
        if "/*" in bare:
            in_comment = True
            bare = bare[: bare.index("/*")]
        closing = len(bare) - len(bare.lstrip("}"))
        indent = 0 if line.startswith("#") else max(depth - closing, 0)
        lines.append("    " * indent + line)
        depth = max(depth + bare.count("{") - bare.count("}"), 0)
    return "\n".join(lines).strip() + "\n"
