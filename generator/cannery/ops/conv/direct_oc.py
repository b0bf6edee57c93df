"""Direct convolution with output channels in the lanes, channels last in and out.

A tile of MR pixels x NR vectors of output channels stays in registers while the kernel walks the
window. Each weight vector serves MR pixels, each broadcast input NR vectors. `unroll` says which
loops are left: none (kh, kw, ic), ic (kh, kw), kw (kh), kh (all in line); these are the levels of
Urbann et al., "A C Code Generator for Fast Inference and Simple Deployment of CNNs" (NNCG, 2020).
`opaque` hides the input pointer from the compiler at every tap, so that it does not keep inputs in
registers for the next tap. `broadcast` is how an input reaches all lanes: set1 (from memory),
rotate (four channels loaded once, rotated against weights stored in rotated order: Thielke &
Hasselbring, "A JIT Compiler for Neural Network Inference", 2019, eq. 3), slide (four channels from
each one on, loaded as they are; only those that go on with the first channels are shuffled), lane
(NEON multiply by lane) or pairs (two at a time, see `pairs`).

`joined` is for instruction sets that do not promise vectors, on 64-bit processors, which all have
them: a scalar tile in a form that compilers turn into vectors of four.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.layouts import Halo
from cannery.ops.conv.geometry import ConvShape, sizes, why_not_dense
from cannery.ops.conv.pairs import paired, worth_pairing
from cannery.ops.conv.weight_panels import cut_channels, pack_weights
from cannery.ops.shared import dual, gemm
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.fetch import Fetch
from cannery.ops.shared.function import describe, residual_pointer, signature
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import split_lanes
from cannery.ops.shared.sums import Aside, aside, block_steps, even_steps
from cannery.ops.shared.tiles import room_to_hold, tile_registers
from cannery.schedule.cost import (
    broadcast_work,
    early_inputs,
    mac_bytes,
    reread_cycles,
    tile_cycles,
)
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Tiles (MR pixels, NR vectors) by the number of vector registers.
TILES = {
    8: ((1, 3), (2, 2), (1, 4), (3, 1), (4, 1), (6, 1), (1, 6)),
    16: ((2, 3), (2, 4), (6, 2), (4, 2), (3, 3), (4, 3), (8, 1), (12, 1), (1, 8)),
    32: (
        (12, 2),
        (8, 2),
        (14, 2),
        (5, 4),
        (4, 4),
        (6, 4),
        (4, 6),
        (16, 1),
        (8, 1),
        (24, 1),
        (8, 3),
    ),
}

#: More tiles for targets without FMA. Compared with (1, 5), 1x1 layers of 20 channels take 6 % less
#: time with gcc and 2 % more with clang. With clang, (2, 6) takes 12 % more time than (1, 6).
PLAIN_TILES = {16: ((2, 5),)}

#: Tiles (pixels, vectors) for `slide`: with one pixel, processors would load more than they can.
SLIDING_TILES = ((2, 3), (2, 4), (2, 5), (2, 6), (3, 3), (4, 2))

#: At most this many multiply-adds of such a tile in line (12 KB): 768 reach 93 % of the peak
#: of a Zen 4, 864 67 %, or 85 % in a loop.
MAX_SLIDING_IN_LINE = 800

#: Tiles of scalars that compilers turn into vectors of four neighbouring channels.
JOINED_TILES = ((4, 8), (2, 16), (3, 12), (1, 20), (8, 4), (1, 24))

#: At most this many inputs of a pixel in line: longer code is fetched more slowly than it runs.
MAX_JOINED_IN_LINE = 16

#: Scalars per vector.
JOINED = 4

#: Candidates with more straight-line multiply-accumulates than this (about 20 KB of code) are not
#: tried.
MAX_UNROLLED = 3000

#: More vectors of weights than this do not stay in registers from tile to tile.
HELD_WEIGHTS = 8

#: More inputs than this do not stay in registers from one block of channels to the next.
HELD_INPUTS = 8


@dataclass(frozen=True)
class Tunables:
    """A tile of `mr` pixels x `nr` vectors, none wider than `lanes`; else see the module
    docstring.
    """

    lanes: int
    mr: int
    nr: int
    unroll: str
    broadcast: str
    joined: bool = False
    opaque: bool = False

    def registers(self, vectors: int) -> int:
        """The registers that this many neighbouring vectors of a pixel take."""
        return sum(divmod(vectors, JOINED)) if self.joined else vectors

    def blocks(self, shape: ConvShape, isa: Isa) -> tuple[VectorBlock, ...]:
        """Groups of NR vectors; neighbouring groups of the same shape become one loop."""
        return cut_channels(shape.oc, shape.ic * shape.taps, isa, self.lanes, self.nr)

    def statements(self, multiply_adds: int) -> int:
        """The number that MAX_UNROLLED bounds; compilers take longer over scalars that they
        join.
        """
        return multiply_adds * (3 if self.joined else 2) // 2


@schedule
@dataclass(frozen=True)
class ConvDirectOc(Schedule):
    """See the module docstring."""

    id = "conv.direct_oc"
    version = 4
    halves = True
    movable = True
    fetches = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        return why_not_dense(graph, step) or epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = sizes(graph, step)
        found: list[Tunables] = []
        if can_join(shape, isa):
            found += [
                Tunables(1, min(mr, shape.ow), min(nr, shape.oc), unroll, "set1", joined=True)
                for mr, nr in JOINED_TILES
                for unroll in _joined_levels(shape)
            ]
        for lanes in vector_widths(shape.oc, isa):
            vectors = len(split_lanes(shape.oc, isa, lanes))
            for mr, nr in register_tiles(isa):
                tile = (min(mr, shape.ow), min(nr, vectors))
                for unroll in _levels(shape):
                    for broadcast in (
                        *broadcast_words(shape, isa, lanes, gemm.whole_tile(graph, *tile)),
                        *_pairs(shape, isa, lanes),
                    ):
                        found.append(Tunables(lanes, *tile, unroll, broadcast))
                        if _taps_share(shape, found[-1]):
                            found.append(replace(found[-1], opaque=True))
            if gemm.slides(isa, lanes, shape.ic):
                found += _sliding(shape, lanes, vectors)
        few = [p for p in found if p.statements(_unrolled(shape, p, isa)) <= MAX_UNROLLED]
        return [as_params(p) for p in dict.fromkeys(few)]

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, shape = typed(Tunables, params), sizes(graph, step)
        mr, nr, blocks = p.mr, p.nr, p.blocks(shape, isa)
        vectors = split_lanes(shape.oc, isa, p.lanes)
        k = shape.taps * shape.ic
        loads, work = broadcast_work(isa, p.broadcast)
        shared = _taps_share(shape, p) and not p.opaque
        cycles = 0.0
        for pixels, tiles in pixel_runs(shape.ow, mr):
            for block in blocks:
                n = p.registers(len(block.vecs))
                held = pixels if shared else 0
                forms = len({v.lanes for v in block.vecs})  # each width needs its own broadcast
                if p.joined:
                    work = 1.0
                    cycles += tiles * block.count * pixels * 2.0 * n
                inputs = forms * pixels * (_reused(shape, pixels, n, isa) if shared else 1.0)
                reads = inputs * loads + n
                halves = _halves(block, p, isa)
                if halves:  # half a multiply-add per input, but a register each throughout
                    held += (pixels + 1) * halves
                    reads -= 0.5 * halves * pixels
                tile = tile_cycles(
                    isa, pixels, n - 0.5 * halves, reads, k, inputs * work, held,
                    early_inputs(isa, p.broadcast, pixels), 2 * p.lanes if halves else p.lanes,
                    broadcast=p.broadcast,
                )  # fmt: skip
                each = tile + 6.0 + 2.0 * halves * pixels
                cycles += tiles * block.count * each
        loops = {"none": k / 4, "ic": shape.taps, "kw": shape.kh, "kh": 0}[p.unroll]
        tiles_total = -(-shape.ow // mr) * -(-len(vectors) // nr)
        code = _unrolled(shape, p, isa) * mac_bytes(isa)
        weights = 4.0 * k * sum(block.width * block.count for block in blocks)
        cycles += reread_cycles(isa, weights, -(-shape.ow // mr))
        each = 0.5 if p.joined else 2.0  # long bodies hide the loop overhead
        return Estimate(shape.oh * (cycles + tiles_total * loops * each), code)

    def kernel(self, job: Job) -> Kernel:
        p, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        blocks = p.blocks(shape, job.isa)
        busy = tile_registers(p.mr, [block.vecs for block in blocks])
        ep = epilogues.build(job, job.step.anchor.output, busy=busy)
        weights, bias = pack_weights(job, shape, blocks, p.broadcast)
        pairing = p.broadcast == "pairs"
        tiles = pixel_runs(shape.ow, p.mr)
        cells = shape.oh * sum(n for _, n in tiles) * sum(block.count for block in blocks)
        context: dict[str, Any] = {
            "s": shape,
            "p": p,
            "x": job.inputs[0],
            "y": job.output,
            "blocks": blocks,
            "many": lambda block: shape.taps * shape.ic * len(block.vecs) > HELD_WEIGHTS,
            "crowded": lambda block, pixels: (
                (block.count > 1 or len(blocks) > 1) and pixels * _in_line(shape, p) > HELD_INPUTS
            ),
            "tiles": tiles,
            "fetch": Fetch.of(job, weights, cells, _passes(shape, p)),
            "ep": ep,
            "held": held_weights(job.isa),
            "by_scalars": job.isa.has("mve"),
            "in_turns": pixels_in_turns(job.isa, p.broadcast),
            "in_order": ChannelsInOrder(job.isa, p.broadcast, shape.sw * job.inputs[0].col),
            "paired": lambda v: pairing and paired(v, job.isa),
            "pairs": lambda block: [v for v in block.vecs if paired(v, job.isa)],
            "unpaired": lambda block: [v for v in block.vecs if not paired(v, job.isa)],
            "late": epilogues.crowded(job.isa, busy + len(blocks[0].vecs)),
            "residual": {k: job.inputs[k] for k in ep.tensors},
            "residual_at": residual_pointer(job),
            "joined_residual": joined_residual(job),
            "every": _put_aside(shape, p, job.isa),
            "aside": lambda block, pixels: _aside(block, pixels, p, job.isa),
            "symbol": job.symbol,
            "signature": signature(job, band=True),
            "describe": describe(job),
        }
        code = render("ops/conv/direct_oc.c.j2", **context)
        return Kernel(code, (weights, bias, *ep.constants), band=1, needs_math=ep.needs_math)

    def weights(self, job: Job) -> ConstArray:
        shape = sizes(job.graph, job.step)
        p = typed(Tunables, job.params)
        return pack_weights(job, shape, p.blocks(shape, job.isa), p.broadcast)[0]


def _put_aside(shape: ConvShape, p: Tunables, isa: Isa) -> dict[str, int]:
    """After how many taps, window rows or groups of four channels sums are put aside; 0: never.

    Sums that compilers join stay where they are in loops over a window.
    """
    if p.joined:
        fours = even_steps(shape.ic // 4, 4, isa) if p.unroll == "none" else 0
        return {"taps": 0, "rows": 0, "fours": fours}
    return {
        "taps": block_steps(shape.taps, shape.ic, isa),
        "rows": block_steps(shape.kh, shape.kw * shape.ic, isa),
        "fours": block_steps(shape.ic // 4, 4, isa),
    }


def _aside(block: VectorBlock, pixels: int, p: Tunables, isa: Isa) -> Aside:
    """The sums of a tile; where two inputs are multiplied at a time, they are twice as wide."""
    pairing = p.broadcast == "pairs"
    return aside(
        (f"a{px}_{k}", 2 * v.lanes if pairing and paired(v, isa) else v.lanes)
        for px in range(pixels)
        for k, v in enumerate(block.vecs)
    )


def register_tiles(isa: Isa) -> Sequence[tuple[int, int]]:
    """Tiles (MR pixels, NR vectors) for the ISA's registers."""
    plain = isa.family == "x86" and not isa.has("fma")
    return TILES.get(isa.registers, TILES[16]) + PLAIN_TILES.get(isa.registers * plain, ())


