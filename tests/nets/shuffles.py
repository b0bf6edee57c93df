"""Random networks that shuffle channels, as ShuffleNet does, and what nearly looks like that."""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Graph, GraphBuilder
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Relu
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Reshape, Slice, Transpose
from nets.random_graphs import Maker

ONE, NONE = (1, 1), ((0, 0), (0, 0))


def shuffle_graph(seed: int) -> Graph:
    """A few units; in every third network something else needs the old order, too."""
    rng = np.random.default_rng(seed)
    builder = GraphBuilder(f"shuffles_{seed}")
    height, width = (int(n) for n in rng.integers(2, 8, 2))
    m = Maker(rng, builder, [builder.input("image", (1, height, width, int(rng.integers(1, 6))))])
    half = 8 * m.integer(2, 5)
    (image,) = m.images
    left, right = _layer(m, image, half), _layer(m, _pooled(m, image), half)
    x = _shuffled(m, m.node(Concat(3), left, right))
    for number in range(m.integer(1, 4)):
        rest, now = _part(m, x, 0, half), _part(m, x, half, 2 * half)
        made = _layer(m, _depthwise(m, _layer(m, now, half)), half)
        if seed % 3 == 2 and number == 0:
            made = m.node(Add(), made, now if seed % 2 else _layer(m, right, half))
        x = _shuffled(m, m.node(Concat(3), *((rest, made) if m.integer(0, 3) else (made, rest))))
    ends = [_layer(m, _depthwise(m, x), 3), _layer(m, _pooled(m, x), 2), _layer(m, x, 2)]
    for end in ends[m.integer(0, 2) :]:
        builder.output(end)
    return builder.build()


def _layer(m: Maker, x: str, outputs: int) -> str:
    """A 1x1 convolution, and mostly ReLU."""
    y = m.node(Conv(ONE, NONE, ONE), x, m.weight(1, 1, m.shape(x)[-1], outputs), m.weight(outputs))
    return m.node(Relu(), y) if m.integer(0, 3) else y


def _depthwise(m: Maker, x: str) -> str:
    c = m.shape(x)[-1]
    return m.node(Conv(ONE, ((1, 1), (1, 1)), ONE, c), x, m.weight(3, 3, 1, c), m.weight(c))


def _pooled(m: Maker, x: str) -> str:
    return m.node(MaxPool((3, 3), ONE, ((1, 1), (1, 1)), ONE), x)


def _part(m: Maker, x: str, begin: int, end: int) -> str:
    n, h, w, _ = m.shape(x)
    return m.node(Slice((0, 0, 0, begin), (n, h, w, end), (1, 1, 1, 1)), x)


def _shuffled(m: Maker, x: str) -> str:
    """The channels of two or four groups, in turn."""
    n, h, w, c = m.shape(x)
    groups = 2 * m.integer(1, 2)
    apart = m.node(Reshape((n, h, w, groups, c // groups)), x)
    return m.node(Reshape((n, h, w, c)), m.node(Transpose((0, 1, 2, 4, 3)), apart))
