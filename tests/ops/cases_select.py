"""Operators that find places, whose number is known only at run time."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ir.tensor import DType
from cannery.ops.elementwise.activations import Relu
from cannery.ops.elementwise.unary import Round, Sqrt
from cannery.ops.indexing.select import FirstRows, NonMaxSuppression, NonZero
from cannery.ops.indexing.unique import Unique
from cannery.ops.movement.op import Slice
from ops.cases import Net, add_case, case


def boxes(batch: int, count: int, *, centered: bool) -> NDArray[np.float32]:
    """Known boxes that overlap a lot; some are empty, or have their corners the other way."""
    rng = np.random.default_rng(count)
    middle, size = rng.uniform(0, 2, (2, batch, count, 2)).astype(np.float32)
    size[:, ::5] = 0
    if centered:
        return np.concatenate([middle, size], -1)
    ends = np.concatenate([middle - size / 2, middle + size / 2], -1)
    ends[:, ::3] = ends[:, ::3, [2, 1, 0, 3]]
    return ends


def suppressed(op: Op, batch: int, classes: int, count: int, *, centered: bool) -> Graph:
    """Scores are an input, so what is kept depends on it."""
    net = Net()
    scores = net.input("scores", (batch, classes, count))
    known = net.constant("boxes", boxes(batch, count, centered=centered))
    return net.graph(net.node(op, [known, scores]))


def found(shape: tuple[int, ...], dtype: DType) -> Graph:
    """Half of the elements are 0."""
    net = Net()
    x = net.input("x", shape, dtype)
    positive = net.node(Relu(), [x]) if dtype is DType.FLOAT32 else x
    return net.graph(net.node(NonZero(), [positive]))


def kinds(shape: tuple[int, ...], axis: int, *, ascending: bool) -> Graph:
    """Rounded numbers, so that some are equal; the negative ones are NaN."""
    net = Net()
    rounded = net.node(Round(), [net.input("x", shape)])
    return net.graph(net.node(Unique(axis, ascending), [net.node(Sqrt(), [rounded])]))


@case
def first_rows() -> Graph:
    """The number of rows is that of elements that are not 0."""
    net = Net()
    x = net.input("x", (5, 3))
    positive = net.node(Relu(), [net.input("n", (4,))])
    found = net.node(NonZero(), [positive])
    count = net.node(Slice((0, 0), (1, 1), (1, 1)), [found])
    return net.graph(net.node(FirstRows(), [x, count]))


@case
def unique_integers() -> Graph:
    """Integers have no NaN."""
    net = Net()
    return net.graph(net.node(Unique(0), [net.input("x", (11, 2), DType.INT32)]))


for _sizes, _axis in (
    ((13,), 0),
    ((1,), 0),
    ((9, 2), 0),
    ((2, 7), 1),
    ((2, 11, 1), 1),
):
    for _ascending in (True, False):
        add_case(
            f"unique_{'x'.join(map(str, _sizes))}_{'ascending' if _ascending else 'in_order'}",
            partial(kinds, _sizes, _axis, ascending=_ascending), tolerance=0.0,
        )  # fmt: skip
for _shape, _dtype in (((7,), DType.FLOAT32), ((2, 3, 4), DType.FLOAT32), ((3, 5), DType.BOOL)):
    add_case(f"nonzero_{len(_shape)}", partial(found, _shape, _dtype), tolerance=0.0)
for _name, _op, _sizes in (
    ("all", NonMaxSuppression(3, 0.3, 0.1), (2, 3, 11)),
    ("any_score", NonMaxSuppression(20, 0.5), (1, 2, 13)),
    ("centered", NonMaxSuppression(4, 0.2, -0.5, centered=True), (1, 2, 9)),
    ("none", NonMaxSuppression(4, 0.2, 99.0), (1, 1, 5)),
    ("one", NonMaxSuppression(1, 0.0, 0.0), (1, 1, 1)),
):
    add_case(
        f"nonmaxsuppression_{_name}",
        partial(suppressed, _op, *_sizes, centered=_op.centered), tolerance=0.0,
    )  # fmt: skip
