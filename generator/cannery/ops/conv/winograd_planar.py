"""Winograd convolution on the phase-split layout, tiles of 4 x 4 outputs in the lanes.

It works on some vectors of tiles at a time. Their inputs are transformed (positions x IC vectors);
then for each group of C output channels the products of every position are summed over IC, in a
register tile of P vectors x C channels with broadcast weights, and transformed back. No step needs
a shuffle. Tiles continue across tile rows; the columns left and right of a row's first and last
tile are masked.

F(4x4) makes one tile of the 4 x 4 outputs. F(2x2) makes four, which share their weights, so one
position has four times as many vectors.

`tiles`: vectors of 4 x 4 outputs at a time. `unroll`: input channels per loop pass (0: no loop).
`group`: rows of a transform whose values are alive at once (0: it goes through memory).
`broadcast`: see `panels`; dual and beside are orders of the transforms, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cannery.ctext.environment import render
from cannery.ctext.in_order import LANES, in_order
from cannery.ir.graph import Graph
from cannery.ir.half import halves_at
from cannery.ir.registry import RefArray
from cannery.layouts import Layout, Want, image_dims, phase_split
from cannery.ops.conv.geometry import ConvShape, sizes, why_not_3x3
from cannery.ops.conv.panels import (
    Panels,
    bias_array,
    broadcasts,
    periodic_mask,
    update_cycles,
)  # fmt: skip
from cannery.ops.conv.winograd import F2, F4, Tile, Winograd, stacked_input, stacked_output
from cannery.ops.conv.winograd_tiles import KEPT, Masks, TileCode, blocks, transform_cycles
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import even_size
from cannery.ops.shared.cover import Span, spans, tile_counts
from cannery.ops.shared.dual import BESIDE, ORDERS
from cannery.ops.shared.function import describe, signature
from cannery.schedule.cost import far_cycles, reread_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import (
    ConstArray,
    Estimate,
    Job,
    Kernel,
    Params,
    Schedule,
    own_bytes,
    schedule,
)
from cannery.target.isa import Isa

#: Register tiles (P vectors, C channels) by the number of vector registers, likeliest first.
TILES = {
    8: ((4, 1), (2, 3), (2, 2), (1, 4), (6, 1)),
    16: ((2, 6), (4, 3), (3, 4), (2, 4), (4, 2), (1, 12), (1, 8)),
    32: ((1, 6), (2, 6), (1, 12), (4, 6), (2, 12), (3, 8), (1, 20)),
}

#: Rows of a transform that are alive at once, likewise.
GROUPS = {8: (0, 1), 16: (2, 8), 32: (8, 2)}

#: How many tiles are tried for vectors that are not the widest.
NARROW_TILES = 3

#: With more cache lines of sums, or of transformed inputs, than this, the kernel waits for them.
SUMS_LINES, INPUTS_LINES = 144, 400
FLOATS_PER_LINE = 16

#: The kernel also waits for more weights than this.
STREAMED_BYTES = 256 * 1024

#: What each span of tiles costs besides its work: mispredicted loop ends.
SPAN_CYCLES = 200.0

#: Most multiply-accumulates of one register tile in line.
MAX_UNROLLED = 400


@dataclass(frozen=True)
class Variant:
    """What the code for one span of tiles needs.

    There are `vectors` per position, `p` of them in a register tile; `inputs` counts the floats of
    the transformed inputs. `input` and `output` are the transforms, by groups of statements.
    """

    vectors: int
    p: int
    inputs: int
    input: Sequence[Sequence[str]]
    output: Mapping[int, Sequence[Sequence[str]]]


@dataclass(frozen=True)
class Target:
    """Where tiles of outputs go after the epilogue, and which lanes are masked.

    `joined` (max or add): 2 x 2 pixels are joined, so each tile leaves 2 x 2 in `layout`, which
    takes `room` floats at the start of scratch memory; `finish` is the function, with its `code`,
    that turns these into output rows. `late`: the epilogue comes after the joining.
    """

    layout: Layout
    ep: epilogues.Epilogue
    masks: Masks
    joined: str = ""
    late: bool = False
    room: int = 0
    finish: str = ""
    code: str = ""

    @property
    def rows(self) -> int:
        """Output rows of a tile."""
        return 2 if self.joined else 4


@dataclass(frozen=True)
class Tunables:
    """`tiles` vectors of tiles; register tiles of `p` vectors x `c` channels; else see the module
    docstring.
    """

    lanes: int
    tiles: int
    p: int
    c: int
    group: int
    unroll: int
    broadcast: str


@dataclass(frozen=True)
class WinogradPlanar(Schedule):
    """See the module docstring."""

    winograd: ClassVar[Winograd]

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_3x3(graph, step):
            return reason
        shape = sizes(graph, step)
        same = (shape.oh, shape.ow) == (shape.ih, shape.iw) and (shape.top, shape.left) == (1, 1)
        if not same:
            return "pads are not 1"
        return epilogues.why_not(step)

    def shape(self, graph: Graph, step: Step) -> ConvShape:
        """The sizes, with only the outputs that are needed."""
        return sizes(graph, step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = self.shape(graph, step)
        total = _tile_rows(shape) * _tile_columns(shape)
        found: list[Tunables] = []
        for number, lanes in enumerate(_widths(total, isa)):
            tiles = TILES.get(isa.registers, TILES[16])[: NARROW_TILES if number else None]
            for p, c in ((p, even_size(shape.oc, c)) for p, c in tiles):
                unroll = 0 if shape.ic * p * c <= MAX_UNROLLED else 4
                found += [
                    Tunables(lanes, vectors, p, c, group, unroll, broadcast)
                    for vectors in self._tile_vectors(shape, p, total // lanes)
                    for broadcast in (*broadcasts(isa, lanes), *_orders(isa, lanes))
                    for group in GROUPS.get(isa.registers, GROUPS[16])
                    if group != 8 or broadcast != "load1" or lanes != 4
                    if group == 8 or broadcast not in ORDERS
                ]
        return [as_params(t) for t in dict.fromkeys(found)]

    def _tile_vectors(self, shape: ConvShape, p: int, most: int) -> list[int]:
        """Sensible numbers of vectors of tiles for a register tile of `p` vectors."""
        each = blocks(self.winograd) ** 2
        least = max(p // each, 1)
        found = [least, 2 * least, 4 * least] if shape.ic * shape.oc >= 1024 else [least]
        return [n for n in found if n <= max(most, 1) and n * each % p == 0] or [1]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return tuple(_want(graph, value) for value in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (_want(graph, step.output),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        work = 8 + 16 * 2 * len(step.epilogue)
        t = typed(Tunables, params)
        return self.tiles_cost(self.shape(graph, step), t, isa, work)

    def tiles_cost(
        self, shape: ConvShape, t: Tunables, isa: Isa, work: int, results: int = 16
    ) -> Estimate:
        """The cost with `work` operations on the 4 x 4 outputs, of which `results` are stored."""
        panels, fused = self._panels(shape, t), isa.has("fma")
        ordered = t.broadcast in ORDERS
        into = transform_cycles(stacked_input(self.winograd), t.group, 12, isa, ordered=ordered)
        matrix = stacked_output(self.winograd)
        back = transform_cycles(matrix, t.group, work, isa, results, ordered=ordered)
        cycles = 0.0
        total = _tile_rows(shape) * _tile_columns(shape)
        for span, count in tile_counts(total, self._spans(shape, t, isa)):
            vectors = span.vectors * blocks(self.winograd) ** 2
            p = _register_vectors(vectors, t.p)
            each = span.vectors * (shape.ic * into + shape.oc * back)
            for block in panels.blocks:
                k = products_cycles(isa, panels, block.n, p, shape.ic)
                k *= 1.0 + 0.07 * (vectors > p)
                each += block.count * self._positions * vectors / p * k
            each += self._traffic(isa, shape, panels, vectors * span.lanes) + SPAN_CYCLES
            cycles += count * each
        code = 8.0 if fused else 6.0
        return Estimate(cycles, code * (into + back) * 2.5)

    def _traffic(self, isa: Isa, shape: ConvShape, panels: Panels, lanes: int) -> float:
        """Cycles that one span of tiles waits for the caches; fitted to measurements.

        The sums are written and read at once, between pixels that stream by, so they should take
        only a fraction of the first-level cache. The inputs are only read again.
        """
        inputs = self._positions * shape.ic * lanes / FLOATS_PER_LINE
        sums = self._positions * panels.blocks[0].n * lanes / FLOATS_PER_LINE
        rounds = sum(block.count for block in panels.blocks)
        late_sums = min(max(sums / SUMS_LINES - 1.0, 0.0), 2.0)
        late_inputs = min(max(inputs / INPUTS_LINES - 1.0, 0.0), 1.0)
        again = 3.0 * late_sums * sums * rounds + 0.8 * late_inputs * inputs * (1 + rounds)
        weights = panels.bytes
        if weights <= STREAMED_BYTES:
            return again
        return again + 2.5 * reread_cycles(isa, weights, 1.0) + far_cycles(isa, weights)

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        return self.packed_bytes(graph, step, typed(Tunables, params))

    def packed_bytes(self, graph: Graph, step: Step, t: Tunables) -> float:
        """The same with typed parameters."""
        shape = self.shape(graph, step)
        kept = own_bytes(graph, step) - 4.0 * shape.taps * shape.ic * shape.oc
        return kept + self._panels(shape, t).stored_bytes

    @property
    def _positions(self) -> int:
        return self.winograd.tile**2

    def _spans(self, shape: ConvShape, t: Tunables, isa: Isa) -> tuple[Span, ...]:
        columns = _tile_columns(shape)
        total = _tile_rows(shape) * columns
        return spans(total, columns, t.tiles, t.lanes, isa)

    def _panels(self, shape: ConvShape, t: Tunables) -> Panels:
        return Panels(shape.oc, t.c, self._positions * shape.ic, t.broadcast, t.lanes)

    def kernel(self, job: Job) -> Kernel:
        t, shape = typed(Tunables, job.params), self.shape(job.graph, job.step)
        ep = epilogues.build(job, job.step.anchor.output)
        return self.tiles_kernel(job, t, shape, Target(job.output, ep, _masks(shape)))

    def tiles_kernel(self, job: Job, t: Tunables, shape: ConvShape, target: Target) -> Kernel:
        """The code; the job's last output rows come from what is in the target."""
        panels = self._panels(shape, t)
        ep, masks = target.ep, target.masks
        variants = [
            (span, self._variant(job, t, shape, span, panels, target))
            for span in self._spans(shape, t, job.isa)
        ]
        floats = max(
            v.inputs + (self._positions * panels.blocks[0].n * v.vectors + KEPT) * span.lanes
            for span, v in variants
        )
        code = render(
            "ops/conv/winograd_planar.c.j2",
            s=shape,
            p=t,
            x=job.inputs[0],
            y=target.layout,
            target=target,
            positions=self._positions,
            panels=panels,
            masks=masks,
            variants=variants,
            widths=[span.width for span, _ in variants],
            residual={k: job.inputs[k] for k in ep.tensors},
            numbered=lambda prefix, count: [f"{prefix}{k}" for k in range(count)],
            symbol=job.symbol,
            signature=signature(job, scratch=True, band=True),
            describe=describe(job),
        )
        if t.broadcast in ORDERS:
            code = in_order(code, job.isa.registers, beside=t.broadcast == BESIDE)
        constants = self._constants(job, shape, panels, masks, max(s.width for s, _ in variants))
        return Kernel(
            code, (*constants, *ep.constants), 4 * (target.room + floats), band=4,
            needs_math=ep.needs_math,
        )  # fmt: skip

    def _constants(
        self, job: Job, shape: ConvShape, panels: Panels, masks: Masks, widest: int
    ) -> tuple[ConstArray, ...]:
        tile = Tile(self.winograd, self.winograd)
        u = tile.weights(job.constant(shape.weight)).reshape(panels.k, shape.oc)
        bias = job.constant(shape.bias) if shape.bias else None
        columns = _tile_columns(shape)
        inner = periodic_mask([column > 0 for column in range(columns)], columns + widest + 1)
        found = (
            ConstArray(f"{job.symbol}_w", panels.pack(u), "weights [block][position][ic][oc]"),
            bias_array(job.symbol, bias, shape.oc),
            ConstArray(f"{job.symbol}_m", inner, f"all but the first of {columns} tiles"),
        )
        if not masks.bottom:
            return found
        low = periodic_mask([True] * widest + [False] * widest, 2 * widest)
        return (*found, ConstArray(f"{job.symbol}_low", low, "above the last row of tiles"))

    def _variant(
        self, job: Job, t: Tunables, shape: ConvShape, span: Span, panels: Panels, target: Target
    ) -> Variant:
        vectors = span.vectors * blocks(self.winograd) ** 2
        tiles = TileCode(self.winograd, job, span, vectors, t.group)
        return Variant(
            vectors,
            _register_vectors(vectors, t.p),
            self._positions * shape.ic * vectors * span.lanes,
            tiles.input(shape.ic),
            {b.n: _output(tiles, b.n, target) for b in panels.blocks},
        )

    def tile(self, graph: Graph, step: Step) -> Tile:
        """The algorithm of a step's tiles."""
        return Tile(self.winograd, self.winograd)

    def emulate(self, graph: Graph, step: Step, inputs: Sequence[RefArray]) -> RefArray:
        """The step's output with the convolution in float32, as this schedule rounds it."""
        return emulate(self.tile(graph, step), graph, step, inputs)


