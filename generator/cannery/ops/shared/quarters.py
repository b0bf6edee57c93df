"""The result of 2 x 2 pooling of a phase-split image, laid out as phase-split or planar again.

A window's four pixels are at the same place in four planes, so windows fall into four *quarters*:
(a, b) holds result (2 * ty + a, 2 * tx + b) of every tile (ty, tx) of the input. To make tiles of
the results, even and odd columns of a quarter go to different planes, and so do even and odd rows:

    phase-split  two vectors of a quarter are split into even and odd columns. Rows half as long
                 as a vector go two by two (a row and the next but one), so that vectors are full.
    planar       the quarters (a, 0) and (a, 1) are interleaved.

Quarters may be joined on the way, or beforehand: all those of a channel, in vectors that continue
across rows, into scratch memory.

The C side is ops/shared/pool_phase.c.j2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cannery.ctext.environment import render
from cannery.layouts import Layout, phase_split, planar
from cannery.ops.shared.epilogue import Epilogue
from cannery.ops.shared.function import parameter_names, signature
from cannery.ops.shared.lanes import Vec, VecLoop
from cannery.ops.shared.tiles import cover, unroll
from cannery.schedule.cost import busy_cycles
from cannery.schedule.schedule import ConstArray, Job
from cannery.target.isa import Isa

#: Alignment of quarters in scratch memory, in floats.
ALIGNMENT = 16

#: Vectors of a row in line.
VECTORS = 4

#: Orders in which results can be written.
ORDERS = (phase_split.ORDER, planar.ORDER)


@dataclass(frozen=True)
class Source:
    """Where the quarters are. A quarter is the join of planes at the distances `taps`.

    `row` is the pitch of a plane; `down` and `right` lead to the next quarter of the same tiles,
    `channel` to the next channel.
    """

    row: int
    down: int
    right: int
    channel: int
    taps: tuple[int, ...]

    def at(self, a: int, b: int, tile: int = 0) -> int:
        """Distance of a quarter's tile from tile 0 of quarter (0, 0)."""
        return a * self.down + b * self.right + tile


def phase_source(layout: Layout) -> Source:
    """The windows of a phase-split image."""
    plane = layout.phase
    taps = (0, plane, 4 * plane, 5 * plane)
    return Source(layout.row, 8 * plane, 2 * plane, layout.channel, taps)


