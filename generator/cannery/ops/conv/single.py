"""Convolution with one window, output channels in the lanes: one step of a network over time.

The window is read where it lies, tap by tap, the oldest first. All but the last one are there
before the layer in front has finished, so processors multiply them while they wait for it. As one
pixel has few sums, these are split over `split` sets of accumulators to hide latency. Windows
without gaps are matrix products (`passes/conv_to_matmul.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.ir.registry import Elementwise
from cannery.layouts import Halo, Layout
from cannery.ops.conv.geometry import ConvShape, padded_bias, sizes, why_not_dense
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared import gemm
from cannery.ops.shared.function import describe, parameter_names, residual_pointer, signature
from cannery.ops.shared.gemm import Gemm, VectorBlock
from cannery.ops.shared.sums import block_steps
from cannery.ops.shared.tiles import tile_registers
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: At most this many multiply-adds of a block in line.
MAX_IN_LINE = 128

#: Instructions after the sums that wait for each other: sets are joined, then activations.
JOINING, ACTIVATION = 4.0, 12.0

#: If wide vectors have less than this share of the rate of those half as wide, cores halve them.
HALVED = 0.6


@dataclass(frozen=True)
class Tunables:
    """`nr` vectors no wider than `lanes` at a time, `unroll` inputs of a tap in line."""

    lanes: int
    nr: int
    split: int
    broadcast: str
    unroll: int


@schedule
@dataclass(frozen=True)
class ConvSingle(Schedule):
    """See the module docstring."""

    id = "conv.single"
    halves = True
    movable = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_dense(graph, step):
            return reason
        shape = sizes(graph, step)
        if (shape.oh, shape.ow) != (1, 1):
            return "several windows"
        return "padded" if shape.halo else epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = sizes(graph, step)
        found = []
        for lanes in gemm.widths(shape.oc, isa):
            vectors = -(-shape.oc // lanes)
            for nr, split in gemm.SINGLE_ROW:
                if nr * split < isa.registers:
                    tile = (lanes, min(nr, vectors), min(split, shape.ic))
                    whole = gemm.whole_tile(graph, 1, tile[1])
                    for way in gemm.broadcasts(isa, lanes, shape.ic, 1, vectors=nr, tile=whole):
                        found += [Tunables(*tile, way, n) for n in _in_line(shape, nr, split)]
        return [as_params(t) for t in dict.fromkeys(found)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        t, shape = typed(Tunables, params), sizes(graph, step)
        blocks, tiles = _blocks(shape, t, isa), [(1, 1, 0)]
        g = _gemm(shape, t, shape.taps * shape.ic, isa)
        cycles = gemm.product_cycles(isa, g, tiles, blocks) * gemm.turns_factor(t.split)
        cycles += gemm.weight_traffic(isa, g, 1, 1, blocks, outside="blocks")
        if isa.rates(t.lanes).macs < HALVED * isa.rates(t.lanes // 2).macs:
            long = [n for n in step.epilogue if isinstance(n.op, Elementwise) and n.op.needs_math]
            cycles += JOINING + ACTIVATION * len(long)  # each takes a cycle longer
        return Estimate(cycles, gemm.code_size(g, tiles, blocks))

    def kernel(self, job: Job) -> Kernel:
        t, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        blocks, x = _blocks(shape, t, job.isa), job.inputs[0]
        ep = epilogues.build(
            job, job.step.anchor.output, busy=tile_registers(1, [b.vecs for b in blocks])
        )
        g = _gemm(shape, t, shape.ic, job.isa)
        code = render(
            "ops/conv/single.c.j2",
            describe=describe(job),
            signature=signature(job, band=True),
            symbol=job.symbol,
            s=shape,
            g=g,
            every=0 if g.aside else block_steps(shape.taps, shape.ic, job.isa),
            blocks=blocks,
            x=x,
            tap=_tap(shape, x),
            y=job.output,
            inputs=job.inputs,
            names=parameter_names(job),
            ep=ep,
            bias=lambda block: [f"{v.t}_load(bk{offset(v.start)})" for v in block.vecs],
            residual_at=residual_pointer(job),
        )
        constants = (self.weights(job), padded_bias(job, shape), *ep.constants)
        return Kernel(code, constants, band=1, needs_math=ep.needs_math)

    def weights(self, job: Job) -> ConstArray:
        t, shape = typed(Tunables, job.params), sizes(job.graph, job.step)
        matrix = job.constant(shape.weight).reshape(-1, shape.oc)
        rotate = shape.ic if t.broadcast == "rotate" else 0
        packed = gemm.pack_blocks(matrix, _blocks(shape, t, job.isa), rotate=rotate)
        return ConstArray(
            f"{job.symbol}_w", packed, "weights [block][kh][kw][ic][lanes]", is_weights=True
        )

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo


def _in_line(shape: ConvShape, nr: int, split: int) -> list[int]:
    """How many inputs of a tap may be in line."""
    few = shape.ic * nr <= MAX_IN_LINE
    return list(dict.fromkeys((min(max(4, split), shape.ic), *([shape.ic] * few))))


def _gemm(shape: ConvShape, t: Tunables, k: int, isa: Isa) -> Gemm:
    """How `k` inputs are walked."""
    aside = block_steps(shape.ic // t.unroll, t.unroll, isa)
    return Gemm(k, 0, 1, 0, t.unroll, t.split, t.broadcast, aside=aside, registers=isa.registers)


def _blocks(shape: ConvShape, t: Tunables, isa: Isa) -> tuple[VectorBlock, ...]:
    return gemm.make_blocks(shape.oc, isa, t.lanes, t.nr, shape.taps * shape.ic)


def _tap(shape: ConvShape, x: Layout) -> str:
    """C: where tap `tap` begins in the window."""
    row, col = shape.dh * x.row, shape.dw * x.col
    if shape.kw == 1:
        return f"tap * {row}"
    if shape.kh == 1:
        return f"tap * {col}"
    return f"tap / {shape.kw} * {row} + tap % {shape.kw} * {col}"
