"""Elementwise operators between integers, one pass over dense memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cannery.ctext.environment import offset
from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ops.elementwise import Add, Relu, Sub
from cannery.ops.quantize.stream import by_runs, dequantised, saturate, streamed
from cannery.ops.quantized.arithmetic import BYTES, largest_of
from cannery.ops.quantized.elementwise import ByteTable, QuantizedElementwise
from cannery.ops.quantized.fixed_scale import fixed_sum
from cannery.ops.quantized.scale import clamps_lanes, store_bounded
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

#: Cycles of a byte by a table: one by one, and with the table in registers.
BY_BYTE, BY_REGISTERS = 1.5, 0.75


@schedule
@dataclass(frozen=True)
class QuantizedBytes(FixedSchedule):
    """See the module docstring."""

    id = "quantized.bytes"
    version = 2

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if not step.alone or not isinstance(op, QuantizedElementwise | ByteTable):
            return "not elementwise between integers"
        if isinstance(op, ByteTable):
            x, table = step.anchor.inputs
            return "" if table in graph.constants and x not in graph.constants else "not a table"
        return "a constant" if any(i in graph.constants for i in step.anchor.inputs) else ""

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        elements = graph.types[step.output].elements
        if isinstance(step.anchor.op, ByteTable):
            return Estimate(
                (BY_REGISTERS if _by_registers(graph, step, isa) else BY_BYTE) * elements
            )
        return Estimate(stream_cycles(isa, elements, 2.0, 1.0, 12.0))

    def kernel(self, job: Job) -> Kernel:
        op = job.step.anchor.op
        if isinstance(op, QuantizedElementwise):
            return Kernel(streamed(job, lambda v, at: _pair(job, op, v, at)), whole=True)
        name = f"{job.symbol}_table"
        if _by_registers(job.graph, job.step, job.isa):
            code = by_runs(job, lambda n: [f"f32x4_bytes_by_table(yr, xr, {n}, {name});"])
        else:
            plain = replace(job, isa=replace(job.isa, lanes=(1,)))
            code = streamed(plain, lambda v, at: [f"*(yr{at}) = {name}[(uint8_t)*(xr{at})];"])
        table = job.graph.constants[job.step.anchor.inputs[1]]
        return Kernel(code, (ConstArray(name, table, "by byte"),), whole=True)


def _by_registers(graph: Graph, step: Step, isa: Isa) -> bool:
    """Whether a table of bytes is looked up in registers."""
    return isa.has("byte_table") and graph.types[step.output].dtype in BYTES


def _pair(job: Job, op: QuantizedElementwise, v: Vec, at: str) -> list[str]:
    t, lines = v.t, list[str]()
    names = ("xr", "xr" if len(job.inputs) == 1 else "x1r")
    for letter, name, scaled, value in zip(
        "ab", names, (op.a, op.b), job.step.anchor.inputs, strict=True
    ):
        dtype = job.type(value).dtype
        floats = dequantised(v, name + at, scaled.scale, scaled.zero, dtype)
        lines.append(f"const {t} {letter} = {floats};")
    positive = bool(op.bound) and op.activation == (Relu(),) and clamps_lanes(v, job.isa)
    lines.append(f"{t} v = {op.op.c(t, 'a', 'b')};")
    if not positive:
        lines += [f"v = {o.c(t, 'v')};" for o in op.activation]
    if op.y.scale != 1.0:
        lines.append(f"v = {t}_div(v, {t}_set1({c_float(op.y.scale)}));")
    if op.bound:
        low = 0 if positive else -op.bound
        lines.append(store_bounded(v, "v", f"yr{at}", op.bound, op.dtype, job.isa, low=low))
    else:
        lines += saturate(v, "v", f"yr{at}", op.y.zero, op.dtype)
    return _without_floats(job, op, lines, at) if job.isa.has("soft_float") else lines


def _without_floats(job: Job, op: QuantizedElementwise, floats: list[str], at: str) -> list[str]:
    """The same for single sums by integers, and by `floats` only where rounding decides."""
    relu = op.activation == (Relu(),)
    if not isinstance(op.op, Add | Sub) or (op.activation and not relu):
        return floats
    info, zero = np.iinfo(op.dtype.value), op.y.zero
    low, high = (-op.bound, op.bound) if op.bound else (int(info.min), int(info.max))
    low = max(low, zero) if relu else low
    parts = list(zip((op.a, op.b), job.step.anchor.inputs, strict=True))
    sizes = [largest_of(job.type(value).dtype) + abs(scaled.zero) for scaled, value in parts]
    y_scale = float(np.float32(op.y.scale))
    first, second = (float(np.float32(scaled.scale)) / y_scale for scaled, _ in parts)
    second = -second if isinstance(op.op, Sub) else second
    fixed = fixed_sum((sizes[0], sizes[1]), (first, second), low - zero, high - zero)
    if fixed is None:
        return floats
    names = ("xr", "xr" if len(job.inputs) == 1 else "x1r")
    a, b = (
        f"(*({name}{at}){offset(-scaled.zero)})"
        for name, (scaled, _) in zip(names, parts, strict=True)
    )
    held = f"cannery_held((fixed >> {fixed.fraction}){offset(zero)}, {low}, {high})"
    return [
        f"const int32_t fixed = {fixed.total(a, b)};", f"if ({fixed.needed}) {{", *floats,
        "} else {", f"    *(yr{at}) = ({op.dtype.c_name}){held};", "}",
    ]  # fmt: skip
