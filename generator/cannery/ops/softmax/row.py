"""Softmax and LogSoftmax along the last axis: its elements in the lanes, row after row.

It is stable: the maximum is subtracted first. A row that fits is kept in registers; a longer one
takes three passes: maximum, exponentials (stored) and their sum, scaling. A partial vector is
padded with -infinity, whose exponential is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import Loop, axis_strides, merge_loops, nested_pointer
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.lanes import Vec
from cannery.ops.softmax.op import LogSoftmax, Softmax
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Instructions of one vector of exponentials.
EXP_WORK = 16.0

#: The least argument of an exponential: e^-80 is negligible in a sum of at least 1, and large
#: enough that no result is subnormal, which would cost processors a hundred cycles or more.
LEAST = -80.0

#: Accumulators of a pass over a long row.
CHAINS = 4


def why_not_softmax(graph: Graph, step: Step) -> str:
    """Why a step is not a softmax of an activation; empty if it is."""
    if len(step.anchors) != 1 or not isinstance(step.anchor.op, (Softmax, LogSoftmax)):
        return "not a softmax"
    if not step.inputs or step.anchor.inputs[0] in graph.constants:
        return "reads constants only"
    return epilogues.why_not(step)


def along_last(graph: Graph, step: Step) -> bool:
    """Whether a softmax is one along the last axis."""
    op = step.anchor.op
    assert isinstance(op, (Softmax, LogSoftmax))
    return op.axis == graph.types[step.anchor.output].rank - 1


@dataclass(frozen=True)
class Tunables:
    """All vectors have `lanes` lanes."""

    lanes: int


@schedule
@dataclass(frozen=True)
class SoftmaxRow(Schedule):
    """See the module docstring."""

    id = "softmax.row"
    version = 2

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_softmax(graph, step):
            return reason
        return "" if along_last(graph, step) else "not along the last axis"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        length = graph.types[step.anchor.output].shape[-1]
        found = [w for w in isa.lanes if w < 2 * length] or [1]
        if isa.widest >= 4:
            found = [w for w in found if w >= 4] or [4]
        return [as_params(Tunables(lanes)) for lanes in reversed(found)]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        type_ = graph.types[step.anchor.output]
        lanes, length = typed(Tunables, params).lanes, type_.shape[-1]
        vectors = -(-length // lanes)
        row = vectors * (EXP_WORK + 8.0) / isa.rates(lanes).arithmetic + 12.0  # rows overlap
        code = (vectors if vectors <= _kept(isa) else 6) * (EXP_WORK + 8.0) * 6.0
        return Estimate(type_.elements / max(length, 1) * row, code)

    def in_place(self, step: Step) -> bool:
        return not step.reads_again

    def kernel(self, job: Job) -> Kernel:
        anchor = job.step.anchor
        type_ = job.type(anchor.output)
        ep = epilogues.build(job, anchor.output)
        lanes, length = typed(Tunables, job.params).lanes, type_.shape[-1]
        layouts = (job.inputs[0], job.output, *(job.inputs[k] for k in ep.tensors))
        strides = [axis_strides(type_, layout)[:-1] for layout in layouts]
        loops = merge_loops(
            [Loop(d, tuple(s[k] for s in strides)) for k, d in enumerate(type_.shape[:-1])]
        )
        tail = np.full(lanes, -np.inf, np.float32)
        tail[: length % lanes] = 0.0
        symbol = f"{job.symbol}_tail"
        code = render(
            "ops/softmax/row.c.j2",
            describe=describe(job),
            signature=signature(job, stops=job.rows_stop),
            stops=job.rows_stop,
            loops=loops,
            nested_pointer=nested_pointer,
            vecs=[Vec(at, lanes, min(lanes, length - at), at) for at in range(0, length, lanes)],
            keep=-(-length // lanes) <= _kept(job.isa),
            chains=CHAINS,
            t=f"f32x{lanes}",
            lanes=lanes,
            tail=symbol,
            log=isinstance(anchor.op, LogSoftmax),
            least=LEAST,
            x=job.inputs[0],
            y=job.output,
            inputs=job.inputs,
            names=parameter_names(job),
            ep=ep,
            residual=lambda at: lambda k: f"r{k} + {at}",
        )
        extra = (ConstArray(symbol, tail, "0, then -infinity"),) if length % lanes else ()
        return Kernel(
            code, (*extra, *ep.constants), needs_math=True, whole=True, stops=job.rows_stop
        )


def _kept(isa: Isa) -> int:
    """Vectors of a row that stay in registers; exp needs some too."""
    return isa.registers // 2
