"""A convolution of concatenated and upsampled images as a sum of convolutions of their sources.

conv(concat(a, b); W) = conv(a; Wa) + conv(b; Wb): one term per concatenated image. Where an image
is upsampled by repeating its pixels, taps of the window fall on copies of the same pixel. So the
outputs whose row and column leave the same remainder modulo the scales (one phase) are a
convolution of the small image, with the weights of such taps added up: 2x2 taps instead of 3x3 for
a scale of two. The upsampled and the concatenated image are never built.

The phases of a term differ in their weights and in where they read and write; those with windows
and outputs of the same size form one `Piece`: one kernel, called once per phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Array, Graph, Node
from cannery.ir.tensor import TensorType
from cannery.ops.concat.op import Concat
from cannery.ops.concat.view import copied_parts
from cannery.ops.conv.geometry import ConvShape, sizes, why_not_dense
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add
from cannery.ops.resize.op import Resize, repeats
from cannery.ops.shared.steps import make_step
from cannery.schedule.program import Step


@dataclass(frozen=True)
class Source:
    """A source of the convolution: how often its pixels are repeated along rows and columns, and
    which of the concatenated channels belong to it.
    """

    value: str
    scales: tuple[int, int]
    first: int
    channels: int


@dataclass(frozen=True)
class Line:
    """One phase along one axis: outputs phase, phase + scale ...; output i of it reads, by its tap
    t, input  i * stride + t * dilation - pad  with the weights of the window's `taps[t]` added up.
    """

    phase: int
    size: int
    taps: tuple[tuple[int, ...], ...]
    pad: int


@dataclass(frozen=True)
class OutputPhase:
    """The outputs of one phase along both axes."""

    rows: Line
    cols: Line

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Taps and outputs along the axes."""
        return len(self.rows.taps), len(self.cols.taps), self.rows.size, self.cols.size

    @property
    def window(self) -> int:
        """Taps of the whole window."""
        return sum(map(len, self.rows.taps)) * sum(map(len, self.cols.taps))


@dataclass(frozen=True)
class Piece:
    """Phases of one source that share their code, as the convolution step of the first of them.

    `graph` holds only that step, with all weights zero; see `weighted`. Where there are several
    terms, the first has the bias, and each other one adds the value `so_far` of those before; the
    last has the epilogue.
    """

    source: Source
    phases: tuple[OutputPhase, ...]
    graph: Graph
    step: Step
    weight: str
    so_far: str = ""

    def weighted(self, weights: NDArray[np.float64], phase: OutputPhase) -> Graph:
        """The graph with the weights of one phase, taken from the whole window's `weights`."""
        own = fold(weights[:, :, self.source.first :][:, :, : self.source.channels], phase)
        return replace(self.graph, constants={**self.graph.constants, self.weight: own})

    def placed(self, phase: OutputPhase) -> Step:
        """The step with the pads of one phase; everything else is as in the first phase."""
        conv = self.step.anchor
        return replace(self.step, anchors=(replace(conv, op=_op(self.graph, conv, phase)),))


def _op(graph: Graph, conv: Node, phase: OutputPhase) -> Conv:
    """The convolution of a phase of the image that `conv` reads first."""
    op = conv.op
    assert isinstance(op, Conv)
    _, h, w, _ = graph.types[conv.inputs[0]].shape
    ends = [
        max((line.size - 1) * stride + (len(line.taps) - 1) * dilation + 1 - line.pad - size, 0)
        for line, stride, dilation, size in zip(
            (phase.rows, phase.cols), op.strides, op.dilations, (h, w), strict=True
        )
    ]
    return replace(op, pads=((phase.rows.pad, ends[0]), (phase.cols.pad, ends[1])))


