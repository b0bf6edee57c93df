"""Attention for a few queries at a time: their scores never leave the first-level cache.

For each head, keys and values are packed first, as the panels [block][k][lanes] of `gemm`, the keys
transposed and scaled. Then, for a group of tiles of query rows: the scores of all keys, their
exponentials with the sum of each row, and the products with the values, divided by that sum at
the end. The softmax is that of `softmax.row`: nothing overflows, nothing is subnormal.

Units are the groups of all heads; each piece packs the heads that it works on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.ctext.environment import c_comment, render
from cannery.ir.graph import Graph
from cannery.ir.tensor import TensorType
from cannery.ops.attention.op import Attention, HeadChannels
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import axis_strides, balanced, broadcast_strides, dense_strides
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.gemm import Gemm, VectorBlock
from cannery.ops.shared.lanes import Vec
from cannery.ops.shared.sums import block_steps
from cannery.ops.shared.tiles import room_to_hold
from cannery.ops.softmax.row import CHAINS, EXP_WORK, LEAST
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Tiles of query rows that share a pass over keys and values.
GROUPS = (1, 4)

#: Floats to which rows of scores and packed panels are rounded up: a cache line.
ALIGN = 16


@dataclass(frozen=True)
class Tunables:
    """Tiles of `mr` queries x `nr` vectors of keys, then of values; `tiles` of them in a group."""

    lanes: int
    mr: int
    nr: int
    tiles: int
    broadcast: str


@dataclass(frozen=True)
class Panels:
    """One of the two packed operands: `k` x `columns` floats from `at` in scratch memory on."""

    g: Gemm
    blocks: tuple[VectorBlock, ...]
    columns: int
    at: int

    @property
    def room(self) -> int:
        """Floats of scratch memory."""
        return rounded(self.g.k * sum(block.width * block.count for block in self.blocks))


@dataclass(frozen=True)
class Operand:
    """Where heads of an input lie: C pointer, origin, strides of samples, heads and rows."""

    pointer: str
    origin: int
    strides: tuple[int, int, int]


@dataclass(frozen=True)
class Tiles:
    """`count` tiles of `mr` queries from query `first` on, in groups; the first has that number."""

    mr: int
    count: int
    first: int
    group: int
    groups: int


def rounded(floats: int) -> int:
    """Up to whole cache lines."""
    return -(-floats // ALIGN) * ALIGN


@schedule
@dataclass(frozen=True)
class AttentionRows(Schedule):
    """See the module docstring."""

    id = "attention.rows"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if len(step.anchors) != 1 or not isinstance(op, Attention):
            return "not an attention"
        if any(value in graph.constants for value in step.anchor.inputs[:3]):
            return "reads constants only"
        return "followed by other operators" if step.epilogue else ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        op, queries, keys = sizes(graph, step)
        few = min(op.q.size, keys)
        found = [
            as_params(Tunables(lanes, min(mr, queries), nr, tiles, broadcast))
            for lanes in gemm.widths(min(keys, op.v.size), isa)
            for mr, nr in gemm.TILES.get(isa.registers, gemm.TILES[16])[:4]
            for tiles in GROUPS
            if tiles == 1 or tiles * mr <= queries
            for broadcast in gemm.broadcasts(isa, lanes, few, 1)
            if broadcast != "rotate"
        ]
        return list({self.label(params): params for params in found}.values())

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        op, queries, keys = sizes(graph, step)
        t = typed(Tunables, params)
        rows = balanced(queries, t.mr)
        scores, mixed = panels(op, keys, t, isa)
        core = isa.rates(t.lanes)
        cycles = gemm.product_cycles(isa, scores.g, rows, scores.blocks)
        cycles += gemm.product_cycles(isa, mixed.g, rows, mixed.blocks)
        vectors = -(-keys // t.lanes)
        cycles += queries * (vectors * (EXP_WORK + 6.0) / core.arithmetic + 12.0)
        cycles += keys * (2.0 * op.k.size + op.v.size) / max(t.lanes // 2, 1)
        cycles += 20.0 * sum(count for _, count, _ in rows) / t.tiles
        code = gemm.code_size(scores.g, rows, scores.blocks)
        code += gemm.code_size(mixed.g, rows, mixed.blocks) + 6.0 * CHAINS * EXP_WORK
        heads = op.heads * graph.types[step.output].shape[0]
        return Estimate(heads * cycles, code)

    def kernel(self, job: Job) -> Kernel:
        return _AttentionJob(job, typed(Tunables, job.params)).kernel()


def sizes(graph: Graph, step: Step) -> tuple[Attention, int, int]:
    """The operator, the number of queries, and that of keys."""
    op = step.anchor.op
    assert isinstance(op, Attention)
    return op, graph.types[step.output].shape[1], graph.types[step.anchor.inputs[1]].shape[1]


def panels(op: Attention, keys: int, t: Tunables, isa: Isa, a_row: int = 0) -> list[Panels]:
    """Keys and values; queries are `a_row` apart."""

    def make(k: int, columns: int, row: int, at: int) -> Panels:
        aside = block_steps(k // 4, 4, isa)
        g = Gemm(k, row, 1, 0, 4, 1, t.broadcast, aside=aside, held=room_to_hold(isa))
        return Panels(g, gemm.make_blocks(columns, isa, t.lanes, t.nr, k), columns, at)

    scores = make(op.q.size, keys, a_row, 0)
    return [scores, make(keys, op.v.size, pitch(keys, t.lanes), scores.room)]


def pitch(keys: int, lanes: int) -> int:
    """Floats of a row of scores: whole vectors."""
    return rounded(-(-keys // lanes) * lanes)


@dataclass(frozen=True)
class _AttentionJob:
    """The generation of one kernel."""

    job: Job
    t: Tunables

    def kernel(self) -> Kernel:
        job, t = self.job, self.t
        op, queries, keys = sizes(job.graph, job.step)
        q, k, v = (self.heads(n, part) for n, part in enumerate((op.q, op.k, op.v)))
        scores, mixed = panels(op, keys, t, job.isa, q.strides[2])
        tiles = self.tiles(queries)
        mask, arrays = self.mask()
        rows, row = t.tiles * t.mr, pitch(keys, t.lanes)
        at = scores.room + mixed.room
        count = self.type(0).shape[0] * op.heads
        groups = sum(kind.groups for kind in tiles)
        units = count * groups if job.cut and count * groups > 1 else 0
        full, rest = divmod(keys, t.lanes)
        code = render(
            "ops/attention/rows.c.j2",
            describe=describe(job),
            name=c_comment(job.step.name),
            symbol=job.symbol,
            signature=signature(job, scratch=True, units=units > 0),
            first="first_unit" if units else "0",
            end="end_unit" if units else str(count * groups),
            op=op,
            scale=op.scale / (op.softcap or 1.0),
            q=q,
            k=k,
            v=v,
            y=Operand("y", job.output.origin, self.output_strides(op)),
            mask=mask,
            scores=scores,
            mixed=mixed,
            shares_at=at,
            inverse_at=at + rows * row,
            row=row,
            rows=rows,
            kinds=tiles,
            groups=groups,
            per_group=t.tiles,
            vector=f"f32x{t.lanes}",
            lanes=t.lanes,
            fours=t.lanes >= 4,
            vecs=[Vec(n * t.lanes, t.lanes, t.lanes, 0) for n in range(full)],
            tail=Vec(full * t.lanes, t.lanes, rest, 0) if rest else None,
            tail_array=f"{job.symbol}_tail",
            chains=max(1, min(CHAINS, full)),
            least=LEAST,
            lowest=-math.inf,
            least_finite=float(np.finfo(np.float32).min),
            zeros=lambda block: [f"{vec.t}_zero()" for vec in block.vecs],
        )
        if rest:
            tail = np.where(np.arange(t.lanes) < rest, 0.0, -np.inf).astype(np.float32)
            arrays = (*arrays, ConstArray(f"{job.symbol}_tail", tail, "0, then -infinity"))
        room = 4 * (at + rows * row + rounded(rows))
        return Kernel(code, arrays, room, needs_math=True, whole=True, units=units)

    def type(self, number: int) -> TensorType:
        """The type of an input of the operator."""
        return self.job.type(self.job.step.anchor.inputs[number])

    def heads(self, number: int, part: HeadChannels) -> Operand:
        """An input of the operator."""
        value = self.job.step.anchor.inputs[number]
        index = self.job.step.inputs.index(value)
        layout = self.job.inputs[index]
        sample, row, _ = axis_strides(self.job.type(value), layout)
        names = parameter_names(self.job)
        return Operand(names[index], layout.origin + part.at, (sample, part.step, row))

    def output_strides(self, op: Attention) -> tuple[int, int, int]:
        """Strides of samples, heads and rows."""
        sample, row, _ = axis_strides(self.job.type(self.job.step.output), self.job.output)
        return sample, op.v.size, row

    def mask(self) -> tuple[Operand | None, tuple[ConstArray, ...]]:
        """Where the mask lies, if there is one, and its array if it is a constant."""
        job, inputs = self.job, self.job.step.anchor.inputs
        if len(inputs) < 4 or not inputs[3]:
            return None, ()
        type_ = self.type(3)
        constant = inputs[3] in job.graph.constants
        if constant:
            strides: tuple[int, ...] = dense_strides(type_.shape)
            pointer, origin = f"{job.symbol}_mask", 0
        else:
            index = job.step.inputs.index(inputs[3])
            strides = axis_strides(type_, job.inputs[index])
            pointer, origin = parameter_names(job)[index], job.inputs[index].origin
        sample, head, row, _ = broadcast_strides(type_.shape, strides, 4)
        arrays = (job.stored(inputs[3], pointer),) if constant else ()
        return Operand(pointer, origin, (sample, head, row)), arrays

    def tiles(self, queries: int) -> list[Tiles]:
        """The tiles of all queries of a head."""
        found: list[Tiles] = []
        group = 0
        for mr, count, first in balanced(queries, self.t.mr):
            found.append(Tiles(mr, count, first, group, -(-count // self.t.tiles)))
            group += found[-1].groups
        return found
