"""Elementwise steps and reorders as one strided loop nest.

It reads and writes affine layouts (nhwc, planar) of any halo and pitch. So a cast, a scaling, an
activation and the change of order before a convolution are one pass over memory. The loops run in
the order of the output's strides; axes that are contiguous everywhere become one loop. Where
operands differ per channel and channels do not fill vectors, vectors run across pixels, and the
loop's body covers a common multiple of channels and lanes. Per-channel operands may also be
computed at run time (squeeze and excitation); then the body has several vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from cannery.ctext.environment import offset, render, times
from cannery.ir.graph import Graph
from cannery.ir.registry import Elementwise
from cannery.ir.tensor import DType
from cannery.layouts import Layout, Want, nhwc, planar
from cannery.ops.movement.op import Cast, Identity
from cannery.ops.shared import epilogue as epilogues
from cannery.ops.shared.function import describe, parameter_names, signature
from cannery.ops.shared.lanes import Vec, split_lanes, vector_runs
from cannery.schedule.cost import elementwise_cycles
from cannery.schedule.program import Step
from cannery.schedule.schedule import Estimate, Job, Kernel, Params, Schedule, schedule
from cannery.target.isa import Isa

#: Element types of the first input; `lanes.LOADS` has the words that load them as floats.
TYPES = (DType.FLOAT32, DType.UINT8, DType.INT8)


@dataclass(frozen=True)
class StridedLoop:
    """One loop of the nest: its extent, and the stride of each operand (inputs, then output)."""

    extent: int
    strides: tuple[int, ...]
    channel: bool


@dataclass(frozen=True)
class Run:
    """Neighbouring vectors, and how often the whole sequence repeats."""

    vecs: tuple[Vec, ...]
    count: int


#: Most vectors in the body of a loop across pixels.
MAX_PERIOD = 16


@schedule
@dataclass(frozen=True)
class MovementStrided(Schedule):
    """See the module docstring."""

    id = "movement.strided"

    def why_not(self, graph: Graph, step: Step, isa: Isa) -> str:
        return elementwise_why_not(graph, step, by_channel=True)

    def candidates(self, graph: Graph, step: Step, isa: Isa) -> Sequence[Params]:
        orders = (nhwc.ORDER, planar.ORDER)
        pairs = [(a, b) for a in orders for b in orders if a == b or not step.reads_again]
        return [{"from": a, "to": b} for a, b in pairs]

    def reads(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        first, others = Want(str(params["from"])), Want(str(params["to"]))
        by_channel = _computed(graph, step)
        return (first, *(Want(dense=True) if v in by_channel else others for v in step.inputs[1:]))

    def writes(self, graph: Graph, step: Step, params: Params, isa: Isa) -> tuple[Want, ...]:
        return (Want(str(params["to"])),)

    def cost(self, graph: Graph, step: Step, params: Params, isa: Isa) -> Estimate:
        elements = float(graph.types[step.output].elements)
        straight = elementwise_cycles(isa, elements, len(step.inputs), len(step.nodes))
        return Estimate(max(straight, 1.5 * elements if params["from"] != params["to"] else 0.0))

    def in_place(self, step: Step) -> bool:
        return True

    def kernel(self, job: Job) -> Kernel:
        ep = epilogues.build(job, job.step.source, job.step.stages)
        computed = _computed(job.graph, job.step)
        walked = [k for k, v in enumerate(job.step.inputs) if v not in computed]
        layouts = (*(job.inputs[k] for k in walked), job.output)
        per_channel = any(o.kind in ("channel", "computed") for s in ep.stages for o in s.operands)
        channels = job.output.shape[2]
        across = per_channel and _dense_pixels(layouts) and period(channels, job.isa) > 1
        across = across and not computed
        loops = nest(layouts, per_channel=per_channel, channels_alone=not across)
        inner = loops[-1]
        first = job.inputs[0]
        raw = job.output.dtype != DType.FLOAT32
        contiguous = inner.strides[0] == 1
        by_ones = raw or (first.dtype != DType.FLOAT32 and not contiguous)
        lanes = 1 if by_ones else 0
        if across:
            runs = periodic_runs(inner.extent, channels, job.isa, lanes)
        elif computed and inner.channel and contiguous and not by_ones:
            runs = unrolled_runs(inner.extent, job.isa)
        else:
            found = vector_runs(inner.extent, job.isa, lanes, partial=contiguous and not raw)
            runs = [Run((vec,), count) for vec, count in found]
        names = parameter_names(job)
        code = render(
            "ops/movement/strided.c.j2",
            loops=loops[:-1],
            inner=inner,
            runs=runs,
            channel=_channel(loops, channels, across=across),
            ep=ep,
            raw=raw,
            whole=_copied(job, inner) if raw else 0,
            load=lambda vec, pointer: load(first, inner.strides[0], vec, pointer),
            tensor=lambda at: lambda k: f"p{walked.index(k)}{offset(at)}",
            names=[names[k] for k in (*walked, len(job.inputs))],
            layouts=layouts,
            describe=describe(job),
            signature=signature(job),
        )
        constants = ep.constants
        if across:  # vectors may begin at any channel; the first channels follow the last
            constants = tuple(
                replace(c, values=np.resize(c.values[:channels], c.values.size)) for c in constants
            )
        return Kernel(code, constants, needs_math=ep.needs_math)


def _copied(job: Job, inner: StridedLoop) -> int:
    """The bytes that may be copied at once; 0 if elements are apart, or may be the same ones."""
    alike = job.inputs[0].dtype is job.output.dtype and set(inner.strides) == {1}
    return inner.extent * job.output.dtype.bytes if alike and not job.in_place else 0


def elementwise_why_not(graph: Graph, step: Step, *, by_channel: bool = False) -> str:
    """Why a step is not one pass over elements; with `by_channel`, computed per-channel operands
    are allowed.
    """
    if not isinstance(step.anchor.op, (Identity, Cast, Elementwise)) or len(step.anchors) != 1:
        return "not elementwise"
    if not step.inputs:
        return "reads constants only"
    if _is_copy(graph, step):
        return ""
    if graph.types[step.inputs[0]].dtype not in TYPES:
        return "element type"
    if graph.types[step.output].dtype != DType.FLOAT32:
        return "output is not float32"
    running = step.source
    for node in step.stages:
        if not epilogues.fusible(graph, node, running, step.inputs, by_channel=by_channel):
            return "operands are broadcast"
        running = node.output
    return ""


def _computed(graph: Graph, step: Step) -> set[str]:
    """The inputs that hold one number per channel."""
    shape = graph.types[step.output].shape
    return {v for v in step.inputs if epilogues.computed_by_channel(graph, v, shape)}


def _is_copy(graph: Graph, step: Step) -> bool:
    """Whether a step only moves elements, of whatever type."""
    return isinstance(step.anchor.op, Identity) and not step.epilogue


def nest(
    layouts: Sequence[Layout], *, per_channel: bool, channels_alone: bool = True
) -> list[StridedLoop]:
    """Loops from the outermost (largest output stride) to the innermost, merged where possible.

    `per_channel`: operands depend only on the channel. Then pixels and channels are kept apart or,
    without `channels_alone`, channels may continue into the next pixel.
    """
    h, w, c = layouts[0].shape
    rows = StridedLoop(h, tuple(layout.row for layout in layouts), channel=False)
    cols = StridedLoop(w, tuple(layout.col for layout in layouts), channel=False)
    channels = StridedLoop(c, tuple(layout.channel for layout in layouts), channel=True)
    loops = [loop for loop in (rows, cols, channels) if loop.extent > 1 or loop is channels]
    loops.sort(key=lambda loop: -loop.strides[-1])
    if loops[-1].strides[-1] != 1:
        loops.append(StridedLoop(1, tuple(1 for _ in layouts), channel=loops[-1].channel))
    merged: list[StridedLoop] = []
    for loop in loops:
        mixes = per_channel and merged and merged[-1].channel != loop.channel
        runs_on = not channels_alone and loop.channel
        if merged and (runs_on or not mixes) and _contiguous(merged[-1], loop):
            channel = loop.channel if runs_on else merged[-1].channel and loop.channel
            merged[-1] = StridedLoop(merged[-1].extent * loop.extent, loop.strides, channel)
        else:
            merged.append(loop)
    return merged


def _dense_pixels(layouts: Sequence[Layout]) -> bool:
    """Whether each pixel directly follows the previous one, channels last, in all layouts."""
    return all(
        layout.order == nhwc.ORDER and layout.channel == 1 and layout.col == layout.shape[2]
        for layout in layouts
    )


def period(channels: int, isa: Isa) -> int:
    """Vectors until one begins at channel 0 again; 0 if that is too many."""
    vectors = channels // gcd(channels, isa.widest)
    return vectors if vectors <= MAX_PERIOD and channels % isa.widest else 0


def periodic_runs(extent: int, channels: int, isa: Isa, lanes: int = 0) -> list[Run]:
    """Vectors across pixels: as many full periods as fit, then the rest."""
    whole = period(channels, isa) * isa.widest
    body = split_lanes(whole, isa, lanes)
    count = extent // whole
    rest = split_lanes(extent - count * whole, isa, lanes)
    return [*([Run(body, count)] if count else []), *(Run((vec,), 1) for vec in rest)]


def unrolled_runs(extent: int, isa: Isa) -> list[Run]:
    """Several vectors of a pixel per iteration of the loop, then the rest."""
    vectors = split_lanes(extent, isa)
    if len(vectors) <= MAX_PERIOD:
        return [Run(vectors, 1)]
    body = vectors[: MAX_PERIOD // 2]
    count = sum(vec.lanes == isa.widest and vec.full for vec in vectors) // len(body)
    return [Run(body, count), Run(vectors[count * len(body) :], 1)]


def _channel(
    loops: Sequence[StridedLoop], channels: int, *, across: bool
) -> Callable[[Run, Vec], str]:
    """The C expression of a vector's first channel."""
    if across:
        return lambda run, vec: str(vec.start % channels)
    if loops[-1].channel:
        return lambda run, vec: f"({vec.start}{times('i', run.count, _lanes(run))})"
    outer = [f"i{k}" for k, loop in enumerate(loops[:-1]) if loop.channel]
    return lambda run, vec: outer[-1] if outer else "0"


def _lanes(run: Run) -> int:
    """Elements of one iteration of the loop."""
    return sum(vec.lanes for vec in run.vecs)


def _contiguous(outer: StridedLoop, inner: StridedLoop) -> bool:
    pairs = zip(outer.strides, inner.strides, strict=True)
    return all(a == b * inner.extent for a, b in pairs)


def load(layout: Layout, stride: int, vec: Vec, pointer: str) -> str:
    """A vector of floats, loaded from numbers of the layout's type, `stride` apart."""
    if stride != 1 and vec.lanes > 1:
        if not vec.full:
            raise ValueError("a strided load has no tail")
        return f"{vec.t}_load_stride({pointer}, {stride})"
    return vec.load(pointer, layout.dtype)
