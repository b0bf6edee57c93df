"""One step on a few rows, as a step of a graph of its own.

Output rows r to r + rows - 1 of a step depend on a window of rows of each input. On a graph whose
types have only these rows, and whose windows have no padding above and below, every schedule works
as it is: nothing about rows is left to know. Pad columns stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Elementwise, Op
from cannery.ir.tensor import TensorType
from cannery.layouts import nhwc
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.quantized.average_pool import QuantizedAveragePool
from cannery.ops.quantized.conv import QuantizedConv
from cannery.ops.quantized.elementwise import ByteTable, QuantizedElementwise
from cannery.ops.quantized.function import TableFunction
from cannery.ops.quantized.max_pool import QuantizedMaxPool
from cannery.ops.quantized.scale import Quantize
from cannery.ops.scalar.base import Pointwise
from cannery.ops.shared.steps import make_step
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import Estimate, estimates, legal
from cannery.target.isa import Isa

#: Operators that compute each element from the same element of their inputs.
_POINTWISE = (
    Elementwise, Pointwise, QuantizedElementwise, ByteTable, TableFunction, Quantize,
)  # fmt: skip

_CONVOLUTIONS = (Conv, QuantizedConv)
_POOLS = (MaxPool, AveragePool, QuantizedMaxPool, QuantizedAveragePool)


@dataclass(frozen=True)
class Window:
    """Output row r reads the input rows r * stride - top to r * stride - top + reach.

    Rows outside the image are zeros, of which there are `bottom` below it.
    """

    stride: int = 1
    reach: int = 0
    top: int = 0
    bottom: int = 0

    def first(self, row: int) -> int:
        """The first input row of an output row."""
        return row * self.stride - self.top

    def rows(self, count: int) -> int:
        """Input rows of that many output rows."""
        return (count - 1) * self.stride + self.reach + 1


@dataclass(frozen=True)
class Sliced:
    """A step for `rows` rows: `graph` has only these, `step` is the step there.

    `windows` are those of its inputs.
    """

    graph: Graph
    step: Step
    rows: int
    windows: tuple[Window, ...]

    def best(self, isa: Isa) -> tuple[Choice, Estimate] | None:
        """The candidate that is fastest by estimate, of those that can work on rows."""
        return self.graph.once("best", (isa,), lambda: self._best(isa))

    def _best(self, isa: Isa) -> tuple[Choice, Estimate] | None:
        found: list[tuple[float, Choice, Estimate]] = []
        for schedule in legal(self.graph, self.step, isa):
            if schedule.inexact:
                continue
            for params, cost in estimates(self.graph, self.step, isa, schedule):
                choice = Choice(schedule, params)
                if not choice.inexact and self._fits(choice, isa):
                    found.append((cost.cycles, choice, cost))
        best = min(found, key=lambda each: each[0], default=None)
        return best and (best[1], best[2])

    def _fits(self, choice: Choice, isa: Isa) -> bool:
        """Whether the rows lie as a schedule wants them: channels last, with gaps at their ends."""
        schedule, params = choice.schedule, choice.params
        reads = schedule.reads(self.graph, self.step, params, isa)
        (writes,) = schedule.writes(self.graph, self.step, params, isa)
        counts = (window.rows(self.rows) for window in self.windows)
        whole = writes.halo or writes.slack or (writes.dense and self.rows > 1)
        return not whole and all(
            want.order == nhwc.ORDER
            and not (want.dense and count > 1)
            and not (want.halo.top or want.halo.bottom)
            for want, count in zip((*reads, writes), (*counts, 1), strict=True)
        )


def windows(graph: Graph, step: Step) -> tuple[Window, ...] | None:
    """The windows over rows of each input of a step; None if its rows do not follow from rows."""
    return graph.once("windows", (step,), lambda: _windows(graph, step))


def sliced(graph: Graph, step: Step, rows: int) -> Sliced:
    """The step for that many rows; `windows` must be known."""
    return graph.once(("sliced", rows), (step,), lambda: _sliced(graph, step, rows))


def _windows(graph: Graph, step: Step) -> tuple[Window, ...] | None:
    if len(step.outputs) != 1 or len(step.anchors) != 1 or step.parts or not step.inputs:
        return None
    shape, anchor = graph.types[step.output].shape, step.anchor
    known = all(_is_image(graph, node.output, shape) for node in step.nodes)
    first = _anchor_window(graph, anchor)
    if not known or first is None or not all(map(_is_pointwise, step.nodes[1:])):
        return None
    found = []
    for value in step.inputs:
        window = first if value == anchor.inputs[0] else Window()
        again = any(value in node.inputs for node in step.nodes[1:])
        if window != Window() and (again or value in anchor.inputs[1:]):
            return None
        if window == Window() and not _is_image(graph, value, shape):
            return None
        found.append(window)
    constants = (v for node in step.nodes if _is_pointwise(node) for v in node.inputs if v)
    if not all(_same_in_rows(graph, v) for v in constants if v in graph.constants):
        return None
    return tuple(found)


def _is_pointwise(node: Node) -> bool:
    return isinstance(node.op, _POINTWISE)


def _is_image(graph: Graph, value: str, like: tuple[int, ...]) -> bool:
    """Whether a value has the rows and columns of an image."""
    shape = graph.types[value].shape
    return len(shape) == 4 == len(like) and shape[:3] == like[:3]


def _same_in_rows(graph: Graph, constant: str) -> bool:
    shape = graph.types[constant].shape
    return len(shape) < 3 or shape[-3] == 1


def _anchor_window(graph: Graph, node: Node) -> Window | None:
    op, x = node.op, node.inputs[0]
    if _is_pointwise(node):
        return Window()
    image = x not in graph.constants and len(graph.types[x].shape) == 4
    if not image or any(v and v not in graph.constants for v in node.inputs[1:]):
        return None
    if isinstance(op, _CONVOLUTIONS):
        kernel, padded = graph.types[node.inputs[1]].shape[0], True
    elif isinstance(op, _POOLS):
        kernel, padded = op.kernel[0], False
    else:
        return None
    (top, bottom), stride = op.pads[0], op.strides[0]
    if not padded and (top or bottom):
        return None
    reach, height = (kernel - 1) * op.dilations[0], graph.types[node.output].shape[1]
    last = (height - 1) * stride - top + reach
    return Window(stride, reach, top, max(last + 1 - graph.types[x].shape[1], 0))


def _sliced(graph: Graph, step: Step, rows: int) -> Sliced:
    found = windows(graph, step)
    assert found is not None
    types = dict(graph.types)
    for value, window in zip(step.inputs, found, strict=True):
        types[value] = _of_rows(graph.types[value], window.rows(rows))
    for node in step.nodes:
        types[node.output] = _of_rows(graph.types[node.output], rows)
    first = replace(step.anchor, op=_without_rows_padding(step.anchor.op))
    nodes = tuple(first if node is step.anchor else node for node in graph.nodes)
    small = replace(graph, nodes=nodes, types=types, length=None)
    return Sliced(small, make_step(small, (first,), step.epilogue), rows, found)


def _of_rows(type_: TensorType, rows: int) -> TensorType:
    _, _, width, channels = type_.shape
    return replace(type_, shape=(1, rows, width, channels))


def _without_rows_padding(op: Op) -> Op:
    if isinstance(op, (*_CONVOLUTIONS, *_POOLS)):
        return replace(op, pads=((0, 0), *op.pads[1:]))
    return op
