"""Concatenations that are copies: axes that images do not have, constants, repeated parts."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.concat.op import Concat
from ops.cases import Net, case


@case
def concat_batches() -> Graph:
    net = Net()
    parts = [net.input("a", (2, 3, 4, 5)), net.input("b", (1, 3, 4, 5))]
    return net.graph(net.node(Concat(0), parts))


@case
def concat_constant_twice() -> Graph:
    net = Net()
    x, w = net.input("x", (2, 3, 4, 2)), net.weight(2, 3, 4, 3)
    return net.graph(net.node(Concat(3), [w, x, w, x]))


@case
def concat_bytes_of_rank_5() -> Graph:
    net = Net()
    shape = (1, 2, 3, 4, 5)
    parts = [net.input(name, shape, DType.UINT8) for name in ("a", "b")]
    return net.graph(net.node(Concat(2), parts))
