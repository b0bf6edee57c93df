"""Elementwise steps and reorders as one strided loop nest.

Reads affine layouts (nhwc, planar), writes affine layouts, of any halo and pitch: so a cast, a
scaling, an activation and the change of order before a convolution are one pass over memory. The
loops run in the order of the output's strides; what is contiguous everywhere becomes one loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannery.emit.environment import offset, render
from cannery.ir.graph import Graph, Node
from cannery.ir.tensor import DType
from cannery.layouts import Layout, Want, nhwc, planar
from cannery.ops.movement.op import Cast, Identity
from cannery.ops.registry import Elementwise
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.lanes import Vec, split_lanes
from cannery.schedule.cost import stream_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Element types that a load word converts to float.
LOADS = {DType.FLOAT32: "load", DType.UINT8: "load_u8", DType.INT8: "load_i8"}


@dataclass(frozen=True)
class Loop:
    """One loop of the nest: its extent, and the stride of each operand (inputs, then output)."""

    extent: int
    strides: tuple[int, ...]
    channel: bool


@schedule
@dataclass(frozen=True)
class MovementStrided(Schedule):
    """See the module's text."""

    id = "movement.strided"
    in_place = (0,)

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        if not isinstance(step.anchor.op, (Identity, Cast, Elementwise)) or len(step.anchors) != 1:
            return "not elementwise"
        if not step.inputs:
            return "reads constants only"
        if _is_copy(graph, step):
            return ""
        if graph.types[step.inputs[0]].dtype not in LOADS:
            return "element type"
        if graph.types[step.output].dtype != DType.FLOAT32:
            return "output is not float32"
        running = step.inputs[0]
        for node in stages(step):
            if not epilogues.fusible(graph, node, running, step.inputs):
                return "operands are broadcast"
            running = node.output
        return ""

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        orders = (nhwc.ORDER, planar.ORDER)
        pairs = [(a, b) for a in orders for b in orders if a == b or not reads_again(step)]
        return [{"from": a, "to": b} for a, b in pairs]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        first = Want(str(params["from"]))
        return (first, *(Want(str(params["to"])) for _ in step.inputs[1:]))

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(str(params["to"])),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        elements = float(graph.types[step.output].elements)
        if params["from"] != params["to"]:
            return Estimate(elements * 1.5)
        return Estimate(stream_cycles(isa, elements, len(step.inputs), 1, 4.0 * len(step.nodes)))

    def kernel(self, job: Job) -> Kernel:
        ep = epilogues.build(job, job.step.inputs[0], stages(job.step))
        layouts = (*job.inputs, job.output)
        loops = nest(
            layouts, per_channel=any(o.kind == "channel" for s in ep.stages for o in s.operands)
        )
        inner = loops[-1]
        first = job.inputs[0]
        raw = job.output.dtype != DType.FLOAT32
        contiguous = inner.strides[0] == 1
        by_ones = raw or (first.dtype != DType.FLOAT32 and not contiguous)
        vectors = split_lanes(
            inner.extent, job.isa, 1 if by_ones else 0, partial=contiguous and not raw
        )
        code = render(
            "ops/movement/strided.c.j2",
            loops=loops[:-1],
            inner=inner,
            groups=_groups(vectors),
            ep=ep,
            raw=raw,
            load=lambda vec, pointer: _load(first, inner.strides[0], vec, pointer),
            tensor=lambda at: lambda k: f"p{k}{offset(at)}",
            names=parameter_names(job),
            layouts=layouts,
            describe=describe(job),
            signature=signature(job),
        )
        return Kernel(code, ep.constants, needs_math=ep.needs_math)


def _is_copy(graph: Graph, step: Step) -> bool:
    """Whether a step only moves elements, of whatever type."""
    return isinstance(step.anchor.op, Identity) and not step.epilogue


def reads_again(step: Step) -> bool:
    """Whether a later node reads the step's first input, too: then its order must not change."""
    running = step.inputs[0]
    for node in stages(step):
        if running != step.inputs[0] and step.inputs[0] in node.inputs:
            return True
        running = node.output
    return False


def stages(step: Step) -> tuple[Node, ...]:
    """The nodes that compute: all but an Identity or Cast at the start."""
    return step.nodes if isinstance(step.anchor.op, Elementwise) else step.epilogue


def nest(layouts: Sequence[Layout], *, per_channel: bool) -> list[Loop]:
    """Loops from the outermost (largest output stride) to the innermost, merged where possible.

    `per_channel` keeps the channel loop apart, for operands that depend on the channel only.
    """
    h, w, c = layouts[0].shape
    rows = Loop(h, tuple(layout.row for layout in layouts), channel=False)
    cols = Loop(w, tuple(layout.col for layout in layouts), channel=False)
    channels = Loop(c, tuple(layout.channel for layout in layouts), channel=True)
    loops = [loop for loop in (rows, cols, channels) if loop.extent > 1 or loop is channels]
    loops.sort(key=lambda loop: -loop.strides[-1])
    if loops[-1].strides[-1] != 1:
        loops.append(Loop(1, tuple(1 for _ in layouts), channel=loops[-1].channel))
    merged: list[Loop] = []
    for loop in loops:
        mixes = per_channel and merged and merged[-1].channel != loop.channel
        if merged and not mixes and _contiguous(merged[-1], loop):
            channel = merged[-1].channel and loop.channel
            merged[-1] = Loop(merged[-1].extent * loop.extent, loop.strides, channel)
        else:
            merged.append(loop)
    return merged


def _contiguous(outer: Loop, inner: Loop) -> bool:
    pairs = zip(outer.strides, inner.strides, strict=True)
    return all(a == b * inner.extent for a, b in pairs)


def _groups(vectors: Sequence[Vec]) -> list[tuple[Vec, int]]:
    """(first vector, count): neighbouring full vectors of a width become one loop."""
    groups: list[tuple[Vec, int]] = []
    for vec in vectors:
        if groups and groups[-1][0].lanes == vec.lanes and vec.full:
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((vec, 1))
    return groups


def _load(layout: Layout, stride: int, vec: Vec, pointer: str) -> str:
    if stride != 1 and vec.lanes > 1:
        if not vec.full:
            raise ValueError("a strided load has no tail")
        return f"{vec.t}_load_stride({pointer}, {stride})"
    word = LOADS[layout.dtype]
    if vec.full:
        return f"{vec.t}_{word}({pointer})"
    return f"{vec.t}_{word}_n({pointer}, {vec.valid})"
