"""Softmax and LogSoftmax along any axis, another axis in the lanes.

Each lane is a separate row, so nothing is summed across lanes: maximum, exponentials and their sum,
scaling. Few elements stay in registers; two take only one exponential. Along the channels of a
planar image, or along rows and columns, neighbours in the lanes are neighbours in memory. Two or
four contiguous elements are loaded as vectors and sorted in registers. Otherwise lanes are gathered
by stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.layouts import Layout, Want, nhwc, planar
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import Loop, axis_strides, merge_loops, nested_pointer
from cannery.ops.shared.epilogue import Epilogue
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.lanes import Vec, vector_runs
from cannery.ops.softmax.op import LogSoftmax, Softmax
from cannery.ops.softmax.row import EXP_WORK, LEAST, along_last, why_not_softmax
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class SoftmaxLoops:
    """Loops around the lanes, the loop in the lanes, and the strides of the softmax axis."""

    outer: tuple[Loop, ...]
    lane: Loop
    extent: int
    strides: tuple[int, ...]

    @property
    def contiguous(self) -> bool:
        """Whether all operands are contiguous along the lanes."""
        return set(self.lane.strides) == {1}


@dataclass(frozen=True)
class Tunables:
    """The order of all operands."""

    order: str


@schedule
@dataclass(frozen=True)
class SoftmaxAcross(Schedule):
    """See the module docstring."""

    id = "softmax.across"
    version = 3

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_softmax(graph, step):
            return reason
        residual = len(step.inputs) > 1 and along_last(graph, step)
        return "a residual along the last axis" if residual else ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        type_ = graph.types[step.anchor.output]
        either = type_.rank >= 3 and len(step.inputs) == 1
        orders = (nhwc.ORDER, planar.ORDER) if either else (nhwc.ORDER,)
        return [as_params(Tunables(order)) for order in orders]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return tuple(Want(typed(Tunables, params).order) for _ in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(typed(Tunables, params).order),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        op, type_ = step.anchor.op, graph.types[step.anchor.output]
        assert isinstance(op, (Softmax, LogSoftmax))
        extent = type_.shape[op.axis]
        rows = type_.elements / max(extent, 1)
        vectors = -(-rows // isa.widest)
        exp = EXP_WORK / isa.rates().arithmetic
        code = 6.0 * EXP_WORK * min(extent, 8)
        if extent == 2 and isinstance(op, Softmax):
            return Estimate(vectors * (exp + 8.0), code / 2)
        per_vector = exp + 5.0
        if typed(Tunables, params).order == nhwc.ORDER and op.axis == type_.rank - 1:
            per_vector += 4.0 * (1 if extent == 4 else isa.widest)
        return Estimate(vectors * (extent * per_vector + 20.0), code)

    def in_place(self, step: Step) -> bool:
        return not step.reads_again

    def kernel(self, job: Job) -> Kernel:
        ep = epilogues.build(job, job.step.anchor.output)
        plan = _plan(job, ep)
        widest = max(min(job.isa.widest, plan.lane.extent), min(4, job.isa.widest))
        if plan.lane.extent == 1:
            widest = 1
        code = render(
            "ops/softmax/across.c.j2",
            describe=describe(job),
            signature=signature(job),
            plan=plan,
            nested_pointer=nested_pointer,
            runs=vector_runs(plan.lane.extent, job.isa, widest, partial=plan.contiguous),
            keep=plan.extent <= job.isa.registers // 2,
            load=_load,
            store=_store,
            channel=_channel(plan),
            lane_is_channel=plan.lane.channel,
            values=[f"v{a}" for a in range(plan.extent)],
            pair=plan.extent == 2 and isinstance(job.step.anchor.op, Softmax),
            log=isinstance(job.step.anchor.op, LogSoftmax),
            least=LEAST,
            x=job.inputs[0],
            y=job.output,
            inputs=job.inputs,
            names=parameter_names(job),
            ep=ep,
            residual=lambda a: lambda k: f"r{k} + {a} * {plan.strides[2 + ep.tensors.index(k)]}",
        )
        return Kernel(code, ep.constants, needs_math=True, whole=True)


def _plan(job: Job, ep: Epilogue) -> SoftmaxLoops:
    """The longest contiguous loop goes into the lanes; without one, the longest, if nothing forbids
    it.

    Residuals are read as whole vectors, so they forbid strides in the lanes.
    """
    anchor = job.step.anchor
    type_ = job.type(anchor.output)
    assert isinstance(anchor.op, (Softmax, LogSoftmax))
    layouts: tuple[Layout, ...] = (
        job.inputs[0],
        job.output,
        *(job.inputs[k] for k in ep.tensors),
    )
    strides = [axis_strides(type_, layout) for layout in layouts]
    per_channel = any(o.kind == "channel" for stage in ep.stages for o in stage.operands)
    last = type_.rank - 1
    loops = [
        Loop(d, tuple(s[k] for s in strides), channel=per_channel and k == last)
        for k, d in enumerate(type_.shape)
    ]
    axis = loops.pop(anchor.op.axis)
    loops = merge_loops(sorted(loops, key=lambda loop: -loop.strides[1]))
    ones = (1,) * len(strides)
    found = [loop for loop in loops if loop.strides == ones]
    if not found and not ep.tensors:
        found = loops
    lane = max(found, key=lambda loop: loop.extent, default=Loop(1, ones))
    outer = tuple(loop for loop in loops if loop is not lane)
    return SoftmaxLoops(outer, lane, axis.extent, axis.strides)


def _channel(plan: SoftmaxLoops) -> str:
    """C expression of the channel index; `a` if the softmax axis itself is the channel."""
    if plan.lane.channel:
        return "i"
    return next((f"i{k}" for k, loop in enumerate(plan.outer) if loop.channel), "a")


def _load(vec: Vec, pointer: str, stride: int) -> str:
    if stride == 1:
        return vec.load(pointer)
    return f"{vec.t}_load_stride({pointer}, {stride})"


def _store(vec: Vec, pointer: str, stride: int, value: str) -> str:
    if stride == 1:
        return vec.store(pointer, value)
    return f"{vec.t}_store_stride({pointer}, {stride}, {value});"
