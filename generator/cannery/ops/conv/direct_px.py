"""Direct convolution with pixels in the lanes, planar in and out.

A tile of P vectors of neighbouring pixels x C output channels stays in registers; each weight is
broadcast and serves P vectors, each input vector C channels. So no lane is lost whatever the number
of channels. Where input and output have the same row pitch (stride 1), the rows of a band are one
long row: the pad columns between them are computed like pixels and stored as the zeros that they
are. Else tiles of R rows go along the rows. Nothing outside an image and its halo is touched, the
last tile overlaps its neighbour.

`unroll`: kh (loop over the input channels, the window in line), kw (loop over the window's rows,
too) or all (no loop). `broadcast`: load1 (a scalar), splat (weights stored once per lane, for SSE)
or lane (NEON multiply by lane). `opaque` hides the input pointer from the compiler, see
CANNERY_OPAQUE_PTR: gcc then keeps no addresses in registers, and spills none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cannery.emit.environment import offset, render
from cannery.ir.graph import Graph
from cannery.layouts import Layout, Want, planar
from cannery.ops.conv.geometry import ConvShape, conv_shape
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.cover import Span, spans, tile_counts
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec
from cannery.schedule.cost import tile_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Tiles (P vectors, C channels) by the number of vector registers.
TILES = {
    8: ((2, 2), (1, 4), (1, 5), (1, 3), (2, 3)),
    16: ((2, 6), (3, 4), (2, 4), (4, 3), (3, 3), (1, 12), (6, 2), (1, 8)),
    32: ((3, 8), (5, 4), (2, 12), (3, 6), (4, 6), (6, 4), (2, 8), (1, 16)),
}

#: No candidate with more straight-line multiply-accumulates than this is tried (20 KB of code).
MAX_UNROLLED = 3000


@dataclass(frozen=True)
class Block:
    """`count` neighbouring groups of `n` output channels, from `channel` on."""

    n: int
    channel: int
    weight: int
    count: int


@dataclass(frozen=True)
class Load:
    """One load of a window's row at `at`, and the taps that its (even and odd) lanes are."""

    word: str
    at: int
    even: int | None
    odd: int | None = None


