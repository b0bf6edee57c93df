"""What classical models compute beside trees."""

from __future__ import annotations

import numpy as np

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.classical.coupling import PairwiseCoupling
from cannery.ops.classical.distances import SquaredDistances
from cannery.ops.elementwise.activations import Sigmoid
from cannery.ops.indexing.position import Position
from cannery.ops.movement.op import Cast
from ops.cases import Net, case


@case
def classical_distances() -> Graph:
    net = Net()
    y = net.node(SquaredDistances(), [net.input("x", (3, 7)), net.weight(5, 7)])
    return net.graph(y)


@case(tolerance=1e-4)
def classical_coupling() -> Graph:
    net = Net()
    likely = net.node(Sigmoid(), [net.input("x", (4, 6))])
    return net.graph(net.node(PairwiseCoupling(4), [likely]))


@case
def classical_position() -> Graph:
    net = Net()
    x = net.input("x", (3, 9), DType.INT64)
    keys = net.constant("keys", np.arange(0, 200, 3, dtype=np.int64))
    return net.graph(net.node(Position(), [x, keys]))


@case
def classical_position_float() -> Graph:
    net = Net()
    x = net.input("x", (3, 9), DType.INT8)
    floats = net.node(Cast(DType.FLOAT32), [x])
    keys = net.constant("keys", np.arange(-90, 120, 2, dtype=np.float32))
    return net.graph(net.node(Position(), [floats, keys]))
