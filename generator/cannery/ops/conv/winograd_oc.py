"""Winograd convolution, channels last in and out, with channels in the lanes.

It takes windows of up to five taps per axis, including those of one row or column (1D networks).
With strides, each phase may have that many. Taps along rows may have gaps, see `winograd_tiling`.

It works on a batch of tiles at a time. Their inputs are transformed (positions x tiles x IC); then
for each block of output channels the products of every position are summed over IC, in a register
tile of MR tiles x NR vectors, and transformed back. Unlike the planar form, it needs no minimum
number of tiles: a 4 x 4 image is one tile of F(4x4). Weights are read once per batch.

`batch`: tiles at a time. `unroll`: input channels per loop pass (0: no loop). `group`: rows of a
transform whose values are alive at once (0: it goes through memory). `broadcast`: see `direct_oc`.
`outside`: all positions of a block of output channels before the next block, or all blocks of a
position before the next position, so that the transformed inputs are read only once per batch as
well. A panel is the weights of one position and block; panels are stored in the order of use. Where
the weights exceed the second-level cache, each panel is prefetched during the previous one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from cannery.ctext.environment import offset, render
from cannery.ctext.in_order import in_order
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.layouts import Halo, Want
from cannery.ops.conv.direct_oc import (
    HELD_WEIGHTS,
    ChannelsInOrder,
    held_weights,
    pixels_in_turns,
    register_tiles,
    tile_words,
    vector_widths,
)  # fmt: skip
from cannery.ops.conv.geometry import ConvShape, padded_bias, sizes, why_not_dense
from cannery.ops.conv.weight_panels import cut_channels, pack_panels
from cannery.ops.conv.winograd import POINTS, Points, Tile, fits
from cannery.ops.conv.winograd_planar import GROUPS, emulate
from cannery.ops.conv.winograd_tiles import KEPT, TileCode, transform_cycles
from cannery.ops.conv.winograd_tiling import Tiling, why_not_dilated
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import even_size
from cannery.ops.shared.cover import Span
from cannery.ops.shared.dual import BESIDE, ORDERS
from cannery.ops.shared.fetch import Fetch
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import Vec, split_lanes, vector_loops
from cannery.schedule.ahead import LINE
from cannery.schedule.caches import FAR_BYTES, L1_BYTES, L2_BYTES, near_bytes
from cannery.schedule.cost import (
    broadcast_work,
    conflict_cycles,
    early_inputs,
    far_cycles,
    reread_cycles,
    stored_cycles,
    tile_cycles,
    weights_cycles,
)
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

#: Limits in bytes on a batch's transformed inputs. The last ones are for weights that come from far
#: away, where fewer batches pay.
BATCH_BYTES, FAR_BATCH_BYTES = (L1_BYTES, L2_BYTES // 2), (1024 * 1024, FAR_BYTES)

#: The part of prefetching that products do not hide.
NOT_HIDDEN = 0.1

#: Most multiply-accumulates of one register tile in line.
MAX_UNROLLED = 400

#: Channels of a colour image. Loading four of them is quicker than loading three.
THREE = 3

#: Most bytes of transformed weights with strides. There are up to three times as many as in the
#: window, for a little more than half of the products (with 0.8 MB, ResNet-18 is 5 % slower).
STRIDED_BYTES = 256 * 1024

#: As for planar tiles; with eight registers, rows one by one take up to twice as long.
OC_GROUPS = {**GROUPS, 8: (0,)}


@dataclass(frozen=True)
class Into:
    """The input transform of `count` neighbouring vectors of channels, the first at `start`."""

    start: int
    packed: int
    lanes: int
    count: int
    code: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Sums:
    """How products are stored before they are transformed back: [position][tile][channels].

    In floats: the distance from tile to tile (0: the width of the block) and from position to
    position.
    """

    tile: int
    batch: int
    position: int

    def tile_of(self, block: VectorBlock) -> int:
        """From one tile to the next."""
        return self.tile or block.width

    def position_of(self, block: VectorBlock) -> int:
        """From one position to the next."""
        return self.position if self.tile else self.batch * block.width


@dataclass(frozen=True)
class Tunables:
    """Register tiles of `mr` tiles x `nr` vectors, `batch` tiles at a time; else see above."""

    lanes: int
    mr: int
    nr: int
    batch: int
    group: int
    unroll: int
    broadcast: str
    outside: str


@dataclass(frozen=True)
class WinogradOc(Schedule):
    """See the module docstring."""

    version = 6

    #: Most products along an axis with a window: F(points + 1 - k, k) for k taps.
    points: ClassVar[int]
    at_points: ClassVar[Points] = POINTS
    most_unrolled: ClassVar[int] = MAX_UNROLLED
    #: Whether three channels, stored as four, are also multiplied by lane: of floats, that spills.
    three_by_lane: ClassVar[bool] = False

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_dense(graph, step):
            return reason
        shape = sizes(graph, step)
        if shape.taps == 1:
            return "no window"
        if reason := why_not_dilated(shape):
            return reason
        if not fits(self.points, shape.kh, shape.sh) or not fits(self.points, shape.kw, shape.sw):
            return f"no windows of up to {self.points - 1} taps, or strides as long as these"
        if max(shape.sh, shape.sw) > 1 and self.weight_bytes(shape) > STRIDED_BYTES:
            return "strides, and many weights"
        if min(shape.top, shape.left) < 0:
            return "negative pads"
        if shape.ic < 3 or shape.oc < 4:
            return "fewer than 3 input or 4 output channels"
        return epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = sizes(graph, step)
        tile = self._tile(shape)
        total = self._tiling(shape).count
        groups = OC_GROUPS.get(isa.registers, GROUPS[16]) if tile.rows.m > 1 else (1,)
        found: list[Tunables] = []
        # Transforms of few inputs use narrower vectors on their own.
        both = vector_widths(min(shape.oc, shape.ic), isa)
        for lanes in dict.fromkeys((*both, *vector_widths(shape.oc, isa)[:1])):
            vectors = len(split_lanes(shape.oc, isa, lanes))
            tiles = [(even_size(total, mr), min(nr, vectors)) for mr, nr in register_tiles(isa)]
            found += [
                Tunables(lanes, mr, nr, batch, group, unroll, broadcast, outside)
                for mr, nr in dict.fromkeys(tiles)
                for unroll in (0 if shape.ic * mr * nr <= self.most_unrolled else 4,)
                for batch in self._batches(shape, mr)
                for outside in self._orders(shape, batch, single=nr >= vectors)
                for broadcast in self._words(shape, isa, lanes, (mr, nr))
                for group in groups
            ]
        return list(map(as_params, found))

    def halo(self, graph: Graph, step: Step) -> Halo:
        return self._tiling(sizes(graph, step)).halo

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        """Like any schedule, but asks for slack to read three channels as four.

        Only with a halo, for which the input is copied anyway.
        """
        first, *others = super().reads(graph, step, params, isa)
        if first.halo and sizes(graph, step).ic == THREE:
            first = replace(first, slack=1)
        return (first, *others)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, shape = typed(Tunables, params), sizes(graph, step)
        tile = self._tile(shape)
        rows, columns = tile.rows, tile.columns
        total = self._tiling(shape).count
        ordered = p.broadcast in ORDERS
        into = transform_cycles(rows.bt, p.group, 0, isa, across=columns.bt, ordered=ordered)
        applied = 1 + rows.m * columns.m * 2 * len(step.epilogue)
        back = transform_cycles(rows.at, p.group, applied, isa, across=columns.at, ordered=ordered)
        cycles = float(total) * (into + 4.0) * len(split_lanes(shape.ic, isa, p.lanes))
        cycles += total * (back + 4.0) * len(split_lanes(shape.oc, isa, p.lanes))
        products = self._products(shape, p, isa)
        batches = -(-total // p.batch)
        weights = self.weight_bytes(shape)
        far = weights_cycles(isa, weights, graph.constant_bytes)
        if weights > isa.core.caches.l2_bytes:
            far *= batches
        else:
            products += reread_cycles(isa, weights, batches)
        cycles += max(products, far) + NOT_HIDDEN * far
        cycles += far_cycles(isa, weights - 4.0 * shape.taps * shape.ic * shape.oc)
        cycles += self._between(shape, p, isa) + self._conflicts(shape, p, isa)
        code = (into + back * len(self._blocks(shape, p, isa))) * 16.0
        return Estimate(cycles, code)

    def _products(self, shape: ConvShape, p: Tunables, isa: Isa) -> float:
        """Cycles of all products, with their operands at hand."""
        mr, batch, way = p.mr, p.batch, p.broadcast
        tile = self._tile(shape)
        total = self._tiling(shape).count
        loads, work = broadcast_work(isa, way)
        early = early_inputs(isa, way, mr)
        tiles = sum(-(-min(batch, total - at) // mr) for at in range(0, total, batch))
        cycles = 0.0
        for block in self._blocks(shape, p, isa):
            n = len(block.vecs)
            update = tile_cycles(
                isa, mr, n, mr * loads + n, shape.ic, mr * work, early=early, lanes=p.lanes,
                broadcast=way,
            )  # fmt: skip
            # Cores in order wait for the first operands and the last sums.
            around = 1.5 * mr * n + 4.0 if isa.core.window else 2.0 * mr * n + 10.0
            cycles += tiles * block.count * tile.positions * (update + around)
        return cycles

    def _between(self, shape: ConvShape, p: Tunables, isa: Isa) -> float:
        """Cycles of the data that leaves the first-level cache: transformed inputs and sums of
        batches.
        """
        tile, batch = self._tile(shape), p.batch
        total = self._tiling(shape).count
        batches, rows = -(-total // batch), min(batch, total)
        inputs, sums = (4.0 * tile.positions * c * rows for c in (shape.ic, shape.oc))
        blocks = sum(block.count for block in self._blocks(shape, p, isa))
        if p.outside == "positions":
            return batches * (stored_cycles(isa, sums) + stored_cycles(isa, inputs))
        if inputs + sums / blocks > isa.core.caches.l2_bytes:  # weights stream through as well
            return batches * blocks * inputs / isa.core.caches.far_rate
        return reread_cycles(isa, inputs, batches * blocks)

    def _conflicts(self, shape: ConvShape, p: Tunables, isa: Isa) -> float:
        """Cycles lost when sums evict one another because of a bad pitch between positions."""
        if p.outside == "positions":
            return 0.0
        tile, blocks = self._tile(shape), self._blocks(shape, p, isa)
        widest = max(block.width for block in blocks)
        pitch, lines = 4.0 * p.batch * widest, -(-4.0 * widest // LINE)
        passes = self._tiling(shape).count * lines * sum(block.count for block in blocks)
        return conflict_cycles(isa, tile.positions, pitch, passes)

    def kernel(self, job: Job) -> Kernel:
        p, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        ep = epilogues.build(job, job.step.anchor.output)
        blocks = self._blocks(shape, p, job.isa)
        units = sum(block.count for block in blocks) if job.cut else 0
        vectors = split_lanes(shape.ic, job.isa, p.lanes)
        depth = sum(v.lanes for v in vectors)
        pitch = _pitch(p.batch * depth)
        tile = self._tile(shape)
        sums = self._sums(p, tile, blocks)
        sums_at = tile.positions * pitch
        kept_at = sums_at + tile.positions * sums.position
        residual = {k: job.inputs[k] for k in ep.tensors}
        code = render(
            "ops/conv/winograd_oc.c.j2",
            s=replace(shape, sh=1, sw=1),  # tiles are neighbours, whatever their inputs are
            held=held_weights(job.isa),
            by_scalars=job.isa.has("mve"),
            padded=depth > shape.ic,
            in_turns=pixels_in_turns(job.isa, p.broadcast),
            in_order=ChannelsInOrder(job.isa, p.broadcast, depth),
            fresh=p.broadcast not in ("lane", *ORDERS) and (p.unroll == 0 or shape.ic <= p.unroll),
            p=p,
            tile=tile,
            image=job.inputs[0],
            x=SimpleNamespace(col=depth),
            y=job.output,
            across=self._tiling(shape).across,
            batch=p.batch,
            pitch=pitch,
            sums=sums,
            kept_at=kept_at,
            blocks=blocks,
            block_at=lambda block: block.weight // (tile.positions * shape.ic),
            fetch_of=lambda block: self._fetch(p, job.isa, shape, block),
            many=lambda block: shape.ic * len(block.vecs) > HELD_WEIGHTS,
            into=self._into(job, p, vectors, pitch),
            back=self._back(job, p, shape, ep, sums),
            residual=residual,
            symbol=job.symbol,
            signature=signature(job, scratch=True, band=True, units=units > 0),
            units=units,
            unit_of=lambda block: sum(b.count for b in blocks if b.channel < block.channel),
            describe=describe(job),
        )
        if p.broadcast in ORDERS:
            code = in_order(code, job.isa.registers, beside=p.broadcast == BESIDE)
        floats = kept_at + KEPT * max(v.lanes for v in (*vectors, *blocks[0].vecs))
        constants = (self._weights(job, p, shape, blocks), padded_bias(job, shape), *ep.constants)
        return Kernel(
            code, constants, 4 * floats, tile.rows.m, needs_math=ep.needs_math, units=units
        )

    def weight_bytes(self, shape: ConvShape) -> float:
        """Bytes of the transformed weights, without padding."""
        return 4.0 * self._tile(shape).positions * shape.ic * shape.oc

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        shape = sizes(graph, step)
        kept = own_bytes(graph, step) - 4.0 * shape.taps * shape.ic * shape.oc
        return kept + self.weight_bytes(shape)

    def tiles_per_row(self, shape: ConvShape) -> int:
        """Tiles side by side."""
        return self._tiling(shape).across.tiles

    def weights(self, job: Job) -> ConstArray:
        p, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        return self._weights(job, p, shape, self._blocks(shape, p, job.isa))

    def tile(self, graph: Graph, step: Step) -> Tile:
        """The algorithm of a step's tiles."""
        return self._tile(sizes(graph, step))

    def emulate(self, graph: Graph, step: Step, inputs: Sequence[RefArray]) -> RefArray:
        """The step's output, with the convolution rounded as this schedule does."""
        return emulate(self.tile(graph, step), graph, step, inputs)

    def _words(self, shape: ConvShape, isa: Isa, lanes: int, tile: tuple[int, int]) -> list[str]:
        """The ways in which an input can reach all lanes."""
        three = self.three_by_lane and shape.ic == THREE and isa.multiplies_by_lane(lanes)
        return tile_words(shape, isa, lanes, tile) + ["lane"] * three

    def _orders(self, shape: ConvShape, batch: int, *, single: bool) -> tuple[str, ...]:
        """What may be the outer loop: also positions, where a batch's inputs leave the second-level
        cache.

        A single block of channels has only one order.
        """
        tile = self._tile(shape)
        far = 4 * tile.positions * shape.ic * batch > L2_BYTES
        return ("blocks", "positions") if far and not single else ("blocks",)

    def _tile(self, shape: ConvShape) -> Tile:
        return self._tiling(shape).tile

    def _tiling(self, shape: ConvShape) -> Tiling:
        return Tiling(shape, self.points, self.at_points)

    def _batches(self, shape: ConvShape, mr: int) -> list[int]:
        """Sensible numbers of tiles at a time, multiples of `mr`."""
        positions = self._tile(shape).positions
        each = 4 * positions * shape.ic * mr
        groups = -(-self._tiling(shape).count // mr)
        far = 4 * positions * shape.ic * shape.oc > FAR_BYTES
        limits = (*BATCH_BYTES, *FAR_BATCH_BYTES) if far else BATCH_BYTES
        return sorted({mr * even_size(groups, max(limit // each, 1)) for limit in limits})

    def _blocks(self, shape: ConvShape, p: Tunables, isa: Isa) -> tuple[VectorBlock, ...]:
        per_lane = self._tile(shape).positions * shape.ic
        return cut_channels(shape.oc, per_lane, isa, p.lanes, p.nr)

    def _sums(self, p: Tunables, tile: Tile, blocks: Sequence[VectorBlock]) -> Sums:
        if p.outside == "positions":
            row = sum(block.width * block.count for block in blocks)
            return Sums(row, p.batch, _pitch(p.batch * row))
        return Sums(0, p.batch, p.batch * max(block.width for block in blocks))

    def _weights(
        self, job: Job, p: Tunables, shape: ConvShape, blocks: Sequence[VectorBlock]
    ) -> ConstArray:
        u = self._tile(shape).weights(job.constant(shape.weight))[None]
        name, way = f"{job.symbol}_w", p.broadcast
        if p.outside == "blocks":
            packed = pack_panels(u, blocks, way, job.isa)
            return ConstArray(name, packed, "weights [block][position][ic][lanes]")
        each = [pack_panels(u[:, e : e + 1], blocks, way, job.isa) for e in range(u.shape[1])]
        return ConstArray(name, np.concatenate(each), "weights [position][block][ic][lanes]")

    def _fetch(self, p: Tunables, isa: Isa, shape: ConvShape, block: VectorBlock) -> Fetch | None:
        """How the tiles of one panel prefetch the next panel.

        None if the weights stay in the second-level cache, or if tiles have no loop over input
        channels in which to prefetch.
        """
        unroll, tiles = p.unroll, p.batch // p.mr
        if self.weight_bytes(shape) <= near_bytes(isa) or not 0 < unroll < shape.ic:
            return None
        panel, passes = 4 * shape.ic * block.width, shape.ic // unroll
        size = _round_up(panel, LINE * tiles * passes)  # as many lines with each pass
        return Fetch.spread("we", panel, size, tiles, passes)

    def _into(self, job: Job, p: Tunables, vectors: Sequence[Vec], pitch: int) -> list[Into]:
        """The input transforms by runs of equal vectors."""
        x = job.inputs[0]
        shape = sizes(job.graph, job.step)
        tile, gap = self._tile(shape), self._tiling(shape).across.gap
        found = []
        for loop in vector_loops(vectors):
            vec = loop.vec

            def load(i: int, j: int, vec: Vec = vec) -> str:
                whole = vec.lanes - vec.valid <= x.slack
                at = f"xp{offset(i * x.row + j * gap * x.col)}"
                return f"{vec.t}_load({at})" if whole else vec.load(at)

            def store(a: int, b: int, value: str, vec: Vec = vec) -> list[str]:
                place = (a * tile.columns.tile + b) * pitch
                return [f"{vec.t}_store(vp{offset(place)}, {value});"]

            code = _transforms(job, p, tile, vec).transform(
                tile.rows.bt, load, store, tile.columns.bt
            )
            found.append(Into(vec.start, vec.packed, vec.lanes, loop.count, code))
        return found

    def _back(
        self, job: Job, p: Tunables, shape: ConvShape, ep: epilogues.Epilogue, sums: Sums
    ) -> Callable[[VectorBlock, Vec], list[list[str]]]:
        """The output transform of one vector of a block, with the bias."""
        y, tile, across = job.output, self._tile(shape), self._tiling(shape).across
        mh, ones = tile.rows.m, (tile.rows.ones, tile.columns.ones)

        def code(block: VectorBlock, vec: Vec) -> list[list[str]]:
            def load(a: int, b: int) -> str:
                place = (a * tile.columns.tile + b) * sums.position_of(block)
                text = f"{vec.t}_load(ap{offset(place)})"
                return f"{vec.t}_add({text}, bias)" if (a, b) == ones else text

            def store(i: int, j: int, value: str) -> list[str]:
                value = value if None not in ones else f"{vec.t}_add({value}, bias)"

                def residual(k: int) -> str:
                    layout = job.inputs[k]
                    place = i * layout.row + j * across.gap * layout.col
                    return f"r{k}{offset(place + vec.start)}"

                lines = ep.apply(vec, "r", f"(oc{offset(vec.start)})", residual)
                end = vec.store(
                    f"yp{offset(i * y.row + j * across.gap * y.col)}", "r" if lines else value
                )
                body = [f"{vec.t} r = {value};", *lines, end] if lines else [end]
                guards = [f"{i} < rows"] if shape.oh % mh and i else []
                guards += [f"{j} < width"] if across.partial and j else []
                if not guards:
                    return ["{ " + " ".join(body) + " }"] if lines else body
                return [f"if ({' && '.join(guards)}) {{ {' '.join(body)} }}"]

            return _transforms(job, p, tile, vec).transform(
                tile.rows.at, load, store, tile.columns.at
            )

        return code


@schedule
@dataclass(frozen=True)
class ConvWinogradOc(WinogradOc):
    """Up to F(7-k, k): six products per axis, for 3x3 a quarter of the direct form's, with ten
    times the error.
    """

    id = "conv.winograd_oc"
    inexact = True
    points = 6


@schedule
@dataclass(frozen=True)
class ConvWinogradOcF2(WinogradOc):
    """F(5-k, k): four products per axis, for 3x3 four ninths of the direct form's, and as exact."""

    id = "conv.winograd_oc_f2"
    points = 4


def _transforms(job: Job, p: Tunables, tile: Tile, vec: Vec) -> TileCode:
    return TileCode(tile.rows, job, Span(1, vec.lanes), 1, p.group)


def _round_up(total: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-total // step) * step


def _pitch(floats: int) -> int:
    """Floats from one position to the next: not a large power of two, or all would share cache
    sets.
    """
    return floats + 16 if floats % 256 == 0 else floats
