"""Convolution of integers: output channels in the lanes, neighbouring pixels share weights.

See `groups.py`. If the pixels of a row follow each other without a gap and there is no dilation, a
row of the window is one run of numbers; otherwise each of its pixels is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.layouts import Want
from cannery.ops.conv.geometry import ConvShape
from cannery.ops.quantized.codes import codes_of, packed_weights, why_not_codes
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.finish import make_finish
from cannery.ops.quantized.geometry import sizes, why_not_conv
from cannery.ops.quantized.groups import (
    Groups,
    in_groups,
    is_rolled,
    is_single,
    matrix_pays,
    pack_groups,
    tiles_for,
    unrolled,
)
from cannery.ops.quantized.matmul_n import FINISH, make_blocks
from cannery.ops.quantized.ordered import orders, put_in_order
from cannery.ops.quantized.ways import choose_way
from cannery.ops.shared import gemm
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.function import describe, signature
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Cycles of one iteration of a loop, and to load what the sums of a vector meet: a load. By counts
#: for a Cortex-A76, 0 chooses the same tiles for ball, pedestrian and robot_detector, 2 for the
#: last some that take 0.4 % more instructions.
LOOP, FACTORS = 1.5, 1.0


@dataclass(frozen=True)
class Runs:
    """A window as runs of `size` numbers each: `across` in each of its rows."""

    size: int
    across: int


@dataclass(frozen=True)
class Tunables:
    """A tile of `px` pixels x `nr` vectors; `unroll` as in `matmul.dense_n`, `order` as in
    `ordered.py`.
    """

    lanes: int
    px: int
    nr: int
    unroll: int
    order: str = ""


@schedule
@dataclass(frozen=True)
class QuantizedConvN(Schedule):
    """See the module docstring."""

    id = "quantized.conv_n"
    version = 2

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_conv(graph, step):
            return reason
        return "" if is_single(isa) else why_not_codes(graph, step.anchor, isa)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        s = sizes(graph, step)
        found, dtype = list[Tunables](), graph.types[step.anchor.inputs[0]].dtype
        unrolls = unrolled(isa, runs=s.kh * make_runs(s, s.ic).across)
        for lanes in gemm.widths(s.oc, isa):
            vectors = -(-s.oc // lanes)
            for px, nr in tiles_for(isa, dtype):
                tile = (lanes, min(px, s.ow), min(nr, vectors))
                found += [Tunables(*tile, unroll) for unroll in unrolls]
                found += [Tunables(*tile, unrolls[-1], o) for o in orders(isa, dtype, lanes)]
        return [as_params(t) for t in dict.fromkeys(found)]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        s = sizes(graph, step)
        size, run = Groups(graph.types[step.anchor.inputs[0]].dtype).size, make_runs(s, s.ic).size
        # Numbers after a run meet weights of 0, or none where four groups are one load.
        once = 4 * size if isa.has("lane_fma") and run % size else size
        return (Want("nhwc", s.halo, slack=-run % once),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        t = typed(Tunables, params)
        s = sizes(graph, step)
        runs = make_runs(s, s.ic)
        unroll = t.unroll
        groups = _groups(graph, step, runs, isa, t)
        cycles = code = 0.0
        for px, tiles, _ in balanced(s.ow, t.px):
            for block in make_blocks(s.oc, t.lanes, t.nr, isa):
                n = len(block.vecs)
                run = groups.tile_cycles(isa, px, n, groups.padded(runs.size))
                run += LOOP * (groups.padded(runs.size) / groups.size // unroll)
                one = s.kh * runs.across * run + FINISH * px * n / 2.0 + FACTORS * n
                cycles += tiles * block.count * one
                code += 8.0 * px * n * (unroll + FINISH)
        return Estimate(s.oh * cycles, code)

    def kernel(self, job: Job) -> Kernel:
        t = typed(Tunables, job.params)
        op, s, x = job.step.anchor.op, sizes(job.graph, job.step), job.inputs[0]
        assert isinstance(op, QuantizedConv)
        blocks = make_blocks(s.oc, t.lanes, t.nr, job.isa)
        runs = make_runs(s, x.col)
        w = weights_of(job.graph, s, runs)
        codes = codes_of(job.graph, job.step.anchor, job.isa, job.symbol)
        g = replace(_groups(job.graph, job.step, runs, job.isa, t), codes=codes)
        assert g.way
        finish = make_finish(job, op, w, g.way.starts(w, g.dtype))
        taken = runs.size + min(-runs.size % g.size, x.slack)
        code = render(
            "ops/quantized/conv_n.c.j2",
            describe=describe(job), signature=signature(job, band=True), symbol=job.symbol, s=s,
            x=x, y=job.output, g=g, finish=finish, blocks=blocks, runs=runs,
            whole=g.padded(runs.size), unroll=t.unroll,
            rolled=is_rolled(job.isa, len(w), t.nr),
            taken=taken, slack=x.slack + runs.size - taken, tiles=balanced(s.ow, t.px),
        )  # fmt: skip
        code = put_in_order(code, job.isa, t.order)
        packed = pack_groups(weights_of(job.graph, s, runs, g.size), blocks, job.isa, size=g.size)
        weights = ConstArray(f"{job.symbol}_w", packed, "weights [block][run][group][vector]")
        constants = (*packed_weights(codes, weights), *finish.constants)
        return Kernel(finish.functions + code, constants, band=1)


def weights_of(graph: Graph, s: ConvShape, runs: Runs, size: int = 0) -> NDArray[Any]:
    """[K,OC], each run in whole groups of `size` (0: those of its type)."""
    return in_groups(graph.constants[s.weight].reshape(-1, runs.size, s.oc), size)


def _groups(graph: Graph, step: Step, runs: Runs, isa: Isa, t: Tunables) -> Groups:
    x, s = step.anchor.inputs[0], sizes(graph, step)
    pays = t.lanes == 4 and matrix_pays(runs.size, s.kh * runs.across, t.nr)
    w = weights_of(graph, s, runs)
    way = choose_way(graph, x, w, isa, t.px if pays else 1)
    return Groups(graph.types[x].dtype, way, t.order)


def make_runs(s: ConvShape, pitch: int) -> Runs:
    """The window's runs; `pitch` is the distance between input pixels."""
    joined = pitch == s.ic and s.dw == 1
    return Runs(s.kw * s.ic, 1) if joined else Runs(s.ic, s.kw)
