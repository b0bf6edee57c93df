"""Resizing with channels in the lanes: each output pixel from one or four input pixels.

Positions and weights are tables, computed exactly when the code is generated. Linear weights of
rows and columns apply one after the other: a + wx*(b-a) in both rows, then the same down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cannery.ctext.environment import input_name, offset, render
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Layout
from cannery.ops.resize.op import Resize
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Cut, vector_runs
from cannery.schedule.cost import stream_cycles
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Up to this many equal vectors are written out; more become a loop.
UNROLLED = 8


@dataclass(frozen=True)
class Tunables:
    """Vectors no wider than `lanes`."""

    lanes: int


@schedule
@dataclass(frozen=True)
class ResizeDirectC(Schedule):
    """See the module docstring."""

    id = "resize.direct_c"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if len(step.anchors) != 1 or not isinstance(op, Resize) or len(op.sizes) != 2:
            return "not a 2D resize"
        x = step.anchor.inputs[0]
        if x in graph.constants or graph.types[x].dtype is not DType.FLOAT32:
            return "reads a constant, or no floats"
        return epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        channels = graph.types[step.output].shape[-1]
        widths = [w for w in isa.lanes if w == 1 or w < 2 * channels]
        return [as_params(Tunables(w)) for w in widths[::-1][:2]]

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        type_ = graph.types[step.output]
        vectors = Cut.of(type_.shape[-1], isa, typed(Tunables, params).lanes)
        pixels = type_.elements / type_.shape[-1]
        linear = isinstance(step.anchor.op, Resize) and step.anchor.op.mode == "linear"
        loads, work = (6.0, 6.0) if linear else (1.0, 0.0)
        lanes = pixels * len(vectors) * isa.widest
        return Estimate(stream_cycles(isa, lanes, loads, 1.0, work) + 3.0 * pixels)

    def kernel(self, job: Job) -> Kernel:
        op = job.step.anchor.op
        assert isinstance(op, Resize)
        ep = epilogues.build(job, job.step.anchor.output)
        x, y = job.inputs[0], job.output
        constants = [
            *_tables(job, op, 0, "y", x.shape[0], x.row),
            *_tables(job, op, 1, "x", x.shape[1], x.col),
        ]
        code = render(
            "ops/resize/direct_c.c.j2",
            x=x,
            y=y,
            linear=op.mode == "linear",
            runs=vector_runs(y.shape[2], job.isa, typed(Tunables, job.params).lanes),
            unrolled=UNROLLED,
            ep=ep,
            tensor=lambda at: lambda k: _residual(k, job.inputs[k], at),
            symbol=job.symbol,
            describe=describe(job),
            signature=signature(job, band=True),
        )
        return Kernel(code, (*constants, *ep.constants), band=1, needs_math=ep.needs_math)


def _residual(k: int, layout: Layout, at: str) -> str:
    pixel = f"oh * {layout.row} + ow * {layout.col}{offset(layout.origin)}"
    return f"{input_name(k)} + ({pixel}{at})"


def _tables(job: Job, op: Resize, axis: int, name: str, size: int, stride: int) -> list[ConstArray]:
    """Offsets of the lower and upper input of each output index, and the upper one's weight."""
    samples = op.samples(axis, size)
    low = np.asarray([s.low * stride for s in samples], np.int32)
    tables = [ConstArray(f"{job.symbol}_{name}0", low, "offset of the lower input")]
    if op.mode == "linear":
        high = np.asarray([s.high * stride for s in samples], np.int32)
        weight = np.asarray([s.weight for s in samples], np.float32)
        tables.append(ConstArray(f"{job.symbol}_{name}1", high, "offset of the upper input"))
        tables.append(ConstArray(f"{job.symbol}_{name}w", weight, "weight of the upper input"))
    return tables
