"""Random networks that spell out what passes know by one operator: norms, PReLU, upsampling ...

Each detail may be one that the pass must not take: other axes, constants of other shapes, signs,
order of operands. Constants may have more axes than what they are combined with.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cannery.ir.graph import Graph, GraphBuilder
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.elementwise import (
    Add,
    Div,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Relu,
    Sqrt,
    Square,
    Sub,
    Tanh,
)  # fmt: skip
from cannery.ops.indexing.gather import Gather
from cannery.ops.logic.compare import Less, Where
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.movement.op import Cast, Expand, Pad, Reshape, Slice
from cannery.ops.reduce.op import ReduceMean
from passes.networks import Maker


def _parameter(m: Maker, shape: tuple[int, ...]) -> str:
    """A constant for the last axes, some of them 1, or one number; rarely of a higher rank."""
    last = shape[len(shape) - m.integer(1, len(shape)) :]
    dims = tuple(d if m.maybe(0.8) else 1 for d in last)
    if m.maybe(0.5):
        dims = shape[-1:] if m.maybe(0.7) else (1,) * (len(shape) - 1) + shape[-1:]
    if m.maybe(0.1):
        dims = (1,) * (len(shape) + 1 - len(dims)) + dims
    return m.constant(m.array(*dims))


def _number(m: Maker, number: float) -> str:
    """A scalar, or a constant of one element, rarely of a higher rank than images."""
    rank = 5 if m.maybe(0.04) else m.integer(0, 2)
    return m.constant(np.full((1,) * rank, number, np.float32))


def _pair(m: Maker, op: Op, a: str, b: str) -> str:
    return m.node(op, a, b) if m.maybe() else m.node(op, b, a)


def _mean(m: Maker, x: str, axes: tuple[int, ...]) -> str:
    return m.node(ReduceMean(axes, True), x)


def layer_norm(m: Maker) -> None:
    """The difference from the mean over its deviation, perhaps with scale and bias."""
    axes = [(3,), (2, 3), (1, 2, 3), (1, 2), (1,)][m.integer(0, 4)]
    x, shape = m.value, m.shape()
    centred = m.node(Sub(), x, _mean(m, x, axes))
    variance = _mean(m, m.node(Mul(), centred, centred), axes if m.maybe(0.9) else (2,))
    root = m.node(Sqrt(), _pair(m, Add(), variance, _number(m, 0.2)))
    if m.maybe():
        m.value = m.node(Div(), centred, root)
    else:
        m.value = _pair(m, Mul(), centred, m.node(Reciprocal(), root))
    if m.maybe(0.7):
        m.value = _pair(m, Mul(), m.value, _parameter(m, shape))
    if m.maybe(0.7):
        m.value = _pair(m, Add(), m.value, _parameter(m, shape))
    _as_image(m)


def folded_norm(m: Maker) -> None:
    """X * f + (bias - mean * f), of images or of groups of channels; nearly, now and then."""
    n, h, w, c = m.shape()
    groups = next((g for g in (3, 2) if c % g == 0), 1)
    split = m.maybe(0.4)
    if split:
        m.then(Reshape((n, h, w, groups, c // groups)))
    shape = m.shape()
    rank = len(shape)
    axes = (1, 2, 4) if split else [(3,), (2, 3), (1, 2, 3), (1, 2)][m.integer(0, 3)]
    axes = (rank - 1,) if m.maybe(0.1) else axes
    x, mean = m.value, _mean(m, m.value, axes)
    other = axes if m.maybe(0.9) else (1,)
    if m.maybe():
        centred = m.node(Sub(), x, mean if m.maybe(0.9) else _mean(m, x, other))
        variance = _mean(m, m.node(Square(), centred), axes)
    else:
        squares = _mean(m, m.node(Mul(), x, x), other)
        variance = m.node(Relu(), m.node(Sub(), squares, m.node(Square(), mean)))
        if m.maybe(0.7):
            variance = m.node(Sub(), squares, m.node(Square(), mean))
    raised = _pair(m, Add(), variance, _number(m, 0.3))
    root = m.node(Sqrt(), raised) if m.maybe() else m.node(Pow(), raised, _number(m, 0.5))
    inverse = m.node(Div(), _number(m, 1.0), root) if m.maybe() else m.node(Reciprocal(), root)
    factor = _pair(m, Mul(), inverse, _parameter(m, shape)) if m.maybe(0.7) else inverse
    scaled = _pair(m, Mul(), x, factor)
    kind = m.integer(0, 2)
    if kind == 0:
        shift = m.node(Sub(), _parameter(m, shape), _pair(m, Mul(), mean, factor))
    elif kind == 1:
        moved = _pair(m, Mul(), m.node(Neg(), mean), factor)
        shift = _pair(m, Add(), moved, _parameter(m, shape))
    else:
        shift = _pair(m, Mul(), m.node(Neg(), mean) if m.maybe(0.8) else mean, factor)
    m.value = _pair(m, Add(), scaled, shift)
    m.value = m.node(Reshape((n, h, w, m.builder.types[m.value].elements // (n * h * w))), m.value)


def spelt_prelu(m: Maker) -> None:
    """relu(x) + c * relu(-x), or minus that."""
    x = m.value
    negated = m.node(Neg(), x if m.maybe(0.9) else m.node(Tanh(), x))
    below = m.node(Relu(), negated)
    product = _pair(m, Mul(), below, _parameter(m, m.shape()))
    above = m.node(Relu(), x)
    m.kept += [above] if m.maybe(0.1) else []
    m.value = m.node(Sub(), above, product) if m.maybe() else _pair(m, Add(), above, product)
    _as_image(m)


def _as_image(m: Maker) -> None:
    """An image again, where constants of a higher rank have made more axes."""
    shape = m.shape()
    if len(shape) != 4:
        m.value = m.node(Reshape((shape[-4], *shape[-3:])), m.value)


def wrapped_indices(m: Maker) -> None:
    """Where(i < 0, i + size, i), from floats, negative ones included, then Gather."""
    h = m.shape()[1]
    axis = m.integer(1, 3)
    size = m.shape()[axis]
    wide = DType.INT64 if m.maybe() else DType.INT32
    flat = m.node(Slice((0, 0, 0, 0), (1, h, 1, 1), (1, 1, 1, 1)), m.value)
    bounded = m.node(Mul(), m.node(Tanh(), flat), _number(m, size - 0.1))
    i = m.node(Cast(DType.INT32), m.node(Reshape((h,) if m.maybe(0.7) else (h, 1)), bounded))
    i = i if wide is DType.INT32 else m.node(Cast(wide), i)
    add = size if m.maybe(0.9) else 0
    if m.maybe(0.8):
        forms = (), (1,), (1, 1)
        form = forms[m.integer(0, 2)]
        zero, more = (m.builder.constant("k", np.full(form, k, wide.numpy)) for k in (0, add))
        i = m.node(Where(), m.node(Less(), i, zero), _pair(m, Add(), i, more), i)
    m.value = m.node(Gather(axis), m.value, i)
    rows, columns = m.shape()[1], m.builder.types[m.value].elements // (m.shape()[0] * m.shape()[1])
    m.value = m.node(Reshape((m.shape()[0], rows, 1, columns)), m.value)


def repeated(m: Maker) -> None:
    """Axes that Expand makes longer, and Reshapes join with rows or columns, or with channels."""
    n, h, w, c = m.shape()
    dtype = DType.FLOAT32 if m.maybe(0.8) else DType.INT32
    if dtype is DType.INT32:
        m.value = m.node(Cast(dtype), m.value)
    up = (m.integer(1, 2), m.integer(1, 2))
    kind = m.integer(0, 3)
    if kind == 0:
        m.value = m.node(Reshape((n, h, 1, w, 1, c)), m.value)
        m.value = m.node(Expand((n, h, up[0], w, up[1], c)), m.value)
    elif kind == 1:
        m.value = m.node(Expand((n, h, up[0], w, c)), m.node(Reshape((n, h, 1, w, c)), m.value))
        h *= up[0]
        m.value = m.node(Reshape((n, h, w, 1, c)), m.value)
        m.value = m.node(Expand((n, h, w, up[1], c)), m.value)
        h //= up[0]
    elif kind == 2:
        m.value = m.node(Expand((n, up[0], h, w, c)), m.node(Reshape((n, 1, h, w, c)), m.value))
        up = (up[0], 1)
    else:
        m.value = m.node(Expand((n, h, w, c, up[1])), m.node(Reshape((n, h, w, c, 1)), m.value))
        up = (1, up[1])
    m.value = m.node(Reshape((n, h * up[0], w * up[1], c)), m.value)
    if dtype is DType.INT32:
        m.value = m.node(Cast(DType.FLOAT32), m.value)


def cut(m: Maker) -> None:
    """A convolution, forwards or transposed, of which some rows or columns are cut off."""
    _, h, w, c = m.shape()
    k = m.integer(1, min(3, h, w))
    pads = tuple((m.integer(0, k - 1), m.integer(0, k - 1)) for _ in range(2))
    stride = 1 + m.maybe(0.3)
    if m.maybe():
        m.then(Conv((stride, 1), pads, (1, 1)), m.weight(k, k, c, 3), m.weight(3))
    else:
        more = (m.integer(0, stride - 1), 0)
        m.then(ConvTranspose((stride, 1), pads, (1, 1), more), m.weight(k, k, 3, c), m.weight(3))
    bounds = []
    for axis, size in enumerate(m.shape()):
        start = m.integer(0, min(2, size - 1)) if 0 < axis < 3 or m.maybe(0.1) else 0
        end = m.integer(start + 1, size) if 0 < axis < 3 and m.maybe(0.7) else size
        bounds.append((start, end, 1))
    starts, ends, steps = zip(*bounds, strict=True)
    m.then(Slice(starts, ends, steps))


def padded_row(m: Maker) -> None:
    """Padding of a sequence, raised to an image, in front of a window."""
    n, h, w, c = m.shape()
    m.value = m.node(Reshape((n, h * w, c)), m.value)
    modes = ("constant", "constant", "edge")
    pair = (m.integer(0, 2), m.integer(0, 2))
    value = (0.0, 0.0, 1.0, float("-inf"))[m.integer(0, 3)]
    window = m.integer(0, 2)
    value = float("-inf") if window == 1 and m.maybe() else 0.0 if value < 0 else value
    mode = modes[m.integer(0, 2)]
    channels = (0, 1) if m.maybe(0.1) and mode == "constant" else (0, 0)
    m.then(Pad(((0, 0), pair, channels), value if mode == "constant" else 0.0, mode))
    length, c = m.shape()[1:]
    m.value = m.node(Reshape((n, 1, length, c) if m.maybe(0.8) else (n, length, 1, c)), m.value)
    across = m.shape()[1] == 1
    own = (m.integer(0, 1), m.integer(0, 1))
    kernel, pads = ((1, 2), ((0, 0), own)) if across else ((2, 1), (own, (0, 0)))
    if window == 0:
        m.then(Conv((1, 1), pads, (1, 1)), m.weight(*kernel, c, 2))
    elif window == 1:
        m.then(MaxPool(kernel, (1, 1), pads, (1, 1)))
        m.then(Tanh())
    else:
        m.then(AveragePool(kernel, (1, 1), pads, (1, 1), m.maybe()))


def around_functions(m: Maker) -> None:
    """Functions of each number between reshapes that undo each other, or nearly."""
    n, h, w, c = m.shape()
    forms = [(n, h * w * c), (n * h, w, c), (h, n, w, c), (n, w, h, c)]
    m.then(Reshape(forms[m.integer(0, 3)]))
    for _ in range(m.integer(1, 3)):
        m.then((Relu(), Tanh(), Neg())[m.integer(0, 2)])
    m.value = m.node(Reshape((n, h, w, c) if m.maybe(0.8) else (n, w, h, c)), m.value)


BLOCKS: tuple[Callable[[Maker], None], ...] = (
    layer_norm, folded_norm, spelt_prelu, wrapped_indices, repeated, cut, padded_row,
    around_functions,
)  # fmt: skip


def spelt_network(block: Callable[[Maker], None], seed: int) -> Graph:
    """A block, perhaps between others; one or two images; up to three outputs."""
    rng = np.random.default_rng(seed)
    builder = GraphBuilder(f"{block.__name__}_{seed}")
    shape = (1 + (seed % 3 == 0), int(rng.integers(2, 6)), int(rng.integers(2, 6)),
             int(rng.integers(1, 7)))  # fmt: skip
    m = Maker(rng, builder, builder.input("image", shape))
    if m.maybe(0.3):
        m.then(Relu() if m.maybe() else Tanh())
    block(m)
    if m.maybe(0.4):
        BLOCKS[m.integer(0, len(BLOCKS) - 1)](m) if m.maybe(0.3) else m.then(Tanh())
    for value in dict.fromkeys([m.value, *m.kept[:2]]):
        builder.output(value)
    return builder.build()