@schedule
@dataclass(frozen=True)
class ConvWinogradPlanar(WinogradPlanar):
    """F(4x4, 3x3): a quarter of the products, an error ten times that of the direct form."""

    id = "conv.winograd_planar"
    inexact = True
    winograd = F4


@schedule
@dataclass(frozen=True)
class ConvWinogradPlanarF2(WinogradPlanar):
    """F(2x2, 3x3): four ninths of the products, as accurate as the direct form."""

    id = "conv.winograd_planar_f2"
    winograd = F2


def emulate(tile: Tile, graph: Graph, step: Step, inputs: Sequence[RefArray]) -> RefArray:
    """A step's output with the convolution by tiles, rounded as the schedules do.

    That is to float16 at every step if the values are in half precision, else to float32.
    """
    shape = sizes(graph, step)
    node = step.anchor
    values: dict[str, RefArray] = dict(zip(step.inputs, inputs, strict=True))
    dtype = np.float16 if halves_at(graph, [node]) else np.float32
    x = values[node.inputs[0]].astype(dtype)
    weights = np.asarray(graph.constants[shape.weight], np.float32)
    start, size = (shape.top, shape.left), (shape.oh, shape.ow)
    gap = shape.dw if shape.kw > 1 else 1
    y = tile.emulate(x, weights, start, size, gap)
    if shape.bias:
        y = y + np.asarray(graph.constants[shape.bias], dtype)
    values[node.output] = y
    for following in step.epilogue:
        operands = (values[v] if v in values else graph.constants[v] for v in following.inputs)
        (values[following.output],) = following.op.reference(*operands)
    return values[step.output].astype(dtype)


