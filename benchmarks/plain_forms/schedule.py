"""The forms as a schedule that nothing but a benchmark chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

# Each registers its forms.
import plain_forms.axes
import plain_forms.elements
import plain_forms.images
import plain_forms.products  # noqa: F401
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Want, nhwc
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast
from cannery.ops.reduce.op import ReduceMax, ReduceMean, ReduceSum
from cannery.ops.resize.op import Resize
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import parameter_names, signature
from cannery.ops.shared.lanes import Vec
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule
from cannery.target.isa import Isa
from plain_forms.form import Form, write

_SCALAR = Vec(0, 1, 1, 0)

#: Operators whose sums have both forms.
_SUMS = (Conv, MatMul, ReduceMean, ReduceSum, ReduceMax)
_WINDOWS = (Conv, ConvTranspose, MaxPool, AveragePool, Resize)


@dataclass(frozen=True)
class PlainLoops(Schedule):
    """See the package's text; a chain is its parts, one after the other."""

    id = "plain.loops"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        """Whether all parts have a form."""
        reasons = (self._why_not(graph, part, isa) for part in step.parts or (step,))
        return next(filter(None, reasons), "")

    def _why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        op = step.anchor.op
        if len(step.outputs) != 1 or not epilogues.step_supports(step):
            return "no plain form"
        if isinstance(op, _WINDOWS) and graph.types[step.output].rank != 4:
            return "not two-dimensional"
        floats = all(graph.types[v].dtype is DType.FLOAT32 for v in (*step.inputs, step.output))
        if not floats and not isinstance(op, Cast):
            return "not of floats"
        if isinstance(op, (Conv, ConvTranspose, MatMul)):
            constants = all(i in graph.constants for i in step.anchor.inputs[1:] if i)
            if not constants:
                return "weights are not constant"
        types = tuple(self.reads(graph, step, {}, isa)) + tuple(self.writes(graph, step, {}, isa))
        layouts = (nhwc.make((1, 1, 1)),) * len(types)
        inputs = len(step.inputs)
        params = {"form": "inner"}
        job = Job(graph, step, isa, params, "probe", layouts[:inputs], layouts[inputs:])
        return "" if write(op, Form(job, [])) is not None else "no plain form"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        """One form, or both."""
        both = any(isinstance(node.op, _SUMS) for node in step.anchors)
        return [{"form": "inner"}, *([{"form": "outer"}] if both else [])]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        """Dense inputs."""
        return tuple(Want(dense=True) for _ in step.inputs)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        """Dense outputs."""
        return (Want(dense=True),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        """Nothing is chosen by it."""
        return Estimate(float(step.macs(graph)))

    def kernel(self, job: Job) -> Kernel:
        """The loops, compiled with -O3 whatever the rest is compiled with.

        The compiler may make vectors of them wherever the flags of the target let it, as it may of
        generated code: also for the instruction set `generic`, on a processor that has vectors.
        """
        code, constants = self._step(job)
        scratch = 0
        if job.step.parts:
            code, constants, scratch = self._chain(job)
        text = '#pragma GCC push_options\n#pragma GCC optimize ("O3")\n'
        text += f"{code}\n#pragma GCC pop_options\n"
        return Kernel(text, constants, scratch, needs_math=True)

    def _step(self, job: Job) -> tuple[str, tuple[ConstArray, ...]]:
        if job.step.parts:
            return "", ()
        form = Form(job, [])
        lines = write(job.step.anchor.op, form)
        assert lines is not None
        ep = epilogues.build(job, job.step.anchor.output)
        finish = " ".join(ep.apply(_SCALAR, "a", "oc", _tensor(job)))
        body = "\n".join(line.replace("FINISH", finish) for line in lines)
        return f"{signature(job)}\n{{\n{body}\n}}", (*form.constants, *ep.constants)

    def _chain(self, job: Job) -> tuple[str, tuple[ConstArray, ...], int]:
        """A function per part, and one that calls them; values between them in scratch memory."""
        known = dict(zip(job.step.inputs, parameter_names(job), strict=False))
        texts: list[str] = []
        constants: list[ConstArray] = []
        calls: list[str] = []
        used = 0
        for number, part in enumerate(job.step.parts):
            symbol = f"{job.symbol}_{number}"
            shapes = [job.type(v).shape for v in (*part.inputs, part.output)]
            layouts = [nhwc.make((1, 1, prod(s))) for s in shapes]
            own = replace(
                job, step=part, symbol=symbol, inputs=tuple(layouts[:-1]),
                outputs=(layouts[-1],),
            )  # fmt: skip
            code, arrays = self._step(own)
            texts.append(code)
            constants += arrays
            if part.output == job.step.output:
                known[part.output] = "y"
            else:
                known[part.output] = f"scratch + {used}"
                used += job.type(part.output).elements
            arguments = ", ".join(known[v] for v in (*part.inputs, part.output))
            calls.append(f"{symbol}({arguments});")
        head = signature(job, scratch=True)
        return "\n".join([*texts, head, "{", *calls, "}"]), tuple(constants), 4 * used


def _tensor(job: Job) -> Callable[[int], str]:
    """The pointer into an input that the epilogue reads."""
    return lambda k: f"{parameter_names(job)[k]} + at"
