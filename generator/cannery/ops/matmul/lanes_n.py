"""Renders matrix products with the columns of B in the lanes, packed or in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cannery.ctext.environment import offset, render
from cannery.ops.matmul.product import Cut, Nest, Operand, Product, residual_rows
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import balanced, nested_pointer
from cannery.ops.shared.epilogue import Epilogue
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.gemm import AHEAD, NEAR_AHEAD, STREAMS, Gemm, VectorBlock
from cannery.ops.shared.lanes import Vec
from cannery.ops.shared.sums import block_steps, even_steps
from cannery.ops.shared.tiles import room_to_hold
from cannery.schedule.caches import FAR_BYTES, L1_BYTES
from cannery.schedule.schedule import Job
from cannery.target.isa import Isa

#: Fewest steps of k with which two rows take turns.
MIN_TURNS = 32


@dataclass(frozen=True)
class Tunables:
    """A tile of `mr` rows x `nr` vectors with `split` sets of accumulators and `unroll` steps of
    the sum in line; else see `dense_n`.

    `kc`: steps of the sum at a time, for all rows and columns (0: all of them); they divide it.
    """

    lanes: int
    mr: int
    nr: int
    split: int
    broadcast: str
    outside: str
    unroll: int
    joined: bool = False
    kc: int = 0


def make_gemm(p: Product, t: Tunables, isa: Isa, a_row: int, a_k: int, b_k: int = 0) -> Gemm:
    """How a tile walks its operands under these parameters; b_k == 0 for packed weights."""
    far = b_k == 0 and not t.joined and not t.kc and p.item * p.k * p.n > FAR_BYTES
    k = t.kc or p.k
    streams = STREAMS if far and p.k % STREAMS == 0 and t.unroll % STREAMS == 0 else 1
    cut = even_steps if t.joined else block_steps
    return Gemm(
        k, a_row, a_k, b_k, t.unroll, t.split, t.broadcast,
        _ahead(p, t, isa, far=far) if b_k == 0 else 0, streams,
        cut(k // t.unroll, t.unroll // t.split, isa),
        once=b_k > 0 and gemm.reloads(isa),
        turns=_in_turns(k, t, isa),
        near=not far,
        held=room_to_hold(isa),
        item=p.item, registers=isa.registers, beside=isa.has("mve"),
    )  # fmt: skip


def _ahead(p: Product, t: Tunables, isa: Isa, *, far: bool) -> int:
    """How many bytes ahead packed weights are prefetched that only one row reads; see `gemm`.

    Those that are near not with eight registers: there gcc's code spills more.
    """
    if t.mr > 1 or t.joined or t.kc:
        return 0
    if far:
        return AHEAD
    near = gemm.reloads(isa) and isa.registers > 8 and p.item * p.k * p.n > L1_BYTES
    return NEAR_AHEAD if near else 0


def _in_turns(k: int, t: Tunables, isa: Isa) -> bool:
    """Whether two rows take turns with each vector of B.

    Not with k below MIN_TURNS or a rest of k: there gcc's code is slower by up to a half.
    """
    long = k >= MIN_TURNS and k % 4 == 0
    return t.broadcast == "rotate" and long and gemm.reloads(isa) and isa.registers > 8


def render_lanes_n(
    job: Job,
    p: Product,
    t: Tunables,
    g: Gemm,
    nest: Nest,
    blocks: Sequence[VectorBlock],
    ep: Epilogue,
    operands: tuple[Operand, Operand],
) -> tuple[str, int]:
    """The function's text and units; a constant bias is expected as `<symbol>_bias`, padded."""
    a, b = operands
    tiles = balanced(nest.rows.extent, t.mr)
    groups, rows = [block.count for block in blocks], [count for _, count, _ in tiles]
    cut = Cut.of(job, groups, rows)
    join = t.joined  # which only schedules for constant weights and biases offer
    residual = residual_rows(nest.rows, ep)

    def joined_residual(row: int) -> Callable[[int], str]:
        return lambda index: f"{residual(row, Vec(0, 1, 1, 0))(index)} + i"

    code = render(
        "ops/matmul/lanes_n.c.j2",
        describe=describe(job),
        signature=signature(job, units=cut.units > 0, stops=job.rows_stop),
        stops=job.rows_stop,
        cut=cut,
        groups=groups,
        rows=rows,
        nest=nest,
        nested_pointer=nested_pointer,
        tiles=tiles,
        rows_outside=t.outside == "rows",
        k_blocks=p.k // t.kc if t.kc else 1,
        blocks=blocks,
        zeros=lambda block: [f"{v.t}_zero()" for v in block.vecs],
        bias=lambda block: [bias_load(job, p, v, "bk") for v in block.vecs],
        held_bias=f"{job.symbol}_bias" if p.bias in job.graph.constants else "",
        g=g,
        a=a,
        b=b,
        y=job.output,
        inputs=job.inputs,
        names=parameter_names(job),
        ep=ep,
        residual_at=residual,
        joined_residual=joined_residual if join else None,
    )
    return code, cut.units


def bias_load(job: Job, p: Product, v: Vec, held: str = "") -> str:
    """The initial value of an accumulator at column oc + v.start.

    `held` is the C expression of a pointer to the bias of column oc, if there is one.
    """
    if not p.bias:
        return f"{v.t}_zero()"
    if p.bias in job.graph.constants:
        return f"{v.t}_load({held or f'{job.symbol}_bias + oc'}{offset(v.start)})"
    index = job.step.inputs.index(p.bias)
    at = offset(job.inputs[index].origin)
    return v.load(f"{parameter_names(job)[index]}{at} + oc{offset(v.start)}")
