"""Floats to bytes or int16 and back with one scale and zero point for a tensor.

The bits are those of `linear.py`. Contiguous elements go vector by vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cannery.ctext.environment import offset
from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.quantize.linear import DequantizeLinear, QuantizeLinear
from cannery.ops.quantized.arithmetic import STORED
from cannery.ops.quantized.groups import Groups
from cannery.ops.shared.axes import (
    Loop,
    axis_strides,
    broadcast_strides,
    merge_loops,
    nested_pointer,
)
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.lanes import Vec, vector_runs
from cannery.schedule.cost import stream_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa

#: The largest number that the words `put_u8`, `put_i8` and `put_s16` take.
LARGEST_PUT = 2.0**30

#: Statements for one vector; its place is ` + 8 + i * 4`, after the names of the parameters.
Statements = Callable[[Vec, str], list[str]]


@schedule
@dataclass(frozen=True)
class QuantizeBytes(FixedSchedule):
    """See the module docstring."""

    id = "quantize.stream"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not step.alone:
            return "several nodes"
        op, types = step.anchor.op, graph.types
        if not isinstance(op, QuantizeLinear | DequantizeLinear):
            return "no quantisation"
        x, *parameters = step.anchor.inputs
        whole, number = (step.output, x) if isinstance(op, QuantizeLinear) else (x, step.output)
        if types[whole].dtype not in STORED or types[number].dtype != DType.FLOAT32:
            return "not between floats and integers"
        known = x not in graph.constants and all(p in graph.constants for p in parameters)
        single = known and all(types[p].elements == 1 for p in parameters)
        same = types[x].shape == types[step.output].shape
        return "" if single and same else "not one constant scale and zero point"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(stream_cycles(isa, graph.types[step.output].elements, 1.0, 1.0, 8.0))

    def kernel(self, job: Job) -> Kernel:
        op, (_, scale, zero) = job.step.anchor.op, job.step.anchor.inputs
        factor, point = job.constant(scale).item(), int(job.graph.constants[zero].item())

        def statements(v: Vec, at: str) -> list[str]:
            if isinstance(op, DequantizeLinear):
                value = dequantised(v, f"xr{at}", factor, point, job.inputs[0].dtype)
                return [v.store(f"yr{at}", value)]
            quotient = f"{v.t}_div({v.load(f'xr{at}')}, {v.t}_set1({c_float(factor)}))"
            return [
                f"{v.t} v = {quotient};",
                *saturate(v, "v", f"yr{at}", point, job.output.dtype),
            ]

        return Kernel(streamed(job, statements), whole=True)


def streamed(job: Job, statements: Statements) -> str:
    """The code of a function that walks its output and all its inputs, which broadcast, once.

    Parameters x, x1, y are called xr, x1r, yr in the statements.
    """

    def lines(count: int) -> list[str]:
        found = list[str]()
        for v, times in vector_runs(count, job.isa):
            at = f"{offset(v.start)} + i * {v.lanes}" if times > 1 else offset(v.start)
            found.append(f"for (int i = 0; i < {times}; ++i) {{" if times > 1 else "{")
            found += [*statements(v, at), "}"]
        return found

    return by_runs(job, lines)


def by_runs(job: Job, statements: Callable[[int], list[str]]) -> str:
    """The same, where the statements are for this many elements in a row from xr, x1r, yr on."""
    type_, layouts = job.type(job.step.output), (*job.inputs, job.output)
    types = [job.type(value) for value in (*job.step.inputs, job.step.output)]
    strides = [
        broadcast_strides(each.shape, axis_strides(each, layout), type_.rank)
        for each, layout in zip(types, layouts, strict=True)
    ]
    loops = merge_loops([Loop(d, tuple(s[k] for s in strides)) for k, d in enumerate(type_.shape)])
    joined = bool(loops) and set(loops[-1].strides) == {1}
    outer, count = (loops[:-1], loops[-1].extent) if joined else (loops, 1)
    lines = [f"for (int i{k} = 0; i{k} < {loop.extent}; ++i{k}) {{" for k, loop in enumerate(outer)]
    for k, (name, layout) in enumerate(zip(parameter_names(job), layouts, strict=True)):
        const = "const " if k < len(job.inputs) else ""
        pointer = nested_pointer(name, layout.origin, outer, k)
        lines.append(f"{const}{layout.dtype.c_name} *{name}r = {pointer};")
    lines += [*statements(count), *["}"] * len(outer)]
    body = "\n".join(f"    {line}" for line in lines)
    return f"{describe(job)}\n{signature(job)}\n{{\n{body}\n}}\n"


def dequantised(v: Vec, pointer: str, scale: float, zero: int, dtype: DType) -> str:
    """C expression of the floats that integers represent: (x - zero) * scale."""
    loaded = v.load(pointer, dtype)
    less = f"{v.t}_sub({loaded}, {v.t}_set1({c_float(zero)}))" if zero else loaded
    return f"{v.t}_mul({less}, {v.t}_set1({c_float(scale)}))" if scale != 1.0 else less


def saturate(v: Vec, name: str, target: str, zero: int, dtype: DType) -> list[str]:
    """Statements that round the vector `name`, add a zero point and store; NaN becomes the least
    number.
    """
    t, info = v.t, np.iinfo(dtype.value)
    low, high = (f"{t}_set1({c_float(float(n - zero))})" for n in (info.min, info.max))
    bounded = f"{t}_select({t}_gt({name}, {low}), {t}_min({name}, {high}), {low})"
    return [f"{name} = {bounded};", *put(v, name, target, zero, dtype)]


def put(v: Vec, name: str, target: str, zero: int, dtype: DType) -> list[str]:
    """The same for numbers up to LARGEST_PUT."""
    word, rest = Groups.PUTS[dtype], "" if v.full else f", {v.valid}"
    return [f"{v.t}_{word}{'' if v.full else '_n'}({target}, {name}, {zero}{rest});"]
