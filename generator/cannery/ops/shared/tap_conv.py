"""Convolutions whose taps are a table: output channels in the lanes, channels last in and out.

One kernel for grouped convolution and for transposed convolution in gather form. Outputs fall into
phases (one for a convolution; stride x stride for its transpose: outputs whose coordinates leave
the same remainders). All outputs of a phase read the same taps, at offsets from a table, with
weights packed for the phase:

    y[j, oc] = b[oc] + sum over taps t, ic:  x[j * x_step + at[t] + ic] * w[phase][t][ic][oc]

A tile of MR pixels of one phase x NR vectors of output channels of one group stays in registers.
`broadcast` is how an input reaches all lanes: load1 (from memory), rotate (four channels loaded
once, rotated against weights in rotated order) or lane (NEON multiply by lane).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.layouts import Layout
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec, split_lanes
from cannery.ops.shared.tiles import tile_registers, widths
from cannery.schedule.cost import broadcast_work, early_inputs, tile_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule
from cannery.target.isa import Isa

#: Tiles (MR pixels, NR vectors) by the number of vector registers.
TILES = {
    8: ((2, 2), (1, 3), (4, 1), (3, 1), (1, 4), (2, 1), (1, 1)),
    16: ((4, 2), (6, 2), (2, 3), (3, 3), (4, 3), (6, 1), (8, 1), (12, 1), (2, 4), (1, 6), (2, 1)),
    32: ((8, 2), (12, 2), (6, 4), (5, 4), (4, 4), (4, 6), (8, 1), (16, 1), (24, 1), (2, 2)),
}


@dataclass(frozen=True)
class TapPhase:
    """The taps of one phase.

    `cells` are (input rows, input columns) from the phase's own cell, `taps` the (kh, kw) there.
    """

    cells: tuple[tuple[int, int], ...]
    taps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TapShape:
    """Sizes of one image. Per group `ic` channels in and `oc` out.

    `row_step` and `col_step` are the input cells between neighbouring outputs of a phase. `weight`
    is [kh][kw][ic][groups * oc].
    """

    oh: int
    ow: int
    ic: int
    oc: int
    groups: int
    row_phases: int
    col_phases: int
    row_step: int
    col_step: int
    phases: tuple[TapPhase, ...]

    @property
    def counts(self) -> list[int]:
        """Outputs per row of each column phase."""
        return [-(-(self.ow - p) // self.col_phases) for p in range(self.col_phases)]


@dataclass(frozen=True)
class TapBlock:
    """`count` neighbouring groups of vectors of the same shape, as in `conv.direct_oc`."""

    vecs: tuple[Vec, ...]
    channel: int
    packed: int
    width: int
    channels: int
    count: int


@dataclass(frozen=True)
class _Numbers:
    """What the template reads."""

    shape: TapShape
    x: Layout
    y: Layout
    mr: int
    width: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shape, name)

    @property
    def x_step(self) -> int:
        return self.shape.col_step * self.x.col

    @property
    def y_pitch(self) -> int:
        return self.y.col

    @property
    def y_step(self) -> int:
        return self.shape.col_phases * self.y.col

    @property
    def x_row(self) -> int:
        return self.shape.row_step * self.x.row

    @property
    def x_origin(self) -> int:
        return self.x.origin

    @property
    def full_tiles(self) -> bool:
        return max(self.shape.counts) >= self.mr

    @property
    def rests(self) -> list[int]:
        return sorted({n % self.mr for n in self.shape.counts} - {0})


@dataclass(frozen=True)
class Tunables:
    """A tile of `mr` outputs x `nr` vectors; `broadcast` as in `conv.direct_oc`."""

    lanes: int
    mr: int
    nr: int
    broadcast: str


@dataclass(frozen=True)
class TapSchedule(Schedule):
    """A schedule that uses this kernel."""

    @abstractmethod
    def taps(self, graph: Graph, step: Step) -> TapShape:
        """The sizes of a legal step."""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = self.taps(graph, step)
        found: list[Tunables] = []
        for lanes in widths(shape.oc, isa):
            vectors = len(split_lanes(shape.oc, isa, lanes))
            broadcasts = ["load1"]
            if shape.ic >= 4:
                broadcasts += ["rotate"] if isa.has("rotate") and lanes == 4 else []
                broadcasts += ["lane"] if isa.multiplies_by_lane(lanes) else []
            for mr, nr in TILES.get(isa.registers, TILES[16]):
                tile = (lanes, min(mr, max(shape.counts)), min(nr, vectors))
                found += [Tunables(*tile, word) for word in broadcasts]
        return [as_params(t) for t in dict.fromkeys(found)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        t = typed(Tunables, params)
        shape = self.taps(graph, step)
        return Estimate(tap_cycles(shape, t, isa), tap_code_bytes(shape, t))


def tap_cycles(shape: TapShape, t: Tunables, isa: Isa) -> float:
    """Estimated cycles of one image."""
    mr, nr = t.mr, t.nr
    broadcast = "set1" if t.broadcast == "load1" else t.broadcast
    loads, work = broadcast_work(isa, broadcast)
    vectors = split_lanes(shape.oc, isa, t.lanes)
    cycles = 0.0
    for phase, count in zip(shape.phases, shape.counts * shape.row_phases, strict=True):
        k = len(phase.cells) * shape.ic
        tiles = [(mr, count // mr)] + ([(count % mr, 1)] if count % mr else [])
        for pixels, times in tiles:
            for start in range(0, len(vectors), nr):
                n = len(vectors[start : start + nr])
                tile = tile_cycles(
                    isa, pixels, n, pixels * loads + n, k, pixels * work,
                    early=early_inputs(isa, broadcast, pixels), lanes=t.lanes,
                )  # fmt: skip
                cycles += times * (tile + 8.0 + 2.0 * len(phase.cells))
    return cycles * shape.groups * shape.oh / shape.row_phases


def tap_code_bytes(shape: TapShape, t: Tunables) -> float:
    """Estimated bytes of the hot loops."""
    tile = t.mr * t.nr
    return 6.5 * tile * (min(shape.ic, 8) + 4)


def tap_kernel(job: Job, shape: TapShape, weight: NDArray[np.float32], bias: str) -> Kernel:
    """The kernel of a job. `weight` is [kh][kw][ic][groups * oc], `bias` a constant or empty."""
    t = typed(Tunables, job.params)
    blocks = _blocks(shape, t, job.isa)
    busy = tile_registers(t.mr, [block.vecs for block in blocks])
    ep = epilogues.build(job, job.step.anchor.output, busy=busy)
    width = sum(block.width * block.count for block in blocks)
    x, y = job.inputs[0], job.output
    numbers = _Numbers(shape, x, y, t.mr, width)
    code = render(
        "ops/shared/tap_conv.c.j2",
        k=numbers,
        p=t,
        y=y,
        blocks=blocks,
        ep=ep,
        late=epilogues.crowded(job.isa, busy + len(blocks[0].vecs)),
        residual={k: job.inputs[k] for k in ep.tensors},
        residual_at=lambda px, vec: lambda k: _residual(job, shape, k, px, vec),
        symbol=job.symbol,
        signature=signature(job, band=True),
        describe=describe(job),
    )
    arrays = (*_tables(job, shape, width), *_weights(job, shape, t, blocks, weight, bias))
    return Kernel(code, (*arrays, *ep.constants), band=1, needs_math=ep.needs_math)


def _residual(job: Job, shape: TapShape, k: int, pixel: int, vec: Vec) -> str:
    return f"r{k}{offset(pixel * shape.col_phases * job.inputs[k].col + vec.start)}"


def _blocks(shape: TapShape, t: Tunables, isa: Isa) -> list[TapBlock]:
    """The vectors of one group, NR at a time; neighbours of the same shape become one loop."""
    vectors = split_lanes(shape.oc, isa, t.lanes)
    nr = t.nr
    blocks: list[TapBlock] = []
    for at in range(0, len(vectors), nr):
        group = vectors[at : at + nr]
        first = group[0]
        vecs = tuple(
            Vec(v.start - first.start, v.lanes, v.valid, v.packed - first.packed) for v in group
        )
        if blocks and blocks[-1].vecs == vecs and all(v.full for v in vecs):
            last = blocks[-1]
            blocks[-1] = TapBlock(
                vecs, last.channel, last.packed, last.width, last.channels, last.count + 1
            )
        else:
            width, channels = sum(v.lanes for v in group), sum(v.valid for v in group)
            blocks.append(TapBlock(vecs, first.start, first.packed, width, channels, 1))
    return blocks


def _tables(job: Job, shape: TapShape, width: int) -> list[ConstArray]:
    """Taps per phase, their first index, the phase's first weight, and the taps' offsets."""
    x = job.inputs[0]
    counts = [len(phase.cells) for phase in shape.phases]
    firsts = np.cumsum([0, *counts])[:-1]
    cells = [row * x.row + col * x.col for phase in shape.phases for row, col in phase.cells]

    def table(letter: str, values: Any, comment: str) -> ConstArray:
        return ConstArray(f"{job.symbol}_{letter}", np.asarray(values, np.int32), comment)

    return [
        table("n", counts, "taps of each phase"),
        table("f", firsts, "first tap of each phase"),
        table("o", firsts * (shape.groups * shape.ic * width), "first weight of each phase"),
        table("t", cells or [0], "input offset of each tap"),
    ]


def _rotated(panel: NDArray[np.float32]) -> NDArray[np.float32]:
    """[tap][ic][lanes], where lane l of channel 4g+r holds the weight of channel 4g + (l+r) % 4."""
    rotated: NDArray[np.float32] = np.array(panel)
    lane = np.arange(panel.shape[-1])
    for group in range(0, panel.shape[1] // 4 * 4, 4):
        for r in range(4):
            rotated[:, group + r, :] = panel[:, group + (lane + r) % 4, lane]
    return rotated


def _weights(
    job: Job, shape: TapShape, t: Tunables, blocks: Sequence[TapBlock], w: NDArray[np.float32],
    bias: str,
) -> list[ConstArray]:  # fmt: skip
    """Weights as [phase][group][block][tap][ic][lanes of the block], biases as [channel]."""
    panels: list[NDArray[np.float32]] = [np.zeros(0, np.float32)]
    for phase in shape.phases:
        taps = [w[kh, kw] for kh, kw in phase.taps]
        for group in range(shape.groups):
            for block in blocks:
                for number in range(block.count):
                    channel = group * shape.oc + block.channel + number * block.channels
                    panel = np.zeros((len(taps), shape.ic, block.width), np.float32)
                    for v in block.vecs:
                        start = channel + v.start
                        for k, tap in enumerate(taps):
                            source = tap[:, start : start + v.valid]
                            panel[k, :, v.packed : v.packed + v.valid] = source
                    if t.broadcast == "rotate":
                        panel = _rotated(panel)
                    panels.append(panel.reshape(-1))
    oc = shape.oc * shape.groups
    biases = job.constant(bias) if bias else np.zeros(oc, np.float32)
    packed = np.concatenate(panels)
    comment = "weights [phase][group][block][tap][ic][lanes]"
    return [
        ConstArray(f"{job.symbol}_w", packed if packed.size else np.zeros(1, np.float32), comment),
        ConstArray(f"{job.symbol}_b", epilogues.padded_channels(biases), "bias [oc], padded"),
    ]
