"""How the elements of one image lie in memory.

A value of shape [N, H, W, C] is N images one after the other; a Layout describes one image as (H,
W, C). Values of other ranks are treated as images too, see `image_dims`. Two orders are affine in
(y, x, c); `phase_split` is affine within each of its 16 planes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from cannery.ir.tensor import DType, TensorType


@dataclass(frozen=True)
class Halo:
    """Zero cells around an image, so that a window may cross the border."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0

    def union(self, other: Halo) -> Halo:
        """The smallest halo that serves both."""
        return Halo(
            max(self.top, other.top),
            max(self.bottom, other.bottom),
            max(self.left, other.left),
            max(self.right, other.right),
        )

    def covers(self, other: Halo) -> bool:
        """Whether this halo is at least as wide as the other on each side."""
        return self.union(other) == self

    def __bool__(self) -> bool:
        return self != Halo()


@dataclass(frozen=True)
class Layout:
    """Where element (y, x, c) of an image is; all distances are in elements.

    `origin` is the index of element (0, 0, 0); `row`, `col` and `channel` are the strides of y, x
    and c. `elements` is the allocated size, halo and slack included. `phase` is the size of one
    phase plane (phase_split only; `row` is then the pitch within a plane, `channel` the distance
    between the 16 planes of neighbouring channels). Neighbouring rows share their pad columns: the
    right halo of a row is the left halo of the next.
    """

    order: str
    shape: tuple[int, int, int]
    row: int
    col: int
    channel: int
    origin: int
    elements: int
    halo: Halo = Halo()
    slack: int = 0
    phase: int = 0
    dtype: DType = DType.FLOAT32

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes

    @property
    def dense(self) -> bool:
        """Whether the image is C's float[H][W][C], without any gap."""
        _, w, c = self.shape
        together = self.channel == 1 and self.col == c and self.row == w * c
        return self.order == "nhwc" and together and self.compact

    @property
    def compact(self) -> bool:
        """Whether there are only pixels: dense in its order."""
        # The halo of a chain's line buffer has no elements of its own.
        return not self.halo and self.elements == prod(self.shape)

    def at(self, y: int, x: int, c: int) -> int:
        """Index of an element; y and x may be in the halo."""
        if self.order == "phase_split":
            plane = (y % 4 * 4 + x % 4) * self.phase
            return c * self.channel + plane + y // 4 * self.row + x // 4
        return self.origin + y * self.row + x * self.col + c * self.channel

    def part(self, start: tuple[int, int, int], shape: tuple[int, int, int]) -> Layout:
        """The layout of a box inside this image (affine orders only), for views without copy."""
        if self.order == "phase_split":
            raise ValueError("a phase-split image has no affine parts")
        return replace(self, origin=self.at(*start), shape=shape, halo=Halo())

    def __str__(self) -> str:
        h, w, c = self.shape
        text = f"{self.order} {h}x{w}x{c}"
        if self.halo:
            text += f" halo {self.halo.top},{self.halo.bottom},{self.halo.left},{self.halo.right}"
        return text if self.dense else f"{text} pitch {self.row}/{self.col}/{self.channel}"


@dataclass(frozen=True)
class Want:
    """What a schedule requires of the layout of one of its values.

    `halo`: cells around the image that it reads, which must hold zeros (inputs), or overwrites with
    zeros (outputs). `slack`: elements after the last one that it may read (inputs) or overwrite
    (outputs). `dense`: no gaps at all. `shared_pitch`: planar values of the same height and width
    get the same row pitch; an output's pad columns may be overwritten with zeros. `apart`:
    neighbouring pixels, channels last, should not share cache sets; a wish, whose refusal only
    costs time.
    """

    order: str = "nhwc"
    halo: Halo = Halo()
    slack: int = 0
    dense: bool = False
    shared_pitch: bool = False
    apart: bool = False

    def met_by(self, layout: Layout) -> bool:
        """Whether a value in this layout can be read as it is."""
        return (
            layout.order == self.order
            and layout.halo.covers(self.halo)
            and layout.slack >= self.slack
            and (layout.dense or not self.dense)
        )


def reinterpret(layout: Layout, order: str) -> Layout | None:
    """The same memory in another order: possible for one channel, or for one pixel; else None."""
    h, w, c = layout.shape
    affine = {"nhwc", "planar"}
    if not {layout.order, order} <= affine or not (c == 1 or h * w == 1):
        return None
    if h * w == 1:
        if layout.channel != 1 or not layout.compact:
            return None
        pitch = c if order == "nhwc" else 1
        return replace(layout, order=order, row=pitch, col=pitch)
    if layout.col != 1:
        return None
    channel = layout.elements if order == "planar" else 1
    return replace(layout, order=order, channel=channel)


def image_dims(type_: TensorType) -> tuple[int, int, int, int]:
    """(N, H, W, C) of any value: [N,L,C] is a row, [N,C] is a pixel, further dimensions fold into
    W.
    """
    shape = type_.shape
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    if len(shape) < 2:
        return 1, 1, 1, prod(shape)
    return shape[0], 1, prod(shape[1:-1]), shape[-1]
