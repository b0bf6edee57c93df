"""Winograd's algorithm F(2x2, 3x3) on bytes: 4/9 of the products, and exactly the same bits.

Y = A^T [(G g G^T) * (B^T d B)] A, see `ops/conv/winograd.py`. B and A hold 0, 1 and -1; 2 G holds
whole numbers, so with it each sum comes out exactly four times as large. Sums of four bytes and of
nine weights are int16, products of pairs of channels are added in int32.

A batch of tiles at a time: their inputs are transformed (16 positions x tiles x IC), then for each
block of output channels the products of every position are summed over IC, in a register tile of
MR tiles x NR vectors, transformed back, and finished. `batch`: tiles at a time. Positions lie apart
so that those of a tile do not share cache sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Halo, Layout
from cannery.layouts.nhwc import pitch_apart
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.quantized.arithmetic import BYTES
from cannery.ops.quantized.codes import why_not_codes
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.finish import make_finish
from cannery.ops.quantized.geometry import sizes, why_not_conv
from cannery.ops.quantized.groups import Groups, Way, pack_groups, tiles_for
from cannery.ops.quantized.matmul_n import FINISH
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import even_size
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import LOADS
from cannery.schedule.caches import L1_BYTES, L2_BYTES
from cannery.schedule.cost import reread_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Products of a tile for each channel, and outputs of an axis.
POSITIONS, OUTPUTS = 16, 2

#: 2 G.
WEIGHTS = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int64)

#: With more channels, sums might exceed int32. Each channel adds at most 4 * 9 * 255 * 128, four
#: times an output, to any intermediate sum (tests/ops/test_quantized_winograd.py).
MOST_CHANNELS = 1024

#: With fewer input channels transforms cost more than the products that they save.
LEAST_CHANNELS = 8

#: Instructions to transform a vector of inputs, or of outputs, of one tile.
_INTO, _BACK = 64.0, 40.0


@dataclass(frozen=True)
class Tunables:
    """Register tiles of `mr` tiles x `nr` vectors, `batch` tiles at a time."""

    lanes: int
    mr: int
    nr: int
    unroll: int
    batch: int


@schedule
@dataclass(frozen=True)
class QuantizedWinograd(Schedule):
    """See the module docstring."""

    id = "quantized.winograd"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_conv(graph, step):
            return reason
        s = sizes(graph, step)
        plain = (s.kh, s.kw, s.sh, s.sw, s.dh, s.dw) == (3, 3, 1, 1, 1, 1)
        if not plain or min(s.top, s.left) < 0:
            return "not 3x3 with stride 1"
        if graph.types[step.anchor.inputs[0]].dtype not in BYTES:
            return "not bytes"
        if isa.widest == 1 or isa.has("dot4_u8s8"):
            return "no pairs of int16, or fours of bytes that take as long"
        fits = LEAST_CHANNELS <= s.ic <= MOST_CHANNELS
        if not fits:
            return f"not {LEAST_CHANNELS} to {MOST_CHANNELS} channels"
        return why_not_codes(graph, step.anchor, isa)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        s = sizes(graph, step)
        found: list[Tunables] = []
        for lanes in gemm.widths(s.oc, isa):
            vectors = -(-s.oc // lanes)
            for mr, nr in tiles_for(isa, DType.INT16):
                mr, nr = even_size(_count(s), mr), min(nr, vectors)
                found += [Tunables(lanes, mr, nr, 4, batch) for batch in _batches(s, mr)]
        return [as_params(t) for t in dict.fromkeys(found)]

    def halo(self, graph: Graph, step: Step) -> Halo:
        s = sizes(graph, step)
        bottom = s.oh + s.oh % OUTPUTS + 2 - s.top - s.ih
        right = s.ow + s.ow % OUTPUTS + 2 - s.left - s.iw
        return Halo(s.top, max(bottom, 0), s.left, max(right, 0))

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        t = typed(Tunables, params)
        s = sizes(graph, step)
        mr, batch, count = t.mr, t.batch, _count(s)
        depth = _depth(s)
        cycles = count * len(_parts(s, isa)) * _INTO / isa.rates().arithmetic
        code = 16.0 * _INTO
        batches = -(-count // batch)
        for block in _blocks(s, t, isa):
            n = len(block.vecs)
            one = Groups(DType.INT16).tile_cycles(isa, mr, n, depth)
            cycles += block.count * POSITIONS * batches * -(-min(batch, count) // mr) * one
            cycles += block.count * n * count * (_BACK + 4 * FINISH) / isa.rates().arithmetic
            code += 8.0 * n * (4 * mr + _BACK + 4 * FINISH)
        weights = 2.0 * POSITIONS * depth * s.oc
        inputs = 2.0 * POSITIONS * depth * min(batch, count)
        blocks = sum(block.count for block in _blocks(s, t, isa))
        cycles += reread_cycles(isa, weights, batches) + reread_cycles(
            isa, inputs, batches * blocks
        )
        return Estimate(cycles, code)

    def kernel(self, job: Job) -> Kernel:
        t = typed(Tunables, job.params)
        op, s, x = job.step.anchor.op, sizes(job.graph, job.step), job.inputs[0]
        assert isinstance(op, QuantizedConv)
        w, batch = job.graph.constants[s.weight], t.batch
        blocks, depth = _blocks(s, t, job.isa), _depth(s)
        finish = make_finish(job, op, w.reshape(-1, s.oc), np.zeros(s.oc, np.int64))
        pitch = pitch_apart(batch * depth, DType.INT16)
        code = render(
            "ops/quantized/winograd.c.j2",
            describe=describe(job), signature=signature(job, scratch=True, band=True),
            symbol=job.symbol, s=s, x=x, y=job.output, finish=finish, blocks=blocks, batch=batch,
            depth=depth, mr=t.mr, unroll=t.unroll,
            g=Groups(DType.INT16, Way("dot", lane=job.isa.has("lane_fma"))),
            columns=-(-s.ow // OUTPUTS),
            into=[_into(part, x, pitch) for part in _parts(s, job.isa)],
            back=_back, pitch=pitch, apart=_sums_apart,
        )  # fmt: skip
        packed = pack_groups(_transformed(w, depth), blocks, job.isa)
        weights = ConstArray(f"{job.symbol}_w", packed, "weights [block][position][pair][vector]")
        sums = max(_sums_apart(batch * block.width) for block in blocks)
        scratch = POSITIONS * (2 * pitch + 4 * sums)
        return Kernel(code, (weights, *finish.constants), scratch, OUTPUTS)


def _count(s: ConvShape) -> int:
    """Tiles of an image."""
    return -(-s.oh // OUTPUTS) * -(-s.ow // OUTPUTS)


def _batches(s: ConvShape, mr: int) -> list[int]:
    """Sensible numbers of tiles at a time, multiples of `mr`."""
    each, groups = 2 * POSITIONS * s.ic * mr, -(-_count(s) // mr)
    limits = (L1_BYTES, L2_BYTES // 4)
    return sorted({mr * even_size(groups, max(limit // each, 1)) for limit in limits})


def _sums_apart(sums: int) -> int:
    """The distance between positions of so many sums."""
    return pitch_apart(sums, DType.INT32)


def _blocks(s: ConvShape, t: Tunables, isa: Isa) -> tuple[VectorBlock, ...]:
    return gemm.make_blocks(s.oc, isa, t.lanes, t.nr, 1)


@dataclass(frozen=True)
class ChannelGroup:
    """Input channels of one vector: `lanes` pairs from channel `start` on."""

    start: int
    lanes: int


def _parts(s: ConvShape, isa: Isa) -> list[ChannelGroup]:
    """The input channels in full vectors; the last one may overlap its neighbour."""
    lanes = max(n for n in isa.lanes if n == 4 or 2 * n <= s.ic)
    starts = list(range(0, s.ic - 2 * lanes + 1, 2 * lanes))
    if s.ic % (2 * lanes):
        starts.append(s.ic - 2 * lanes)
    return [ChannelGroup(start, lanes) for start in starts]


def _depth(s: ConvShape) -> int:
    """Channels in whole pairs: an odd one is followed by arbitrary data, which is multiplied
    by 0.
    """
    return s.ic + s.ic % 2


def _transformed(w: NDArray[Any], depth: int) -> NDArray[Any]:
    """2 G w (2 G)^T of w[3,3,IC,OC] as [16 * depth, OC], with zeros after the channels."""
    wide = np.einsum("ak,bl,klio->abio", WEIGHTS, WEIGHTS, w.astype(np.int64))
    found = np.zeros((POSITIONS, depth, w.shape[-1]), np.int16)
    found[:, : w.shape[2]] = wide.reshape(POSITIONS, *w.shape[2:])
    return found.reshape(-1, w.shape[-1])


def _into(part: ChannelGroup, x: Layout, pitch: int) -> list[str]:
    """B^T d B of a vector of channels of one tile, from `xt` to `vt`, `pitch` from position to
    position.
    """
    t = f"p16x{part.lanes}"

    def d(i: int, j: int) -> str:
        return f"{t}_{LOADS[x.dtype]}(xt{offset(i * x.row + j * x.col + part.start)})"

    def across(a: int) -> list[str]:
        """From h0 .. h3, a row of B^T d, to four positions."""
        terms = ("sub(h0, h2)", "add(h1, h2)", "sub(h2, h1)", "sub(h1, h3)")
        places = (f"vt{offset((4 * a + b) * pitch + part.start)}" for b in range(4))
        return [f"{t}_store({at}, {t}_{term});" for at, term in zip(places, terms, strict=True)]

    lines = [f"const {t} {'pq'[i - 1]}{j} = {d(i, j)};" for i in (1, 2) for j in range(4)]
    rows = (
        (1, "add(p{j}, q{j})"), (2, "sub(q{j}, p{j})"),
        (0, "sub({first}, q{j})"), (3, "sub(p{j}, {last})"),
    )  # fmt: skip
    for a, term in rows:
        parts = [term.format(j=j, first=d(0, j), last=d(3, j)) for j in range(4)]
        halves = [f"const {t} h{j} = {t}_{part};" for j, part in enumerate(parts)]
        lines += ["{", *halves, *across(a), "}"]
    return lines


def _back(t: str, pitch: int) -> list[str]:
    """A^T m A: y<i><j> of four rows of four sums, `pitch` apart, at `mp`; each is four sums."""

    def m(a: int, b: int) -> str:
        return f"{t}_load(mp{offset((4 * a + b) * pitch)})"

    def three(word: str, a: str, b: str, c: str) -> str:
        return f"{t}_{word}({t}_{word}({a}, {b}), {c})"

    lines = []
    for b in range(4):
        lines += [
            f"const {t} s0_{b} = {three('add', m(0, b), m(1, b), m(2, b))};",
            f"const {t} s1_{b} = {three('sub', m(1, b), m(2, b), m(3, b))};",
        ]
    for i in range(OUTPUTS):
        lines += [
            f"{t} y{i}0 = {three('add', f's{i}_0', f's{i}_1', f's{i}_2')};",
            f"{t} y{i}1 = {three('sub', f's{i}_1', f's{i}_2', f's{i}_3')};",
        ]
    return lines