def vector_widths(channels: int, isa: Isa) -> list[int]:
    """The widest vectors to try: all no wider than twice the channels."""
    widths = [w for w in isa.lanes if w == 1 or w < 2 * channels]
    return widths[-2:][::-1] if widths[-1] > 4 else widths[-1:]


def _levels(shape: ConvShape) -> tuple[str, ...]:
    """The levels of unrolling that make a difference: few input channels are always in line."""
    return ("ic", "kw", "kh") if shape.ic <= 4 else ("none", "ic", "kw", "kh")


def _passes(shape: ConvShape, p: Tunables) -> int:
    """Iterations of a tile's loop over groups of four input channels, if there is one."""
    return shape.taps * (shape.ic // 4) if p.unroll == "none" else 0


def _joined_levels(shape: ConvShape) -> tuple[str, ...]:
    """Levels at which compilers join sums: sums that live across two loops stay scalars."""
    if shape.taps > 1:
        return ("kw", "kh")
    return ("none",) if shape.ic > MAX_JOINED_IN_LINE else ("kh",)


def broadcast_words(
    shape: ConvShape, isa: Isa, lanes: int, tile: tuple[int, int] | None
) -> list[str]:
    """The ways in which an input can reach all lanes; for `tile` see `gemm.broadcasts`."""
    found = ["set1"]
    if shape.ic >= 4:
        found += ["rotate"] if isa.has("rotate") and lanes == 4 else []
        found += ["lane", *dual.ways(isa, tile)] if isa.multiplies_by_lane(lanes) else []
    return found


def tile_words(shape: ConvShape, isa: Isa, lanes: int, tile: tuple[int, int]) -> list[str]:
    """The same for tiles of float32, also with inputs that slide."""
    tiles = any(tile[0] == pixels for pixels, _ in SLIDING_TILES)
    slides = tiles and gemm.slides(isa, lanes, shape.ic)
    return broadcast_words(shape, isa, lanes, tile) + ["slide"] * slides


def _sliding(shape: ConvShape, lanes: int, vectors: int) -> list[Tunables]:
    """Tiles with vectors that slide."""
    found = [
        Tunables(lanes, min(mr, shape.ow), min(nr, vectors), unroll, "slide")
        for mr, nr in SLIDING_TILES
        for unroll in _levels(shape)
    ]
    return [t for t in found if t.mr * t.nr * _in_line(shape, t) <= MAX_SLIDING_IN_LINE]


def _pairs(shape: ConvShape, isa: Isa, lanes: int) -> list[str]:
    return ["pairs"] if worth_pairing(shape.ic, shape.taps, shape.oc, isa, lanes) else []


def _halves(block: VectorBlock, p: Tunables, isa: Isa) -> int:
    """How many vectors of a block take two inputs with each multiply-add."""
    return sum(paired(v, isa) for v in block.vecs) if p.broadcast == "pairs" else 0


def _taps_share(shape: ConvShape, p: Tunables) -> bool:
    """Whether neighbouring taps in line read the same inputs: gcc keeps them, spilling others."""
    overlap = shape.kw > 1 and shape.sw % shape.dw == 0 and shape.sw < shape.kw * shape.dw
    return overlap and p.unroll in ("kw", "kh") and p.broadcast == "set1"


def _reused(shape: ConvShape, pixels: int, n: int, isa: Isa) -> float:
    """The share of a tile's inputs that is loaded; the others are still in registers from earlier
    taps.

    Only Arm processors gain: elsewhere loads are free next to multiply-adds.
    """
    if isa.family != "arm" or pixels * n + n + 1 + pixels > isa.registers:
        return 1.0
    return ((pixels - 1) * shape.sw + 1 + (shape.kw - 1) * shape.dw) / (pixels * shape.kw)


def _unrolled(shape: ConvShape, p: Tunables, isa: Isa) -> int:
    """Vector multiply-accumulates in the straight-line body."""
    vectors = min(p.nr, len(split_lanes(shape.oc, isa, p.lanes)))
    groups = len(p.blocks(shape, isa)) * len(pixel_runs(shape.ow, p.mr))
    return p.mr * p.registers(vectors) * _in_line(shape, p) * groups


def _in_line(shape: ConvShape, p: Tunables) -> int:
    """Inputs of one pixel that the straight-line body reads."""
    body = {
        "none": min(shape.ic, 4), "ic": shape.ic, "kw": shape.ic * shape.kw,
        "kh": shape.ic * shape.taps,
    }  # fmt: skip
    return body[p.unroll]


def can_join(shape: ConvShape, isa: Isa) -> bool:
    """Whether tiles for compilers to turn into vectors are worth trying."""
    return isa.joins_scalars and shape.oc >= JOINED


def held_weights(isa: Isa) -> Callable[[VectorBlock, Sequence[int]], bool]:
    """Whether to force the weights of a block to be loaded once for several pixels."""

    def once(block: VectorBlock, pixels: Sequence[int]) -> bool:
        vectors = len(block.vecs)
        return len(pixels) > 1 and len(pixels) * vectors + vectors + 2 <= room_to_hold(isa)

    return once


def pixels_in_turns(isa: Isa, broadcast: str) -> Callable[[VectorBlock, Sequence[int]], bool]:
    """Whether the pixels of a tile take turns with each vector of weights, one after the other.

    Without FMA, products take the place of a factor: compilers load weights again for each pixel,
    unless they are kept from it. With more than two pixels, those that are rotated or broadcast are
    too many inputs at a time.
    """
    most = {"rotate": 2, "set1": 2, "slide": 4}.get(broadcast, 0) if gemm.reloads(isa) else 0
    inputs = 2 if broadcast == "rotate" else 1

    def in_turns(block: VectorBlock, pixels: Sequence[int]) -> bool:
        needed = len(pixels) * (len(block.vecs) + inputs) + 1
        return 1 < len(pixels) <= most and needed <= isa.registers

    return in_turns


@dataclass(frozen=True)
class ChannelsInOrder:
    """Products in the orders of `dual.py`, for pixels at a distance of `pixel`."""

    isa: Isa
    broadcast: str
    pixel: int

    def fours(self, block: VectorBlock, pixels: Sequence[int], channels: int) -> int:
        """How many groups of four of so many channels are computed at once."""
        return dual.fours_at_once(
            self.broadcast, len(pixels), len(block.vecs), self.isa.registers, channels // dual.LANES
        )

    def statements(
        self, block: VectorBlock, pixels: Sequence[int], fours: int, xk: str, first: int, wk: str,
        at: int,
    ) -> list[str]:  # fmt: skip
        """Those of `fours` times four channels at `xk` + `first` and weights at `wk` + `at`; empty
        if they are not in such an order.
        """
        channels = range(dual.LANES * fours)
        inputs = [
            [f"{xk}{offset(first + px * self.pixel + c)}" for c in channels[:: dual.LANES]]
            for px in pixels
        ]
        weights = [
            [f"{wk}{offset(at + c * block.width + v.packed)}" for v in block.vecs] for c in channels
        ]
        return dual.statements(
            self.broadcast, len(pixels), len(block.vecs), self.isa.registers,
            dual.addresses(inputs, weights), lambda p: f"a{pixels[p.row]}_{p.vector}", fours,
        )  # fmt: skip


def joined_residual(job: Job) -> Callable[[int], Callable[[int], str]]:
    """(pixel) -> input index -> C pointer to the residual of channel `i` of a joined tile."""
    return lambda px: lambda k: f"r{k}{offset(px * job.inputs[k].col)} + i"


def pixel_runs(width: int, mr: int) -> list[tuple[int, int]]:
    """(pixels, count): the full tiles of a row, then the rest."""
    full, rest = divmod(width, mr)
    return ([(mr, full)] if full else []) + ([(rest, 1)] if rest else [])