@schedule
@dataclass(frozen=True)
class ConvDirectPx(Schedule):
    """See the module's text."""

    id = "conv.direct_px"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        shape = conv_shape(graph, step)
        if shape is None:
            return "not a 2D convolution with constant weights"
        if shape.group != 1:
            return "grouped"
        return "" if epilogues.step_supports(step) else "epilogue not elementwise"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = _shape(graph, step)
        found: list[Params] = []
        for lanes in _widths(shape, isa):
            for p, c in TILES.get(isa.registers, TILES[16]):
                c = -(-shape.oc // -(-shape.oc // c))
                for p, rows in _splits(p, lanes, shape):
                    for unroll in ("kh", "kw", "all") if shape.kh > 1 else ("kh", "all"):
                        for broadcast in _broadcasts(shape, isa, lanes):
                            for opaque in (True, False):
                                found.append(
                                    dict(lanes=lanes, p=p, rows=rows, c=c, unroll=unroll,
                                         broadcast=broadcast, opaque=opaque)
                                )  # fmt: skip
        distinct = {self.label(p): p for p in found if _unrolled(shape, p, isa) <= MAX_UNROLLED}
        return list(distinct.values())

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        want = _want(_shape(graph, step))
        return (want, *(_output_want(_shape(graph, step)) for _ in step.inputs[1:]))

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (_output_want(_shape(graph, step)),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        shape = _shape(graph, step)
        rows = int(params["rows"])
        flat = _may_be_flat(shape)
        total = shape.oh * _pitch(shape) if flat else shape.ow
        tiles = _tiles(shape, params, isa, total, flat=flat)
        cycles = 0.0
        for span, count in tile_counts(total, tiles):
            vectors = span.vectors * (1 if flat else rows)
            for block in _blocks(shape, params):
                each = _tile_cost(shape, params, isa, vectors, block.n)
                cycles += count * block.count * each
            cycles += count * 6.0
        if not flat:
            cycles *= -(-shape.oh // rows)
        return Estimate(cycles, _unrolled(shape, params, isa) * 6.5)

    def kernel(self, job: Job) -> Kernel:
        shape = _shape(job.graph, job.step)
        ep = epilogues.build(job, job.step.anchor.output)
        x, y = job.inputs[0], job.output
        residual = {k: job.inputs[k] for k in ep.tensors}
        flat = is_flat(shape, x, y, list(residual.values()))
        pad = y.row - shape.ow if flat else 0
        total = shape.oh * y.row - pad if flat else shape.ow
        tiles = _tiles(shape, job.params, job.isa, total, flat=flat)
        rows = min(int(job.params["rows"]), shape.oh)
        blocks = _blocks(shape, job.params)
        constants = pack_weights(job, shape, blocks, tiles[0])
        if flat and pad:
            constants += (_mask(job.symbol, shape.ow, y.row, tiles[0].width),)
        code = render(
            "ops/conv/direct_px.c.j2",
            s=shape,
            p=job.params,
            x=x,
            y=y,
            flat=flat,
            pad=pad,
            tiles=tiles,
            row_counts=[1] if flat or rows == 1 else [rows, 1],
            blocks=blocks,
            loads=_loads(shape),
            panel=lambda n: _panel(n, job.params),
            ep=ep,
            residual=residual,
            tensor=_tensor(job),
            vec=lambda span: Vec(0, span.lanes, span.lanes, 0),
            symbol=job.symbol,
            signature=signature(job, band=True),
            describe=describe(job),
        )
        return Kernel(code, (*constants, *ep.constants), band=1, needs_math=ep.needs_math)


def is_flat(shape: ConvShape, x: Layout, y: Layout, residuals: Sequence[Layout]) -> bool:
    """Whether the rows of a band can be walked as one.

    Pixel y0 + q // pitch, q % pitch of every operand has to be q elements from the first, and the
    pad columns between the output's rows have to be its own halo.
    """
    if (shape.sh, shape.sw) != (1, 1) or any(z.row != y.row for z in (x, *residuals)):
        return False
    pad = y.row - shape.ow
    return pad == max(y.halo.left, y.halo.right)


def _shape(graph: Graph, step: Step) -> ConvShape:
    shape = conv_shape(graph, step)
    assert shape is not None
    return shape


def _want(shape: ConvShape) -> Want:
    return Want(planar.ORDER, shape.halo, shared_pitch=_may_be_flat(shape))


def _output_want(shape: ConvShape) -> Want:
    return Want(planar.ORDER, shared_pitch=_may_be_flat(shape))


def _may_be_flat(shape: ConvShape) -> bool:
    """Whether equal halos make equal pitches."""
    return (shape.sh, shape.sw) == (1, 1) and (shape.ih, shape.iw) == (shape.oh, shape.ow)


def _pitch(shape: ConvShape) -> int:
    return shape.ow + max(shape.halo.left, shape.halo.right)


def _widths(shape: ConvShape, isa: Isa) -> list[int]:
    """The widest vectors to try, widest first."""
    total = shape.oh * _pitch(shape) if _may_be_flat(shape) else shape.ow
    widths = [w for w in isa.lanes if w <= total]
    return widths[-2:][::-1] if widths[-1] > 4 else widths[-1:]


def _splits(vectors: int, lanes: int, shape: ConvShape) -> list[tuple[int, int]]:
    """(vectors in a row, rows) for a tile of so many vectors."""
    if _may_be_flat(shape):
        return [(vectors, 1)]
    splits = [(v, vectors // v) for v in range(1, vectors + 1) if vectors % v == 0]
    fitting = [(v, r) for v, r in splits if v * lanes <= shape.ow and r <= shape.oh]
    return fitting or [(1, 1)]


def _broadcasts(shape: ConvShape, isa: Isa, lanes: int) -> list[str]:
    """The forms other than load1 know one width only, so no row may be narrower."""
    if lanes != 4 or shape.ow < 4:
        return ["load1"]
    if isa.has("lane_fma"):
        return ["lane", "load1"]
    return ["load1"] if isa.has("fma") else ["splat", "load1"]


def _tiles(
    shape: ConvShape, params: Params, isa: Isa, total: int, *, flat: bool
) -> tuple[Span, ...]:
    """The tiles of a band (or, if not flat, of one row). Weights stored per lane fix the width."""
    least = shape.ow if flat else total
    tiles = spans(total, least, int(params["p"]), int(params["lanes"]), isa)
    if params["broadcast"] in ("splat", "lane"):
        return tuple(t for t in tiles if t.lanes == tiles[0].lanes)
    return tiles


def _panel(n: int, params: Params) -> int:
    """Stored weights of one tap for `n` output channels."""
    if params["broadcast"] == "lane":
        return -(-n // 4) * 4
    return n * int(params["lanes"]) if params["broadcast"] == "splat" else n


def _blocks(shape: ConvShape, params: Params) -> list[Block]:
    c = min(int(params["c"]), shape.oc)
    full, rest = divmod(shape.oc, c)
    blocks = [Block(c, 0, 0, full)]
    if rest:
        weight = full * shape.ic * shape.taps * _panel(c, params)
        blocks.append(Block(rest, full * c, weight, 1))
    return blocks


def _loads(shape: ConvShape) -> list[Load]:
    """How the taps of a window's row are read; never before the first nor behind the last one.

    With stride 2 two neighbouring taps are the even and the odd lanes of one load, and the last tap
    is the odd half of a load that begins one element before it.
    """
    taps = [kw * shape.dw for kw in range(shape.kw)]
    if shape.sw == 1:
        return [Load("load", at, k) for k, at in enumerate(taps)]
    if shape.sw != 2 or taps[-1] == 0:
        return [Load("stride", at, k) for k, at in enumerate(taps)]
    loads: list[Load] = []
    k = 0
    while k < len(taps):
        if k + 1 < len(taps) and taps[k + 1] == taps[k] + 1:
            loads.append(Load("load2", taps[k], k, k + 1))
            k += 1
        elif k + 1 < len(taps):
            loads.append(Load("load2", taps[k], k))
        else:
            loads.append(Load("load2", taps[k] - 1, None, k))
        k += 1
    return loads


def _unrolled(shape: ConvShape, params: Params, isa: Isa) -> int:
    """Vector multiply-accumulates in the straight-line bodies that run most."""
    body = {"kw": shape.kw, "kh": shape.taps, "all": shape.taps * shape.ic}[str(params["unroll"])]
    tile = int(params["p"]) * int(params["rows"])
    return tile * body * sum(block.n for block in _blocks(shape, params))


def _tile_cost(shape: ConvShape, params: Params, isa: Isa, vectors: int, n: int) -> float:
    """Cycles of one tile of `vectors` x `n` accumulators."""
    k = shape.taps * shape.ic
    loads = {"lane": n / 4, "splat": n, "load1": n}[str(params["broadcast"])] + vectors
    if params["broadcast"] == "load1" and isa.family == "x86" and not isa.has("fma"):
        loads += 0.5 * n
    if shape.sw > 1:
        loads += vectors * (1.0 if shape.sw == 2 and shape.kw > 1 else 0.5 * int(params["lanes"]))
    loops = {"kw": shape.kh * shape.ic, "kh": shape.ic, "all": 0}[str(params["unroll"])]
    return tile_cycles(isa, n, vectors, loads, k) + 1.5 * loops + 2.0 * vectors * n + 4.0


def pack_weights(
    job: Job, shape: ConvShape, blocks: Sequence[Block], span: Span
) -> tuple[ConstArray, ...]:
    """Weights as [block][ic][kh][kw][C], each repeated per lane if `splat`; biases as [oc]."""
    w = job.constant(shape.weight)
    panels: list[NDArray[np.float32]] = []
    for block in blocks:
        for k in range(block.count):
            first = block.channel + k * block.n
            panel = w[..., first : first + block.n].transpose(2, 0, 1, 3)
            if job.params["broadcast"] == "splat":
                panel = np.repeat(panel, span.lanes, axis=-1)
            width = _panel(block.n, job.params)
            padded = np.zeros((*panel.shape[:3], width), np.float32)
            padded[..., : panel.shape[-1]] = panel
            panels.append(padded.reshape(-1))
    bias = np.zeros(shape.oc, np.float32)
    if shape.bias:
        bias[:] = job.constant(shape.bias)
    return (
        ConstArray(f"{job.symbol}_w", np.concatenate(panels), "weights [block][ic][kh][kw][oc]"),
        ConstArray(f"{job.symbol}_b", bias, "bias [oc]"),
    )


def _mask(symbol: str, width: int, pitch: int, span: int) -> ConstArray:
    """All ones for pixels, zero for pad columns, from any column on for `span` elements."""
    column = np.arange(pitch + span) % pitch
    values = np.where(column < width, -1, 0).astype(np.int32)
    return ConstArray(f"{symbol}_m", values, f"pixels and pad columns of rows of {pitch}")


def _tensor(job: Job) -> Callable[[int, int, int], Callable[[int], str]]:
    """(row, column, channel) within the tile -> input index -> C pointer."""

    def at(row: int, column: int, channel: int) -> Callable[[int], str]:
        def pointer(k: int) -> str:
            layout = job.inputs[k]
            return f"r{k}p{offset(row * layout.row + column + channel * layout.channel)}"

        return pointer

    return at
