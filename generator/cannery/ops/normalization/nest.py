"""Layer, group and batch normalisation as one loop nest, over any axes.

It makes three passes over the elements that are standardised together: the mean, the mean square of
the differences, and the result. A contiguous axis is in the lanes: a kept one (each lane has its
own statistics) or a standardised one (lanes are added at the end). Batch normalisation, whose
statistics are stored, needs only the last pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ops.normalization import problem
from cannery.ops.normalization.op import BatchNormalization
from cannery.ops.normalization.problem import AFFINE, CHANNEL, RESIDUALS, Affine, Dim, X, Y
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import Loop, merge_loops, nested_pointer
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.gemm import make_blocks
from cannery.ops.shared.lanes import Vec
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class NormalizationLoops:
    """The kept loops, the loop in the lanes, and the loops that are standardised over.

    `horizontal`: the lanes belong to the standardised loops. `count` elements share their
    statistics.
    """

    outer: tuple[Loop, ...]
    reduced: tuple[Loop, ...]
    lane: Loop
    horizontal: bool
    count: int


@dataclass(frozen=True)
class Tunables:
    """All vectors have `lanes` lanes; sums take turns over `sets` accumulators."""

    lanes: int
    sets: int


@schedule
@dataclass(frozen=True)
class NormalizationNest(problem.NormalizationSchedule):
    """See the module docstring."""

    id = "normalization.nest"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        widths = [w for w in isa.lanes if w >= min(4, isa.widest)][::-1]
        return [as_params(Tunables(lanes, sets)) for lanes in widths for sets in (4, 2, 1)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        type_ = graph.types[step.anchor.output]
        p = typed(Tunables, params)
        run = problem.contiguous_run(graph, step)
        vectors = type_.elements / max(run, 1) * -(-run // p.lanes)
        passes = 1.0 if isinstance(step.anchor.op, BatchNormalization) else 3.0
        latency = isa.rates(p.lanes).latency / p.sets
        rows = type_.elements / max(run, 1)
        each = vectors * passes * max(1.5, latency) + 5.0 * vectors
        return Estimate(each + 6.0 * passes * rows, 400.0)

    def kernel(self, job: Job) -> Kernel:
        ep = epilogues.build(job, job.step.anchor.output)
        plan = make_plan(problem.dims(job, ep))
        p = typed(Tunables, job.params)
        lanes = min(p.lanes, job.isa.widest)
        affine, arrays = problem.affine(job)
        tail = plan.lane.extent % lanes
        mask = np.zeros(lanes, np.float32)
        mask[:tail] = 1.0
        symbol = f"{job.symbol}_mask"
        stored = isinstance(job.step.anchor.op, BatchNormalization)
        if plan.horizontal and tail and not stored:
            arrays = (*arrays, ConstArray(symbol, mask, "1 where the last vector is valid"))
        code = render(
            "ops/normalization/nest.c.j2",
            describe=describe(job),
            signature=signature(job),
            plan=plan,
            nested_pointer=nested_pointer,
            stored=stored,
            epsilon=problem.epsilon(job.step),
            t=f"f32x{lanes}",
            lanes=lanes,
            full=plan.lane.extent // lanes,
            full_vec=Vec(0, lanes, lanes, 0),
            tail=Vec(0, lanes, tail, 0),
            mask=symbol,
            sets=max(1, min(p.sets, plan.lane.extent // lanes)) if plan.horizontal else 1,
            blocks=make_blocks(plan.lane.extent, job.isa, lanes, p.sets, 1),
            index=index_expression,
            affine=lambda v, at, value: affine_lines(affine, plan.lane, v, at, value),
            residual=lambda at: lambda k: f"r{k} + {at}",
            X=X,
            Y=Y,
            AFFINE=AFFINE,
            CHANNEL=CHANNEL,
            RESIDUALS=RESIDUALS,
            x=job.inputs[0],
            y=job.output,
            inputs=job.inputs,
            names=parameter_names(job),
            ep=ep,
        )
        return Kernel(code, (*arrays, *ep.constants), needs_math=ep.needs_math, whole=True)


def make_plan(dims: Sequence[Dim]) -> NormalizationLoops:
    """The longest loop that is contiguous in all operands goes into the lanes."""
    kept = merge_loops([Loop(d.extent, d.strides) for d in dims if not d.reduced])
    reduced = merge_loops([Loop(d.extent, d.strides) for d in dims if d.reduced])
    count = 1
    for dim in dims:
        count *= dim.extent if dim.reduced else 1
    found = [loop for loop in (*kept, *reduced) if _contiguous(loop)]
    arity = len(dims[0].strides) if dims else RESIDUALS
    alone = Loop(1, (1, 1, 0, 0, *(1,) * (arity - RESIDUALS)))
    lane = max(found, key=lambda loop: loop.extent, default=alone)
    return NormalizationLoops(
        tuple(loop for loop in kept if loop is not lane),
        tuple(loop for loop in reduced if loop is not lane),
        lane,
        any(loop is lane for loop in reduced),
        count,
    )


def _contiguous(loop: Loop) -> bool:
    """Whether vectors of all operands can be loaded along a loop."""
    ones = {loop.strides[X], loop.strides[Y], *loop.strides[RESIDUALS:]} == {1}
    return ones and loop.strides[AFFINE] in (0, 1) and loop.strides[CHANNEL] in (0, 1)


def index_expression(plan: NormalizationLoops, operand: int) -> str:
    """C expression of an index to which all loops except the lanes contribute."""
    terms = []
    for name, loops in (("i", plan.outer), ("j", plan.reduced)):
        for number, loop in enumerate(loops):
            if loop.strides[operand]:
                terms.append(f"{name}{number} * {loop.strides[operand]}")
    return " + ".join(terms) or "0"


def affine_lines(affine: Affine, lane: Loop, v: Vec, at: str, value: str) -> list[str]:
    """Statements that scale and shift `value` in place; `k` is the index at the first lane."""
    names = {"scale": affine.scale, "bias": affine.bias}
    padded = {"scale": affine.scale_padded, "bias": affine.bias_padded}
    found = {}
    for which, pointer in names.items():
        if not pointer:
            continue
        if not lane.strides[AFFINE]:
            found[which] = f"{v.t}_load1({pointer} + k)"
        elif padded[which]:
            found[which] = f"{v.t}_load({pointer} + k + {at})"
        else:
            found[which] = v.load(f"{pointer} + k + {at}")
    if len(found) == 2:
        return [f"{value} = {v.t}_fma({value}, {found['scale']}, {found['bias']});"]
    word = {"scale": "mul", "bias": "add"}
    return [f"{value} = {v.t}_{word[w]}({value}, {load});" for w, load in found.items()]
