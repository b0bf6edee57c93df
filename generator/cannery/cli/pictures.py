"""Small grey images as text: PGM files in, lines for a terminal out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cannery.errors import CanneryError

#: From dark to bright; evenly spaced in ink on most terminals with a dark background.
_RAMP = " .:-=+*#%@"
_HEADER = re.compile(rb"P5\s+(\d+)\s+(\d+)\s+255\s")


@dataclass(frozen=True)
class Picture:
    """Rows of brightness, 0 to 255."""

    rows: tuple[bytes, ...]

    @property
    def width(self) -> int:
        """Pixels, and characters, of a row."""
        return len(self.rows[0])

    def pairs(self) -> list[tuple[bytes, bytes]]:
        """Two rows of pixels for each row of characters, which are about twice as high as wide."""
        below = (*self.rows[1::2], *self.rows[-1:])
        return list(zip(self.rows[::2], below, strict=False))

    def stretched(self) -> Picture:
        """The same with full contrast."""
        darkest, brightest = min(map(min, self.rows)), max(map(max, self.rows))
        span = max(brightest - darkest, 1)
        return Picture(tuple(bytes((v - darkest) * 255 // span for v in row) for row in self.rows))

    def as_ascii(self) -> list[str]:
        """Lines of ASCII characters."""

        def character(a: int, b: int) -> str:
            return _RAMP[(a + b) * len(_RAMP) // 512]

        return ["".join(map(character, *pair)) for pair in self.pairs()]

    def as_markup(self) -> list[str]:
        """Lines of half blocks in shades of grey, as markup of rich."""

        def character(a: int, b: int) -> str:
            return f"[rgb({a},{a},{a}) on rgb({b},{b},{b})]▀[/]"

        return ["".join(map(character, *pair)) for pair in self.pairs()]


def read_pgm(path: Path) -> Picture:
    """Read a binary PGM file of bytes. Raises CanneryError if it is none, OSError."""
    data = path.read_bytes()
    header = _HEADER.match(data)
    width, height = (int(header[1]), int(header[2])) if header else (0, 0)
    pixels = data[header.end() :] if header else b""
    if not width * height or len(pixels) != width * height:
        raise CanneryError("not a binary PGM image of bytes", where=str(path))
    return Picture(tuple(pixels[y * width : (y + 1) * width] for y in range(height)))


def side_by_side(blocks: Sequence[tuple[Sequence[str], int]], gap: int = 3) -> list[str]:
    """Put blocks, each with its lines and visible width, side by side.

    The width is given because markup takes no space; shorter lines are not padded by markup either.
    """
    height = max(len(lines) for lines, _ in blocks)
    rows = []
    for k in range(height):
        cells = [lines[k] if k < len(lines) else " " * width for lines, width in blocks]
        rows.append((" " * gap).join(cells).rstrip())
    return rows
