"""Depthwise and grouped convolutions: strides, dilations, pads, multipliers, tails, residuals."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.conv.op import Conv
from cannery.ops.elementwise import Add
from cannery.ops.window import Pads
from ops.cases import Net, add_case, case
from ops.epilogues import add_tail

ONE = (1, 1)
NONE = ((0, 0), (0, 0))
SAME3 = ((1, 1), (1, 1))


@dataclass(frozen=True)
class Grouped:
    """A case: input shape, output channels, groups, window, and what follows (relu, scale, add)."""

    shape: tuple[int, int, int, int]
    outputs: int
    group: int
    kernel: tuple[int, int]
    strides: tuple[int, int] = ONE
    pads: Pads = NONE
    dilations: tuple[int, int] = ONE
    tail: str = ""
    bias: bool = True


CASES = {
    "depthwise_3x3": Grouped((1, 6, 9, 8), 8, 8, (3, 3), pads=SAME3, tail="relu"),
    "depthwise_odd": Grouped((2, 7, 5, 19), 19, 19, (3, 3), pads=SAME3, tail="scale add"),
    "depthwise_stride_2": Grouped((1, 9, 12, 6), 6, 6, (3, 3), (2, 2), ((0, 1), (0, 1))),
    "depthwise_5x5": Grouped((1, 8, 11, 33), 33, 33, (5, 5), ONE, ((2, 2), (2, 2)), bias=False),
    "depthwise_7x6": Grouped((1, 9, 20, 4), 4, 4, (7, 6), (2, 1), ((3, 3), (2, 3)), tail="relu"),
    "depthwise_dilated": Grouped((1, 9, 21, 5), 5, 5, (3, 2), (1, 2), ((2, 1), (1, 2)), (2, 3)),
    "depthwise_stride_3": Grouped((1, 8, 30, 3), 3, 3, (2, 3), (3, 3), tail="add"),
    "depthwise_long_row": Grouped((1, 3, 45, 2), 2, 2, (3, 3), ONE, SAME3, tail="relu add"),
    "depthwise_stride_2_row": Grouped((1, 3, 75, 2), 2, 2, (3, 3), (1, 2), SAME3, tail="scale"),
    "depthwise_fours": Grouped((1, 7, 9, 12), 12, 12, (3, 3), ONE, SAME3, tail="scale add relu"),
    "depthwise_apart": Grouped((1, 4, 5, 128), 128, 128, (3, 3), (2, 1), SAME3, tail="add"),
    "depthwise_times_2": Grouped((1, 5, 7, 6), 12, 6, (3, 3), ONE, SAME3, tail="scale add"),
    "depthwise_times_3": Grouped((1, 5, 7, 7), 21, 7, (3, 3), (2, 2), SAME3, tail="relu"),
    "depthwise_times_8": Grouped((1, 4, 6, 3), 24, 3, (2, 2), tail="scale"),
    "grouped_2": Grouped((1, 6, 9, 8), 12, 2, (3, 3), ONE, SAME3, tail="relu"),
    "grouped_3_stride": Grouped((2, 7, 8, 15), 9, 3, (3, 2), (2, 1), ((1, 1), (0, 1)), tail="add"),
    "grouped_4_1x1": Grouped((1, 4, 5, 16), 68, 4, ONE, tail="scale", bias=False),
    "grouped_dilated": Grouped((1, 9, 9, 6), 4, 2, (3, 3), ONE, ((2, 2), (2, 2)), (2, 2)),
}


def grouped_graph(case: Grouped) -> Graph:
    """One convolution with its epilogue."""
    net = Net()
    x = net.input("x", case.shape)
    inputs = [x, net.weight(*case.kernel, case.shape[-1] // case.group, case.outputs)]
    inputs += [net.weight(case.outputs)] if case.bias else []
    y = net.node(Conv(case.strides, case.pads, case.dilations, case.group), inputs)
    return net.graph(add_tail(net, y, case.tail))


@case
def conv_grouped_plus_its_input() -> Graph:
    """The residual is the convolution's own input, which is passed once."""
    net = Net()
    x = net.input("x", (1, 6, 7, 6))
    weights = [net.weight(3, 3, 2, 6), net.weight(6)]
    y = net.node(Conv(ONE, SAME3, ONE, 3), [x, *weights])
    return net.graph(net.node(Add(), [y, x]))


for _name, _case in CASES.items():
    add_case(f"conv_{_name}", lambda c=_case: grouped_graph(c))
