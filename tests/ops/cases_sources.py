"""Convolutions of joined and upsampled images: scales, kernels, tails, residuals, bands."""

from __future__ import annotations

from dataclasses import dataclass

from cannery.ir.graph import Graph
from cannery.ops.concat.op import Concat
from cannery.ops.conv.op import Conv
from cannery.ops.resize.op import Resize
from cannery.ops.window import Pads
from ops.cases import Net, add_case
from ops.epilogues import add_tail

ONE = (1, 1)
SAME3 = ((1, 1), (1, 1))


@dataclass(frozen=True)
class Joined:
    """Output image of what is joined, (channels, scales) of each part, the convolution, what
    follows (relu, scale, add).
    """

    image: tuple[int, int, int]
    parts: tuple[tuple[int, tuple[int, int]], ...]
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    pads: Pads = SAME3
    strides: tuple[int, int] = ONE
    dilations: tuple[int, int] = ONE
    tail: str = ""
    bias: bool = True


CASES = {
    "up": Joined((1, 8, 10), ((5, (2, 2)),), 8, tail="relu"),
    "up_rows": Joined((2, 9, 7), ((4, (3, 1)),), 17, (5, 3), ((2, 2), (1, 1)), tail="add"),
    "up_valid": Joined((1, 10, 12), ((6, (2, 2)),), 9, (3, 4), ((0, 0), (1, 0)), tail="scale add"),
    "up_2x2": Joined((1, 6, 8), ((8, (2, 4)),), 5, (2, 2), ((0, 1), (1, 0)), bias=False),
    "up_wide_pads": Joined((1, 4, 6), ((3, (2, 2)),), 4, (3, 3), ((3, 2), (2, 4)), tail="relu"),
    "up_and_skip": Joined((1, 8, 10), ((8, (2, 2)), (5, ONE)), 12, tail="relu"),
    "skip_and_up": Joined((2, 6, 8), ((3, ONE), (4, (2, 2))), 33, tail="add relu"),
    "three": Joined((1, 8, 8), ((4, (4, 4)), (6, ONE), (5, (2, 2))), 7, tail="scale"),
    "plain": Joined((1, 7, 9), ((4, ONE), (9, ONE)), 6, tail="add"),
    "plain_stride": Joined(
        (1, 9, 11), ((4, ONE), (3, ONE)), 8, (3, 2), ((1, 0), (2, 1)), (2, 1), (1, 2), "relu"
    ),
    "pointwise": Joined((1, 4, 6), ((20, ONE), (7, (2, 2))), 11, ONE, ((0, 0), (0, 0))),
    "bands": Joined(
        (1, 60, 40), ((30, (2, 2)), (24, ONE)), 20, (3, 1), ((1, 1), (0, 0)), tail="relu"
    ),
}


def joined_graph(case: Joined) -> Graph:
    """Upsamplings, a concatenation where there are several parts, a convolution."""
    net = Net()
    n, h, w = case.image
    parts = []
    for number, (channels, (down, across)) in enumerate(case.parts):
        x = net.input(f"x{number}", (n, h // down, w // across, channels))
        parts.append(x if (down, across) == ONE else net.node(Resize("nearest", (h, w)), [x]))
    x = net.node(Concat(3), parts) if len(parts) > 1 else parts[0]
    weight = net.weight(*case.kernel, sum(channels for channels, _ in case.parts), case.outputs)
    inputs = [x, weight, *([net.weight(case.outputs)] if case.bias else [])]
    y = net.node(Conv(case.strides, case.pads, case.dilations), inputs)
    return net.graph(add_tail(net, y, case.tail))


#: Those whose kernels are built and run.
BUILT = ("up_rows", "up_valid", "skip_and_up", "plain_stride", "bands")

for _name in BUILT:
    add_case(f"sources_{_name}", lambda c=CASES[_name]: joined_graph(c))
