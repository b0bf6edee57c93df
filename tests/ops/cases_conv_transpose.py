"""Transposed convolutions: strides, overlaps, gaps, dilations, cropping, groups, residuals."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.window import Pads
from ops.cases import Net, add_case
from ops.epilogues import add_tail

ONE = (1, 1)
NONE = ((0, 0), (0, 0))


@dataclass(frozen=True)
class Transposed:
    """A case: input shape, output channels, attributes, and what follows (relu, scale, add)."""

    shape: tuple[int, int, int, int]
    outputs: int
    kernel: tuple[int, int]
    strides: tuple[int, int] = ONE
    pads: Pads = NONE
    dilations: tuple[int, int] = ONE
    extra: tuple[int, int] = (0, 0)
    group: int = 1
    tail: str = ""
    bias: bool = True


CASES = {
    "2x2_stride_2": Transposed((1, 4, 7, 5), 8, (2, 2), (2, 2), tail="relu"),
    "3x3_stride_2": Transposed((2, 5, 6, 9), 7, (3, 3), (2, 2), ((0, 1), (0, 1)), tail="scale add"),
    "4x4_stride_2": Transposed((1, 4, 9, 16), 20, (4, 4), (2, 2), ((1, 1), (1, 1)), tail="add"),
    "stride_1": Transposed((1, 5, 6, 3), 33, (3, 3), ONE, ((1, 1), (1, 1)), bias=False),
    "gaps": Transposed((1, 3, 5, 4), 6, (1, 2), (3, 3), tail="relu"),
    "dilated": Transposed((1, 4, 5, 2), 5, (3, 2), (2, 1), ((2, 0), (1, 1)), (1, 3), (1, 0)),
    "dilated_stride": Transposed((1, 4, 5, 3), 4, (2, 2), (2, 2), NONE, (2, 2), (1, 1)),
    "groups": Transposed((1, 4, 5, 6), 9, (3, 3), (2, 2), ((1, 1), (1, 1)), group=3, tail="scale"),
    "depthwise": Transposed(
        (1, 4, 5, 9), 9, (4, 4), (2, 2), ((1, 1), (1, 1)), group=9, tail="relu"
    ),
    "depthwise_gaps": Transposed((2, 3, 4, 5), 5, (1, 3), (3, 2), group=5, tail="scale add"),
    "bands": Transposed((1, 9, 40, 33), 33, (4, 4), (2, 2), ((1, 1), (1, 1)), group=33),
    "stride_3": Transposed((1, 3, 4, 2), 1, (5, 4), (3, 2), ((1, 2), (0, 3)), extra=(2, 1)),
}


def transposed_graph(case: Transposed) -> Graph:
    """One transposed convolution with its epilogue."""
    net = Net()
    x = net.input("x", case.shape)
    weight = net.weight(*case.kernel, case.outputs // case.group, case.shape[-1])
    inputs = [x, weight, *([net.weight(case.outputs)] if case.bias else [])]
    op = ConvTranspose(case.strides, case.pads, case.dilations, case.extra, case.group)
    y = net.node(op, inputs)
    return net.graph(add_tail(net, y, case.tail))


for _name, _case in CASES.items():
    # Rows that exceed the cache take turns one by one.
    add_case(f"conv_transpose_{_name}", lambda c=_case: transposed_graph(c), far=_name == "gaps")
