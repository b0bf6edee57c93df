"""Small networks along time, each written as what it makes of its input."""

from __future__ import annotations

from collections.abc import Callable

from cannery.ir.graph import Graph
from cannery.ops.conv.op import Conv
from frontends.causal_nets import STEPS
from ops.cases import Net

#: Grows a network from its input.
Build = Callable[[Net, str], str]


def network(build: Build, steps: int = STEPS, channels: int = 3) -> Graph:
    b = Net()
    return b.graph(build(b, b.input("x", (1, steps, channels))))


def conv(before: int, after: int, taps: int = 3, stride: int = 1, dilation: int = 1) -> Build:
    """Of three channels to as many."""
    op = Conv((stride,), ((before, after),), (dilation,))
    return lambda b, x: b.node(op, [x, b.weight(taps, 3, 3)])


def chain(*builds: Build) -> Build:
    def build(b: Net, x: str) -> str:
        for each in builds:
            x = each(b, x)
        return x

    return build


def node(op: object) -> Build:
    return lambda b, x: b.node(op, [x])  # type: ignore[arg-type]