def products_cycles(isa: Isa, panels: Panels, n: int, p: int, ic: int) -> float:
    """Cycles of one register tile. Short sums overlap with the next tile, long ones wait."""
    waiting = isa.rates().latency if ic * p * n > 256 else 0.0
    return ic * max(update_cycles(isa, panels, n, p), waiting) + p * n + 6


def _output(tiles: TileCode, n: int, target: Target) -> list[list[str]]:
    if target.joined:
        return tiles.pooled(n, target.ep, target.layout, target.joined, late=target.late)
    return tiles.output(n, target.ep, target.masks)


def _orders(isa: Isa, lanes: int) -> tuple[str, ...]:
    """The orders for processors in order."""
    return ORDERS if isa.has("ordered") and lanes == LANES else ()


def _want(graph: Graph, value: str) -> Want:
    _, h, w, c = image_dims(graph.types[value])
    return Want(phase_split.ORDER, phase_split.halo((h, w, c)))


def _tile_rows(shape: ConvShape) -> int:
    return -(-shape.oh // 4)


def _tile_columns(shape: ConvShape) -> int:
    return -(-shape.ow // 4)


def _masks(shape: ConvShape) -> Masks:
    rest = shape.oh % 4
    bottom = (_tile_rows(shape) - 1) * _tile_columns(shape) if rest else 0
    return Masks(shape.ow % 4, bottom, rest)


def _register_vectors(vectors: int, p: int) -> int:
    """The largest register tile of at most `p` vectors that divides `vectors`."""
    return max(k for k in range(1, min(p, vectors) + 1) if vectors % k == 0)


def _widths(tiles: int, isa: Isa) -> list[int]:
    """The widest vectors to try, widest first."""
    widths = [w for w in isa.lanes if w <= tiles]
    return widths[-2:][::-1] if widths[-1] > 4 else widths[-1:]
