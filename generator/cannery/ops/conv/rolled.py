"""Direct convolution of short windows as a loop over output channels that compilers vectorise.

It is for instruction sets that do not promise vectors, on 64-bit processors, which all have them.
The inputs of a window are in line, so an output is one expression, finished with its epilogue
before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cannery.ctext.environment import offset, render
from cannery.ir.graph import Graph
from cannery.layouts import Halo, Layout
from cannery.ops.conv.direct_oc import JOINED, can_join
from cannery.ops.conv.geometry import ConvShape, padded_bias, sizes, why_not_dense
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.axes import balanced
from cannery.ops.shared.function import describe, signature
from cannery.ops.shared.lanes import Vec
from cannery.schedule.params import as_params, typed
from cannery.schedule.program import Step
from cannery.schedule.schedule import ConstArray, Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Neighbouring outputs that share each weight.
PIXELS = (1, 2, 4)

#: Windows with more inputs leave no registers for the sums.
MAX_INPUTS = 12

#: Measured cycles as a fraction of those estimated, on the one core where both were tried.
MEASURED = 0.8

#: As many weights as registers hold.
MAX_HELD = 48


@dataclass(frozen=True)
class Tunables:
    """Tiles of `px` pixels."""

    px: int


@schedule
@dataclass(frozen=True)
class ConvRolled(Schedule):
    """See the module docstring."""

    id = "conv.rolled"
    movable = True

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if reason := why_not_dense(graph, step):
            return reason
        shape = sizes(graph, step)
        if not can_join(shape, isa):
            return "not for compilers to vectorise"
        if shape.taps * shape.ic > MAX_INPUTS:
            return "too many inputs"
        return epilogues.why_not(step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        shape = sizes(graph, step)
        return [as_params(Tunables(px)) for px in PIXELS if px <= shape.ow]

    def halo(self, graph: Graph, step: Step) -> Halo:
        return sizes(graph, step).halo

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        shape = sizes(graph, step)
        px, k = typed(Tunables, params).px, shape.taps * shape.ic
        vectors, core = shape.oc / JOINED, isa.rates()
        macs = 2.0 * k * px + px * (1.0 + len(step.epilogue))
        each = macs / core.arithmetic + (k + 1.0) / core.loads
        held = max(k * px - 8, 0) / core.loads  # inputs on the stack
        cycles = -(-shape.ow // px) * (vectors * (each + held) + 1.5 * k * px + 4.0)
        return Estimate(shape.oh * cycles * MEASURED, 24.0 * k * px)

    def kernel(self, job: Job) -> Kernel:
        shape = sizes(job.graph, job.step)
        x = job.inputs[0]
        ep = epilogues.build(job, job.step.anchor.output)
        weights = job.constant(shape.weight).reshape(-1)
        code = render(
            "ops/conv/rolled.c.j2",
            describe=describe(job),
            signature=signature(job, band=True),
            symbol=job.symbol,
            s=shape,
            x=x,
            y=job.output,
            one=Vec(0, 1, 1, 0),
            inputs=_inputs(shape, x),
            blocks=_blocks(shape),
            tiles=balanced(shape.ow, typed(Tunables, job.params).px),
            ep=ep,
            residual={k: job.inputs[k] for k in ep.tensors},
            residual_at=_residual(job),
        )
        array = ConstArray(f"{job.symbol}_w", weights, "weights [kh][kw][ic][oc]")
        constants = (array, padded_bias(job, shape), *ep.constants)
        return Kernel(code, constants, band=1, needs_math=ep.needs_math)


@dataclass(frozen=True)
class Channels:
    """A loop over `size` output channels from `start` on."""

    start: int
    size: int


def _blocks(shape: ConvShape) -> list[Channels]:
    """Loops of four for few channels, as one vector each: weights may then stay in registers."""
    if shape.oc * shape.taps * shape.ic > MAX_HELD or shape.oc % JOINED:
        return [Channels(0, shape.oc)]
    return [Channels(k, JOINED) for k in range(0, shape.oc, JOINED)]


def _inputs(shape: ConvShape, x: Layout) -> list[int]:
    """Offsets of a window's inputs from its first element, in the order of the weights."""
    return [
        kh * shape.dh * x.row + kw * shape.dw * x.col + ic
        for kh in range(shape.kh)
        for kw in range(shape.kw)
        for ic in range(shape.ic)
    ]


def _residual(job: Job) -> Callable[[int], Callable[[int], str]]:
    """(pixel) -> input index -> C pointer to the residual of channel `oc`."""
    return lambda px: lambda k: f"r{k}{offset(px * job.inputs[k].col)} + oc"
