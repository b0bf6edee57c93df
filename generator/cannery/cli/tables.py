"""Tables as lines of text: aligned, no wider than a terminal, and without broken names."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence

#: The texts in a column of numbers, apart from empty ones.
_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?%?|nan|[-+]?inf|\?")
_GAP = "  "
_INDENT = "    "


def terminal_width() -> int | None:
    """The columns of the terminal, or the value of COLUMNS; None if there is neither."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return None


def lay_out(
    header: Sequence[str], rows: Sequence[Sequence[object]], width: int | None
) -> list[list[str]]:
    """The lines of the header and of each row of a table; numbers to the right.

    If a line would be wider than `width`, the widest texts go to lines below the row, as many as
    necessary, and finally everything after the first text. The last column goes there only in rows
    that are too wide.
    """
    cells = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    right = [_is_number([row[k] for row in cells[1:]]) for k in range(len(header))]
    groups = _groups(widths, right, width)
    last_below = len(groups) == 2 and groups[1] == [len(header) - 1]
    table = []
    for row in cells:
        padded = [
            cell.rjust(size) if to_right else cell.ljust(size)
            for cell, size, to_right in zip(row, widths, right, strict=True)
        ]
        whole = _GAP.join(padded[k] for group in groups for k in group).rstrip()
        if last_below and len(whole) <= (width or len(whole)):
            table.append([whole])
            continue
        texts = [_GAP.join(padded[k] for k in group).rstrip() for group in groups]
        first, *below = texts
        lines = [line for text in below if text for line in _folded(_INDENT + text, width)]
        table.append(([first] if first or not lines else []) + lines)
    return table


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_number(column: Sequence[str]) -> bool:
    return any(column) and all(not cell or _NUMBER.fullmatch(cell) for cell in column)


def _groups(widths: Sequence[int], right: Sequence[bool], width: int | None) -> list[list[int]]:
    """The columns of each line of a row."""
    columns = [k for k, size in enumerate(widths) if size]
    texts = [k for k in columns if not right[k]]
    wide = sorted(texts[1:], key=lambda k: -widths[k])
    for count in range(len(wide) + 1):
        below = sorted(wide[:count])
        first = [k for k in columns if k not in below]
        if width is None or _needs(widths, first) <= width:
            return [first, *_packed(widths, below, width)]
    cut = columns.index(texts[0]) + 1 if texts else 0
    half = (width or 0) // 2
    rest = sorted(columns[cut:], key=lambda k: k in texts and widths[k] > half)
    return [*([columns[:cut]] if cut else []), *_packed(widths, rest, width)]


def _packed(widths: Sequence[int], columns: Sequence[int], width: int | None) -> list[list[int]]:
    """As many columns per line as fit."""
    lines: list[list[int]] = []
    for k in columns:
        if lines and (width is None or len(_INDENT) + _needs(widths, [*lines[-1], k]) <= width):
            lines[-1].append(k)
        else:
            lines.append([k])
    return lines


def _needs(widths: Sequence[int], columns: Sequence[int]) -> int:
    return sum(widths[k] for k in columns) + len(_GAP) * (len(columns) - 1)


def _folded(text: str, width: int | None) -> list[str]:
    """A line below a row, cut after commas and between words if it is too long."""
    if width is None or len(text) <= width:
        return [text]
    lines, line = [], ""
    for piece in re.findall(r" *[^ ,]*(?:,|(?= )|$)", text):
        if line.strip() and len(line) + len(piece) > width:
            lines.append(line.rstrip())
            line = 2 * _INDENT + piece.lstrip()
        else:
            line += piece
    return [*lines, line.rstrip()]
