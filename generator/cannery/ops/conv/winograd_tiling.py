"""How tiles cover an image: side by side, or interleaved where the taps of a window have gaps."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.layouts import Halo
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.conv.winograd import POINTS, Points, Tile, Winograd, cheapest


@dataclass(frozen=True)
class Across:
    """Tiles of `algorithm` that cover rows of `outputs` of a window whose taps are `gap` apart.

    The outputs of a tile are as far apart as the taps. So `gap` tiles interleave, which begin at
    neighbouring outputs; the next ones begin after all of theirs.
    """

    algorithm: Winograd
    outputs: int
    gap: int = 1

    @property
    def each(self) -> int:
        """Outputs that tiles without others between them cover."""
        return self.outputs // self.gap

    @property
    def tiles(self) -> int:
        """Tiles of a row."""
        return -(-self.each // self.algorithm.m) * self.gap

    @property
    def reach(self) -> int:
        """Inputs that they read."""
        return self.algorithm.reach(self.each) * self.gap

    @property
    def partial(self) -> bool:
        """Whether the last tiles are cut off."""
        return self.each % self.algorithm.m > 0

    @property
    def width(self) -> str:
        """C: the outputs from tile `column` on, without those of tiles between them."""
        number = "column" if self.gap == 1 else f"column / {self.gap}"
        return f"{self.each} - {number} * {self.algorithm.m}"

    def at(self, pitch: int, stride: int = 1) -> str:
        """C: where tile `column` begins if values are `pitch` apart, outputs `stride` values."""
        step = self.algorithm.m * stride * pitch
        if self.gap == 1:
            return f"column * {step}"
        return f"column / {self.gap} * {self.gap * step} + column % {self.gap} * {pitch}"


@dataclass(frozen=True)
class Tiling:
    """The tiles of an image that take the fewest products, of at most `points` along each axis;
    these are computed from the values at `at_points`.
    """

    shape: ConvShape
    points: int
    at_points: Points = POINTS

    @property
    def tile(self) -> Tile:
        """One of them."""
        shape = self.shape
        return Tile(self._along(shape.kh, shape.oh, shape.sh), self.across.algorithm)

    @property
    def across(self) -> Across:
        """Those of a row."""
        shape = self.shape
        gap = shape.dw if shape.kw > 1 else 1
        return Across(self._along(shape.kw, shape.ow // gap, shape.sw), shape.ow, gap)

    @property
    def count(self) -> int:
        """All of them."""
        return -(-self.shape.oh // self.tile.rows.m) * self.across.tiles

    @property
    def halo(self) -> Halo:
        """The border around the image that they read."""
        shape = self.shape
        bottom = self.tile.rows.reach(shape.oh) - shape.top - shape.ih
        right = self.across.reach - shape.left - shape.iw
        return Halo(shape.top, max(bottom, 0), shape.left, max(right, 0))

    def _along(self, taps: int, outputs: int, stride: int) -> Winograd:
        """The algorithm of one axis."""
        return cheapest(self.points, taps, outputs, stride, self.at_points)


def why_not_dilated(shape: ConvShape) -> str:
    """Why the taps of a window are too far apart for tiles; empty if they are not."""
    if shape.dh > 1 and shape.kh > 1:
        return "dilations along columns"
    if shape.dw == 1 or shape.kw == 1:
        return ""
    whole = shape.ow % shape.dw == 0 and shape.ow > shape.dw and shape.sw == 1
    return "" if whole else "dilations that do not divide the rows"
