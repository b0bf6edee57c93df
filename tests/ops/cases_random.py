"""Random geometry: windows, axes and sequences that nobody thought of; the seeds are fixed.

What tables leave out is where one thing meets another: a dilation that does not divide the border,
a window larger than the image, a length of 0 in one direction alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from cannery.errors import ModelError
from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Transpose
from cannery.ops.normalization.op import GroupNormalization, LayerNormalization
from cannery.ops.recurrent.op import Gru, Lstm, Rnn
from cannery.ops.softmax.op import LogSoftmax, Softmax
from cannery.ops.window import Pads, extent
from ops.cases import Net, add_case
from ops.cases_normalization import normalization_graph
from ops.cases_recurrent import USUAL, recurrent_graph
from ops.cases_reduce import OPERATORS, Reduce, reduce_graph
from ops.epilogues import add_tail

#: How many of each kind.
COUNT = 5

CHANNELS = (1, 2, 3, 5, 8, 12, 13, 20, 33)

TAILS = ("", "relu", "scale", "add", "scale add relu")


class Draw:
    """Numbers from a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        """Both included."""
        return int(self._rng.integers(low, high + 1))

    def pair(self, low: int, high: int) -> tuple[int, int]:
        return self.integer(low, high), self.integer(low, high)

    def channels(self) -> int:
        return CHANNELS[self.integer(0, len(CHANNELS) - 1)]

    def tail(self) -> str:
        return TAILS[self.integer(0, len(TAILS) - 1)]


Window = tuple[tuple[int, int], tuple[int, int], Pads, tuple[int, int]]


def _window(d: Draw, *, large: bool) -> tuple[tuple[int, int], Window]:
    """Sizes of an image that a window fits into, with its padding; the window.

    A `large` one is never unrolled.
    """
    kernel = (d.integer(2, 4), d.integer(9, 11)) if large else d.pair(1, 4)
    strides, dilations = d.pair(1, 3), d.pair(1, 3)
    reach = [extent(k, e) for k, e in zip(kernel, dilations, strict=True)]
    pads = tuple((d.integer(0, r - 1), d.integer(0, r - 1)) for r in reach)
    height, width = (
        max(r - a - b, 1) + d.integer(0, 9) for r, (a, b) in zip(reach, pads, strict=True)
    )
    return (height, width), (kernel, strides, pads, dilations)


def _pool(kind: Callable[..., Op], d: Draw) -> Graph:
    """Windows too large to unroll are loops; borders reach far into the image."""
    net = Net()
    size, window = _window(d, large=bool(d.integer(0, 1)))
    x = net.input("x", (d.integer(1, 2), *size, d.channels()))
    return net.graph(add_tail(net, net.node(kind(*window), [x]), d.tail()))


