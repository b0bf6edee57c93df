"""Means over sliding windows of integers: the sum by the number of taps, halves away from zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import TensorType
from cannery.ops.checks import operands, require, require_type
from cannery.ops.fixed_point.arithmetic import QUANTISED
from cannery.ops.fixed_point.store import store_held
from cannery.ops.quantized.arithmetic import BYTES, QuantizedOp
from cannery.ops.quantized.window_sums import summed_windows
from cannery.ops.quantized.windows import tap_offsets, window_kernel
from cannery.ops.shared.lanes import Vec
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
class FixedAveragePoolC(FixedSchedule):
    """Of bytes, channels in the lanes. Sums of 2^15 bytes are exact in float32, and a quotient of
    them that is rounded stays on its side of an integer: it is below 2^8 and the divisor at most
    2^15, so no other quotient is nearer to the integer than 2^-15, more than its half unit.
    """

    id = "fixed_point.average_pool_c"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not step.alone or not isinstance(step.anchor.op, FixedAveragePool):
            return "not a mean of integers alone"
        if graph.types[step.output].dtype not in BYTES:
            return "not of bytes"
        return "" if isa.widest > 1 else "needs vectors"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        op, elements = step.anchor.op, graph.types[step.output].elements
        assert isinstance(op, FixedAveragePool)
        vectors = elements / isa.widest
        return Estimate(vectors * (3.0 * prod(op.kernel) + 12.0) / isa.rates().arithmetic)

    def kernel(self, job: Job) -> Kernel:
        op = job.step.anchor.op
        assert isinstance(op, FixedAveragePool)

        def finish(v: Vec, taps: int, total: str, pointer: str) -> list[str]:
            t, half = v.t, c_float(float(taps // 2))
            rounded = f"{t}_add({total}, {t}_copysign({t}_set1({half}), {total}))"
            quotient = f"{t}_div({rounded}, {t}_set1({c_float(float(taps))}))"
            held = op.minimum, op.maximum
            return [
                f"i32x{v.lanes} v = {t}_to_i32({quotient if taps > 1 else total});",
                *store_held(v, job.output.dtype, held, pointer),
            ]

        return replace(summed_windows(job, finish), needs_fixed=True)


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
        return Estimate((1.5 * taps + 8.0) * graph.types[step.output].elements)

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
