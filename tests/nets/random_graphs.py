"""Random networks: small, odd sizes, every kind of connection that real ones have.

Everything follows from the seed; `random_graph(seed)` is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
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
    Elu,
    Gelu,
    HardSwish,
    LeakyRelu,
    Max,
    Mul,
    PRelu,
    Relu,
    Sigmoid,
    Silu,
    Sub,
    Tanh,
)
from cannery.ops.matmul.op import MatMul
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Expand, Identity, Pad, Reshape, Slice, Transpose
from cannery.ops.normalization.op import BatchNormalization, LayerNormalization
from cannery.ops.reduce.op import ReduceMax, ReduceMean
from cannery.ops.resize.op import Resize
from cannery.ops.softmax.op import Softmax

#: No value grows beyond this, so that references and compilers stay quick.
MAX_ELEMENTS = 6000


@dataclass
class Maker:
    """A network under construction: the builder, and the values that may still be read."""

    rng: np.random.Generator
    builder: GraphBuilder
    images: list[str]
    number: int = 0
    outputs: list[str] = field(default_factory=list)

    def shape(self, value: str) -> tuple[int, ...]:
        return self.builder.types[value].shape

    def pick(self) -> str:
        """A recent image, mostly the last."""
        back = min(int(self.rng.geometric(0.7)), len(self.images))
        return self.images[-back]

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def weight(self, *shape: int) -> str:
        fan_in = max(int(np.prod(shape[:-1])), 1)
        return self.constant(self.rng.standard_normal(shape) / np.sqrt(fan_in))

    def constant(self, array: NDArray[np.float64]) -> str:
        return self.builder.constant("c", array.astype(np.float32))

    def node(self, op: Op, *inputs: str) -> str:
        self.number += 1
        return self.builder.node(op, inputs, name=f"n{self.number}_{op.kind.lower()}")

    def window(self, value: str) -> tuple[tuple[int, int], ...]:
        """(kernel, stride, dilation, begin, end) per spatial axis, one that fits."""
        axes = []
        for size in self.shape(value)[1:3]:
            kernel = min(self.integer(1, 3), size)
            may_dilate = kernel > 1 and 2 * (kernel - 1) < size
            dilation = 2 if may_dilate and self.integer(0, 4) == 0 else 1
            begin, end = self.integer(0, kernel - 1), self.integer(0, kernel - 1)
            axes.append((kernel, self.integer(1, 2), dilation, begin, end))
        return tuple(zip(*axes, strict=True))


def convolution(m: Maker) -> str:
    x = m.pick()
    kernel, strides, dilations, begin, end = m.window(x)
    channels, outputs = m.shape(x)[-1], m.integer(1, 18)
    pads = tuple(zip(begin, end, strict=True))
    if m.integer(0, 4) == 0 and channels > 1:
        group, taken, outputs = channels, 1, channels * m.integer(1, 2)
    elif m.integer(0, 5) == 0 and channels % 2 == 0:
        group, taken, outputs = 2, channels // 2, 2 * m.integer(1, 6)
    else:
        group, taken = 1, channels
    inputs = [x, m.weight(*kernel, taken, outputs)]
    if m.integer(0, 2):
        inputs.append(m.weight(outputs))
    return m.node(Conv(strides, pads, dilations, group), *inputs)


def separable(m: Maker) -> str:
    x = m.pick()
    channels = m.shape(x)[-1]
    pads = ((1, 1), (1, 1))
    x = m.node(Conv((1, 1), pads, (1, 1), channels), x, m.weight(3, 3, 1, channels))
    return m.node(
        Conv((1, 1), ((0, 0), (0, 0)), (1, 1)), x, m.weight(1, 1, channels, m.integer(2, 16))
    )


def same_3x3(m: Maker) -> str:
    x = m.pick()
    outputs = m.integer(4, 16)
    op = Conv((1, 1), ((1, 1), (1, 1)), (1, 1))
    return m.node(op, x, m.weight(3, 3, m.shape(x)[-1], outputs), m.weight(outputs))


def transposed(m: Maker) -> str:
    x = m.pick()
    outputs = m.integer(1, 8)
    op = ConvTranspose((2, 2), ((0, 1), (1, 0)), (1, 1), (0, 0))
    return m.node(op, x, m.weight(3, 3, outputs, m.shape(x)[-1]))


def activation(m: Maker) -> str:
    ops = [Relu(), LeakyRelu(0.1), Elu(1.0), Tanh(), Sigmoid(), Silu(), Gelu(False), HardSwish()]
    return m.node(ops[m.integer(0, len(ops) - 1)], m.pick())


def prelu(m: Maker) -> str:
    x = m.pick()
    return m.node(PRelu(), x, m.weight(m.shape(x)[-1]))


def norm(m: Maker) -> str:
    x = m.pick()
    c = m.shape(x)[-1]
    variance = m.constant(m.rng.uniform(0.3, 2.0, c))
    parameters = [m.weight(c), m.weight(c), m.weight(c), variance]
    return m.node(BatchNormalization(3, 1e-3), x, *parameters)


def layer_norm(m: Maker) -> str:
    x = m.pick()
    c = m.shape(x)[-1]
    return m.node(LayerNormalization((3,), 1e-2), x, m.weight(c), m.weight(c))


def pool(m: Maker) -> str:
    x = m.pick()
    kernel, strides, _, begin, end = m.window(x)
    pads = tuple(
        (min(b, k // 2), min(e, k // 2)) for b, e, k in zip(begin, end, kernel, strict=True)
    )
    kind = MaxPool if m.integer(0, 1) else AveragePool
    return m.node(kind(kernel, strides, pads, (1, 1)), x)


def merge(m: Maker) -> str:
    x = m.images[-1]
    partners = [v for v in m.images if m.shape(v) == m.shape(x)]
    y = partners[m.integer(0, len(partners) - 1)]
    ops = [Add(), Mul(), Sub(), Max()]
    return m.node(ops[m.integer(0, 3)], x, y)


def residual(m: Maker) -> str:
    x = m.pick()
    c = m.shape(x)[-1]
    y = m.node(Conv((1, 1), ((1, 1), (1, 1)), (1, 1)), x, m.weight(3, 3, c, c))
    y = m.node(Add(), y, x)
    return m.node(Relu(), y)


def gate(m: Maker) -> str:
    """Squeeze and excite."""
    x = m.pick()
    c = m.shape(x)[-1]
    pooled = m.node(ReduceMean((1, 2), True), x)
    weights = m.node(Sigmoid(), m.node(MatMul(), pooled, m.weight(c, c)))
    return m.node(Mul(), x, weights)


def concat(m: Maker) -> str:
    x = m.images[-1]
    partners = [v for v in m.images if m.shape(v)[:3] == m.shape(x)[:3]]
    return m.node(Concat(3), x, partners[m.integer(0, len(partners) - 1)])


def concat_rows(m: Maker) -> str:
    x = m.images[-1]
    y = m.node(Relu(), x)
    return m.node(Concat(m.integer(1, 2)), x, y)


def upsample(m: Maker) -> str:
    x = m.pick()
    mode = "nearest" if m.integer(0, 1) else "linear"
    _, h, w, _ = m.shape(x)
    rounding = "floor" if mode == "nearest" else "round_prefer_floor"
    coordinate = "asymmetric" if mode == "nearest" else "half_pixel"
    return m.node(Resize(mode, (2 * h, 2 * w), coordinate, rounding), x)


def move(m: Maker) -> str:
    x = m.pick()
    n, h, w, c = m.shape(x)
    choices: list[Op] = [
        Pad(((0, 0), (1, 0), (0, 2), (0, 0))),
        Transpose((0, 2, 1, 3)),
        Reshape((n, w, h, c)),
    ]
    if h > 2 and w > 2:
        choices.append(Slice((0, 1, 0, 0), (n, h, w - 1, c), (1, 1, 1, 1)))
    return m.node(choices[m.integer(0, len(choices) - 1)], x)


BLOCKS: tuple[Callable[[Maker], str], ...] = (
    convolution, convolution, same_3x3, same_3x3, separable, transposed, activation, activation,
    prelu, norm, layer_norm, pool, merge, residual, gate, concat, concat_rows, upsample, move,
)  # fmt: skip


def head(m: Maker) -> str:
    """What follows the last image: nothing, a classifier, or a global pool."""
    x = m.images[-1]
    n, h, w, c = m.shape(x)
    kind = m.integer(0, 3)
    if kind == 0:
        return x
    if kind == 1:
        return m.node(ReduceMax((1, 2)), x)
    flat = m.node(Reshape((n, h * w * c)), x)
    hidden = m.integer(1, 20)
    y = m.node(MatMul(), flat, m.weight(h * w * c, hidden), m.weight(hidden))
    return m.node(Softmax(1), y) if kind == 2 else m.node(Tanh(), y)


def random_graph(seed: int) -> Graph:
    """A network of three to nine blocks, one or two inputs and outputs, a batch of one or two."""
    rng = np.random.default_rng(seed)
    builder = GraphBuilder(f"random_{seed}")
    batch = 2 if rng.integers(0, 5) == 0 else 1
    shape = (batch, int(rng.integers(3, 13)), int(rng.integers(3, 15)), int(rng.integers(1, 9)))
    m = Maker(rng, builder, [builder.input("image", shape)])
    if rng.integers(0, 4) == 0:
        m.images.append(builder.input("other", shape))
    for _ in range(m.integer(3, 9)):
        value = BLOCKS[m.integer(0, len(BLOCKS) - 1)](m)
        if builder.types[value].elements <= MAX_ELEMENTS:
            m.images.append(value)
    result = head(m)
    builder.output(result)
    inner = m.images[-2] if len(m.images) > 1 else result
    if m.integer(0, 3) == 0 and inner != result:
        builder.output(inner)
    return builder.build()


def random_constants(seed: int) -> Graph:
    """A network where much, and sometimes every output, depends on constants alone.

    Some constants are stored, others grow from one pixel, too far to be folded. Outputs are any
    values, also an input, a constant, or one of them twice.
    """
    rng = np.random.default_rng(seed)
    builder = GraphBuilder(f"constants_{seed}")
    shape = (1, int(rng.integers(3, 9)), int(rng.integers(3, 9)), int(rng.integers(1, 9)))
    image = builder.input("image", shape)
    m = Maker(rng, builder, [])
    stored = m.weight(*shape)
    grown = m.node(Expand((1, 40, 40, 4)), m.weight(1, 1, 1, 4))
    m.images += [grown] if m.integer(0, 1) else []
    m.images += [image] if m.integer(0, 2) else []
    m.images += [stored]
    first = len(m.images)
    for _ in range(m.integer(2, 9)):
        value = BLOCKS[m.integer(0, len(BLOCKS) - 1)](m)
        if builder.types[value].elements <= 4 * MAX_ELEMENTS:
            m.images.append(value)
    outputs = [*m.images[first:], head(m)][-3:]
    outputs.append([image, stored, outputs[0]][m.integer(0, 2)])
    for value in outputs[m.integer(0, 2) :]:
        is_free = value not in (image, stored, *m.outputs)
        m.outputs.append(value if is_free else m.node(Identity(), value))
        builder.output(m.outputs[-1])
    return builder.build()
