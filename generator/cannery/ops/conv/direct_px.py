"""Direct convolution with pixels in the lanes, planar in and out.

A tile of P vectors of neighbouring pixels x C output channels stays in registers; each weight is
broadcast and serves P vectors, each input vector serves C channels. So no lane is wasted, whatever
the number of channels. Where input and output have the same row pitch (stride 1), the rows of a
band are one long row: the pad columns between them are computed like pixels and stored as zeros.
Otherwise tiles of R rows go along the rows. The kernel touches nothing outside an image and its
halo: the last tile overlaps its neighbour.

`unroll`: kh (loop over the input channels, the window in line), kw (also over the window's rows),
none (also over its columns) or all (no loop). `broadcast`: see `panels`. `opaque` hides the input
pointer from the compiler, see CANNERY_OPAQUE_PTR: gcc then keeps no addresses in registers and does
not spill them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.layouts import Layout, Want, planar
from cannery.ops.conv.geometry import ConvShape, sizes, why_not_dense
from cannery.ops.conv.panels import (
    Panels,
    bias_array,
    broadcasts,
    periodic_mask,
    update_cycles,
)  # fmt: skip
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import even_size
from cannery.ops.shared.cover import Span, spans, tile_counts
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec
from cannery.ops.shared.sums import Aside, aside, block_steps
from cannery.schedule.cost import reread_cycles
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

#: Tiles (P vectors, C channels) by the number of vector registers, likeliest first.
TILES = {
    8: ((1, 4), (2, 2), (1, 5), (1, 3), (3, 1)),
    16: ((2, 6), (3, 4), (3, 3), (2, 4), (4, 3), (1, 12), (1, 8)),
    32: ((3, 8), (2, 12), (5, 4), (4, 6), (3, 6), (2, 8), (1, 16)),
}

#: How many tiles are tried for vectors that are not the widest.
NARROW_TILES = 3

#: Candidates with more straight-line multiply-accumulates than this (20 KB of code) are not tried.
MAX_UNROLLED = 3000


#: Which loops are unrolled, and whether the input pointer is hidden from the compiler.
LEVELS = (("kh", False), ("kh", True), ("kw", False), ("all", False), ("none", False))


@dataclass(frozen=True)
class Load:
    """One load of a window's row at `at`, and which taps its (even and odd) lanes are."""

    word: str
    at: int
    even: int | None
    odd: int | None = None


@dataclass(frozen=True)
class Tunables:
    """A tile of `rows` rows of `p` vectors of pixels x `c` channels; else see the module
    docstring.
    """

    lanes: int
    p: int
    rows: int
    c: int
    unroll: str
    broadcast: str
    opaque: bool


