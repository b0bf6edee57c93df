"""Nearest resizing of integers: whole pixels are copied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ctext.environment import offset
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.resize.op import Resize
from cannery.ops.shared.function import describe, signature
from cannery.schedule.program import Step
from cannery.schedule.schedule import (
    ConstArray,
    Estimate,
    FixedSchedule,
    Job,
    Kernel,
    Params,
    schedule,
)
from cannery.target.isa import Isa

#: Cycles of a pixel's copy, and the bytes that one cycle moves.
CALL, SPEED = 3.0, 16.0


@schedule
@dataclass(frozen=True)
class ResizeCopy(FixedSchedule):
    """See the module docstring."""

    id = "resize.copy"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if not step.alone or not isinstance(op, Resize):
            return "not a resize alone"
        x = step.anchor.inputs[0]
        if x in graph.constants or graph.types[x].dtype is DType.FLOAT32:
            return "reads a constant, or floats, which vectors move"
        return "" if op.mode == "nearest" and len(op.sizes) == 2 else "not the nearest pixel"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        type_ = graph.types[step.output]
        pixels = type_.elements / type_.shape[-1]
        return Estimate(CALL * pixels + 2.0 * type_.bytes / SPEED)

    def kernel(self, job: Job) -> Kernel:
        op, x, y = job.step.anchor.op, job.inputs[0], job.output
        assert isinstance(op, Resize)
        rows, cols = (op.samples(axis, x.shape[axis]) for axis in range(2))
        tables = [
            _table(f"{job.symbol}_y", [s.low * x.row for s in rows]),
            _table(f"{job.symbol}_x", [s.low * x.col for s in cols]),
        ]
        type_, (_, width, channels) = x.dtype.c_name, y.shape
        code = f"""{describe(job)}
{signature(job, band=True)}
{{
    for (int oh = y0; oh < y1; ++oh) {{
        const {type_} *const xr = x + ({tables[0].name}[oh]{offset(x.origin)});
        {type_} *const yr = y + (oh * {y.row}{offset(y.origin)});
        for (int ow = 0; ow < {width}; ++ow) {{
            memcpy(yr + ow * {y.col}, xr + {tables[1].name}[ow], {channels} * sizeof *yr);
        }}
    }}
}}
"""
        return Kernel(code, tuple(tables), band=1)


def _table(name: str, offsets: list[int]) -> ConstArray:
    return ConstArray(name, np.asarray(offsets, np.int32), "offset of the input")
