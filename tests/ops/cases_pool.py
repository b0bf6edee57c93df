"""Pooling: borders on every side, strides, dilations, epilogues, one and many channels."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.average_pool.op import AveragePool
from cannery.ops.elementwise import Add, Mul, Relu, Sigmoid
from cannery.ops.max_pool.op import MaxPool
from cannery.ops.window import Pads
from ops.cases import Net, add_case

NONE = ((0, 0), (0, 0))
ONE = (1, 1)


@dataclass(frozen=True)
class Window:
    """A case: input shape, attributes of the pool, and what follows (relu, scale, add)."""

    shape: tuple[int, int, int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: Pads = NONE
    dilations: tuple[int, int] = ONE
    tail: str = ""
    counted: bool = False


WINDOWS = {
    "2x2": Window((1, 6, 9, 5), (2, 2), (2, 2), tail="relu scale"),
    "2x2_wide": Window((2, 11, 38, 3), (2, 2), (2, 2), tail="relu scale add"),
    "2x2_low": Window((2, 9, 8, 3), (2, 2), (2, 2), tail="relu add"),
    "2x2_narrow": Window((2, 19, 15, 3), (2, 2), (2, 2), tail="add scale"),
    "2x2_half_of_8": Window((1, 17, 29, 2), (2, 2), (2, 2), tail="relu"),
    "2x2_half_of_16": Window((1, 16, 62, 2), (2, 2), (2, 2), tail="scale add"),
    "2x2_part_of_16": Window((1, 4, 90, 2), (2, 2), (2, 2)),
    "2x2_long": Window((1, 3, 151, 1), (2, 2), (2, 2), tail="relu"),
    "3x3_stride_2_pads": Window((2, 9, 11, 20), (3, 3), (2, 2), ((1, 1), (1, 1)), tail="scale add"),
    "3x3_same": Window((1, 5, 7, 16), (3, 3), ONE, ((1, 1), (1, 1)), tail="relu"),
    "asymmetric": Window((1, 8, 13, 3), (3, 2), (2, 1), ((0, 1), (0, 1))),
    "dilated": Window((1, 9, 12, 7), (3, 2), (1, 2), ((2, 1), (1, 2)), (2, 3)),
    "one_channel": Window((1, 8, 34, 1), (2, 2), (2, 2), tail="relu add"),
    "one_channel_stride_3": Window((1, 9, 40, 1), (3, 3), (3, 3), tail="sigmoid"),
    "large": Window((1, 7, 9, 9), (7, 9), ONE, ((3, 3), (4, 4)), tail="relu"),
    "1x1_stride_2": Window((1, 5, 37, 2), ONE, (2, 2)),
    "1x2_dilated_stride_2": Window((1, 3, 40, 2), (1, 2), (1, 2), NONE, (1, 2)),
    "wide_row": Window((1, 3, 37, 3), (2, 5), ONE, ((1, 0), (2, 2)), tail="add"),
    "one_pixel": Window((1, 1, 1, 33), ONE, ONE, tail="relu"),
    "many_channels": Window((1, 4, 4, 70), (2, 2), (2, 2)),
}
COUNTED = {
    "counted": Window((1, 7, 9, 6), (3, 3), (2, 2), ((1, 1), (1, 1)), tail="scale", counted=True),
    "counted_empty": Window((1, 4, 5, 6), (2, 2), ONE, ((3, 3), (3, 3)), counted=True),
}


def pool_graph(window: Window, *, maximum: bool) -> Graph:
    """One pool with its epilogue."""
    net = Net()
    x = net.input("x", window.shape)
    place = (window.kernel, window.strides, window.pads, window.dilations)
    op = MaxPool(*place) if maximum else AveragePool(*place, count_include_pad=window.counted)
    y = net.node(op, [x])
    for word in window.tail.split():
        if word == "add":
            y = net.node(Add(), [y, net.input("r", net.types[y].shape)])
        elif word == "scale":
            y = net.node(Mul(), [y, net.weight(window.shape[-1])])
        else:
            y = net.node(Relu() if word == "relu" else Sigmoid(), [y])
    return net.graph(y)


for _name, _window in WINDOWS.items():
    add_case(f"max_pool_{_name}", lambda w=_window: pool_graph(w, maximum=True))
for _name, _window in {**WINDOWS, **COUNTED}.items():
    add_case(f"average_pool_{_name}", lambda w=_window: pool_graph(w, maximum=False))
