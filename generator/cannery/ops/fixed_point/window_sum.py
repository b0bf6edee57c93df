"""Sums over sliding windows of bytes, less a number, times a factor: means, most of all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_type
from cannery.ops.fixed_point.arithmetic import Factor, by_factor
from cannery.ops.fixed_point.store import small_product, store_held
from cannery.ops.quantized.arithmetic import BYTES, QuantizedOp, by_integers
from cannery.ops.quantized.window_sums import summed_windows
from cannery.ops.shared.lanes import Vec
from cannery.ops.window import WindowOp
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: Most taps: sums of so many bytes are exact in float32.
MOST_TAPS = 2**15

#: The shifts of factors: with the zero point, what is added before a shift fits int32.
SHIFTS = range(-20, 0)


@register
@dataclass(frozen=True)
class FixedWindowSum(WindowOp, QuantizedOp):
    """x[N,H,W,C] of bytes -> y[N,OH,OW,C] = zero + f (sum of a window - less), clamped.

    Windows have no padding; f rounds as `arithmetic` says.
    """

    dtype: DType
    zero: int
    minimum: int
    maximum: int
    less: int
    factor: Factor

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The shape of the windows, in `dtype`."""
        (x,), _ = operands(self, inputs, 1)
        require_type({x.dtype, self.dtype} <= set(BYTES), self, f"{x} to {self.dtype.value}")
        require(x.rank == 4 and len(self.kernel) == 2, self, f"of {x} by {self.kernel}")
        require(prod(self.kernel) <= MOST_TAPS, self, f"a window of {self.kernel}")
        require(not any(map(any, self.pads)), self, f"padding {self.pads}")
        require(abs(self.less) <= 2**24, self, f"less {self.less}")
        info = np.iinfo(self.dtype.value)
        held = info.min <= self.minimum <= self.maximum <= info.max
        require(held, self, f"{self.minimum} to {self.maximum} as {self.dtype.value}")
        require(info.min <= self.zero <= info.max, self, f"a zero point of {self.zero}")
        sound = 0 <= self.factor.multiplier < 2**31 and self.factor.shift in SHIFTS
        require(sound, self, f"a factor of {self.factor}")
        return (TensorType((x.shape[0], *self.sizes(x.shape[1:-1]), x.shape[-1]), self.dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """In int64."""
        (x,), _ = operands(self, inputs, 1)
        found = by_factor(self.sums(x.astype(np.int64)) - self.less, self.factor) + self.zero
        return (np.clip(found, self.minimum, self.maximum).astype(self.dtype.numpy),)


@schedule
@dataclass(frozen=True)
class FixedWindowSumC(FixedSchedule):
    """Channels in the lanes; sums of floats become integers before the factor."""

    id = "fixed_point.window_sum"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        fits = step.alone and isinstance(step.anchor.op, FixedWindowSum)
        return "" if fits else "not a sum of bytes over windows alone"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        op, elements = step.anchor.op, graph.types[step.output].elements
        assert isinstance(op, FixedWindowSum)
        vectors = elements / isa.widest
        return Estimate(vectors * (3.0 * prod(op.kernel) + 16.0) / isa.rates().arithmetic)

    def kernel(self, job: Job) -> Kernel:
        op = job.step.anchor.op
        assert isinstance(op, FixedWindowSum)
        held = op.minimum, op.maximum

        def finish(v: Vec, taps: int, total: str, pointer: str) -> list[str]:
            t = f"i32x{v.lanes}"
            whole = total if by_integers(job.isa) else f"{v.t}_to_i32({total})"
            centred = f"{t}_sub({whole}, {t}_set1({op.less}))" if op.less else whole
            value = small_product(t, centred, op.factor, op.zero)
            return [f"{t} v = {value};", *store_held(v, job.output.dtype, held, pointer)]

        return replace(summed_windows(job, finish), needs_fixed=True)