def _conv(d: Draw) -> Graph:
    """Ordinary ones, in groups, and depthwise ones with a multiplier."""
    net = Net()
    size, (kernel, *place) = _window(d, large=not d.integer(0, 2))
    way, channels = d.integer(0, 3), d.channels()
    groups = {0: 1, 1: 1, 2: channels, 3: d.integer(2, 3)}[way]
    inputs = channels if way < 3 else groups * d.integer(1, 3)
    outputs = d.channels() if way < 2 else groups * d.integer(1, 2)
    x = net.input("x", (d.integer(1, 2), *size, inputs))
    w = net.weight(*kernel, inputs // groups, outputs)
    bias = [net.weight(outputs)] if d.integer(0, 1) else []
    y = net.node(Conv(*place, groups), [x, w, *bias])
    return net.graph(add_tail(net, y, d.tail()))


def _conv_transpose(d: Draw) -> Graph:
    net = Net()
    (height, width), (kernel, strides, pads, dilations) = _window(d, large=False)
    groups = d.integer(1, 2)
    inputs, outputs = groups * d.integer(1, 7), groups * d.integer(1, 7)
    extra = tuple(d.integer(0, s - 1) for s in strides)
    x = net.input("x", (1, min(height, 5), min(width, 6), inputs))
    w = net.weight(*kernel, outputs // groups, inputs)
    y = net.node(ConvTranspose(strides, pads, dilations, extra, groups), [x, w])
    return net.graph(add_tail(net, y, d.tail()))


def _shape(d: Draw, rank: int) -> tuple[int, ...]:
    """Not many elements, the last axis mostly longer than a vector."""
    return (*(d.integer(1, 5) for _ in range(rank - 1)), d.integer(1, 40))


def _reduce(d: Draw) -> Graph:
    rank = d.integer(2, 5)
    axes = tuple(a for a in range(rank) if d.integer(0, 1)) or (rank - 1,)
    operator = OPERATORS[d.integer(0, len(OPERATORS) - 1)]
    case = Reduce(_shape(d, rank), axes, bool(d.integer(0, 1)), d.tail())
    return reduce_graph(operator, case)


def _softmax(d: Draw) -> Graph:
    net, rank = Net(), d.integer(2, 4)
    op = (LogSoftmax if d.integer(0, 1) else Softmax)(d.integer(0, rank - 1))
    return net.graph(add_tail(net, net.node(op, [net.input("x", _shape(d, rank))]), d.tail()))


def _normalization(d: Draw) -> Graph:
    given = ("", "scale", "bias", "scale bias", "SCALE bias")[d.integer(0, 4)]
    if d.integer(0, 1):
        groups, axis = d.integer(1, 4), d.integer(1, 3)
        shape = tuple(groups * d.integer(1, 5) if k == axis else d.integer(1, 6) for k in range(4))
        return normalization_graph(GroupNormalization(groups, axis, 1e-3), shape, given, d.tail())
    shape = (*(d.integer(2, 5) for _ in range(3)), d.integer(2, 40))
    axes = tuple(a for a in range(1, 4) if d.integer(0, 1)) or (3,)
    return normalization_graph(LayerNormalization(axes, 1e-3), shape, given, d.tail())


def _recurrent(d: Draw) -> Graph:
    """One sample or several, of any lengths; results that a network may leave unread."""
    kind = (Lstm, Gru, Rnn)[d.integer(0, 2)]
    steps, samples = d.integer(1, 4), d.integer(1, 3)
    reverse = ((False,), (True,), (False, True), (True, False))[d.integer(0, 3)]
    lengths = tuple(d.integer(0, steps) for _ in range(samples)) if d.integer(0, 1) else ()
    results = [what for what in kind.results if d.integer(0, 1)] or [kind.results[0]]
    own: dict[str, object] = {}
    if kind is Lstm:
        own = {"peepholes": bool(d.integer(0, 1)), "coupled": bool(d.integer(0, 1))}
    elif kind is Gru and d.integer(0, 1):
        own = {"linear_before_reset": True, "bias": True}
    states = "".join("zic"[d.integer(0, 2)] for _ in range(kind.states))
    attributes = {
        **own, "reverse": reverse, "lengths": lengths, "returns": tuple(results),
        "activations": USUAL[kind] * len(reverse),
    }  # fmt: skip
    return recurrent_graph(kind, d.integer(2, 26), steps, samples, states, attributes)


def _transpose(d: Draw) -> Graph:
    net, rank = Net(), d.integer(2, 4)
    perm = tuple(sorted(range(rank), key=lambda _: d.integer(0, 99)))
    shape = tuple(d.integer(1, 11) for _ in range(rank))
    y = net.node(Transpose(perm), [net.input("x", shape)])
    return net.graph(add_tail(net, y, d.tail()))


KINDS: dict[str, tuple[Callable[[Draw], Graph], int]] = {
    "max_pool": (partial(_pool, MaxPool), COUNT),
    "average_pool": (partial(_pool, AveragePool), COUNT),
    "conv": (_conv, 2 * COUNT),
    "conv_transpose": (_conv_transpose, COUNT),
    "reduce": (_reduce, 2 * COUNT),
    "softmax": (_softmax, COUNT),
    "normalization": (_normalization, COUNT),
    "recurrent": (_recurrent, 2 * COUNT),
    "transpose": (_transpose, COUNT),
}


def random_case(make: Callable[[Draw], Graph], number: int) -> Graph:
    """The first of the draws for a number that is legal."""
    for seed in range(1000 * number, 1000 * number + 1000):
        try:
            return make(Draw(seed))
        except ModelError:  # such as a pool that would read nothing but its padding
            continue
    raise AssertionError("nothing that is drawn is legal")


for _name, (_make, _count) in KINDS.items():
    for _number in range(_count):
        add_case(f"random_{_name}_{_number}", partial(random_case, _make, _number), tolerance=2e-5)
