"""What the schedules of maximum and average pooling have in common: legality, sizes, words.

Borders are peeled, so no halo is read. Columns fall into spans with the same taps inside; rows
whose window crosses the border loop over the taps that are inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.layouts import Layout
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.window_axis import TapSpan, WindowAxis, window_axes
from cannery.schedule.caches import L1_BYTES
from cannery.schedule.program import Step
from cannery.schedule.schedule import Schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class PoolShape:
    """Sizes of one image's pooling; `maximum`, or average, which may count the pads."""

    rows: WindowAxis
    cols: WindowAxis
    channels: int
    maximum: bool
    count_pads: bool

    @property
    def input(self) -> tuple[int, int, int]:
        """H, W and C of the input."""
        return self.rows.size, self.cols.size, self.channels

    @property
    def output(self) -> tuple[int, int, int]:
        """H, W and C of the output."""
        return self.rows.out, self.cols.out, self.channels

    @property
    def taps(self) -> int:
        return self.rows.taps * self.cols.taps

    @property
    def combine(self) -> str:
        """The word that joins two taps."""
        return "max" if self.maximum else "add"

    def start(self, vec: str) -> str:
        """The initial vector where the number of taps is not known."""
        return f"{vec}_set1({c_float(float('-inf'))})" if self.maximum else f"{vec}_zero()"

    def scale(self, span: TapSpan, *, whole: bool) -> str:
        """The C expression of 1 / taps for outputs of a column span; empty for a maximum.

        `whole` rows have all taps inside; for the others the number is in k1 - k0.
        """
        if self.maximum:
            return ""
        if self.count_pads:
            return c_float(1.0 / self.taps)
        if whole:
            return c_float(1.0 / (self.rows.taps * span.taps)) if span.taps else c_float(0.0)
        return f"1.0f / (float)((k1 - k0) * {span.taps})"

    @property
    def row_versions(self) -> tuple[bool, ...]:
        """Which code the rows need: for all taps inside (True), for some outside (False), or
        both.
        """
        first, end = self.rows.whole()
        if end - first == self.rows.out:
            return (True,)
        return (True, False) if end > first else (False,)


def pool_shape(graph: Graph, step: Step) -> PoolShape | None:
    """The sizes, if the step's only anchor is a 2D MaxPool or AveragePool."""
    op = step.anchor.op
    if len(step.anchors) != 1 or not isinstance(op, (MaxPool, AveragePool)) or len(op.kernel) != 2:
        return None
    x = graph.types[step.anchor.inputs[0]]
    rows, cols = window_axes(op, x, graph.types[step.anchor.output])
    count_pads = isinstance(op, AveragePool) and op.count_include_pad
    return PoolShape(rows, cols, x.shape[-1], isinstance(op, MaxPool), count_pads)


def sizes(graph: Graph, step: Step) -> PoolShape:
    """The sizes of a step that is known to be a pooling."""
    shape = pool_shape(graph, step)
    assert shape is not None
    return shape


@dataclass(frozen=True)
class PoolSchedule(Schedule):
    """A schedule of 2D pooling, of which there is one for each operator."""

    #: The operator of the schedule's name.
    op: ClassVar[type[MaxPool] | type[AveragePool]]

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if pool_shape(graph, step) is None or not isinstance(step.anchor.op, self.op):
            return f"not a 2D {self.op.__name__}"
        return epilogues.why_not(step)


@dataclass(frozen=True)
class Column:
    """An input column of a tile: its offset from the first, and the pixels that read it.

    `first_of` are the pixels whose first tap it is.
    """

    at: int
    users: tuple[int, ...] = ()
    first_of: frozenset[int] = field(default_factory=frozenset)


def tile_columns(axis: WindowAxis, span: TapSpan, pixels: int) -> list[Column]:
    """The input columns that neighbouring outputs of a span read, without repeats, ascending."""
    users: dict[int, list[int]] = {}
    first: dict[int, set[int]] = {}
    for pixel in range(pixels):
        for tap in range(span.taps):
            at = pixel * axis.stride + tap * axis.dilation
            users.setdefault(at, []).append(pixel)
            if tap == 0:
                first.setdefault(at, set()).add(pixel)
    return [Column(at, tuple(users[at]), frozenset(first.get(at, set()))) for at in sorted(users)]


def tap_offsets(axis: WindowAxis, span: TapSpan, pitch: int = 1) -> list[int]:
    """Elements from the first tap inside to each; `pitch` is that of neighbouring inputs."""
    return [k * axis.dilation * pitch for k in range(span.taps)]


#: Bytes of images per cycle that pooling handles beyond the first-level cache; measured.
STREAMED_BYTES = 26.0


def streamed_cycles(cycles: float, images: Sequence[Layout]) -> float:
    """Cycles of a pooling that reads and writes images, from the cycles of its instructions.

    Where images do not stay in the first-level cache, memory traffic hides most of the work.
    """
    size = float(sum(image.bytes for image in images))
    return max(cycles, size / STREAMED_BYTES + 0.1 * cycles) if size > 1.5 * L1_BYTES else cycles


def unroll_levels(shape: PoolShape) -> Sequence[str]:
    """Levels with small code: kh (all taps in line), kw (loop over kernel rows), none."""
    levels = []
    if shape.taps <= 16:
        levels.append("kh")
    if shape.cols.taps <= 8 and len(shape.cols.spans()) <= 5:
        levels.append("kw")
    return levels or ["none"]
