"""Everything elementwise that `movement.strided` cannot do, over tensors of any rank.

Transpose, Slice, Pad, Expand, nearest Resize, Cast between all types, elementwise nodes whose
operands broadcast, constants that are outputs: one loop nest over the output, in which each operand
moves by a stride or a table per axis. Operands are dense; an image that is written may have a halo,
or be part of a larger one. It uses vectors where every operand is contiguous or constant along the
innermost loop, and memcpy where integers are contiguous; else it goes element by element. It does
not test for padding: the innermost loop splits into runs of elements that exist and of elements
that do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cannery.ctext.environment import offset, render
from cannery.ctext.literals import c_float
from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Elementwise
from cannery.ir.tensor import DType, TensorType
from cannery.layouts import Layout, Want, image_dims
from cannery.ops.movement.op import Cast
from cannery.ops.movement.walk import Axis, Walk, WalkLoop, broadcast, loops, movement
from cannery.ops.shared.axes import dense_strides
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec, vector_runs
from cannery.schedule.cost import elementwise_cycles
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
class Operand:
    """Something the nest reads: its C array, how it is walked, and the value outside it."""

    pointer: str
    dtype: DType
    walk: Walk
    fill: float = 0.0


@dataclass(frozen=True)
class Run:
    """Indices start <= i < end of the innermost loop, whose elements all exist, or none."""

    start: int
    end: int
    inside: bool


@schedule
@dataclass(frozen=True)
class MovementGeneral(FixedSchedule):
    """See the module docstring."""

    id = "movement.general"
    version = 4
    want = Want(dense=True)

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        node = step.anchor
        if len(step.anchors) != 1 or len(node.outputs) != 1:
            return "several anchors"
        if not isinstance(node.op, Elementwise) and movement(graph, node) is None:
            return "not elementwise, and no movement of elements"
        computing = [n for n in step.nodes if isinstance(n.op, Elementwise)]
        names = [i for n in computing for i in (*n.inputs, *n.outputs)]
        if any(graph.types[i].dtype != DType.FLOAT32 for i in names):
            return "arithmetic on integers"
        if any(not isinstance(n.op, Elementwise) for n in step.epilogue):
            return "epilogue not elementwise"
        return ""

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        n = image_dims(graph.types[step.output])[0]
        return (Want(dense=n != 1 or graph.types[step.output].rank != 4),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        elements = float(graph.types[step.output].elements)
        work = elementwise_cycles(isa, elements, len(step.inputs), len(step.nodes))
        return Estimate(3.0 * elements + work)

    def kernel(self, job: Job) -> Kernel:
        target = job.type(job.step.output)
        nest = _Nest(job)
        written = _written(target, job.output)
        nest_loops = loops(target.shape, [*(o.walk for o in nest.operands), written])
        if nest_loops[-1].extent > 1 and nest_loops[-1].axes[-1].stride != 1:
            nest_loops.append(WalkLoop(1, tuple(Axis(0) for _ in nest_loops[-1].axes)))
        inner = nest_loops[-1]
        contiguous = all(_vectorises(axis) for axis in inner.axes)
        dtypes = {target.dtype, *(o.dtype for o in nest.operands)}
        is_float = dtypes == {DType.FLOAT32}
        whole_vectors = contiguous and is_float
        tables = _tables(job.symbol, nest_loops)
        code = render(
            "ops/movement/general.c.j2",
            loops=nest_loops,
            operands=nest.operands,
            runs=lambda inside: [
                (run, run_vectors(run, job.isa, 0 if whole_vectors else 1))
                for run in nest.runs(inner, inside=inside)
            ],
            nest=nest,
            target=target.dtype,
            store=lambda vec, value: _store(vec, value, target.dtype),
            symbol=job.symbol,
            outer=[loop.axes[-1].stride for loop in nest_loops[:-1]],
            origin=written.origin,
            ranges=_ranges,
            describe=describe(job),
            signature=signature(job),
        )
        needs_math = any(isinstance(n.op, Elementwise) and n.op.needs_math for n in job.step.nodes)
        constants = (*nest.constants, *tables)
        return Kernel(code, constants, needs_math=needs_math, whole=True)


class _Nest:
    """The operands of a job, in the order in which its nodes read them, and the statements."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.operands: list[Operand] = []
        self.constants: list[ConstArray] = []
        self.plan: list[tuple[Node, tuple[int, ...]]] = []
        self.places: dict[str, int] = {}
        running = ""
        for node in job.step.nodes:
            self._add(node, running)
            running = node.output

    def _add(self, node: Node, running: str) -> None:
        shape = self.job.type(self.job.step.output).shape
        if not isinstance(node.op, Elementwise):
            walk = movement(self.job.graph, node)
            assert walk is not None
            fill = float(getattr(node.op, "value", 0.0))
            self.plan.append((node, (self._operand(node.inputs[0], walk, fill),)))
            return
        used = []
        for value in node.inputs:
            walk = broadcast(self.job.type(value).shape, shape)
            used.append(-1 if value == running else self._operand(value, walk, 0.0))
        self.plan.append((node, tuple(used)))

    def _operand(self, value: str, walk: Walk, fill: float) -> int:
        if value in self.places and self.operands[self.places[value]].walk == walk:
            return self.places[value]
        dtype = self.job.type(value).dtype
        if value in self.job.graph.constants:
            pointer = f"{self.job.symbol}_c{len(self.constants)}"
            self.constants.append(self.job.stored(value, pointer))
        else:
            index = self.job.step.inputs.index(value)
            pointer = "x" if index == 0 else f"x{index}"
        self.places[value] = len(self.operands)
        self.operands.append(Operand(pointer, dtype, walk, fill))
        return self.places[value]

    def runs(self, inner: WalkLoop, *, inside: bool) -> list[Run]:
        """The innermost loop in runs, for outer indices inside all operands or not."""
        if not inside:
            return [Run(0, inner.extent, False)]
        ranges = [(a.first, a.last) for a in inner.axes if a.last >= 0]
        first = max((r[0] for r in ranges), default=0)
        last = max(min((r[1] for r in ranges), default=inner.extent), first)
        found = (Run(0, first, False), Run(first, last, True), Run(last, inner.extent, False))
        return [run for run in found if run.end > run.start]

    def copy(self, run: Run, inner: WalkLoop) -> str:
        """How the C library moves a run for which there are no vectors; or nothing."""
        if len(self.plan) != 1:
            return ""
        node, used = self.plan[0]
        operand, axis = self.operands[used[0]], inner.axes[used[0]]
        if self.job.isa.widest > 1 and operand.dtype == DType.FLOAT32:
            return ""
        same = self.job.type(node.output).dtype == operand.dtype
        if isinstance(node.op, Elementwise) or not same or axis.table or axis.stride != 1:
            return ""
        size = f"{run.end - run.start}u * sizeof *q"
        if not run.inside:
            zero = operand.fill == 0.0 and math.copysign(1.0, operand.fill) > 0.0
            return f"memset(q, 0, {size});" if zero else ""
        return f"memcpy(q, {operand.pointer} + (o{used[0]}{offset(run.start)}), {size});"

    def statements(self, vec: Vec, inner: WalkLoop, at: str, *, inside: bool) -> list[str]:
        """Statements that compute `v`; `at` is the index within the innermost loop."""
        lines = []
        for number, (node, used) in enumerate(self.plan):
            arguments = []
            for k in used:
                if k < 0:
                    arguments.append("v")
                    continue
                element = self._element(k, vec, inner.axes[k], at, inside=inside)
                name = f"e{number}_{len(arguments)}"
                lines.append(f"const {self._type(k, vec)} {name} = {element};")
                arguments.append(name)
            declare = f"{self._result_type(vec)} " if number == 0 else ""
            lines.append(f"{declare}v = {self._expression(node, vec, arguments)};")
        return lines

    def _type(self, k: int, vec: Vec) -> str:
        dtype = self.operands[k].dtype
        return vec.t if dtype == DType.FLOAT32 else dtype.c_name

    def _result_type(self, vec: Vec) -> str:
        dtype = self.job.type(self.job.step.anchor.output).dtype
        return vec.t if dtype == DType.FLOAT32 else dtype.c_name

    def _element(self, k: int, vec: Vec, axis: Axis, at: str, *, inside: bool) -> str:
        operand = self.operands[k]
        if operand.walk.partial and not inside:
            return _literal(operand.fill, operand.dtype, vec)
        if axis.table:
            index = f"o{k} + {self.job.symbol}_t{k}_inner[{at}]"
        else:
            index = f"o{k} + {at} * {axis.stride}" if axis.stride else f"o{k}"
        place = f"{operand.pointer} + ({index})"
        if operand.dtype != DType.FLOAT32:
            return f"*({place})"
        if axis.stride == 0 and not axis.table:
            return f"{vec.t}_load1({place})"
        return vec.load(place)

    def _expression(self, node: Node, vec: Vec, arguments: list[str]) -> str:
        if isinstance(node.op, Elementwise):
            return node.op.c(vec.t, *arguments)
        if isinstance(node.op, Cast):
            return cast(arguments[0], self.job.type(node.inputs[0]).dtype, node.op.to)
        return arguments[0]


