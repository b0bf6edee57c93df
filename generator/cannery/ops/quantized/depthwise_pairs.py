"""Depthwise convolution by pairs of int16: channels in the lanes, two taps at once, sums in int32.

Instructions that multiply and add pairs of int16 (pmaddwd, vpdpwssd, vmlal) get two rows of the
window interleaved, channel by channel. In a last row without a partner, neighbouring columns make
pairs, so 3 x 3 taps make five pairs. Neighbouring pixels share the pairs of numbers; where a tap
has no partner, the weight in the other place is 0.

Two vectors of channels are interleaved at once if that many are left. Processors interleave each
128 bits separately, which leaves the channels out of order until the sums are complete (`turns`).
Bytes become int16 as they are loaded, on x86, where that takes fewer instructions than floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ops.conv.depthwise import window_columns
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.quantized.arithmetic import BYTES, STORED
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.depthwise import QuantizedDepthwise, pixel_choices
from cannery.ops.quantized.finish import make_finish
from cannery.ops.quantized.geometry import sizes
from cannery.ops.quantized.groups import pack_groups
from cannery.ops.quantized.matmul_n import FINISH
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.gemm import VectorBlock
from cannery.ops.shared.lanes import LOADS
from cannery.ops.shared.tiles import widths
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Pair:
    """Two numbers of each channel: their places (row, column) in a tile's window.

    `users` are (output pixel of the tile, pair of weights).
    """

    first: tuple[int, int]
    second: tuple[int, int]
    users: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tunables:
    """A tile of `px` pixels x `nr` vectors, none wider than `lanes`."""

    lanes: int
    nr: int
    px: int


@schedule
@dataclass(frozen=True)
class QuantizedDepthwisePairs(QuantizedDepthwise):
    """See the module docstring."""

    id = "quantized.depthwise_pairs"
    accepts = STORED

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := super().why_not(graph, step, isa):
            return reason
        bytes_ = graph.types[step.anchor.inputs[0]].dtype in BYTES
        return "bytes, and not x86" if bytes_ and isa.family != "x86" else ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        s = sizes(graph, step)
        found = (
            Tunables(lanes, nr, min(px, s.ow))
            for lanes in widths(s.oc, isa)
            for nr in ((2, 1) if lanes >= 4 and s.oc >= 2 * lanes else (1,))
            for px in pixel_choices(s)
            if px * nr < isa.registers - 3
        )
        return list(map(as_params, dict.fromkeys(found)))

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        s, p = sizes(graph, step), typed(Tunables, params)
        fused = isa.family == "x86" and isa.has("dot4_u8s8")
        bytes_ = graph.types[step.anchor.inputs[0]].dtype in BYTES
        cycles = code = 0.0
        for block in _blocks(s, p, isa):
            n = len(block.vecs)
            for px, count, _ in balanced(s.ow, p.px):
                pairs = tile_pairs(s, px)
                double = is_double(block)
                taken = len(pairs) * (4.0 if double else 4.0 * n)
                if bytes_:
                    taken += _widening(isa) * (s.kh * len(window_columns(s, px)) if double else n)
                work = n * px * (pair_count(s) * (1.0 if fused else 2.0) + FINISH)
                loads = n * px * pair_count(s) / min(px, 2) + taken / 2.0
                core = isa.rates()
                one = max((taken / 2.0 + work) / core.arithmetic, loads / core.loads)
                cycles += block.count * count * one
                code += 5.0 * (taken + work)
        return Estimate(cycles * s.oh, code)

    def kernel(self, job: Job) -> Kernel:
        op, s = job.step.anchor.op, sizes(job.graph, job.step)
        p = typed(Tunables, job.params)
        assert isinstance(op, QuantizedConv)
        x, w = job.inputs[0], job.graph.constants[s.weight].reshape(s.taps, s.oc)
        finish = make_finish(job, op, w, np.zeros(s.oc, np.int64))
        blocks = _blocks(s, p, job.isa)
        code = render(
            "ops/quantized/depthwise_pairs.c.j2",
            describe=describe(job), signature=signature(job, band=True), symbol=job.symbol, s=s,
            x=x, y=job.output, finish=finish, blocks=blocks, pairs=tile_pairs,
            tiles=balanced(s.ow, p.px), count=2 * pair_count(s),
            is_double=is_double, of=LOADS[x.dtype].removeprefix("load").removesuffix("_s16"),
        )  # fmt: skip
        packed = pack_groups(weight_pairs(s, w.astype(np.int16)), blocks, job.isa, turns(blocks))
        weights = ConstArray(f"{job.symbol}_w", packed, "weights [block][pair of taps][channel]")
        return Kernel(finish.functions + code, (weights, *finish.constants), band=1)


def _blocks(s: ConvShape, p: Tunables, isa: Isa) -> tuple[VectorBlock, ...]:
    return gemm.make_blocks(s.oc, isa, p.lanes, p.nr, 1)


def _widening(isa: Isa) -> float:
    """Instructions to make int16 of a vector of bytes: SSE4 has one for that."""
    return 2.0 if isa.name == "sse42" or isa.widest > 4 else 4.0


def is_double(block: VectorBlock) -> bool:
    """Whether the channels of a block are interleaved at once."""
    return len(block.vecs) == 2 and len({(v.lanes, v.valid) for v in block.vecs}) == 1


def turns(blocks: Sequence[VectorBlock]) -> list[int]:
    """The channel in each place: in doubles they alternate four at a time, see vec_scalar.h."""
    found: list[int] = []
    for block in blocks:
        order = np.arange(block.valid)
        if is_double(block):
            order = order.reshape(-1, 2, 4).swapaxes(0, 1).ravel()
        for number in range(block.count):
            found += [int(k) for k in block.channel + number * block.valid + order]
    return found


def pair_count(s: ConvShape) -> int:
    """Pairs of taps."""
    return s.kh // 2 * s.kw + s.kh % 2 * -(-s.kw // 2)


def weight_pairs(s: ConvShape, w: NDArray[Any]) -> NDArray[Any]:
    """w[taps,OC] as the two weights of each pair, one after the other: [2 * pairs, OC]."""
    taps = w.reshape(s.kh, s.kw, -1)
    both = taps[: s.kh // 2 * 2].reshape(-1, 2, s.kw, w.shape[-1]).swapaxes(1, 2)
    last = taps[s.kh // 2 * 2 :].reshape(-1, w.shape[-1])
    alone = np.zeros((len(last) % 2, w.shape[-1]), w.dtype)
    return np.concatenate([both.reshape(-1, w.shape[-1]), last, alone])


def tile_pairs(s: ConvShape, px: int) -> list[Pair]:
    """The pairs of numbers of a tile of `px` pixels."""
    found: list[Pair] = []
    for r in range(0, s.kh - 1, 2):
        for column in window_columns(s, px):
            users = tuple((m, r // 2 * s.kw + tap) for m, tap in column.users)
            found.append(Pair((r, column.at), (r + 1, column.at), users))
    return found + (_last_row(s, px) if s.kh % 2 else [])


def _last_row(s: ConvShape, px: int) -> list[Pair]:
    """A tap and its right neighbour, or the same tap twice if none has a neighbour there."""
    found: list[Pair] = []
    r, before = s.kh - 1, s.kh // 2 * s.kw
    for column in window_columns(s, px):
        users = tuple((m, before + tap // 2) for m, tap in column.users if tap % 2 == 0)
        if users:
            within = any(tap % 2 == 0 and tap + 1 < s.kw for _, tap in column.users)
            found.append(Pair((r, column.at), (r, column.at + s.dw * within), users))
    return found
