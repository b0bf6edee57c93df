"""Sums and products of two quantised tensors, vector by vector: of one shape, or one of them of one
pixel and as many channels, as in squeeze and excitation.

Numbers less their zero points become integers by way of floats, which hold them exactly. See
vec_fixed.h for the words. On x86, sums of bytes are a linear form where that gives the same
(`linear_sum.py`): pairs of a and b, times pairs of the low bits and of the high bits of p and q.
Products of bytes remain floats until they are scaled, where that gives the same
(`float_product.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.fixed_point.arithmetic import Factor
from cannery.ops.fixed_point.float_product import FloatProduct, float_product
from cannery.ops.fixed_point.linear_sum import LOW, LinearSum, linear_sum
from cannery.ops.fixed_point.pointwise import FixedProduct, FixedSum
from cannery.ops.fixed_point.store import (
    small_product,
    store_held,
    store_held_together,
)
from cannery.ops.quantize.stream import by_runs, streamed
from cannery.ops.quantized.arithmetic import BYTES
from cannery.ops.shared.lanes import LOADS, Vec
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

#: The least shift to the right of a result, and the largest number that is added before it.
_LEAST, _MOST = 1, 2**29

#: Linear forms have vectors of so many lanes, at least and at most.
LINEAR_LANES = (4, 8)


def _fits(shape: tuple[int, ...], broadcast: tuple[int, ...]) -> bool:
    """Whether an operand is whole, or one pixel for all."""
    return shape == broadcast or shape == (*(1 for _ in broadcast[1:]), *broadcast[-1:])


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
        values = step.anchor.inputs
        fit = all(_fits(types[v].shape, types[step.output].shape) for v in values)
        if not fit or any(v in graph.constants for v in values):
            return "shapes differ by more than pixels, or one is a constant"
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
        linear, floats = _linear(job, op), _floats(job, op)
        if linear is None or not isinstance(op, FixedSum):
            code = streamed(job, lambda v, at: _statements(job, op, floats, v, at))
            return Kernel(code, whole=True, needs_fixed=True)
        name = f"{job.symbol}_pq"
        factors = ConstArray(
            name, np.asarray([*linear.high, *linear.low], np.int16), "high p, q, low p, q"
        )
        code = by_runs(job, lambda count: _linear_lines(job, op, linear, name, count))
        used = (factors,) if name in code else ()
        return Kernel(code, used, whole=True, needs_fixed=True)


def _linear(job: Job, op: FixedSum | FixedProduct) -> LinearSum | None:
    dtypes = [job.type(value).dtype for value in job.step.anchor.inputs]
    alike = dtypes[0] is dtypes[1] and dtypes[0] in BYTES and op.dtype in BYTES
    if not (isinstance(op, FixedSum) and alike and job.isa.family == "x86"):
        return None
    return linear_sum(op, (dtypes[0], dtypes[1])) if job.isa.widest >= LINEAR_LANES[0] else None


def _linear_lines(job: Job, op: FixedSum, linear: LinearSum, name: str, count: int) -> list[str]:
    """Statements for `count` elements in a row: pairs of vectors, then one by one."""
    lanes = min(job.isa.widest, LINEAR_LANES[1])
    t, pair, held = f"i32x{lanes}", f"p16x{lanes}", (op.minimum, op.maximum)
    of = LOADS[job.type(job.step.anchor.inputs[0]).dtype].removeprefix("load")
    b = "xr" if len(job.inputs) == 1 else "x1r"
    step = 2 * lanes
    lines = [
        f"const {pair} high = {pair}_load1({name}), low = {pair}_load1({name} + 2);",
        f"for (int i = 0; i < {count // step}; ++i) {{",
        f"{pair} u0, u1;",
        f"{pair}_pair2{of}(xr + i * {step}, {b} + i * {step}, &u0, &u1);",
    ]
    for k in range(2):
        both = (f"{t}_dot(u{k}, low, {t}_set1({linear.c}))", f"{t}_dot(u{k}, high, {t}_zero())")
        total = f"{t}_add({both[0]}, {t}_sll({both[1]}, {LOW}))"
        lines.append(f"{t} v{k} = {t}_sra({total}, {linear.shift});")
    stored = store_held_together(t, ("v0", "v1"), op.dtype, held, f"yr + i * {step}")
    lines += [f"{t}_unturn(&v0, &v1);", *stored, "}"]
    whole = f"(xr[i] * {linear.p} + {b}[i] * {linear.q} + {linear.c}) >> {linear.shift}"
    single = f"yr[i] = ({op.dtype.c_name})cannery_held({whole}, {held[0]}, {held[1]});"
    rest = [f"for (int i = {count // step * step}; i < {count}; ++i) {{", single, "}"]
    if count < step:
        return rest
    return [*lines, *(rest if count % step else ())]


def _floats(job: Job, op: FixedSum | FixedProduct) -> FloatProduct | None:
    a, b = (job.type(value).dtype for value in job.step.anchor.inputs)
    return float_product(op, (a, b)) if isinstance(op, FixedProduct) else None


def _statements(
    job: Job, op: FixedSum | FixedProduct, floats: FloatProduct | None, v: Vec, at: str
) -> list[str]:
    t = f"i32x{v.lanes}"
    names = ("xr", "xr" if len(job.inputs) == 1 else "x1r")
    centred = [
        _centred(v, f"{name}{at}", job.type(value).dtype, zero)
        for name, value, zero in zip(names, job.step.anchor.inputs, op.zeros, strict=True)
    ]
    stored = store_held(v, op.dtype, (op.minimum, op.maximum), f"yr{at}")
    if floats and v.lanes > 1:
        return [*_float_lines(v, centred, floats, op.zero), *stored]
    if isinstance(op, FixedSum):
        sides = [
            f"const {t} {name} = {small_product(t, _shifted_left(v, x, op.left), factor)};"
            for name, x, factor in zip("ab", centred, op.factors, strict=False)
        ]
        both = f"{t}_{'sub' if op.subtract else 'add'}(a, b)"
    else:
        sides = []
        both = _whole(v, centred[0], centred[1])
    return [*sides, f"{t} v = {small_product(t, both, _last(op), op.zero)};", *stored]


def _float_lines(v: Vec, centred: list[str], by: FloatProduct, zero: int) -> list[str]:
    """Statements that multiply and scale floats."""
    t, whole = v.t, f"i32x{v.lanes}"
    factor, half = (f"{t}_set1({c_float(number)})" for number in (by.factor, by.half))
    scaled = f"{t}_add({t}_mul(d, {factor}), {t}_copysign({half}, d))"
    result = f"{t}_to_i32({scaled})"
    return [
        f"const {t} d = {t}_mul({centred[0]}, {centred[1]});",
        f"{whole} v = {f'{whole}_add({result}, {whole}_set1({zero}))' if zero else result};",
    ]


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
