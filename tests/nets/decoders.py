"""Random decoders: upsamplings and skips in every combination before convolutions."""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Graph, GraphBuilder
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Relu
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.resize.op import Resize
from nets.random_graphs import Maker

ONE, NONE = (1, 1), ((0, 0), (0, 0))


def decoder_graph(seed: int) -> Graph:
    """Two levels down and up again; skips and the image are joined once or twice, in any order."""
    rng = np.random.default_rng(seed)
    builder = GraphBuilder(f"decoder_{seed}")
    height, width = 4 * int(rng.integers(1, 4)), 4 * int(rng.integers(1, 5))
    image = builder.input("image", (1, height, width, int(rng.integers(1, 6))))
    m = Maker(rng, builder, [image])
    top = _layer(m, image, 3)
    middle = _layer(m, _halved(m, top), 3)
    bottom = _layer(m, _halved(m, middle), 3)
    if seed % 2:  # the same parts twice, once beside others
        twice = m.node(Concat(3), _doubled(m, bottom), middle)
        middle = m.node(Concat(3), _doubled(m, bottom), middle, _layer(m, twice, 3))
        up = _layer(m, middle, 3)
    else:
        up = _layer(m, m.node(Concat(3), middle, _doubled(m, bottom)), 5)
    parts = [_doubled(m, up), top, image][: m.integer(1, 3)]
    order = rng.permutation(len(parts))
    joined = m.node(Concat(3), *(parts[k] for k in order)) if len(parts) > 1 else parts[0]
    builder.output(_layer(m, joined, m.integer(2, 3)))
    return builder.build()


def _layer(m: Maker, x: str, kernel: int) -> str:
    """A convolution that keeps the size, and ReLU."""
    outputs = m.integer(3, 18)
    begin = (kernel - 1) // 2
    pads = ((begin, kernel - 1 - begin),) * 2
    inputs = [x, m.weight(kernel, kernel, m.shape(x)[-1], outputs), m.weight(outputs)]
    return m.node(Relu(), m.node(Conv(ONE, pads, ONE), *inputs))


def _halved(m: Maker, x: str) -> str:
    return m.node(MaxPool((2, 2), (2, 2), NONE, ONE), x)


def _doubled(m: Maker, x: str) -> str:
    """Repeated pixels, sometimes followed by something pixelwise."""
    _, h, w, c = m.shape(x)
    y = m.node(Resize("nearest", (2 * h, 2 * w)), x)
    kind = m.integer(0, 3)
    if kind == 0:
        return m.node(Relu(), y)
    if kind == 1:
        return m.node(Conv(ONE, NONE, ONE), y, m.weight(1, 1, c, m.integer(2, 9)))
    return y
