"""Resizing: both modes, every coordinate mode, up and down, channels with tails, epilogues."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ops.elementwise import Add, Mul, Relu
from cannery.ops.resize.op import COORDINATES, ROUNDINGS, Resize
from ops.cases import Net, add_case

#: Name: (input shape, operator, what follows).
CASES: dict[str, tuple[tuple[int, int, int, int], Resize, str]] = {
    "twice": ((1, 3, 5, 8), Resize("nearest", (6, 10), "asymmetric", "floor"), "relu"),
    "twice_linear": ((2, 4, 5, 19), Resize("linear", (8, 10)), "scale add"),
    "three_times": ((1, 3, 4, 3), Resize("linear", (9, 12), "half_pixel"), ""),
    "down": ((1, 9, 11, 6), Resize("linear", (4, 5), "align_corners"), "add"),
    "down_nearest": ((1, 9, 11, 6), Resize("nearest", (4, 5)), "add"),
    "one_pixel": ((1, 5, 4, 33), Resize("linear", (1, 1), "pytorch_half_pixel"), ""),
    "one_channel": ((1, 4, 7, 1), Resize("linear", (7, 20)), "relu"),
    "many_channels": ((1, 2, 3, 149), Resize("linear", (3, 5)), "scale add"),
    "same_width": ((1, 4, 7, 5), Resize("linear", (8, 7), scales=(2.0, 1.0)), ""),
}
for _coordinate in COORDINATES:
    _linear = Resize("linear", (5, 9), _coordinate)
    CASES[f"linear_{_coordinate}"] = ((1, 3, 7, 4), _linear, "")
for _rounding in ROUNDINGS:
    _nearest = Resize("nearest", (5, 9), "half_pixel", _rounding)
    CASES[f"nearest_{_rounding}"] = ((1, 3, 7, 4), _nearest, "")


def resize_graph(shape: tuple[int, int, int, int], op: Resize, tail: str) -> Graph:
    """One resize with its epilogue."""
    net = Net()
    y = net.node(op, [net.input("x", shape)])
    for word in tail.split():
        if word == "add":
            y = net.node(Add(), [y, net.input("r", net.types[y].shape)])
        elif word == "scale":
            y = net.node(Mul(), [y, net.weight(shape[-1])])
        else:
            y = net.node(Relu(), [y])
    return net.graph(y)


for _name, _case in CASES.items():
    add_case(f"resize_{_name}", lambda c=_case: resize_graph(*c))
