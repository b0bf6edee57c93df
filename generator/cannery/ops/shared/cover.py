"""Covers a number of neighbouring elements, known only at run time, with full vectors.

Large tiles of several vectors come first, then smaller ones; the last one overlaps its neighbour.
Elements computed twice are computed the same way, lane by lane. So nothing outside is read or
written, and no bit depends on where the elements are cut into bands.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.target.isa import Isa


@dataclass(frozen=True)
class Span:
    """A tile of `vectors` neighbouring vectors of `lanes` elements each."""

    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """Elements in all."""
        return self.vectors * self.lanes

    @property
    def t(self) -> str:
        """Type and word prefix: `f32x8`."""
        return f"f32x{self.lanes}"

    def __str__(self) -> str:
        return f"{self.vectors}x{self.lanes}"


def spans(total: int, least: int, vectors: int, lanes: int, isa: Isa) -> tuple[Span, ...]:
    """The tiles, widest first, that cover any count of elements from `least` on.

    `total` is the usual count: it takes repeats of one tile of at most `vectors` vectors and at
    most one more tile for the rest. The narrowest tile is for bands that leave less.
    """
    fitting = [w for w in isa.lanes if w <= min(lanes, total)]
    vectors = min(vectors, total // fitting[-1])
    main = Span(vectors, fitting[-1])
    rest = total % main.width
    useful = [w for w in fitting if w >= 4] or fitting
    enough = min((w for w in useful if w >= rest > 0), default=main.lanes)
    narrow = min((w for w in useful if w <= least), default=1)
    found = {main, Span(-(-rest // enough) or 1, enough), Span(1, narrow)}
    return tuple(sorted(found, key=lambda span: -span.width))


def tile_counts(total: int, tiles: tuple[Span, ...]) -> list[tuple[Span, int]]:
    """How often each tile runs for `total` elements, as the C code does it."""
    counts: list[tuple[Span, int]] = []
    left = total
    for k, span in enumerate(tiles):
        full, left = divmod(left, span.width)
        below = tiles[k + 1].width if k + 1 < len(tiles) else 0
        if left > below and total >= span.width:
            full, left = full + 1, 0
        if full:
            counts.append((span, full))
    return counts
