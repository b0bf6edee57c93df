"""Transpose nodes that exchange two runs of neighbouring axes, in 4x4 blocks.

[N, L, C] to [N, C, L], or [C, H, W] to [H, W, C], is a change between channels last and planar of
one image (see `transpose.py`), whatever the axes mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph, Node
from cannery.ir.tensor import DType
from cannery.layouts import Layout, Want, image_dims, nhwc, planar
from cannery.ops.movement.op import Transpose
from cannery.ops.movement.transpose import in_blocks
from cannery.ops.movement.walk import broadcast, loops, movement
from cannery.ops.shared import epilogue as epilogues
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, FixedSchedule, Job, Kernel, Params, schedule
from cannery.target.isa import Isa


@schedule
@dataclass(frozen=True)
class MovementTransposeAxes(FixedSchedule):
    """See the module docstring."""

    id = "movement.transpose_axes"
    want = Want(dense=True)

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not step.alone or not isinstance(step.anchor.op, Transpose):
            return "not a mere transpose"
        if 4 not in isa.lanes:
            return "no vectors of four"
        if graph.types[step.output].dtype != DType.FLOAT32:
            return "not float32"
        values = (step.anchor.inputs[0], step.output)
        if any(image_dims(graph.types[value])[0] != 1 for value in values):
            return "a batch, whose images are computed one by one"
        size = _matrix(graph, step.anchor)
        if size is None:
            return "more than two runs of axes change places"
        return "" if min(size) >= 2 and max(size) >= 4 else "fewer than 2 rows, or 4 columns"

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        return Estimate(0.7 * graph.types[step.output].elements)

    def kernel(self, job: Job) -> Kernel:
        size = _matrix(job.graph, job.step.anchor)
        assert size is not None
        x, y = _orders(*size)
        ep = epilogues.build(job, job.step.output, ())
        return Kernel(in_blocks(job, (x,), y, ep))


def _matrix(graph: Graph, node: Node) -> tuple[int, int] | None:
    """(rows, columns) of the output if it is the transpose of a matrix, else None."""
    shape = graph.types[node.output].shape
    source = movement(graph, node)
    assert source is not None
    nest = loops(shape, [source, broadcast(shape, shape)])
    if [loop.axes[0].stride for loop in nest] != [1, nest[0].extent]:
        return None
    return nest[0].extent, nest[1].extent


def _orders(rows: int, columns: int) -> tuple[Layout, Layout]:
    """Input and output as one image: the longer side becomes the pixels, because blocks need at
    least four.
    """
    if columns >= rows:
        image = (1, columns, rows)
        return nhwc.make(image), planar.make(image)
    image = (1, rows, columns)
    return planar.make(image), nhwc.make(image)