def lines(size: int, taps: int, scale: int, begin: int) -> list[Line]:
    """The phases of an axis of `size` outputs, for a window of `taps` after upsampling."""
    if scale == 1:
        return [Line(0, size, tuple((t,) for t in range(taps)), begin)]
    found = []
    for phase in range(min(scale, size)):
        # Tap t of output i * scale + phase falls on a copy of input  i + places[t].
        places = [(phase + t - begin) // scale for t in range(taps)]
        inputs = range(places[0], places[-1] + 1)
        joined = tuple(tuple(t for t in range(taps) if places[t] == place) for place in inputs)
        found.append(Line(phase, -(-(size - phase) // scale), joined, -places[0]))
    return found


def fold(weights: NDArray[np.float64], phase: OutputPhase) -> Array:
    """w[kh,kw,IC,OC] with the taps of a phase added up, in a fixed order."""
    kh, kw = len(phase.rows.taps), len(phase.cols.taps)
    own = np.zeros((kh, kw, *weights.shape[2:]))
    for (i, rows), (j, cols) in product(enumerate(phase.rows.taps), enumerate(phase.cols.taps)):
        for r, c in product(rows, cols):
            own[i, j] += weights[r, c]
    return own.astype(np.float32)


def whole_weights(graph: Graph, step: Step) -> NDArray[np.float64]:
    """The weights of the chain's convolution."""
    return graph.constants[sizes(graph, step.parts[-1]).weight].astype(np.float64)


def why_not_terms(graph: Graph, step: Step) -> str:
    """Why a chain is not a convolution of concatenated or upsampled images; empty if it is."""
    if len(step.parts) < 2:
        return "not a chain"
    *before, last = step.parts
    if reason := why_not_dense(graph, last):
        return f"does not end with a convolution of all channels: {reason}"
    for part in before:
        if part.epilogue or not _moves(graph, part.anchor):
            return "more than concatenations of channels and repeated pixels before it"
    shape = sizes(graph, last)
    scaled = any(source.scales != (1, 1) for source in sources(graph, step))
    if scaled and (shape.sh, shape.sw, shape.dh, shape.dw) != (1, 1, 1, 1):
        return "strides or dilations after an upsampling"
    joined = [part for part in before if isinstance(part.anchor.op, Concat)]
    copies = any(copied_parts(graph, part) for part in joined)
    return "" if scaled or copies else "everything can be written where it is read"


def _moves(graph: Graph, node: Node) -> bool:
    """Whether a node only repeats pixels or concatenates channels."""
    shape = graph.types[node.output].shape
    if any(value in graph.constants for value in node.inputs) or len(shape) != 4:
        return False
    if isinstance(node.op, Resize):
        return bool(repeats(node.op, graph.types[node.inputs[0]].shape[1:-1]))
    return isinstance(node.op, Concat) and node.op.axis == len(shape) - 1


def sources(graph: Graph, step: Step) -> tuple[Source, ...]:
    """What the convolution of a chain reads, in the order of its channels."""
    inner = {part.output: part.anchor for part in step.parts[:-1]}
    found: list[Source] = []

    def expand(value: str, scales: tuple[int, int]) -> None:
        node = inner.get(value)
        if node is None:
            first = found[-1].first + found[-1].channels if found else 0
            found.append(Source(value, scales, first, graph.types[value].shape[-1]))
        elif isinstance(node.op, Resize):
            (h, w) = repeats(node.op, graph.types[node.inputs[0]].shape[1:-1])
            expand(node.inputs[0], (scales[0] * h, scales[1] * w))
        else:
            for part in node.inputs:
                expand(part, scales)

    expand(step.parts[-1].anchor.inputs[0], (1, 1))
    return tuple(found)


def pieces(graph: Graph, step: Step) -> tuple[Piece, ...]:
    """All kernels of a chain that `why_not_terms` accepts, in order."""
    shape = sizes(graph, step.parts[-1])
    found = []
    all_sources = sources(graph, step)
    for number, source in enumerate(all_sources):
        groups: dict[tuple[int, int, int, int], list[OutputPhase]] = {}
        rows = lines(shape.oh, shape.kh, source.scales[0], shape.top)
        for phase in (
            OutputPhase(r, c)
            for r in rows
            for c in lines(shape.ow, shape.kw, source.scales[1], shape.left)
        ):
            groups.setdefault(phase.shape, []).append(phase)
        ends = (number == 0, number == len(all_sources) - 1)
        found += [_piece(graph, step, shape, source, group, ends) for group in groups.values()]
    return tuple(found)


def _piece(
    graph: Graph,
    step: Step,
    shape: ConvShape,
    source: Source,
    phases: Sequence[OutputPhase],
    ends: tuple[bool, bool],
) -> Piece:
    """One piece; `ends`: whether its term is the first, and whether it is the last."""
    conv = step.parts[-1].anchor
    first, last = ends
    lead = phases[0]
    kh, kw, oh, ow = lead.shape
    batch = graph.types[conv.output].shape[0]
    small = TensorType((batch, oh, ow, shape.oc))
    weight, so_far = f"{conv.name}/weights", "" if first else f"{conv.output}/so far"
    bias = (shape.bias,) if first and shape.bias else ()
    tail = step.epilogue if last else ()
    result = conv.output if last else f"{conv.output}/sum"
    own = result if first else f"{conv.output}/own"
    op = _op(graph, replace(conv, inputs=(source.value,)), lead)
    nodes = [Node(op, conv.name, (source.value, weight, *bias), (own,))]
    if so_far:
        nodes.append(Node(Add(), f"{conv.name}/sum", (own, so_far), (result,)))
    nodes += tail
    values = {v for node in nodes for v in (*node.inputs, *node.outputs)} - {source.value, weight}
    types = {v: graph.types[v] if v in graph.constants else small for v in values}
    types |= {source.value: graph.types[source.value]}
    types[weight] = TensorType((kh, kw, source.channels, shape.oc))
    constants: dict[str, Array] = {v: graph.constants[v] for v in values if v in graph.constants}
    constants[weight] = np.broadcast_to(np.float32(0), types[weight].shape)
    alone = replace(graph, nodes=tuple(nodes), types=types, constants=constants, length=None)
    own_step = make_step(alone, (nodes[0],), tuple(nodes[1:]))
    alone = replace(alone, inputs=own_step.inputs, outputs=own_step.outputs)
    return Piece(source, tuple(phases), alone, own_step, weight, so_far)
