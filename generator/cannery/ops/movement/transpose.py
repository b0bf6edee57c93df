"""Changes between channels last and planar, including elementwise nodes, in 4x4 blocks.

Four neighbouring pixels of four neighbouring channels are transposed in registers, so loads and
stores are vectors on both sides. Blocks at the end of a row or of the channels overlap their
neighbours; fewer than four channels make partial vectors, or whole ones where the next pixel
follows directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Layout, Want, image_dims, nhwc, planar
from cannery.ops.movement.op import Cast, Identity
from cannery.ops.movement.strided import MovementStrided, elementwise_why_not, load
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.lanes import Vec
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

_STRIDED = MovementStrided()


@dataclass(frozen=True)
class Rows:
    """The pixels as `count` rows of `width`: one row each, or a single row where there are no gaps.

    `pitches` are the distances between neighbouring rows of the inputs and of the output.
    """

    count: int
    width: int
    pitches: tuple[int, ...]


@schedule
@dataclass(frozen=True)
class MovementTranspose(Schedule):
    """See the module docstring."""

    id = "movement.transpose"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        reason = elementwise_why_not(graph, step)
        if reason:
            return reason
        if 4 not in isa.lanes:
            return "no vectors of four"
        if graph.types[step.output].dtype != DType.FLOAT32:
            return "output is not float32"
        if step.reads_again:
            return "reads its input in two orders"
        _, _, width, channels = image_dims(graph.types[step.output])
        return "" if width >= 4 and channels >= 2 else "fewer than 4 columns or 2 channels"

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        pairs = [(nhwc.ORDER, planar.ORDER), (planar.ORDER, nhwc.ORDER)]
        return [{"from": a, "to": b} for a, b in pairs]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return _STRIDED.reads(graph, step, params, isa)

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return _STRIDED.writes(graph, step, params, isa)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        nodes = len(step.nodes) - isinstance(step.anchor.op, (Identity, Cast))
        return Estimate(graph.types[step.output].elements * (0.7 + 0.25 * nodes))

    def kernel(self, job: Job) -> Kernel:
        ep = epilogues.build(job, job.step.source, job.step.stages)
        code = in_blocks(job, job.inputs, job.output, ep)
        return Kernel(code, ep.constants, needs_math=ep.needs_math)


def in_blocks(job: Job, inputs: Sequence[Layout], y: Layout, ep: epilogues.Epilogue) -> str:
    """The function of a step that changes the order of images of at least four columns."""
    x = inputs[0]
    channels = y.shape[2]
    valid = min(channels, 4)
    return render(
        "ops/movement/transpose.c.j2",
        x=x,
        y=y,
        rows=_rows([*inputs, y]),
        to_planar=y.order == planar.ORDER,
        channels=channels,
        valid=valid,
        across=Vec(0, 4, valid, 0),
        along=Vec(0, 4, 4, 0),
        load=lambda vec, pointer: load(x, 1, vec, pointer),
        ep=ep,
        layouts=[*inputs, y],
        names=parameter_names(job),
        residual=_residuals(job, ep.tensors),
        signature=signature(job),
        describe=describe(job),
    )


def _rows(layouts: Sequence[Layout]) -> Rows:
    height, width, _ = layouts[0].shape
    if all(layout.row == width * layout.col for layout in layouts):
        return Rows(1, height * width, tuple(0 for _ in layouts))
    return Rows(height, width, tuple(layout.row for layout in layouts))


def _residuals(job: Job, tensors: Sequence[int]) -> Any:
    """(pixel of the block, channel of the block) -> input index -> C pointer."""

    def at(pixel: int, channel: int) -> Any:
        def pointer(k: int) -> str:
            layout = job.inputs[k]
            return f"r{k} + {pixel * layout.col + channel * layout.channel}"

        return pointer

    return at
