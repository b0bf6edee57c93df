"""What the depthwise schedules have in common: legality and the reuse of inputs within a tile."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.layouts import Halo
from cannery.ops.conv.geometry import ConvShape, conv_shape, sizes
from cannery.ops.shared import epilogue as epilogues
from cannery.schedule.program import Step
from cannery.schedule.schedule import Schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Line:
    """An input row or column of a tile: its distance from the first, and its readers.

    `users` are (output row or pixel of the tile, tap).
    """

    at: int
    users: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class DepthwiseSchedule(Schedule):
    """A schedule of depthwise convolutions with constant weights."""

    movable = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        shape = conv_shape(graph, step)
        if shape is None:
            return "not a 2D convolution with constant weights"
        if not shape.depthwise:
            return "not depthwise"
        return epilogues.why_not(step)

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo


def multiplier(shape: ConvShape) -> int:
    """Output channels per input channel; output channel o reads input channel o // multiplier."""
    return shape.oc // shape.ic


def window_rows(shape: ConvShape, rows: int) -> list[Line]:
    """Input rows of `rows` neighbouring output rows, ascending."""
    return _lines(rows, shape.kh, shape.sh, shape.dh)


def window_columns(shape: ConvShape, pixels: int) -> list[Line]:
    """Input columns of `pixels` neighbouring output pixels, ascending."""
    return _lines(pixels, shape.kw, shape.sw, shape.dw)


def _lines(outputs: int, taps: int, stride: int, dilation: int) -> list[Line]:
    users: dict[int, list[tuple[int, int]]] = {}
    for output in range(outputs):
        for tap in range(taps):
            users.setdefault(output * stride + tap * dilation, []).append((output, tap))
    return [Line(at, tuple(users[at])) for at in sorted(users)]
