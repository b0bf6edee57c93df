"""The plain C of operators with a single form: dense operands, element after element."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cannery.ir.graph import Graph, Node
from cannery.ir.tensor import TensorType
from cannery.layouts import Want
from cannery.ops.scalar.base import ScalarOp
from cannery.ops.scalar.body import Body, Tensor
from cannery.ops.scalar.integers import Write, integer_code
from cannery.ops.scalar.windows import convolution_form
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


@schedule
@dataclass(frozen=True)
class ScalarNest(FixedSchedule):
    """See the module docstring."""

    id = "scalar.nest"
    want = Want(dense=True)

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not step.alone:
            return "several nodes"
        return "" if _writer(graph, step.anchor) else "no plain C form"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        work = max(graph.types[step.output].elements, step.macs(graph))
        return Estimate(8.0 * work)

    def kernel(self, job: Job) -> Kernel:
        node = job.step.anchor
        operands = _Operands(job)
        types = tuple(job.type(i) if i else None for i in node.inputs)
        scratch = node.op.scratch_bytes(types) if isinstance(node.op, ScalarOp) else 0
        body = Body(
            job.symbol,
            [operands.tensor(k) for k in range(len(node.inputs))],
            Tensor("y", job.type(node.output)),
            "scratch" if scratch else "",
        )
        write = _writer(job.graph, node)
        assert write is not None
        write(body)
        head = signature(job, scratch=bool(scratch))
        unused = [f"    (void){n};\n" for n in parameter_names(job) if not _reads(body.text, n)]
        helpers = node.op.helpers(job.symbol, body) if isinstance(node.op, ScalarOp) else ""
        code = f"{helpers}{describe(job)}\n{head}\n{{\n{''.join(unused)}{body.text}\n}}\n"
        constants = (*operands.constants, *body.constants)
        math = isinstance(node.op, ScalarOp) and node.op.scalar_math
        return Kernel(code, constants, scratch_bytes=scratch, whole=True, scalar_math=math)


def _reads(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _writer(graph: Graph, node: Node) -> Write | None:
    """The function that writes a node's statements; None if there is none."""
    if isinstance(node.op, ScalarOp):
        return node.op.write
    return convolution_form(graph, node) or integer_code(
        node.op, graph.types[node.outputs[0]].dtype
    )


class _Operands:
    """The inputs of the node as C arrays: parameters, and the node's own constants."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._names = parameter_names(job)
        self.constants: list[ConstArray] = []

    def tensor(self, index: int) -> Tensor | None:
        """Input `index` of the node; None if it is absent."""
        value = self._job.step.anchor.inputs[index]
        if not value:
            return None
        type_: TensorType = self._job.type(value)
        if value not in self._job.graph.constants:
            return Tensor(self._names[self._job.step.inputs.index(value)], type_)
        name = f"{self._job.symbol}_c{index}"
        self.constants.append(self._job.stored(value, name))
        return Tensor(name, type_)