def join_cycles(isa: Isa, tiles: int, lanes: int) -> float:
    """Cycles of joining the four quarters of this many tiles into memory."""
    return 4.0 * -(-tiles // lanes) * busy_cycles(isa, 0.0, 4.0, 1.0, beside=3.0, lanes=lanes)


@dataclass(frozen=True)
class Spread:
    """How `rows` x `cols` results are written from quarters of pitch `pitch`, with `lanes`."""

    rows: int
    cols: int
    pitch: int
    order: str
    lanes: int

    @property
    def form(self) -> str:
        """ones, pairs (planar), two_rows or rows, see the module docstring."""
        if self.lanes == 1:
            return "ones"
        if self.order == planar.ORDER:
            return "pairs"
        return "two_rows" if 2 * self.tiles == self.lanes else "rows"

    @property
    def tiles(self) -> int:
        """Tiles in a row of the results."""
        return -(-self.cols // 4)

    @property
    def plane(self) -> int:
        """Tiles of a quarter that are needed."""
        return -(-self.rows // 2) * self.pitch

    def loops(self, isa: Isa) -> list[VecLoop]:
        """Vectors of a row of tiles (rows), or of pairs of columns (pairs).

        A masked part at the end of a row is a separate vector.
        """
        count = self.cols // 2 if self.form == "pairs" else self.tiles
        if self.form in ("rows", "two_rows") and count < self.lanes:
            return [VecLoop(Vec(0, self.lanes, count, 0), 1)]
        found = cover(0, count, isa, self.lanes, narrow=self.form == "pairs")
        vec, times = found[-1].vec, found[-1].count
        if self.form != "rows" or self.cols % 4 == 0 or times == 1:
            return found
        last = replace(vec, start=vec.start + (times - 1) * vec.lanes)
        return [*found[:-1], VecLoop(vec, times - 1), VecLoop(last, 1)]

    def valid(self, column: int) -> int:
        """Tiles of a row that have a result in this column."""
        return (self.cols - column + 3) // 4

    def masked(self, column: int, vec: Vec) -> bool:
        """Whether a whole vector at the end of a row must get a zero there."""
        last = vec.start + vec.lanes >= self.tiles
        return self.valid(column) < self.tiles and (last or self.form == "two_rows")

    def mask(self, symbol: str) -> ConstArray | None:
        """Zeros for the lanes at the end of a row; None if none is needed."""
        partial = self.form == "rows" and self.tiles < self.lanes
        if self.form not in ("rows", "two_rows") or self.cols % 4 == 0 or partial:
            return None
        inside = np.full(self.lanes, -1, np.int32)
        inside[-1] = 0
        if self.form == "two_rows":
            inside[self.tiles - 1] = 0
        return ConstArray(f"{symbol}_m", inside, "all but the last tile of a row")

    def cycles(self, taps: int, work: float, isa: Isa) -> float:
        """Cycles of one channel; `work` counts operations on each vector of results."""
        joins = taps - 1.0
        if self.form == "ones":
            each = busy_cycles(isa, 0.0, float(taps), beside=joins + work + 2.0, lanes=self.lanes)
            return self.rows * (self.cols * each + 4.0)
        shuffles = 2.0 if self.lanes != 8 else 4.0
        masks = 1.0 if self.mask("") else 0.0
        loads, work = 2.0 * taps, 2.0 * (joins + work) + shuffles + masks
        each = busy_cycles(isa, work, loads, beside=2.0, lanes=self.lanes)
        if self.form == "pairs":
            vectors = float(sum(loop.count for loop in self.loops(isa)))
            return self.rows * (vectors * (each + 1.0) + 4.0 + 3.0 * (self.cols % 2))
        if self.form == "two_rows":
            twos, rest = divmod(self.rows, 8)
            return twos * (8.0 * each + 4.0) + rest * (2.0 * each + 8.0)
        vectors = 2.0 * sum(loop.count for loop in self.loops(isa))
        partial = 2.0 if self.tiles < self.lanes and not isa.has("masks") else 0.0
        return self.rows * (vectors * (each + partial + 1.0) + 4.0)


def widths(cols: int, order: str, isa: Isa) -> list[int]:
    """The two widest vectors that fit the results, widest first; (1,) if none does."""
    tiles = -(-cols // 4)
    if order == planar.ORDER:
        fitting = [w for w in isa.lanes if 1 < w <= cols // 2]
    else:
        fitting = [w for w in isa.lanes if 1 < w <= 2 * tiles and tiles > 1]
    return fitting[-2:][::-1] or [1]


def buffer(spread: Spread, channels: int) -> Layout:
    """Scratch memory for quarters: [channel][a][b][tile], as if these were 2 x 2 pixels.

    One more row follows the tiles, because vectors of rows may end there.
    """
    plane = spread.plane + max(spread.pitch, spread.lanes)
    plane += -plane % ALIGNMENT
    shape = (2, 2, channels)
    return Layout(planar.ORDER, shape, 2 * plane, plane, 4 * plane, 0, 4 * plane * channels)


def buffer_source(spread: Spread, channels: int) -> Source:
    """The quarters in such memory."""
    layout = buffer(spread, channels)
    return Source(spread.pitch, layout.row, layout.col, layout.channel, (0,))


def render_spread(
    job: Job,
    spread: Spread,
    source: Source,
    ep: Epilogue,
    *,
    maximum: bool,
    function: str,
    join: int = 0,
) -> tuple[str, tuple[ConstArray, ...]]:
    """The function that writes results from quarters, and its mask.

    The job's first input is what `source` describes; `ep` ends the pooling; `function` is the
    comment above it. `join`: lanes used to join the quarters of a channel beforehand, in scratch
    memory (see `buffer`).
    """
    names = parameter_names(job)
    lanes = spread.lanes
    mask = spread.mask(job.symbol)
    code = render(
        "ops/shared/pool_phase.c.j2",
        spread=spread,
        src=buffer_source(spread, 1) if join else source,
        windows=source,
        join_loops=unroll(cover(0, spread.plane, job.isa, join), VECTORS) if join else [],
        channels=job.output.shape[2],
        maximum=maximum,
        y=job.output,
        phased=job.output.order == phase_split.ORDER,
        ep=ep,
        loops=unroll(spread.loops(job.isa), VECTORS),
        mask=mask,
        one=Vec(0, 1, 1, 0),
        full=Vec(0, lanes, lanes, 0),
        valid=lambda vec, column: replace(vec, valid=spread.valid(column)),
        residuals={k: (names[k], job.inputs[k]) for k in ep.tensors},
        residual=_residual(job),
        signature=signature(job, scratch=join > 0, band=True),
        describe=function,
    )
    return code, (mask,) if mask else ()


def _residual(job: Job) -> Callable[[int, int, str], Callable[[int], str]]:
    """(row, column, place of a tile) -> input index -> C pointer."""

    def at(row: int, column: int, tile: str) -> Callable[[int], str]:
        return lambda k: f"r{k}r + ({(4 * row + column) * job.inputs[k].phase} + {tile})"

    return at
