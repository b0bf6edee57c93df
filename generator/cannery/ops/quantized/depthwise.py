"""What the schedules of quantised depthwise convolutions have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cannery.ctext.environment import offset
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Halo, Layout
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.quantized.geometry import sizes, why_not_conv
from cannery.schedule.program import Step
from cannery.schedule.schedule import Schedule
from cannery.target.isa import Isa

#: Neighbouring pixels of a tile.
PIXELS = (1, 2, 4, 6)

#: With more taps, tiles are single pixels.
MAX_TAPS = 49


@dataclass(frozen=True)
class QuantizedDepthwise(Schedule):
    """Legality and layouts: channels last, inputs of the types in `accepts`."""

    accepts: ClassVar[tuple[DType, ...]]

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_conv(graph, step, depthwise=True):
            return reason
        found = graph.types[step.anchor.inputs[0]].dtype
        return "" if found in self.accepts else f"not for {found.value}"

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo


def pixel_choices(s: ConvShape) -> tuple[int, ...]:
    """The tiles worth trying."""
    return PIXELS if s.taps <= MAX_TAPS else PIXELS[:1]


@dataclass(frozen=True)
class Places:
    """Where a kernel without a template reads and writes: inputs at `xp`, outputs at `yp`, whose
    type in C is `written`.
    """

    s: ConvShape
    x: Layout
    y: Layout
    written: str

    def rows(self) -> list[str]:
        """The loop over the rows of a band, which the caller closes."""
        s, x, y = self.s, self.x, self.y
        return [
            "for (int oh = y0; oh < y1; ++oh) {",
            f"const {x.dtype.c_name} *xr = x + (oh * {s.sh * x.row}"
            f"{offset(x.at(-s.top, -s.left, 0))});",
            f"{self.written} *yr = y + (oh * {y.row}{offset(y.origin)});",
        ]

    def pixels(self, px: int, first: int) -> list[str]:
        """Tile `t` of `px` pixels, from pixel `first` on, at channel `oc`."""
        s, x, y = self.s, self.x, self.y
        return [
            f"const {x.dtype.c_name} *xp = xr + (t * {px * s.sw * x.col}"
            f"{offset(first * s.sw * x.col)} + oc);",
            f"{self.written} *yp = yr + (t * {px * y.col}{offset(first * y.col)} + oc);",
        ]
