"""Functions of int16 by tables, between whose entries lines are drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_type
from cannery.ops.quantize.stream import streamed
from cannery.ops.quantized.arithmetic import QuantizedOp, f32, quantised
from cannery.ops.quantized.scale import store_bounded
from cannery.ops.quantized.table import MOST_PIECES, Table
from cannery.ops.shared.lanes import Vec
from cannery.schedule.cost import stream_cycles
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


@register
@dataclass(frozen=True)
class TableFunction(QuantizedOp):
    """x int16, entries int32[pieces] of a `Table` -> gain * (its result at factor * x).

    All of it in float32, rounded once per operation. Results are int16, rounded and clamped to
    +-bound, or float32 if `bound` is 0.
    """

    factor: float
    gain: float
    bound: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of x; raises ModelError for other types, or a table of another length."""
        (x, entries), _ = operands(self, inputs, 2)
        fits = x.dtype is DType.INT16 and entries.dtype is DType.INT32
        require_type(fits, self, f"{x.dtype.value} by {entries.dtype.value}")
        pieces = entries.elements
        sound = entries.rank == 1 and 2 <= pieces <= MOST_PIECES and not pieces & (pieces - 1)
        require(sound, self, f"a table of {entries}")
        require(0 <= self.bound < 2**15, self, f"bound {self.bound} of int16")
        return (TensorType(x.shape, DType.INT16 if self.bound else DType.FLOAT32),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """As generated code computes it."""
        (x, entries), _ = operands(self, inputs, 2)
        table = Table(np.asarray(entries, np.int32), 1.0, 0.0)
        steps = f32(f32(x) * np.float32(self.factor))
        results = f32(table.lookup(steps) * np.float32(self.gain))
        return (quantised(results, self.bound, DType.INT16) if self.bound else results,)


@schedule
@dataclass(frozen=True)
class TableFunctionStream(FixedSchedule):
    """One pass, vector by vector where elements are contiguous."""

    id = "quantized.function"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not step.alone or not isinstance(step.anchor.op, TableFunction):
            return "not a function of integers"
        x, entries = step.anchor.inputs
        fits = entries in graph.constants and x not in graph.constants
        return "" if fits else "only its table must be constant"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(stream_cycles(isa, graph.types[step.output].elements, 1.0, 1.0, 24.0))

    def kernel(self, job: Job) -> Kernel:
        op, (_, entries) = job.step.anchor.op, job.step.anchor.inputs
        assert isinstance(op, TableFunction)
        name = f"{job.symbol}_table"
        table = Table(np.asarray(job.graph.constants[entries], np.int32), 1.0, 0.0)

        def statements(v: Vec, at: str) -> list[str]:
            steps = f"{v.t}_mul({v.load(f'xr{at}', DType.INT16)}, {v.t}_set1({c_float(op.factor)}))"
            found = table.c(name, v.t, "steps")
            lines = [
                f"const {v.t} steps = {steps};",
                f"const {v.t} v = {v.t}_mul({found}, {v.t}_set1({c_float(op.gain)}));",
            ]
            if not op.bound:
                return [*lines, v.store(f"yr{at}", "v")]
            return [*lines, store_bounded(v, "v", f"yr{at}", op.bound, DType.INT16, job.isa)]

        comment = f"{len(table.entries)} pieces of a function, lines between them"
        array = ConstArray(name, table.entries, comment, is_table=True)
        return Kernel(streamed(job, statements), (array,), whole=True)
