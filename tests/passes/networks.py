"""Random networks out of what passes look for, and of what looks nearly like that.

Every block is the pattern of a pass in which each detail (axes, padding, groups, order of operands,
who else reads a value, where zeros are) may be one that the pass must not take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import (
    Add,
    Clip,
    Div,
    LeakyRelu,
    Max,
    Mul,
    Relu,
    Sigmoid,
    Sub,
    Tanh,
)  # fmt: skip
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import BatchNormalization
from cannery.ops.recurrent.op import Gru
from cannery.ops.resize.op import Resize

Array = NDArray[np.float32]

#: No value has more elements.
MAX_ELEMENTS = 3000


@dataclass
class Maker:
    """A network under construction; `value` is what the next block reads, `kept` may be outputs."""

    rng: np.random.Generator
    builder: GraphBuilder
    value: str = ""
    kept: list[str] = field(default_factory=list)

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def maybe(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def shape(self, value: str = "") -> tuple[int, ...]:
        return self.builder.types[value or self.value].shape

    def array(self, *shape: int) -> Array:
        """Numbers of both signs, none near 0."""
        signs = self.rng.choice([-1.0, 1.0], shape)
        return np.asarray(signs * self.rng.uniform(0.5, 2.0, shape), np.float32)

    def constant(self, array: Array) -> str:
        return self.builder.constant("c", array)

    def weight(self, *shape: int) -> str:
        scale = max(int(np.prod(shape[:-1])), 1) ** 0.5
        return self.constant(np.asarray(self.array(*shape) / scale, np.float32))

    def node(self, op: Op, *inputs: str) -> str:
        name = f"n{self.builder.size}_{op.kind.lower()}"
        return self.builder.node(op, inputs, name=name)

    def then(self, op: Op, *others: str) -> str:
        """A node that reads the value; maybe somebody else reads it, too."""
        if self.maybe(0.1):
            self.kept.append(self.value)
        self.value = self.node(op, self.value, *others)
        return self.value


def per_channel(m: Maker, *, exact: bool = False) -> str:
    """A constant that is one number, one per channel, or one per pixel."""
    shape = m.shape()
    forms = [(), (1,), shape[-1:], (*(1 for _ in shape[1:]), shape[-1]), shape[1:], shape[-2:]]
    form = forms[m.integer(0, 3 if exact or m.maybe(0.7) else 5)]
    array = m.array(*form)
    if m.maybe(0.2):
        array = np.asarray(2.0 ** np.round(array), np.float32)
    return m.constant(array)


def scale_or_shift(m: Maker) -> None:
    op = (Mul(), Add(), Sub(), Div())[m.integer(0, 3)]
    constant = per_channel(m)
    if m.maybe(0.2):
        m.value = m.node(op, constant, m.value)
    else:
        m.then(op, constant)


def scales(m: Maker) -> None:
    for _ in range(m.integer(1, 3)):
        scale_or_shift(m)


def act(m: Maker) -> None:
    ops = (Relu(), LeakyRelu(0.1), LeakyRelu(0.2), Sigmoid(), Tanh(), Clip(-0.5, 0.5))
    m.then(ops[m.integer(0, 5)])


def _zeroed(m: Maker, array: Array, axis: int, share: float) -> Array:
    """An array with some slices along an axis set to zero."""
    drop = m.rng.random(array.shape[axis]) < share
    view = np.moveaxis(array, axis, 0)
    view[drop] = 0.0
    return array


def conv(m: Maker, *, zeros: float = 0.0, group: int = 0, pad: int = -1, kernel: int = 0) -> None:
    """Any groups and padding; `zeros`: the share of filters, and of channels, without weights."""
    c = m.shape()[-1]
    groups = [g for g in (1, 1, 2, c) if c % g == 0]
    group = group or groups[m.integer(0, len(groups) - 1)]
    outputs = c if group == c > 1 and m.maybe(0.7) else group * m.integer(1, 4)
    kernel = kernel or min(m.integer(1, 3), *m.shape()[1:3])
    most = kernel - 1
    pads = tuple((m.integer(0, most), m.integer(0, most)) for _ in range(2))
    pads = ((pad, pad),) * 2 if pad >= 0 else pads if m.maybe() else ((0, 0),) * 2
    shape = (kernel, kernel, c // group, outputs)
    w = np.asarray(m.array(*shape) / np.prod(shape[:-1]) ** 0.5, np.float32)
    w = _zeroed(m, _zeroed(m, w, -1, zeros), -2, zeros if group == 1 else 0.0)
    inputs = [m.constant(w)]
    if m.maybe(0.7):
        bias = m.array(outputs)
        inputs.append(m.constant(_zeroed(m, bias, 0, 0.5) if zeros else bias))
    stride = 1 + m.maybe(0.2)
    m.then(Conv((stride, stride), pads, (1, 1), group), *inputs)


def transposed(m: Maker) -> None:
    c = m.shape()[-1]
    group = 2 if c % 2 == 0 and m.maybe() else 1
    op = ConvTranspose((2, 2), ((0, 1), (1, 0)), (1, 1), (0, 0), group)
    bias = [m.weight(2 * group)] if m.maybe() else []
    m.then(op, m.weight(2, 3, 2, c), *bias)


def norm(m: Maker) -> None:
    axis = 3 if m.maybe(0.8) else m.integer(1, 2)
    c = m.shape()[axis]
    variance = m.constant(np.asarray(m.rng.uniform(0.01, 2.0, c), np.float32))
    m.then(BatchNormalization(axis, 0.1), m.weight(c), m.weight(c), m.weight(c), variance)


def fused(m: Maker) -> None:
    """What may go into weights, on both sides of them."""
    (scales if m.maybe() else norm)(m)
    if m.maybe(0.4):
        _matmul(m)
    else:
        (transposed if m.maybe(0.3) else conv)(m)
    (scales if m.maybe() else norm)(m)


def _matmul(m: Maker) -> None:
    across = m.maybe(0.25)
    c = m.shape()[-2 if across else -1]
    turned = m.maybe(0.3)
    outputs = m.integer(1, 5)
    weight = m.weight(outputs, c) if turned else m.weight(c, outputs)
    op = MatMul(transpose_a=across, transpose_b=turned)
    m.then(op, weight, *([m.weight(outputs)] if m.maybe() else []))


def pruned(m: Maker) -> None:
    """Channels that are zero, or the same everywhere, on their way to a convolution."""
    conv(m, zeros=0.4, group=1)
    for _ in range(m.integer(0, 3)):
        c = m.shape()[-1]
        kind = m.integer(0, 5)
        if kind == 0:
            m.then((Relu(), Clip(-0.5, 0.0), Clip(0.0, 0.5))[m.integer(0, 2)])
        elif kind == 1:
            m.then((Mul() if m.maybe() else Add()), per_channel(m, exact=True))
        elif kind == 2:
            conv(m, group=c, zeros=0.3)
        elif kind == 3:
            m.then(Add(), per_channel(m, exact=True))
            m.then(Relu())
        else:
            pool(m)
    conv(m, zeros=0.3, group=1)


def pool(m: Maker) -> None:
    kernel = tuple(min(m.integer(1, 3), size) for size in m.shape()[1:3])
    pads = tuple((m.integer(0, k // 2), m.integer(0, k // 2)) for k in kernel)
    if m.maybe(0.3):
        m.then(MaxPool(kernel, (1, 1), pads, (1, 1)))
    else:
        m.then(AveragePool(kernel, (1, 1), pads, (1, 1), m.maybe()))


def padded(m: Maker) -> None:
    """Padding of any kind, then a window."""
    modes = ["constant"] * 4 + ["edge", "reflect"]
    mode = modes[m.integer(0, 5)]
    values = (0.0, 0.0, float("-inf"), 1.0)
    value = values[m.integer(0, 3)] if mode == "constant" else 0.0
    most = min(2, *(s - 1 for s in m.shape()[1:3])) if mode == "reflect" else 2
    spatial = tuple((m.integer(0, most), m.integer(0, most)) for _ in range(2))
    channels = (0, 1) if mode == "constant" and m.maybe(0.1) else (0, 0)
    if value == float("-inf"):
        m.then(Pad(((0, 0), *spatial, (0, 0)), value))
        m.then(MaxPool((3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)))
        m.then(Clip(-4.0, 4.0))
        return
    m.then(Pad(((0, 0), *spatial, channels), value, mode))
    (pool if m.maybe() else conv)(m)


def moved(m: Maker) -> None:
    """Transposes, reshapes and slices one after the other."""
    for _ in range(m.integer(2, 4)):
        n, h, w, c = m.shape()
        kind = m.integer(0, 3)
        if kind == 0:
            m.then(Transpose((0, *(1 + int(k) for k in m.rng.permutation(3)))))
        elif kind == 1:
            m.then(Reshape([(n, w, h, c), (n, h, w * c, 1), (n, 1, h * w, c)][m.integer(0, 2)]))
        elif kind == 2:
            sliced(m)
        else:
            m.then(Identity())


def sliced(m: Maker) -> None:
    """Any part of each axis, backwards too."""
    bounds = []
    for axis, size in enumerate(m.shape()):
        kind = m.integer(0, 3) if axis else 0
        start = m.integer(0, min(1, size - 1))
        bounds.append([(0, size, 1), (start, size, 1), (size - 1, -1, -1), (start, size, 2)][kind])
    starts, ends, steps = zip(*bounds, strict=True)
    m.then(Slice(starts, ends, steps))


def reversed_channels(m: Maker) -> None:
    n, h, w, c = m.shape()
    last = (c - 1, -1, -1) if m.maybe(0.8) else (0, c, 1)
    starts, ends, steps = zip((0, n, 1), (0, h, 1), (0, w, 1), last, strict=True)
    m.then(Slice(starts, ends, steps))
    for _ in range(m.integer(0, 2)):
        scale_or_shift(m)
    conv(m)


def twice(m: Maker) -> None:
    """Two nodes that are the same, or differ in a detail, and what both make together."""
    c = m.shape()[-1]
    x, y = m.value, m.node(Tanh(), m.value)
    kinds: list[tuple[Op, Sequence[str], Op, Sequence[str]]] = [
        (LeakyRelu(0.1), [x], LeakyRelu(0.1 + 0.1 * m.integer(0, 1)), [x]),
        (Sub(), [x, y], Sub(), [y, x] if m.maybe() else [x, y]),
        (Clip(-1.0, 1.0), [x], Clip(-1.0, 1.0 + m.integer(0, 1)), [x]),
        (Relu(), [x], Relu(), [x] if m.maybe() else [y]),
    ]
    if c > 1:
        first, second = (_one_channel(m, k) for k in (0, m.integer(0, 1)))
        kinds += [(first, [x], second, [x])] * 2
    a, a_in, b, b_in = kinds[m.integer(0, len(kinds) - 1)]
    left, right = m.node(a, *a_in), m.node(b, *b_in)
    m.kept += [right] if m.maybe(0.2) else []
    m.value = m.node(Concat(3) if m.maybe() else Mul(), left, right)


def _one_channel(m: Maker, k: int) -> Slice:
    n, h, w, _ = m.shape()
    return Slice((0, 0, 0, k), (n, h, w, k + 1), (1, 1, 1, 1))


def joined(m: Maker) -> None:
    """Concatenations of which one has the parts of another, among others."""
    parts = [m.value, m.node(Relu(), m.value), m.node(Tanh(), m.value), m.node(Sigmoid(), m.value)]
    axis = m.integer(1, 3)
    first = m.integer(0, 2)
    inner = m.node(Concat(axis), *parts[first : first + 2])
    order = parts if m.maybe(0.7) else [parts[int(k)] for k in m.rng.permutation(4)]
    other = axis if m.maybe(0.8) else 1 + axis % 3
    outer = m.node(Concat(other), *order[: m.integer(3, 4)])
    m.kept.append(m.node(Relu(), inner))
    m.value = outer


def upsampled(m: Maker) -> None:
    """Repeated pixels, what may be done before that, and a window."""
    before = m.value
    _, h, w, c = m.shape()
    up = Resize("nearest" if m.maybe(0.8) else "linear", (2 * h, 2 * w), *_coordinates(m))
    m.then(up)
    if m.maybe(0.4):
        (act if m.maybe() else scale_or_shift)(m)
    if m.maybe(0.4):
        other = m.node(Resize("nearest", (2 * h, 2 * w)), before)
        m.value = m.node(Concat(3), m.value, other)
        c = m.shape()[-1]
    if m.maybe(0.6):
        m.then(Conv((1, 1), ((1, 1), (0, 2)), (1, 1), c), m.weight(3, 3, 1, c), m.weight(c))
    else:
        conv(m, kernel=1 if m.maybe() else 0, group=1)


def _coordinates(m: Maker) -> tuple[str, str]:
    return ("asymmetric", "floor") if m.maybe() else ("half_pixel", "round_prefer_floor")


def constants(m: Maker) -> None:
    """A branch that is known, read by the network, and maybe an output."""
    c = m.shape()[-1]
    known = m.node(Add(), m.weight(c), m.weight(1))
    known = m.node(Tanh(), known) if m.maybe() else known
    m.kept += [known] if m.maybe() else []
    m.then(Mul(), known)


def recurrent(m: Maker) -> None:
    """A layer of which the last step is read, or another one; one direction or two."""
    n, h, w, c = m.shape()
    reverse = [(False,), (True,), (False, True)][m.integer(0, 2)]
    both = len(reverse)
    projected = m.node(MatMul(), m.node(Reshape((n, h * w, c)), m.value), m.weight(c, 3 * 2 * both))
    returns = ("sequence", "hidden")[: m.integer(1, 2)]
    op = Gru(2, ((Sigmoid(),), (Tanh(),)) * both, reverse, 0.0, (), returns)
    made = m.builder.nodes(op, [projected, m.weight(both, 2, 6)], name=f"n{m.builder.size}_gru")
    m.kept += made[1:]
    step = [0, h * w - 1, m.integer(0, h * w - 1)][m.integer(0, 2)]
    shape = m.shape(made[0])
    starts, ends = (0, step, *(0 for _ in shape[2:])), (n, step + 1, *shape[2:])
    last = m.node(Slice(starts, ends, (1,) * len(shape)), made[0])
    m.value = m.node(Reshape((n, 1, 1, m.builder.types[last].elements // n)), last)


def flattened(m: Maker) -> None:
    """The head of a network whose images have their channels first."""
    n, h, w, c = m.shape()
    if m.maybe(0.8):
        whole = n == 1 and m.maybe(0.4)
        perm = m.rng.permutation(4) if whole else [0, *(1 + m.rng.permutation(3))]
        m.then(Transpose(tuple(int(k) for k in perm)))
    elements = h * w * c
    m.then(Reshape((n, elements) if m.maybe(0.8) else (elements // c, c * n)))
    _matmul(m)
    m.value = m.node(Reshape((1, 1, *m.shape())), m.value)


def in_one_dimension(m: Maker) -> None:
    n, h, w, c = m.shape()
    m.then(Reshape((n, h * w, c)))
    pads, outputs = ((m.integer(0, 1), m.integer(0, 1)),), m.integer(1, 3)
    kernel = min(2, h * w)
    m.then(Conv((1,), pads, (1,)), m.weight(kernel, c, outputs))
    if m.maybe():
        m.then(Mul(), m.weight(outputs) if m.maybe(0.7) else m.weight(m.shape()[1], outputs))
    m.then((MaxPool if m.maybe() else AveragePool)((1,), (1 + m.maybe(),), ((0, 0),), (1,)))
    if m.maybe():
        m.then(Resize("nearest", (2 * m.shape()[1],), "asymmetric", "floor"))
    m.value = m.node(Reshape((n, 1, *m.shape()[1:])), m.value)


def merged(m: Maker) -> None:
    """Two ways of one value, joined again."""
    start = m.value
    (conv if m.maybe() else act)(m)
    if m.shape() == m.shape(start):
        m.value = m.node((Add(), Max())[m.integer(0, 1)], m.value, start)


BLOCKS: tuple[Callable[[Maker], None], ...] = (
    fused, fused, pruned, pruned, padded, padded, moved, moved, reversed_channels, twice, twice,
    joined, upsampled, upsampled, constants, recurrent, flattened, in_one_dimension, merged,
)  # fmt: skip


def pattern_network(seed: int) -> Graph:
    """One to three blocks, of which the first follows from the seed; up to three outputs."""
    rng = np.random.default_rng(seed)
    builder = GraphBuilder(f"pattern_{seed}")
    shape = (1 + (seed % 5 == 0), int(rng.integers(3, 6)), int(rng.integers(3, 6)),
             int(rng.integers(1, 6)))  # fmt: skip
    m = Maker(rng, builder, builder.input("image", shape))
    BLOCKS[seed % len(BLOCKS)](m)
    for _ in range(m.integer(0, 2)):
        before = m.value
        if min(m.shape()[1:3]) >= 3:
            BLOCKS[m.integer(0, len(BLOCKS) - 1)](m)
        if m.builder.types[m.value].elements > MAX_ELEMENTS:
            m.value = before
    kept = [v for v in dict.fromkeys(m.kept) if v != m.value and m.maybe(0.7)]
    for value in [m.value, *kept[:2]]:
        builder.output(value)
    return builder.build()
