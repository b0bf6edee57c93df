"""Elementwise steps and reorders from or to the phase-split layout.

The four phases of neighbouring columns are four planes: four tiles times four planes are a 4 x 4
transpose if the other image has the four planes side by side. It does where its channels are
neighbours (planes of four channels), and where its pixels follow each other without a gap (a run of
4 * C elements per tile, for C < 4 or one plane at a time). The rest goes one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cannery.ctext.environment import render
from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.layouts import Layout, Want, nhwc, phase_split, planar
from cannery.ops.movement.strided import TYPES, elementwise_why_not
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.lanes import LOADS, Vec, vector_runs
from cannery.schedule.cost import elementwise_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa


@dataclass(frozen=True)
class Plane:
    """One plane of a row: the column within the tile, and the C expression of its channel."""

    px: int
    channel: str


@schedule
@dataclass(frozen=True)
class MovementPhase(Schedule):
    """See the module docstring."""

    id = "movement.phase"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if step.inputs and graph.types[step.inputs[0]].rank != 4:
            return "no image"
        if step.inputs and graph.types[step.inputs[0]].dtype not in TYPES:
            return "element type"
        if graph.types[step.output].dtype != DType.FLOAT32:
            return "output is not float32"
        if step.reads_again:
            return "reads its input in two orders"
        return elementwise_why_not(graph, step)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        pairs = [(order, phase_split.ORDER) for order in (nhwc.ORDER, planar.ORDER)]
        found = [{"from": a, "to": b} for a, b in pairs]
        if graph.types[step.inputs[0]].dtype != DType.FLOAT32:
            return found
        pairs.append((phase_split.ORDER, phase_split.ORDER))
        return found + [{"from": b, "to": a} for a, b in pairs]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        first = Want(str(params["from"]))
        return (first, *(Want(phase_split.ORDER) for _ in step.inputs[1:]))

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(str(params["to"])),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        elements = float(graph.types[step.output].elements)
        each = (0.5 if 4 in isa.lanes else 2.0) + 0.3 * len(step.epilogue)
        straight = elementwise_cycles(isa, elements, len(step.inputs), len(step.nodes))
        return Estimate(max(elements * each, straight))

    def in_place(self, step: Step) -> bool:
        return True

    def kernel(self, job: Job) -> Kernel:
        to_phase = job.output.order == phase_split.ORDER
        names = parameter_names(job)
        ends = [(job.inputs[0], names[0]), (job.output, names[-1])]
        (affine, affine_name), (split, split_name) = ends if to_phase else ends[::-1]
        ep = epilogues.build(job, job.step.source, job.step.stages)
        _, width, channels = split.shape
        form, run = _form(affine, job.isa)
        place, there = f"i * {affine.col} + c * {affine.channel}", _left("c", split)
        code = render(
            "ops/movement/phase.c.j2",
            to_phase=to_phase,
            affine=affine,
            affine_name=affine_name,
            split=split,
            split_name=split_name,
            form=form,
            run=run,
            plane_runs=[vector_runs((width - px + 3) // 4, job.isa) for px in range(4)],
            plane=Plane,
            run_planes=_run_planes(run),
            pixel_planes=lambda px: [Plane(px, f"(c + {m})" if m else "c") for m in range(4)],
            first_left={"runs": width // 4 * 4, "": 0}.get(form, width),
            from_offset=place if to_phase else there,
            to_offset=there if to_phase else place,
            left_residual=lambda k: f"r{k}r + ({_left('c', job.inputs[k])})",
            width=width,
            channels=channels,
            word=LOADS[affine.dtype],
            at=_at,
            residual=_residual(job),
            residuals={k: job.inputs[k] for k in ep.tensors},
            ep=ep,
            vec=lambda n: Vec(0, 4, n, 0),
            one=Vec(0, 1, 1, 0),
            describe=describe(job),
            signature=signature(job, band=True),
        )
        return Kernel(code, ep.constants, band=1, needs_math=ep.needs_math)


def _form(affine: Layout, isa: Isa) -> tuple[str, int]:
    """How four planes lie side by side (pixels, runs, or empty), and the channels in a run.

    `planes` is for two phase-split images.
    """
    channels = affine.shape[2]
    if affine.order == phase_split.ORDER:
        return "planes", 1
    if 4 not in isa.lanes:
        return "", 1
    if affine.channel == 1 and channels >= 4:
        return "pixels", 1
    if affine.channel == 1 and affine.col == channels:
        return "runs", channels
    return ("runs", 1) if affine.col == 1 else ("", 1)


def _run_planes(run: int) -> list[list[Plane]]:
    """The planes of the elements of one tile and `run` channels, in groups of four."""
    planes = [
        Plane(k // run, f"(c * {run} + {k % run})" if run > 1 else "c") for k in range(4 * run)
    ]
    return [planes[k : k + 4] for k in range(0, len(planes), 4)]


def _at(pointer: str, layout: Layout, plane: Plane, tile: str | int) -> str:
    return f"{pointer} + ({plane.channel} * {layout.channel} + {plane.px * layout.phase} + {tile})"


def _left(channel: str, layout: Layout) -> str:
    """Offset of column i of a channel in a row of a phase-split image."""
    return f"{channel} * {layout.channel} + i % 4 * {layout.phase} + i / 4"


def _residual(job: Job) -> Callable[[Plane, str | int], Callable[[int], str]]:
    """(plane, tile) -> input index -> C pointer."""

    def at(plane: Plane, tile: str | int) -> Callable[[int], str]:
        return lambda k: _at(f"r{k}r", job.inputs[k], plane, tile)

    return at
