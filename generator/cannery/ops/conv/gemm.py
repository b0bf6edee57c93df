"""Convolution as a matrix product: implicit GEMM, channels last in and out.

A panel of output pixels times the weights [kh*kw*ic][oc]. For a 1x1 window, the rows of the panel
are the pixels themselves. Otherwise they are gathered into scratch memory (im2col), a block of KC
columns at a time: whole rows of the window, whole taps, or a slice of the channels of one tap. The
panel's block stays in the second-level cache while all blocks of output channels pass over it; a
block of weights stays in the first-level cache. These are the loops of Goto & van de Geijn,
"Anatomy of High-Performance Matrix Multiplication", 2008. Partial sums wait in the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.layouts import Halo, Layout
from cannery.ops.conv.geometry import ConvShape, conv_shape, padded_bias, sizes
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import balanced, even_size
from cannery.ops.shared.dual import ORDERS
from cannery.ops.shared.fetch import Fetch
from cannery.ops.shared.function import describe, parameter_names, residual_pointer, signature
from cannery.ops.shared.gemm import Gemm, VectorBlock
from cannery.ops.shared.sums import block_steps
from cannery.ops.shared.tiles import room_to_hold, tile_registers
from cannery.schedule.cost import reread_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Reduction lengths for which a block of weights fits in the first-level cache.
DEPTHS = (256, 512)
#: Sizes of a panel's block, in bytes.
PANELS = (32 * 1024, 128 * 1024, 512 * 1024)
#: How many candidates a step has: the cheapest by the cost model.
MAX_CANDIDATES = 48
#: Extra elements between rows of a panel, so that rows do not share cache sets.
PAD = 16

#: Steps of k in line: in orders of `dual.py` the most that divide the fours of k, else the last.
UNROLL = (16, 8, 4)


@dataclass(frozen=True)
class Cut:
    """How the reduction is cut: `runs` runs of `length` contiguous inputs, `per_block` at a time.

    `chunks` > 1: a run is a slice of the channels of one tap. `rows`: a run is a whole row of the
    window.
    """

    runs: int
    length: int
    per_block: int
    chunks: int
    rows: bool

    @property
    def k(self) -> int:
        """Length of one block."""
        return self.per_block * self.length

    @property
    def blocks(self) -> int:
        """Blocks of the whole reduction."""
        return self.runs * self.chunks // self.per_block

    @property
    def pitch(self) -> int:
        """Distance between the rows of a gathered panel."""
        return -(-self.k // 16) * 16 + PAD


@dataclass(frozen=True)
class Panels:
    """How the pixels are cut: panels of `panel` pixels, or `rows` rows, in tiles of `mr` pixels.

    `flat`: the pixels of all rows form one row, whose last tile has `rest`. Otherwise each row has
    `tiles`. `across` counts the tiles of an image.
    """

    flat: bool
    mr: int
    rest: int
    tiles: list[tuple[int, int, int]]
    panel: int
    rows: int
    across: int


@dataclass(frozen=True)
class Tunables:
    """A tile of `mr` pixels x `nr` vectors, `kc` steps of the sum at a time; `panel` is in
    bytes.
    """

    lanes: int
    mr: int
    nr: int
    kc: int
    broadcast: str
    panel: int
    outside: str


@schedule
@dataclass(frozen=True)
class ConvGemm(Schedule):
    """See the module docstring."""

    id = "conv.gemm"
    version = 2
    halves = True
    movable = True
    fetches = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        shape = conv_shape(graph, step)
        if shape is None:
            return "not a 2D convolution with constant weights"
        if shape.depthwise:
            return "depthwise"
        return epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        found = [as_params(p) for p in dict.fromkeys(_space(graph, sizes(graph, step), isa))]
        cycles = [self.cost(graph, step, params, isa).cycles for params in found]
        kept = sorted(range(len(found)), key=cycles.__getitem__)[:MAX_CANDIDATES]
        return [found[k] for k in sorted(kept)]

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, shape = typed(Tunables, params), sizes(graph, step)
        cut = _cut(shape, p.kc, contiguous=True)
        pixels = shape.oh * shape.ow
        blocks = _blocks(shape, p, isa)
        tiles = balanced(pixels, p.mr)
        g = _gemm(p, cut.k, cut.pitch, isa)
        cycles = gemm.product_cycles(isa, g, tiles, blocks) * cut.blocks
        cycles += _traffic(isa, shape, p, cut, blocks)
        if cut.blocks > 1:
            cycles += _partial_sums(shape, cut, tiles, blocks, isa)
        if not _plain(shape):
            run = cut.length / isa.widest + 3.0
            cycles += pixels * cut.blocks * (cut.per_block * run + 4.0) * 1.5
        return Estimate(cycles * shape.group, gemm.code_size(g, tiles, blocks))

    def kernel(self, job: Job) -> Kernel:
        p, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        x, y = job.inputs[0], job.output
        blocks = _blocks(shape, p, job.isa)
        mr = even_size(shape.oh * shape.ow, p.mr)
        busy = tile_registers(mr, [block.vecs for block in blocks])
        ep = epilogues.build(job, job.step.anchor.output, busy=busy)
        plain = _plain(shape)
        cut = _cut(shape, p.kc, contiguous=x.col == shape.ic)
        residuals = [job.inputs[k] for k in ep.tensors]
        flat = _flat(shape, (*([x] if plain else []), y, *residuals), plain=plain)
        panels = _panels_of(shape, p, cut, mr, flat=flat)
        g = _gemm(p, cut.k, shape.sw * x.col if plain else cut.pitch, job.isa)
        scratch = 0 if plain else 4 * panels.panel * cut.pitch
        taps = _tap_offsets(shape, cut, x)
        many = not plain and cut.runs > 1
        weights, bias = _constants(job, shape, p, blocks, cut.k)
        count = sum(block.count for block in blocks)
        cells = panels.across * count * cut.blocks * shape.group
        units = count if job.cut else 0
        code = render(
            "ops/conv/gemm.c.j2",
            describe=describe(job),
            signature=signature(job, scratch=not plain, band=True, units=units > 0),
            units=units,
            unit_of=lambda block: sum(b.count for b in blocks if b.channel < block.channel),
            symbol=job.symbol,
            s=shape,
            x=x,
            y=y,
            inputs=job.inputs,
            names=parameter_names(job),
            ep=ep,
            residual_at=residual_pointer(job),
            late=epilogues.crowded(job.isa, busy + len(blocks[0].vecs)),
            g=g,
            cut=cut,
            blocks=blocks,
            first=lambda block: [f"{v.t}_load(bk{offset(v.start)})" for v in block.vecs],
            zeros=lambda block: [f"{v.t}_zero()" for v in block.vecs],
            columns=shape.oc // shape.group,
            channels=shape.ic // shape.group,
            weights_per_group=sum(b.width * b.count for b in blocks) * cut.k * cut.blocks,
            plain=plain,
            **vars(panels),
            rows_outside=p.outside == "rows",
            taps=taps if many else taps[:1],
            many=many,
            copies=_copies(cut.length, job.isa),
            fetch=Fetch.of(job, weights, cells, g.loops),
        )
        offsets = ConstArray(f"{job.symbol}_taps", np.array(taps, np.int32), "input offsets")
        constants = (weights, bias, *ep.constants, *((offsets,) if many else ()))
        band = mr // gcd(mr, shape.ow) if flat else 1
        return Kernel(code, constants, scratch, band, ep.needs_math, units=units)

    def weights(self, job: Job) -> ConstArray:
        p, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        contiguous = job.inputs[0].col == shape.ic
        depth = _cut(shape, p.kc, contiguous=contiguous).k
        return _constants(job, shape, p, _blocks(shape, p, job.isa), depth)[0]


def _plain(shape: ConvShape) -> bool:
    """Whether a window is one pixel, so that nothing is gathered."""
    return shape.taps == 1


def _flat(shape: ConvShape, layouts: Sequence[Layout], *, plain: bool) -> bool:
    """Whether the pixels of all rows form one row, in all these layouts."""
    if plain and (shape.sh, shape.sw) != (1, 1):
        return False
    return all(layout.row == shape.ow * layout.col for layout in layouts)


def _cut(shape: ConvShape, kc: int, *, contiguous: bool) -> Cut:
    """The cut whose blocks are as long as `kc` allows, all of equal length."""
    channels = shape.ic // shape.group
    if contiguous and shape.group == 1 and shape.dw == 1 and shape.kw * channels <= kc:
        runs, length, rows = shape.kh, shape.kw * channels, True
    else:
        runs, length, rows = shape.taps, channels, False
    if length > kc:
        chunks = next(c for c in range(1, length + 1) if length % c == 0 and length // c <= kc)
        if length // chunks >= kc // 4:
            return Cut(runs, length // chunks, 1, chunks, rows)
    per_block = max(n for n in range(1, runs + 1) if runs % n == 0 and (n == 1 or n * length <= kc))
    return Cut(runs, length, per_block, 1, rows)


def _depths(shape: ConvShape) -> list[int]:
    """The block lengths to try: those near the wanted ones, and the whole reduction."""
    whole = shape.taps * shape.ic // shape.group
    found = [_cut(shape, kc, contiguous=True).k for kc in DEPTHS]
    return sorted(
        {k for k in found if k >= 64 or k == whole} | ({whole} if whole <= 4096 else set())
    )


def _panels(shape: ConvShape, kc: int) -> list[int]:
    """The panel sizes to try, in bytes, up to the first that holds everything."""
    whole = 4 * shape.oh * shape.ow * kc
    enough = next((k for k, size in enumerate(PANELS) if size >= whole), len(PANELS) - 1)
    return list(PANELS[: enough + 1])


def _space(graph: Graph, shape: ConvShape, isa: Isa) -> Iterator[Tunables]:
    """All combinations."""
    columns = shape.oc // shape.group
    for lanes in gemm.widths(columns, isa):
        vectors = -(-columns // lanes)
        for mr, nr in gemm.TILES.get(isa.registers, gemm.TILES[16]):
            tile = (lanes, min(mr, shape.oh * shape.ow), min(nr, vectors))
            for kc in _depths(shape):
                whole = gemm.whole_tile(graph, *tile[1:])
                ways = gemm.broadcasts(isa, lanes, kc, 1, tile=whole)
                for way, panel in product(ways, _panels(shape, kc)):
                    for outside in ("blocks", "rows"):
                        yield Tunables(*tile, kc, way, panel, outside)
        yield from _sliding(shape, isa, lanes)


def _sliding(shape: ConvShape, isa: Isa, lanes: int) -> Iterator[Tunables]:
    """Those with inputs that slide."""
    pixels, vectors = shape.oh * shape.ow, -(-shape.oc // shape.group // lanes)
    for nr, kc in product(gemm.SLIDING_VECTORS, _depths(shape)):
        if gemm.slides(isa, lanes, kc):
            for panel, outside in product(_panels(shape, kc), ("blocks", "rows")):
                yield Tunables(lanes, min(2, pixels), min(nr, vectors), kc, "slide", panel, outside)


def _traffic(
    isa: Isa, shape: ConvShape, p: Tunables, cut: Cut, blocks: Sequence[VectorBlock]
) -> float:
    """Cycles of re-reading what the first-level cache does not hold."""
    pixels = shape.oh * shape.ow
    width = sum(b.width * b.count for b in blocks)
    block = 4.0 * cut.k * max(b.width for b in blocks)
    tiles = -(-pixels // p.mr) * cut.blocks
    at_once = _pixels(shape, even_size(pixels, p.mr), p, cut)
    panel = 4.0 * min(pixels, at_once) * cut.k
    rounds = cut.blocks * -(-pixels // at_once)
    groups = sum(b.count for b in blocks)
    weights = 4.0 * width * cut.k
    if p.outside == "rows":
        return reread_cycles(isa, weights, tiles) + reread_cycles(
            isa, weights * cut.blocks, rounds / cut.blocks
        )
    l1 = isa.core.caches.l1_bytes
    near = block if block + 8.0 * cut.k * p.mr <= l1 else max(block, l1 + 1.0)
    again = reread_cycles(isa, near, tiles * groups)
    again += gemm.ROWS_AGAIN * reread_cycles(isa, panel, rounds * (groups - 1))
    return again + reread_cycles(isa, weights * cut.blocks, rounds / cut.blocks)


def _partial_sums(
    shape: ConvShape,
    cut: Cut,
    tiles: Sequence[tuple[int, int, int]],
    blocks: Sequence[VectorBlock],
    isa: Isa,
) -> float:
    """Cycles of storing and loading accumulators; some compilers need registers to do so."""
    cycles = 0.0
    for mr, count, _ in tiles:
        for block in blocks:
            n = mr * len(block.vecs)
            spilled = max(n + len(block.vecs) + 4 - isa.registers, 0)
            each = 1.5 * n + spilled * 2.0 * cut.k / 4.0
            cycles += each * count * block.count
    return cycles * cut.blocks


def _pixels(shape: ConvShape, mr: int, p: Tunables, cut: Cut) -> int:
    """Pixels of a panel: whole tiles, in even panels. Each panel reads all weights."""
    tiles = -(-shape.oh * shape.ow // mr)
    most = max(1, p.panel // (4 * cut.k) // mr)
    return even_size(tiles, most + most // 4) * mr


def _panels_of(shape: ConvShape, p: Tunables, cut: Cut, mr: int, *, flat: bool) -> Panels:
    """The panels for tiles of `mr` pixels."""
    pixels, image = _pixels(shape, mr, p, cut), shape.oh * shape.ow
    rows = max(1, pixels // shape.ow)
    panel = pixels if flat else min(rows, shape.oh) * shape.ow
    tiles = balanced(shape.ow, mr)
    across = -(-image // mr) if flat else shape.oh * sum(n for _, n, _ in tiles)
    return Panels(flat, mr, image % panel % mr, tiles, panel, rows, across)


def _gemm(p: Tunables, k: int, a_row: int, isa: Isa) -> Gemm:
    unroll = UNROLL[-1]
    aside = block_steps(k // unroll, unroll, isa)
    if p.broadcast in ORDERS:
        unroll = next(n for n in UNROLL if k // 4 * 4 % n == 0)
        aside = 4 * aside // unroll
    turns, held = p.broadcast == "slide", room_to_hold(isa)
    return Gemm(
        k, a_row, 1, 0, unroll, 1, p.broadcast,
        aside=aside, turns=turns, held=held, registers=isa.registers, beside=isa.has("mve"),
    )  # fmt: skip


def _blocks(shape: ConvShape, p: Tunables, isa: Isa) -> tuple[VectorBlock, ...]:
    k = shape.taps * shape.ic // shape.group
    columns = shape.oc // shape.group
    return gemm.make_blocks(columns, isa, p.lanes, p.nr, k)


def _tap_offsets(shape: ConvShape, cut: Cut, x: Layout) -> list[int]:
    """Where each run begins, from the first element of a window."""
    rows = range(0, shape.kh * shape.dh, shape.dh)
    columns = [0] if cut.rows else range(0, shape.kw * shape.dw, shape.dw)
    return [r * x.row + c * x.col for r in rows for c in columns]


def _copies(length: int, isa: Isa) -> list[tuple[int, int, int]]:
    """(width, count, first) of the vectors that copy a run."""
    found = []
    at = 0
    for width in sorted(isa.lanes, reverse=True):
        count = (length - at) // width
        if count:
            found.append((width, count, at))
            at += count * width
    return found


def _constants(
    job: Job, shape: ConvShape, p: Tunables, blocks: Sequence[VectorBlock], depth: int
) -> tuple[ConstArray, ...]:
    """Weights as [group][block][kh*kw*ic][lanes], biases as [oc], zero-padded."""
    w = job.constant(shape.weight).reshape(-1, shape.oc)
    columns = shape.oc // shape.group
    slide = p.broadcast == "slide"
    rotate = depth if slide or p.broadcast == "rotate" else 0
    packed: list[NDArray[np.float32]] = [
        gemm.pack_blocks(w[:, k : k + columns], blocks, rotate=rotate, slide=slide)
        for k in range(0, shape.oc, columns)
    ]
    text = "weights [group][block][k][lanes]"
    return ConstArray(
        f"{job.symbol}_w", np.concatenate(packed), text, is_weights=True
    ), padded_bias(job, shape)