def _literal(value: float, dtype: DType, vec: Vec) -> str:
    if dtype == DType.FLOAT32:
        return f"{vec.t}_set1({c_float(value)})"
    return f"({dtype.c_name}){int(value)}"


def cast(value: str, source: DType, target: DType) -> str:
    """A C expression for ONNX's Cast; see `cannery.ops.movement.op.Cast`."""
    if target == source:
        return value
    if target == DType.BOOL:
        return f"(uint8_t)({value} != 0)"
    if source != DType.FLOAT32 or target == DType.FLOAT32:
        return f"({target.c_name}){value}"
    info = np.iinfo(target.value)
    low, high = f"{float(info.min)!r}f", f"{float(int(info.max) + 1)!r}f"
    name = target.value.upper()
    least = "0" if info.min == 0 else f"{name}_MIN"
    return (
        f"{value} <= {low} ? {least} : {value} >= {high} ? {name}_MAX : "
        f"{value} == {value} ? ({target.c_name}){value} : 0"
    )


def run_vectors(run: Run, isa: Isa, widest: int) -> list[tuple[Vec, int]]:
    """The vectors of a run, as `vector_runs` lists them."""
    found = vector_runs(run.end - run.start, isa, widest)
    return [(replace(vec, start=vec.start + run.start), count) for vec, count in found]


