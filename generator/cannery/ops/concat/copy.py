"""Concatenation by copies: any axis, any element type, constants among the parts.

`concat.view` is free where it is possible. This schedule is for axes that images do not have, and
for parts that are not activations. Dense memory is rows of  sizes along the axis and after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.ir.half import halves_at
from cannery.layouts import Want
from cannery.ops.concat.op import Concat
from cannery.ops.concat.view import stays_in_place
from cannery.ops.shared.function import describe, parameter_names, signature
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


@dataclass(frozen=True)
class ConcatPart:
    """A part: its C array, its elements per row, and where they go in a row of the output."""

    source: str
    elements: int
    at: str


@schedule
@dataclass(frozen=True)
class ConcatCopy(FixedSchedule):
    """See the module docstring."""

    id = "concat.copy"
    moves_half = True
    want = Want(dense=True)

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        plain = step.alone and isinstance(step.anchor.op, Concat)
        if plain and stays_in_place(graph, step):
            return "the past stays where it is"
        if plain and halves_at(graph, step.nodes) and len(step.inputs) < len(step.anchor.inputs):
            return "constants are float32"
        return "" if plain else "not a mere concatenation"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(30.0 + graph.types[step.output].bytes / 8.0)

    def kernel(self, job: Job) -> Kernel:
        op = job.step.anchor.op
        assert isinstance(op, Concat)
        shape = job.type(job.step.output).shape
        parts, constants = _parts(job, op.axis)
        code = render(
            "ops/concat/copy.c.j2",
            rows=prod(shape[: op.axis]),
            parts=parts,
            total=prod(shape[op.axis :]),
            bytes=job.output.dtype.bytes,
            describe=describe(job),
            signature=signature(job),
        )
        return Kernel(code, tuple(constants), whole=True)


def _parts(job: Job, axis: int) -> tuple[list[ConcatPart], list[ConstArray]]:
    names = parameter_names(job)
    parts: list[ConcatPart] = []
    constants: list[ConstArray] = []
    at = 0
    for value in job.step.anchor.inputs:
        elements = prod(job.type(value).shape[axis:])
        if value in job.graph.constants:
            source = f"{job.symbol}_c{len(constants)}"
            constants.append(job.stored(value, source))
        else:
            source = names[job.step.inputs.index(value)]
        parts.append(ConcatPart(source, elements, offset(at)))
        at += elements
    return parts, constants
