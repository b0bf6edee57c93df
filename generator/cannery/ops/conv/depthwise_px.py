"""Depthwise convolution with neighbouring output pixels in the lanes, planar in and out.

A tile of MH rows x NR vectors of pixels of one channel stays in registers; the channel's weights
are broadcast (load1), or stored once per lane (splat). Rows of the window that several output rows
share are loaded once per tile. The last vector of a row overlaps its neighbour, so the kernel reads
nothing outside the windows. `unroll` says which loops are left: kh (none) or kw (over the kernel's
rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.layouts import Want, planar
from cannery.ops.conv.depthwise import (
    DepthwiseSchedule,
    window_columns,
    window_rows,
)
from cannery.ops.conv.geometry import ConvShape, sizes
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec, VecLoop
from cannery.ops.shared.taps import load_count, tap_loads
from cannery.ops.shared.tiles import cover, room_to_hold, widths
from cannery.schedule.cost import busy_cycles, mac_instructions, waiting_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: Tiles (MH rows, NR vectors) by the number of vector registers.
TILES = {
    8: ((1, 1), (1, 2), (2, 1), (3, 1)),
    16: ((1, 1), (1, 2), (2, 1), (3, 1), (4, 1), (2, 2)),
    32: ((1, 1), (1, 2), (2, 1), (3, 1), (4, 1), (2, 2), (4, 2), (6, 1)),
}

#: With more taps than this, the kernel's rows are walked by a loop.
MAX_TAPS = 25


@dataclass(frozen=True)
class Tunables:
    """A tile of `mh` rows x `nr` vectors of pixels; else see the module docstring."""

    lanes: int
    mh: int
    nr: int
    unroll: str
    broadcast: str


@schedule
@dataclass(frozen=True)
class ConvDepthwisePx(DepthwiseSchedule):
    """See the module docstring."""

    id = "conv.depthwise_px"
    halves = True
    want = Want(planar.ORDER)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = sizes(graph, step)
        unroll = "kh" if shape.taps <= MAX_TAPS else "kw"
        found: list[Tunables] = []
        for lanes in widths(shape.ow, isa):
            for mh, nr in TILES.get(isa.registers, TILES[16]):
                rows = min(mh, shape.oh) if unroll == "kh" else 1
                vectors = max(min(nr, shape.ow // lanes), 1)
                for broadcast in _broadcasts(isa, lanes):
                    found.append(Tunables(lanes, rows, vectors, unroll, broadcast))
        return [as_params(p) for p in dict.fromkeys(found)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, shape = typed(Tunables, params), sizes(graph, step)
        mh = p.mh
        cycles = code = 0.0
        for vectors, loop in _chunks(shape, p, isa):
            cycles += loop.count * _tile_cycles(shape, step, isa, p, vectors, loop.vec.lanes)
            code += 6.5 * shape.taps * vectors * (mh + (mh > 1))
        if p.unroll == "kw":
            cycles *= 1.1
            code /= shape.kh
        return Estimate(shape.oc * (shape.oh / mh * (cycles + 4.0) + 10.0), code)

    def kernel(self, job: Job) -> Kernel:
        p, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        ep = epilogues.build(job, job.step.anchor.output)
        code = render(
            "ops/conv/depthwise_px.c.j2",
            s=shape,
            p=p,
            x=job.inputs[0],
            y=job.output,
            ep=ep,
            chunks=_chunks(shape, p, job.isa),
            offsets=_offsets(shape),
            window_rows=window_rows,
            tap_loads=tap_loads,
            once=lambda outputs: _held(shape, job.isa, outputs),
            residual={k: job.inputs[k] for k in ep.tensors},
            residual_at=lambda row, at: lambda k: f"r{k} + {row * job.inputs[k].row + at}",
            weight=lambda vec, pointer, tap: _weight(p, vec, pointer, tap),
            pitch=_pitch(p),
            symbol=job.symbol,
            signature=signature(job, band=True),
            describe=describe(job),
        )
        arrays = _arrays(job, shape, _pitch(p))
        return Kernel(code, (*arrays, *ep.constants), band=1, needs_math=ep.needs_math)


def _chunks(shape: ConvShape, p: Tunables, isa: Isa) -> list[tuple[int, VecLoop]]:
    """A row as (vectors per tile, loop): tiles of NR vectors, then single vectors."""
    lanes, nr = p.lanes, p.nr
    loops = cover(0, shape.ow, isa, lanes)
    first = loops[0]
    tiles = first.count // nr
    if nr == 1 or not tiles:
        return [(1, loop) for loop in loops]
    chunks = [(nr, replace(first, count=tiles))]
    done = tiles * nr
    if done < first.count:
        rest = replace(first.vec, start=done * first.vec.lanes)
        chunks.append((1, VecLoop(rest, first.count - done)))
    return chunks + [(1, loop) for loop in loops[1:]]


def _offsets(shape: ConvShape) -> list[int]:
    """Columns of the taps, counted from the first."""
    return [column.at for column in window_columns(shape, 1)]


def _broadcasts(isa: Isa, lanes: int) -> list[str]:
    """The ways in which weights can reach all lanes."""
    return ["load1", "splat"] if lanes == 4 and _shuffles(isa) else ["load1"]


def _shuffles(isa: Isa) -> bool:
    """Whether a broadcast from memory is a load and a shuffle."""
    return isa.family == "x86" and 8 not in isa.lanes


def _pitch(p: Tunables) -> int:
    """Floats from one weight to the next."""
    return 4 if p.broadcast == "splat" else 1


def _weight(p: Tunables, vec: Vec, pointer: str, tap: int) -> str:
    """A weight in all lanes."""
    word = "load_aligned" if p.broadcast == "splat" and vec.lanes == 4 else "load1"
    return f"{vec.t}_{word}({pointer}{offset(tap * _pitch(p))})"


def _tile_cycles(
    shape: ConvShape, step: Step, isa: Isa, p: Tunables, vectors: int, lanes: int
) -> float:
    """Cycles of a register tile: multiply-accumulates, loads or issue, whichever takes longest."""
    rows = p.mh
    outputs = rows * vectors
    loads, shuffles = load_count(lanes, _offsets(shape), shape.sw)
    lines = len(window_rows(shape, rows)) * vectors
    weights = 0 if _registers(shape, outputs) <= isa.registers else shape.taps
    reads = lines * loads + weights
    work = outputs * (shape.taps * mac_instructions(isa) + 1 + len(step.epilogue))
    work += lines * shuffles
    if p.broadcast == "load1" and _shuffles(isa):
        work += 0.5 * weights
    macs = outputs * shape.taps
    busy = busy_cycles(isa, work, reads, beside=outputs, lanes=lanes, macs=macs)
    waiting = waiting_cycles(isa, macs, isa.registers - outputs - 1)
    return 3.0 + max(busy, waiting, isa.rates(lanes).latency * shape.taps / 2)


def _registers(shape: ConvShape, outputs: int) -> int:
    """Registers of a tile with all its weights."""
    return shape.taps + outputs + shape.kw


def _held(shape: ConvShape, isa: Isa, outputs: int) -> bool:
    """Whether to force inputs that several rows share to be loaded once."""
    return _registers(shape, outputs) < room_to_hold(isa)


def _arrays(job: Job, shape: ConvShape, pitch: int) -> tuple[ConstArray, ...]:
    """Weights as [oc][kh][kw], or [oc][kh][kw][4] where they are splat; biases as [oc]."""
    w = np.repeat(job.constant(shape.weight).reshape(shape.taps, shape.oc).T, pitch, axis=1)
    bias = np.zeros(shape.oc, np.float32)
    if shape.bias:
        bias = job.constant(shape.bias)
    return (
        ConstArray(
            f"{job.symbol}_w", np.ascontiguousarray(w), "weights [oc][kh][kw]", is_weights=True
        ),
        ConstArray(f"{job.symbol}_b", bias, "bias [oc]"),
    )
