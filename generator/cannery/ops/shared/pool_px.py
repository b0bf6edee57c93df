"""Pooling with neighbouring output pixels in the lanes, planar in and out.

Columns whose taps are all inside go vector by vector (the last one overlaps its neighbour), those
at the border one by one. Images of one channel may also be channels last, which is the same memory
unless they are parts of a concatenation; then loads and stores are strided. `unroll` says which
loops are left: kh (none), kw (over the kernel's rows), none (over rows and columns).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.layouts import Want, nhwc, planar
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import pool
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec, VecLoop
from cannery.ops.shared.taps import load_count, store, tap_loads
from cannery.ops.shared.tiles import cover, unroll, widths
from cannery.ops.shared.window_axis import TapSpan
from cannery.schedule.cost import busy_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params
from cannery.target.isa import Isa

#: Vectors of results in line, if the window is in line.
VECTORS = 4


@dataclass(frozen=True)
class Tunables:
    """Vectors no wider than `lanes`, images in this order; else see the module docstring."""

    lanes: int
    order: str
    unroll: str


@dataclass(frozen=True)
class PoolDirectPx(pool.PoolSchedule):
    """See the module docstring."""

    version: ClassVar[int] = 2

    #: For rows where no window crosses the upper or lower border.
    movable = True

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = pool.sizes(graph, step)
        orders = (nhwc.ORDER, planar.ORDER) if shape.channels == 1 else (planar.ORDER,)
        longest = max((span.count for span in shape.cols.spans()), default=1)
        return [
            as_params(Tunables(lanes, order, unroll))
            for order in orders
            for lanes in widths(longest, isa)
            for unroll in pool.unroll_levels(shape)
        ]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        order = typed(Tunables, params).order
        return (Want(order), *(Want(order, dense=order == nhwc.ORDER) for _ in step.inputs[1:]))

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(typed(Tunables, params).order),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        p, shape = typed(Tunables, params), pool.sizes(graph, step)
        level = p.unroll
        extra = 1.0 + len(step.epilogue)
        cycles = code = 0.0
        for span in shape.cols.spans():
            for loop in _cover(span, isa, p.lanes):
                offsets = pool.tap_offsets(shape.cols, span)
                loads, work = _work(loop.vec, offsets, shape, level)
                work += extra
                looped = {"kh": -1.0, "kw": 1.0 * shape.rows.taps, "none": 2.0 * shape.taps}[level]
                each = busy_cycles(isa, work, loads, beside=1.0, lanes=loop.vec.lanes)
                cycles += loop.count * (looped + 2.0 + each)
                times = min(VECTORS, loop.count) if level == "kh" else 1
                code += 6.0 * times * (loads + work)
        total = shape.rows.out * shape.channels * (cycles + 4.0)
        total = pool.streamed_cycles(total, [planar.make(shape.input), planar.make(shape.output)])
        return Estimate(total, code * len(shape.row_versions))

    def kernel(self, job: Job) -> Kernel:
        p, shape = typed(Tunables, job.params), pool.sizes(job.graph, job.step)
        ep = epilogues.build(job, job.step.anchor.output)
        times = VECTORS if p.unroll == "kh" else 1
        code = render(
            "ops/shared/pool_px.c.j2",
            s=shape,
            p=p,
            x=job.inputs[0],
            y=job.output,
            ep=ep,
            cover=lambda span: unroll(_cover(span, job.isa, p.lanes), times),
            tap_loads=tap_loads,
            joined_halves=joined_halves,
            tap_offsets=pool.tap_offsets,
            store=lambda vec, pointer, value: store(vec, pointer, value, job.output.col),
            residual={k: job.inputs[k] for k in ep.tensors},
            residual_at=lambda k: f"r{k}",
            signature=signature(job, band=True),
            describe=describe(job),
        )
        return Kernel(code, ep.constants, band=1, needs_math=ep.needs_math)


def _cover(span: TapSpan, isa: Isa, lanes: int) -> list[VecLoop]:
    return cover(span.start, span.count, isa, lanes, narrow=True)


def _work(
    vec: Vec, offsets: Sequence[int], shape: pool.PoolShape, unroll: str
) -> tuple[float, float]:
    """Loads and operations of one vector of results."""
    rows = shape.rows.taps
    halves = joined_halves(vec, offsets, shape.cols.stride) if unroll != "none" else None
    if halves is None:
        loads, shuffles = load_count(vec.lanes, offsets, shape.cols.stride)
        return loads * rows, (shuffles + len(offsets)) * rows
    vectors = float(len(halves.columns))
    parting = vectors if vec.lanes != 8 else 2.0 * vectors
    return vectors * rows, vectors * (rows - 1) + parting + len(offsets) - 1.0


@dataclass(frozen=True)
class Pair:
    """Two neighbouring vectors of a row, the first of which is number `low`.

    `taken` are the halves, even and odd, that are taps.
    """

    low: int
    taken: frozenset[str]


@dataclass(frozen=True)
class Halves:
    """Offsets of vectors of a row, and the pairs that they make."""

    columns: tuple[int, ...]
    pairs: tuple[Pair, ...]


def joined_halves(vec: Vec, offsets: Sequence[int], stride: int) -> Halves | None:
    """The vectors that windows of stride 2 read: rows are joined before they are de-interleaved.

    None if windows have another stride, or if part of a vector would lie after the last tap.
    """
    if stride != 2 or vec.lanes == 1 or not offsets:
        return None
    columns: list[int] = []
    pairs: list[Pair] = []
    left = list(offsets)
    while left:
        at = left.pop(0)
        taken = {"even"}
        if left and left[0] == at + 1:
            left.pop(0)
            taken.add("odd")
        elif not left and at:
            at, taken = at - 1, {"odd"}
        elif not left:
            return None
        pairs.append(Pair(len(columns), frozenset(taken)))
        columns += [at, at + vec.lanes]
    return Halves(tuple(columns), tuple(pairs))
