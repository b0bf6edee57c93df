"""Elementwise steps and changes of order."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ir.tensor import DType
from cannery.ops.elementwise import Add, Mul, Relu, Sigmoid, Sub, Tanh
from cannery.ops.movement.op import Cast, Identity
from ops.cases import Net, case


@case
def copy_odd() -> Graph:
    net = Net()
    return net.graph(net.node(Identity(), [net.input("x", (1, 5, 7, 3))]))


@case
def copy_batch() -> Graph:
    net = Net()
    return net.graph(net.node(Identity(), [net.input("x", (2, 4, 6, 9))]))


@case
def copy_vector() -> Graph:
    net = Net()
    return net.graph(net.node(Identity(), [net.input("x", (1, 37))]))


@case
def scale_shift_tanh() -> Graph:
    net = Net()
    x = net.input("x", (1, 3, 5, 6))
    y = net.node(Mul(), [x, net.weight(6)])
    y = net.node(Sub(), [y, net.weight(6)])
    return net.graph(net.node(Tanh(), [y]))


@case
def normalise_rgb() -> Graph:
    net = Net()
    x = net.input("x", (1, 5, 21, 3), DType.UINT8)
    y = net.node(Mul(), [net.node(Cast(DType.FLOAT32), [x]), net.weight(3)])
    return net.graph(net.node(Add(), [y, net.weight(3)]))


@case
def scale_and_add_narrow() -> Graph:
    net = Net()
    x, r = net.input("x", (2, 3, 17, 5)), net.input("r", (2, 3, 17, 5))
    return net.graph(net.node(Add(), [net.node(Mul(), [x, net.weight(5)]), r]))


@case
def scale_wide() -> Graph:
    net = Net()
    x = net.input("x", (1, 2, 9, 36))
    return net.graph(net.node(Add(), [net.node(Mul(), [x, net.weight(36)]), net.weight(36)]))


@case
def add_relu() -> Graph:
    net = Net()
    x, r = net.input("x", (1, 4, 5, 11)), net.input("r", (1, 4, 5, 11))
    return net.graph(net.node(Relu(), [net.node(Add(), [x, r])]))


def _gated(channels: int) -> Graph:
    """Each channel times its own computed number; then a residual is added."""
    net = Net()
    shape = (1, 3, 5, channels)
    x, gate, r = net.input("x", shape), net.input("s", (1, 1, 1, channels)), net.input("r", shape)
    y = net.node(Sub(), [net.node(Mul(), [x, gate]), net.weight(channels)])
    return net.graph(net.node(Relu(), [net.node(Add(), [y, r])]))


@case
def gated_one() -> Graph:
    return _gated(1)


@case
def gated_few() -> Graph:
    return _gated(3)


@case
def gated_odd() -> Graph:
    return _gated(45)


@case
def gated_many() -> Graph:
    return _gated(299)


@case
def gate_alone() -> Graph:
    net = Net()
    return net.graph(
        net.node(Mul(), [net.input("x", (1, 2, 6, 24)), net.input("s", (1, 1, 1, 24))])
    )


@case
def cast_image() -> Graph:
    net = Net()
    x = net.input("x", (1, 6, 5, 3), DType.UINT8)
    y = net.node(Cast(DType.FLOAT32), [x])
    return net.graph(net.node(Mul(), [y, net.weight(1)]))


@case
def copy_integers() -> Graph:
    net = Net()
    return net.graph(net.node(Identity(), [net.input("x", (1, 5, 7, 3), DType.INT16)]))


@case
def copy_wide() -> Graph:
    net = Net()
    return net.graph(net.node(Identity(), [net.input("x", (1, 6, 27, 7))]))


@case
def copy_plane() -> Graph:
    net = Net()
    return net.graph(net.node(Identity(), [net.input("x", (1, 5, 17, 1))]))


@case
def cast_wide_image() -> Graph:
    net = Net()
    y = net.node(Cast(DType.FLOAT32), [net.input("x", (1, 5, 22, 3), DType.UINT8)])
    y = net.node(Mul(), [y, net.weight(3)])
    return net.graph(net.node(Add(), [y, net.input("r", (1, 5, 22, 3))]))


@case
def add_relu_wide() -> Graph:
    net = Net()
    x, r = net.input("x", (2, 4, 18, 9)), net.input("r", (2, 4, 18, 9))
    return net.graph(net.node(Relu(), [net.node(Add(), [x, r])]))


@case
def reorder_wide() -> Graph:
    net = Net()
    x, r = net.input("x", (2, 5, 9, 18)), net.input("r", (2, 5, 9, 18))
    y = net.node(Mul(), [net.node(Relu(), [x]), net.weight(18)])
    return net.graph(net.node(Add(), [y, r]))


@case
def reorder_two_channels() -> Graph:
    net = Net()
    y = net.node(Mul(), [net.input("x", (1, 3, 7, 2)), net.weight(2)])
    return net.graph(net.node(Add(), [y, net.input("r", (1, 3, 7, 2))]))


@case
def reorder_bytes() -> Graph:
    net = Net()
    x = net.input("x", (1, 5, 8, 3), DType.UINT8)
    y = net.node(Mul(), [net.node(Cast(DType.FLOAT32), [x]), net.weight(3)])
    return net.graph(net.node(Sub(), [y, net.weight(3)]))


@case
def reads_its_input_again() -> Graph:
    net = Net()
    x = net.input("x", (1, 4, 6, 5))
    return net.graph(net.node(Mul(), [net.node(Sigmoid(), [x]), x]))
