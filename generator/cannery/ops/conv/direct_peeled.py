"""Direct convolution without a halo: taps that fall into the padding are omitted.

Like `direct_oc`, it has output channels in the lanes, but it peels the borders: the loop skips
window rows outside the image, and the generator leaves out columns outside it. So a 4 x 4 image
with a 3 x 3 window takes 100 products per channel pair instead of 144, and there is no halo to keep
zero. This pays for small images; large ones have few border pixels and need less code.

`unroll`: kw (the columns of a window's row and all channels in line) or ic (channels four at a
time). `joined`: as in `direct_oc`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ops.conv.direct_oc import (
    HELD_WEIGHTS,
    JOINED_TILES,
    MAX_UNROLLED,
    ChannelsInOrder,
    Tunables,
    broadcast_words,
    can_join,
    held_weights,
    joined_residual,
    pixel_runs,
    pixels_in_turns,
    register_tiles,
    vector_widths,
)  # fmt: skip
from cannery.ops.conv.geometry import ConvShape, sizes, why_not_dense
from cannery.ops.conv.weight_panels import pack_weights
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import gemm
from cannery.ops.shared.function import describe, residual_pointer, signature
from cannery.ops.shared.lanes import split_lanes
from cannery.ops.shared.tiles import tile_registers
from cannery.schedule.cost import (
    broadcast_work,
    early_inputs,
    mac_bytes,
    reread_cycles,
    tile_cycles,
)
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Longer rows gain too little.
MAX_WIDTH = 16


@dataclass(frozen=True)
class TileRun:
    """`count` neighbouring tiles of `pixels` pixels, the first at output column `start`.

    `taps` lists (kw, numbers of the pixels whose tap kw lies in the image); `column` is the input
    column of the first pixel if there were no padding.
    """

    start: int
    pixels: int
    count: int
    column: int
    taps: tuple[tuple[int, tuple[int, ...]], ...]


@schedule
@dataclass(frozen=True)
class ConvDirectPeeled(Schedule):
    """See the module docstring."""

    id = "conv.direct_peeled"
    version = 2

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_dense(graph, step):
            return reason
        shape = sizes(graph, step)
        if not shape.halo or min(shape.top, shape.left) < 0:
            return "not padded"
        if not all(_window_rows(shape, oh) for oh in range(shape.oh)):
            return "windows entirely in the padding"
        if shape.ow > MAX_WIDTH:
            return f"rows longer than {MAX_WIDTH}"
        return epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = sizes(graph, step)
        found: list[Tunables] = []
        if can_join(shape, isa):
            tiles = [(min(mr, shape.ow), min(nr, shape.oc)) for mr, nr in JOINED_TILES]
            found += [Tunables(1, *tile, "kw", "set1", joined=True) for tile in tiles]
        for lanes in vector_widths(shape.oc, isa):
            vectors = len(split_lanes(shape.oc, isa, lanes))
            tiles = [(min(mr, shape.ow), min(nr, vectors)) for mr, nr in register_tiles(isa)]
            found += [
                Tunables(lanes, *tile, unroll, broadcast)
                for tile in tiles
                for unroll in (("kw",) if shape.ic <= 4 else ("ic", "kw"))
                for broadcast in broadcast_words(shape, isa, lanes, gemm.whole_tile(graph, *tile))
            ]
        small = [p for p in found if p.statements(_unrolled(shape, p, isa)) <= MAX_UNROLLED]
        least = min(found, key=lambda p: (p.joined, _unrolled(shape, p, isa)))
        return [as_params(p) for p in dict.fromkeys(small or [least])]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, shape = typed(Tunables, params), sizes(graph, step)
        loads, work = broadcast_work(isa, p.broadcast)
        if p.joined:
            work = 1.0
        rows = float(sum(_window_rows(shape, oh) for oh in range(shape.oh)))
        cycles = 0.0
        blocks, parts = p.blocks(shape, isa), _parts(shape, p.mr)
        for part in parts:
            for block in blocks:
                n = p.registers(len(block.vecs))
                tile = 2.0 * n * part.pixels * shape.oh / rows if p.joined else 0.0
                for _, pixels in part.taps:
                    count = len(pixels)
                    early = early_inputs(isa, p.broadcast, count)
                    tile += tile_cycles(
                        isa, count, n, count * loads + n, shape.ic, count * work, early=early,
                        lanes=p.lanes, broadcast=p.broadcast,
                    )  # fmt: skip
                    tile += 0.5 * shape.ic if p.unroll == "ic" else 0.0
                cycles += part.count * block.count * (rows * (tile + 2.0) + shape.oh * 8.0)
        weights = 4.0 * shape.ic * shape.taps * sum(b.width * b.count for b in blocks)
        passes = sum(part.count for part in parts)
        cycles += shape.oh * reread_cycles(isa, weights, passes)
        return Estimate(cycles, _unrolled(shape, p, isa) * mac_bytes(isa))

    def kernel(self, job: Job) -> Kernel:
        p, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        blocks = p.blocks(shape, job.isa)
        busy = tile_registers(p.mr, [block.vecs for block in blocks])
        ep = epilogues.build(job, job.step.anchor.output, busy=busy)
        weights, bias = pack_weights(job, shape, blocks, p.broadcast)
        code = render(
            "ops/conv/direct_peeled.c.j2",
            s=shape,
            held=held_weights(job.isa),
            by_scalars=job.isa.has("mve"),
            in_turns=pixels_in_turns(job.isa, p.broadcast),
            in_order=ChannelsInOrder(job.isa, p.broadcast, shape.sw * job.inputs[0].col),
            p=p,
            x=job.inputs[0],
            y=job.output,
            blocks=blocks,
            many=lambda block: shape.taps * shape.ic * len(block.vecs) > HELD_WEIGHTS,
            parts=_parts(shape, p.mr),
            ep=ep,
            late=epilogues.crowded(job.isa, busy + len(blocks[0].vecs)),
            residual={k: job.inputs[k] for k in ep.tensors},
            residual_at=residual_pointer(job),
            joined_residual=joined_residual(job),
            symbol=job.symbol,
            signature=signature(job, band=True),
            describe=describe(job),
        )
        return Kernel(code, (weights, bias, *ep.constants), band=1, needs_math=ep.needs_math)


def _window_rows(shape: ConvShape, oh: int) -> int:
    """Rows of the window that lie in the image, for output row `oh`."""
    top = oh * shape.sh - shape.top
    return sum(0 <= top + kh * shape.dh < shape.ih for kh in range(shape.kh))


def _parts(shape: ConvShape, mr: int) -> list[TileRun]:
    """The tiles of a row; neighbours whose taps reach the same pixels form one part."""
    parts: list[TileRun] = []
    at = 0
    for pixels, count in pixel_runs(shape.ow, mr):
        for _ in range(count):
            taps = _taps(shape, at, pixels)
            last = parts[-1] if parts else None
            if last and (last.pixels, last.taps) == (pixels, taps):
                parts[-1] = TileRun(last.start, pixels, last.count + 1, last.column, taps)
            else:
                parts.append(TileRun(at, pixels, 1, at * shape.sw, taps))
            at += pixels
    return parts


def _taps(shape: ConvShape, start: int, pixels: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    found = []
    for kw in range(shape.kw):
        first = start * shape.sw + kw * shape.dw - shape.left
        inside = tuple(px for px in range(pixels) if 0 <= first + px * shape.sw < shape.iw)
        if inside:
            found.append((kw, inside))
    return tuple(found)


def _unrolled(shape: ConvShape, p: Tunables, isa: Isa) -> int:
    """Vector multiply-accumulates in the straight-line bodies."""
    channels = shape.ic if p.unroll == "kw" else min(shape.ic, 4)
    taps = sum(len(pixels) for part in _parts(shape, p.mr) for _, pixels in part.taps)
    return channels * taps * sum(p.registers(len(b.vecs)) for b in p.blocks(shape, isa))
