"""Sums and products of two quantised tensors of one shape, vector by vector.

Numbers less their zero points become integers by way of floats, which hold them exactly. See
vec_fixed.h for the words.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import Factor
from cannery.ops.fixed_point.pointwise import FixedProduct, FixedSum
from cannery.ops.fixed_point.store import store_held
from cannery.ops.quantize.stream import streamed
from cannery.ops.shared.lanes import Vec
from cannery.schedule.cost import stream_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: The least shift to the right of a result, and the largest number that is added before it.
_LEAST, _MOST = 1, 2**29


def _last(op: FixedSum | FixedProduct) -> Factor:
    return op.factors[2] if isinstance(op, FixedSum) else op.factor


@schedule
@dataclass(frozen=True)
class FixedPairs(FixedSchedule):
    """See the module docstring."""

    id = "fixed_point.pairs"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op, types = step.anchor.op, graph.types
        if not step.alone or not isinstance(op, FixedSum | FixedProduct):
            return "not two quantised tensors alone"
        shape = types[step.output].shape
        values = step.anchor.inputs
        if any(v in graph.constants or types[v].shape != shape for v in values):
            return "shapes differ, or one is a constant"
        if isinstance(op, FixedProduct) and any(types[v].dtype is DType.INT16 for v in values):
            return "products of int16"
        right = -_last(op).shift
        more = (1 + 2 * abs(op.zero)) << max(right - 1, 0)
        return "" if right >= _LEAST and more < _MOST else "a factor of 1/2 or more, or tiny"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(stream_cycles(isa, graph.types[step.output].elements, 2.0, 1.0, 24.0))

    def kernel(self, job: Job) -> Kernel:
        op = job.step.anchor.op
        assert isinstance(op, FixedSum | FixedProduct)
        code = streamed(job, lambda v, at: _statements(job, op, v, at))
        return Kernel(code, whole=True, needs_fixed=True)


def _statements(job: Job, op: FixedSum | FixedProduct, v: Vec, at: str) -> list[str]:
    t = f"i32x{v.lanes}"
    names = ("xr", "xr" if len(job.inputs) == 1 else "x1r")
    centred = [
        _centred(v, f"{name}{at}", job.type(value).dtype, zero)
        for name, value, zero in zip(names, job.step.anchor.inputs, op.zeros, strict=True)
    ]
    if isinstance(op, FixedSum):
        sides = [
            f"const {t} {name} = {_small(t, _shifted_left(v, x, op.left), factor)};"
            for name, x, factor in zip("ab", centred, op.factors, strict=False)
        ]
        both = f"{t}_{'sub' if op.subtract else 'add'}(a, b)"
    else:
        sides = []
        both = _whole(v, centred[0], centred[1])
    factor = _last(op)
    right = -factor.shift
    half = (1 << (right - 1)) + op.zero * (1 << right)
    return [
        *sides, f"{t} v = {_small(t, both, factor, half)};",
        *store_held(v, op.dtype, (op.minimum, op.maximum), f"yr{at}"),
    ]  # fmt: skip


def _centred(v: Vec, pointer: str, dtype: DType, zero: int) -> str:
    """Numbers less their zero point: floats, or one integer."""
    if v.lanes == 1:
        return f"((int32_t)*({pointer}) - {zero})"
    loaded = v.load(pointer, dtype)
    return f"{v.t}_sub({loaded}, {v.t}_set1({c_float(float(zero))}))" if zero else loaded


def _shifted_left(v: Vec, centred: str, left: int) -> str:
    """These as integers times 2^left."""
    if v.lanes == 1:
        return f"{centred} * {1 << left}"
    return f"{v.t}_to_i32({v.t}_mul({centred}, {v.t}_set1({c_float(float(1 << left))})))"


def _whole(v: Vec, a: str, b: str) -> str:
    """Their products as integers."""
    return f"{a} * {b}" if v.lanes == 1 else f"{v.t}_to_i32({v.t}_mul({a}, {b}))"


def _small(t: str, value: str, factor: Factor, half: int = 0) -> str:
    """A value times a factor of at most 1, plus what `half` adds besides the rounding."""
    high = f"{t}_high({value}, {t}_set1({factor.multiplier}))"
    if not factor.shift:
        return high
    right = -factor.shift
    return f"{t}_shifted({high}, {t}_set1({half or 1 << (right - 1)}), {t}_set1({right}))"
