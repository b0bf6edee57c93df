"""Reductions over any axes as one loop nest, for any affine layout.

If a kept axis is contiguous (the channels of NHWC under global pooling), it is in the lanes and
every lane is an output. If a reduced axis is (a whole plane), the lanes are added at the end. `nv`
vectors of outputs and `split` sets of accumulators hide latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Layout, Want, nhwc, planar
from cannery.ops.reduce.kinds import MAXIMUM, Kind, kind_of
from cannery.ops.reduce.op import Reduction
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import Loop, axis_strides, merge_loops, nested_pointer
from cannery.ops.shared.epilogue import Epilogue
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.gemm import VectorBlock, make_blocks
from cannery.ops.shared.lanes import Vec
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: (vectors of outputs, sets of accumulators).
SHAPES = ((1, 4), (1, 8), (2, 4), (4, 1), (4, 2), (8, 1), (16, 1))


@dataclass(frozen=True)
class ReduceLoops:
    """Loops over outputs, the kept loop in the lanes, and the reduced loops.

    Kept strides are those of x, y and the residuals, reduced strides those of x. If `horizontal`,
    the innermost reduced loop is contiguous and in the lanes, and `lane` is one output.
    """

    outer: tuple[Loop, ...]
    lane: Loop
    reduced: tuple[Loop, ...]
    inner: Loop
    horizontal: bool
    count: int


@dataclass(frozen=True)
class Tunables:
    """The order of the input; see `SHAPES`."""

    order: str
    nv: int
    split: int


@schedule
@dataclass(frozen=True)
class ReduceNest(Schedule):
    """See the module docstring."""

    id = "reduce.nest"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if len(step.anchors) != 1 or kind_of(step.anchor.op) is None:
            return "not a reduction"
        if not step.inputs or step.anchor.inputs[0] in graph.constants:
            return "reads constants only"
        if graph.types[step.anchor.output].dtype is not DType.FLOAT32:
            return "element type"
        return epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        type_ = graph.types[step.anchor.inputs[0]]
        orders = (nhwc.ORDER, planar.ORDER) if type_.rank >= 3 else (nhwc.ORDER,)
        return [
            as_params(Tunables(order, nv, split))
            for order in orders
            for nv, split in SHAPES
            if nv * split < isa.registers
        ]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(typed(Tunables, params).order), *(Want("nhwc") for _ in step.inputs[1:]))

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        x, y = graph.types[step.anchor.inputs[0]], graph.types[step.anchor.output]
        op = step.anchor.op
        assert isinstance(op, Reduction)
        width = x.shape[-1] if x.rank else 1
        p = typed(Tunables, params)
        last_kept = x.rank - 1 not in op.axes
        vertical = last_kept and p.order == nhwc.ORDER
        run = width if p.order == nhwc.ORDER else x.elements // max(width, 1)
        used = max(min(p.nv, -(-width // isa.widest)), 1) if vertical else 1
        filled = run / (-(-run // isa.widest) * isa.widest) if run else 1.0
        vectors = x.elements / isa.widest / filled
        each = max(0.5, isa.rates().latency / (used * p.split)) + 0.2
        outputs = y.elements / (isa.widest if vertical else 1)
        finish = outputs * (4.0 + p.split + (0.0 if vertical else 12.0))
        exps = 12.0 * vectors if MAXIMUM is not kind_of(op) and _kind(step).exp else 0.0
        return Estimate(vectors * each + finish + exps, 12.0 * p.nv * p.split)

    def kernel(self, job: Job) -> Kernel:
        ep = epilogues.build(job, job.step.anchor.output)
        plan = _plan(job, ep)
        kind = _kind(job.step)
        widest = job.isa.widest
        p = typed(Tunables, job.params)
        nv = 1 if plan.horizontal else p.nv
        code = render(
            "ops/reduce/nest.c.j2",
            describe=describe(job),
            signature=signature(job),
            plan=plan,
            blocks=make_blocks(plan.lane.extent, job.isa, widest, nv, 1),
            nested_pointer=nested_pointer,
            kind=kind,
            maximum=MAXIMUM,
            split=_sets(p.split, plan, widest),
            lanes=widest if plan.inner.extent >= widest else min(4, widest),
            channel=_channel(plan),
            across=plan.lane.channel,
            x=job.inputs[0],
            y=job.output,
            inputs=job.inputs,
            names=parameter_names(job),
            ep=ep,
            residual=lambda at: lambda k: f"r{k} + {at}",
            one=VectorBlock((Vec(0, 1, 1, 0),), 0, 1, 0, 1),
        )
        math = kind.exp or ep.needs_math
        return Kernel(code, ep.constants, needs_math=math, whole=True)


def _kind(step: Step) -> Kind:
    kind = kind_of(step.anchor.op)
    assert kind is not None
    return kind


def _sets(split: int, plan: ReduceLoops, lanes: int) -> int:
    """As many sets of accumulators as there are steps."""
    steps = plan.inner.extent // lanes if plan.horizontal else plan.inner.extent
    return max(1, min(split, steps))


def _plan(job: Job, ep: Epilogue) -> ReduceLoops:
    """Which axes are loops, and which one is in the lanes."""
    anchor = job.step.anchor
    op = anchor.op
    assert isinstance(op, Reduction)
    x, y = job.type(anchor.inputs[0]), job.type(anchor.output)
    xs = axis_strides(x, job.inputs[0])
    outputs = [axis_strides(y, layout) for layout in (job.output, *_residuals(job, ep))]
    kept = [k for k in range(x.rank) if k not in op.axes]
    at = kept if op.keepdims else range(len(kept))
    per_channel = any(o.kind == "channel" for stage in ep.stages for o in stage.operands)
    loops = [
        Loop(x.shape[k], (xs[k], *(s[j] for s in outputs)), per_channel and j == y.rank - 1)
        for k, j in zip(kept, at, strict=True)
    ]
    loops = merge_loops(sorted(loops, key=lambda loop: -loop.strides[1]))
    reduced = [Loop(x.shape[k], (xs[k],)) for k in op.axes]
    reduced = merge_loops(sorted(reduced, key=lambda loop: -loop.strides[0]))
    ones = (1,) * (1 + len(outputs))
    found = [loop for loop in loops if loop.strides == ones]
    lane = max(found, key=lambda loop: loop.extent, default=Loop(1, ones))
    inner = reduced.pop() if reduced else Loop(1, (0,))
    horizontal = not found and inner.strides == (1,)
    outer = tuple(loop for loop in loops if loop is not lane)
    count = x.elements // max(y.elements, 1)
    return ReduceLoops(outer, lane, tuple(reduced), inner, horizontal, count)


def _residuals(job: Job, ep: Epilogue) -> list[Layout]:
    return [job.inputs[k] for k in ep.tensors]


def _channel(plan: ReduceLoops) -> str:
    """C expression of the channel index of the first lane."""
    if plan.lane.channel:
        return "c"
    return next((f"i{k}" for k, loop in enumerate(plan.outer) if loop.channel), "0")