def _vectorises(axis: Axis) -> bool:
    return not axis.table and axis.stride in (0, 1)


def _store(vec: Vec, value: str, dtype: DType) -> str:
    if dtype == DType.FLOAT32:
        return vec.store("q", value)
    return f"*q = {value};"


def _tables(symbol: str, nest: Sequence[WalkLoop]) -> list[ConstArray]:
    found = []
    for number, loop in enumerate(nest):
        place = "inner" if number == len(nest) - 1 else str(number)
        for k, axis in enumerate(loop.axes):
            if axis.table:
                values = np.asarray(axis.table, np.int32)
                found.append(ConstArray(f"{symbol}_t{k}_{place}", values, "source offsets"))
    return found


def _written(target: TensorType, layout: Layout) -> Walk:
    """How the output is walked: dense, or as one image in its layout."""
    if layout.dense:
        return Walk(0, tuple(map(Axis, dense_strides(target.shape))))
    return Walk(layout.origin, tuple(map(Axis, (0, layout.row, layout.col, layout.channel))))


def _ranges(loop: WalkLoop, variable: str) -> str:
    """The condition under which every partial operand has an element at this index."""
    found = {f"{variable} >= {a.first} && {variable} < {a.last}" for a in loop.axes if a.last >= 0}
    return " && ".join(sorted(found))
