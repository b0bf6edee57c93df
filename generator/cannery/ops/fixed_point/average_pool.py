"""Means over sliding windows of integers: the sum by the number of taps, halves away from zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_type
from cannery.ops.fixed_point.arithmetic import QUANTISED
from cannery.ops.quantized.arithmetic import QuantizedOp
from cannery.ops.quantized.windows import tap_offsets, window_kernel
from cannery.ops.shared.window_axis import TapSpan
from cannery.ops.window import WindowOp
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: Most taps: sums of 16 bits fit int32.
_MOST_TAPS = 2**15


@register
@dataclass(frozen=True)
class FixedAveragePool(WindowOp, QuantizedOp):
    """x[N,H,W,C] -> y[N,OH,OW,C] of the same type, clamped; padding does not count."""

    minimum: int
    maximum: int

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y."""
        (x,), _ = operands(self, inputs, 1)
        require_type(x.dtype in QUANTISED, self, f"of {x.dtype.value}")
        require(x.rank == 4 and len(self.kernel) == 2, self, f"of {x} by {self.kernel}")
        require(prod(self.kernel) <= _MOST_TAPS, self, f"a window of {self.kernel}")
        info = np.iinfo(x.dtype.value)
        held = info.min <= self.minimum <= self.maximum <= info.max
        require(held, self, f"{self.minimum} to {self.maximum} as {x.dtype.value}")
        return (TensorType((x.shape[0], *self.sizes(x.shape[1:-1]), x.shape[-1]), x.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In int64."""
        (x,), _ = operands(self, inputs, 1)
        count = self.sums(np.ones((1, *x.shape[1:-1], 1), np.int64))
        total = self.sums(x.astype(np.int64))
        means = np.sign(total) * ((np.abs(total) + count // 2) // count)
        return (np.clip(means, self.minimum, self.maximum).astype(x.dtype),)


@schedule
@dataclass(frozen=True)
class FixedAveragePoolPlain(FixedSchedule):
    """In plain C that compilers vectorise; pixels with the same taps inside are one loop."""

    id = "fixed_point.average_pool"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        fits = step.alone and isinstance(step.anchor.op, FixedAveragePool)
        return "" if fits else "not a mean of integers alone"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        op = step.anchor.op
        assert isinstance(op, FixedAveragePool)
        taps = prod(op.kernel)
        return Estimate((taps + 8.0) * graph.types[step.output].elements / max(isa.widest, 1))

    def kernel(self, job: Job) -> Kernel:
        op, channels = job.step.anchor.op, job.inputs[0].shape[2]
        assert isinstance(op, FixedAveragePool)
        low, high, dtype = op.minimum, op.maximum, job.output.dtype.c_name

        def pixel(row: TapSpan, col: TapSpan) -> Iterator[str]:
            taps = row.taps * col.taps
            yield f"for (int c = 0; c < {channels}; ++c) {{"
            yield "int32_t v = 0;"
            yield from _summed(job, row, col)
            yield f"v = (v > 0 ? v + {taps // 2} : v - {taps // 2}) / {taps};"
            yield f"o[c] = ({dtype})(v < {low} ? {low} : v > {high} ? {high} : v);"
            yield "}"

        return window_kernel(job, pixel)


#: Windows with more taps are loops.
_UNROLLED = 16


def _summed(job: Job, row: TapSpan, col: TapSpan) -> Iterator[str]:
    """Statements that add the taps of channel c to v."""
    if row.taps * col.taps <= _UNROLLED:
        yield from (f"v += t[c{at}];" for at in tap_offsets(job, row, col))
        return
    x = job.inputs[0]
    yield f"for (int i = 0; i < {row.taps}; ++i) {{"
    yield f"for (int j = 0; j < {col.taps}; ++j) {{"
    yield f"v += t[c + i * {x.row} + j * {x.col}];"
    yield "}"
    yield "}"
