"""Schedules in half precision: those of float32, over vectors with twice as many lanes.

A schedule asks for the layouts of its float32 form and has its tunables; what it sees is the graph
as if it were of float32, and an instruction set with wider vectors. `ctext/half.py` then turns its
code into that for half precision. So a schedule becomes one of half precision by a line below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from cannery.ctext.half import unknown_words, with_half
from cannery.ir.graph import Graph
from cannery.ir.half import as_float32
from cannery.ir.registry import Elementwise
from cannery.ir.tensor import DType
from cannery.layouts import Layout, Want
from cannery.ops.average_pool.schedules import AveragePoolDirectC
from cannery.ops.conv.depthwise_c import ConvDepthwiseC
from cannery.ops.conv.direct_oc import ConvDirectOc
from cannery.ops.conv.gemm import ConvGemm
from cannery.ops.conv.geometry import conv_shape
from cannery.ops.matmul.dense_n import MatMulDenseN
from cannery.ops.max_pool.schedules import MaxPoolDirectC
from cannery.ops.movement.general import MovementGeneral
from cannery.ops.movement.strided import MovementStrided
from cannery.schedule.program import Step
from cannery.schedule.schedule import (
    MATH,
    ConstArray,
    Estimate,
    Job,
    Kernel,
    Params,
    Schedule,
    schedule,
)
from cannery.target.isa import Isa

#: What there is of half precision, besides what the other modules of this package have.
FLOAT32_FORMS: tuple[type[Schedule], ...] = (
    AveragePoolDirectC, ConvDepthwiseC, ConvDirectOc, ConvGemm, MatMulDenseN, MaxPoolDirectC,
    MovementGeneral, MovementStrided,
)  # fmt: skip

#: Inputs in registers for multiplication by lane, besides what else is in the first sixteen.
MOST_INPUTS = 8


@dataclass(frozen=True)
class HalfSchedule(Schedule):
    """Another schedule in half precision, see the module docstring."""

    inner: ClassVar[Schedule]
    computes_half = True

    def seen(self, isa: Isa) -> Isa:
        """The instruction set as the float32 form sees it."""
        return isa.in_half

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not isa.has("half"):
            return "no arithmetic in half precision"
        if any(graph.types[v].dtype is not DType.HALF for v in (*step.inputs, *step.outputs)):
            return "not all values are in half precision"
        reason = self.unknown(step) or self.inner.why_not(as_float32(graph), step, self.seen(isa))
        if reason:
            return reason
        if _multiplies_channels(graph, step):
            return "several filters for each channel"
        return "" if self.candidates(graph, step, isa) else "too few numbers for vectors"

    def unknown(self, step: Step) -> str:
        """Which of the step's operators has no words in half precision; empty if all have."""
        for node in step.stages:
            op = node.op
            if isinstance(op, Elementwise) and unknown_words(_expression(op, node.inputs)):
                return f"{op.kind} is not known in half precision"
        return ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        found = self.inner.candidates(as_float32(graph), step, self.seen(isa))
        able = [p for p in found if not p.get(MATH) and int(p.get("lanes", 4)) >= 4]
        able = [p for p in able if _fits(p, isa)] or able
        # By lane where costs are the same: it takes fewer instructions.
        return sorted(able, key=lambda p: p.get("broadcast") != "lane")

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return self.inner.reads(as_float32(graph), step, params, self.seen(isa))

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return self.inner.writes(as_float32(graph), step, params, self.seen(isa))

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return self.inner.cost(as_float32(graph), step, params, self.seen(isa))

    def constant_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> float:
        return self.inner.constant_bytes(as_float32(graph), step, params, self.seen(isa)) / 2

    def scratch_bytes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> int:
        return self.inner.scratch_bytes(as_float32(graph), step, params, self.seen(isa)) // 2

    def kernel(self, job: Job) -> Kernel:
        return self.converted(self.inner.kernel(_float32_form(job, self.seen(job.isa))))

    def converted(self, kernel: Kernel) -> Kernel:
        """The float32 form's kernel in half precision."""
        return with_half(kernel)

    def in_place(self, step: Step) -> bool:
        return self.inner.in_place(step)

    def weights(self, job: Job) -> ConstArray:
        return next(c for c in self.kernel(job).constants if c.name == f"{job.symbol}_w")


def _fits(params: Params, isa: Isa) -> bool:
    """Whether a tile stays in registers: its sums, the weights of one step, and the inputs.

    These stay until all their lanes are used where weights are multiplied by lane, and then they
    have to be in the first half of the registers.
    """
    rows, vectors = int(params.get("mr", 1)), int(params.get("nr", 1))
    inputs = rows if params.get("broadcast") == "lane" else 1
    return inputs <= MOST_INPUTS and rows * vectors + vectors + inputs <= isa.registers


def _multiplies_channels(graph: Graph, step: Step) -> bool:
    """Whether a depthwise convolution has to look up which channel each lane needs."""
    shape = conv_shape(graph, step)
    return shape is not None and shape.depthwise and shape.oc != shape.ic


def _expression(op: Elementwise, inputs: Sequence[str]) -> str:
    return op.c("f32x8", *"abcdefgh"[: len(inputs)])


def _float32_form(job: Job, isa: Isa) -> Job:
    """The same job as if it were of float32."""
    return replace(
        job,
        graph=as_float32(job.graph),
        isa=isa,
        inputs=tuple(map(_widened, job.inputs)),
        outputs=tuple(map(_widened, job.outputs)),
    )


def _widened(layout: Layout) -> Layout:
    return replace(layout, dtype=DType.FLOAT32)


def half_id(name: str) -> str:
    """The id of a schedule's form in half precision."""
    return f"half.{name}"


for _form in FLOAT32_FORMS:
    _attributes = {
        "__doc__": f"{_form.id} in half precision.",
        "__module__": __name__,
        "id": half_id(_form.id),
        "version": _form.version,
        "inner": _form(),
        "inexact": _form.inexact,
    }
    schedule(dataclass(frozen=True)(type(f"Half{_form.__name__}", (HalfSchedule,), _attributes)))
