"""Mean over sliding windows of integers, channels last: channels in the lanes.

Sums are whole numbers in float32. None exceeds 2^24 (whoever makes the op proves it), so they are
exact in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from cannery.ctext.environment import offset
from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray, register
from cannery.ir.tensor import DType, TensorType
from cannery.ops.checks import operands, require, require_type
from cannery.ops.quantize.linear import quantised as saturated
from cannery.ops.quantize.stream import saturate
from cannery.ops.quantized.arithmetic import (
    STORED,
    QuantizedOp,
    by_integers,
    f32,
    largest_of,
    quantised,
)
from cannery.ops.quantized.fixed_scale import fixed_scale
from cannery.ops.quantized.scale import store_bounded
from cannery.ops.quantized.window_sums import summed_windows
from cannery.ops.shared.lanes import Vec
from cannery.ops.window import WindowOp
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa


@register
@dataclass(frozen=True)
class QuantizedAveragePool(WindowOp, QuantizedOp):
    """x[N,H,W,C] -> y[N,OH,OW,C] = float32(sum of x - x_zero) * float32(scale / taps).

    Like `AveragePool`. The result is float32; or of `dtype`, where there is a `bound`: round(y)
    clamped to +-bound, or a `zero` point: saturate(round(y) + zero).
    """

    count_include_pad: bool
    scale: float
    dtype: DType
    x_zero: int = 0
    bound: int = 0
    zero: int | None = None

    def infer(self, *inputs: TensorType | None) -> tuple[TensorType, ...]:
        """The type of y."""
        (x,), _ = operands(self, inputs, 1)
        require_type({x.dtype, self.dtype} <= set(STORED), self, f"{x} to {self.dtype.value}")
        require(x.rank == 4 and len(self.kernel) == 2, self, f"of {x} by {self.kernel}")
        limit = 2 ** (8 * self.dtype.bytes - 1)
        require(0 <= self.bound < limit, self, f"bound {self.bound} of {self.dtype.value}")
        sizes = self.sizes(x.shape[1:-1], padding_alone=self.count_include_pad)
        whole = self.bound or self.zero is not None
        dtype = self.dtype if whole else DType.FLOAT32
        return (TensorType((x.shape[0], *sizes, x.shape[-1]), dtype),)

    def reference(self, *inputs: RefArray | None) -> tuple[RefArray, ...]:
        """Sums in int64, tap by tap."""
        (x,), _ = operands(self, inputs, 1)
        inside = np.ones((1, *x.shape[1:-1], 1), np.int64)
        count = prod(self.kernel) if self.count_include_pad else self.sums(inside)
        sums = f32(self.sums(x.astype(np.int64) - self.x_zero))
        y = f32(sums * f32(self.scale / np.asarray(count, np.float64)))
        if self.zero is not None:
            return (saturated(y, np.asarray(self.zero, self.dtype.numpy)),)
        return (quantised(y, self.bound, self.dtype) if self.bound else y,)


@schedule
@dataclass(frozen=True)
class QuantizedAveragePoolC(FixedSchedule):
    """See the module docstring."""

    id = "quantized.average_pool"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        fits = step.alone and isinstance(step.anchor.op, QuantizedAveragePool)
        return "" if fits else "not a mean of integers alone"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        op, elements = step.anchor.op, graph.types[step.output].elements
        assert isinstance(op, QuantizedAveragePool)
        vectors = elements / max(isa.widest, 1)
        return Estimate(vectors * (3.0 * prod(op.kernel) + 8.0) / isa.rates().arithmetic)

    def kernel(self, job: Job) -> Kernel:
        op = job.step.anchor.op
        assert isinstance(op, QuantizedAveragePool)

        def finish(v: Vec, taps: int, total: str, pointer: str) -> list[str]:
            return _finish(job, op, taps, v, total, pointer)

        return summed_windows(job, finish)


def _finish(
    job: Job, op: QuantizedAveragePool, taps: int, v: Vec, total: str, pointer: str
) -> list[str]:
    """Statements that store the results of a vector of sums."""
    count = prod(op.kernel) if op.count_include_pad else taps
    less = taps * op.x_zero
    if by_integers(job.isa):
        total = f"({total}{offset(-less)})" if less else total
        if lines := _fixed(job, op, taps, total, pointer, op.scale / count):
            return lines
        total = f"{v.t}_from_i32({total})"
    elif less:
        total = f"{v.t}_sub({total}, {v.t}_set1({c_float(float(less))}))"
    found = [f"{v.t} v = {v.t}_mul({total}, {v.t}_set1({c_float(op.scale / count)}));"]
    if op.zero is not None:
        return [*found, *saturate(v, "v", pointer, op.zero, op.dtype)]
    if op.bound:
        return [*found, store_bounded(v, "v", pointer, op.bound, op.dtype, job.isa, finite=True)]
    return [*found, v.store(pointer, "v")]


def _fixed(
    job: Job, op: QuantizedAveragePool, taps: int, total: str, pointer: str, scale: float
) -> list[str]:
    """The same for a sum without floats, where these are slow; empty if that cannot be."""
    if not job.isa.has("soft_float") or not (op.bound or op.zero is not None):
        return []
    info, zero = np.iinfo(op.dtype.value), op.zero or 0
    low, high = (-op.bound, op.bound) if op.bound else (int(info.min), int(info.max))
    largest = np.array([taps * (largest_of(job.inputs[0].dtype) + abs(op.x_zero))])
    scales, none = np.array([scale], np.float32), np.zeros(1, np.float32)
    fixed = fixed_scale(largest, scales, none, low - zero, high - zero)
    if fixed is None:
        return []
    floats = f"f32x1_mul(f32x1_from_i32({total}), {c_float(scale)})"
    return [
        *fixed.lines(
            total, str(fixed.factors[0]), str(fixed.offsets[0]), f"f32x1_to_i32_round({floats})"
        ),
        f"*({pointer}) = ({op.dtype.c_name})cannery_held(whole{offset(zero)}, {low}, {high});",
    ]
