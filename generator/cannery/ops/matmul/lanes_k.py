"""Renders matrix products with the reduction in the lanes: dot products of rows with rows.

A tile is MR rows of A times NC columns of B, with one accumulator each (or `split` that take
turns). At the end, four of them at a time are transposed and added, so that the epilogue sees
vectors of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cannery.ctext.environment import offset, render
from cannery.ops.matmul.lanes_n import bias_load
from cannery.ops.matmul.product import Cut, Nest, Operand, Product, residual_rows
from cannery.ops.shared.axes import balanced, nested_pointer
from cannery.ops.shared.dots import Dots, accumulator, columns, sum_cycles, walk
from cannery.ops.shared.epilogue import Epilogue
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.schedule.cost import tile_cycles
from cannery.schedule.schedule import Job
from cannery.target.isa import Isa

#: Values written just before are not in the cache yet. Loads wider than their stores, which are
#: often this narrow, wait until they are.
RECENT_BYTES, NARROW_STORE, FORWARDING_CYCLES = 2048, 8, 40.0


def render_lanes_k(
    job: Job, p: Product, dots: Dots, nest: Nest, ep: Epilogue, operands: tuple[Operand, Operand],
    *, packed: bool,
) -> tuple[str, int]:  # fmt: skip
    """The function's text and units; a constant bias is expected as `<symbol>_bias`, padded.

    `packed`: rows of B end with zeros.
    """
    a, b = operands
    vec, lanes = f"f32x{dots.lanes}", dots.lanes
    passes, rest = walk(p.k, dots)
    tiles, groups = balanced(nest.rows.extent, dots.mr), balanced(p.n, dots.nc)
    counts, rows = [count for _, count, _ in groups], [count for _, count, _ in tiles]
    cut = Cut.of(job, counts, rows)

    def a_load(m: int, k: int, valid: int) -> str:
        at = f"ap{offset(m * nest.rows.strides[0] + k * a.k)}"
        return f"{vec}_load({at})" if valid == lanes else f"{vec}_load_n({at}, {valid})"

    def b_load(n: int, k: int, valid: int) -> str:
        at = f"wp{offset(n * b.n + k)}"
        if packed:
            return f"{vec}_load{'_aligned' if lanes == 4 else ''}({at})"
        return f"{vec}_load({at})" if valid == lanes else f"{vec}_load_n({at}, {valid})"

    code = render(
        "ops/matmul/lanes_k.c.j2",
        describe=describe(job),
        signature=signature(job, units=cut.units > 0, stops=job.rows_stop),
        stops=job.rows_stop,
        cut=cut,
        counts=counts,
        rows=rows,
        vec=vec,
        lanes=lanes,
        split=dots.split,
        unroll=dots.unroll,
        passes=passes,
        rest=rest,
        acc=accumulator,
        a_load=a_load,
        b_load=b_load,
        a_k=a.k,
        b_n=b.n,
        columns=lambda nc: columns(nc, lanes),
        bias=lambda v: bias_load(job, p, v) if p.bias else "",
        nest=nest,
        nested_pointer=nested_pointer,
        tiles=tiles,
        groups=groups,
        a=a,
        b=b,
        y=job.output,
        inputs=job.inputs,
        names=parameter_names(job),
        ep=ep,
        residual_at=residual_rows(nest.rows, ep),
    )
    return code, cut.units


def dot_cycles(isa: Isa, p: Product, dots: Dots, rows: Sequence[tuple[int, int, int]]) -> float:
    """Estimated cycles of all tiles."""
    vectors = -(-p.k // dots.lanes)
    recent = dots.lanes > NARROW_STORE and 4 * p.k <= RECENT_BYTES
    cycles = FORWARDING_CYCLES if recent else 0.0
    for mr, tiles, _ in rows:
        for nc, groups, _ in balanced(p.n, dots.nc):
            split = min(dots.split, vectors)
            update = tile_cycles(
                isa, mr, nc * split, (mr + nc) * split, vectors / split, lanes=dots.lanes
            )
            sums = sum_cycles(replace(dots, split=split), mr, nc, isa)
            cycles += tiles * groups * (update + 2.0 * vectors / dots.unroll + sums)
    return cycles


def dot_code(p: Product, dots: Dots, rows: Sequence[tuple[int, int, int]]) -> float:
    """Bytes of straight-line code of all tile shapes."""
    shapes = [mr * nc for mr, _, _ in rows for nc, _, _ in balanced(p.n, dots.nc)]
    vectors = dots.unroll + len(walk(p.k, dots)[1])
    return sum(shapes) * (8.0 * vectors + 40.0)