@schedule
@dataclass(frozen=True)
class ConvDirectPx(Schedule):
    """See the module docstring."""

    id = "conv.direct_px"
    version = 2
    halves = True
    movable = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        return why_not_dense(graph, step) or epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = sizes(graph, step)
        tiles = TILES.get(isa.registers, TILES[16])
        found = [
            Tunables(lanes, p, rows, even_size(shape.oc, c), unroll, broadcast, opaque)
            for number, lanes in enumerate(_widths(shape, isa))
            for vectors, c in tiles[: NARROW_TILES if number else None]
            for p, rows in _splits(vectors, lanes, shape)
            for broadcast in broadcasts(isa, lanes)
            for unroll, opaque in LEVELS
        ]
        sensible = [p for p in found if _is_sensible(shape, p)]
        small = [p for p in sensible if _unrolled(shape, p) <= MAX_UNROLLED]
        least = [p for p in found if p.unroll == "none"][:1]
        return [as_params(p) for p in dict.fromkeys(small or least)]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        want = _want(sizes(graph, step))
        return (want, *(_output_want(sizes(graph, step)) for _ in step.inputs[1:]))

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (_output_want(sizes(graph, step)),)

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        shape = sizes(graph, step)
        kept = own_bytes(graph, step) - 4.0 * shape.taps * shape.ic * shape.oc
        return kept + _panels(shape, typed(Tunables, params)).stored_bytes

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, shape = typed(Tunables, params), sizes(graph, step)
        flat = _may_be_flat(shape)
        total = shape.oh * _pitch(shape) if flat else shape.ow
        tiles = _tiles(shape, p, isa, total, flat=flat)
        cycles = 0.0
        for span, count in tile_counts(total, tiles):
            vectors = span.vectors * (1 if flat else p.rows)
            for block in _panels(shape, p).blocks:
                each = _tile_cost(shape, p, isa, vectors, block.n)
                cycles += count * block.count * each
            cycles += count * (6.0 + reread_cycles(isa, _panels(shape, p).bytes, 1.0))
        if not flat:
            cycles *= -(-shape.oh // p.rows)
        return Estimate(cycles, _unrolled(shape, p) * (8.0 if isa.has("fma") else 15.0))

    def kernel(self, job: Job) -> Kernel:
        p, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        tile = p.p * p.rows
        busy = tile * p.c + tile + 1
        ep = epilogues.build(job, job.step.anchor.output, busy=busy)
        x, y = job.inputs[0], job.output
        residual = {k: job.inputs[k] for k in ep.tensors}
        flat = is_flat(shape, x, y, list(residual.values()))
        pad = y.row - shape.ow if flat else 0
        total = shape.oh * y.row - pad if flat else shape.ow
        tiles = _tiles(shape, p, job.isa, total, flat=flat)
        rows = min(p.rows, shape.oh)
        panels = _panels(shape, p)
        constants = _constants(job, shape, panels, y.row + tiles[0].width if pad else 0)
        code = render(
            "ops/conv/direct_px.c.j2",
            s=shape,
            p=p,
            x=x,
            y=y,
            flat=flat,
            pad=pad,
            masked=pad > 0,
            tiles=tiles,
            row_counts=[1] if flat or rows == 1 else [rows, 1],
            panels=panels,
            loads=_loads(shape),
            put_aside=block_steps(shape.ic, shape.taps, job.isa),
            aside=_aside,
            numbered=lambda prefix, count: [f"{prefix}{k}" for k in range(count)],
            ep=ep,
            residual=residual,
            tensor=_tensor(job),
            vec=lambda span: Vec(0, span.lanes, span.lanes, 0),
            symbol=job.symbol,
            signature=signature(job, band=True),
            describe=describe(job),
        )
        return Kernel(code, (*constants, *ep.constants), band=1, needs_math=ep.needs_math)


def _aside(span: Span, rows: int, channels: int) -> Aside:
    """The sums of a tile."""
    vectors = range(rows * span.vectors)
    return aside((f"a{k}_{c}", span.lanes) for k in vectors for c in range(channels))


def is_flat(shape: ConvShape, x: Layout, y: Layout, residuals: Sequence[Layout]) -> bool:
    """Whether the rows of a band can be walked as one.

    In every operand, pixel (y0 + q // pitch, q % pitch) must be q elements from the first, and the
    pad columns between the output's rows must be its own halo.
    """
    if (shape.sh, shape.sw) != (1, 1) or any(z.row != y.row for z in (x, *residuals)):
        return False
    pad = y.row - shape.ow
    return pad == (max(y.halo.left, y.halo.right) if _may_be_flat(shape) else 0)


def _want(shape: ConvShape) -> Want:
    return Want(planar.ORDER, shape.halo, shared_pitch=_may_be_flat(shape))


def _output_want(shape: ConvShape) -> Want:
    return Want(planar.ORDER, shared_pitch=_may_be_flat(shape))


def _may_be_flat(shape: ConvShape) -> bool:
    """Whether equal halos give equal pitches."""
    return (shape.sh, shape.sw) == (1, 1) and (shape.ih, shape.iw) == (shape.oh, shape.ow)


def _pitch(shape: ConvShape) -> int:
    return shape.ow + max(shape.halo.left, shape.halo.right)


def _widths(shape: ConvShape, isa: Isa) -> list[int]:
    """The widest vectors to try, widest first."""
    total = shape.oh * _pitch(shape) if _may_be_flat(shape) else shape.ow
    widths = [w for w in isa.lanes if w <= total]
    return widths[-2:][::-1] if widths[-1] > 4 else widths[-1:]


def _splits(vectors: int, lanes: int, shape: ConvShape) -> list[tuple[int, int]]:
    """(vectors in a row, rows) for a tile of this many vectors."""
    if _may_be_flat(shape):
        return [(vectors, 1)]
    splits = [(v, vectors // v) for v in range(vectors, 0, -1) if vectors % v == 0]
    fitting = [(v, r) for v, r in splits if v * lanes <= shape.ow and r <= shape.oh]
    return [*fitting[:1], *fitting[-1:]] or [(1, 1)]


def _tiles(shape: ConvShape, p: Tunables, isa: Isa, total: int, *, flat: bool) -> tuple[Span, ...]:
    """The tiles of a band or, if not flat, of one row."""
    least = shape.ow if flat else total
    return spans(total, least, p.p, p.lanes, isa)


def _panels(shape: ConvShape, p: Tunables) -> Panels:
    k = shape.ic * shape.taps
    return Panels(shape.oc, p.c, k, p.broadcast, p.lanes)


def _loads(shape: ConvShape) -> list[Load]:
    """How the taps of a window's row are read; never before the first or after the last one.

    With stride 2, two neighbouring taps are the even and the odd lanes of one load, and the last
    tap is the odd half of a load that begins one element before it.
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


def _is_sensible(shape: ConvShape, p: Tunables) -> bool:
    """Whether a candidate differs from the others and could win."""
    if p.broadcast == "load1" and p.lanes == 4:
        return p.unroll == "kh" and not p.opaque
    return {
        "none": shape.kw > 7,
        "kw": shape.kh > 1,
        "kh": shape.taps <= 81,
        "all": shape.ic * shape.taps <= 128,
    }[p.unroll]


def _unrolled(shape: ConvShape, p: Tunables) -> int:
    """Vector multiply-accumulates in the straight-line bodies that run most often."""
    taps = {"none": 1, "kw": shape.kw, "kh": shape.taps, "all": shape.taps * shape.ic}
    tile = p.p * p.rows
    blocks = _panels(shape, p).blocks
    return tile * taps[p.unroll] * sum(block.n for block in blocks)


def _tile_cost(shape: ConvShape, p: Tunables, isa: Isa, vectors: int, n: int) -> float:
    """Cycles of one tile of `vectors` x `n` accumulators."""
    lanes, unroll = p.lanes, p.unroll
    load = isa.rates(lanes).unaligned
    if isa.registers == 8:
        load = 4.5  # CPUs with so few registers load an unaligned vector in halves
    if shape.sw > 1:
        load = 2.0 if shape.sw == 2 and shape.kw > 1 else 0.5 * lanes
    pairs = shape.sw == 2 and shape.kw > 1
    update = update_cycles(isa, _panels(shape, p), n, vectors, load, pairs=pairs)
    update = max(update, isa.rates(lanes).latency)
    k = shape.taps * shape.ic
    rounds = {"none": k, "kw": shape.kh * shape.ic, "kh": shape.ic, "all": 0}[unroll]
    slower = {"all": 1.05, "kw": 1.15 if isa.registers == 8 else 1.0}.get(unroll, 1.0)
    return slower * k * update + 1.0 * rounds + 2.0 * vectors * n + 4.0


def _constants(job: Job, shape: ConvShape, panels: Panels, mask: int) -> tuple[ConstArray, ...]:
    """Weights as [block][ic][kh][kw][n], biases, and a mask of `mask` elements (0: none)."""
    weights = job.constant(shape.weight).transpose(2, 0, 1, 3).reshape(panels.k, shape.oc)
    bias = job.constant(shape.bias) if shape.bias else None
    found = (
        ConstArray(
            f"{job.symbol}_w",
            panels.pack(weights),
            "weights [block][ic][kh][kw][oc]",
            is_weights=True,
        ),
        bias_array(job.symbol, bias, shape.oc),
    )
    if not mask:
        return found
    pitch = job.output.row
    values = periodic_mask([column < shape.ow for column in range(pitch)], mask)
    return (*found, ConstArray(f"{job.symbol}_m", values, f"{shape.ow} pixels of {pitch} cells"))


def _tensor(job: Job) -> Callable[[int, int, int], Callable[[int], str]]:
    """(row, column, channel) within the tile -> input index -> C pointer."""

    def at(row: int, column: int, channel: int) -> Callable[[int], str]:
        def pointer(k: int) -> str:
            layout = job.inputs[k]
            return f"r{k}p{offset(row * layout.row + column + channel * layout.channel)}"

        return pointer

    return at
