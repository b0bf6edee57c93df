"""Depthwise convolution with channels in the lanes, channels last in and out.

A tile of MH rows x MR pixels of one vector of channels stays in registers; an input shared by
several windows is loaded once per tile. `inner` is the innermost loop over tiles: channels (inputs
are streamed in memory order) or pixels (weights stay in registers, where they fit). With a depth
multiplier the lanes are output channels, and their inputs are looked up. `unroll` says which loops
are left: kh (none) or kw (over the kernel's rows). `order`: tiles in an order for processors in
order, see `cannery.ctext.in_order`; weights are then in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import render
from cannery.ctext.in_order import LANES, in_order
from cannery.ir.graph import Graph
from cannery.ops.conv.depthwise import (
    DepthwiseSchedule,
    multiplier,
    window_columns,
    window_rows,
)
from cannery.ops.conv.geometry import ConvShape, padded_bias, sizes
from cannery.ops.shared import dual
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec, split_lanes, vector_loops
from cannery.ops.shared.tiles import pixel_tiles, room_to_hold, vector_count, widths
from cannery.schedule.cost import busy_cycles, load_way, mac_instructions, waiting_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: Tiles (MH rows, MR pixels) by the number of vector registers.
TILES = {
    8: ((1, 4), (1, 2), (1, 3), (1, 6), (2, 2), (1, 1)),
    16: ((1, 4), (1, 2), (1, 6), (1, 8), (2, 2), (2, 4), (2, 6), (1, 1)),
    32: ((2, 4), (1, 4), (1, 8), (1, 12), (2, 2), (2, 6), (2, 8), (3, 4), (4, 4), (1, 1)),
}

#: Tiles in an order, and the registers that it uses: with more, gcc copies sums.
ORDERED_TILES = ((4, 4), (2, 7), (2, 8), (3, 4), (2, 6), (2, 5), (2, 4), (1, 8), (1, 7))
REGISTERS = 28

#: Of these, for inputs. Cycles in which a tile's first sums wait for loads, and stores for its last
#: sums: by the model of a Cortex-A53 40, but tiles without an order also wait for more than is
#: estimated.
ROOM, ENDS = 2, 24.0

#: With more taps than this, the kernel's rows are walked by a loop.
MAX_TAPS = 25


@dataclass(frozen=True)
class Tunables:
    """A tile of `mh` rows x `mr` pixels; `inner` is the innermost loop, `order` one of `dual.py` or
    empty; else see `direct_oc`.
    """

    lanes: int
    mh: int
    mr: int
    unroll: str
    inner: str
    joined: bool = False
    order: str = ""


@schedule
@dataclass(frozen=True)
class ConvDepthwiseC(DepthwiseSchedule):
    """See the module docstring."""

    id = "conv.depthwise_c"
    version = 2
    halves = True

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = sizes(graph, step)
        unroll = "kh" if shape.taps <= MAX_TAPS else "kw"
        found: list[Tunables] = []
        if _joins(shape, isa) and unroll == "kh":
            found += [
                Tunables(1, 1, min(pixels, shape.ow), unroll, "c", joined=True)
                for rows, pixels in TILES[16]
                if rows == 1  # two rows are not joined at stride 2
            ]
        for lanes in widths(shape.oc, isa):
            for rows, pixels in TILES.get(isa.registers, TILES[16]):
                mh = min(rows, shape.oh) if unroll == "kh" else 1
                tile = (lanes, mh, min(pixels, shape.ow), unroll)
                found += [Tunables(*tile, inner) for inner in ("c", "px")]
        if unroll == "kh" and not graph.halves:
            found += _in_orders(shape, isa)
        return [as_params(p) for p in dict.fromkeys(found)]

    def apart(self, graph: Graph, step: Step, isa: Isa) -> bool:
        # Processors without vectors have little memory to spare.
        return isa.widest > 1 and sizes(graph, step).kh > 1

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, shape = typed(Tunables, params), sizes(graph, step)
        mh = p.mh
        vectors = vector_count(_vectors(shape, p, isa), isa)
        rest = _last_rows(shape, p)
        cycles = code = 0.0
        for tile in pixel_tiles(0, shape.ow, p.mr):
            one = _tile_cycles(shape, step, isa, p, mh, tile.pixels)
            if rest:
                last = mh * _tile_cycles(shape, step, isa, p, rest, tile.pixels)
                one = (one * (shape.oh - rest) + last) / shape.oh
            cycles += tile.count * one
            code += 6.5 * shape.taps * tile.pixels * (mh + (mh > 1) + rest)
        if p.unroll == "kw":
            cycles *= 1.1
            code /= shape.kh
        return Estimate(cycles * vectors * shape.oh / mh, code)

    def kernel(self, job: Job) -> Kernel:
        p, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        ep = epilogues.build(job, job.step.anchor.output)
        vectors = _vectors(shape, p, job.isa)
        arrays = _arrays(job, shape, vectors)
        by_lookup = multiplier(shape) > 1
        code = render(
            "ops/conv/depthwise_c.c.j2",
            s=shape,
            p=p,
            x=job.inputs[0],
            y=job.output,
            ep=ep,
            loops=vector_loops(vectors),
            pixel_tiles=pixel_tiles,
            window_rows=window_rows,
            window_columns=window_columns,
            load=lambda vec, at: _load(job, vec, at, by_lookup=by_lookup),
            first_input="" if by_lookup else " + c0",
            residual={k: job.inputs[k] for k in ep.tensors},
            residual_at=lambda i, px: lambda k: _residual(job, k, i, px),
            scalar=Vec(0, 1, 1, 0),
            rest=_last_rows(shape, p),
            joined_residual=lambda i, px: lambda k: f"{_residual(job, k, i, px)} + j",
            symbol=job.symbol,
            signature=signature(job, band=True),
            describe=describe(job),
            once=lambda outputs: outputs + shape.taps < room_to_hold(job.isa),
        )
        if p.order:
            code = in_order(code, REGISTERS, beside=p.order == dual.BESIDE)
        return Kernel(code, (*arrays, *ep.constants), band=1, needs_math=ep.needs_math)


def _joins(shape: ConvShape, isa: Isa) -> bool:
    """Whether compilers may join scalars to vectors, as `conv.direct_oc` says."""
    return isa.joins_scalars and shape.oc % 4 == 0 and multiplier(shape) == 1


def _in_orders(shape: ConvShape, isa: Isa) -> list[Tunables]:
    """Tiles in an order whose sums, weights and biases fit the registers."""
    if not isa.has("ordered") or multiplier(shape) > 1:
        return []
    tiles = dict.fromkeys((min(mh, shape.oh), min(mr, shape.ow)) for mh, mr in ORDERED_TILES)
    return [
        Tunables(LANES, mh, mr, "kh", "px", order=order)
        for mh, mr in tiles
        if mh * mr + shape.taps + 1 + ROOM <= REGISTERS
        for order in dual.ORDERS
    ]


def _last_rows(shape: ConvShape, p: Tunables) -> int:
    """Rows of an image after whole tiles that are computed at once, where tiles are in an order;
    else one by one.
    """
    return shape.oh % p.mh if p.order else 0


def _vectors(shape: ConvShape, p: Tunables, isa: Isa) -> Sequence[Vec]:
    """The channels cut into vectors, or into groups of four scalars."""
    if p.joined:
        return [Vec(c, 4, 4, c) for c in range(0, shape.oc, 4)]
    return split_lanes(shape.oc, isa, p.lanes)


def _tile_cycles(
    shape: ConvShape, step: Step, isa: Isa, p: Tunables, rows: int, pixels: int
) -> float:
    """Cycles of a register tile: multiply-accumulates, loads or stores, whichever takes longest."""
    outputs = rows * pixels
    inputs = len(window_rows(shape, rows)) * len(window_columns(shape, pixels))
    kept = p.inner == "px" and outputs + shape.taps + 1 <= isa.registers
    spilled = max(outputs + 2 - isa.registers, 0) * shape.taps
    loads = inputs + (0 if kept else shape.taps) + 2 * spilled
    work = outputs * (shape.taps * mac_instructions(isa) + 1 + len(step.epilogue))
    if multiplier(shape) > 1:
        loads += inputs * p.lanes
    if p.order:
        return _cycles_in_order(isa, p, work, loads, outputs)
    busy = busy_cycles(isa, work, loads, outputs, lanes=p.lanes, macs=outputs * shape.taps)
    waiting = waiting_cycles(isa, outputs * shape.taps, isa.registers - outputs - 1)
    return 4.0 + max(busy, waiting, isa.rates(p.lanes).latency * shape.taps / 2)


def _cycles_in_order(isa: Isa, p: Tunables, work: float, loads: float, stores: float) -> float:
    """Cycles of a tile in an order: loads take as long as the order says; others move halves."""
    core = isa.rates(p.lanes)
    if isa.core.window:
        return busy_cycles(isa, work + loads, 2.0 * loads, stores, lanes=p.lanes)
    way = isa.core.loading.get(p.order, load_way(isa))
    return ENDS + work / core.arithmetic + loads * way.cycles + stores / core.stores


def _load(job: Job, vec: Vec, at: str, *, by_lookup: bool) -> str:
    """The inputs of a vector of output channels, at an offset from the window's first pixel."""
    if by_lookup:
        return f"{vec.t}_lookup(xp{at}, i32x{vec.lanes}_load({job.symbol}_i + c0))"
    return vec.load(f"xp{at}")


