"""Chains of steps: separable convolutions with epilogues, residuals, strides and tails."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add, Mul, Relu
from cannery.ops.window import Pads
from ops.cases import Net, add_case

ONE = (1, 1)
NONE = ((0, 0), (0, 0))
SAME3 = ((1, 1), (1, 1))


@dataclass(frozen=True)
class Separable:
    """Input shape, depth multiplier, outputs, window; what follows each part (relu, scale, add)."""

    shape: tuple[int, int, int, int]
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = ONE
    pads: Pads = SAME3
    multiplier: int = 1
    middle: str = ""
    tail: str = ""


CASES = {
    "plain": Separable((1, 6, 9, 8), 12),
    "relu": Separable((2, 7, 6, 19), 9, middle="relu scale", tail="relu"),
    "stride_2": Separable((1, 9, 12, 6), 17, (3, 3), (2, 2), ((0, 1), (0, 1)), tail="add"),
    "multiplier": Separable((1, 5, 5, 3), 7, (2, 2), ONE, NONE, 3, middle="add", tail="scale"),
    "one_row": Separable((1, 1, 8, 5), 6, (1, 3), ONE, ((0, 0), (1, 1)), middle="relu"),
    "residual_of_input": Separable((1, 6, 5, 8), 8, tail="input relu"),
}


def separable_graph(case: Separable) -> Graph:
    """A depthwise and a pointwise convolution with their epilogues."""
    net = Net()
    x = net.input("x", case.shape)
    inner = case.shape[-1] * case.multiplier
    conv = Conv(case.strides, case.pads, ONE, case.shape[-1])
    y = net.node(conv, [x, net.weight(*case.kernel, 1, inner), net.weight(inner)])
    y = _follow(net, x, y, case.middle)
    y = net.node(Conv(ONE, NONE, ONE), [y, net.weight(1, 1, inner, case.outputs)])
    return net.graph(_follow(net, x, y, case.tail))


def _follow(net: Net, x: str, y: str, words: str) -> str:
    for word in words.split():
        if word == "add":
            y = net.node(Add(), [y, net.input(net.unique("r"), net.types[y].shape)])
        elif word == "input":
            y = net.node(Add(), [y, x])
        elif word == "scale":
            y = net.node(Mul(), [y, net.weight(net.types[y].shape[-1])])
        else:
            y = net.node(Relu(), [y])
    return y


for _name, _case in CASES.items():
    add_case(f"chain_separable_{_name}", lambda c=_case: separable_graph(c))
