"""Random networks that are hard on memory, and random ways to compute them.

Few shapes, so that values can be added, joined and overwritten in every combination; what is read
twice, in two concatenations, through reshapes, or returned as well as read, is frequent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cannery.choose.plan import make_segments
from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Mul, Relu, Tanh
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Pad, Reshape, Slice
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import legal
from cannery.target.isa import Isa
from cannery.tuning.contests import is_view

#: Draws an integer between two, both included.
Integer = Callable[[int, int], int]

#: No value has more elements.
MAX_ELEMENTS = 2000


@dataclass
class _Network:
    integer: Integer
    builder: GraphBuilder
    values: list[str] = field(default_factory=list)

    def shape(self, value: str) -> tuple[int, ...]:
        return self.builder.types[value].shape

    def one_of(self, values: Sequence[str]) -> str:
        """Any of them, the last ones mostly."""
        back = min(self.integer(1, len(values)), self.integer(1, len(values)))
        return values[-back]

    def like(self, value: str, *axes: int) -> str:
        """A value whose shape is that of another along these axes."""
        wanted = [self.shape(value)[a] for a in axes]
        return self.one_of([v for v in self.values if [self.shape(v)[a] for a in axes] == wanted])

    def node(self, op: Op, *inputs: str) -> str:
        name = f"n{len(self.builder.types)}_{op.kind.lower()}"
        return self.builder.node(op, inputs, name=name)

    def weight(self, *shape: int) -> str:
        return self.builder.constant("w", np.ones(shape, np.float32))


def _elementwise(m: _Network) -> str:
    op = (Relu(), Tanh(), Softmax(3))[m.integer(0, 2)]
    return m.node(op, m.one_of(m.values))


def _merge(m: _Network) -> str:
    x = m.one_of(m.values)
    return m.node((Add(), Mul())[m.integer(0, 1)], x, m.like(x, 0, 1, 2, 3))


def _residual(m: _Network) -> str:
    x = m.one_of(m.values)
    return m.node(Add(), _convolve(m, x, m.shape(x)[-1]), x)


def _convolve(m: _Network, x: str, outputs: int) -> str:
    kernel = 3 if m.integer(0, 1) and min(m.shape(x)[1:3]) > 2 else 1
    pads = ((kernel // 2, kernel // 2),) * 2
    weight = m.weight(kernel, kernel, m.shape(x)[-1], outputs)
    return m.node(Conv((1, 1), pads, (1, 1)), x, weight)


def _convolution(m: _Network) -> str:
    return _convolve(m, m.one_of(m.values), m.integer(1, 9))


def _concat(m: _Network) -> str:
    """Two or three parts, the same one twice now and then."""
    axis = m.integer(1, 3)
    x = m.one_of(m.values)
    others = [a for a in range(4) if a != axis]
    parts = [x, *(m.like(x, *others) for _ in range(m.integer(1, 2)))]
    return m.node(Concat(axis), *parts)


def _reshape(m: _Network) -> str:
    x = m.one_of(m.values)
    n, h, w, c = m.shape(x)
    shapes = [(n, w, h, c), (n, h * w, 1, c), (n, 1, h, w * c), (n, h, w * c, 1)]
    return m.node(Reshape(shapes[m.integer(0, 3)]), x)


def _pool(m: _Network) -> str:
    x = m.one_of(m.values)
    kernel = tuple(min(3, size) for size in m.shape(x)[1:3])
    pads = tuple((k // 2, k // 2) for k in kernel)
    stride = 1 + m.integer(0, 1)
    return m.node(MaxPool(kernel, (stride, stride), pads, (1, 1)), x)


def _upsample(m: _Network) -> str:
    x = m.one_of(m.values)
    _, h, w, _ = m.shape(x)
    return m.node(Resize("nearest", (2 * h, 2 * w)), x)


def _move(m: _Network) -> str:
    x = m.one_of(m.values)
    n, h, w, c = m.shape(x)
    if m.integer(0, 1) and h > 1:
        return m.node(Slice((0, 1, 0, 0), (n, h, w, c), (1, 1, 1, 1)), x)
    return m.node(Pad(((0, 0), (1, 0), (0, 2), (0, 0))), x)


def _channels(m: _Network) -> str:
    """Some neighbouring channels of an image that has several."""
    x = m.one_of(m.values)
    n, h, w, c = m.shape(x)
    start = m.integer(0, c - 1)
    end = m.integer(start + 1, c)
    return m.node(Slice((0, 0, 0, start), (n, h, w, end), (1, 1, 1, 1)), x)


_KINDS = (
    _elementwise, _elementwise, _merge, _residual, _convolution, _convolution, _concat, _concat,
    _concat, _reshape, _pool, _upsample, _move, _channels, _channels,
)  # fmt: skip


def shared_network(integer: Integer) -> Graph:
    """Two to nine layers on one or two images, with up to three outputs."""
    m = _Network(integer, GraphBuilder("shared"))
    shape = (integer(1, 2), integer(2, 7), integer(2, 9), integer(1, 5))
    m.values = [m.builder.input(f"in{k}", shape) for k in range(integer(1, 2))]
    for _ in range(integer(2, 9)):
        made = _KINDS[integer(0, len(_KINDS) - 1)](m)
        if m.builder.types[made].elements <= MAX_ELEMENTS:
            m.values.append(made)
    outputs = {m.values[-1], *(m.one_of(m.values) for _ in range(integer(0, 2)))}
    for value in sorted(outputs):
        m.builder.output(value)
    return m.builder.build()


def any_choices(graph: Graph, isa: Isa, integer: Integer) -> tuple[list[Step], list[Choice]]:
    """Any cut, with any legal schedule and any of its candidates for each step."""
    segments, at = make_segments(graph), 0
    steps, choices = [], []
    while at < max((segment.end for segment in segments), default=0):
        ways = [
            (segment, schedule)
            for segment in segments
            if segment.first == at
            for schedule in legal(graph, segment.step, isa)
        ]
        # Plain C can do nearly everything, and shares no memory: the rest should be frequent.
        views = [way for way in ways if is_view(way[1])]
        fast = [way for way in ways if way[1].id not in ("movement.general", "concat.copy")]
        lists = [found for found in (views, fast, fast, ways) if found]
        found = lists[integer(0, len(lists) - 1)]
        segment, schedule = found[integer(0, len(found) - 1)]
        candidates = schedule.candidates(graph, segment.step, isa)
        steps.append(segment.step)
        choices.append(Choice(schedule, candidates[integer(0, len(candidates) - 1)]))
        at = segment.end
    return steps, choices