def _residual(job: Job, k: int, row: int, pixel: int) -> str:
    at = row * job.inputs[k].row + pixel * job.inputs[k].col
    return f"r{k} + {at}" if at else f"r{k}"


def _arrays(job: Job, shape: ConvShape, vectors: Sequence[Vec]) -> tuple[ConstArray, ...]:
    """Weights as [vector][kh][kw][lanes], biases as [channel], and each channel's input channel."""
    w = job.constant(shape.weight).reshape(shape.taps, shape.oc)
    panels: list[NDArray[np.float32]] = []
    for vec in vectors:
        panel = np.zeros((shape.taps, vec.lanes), np.float32)
        panel[:, : vec.valid] = w[:, vec.start : vec.start + vec.valid]
        panels.append(panel.reshape(-1))
    arrays = [
        ConstArray(
            f"{job.symbol}_w",
            np.concatenate(panels),
            "weights [vector][kh][kw][lanes]",
            is_weights=True,
        ),
        padded_bias(job, shape),
    ]
    if multiplier(shape) > 1:
        inputs = epilogues.padded_channels(np.arange(shape.oc, dtype=np.int32) // multiplier(shape))
        arrays.append(ConstArray(f"{job.symbol}_i", inputs, "input channel of each output channel"))
    return tuple(arrays)
