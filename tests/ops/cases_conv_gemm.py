"""Convolutions whose reduction is cut into blocks, and shapes that matrix products dislike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from cannery.ir.graph import Graph
from cannery.ops.conv.op import Conv
from cannery.ops.window import Pads
from ops.cases import Net, add_case
from ops.epilogues import add_tail

NONE = ((0, 0), (0, 0))
SAME3 = ((1, 1), (1, 1))
ONE = (1, 1)


@dataclass(frozen=True)
class Layer:
    """A case: input shape, kernel [kh, kw, oc], attributes, epilogue."""

    shape: tuple[int, int, int, int]
    kernel: tuple[int, int, int]
    strides: tuple[int, int] = ONE
    pads: Pads = NONE
    dilations: tuple[int, int] = ONE
    group: int = 1
    tail: str = ""


LAYERS = {
    "deep_3x3": Layer((1, 5, 6, 70), (3, 3, 20), pads=SAME3, tail="relu"),
    "deep_1x1": Layer((1, 3, 7, 600), (1, 1, 9), tail="add relu"),
    "deep_channels": Layer((1, 3, 4, 320), (2, 2, 8), tail="scale add"),
    "prime_channels": Layer((1, 3, 4, 293), (1, 2, 8)),
    "1x1_batch": Layer((2, 5, 7, 12), (1, 1, 33), tail="scale add"),
    "1x1_stride": Layer((1, 7, 9, 12), (1, 1, 10), (2, 2), tail="relu"),
    "1x1_pads": Layer((1, 4, 5, 6), (1, 1, 7), pads=((1, 0), (0, 2))),
    "dilated": Layer((1, 9, 10, 6), (3, 3, 7), (2, 1), ((2, 2), (0, 3)), (2, 2), tail="relu"),
    "group": Layer((1, 6, 7, 12), (3, 3, 10), pads=SAME3, group=2, tail="scale"),
    "group_1x1": Layer((1, 5, 5, 12), (1, 1, 18), group=3, tail="add"),
    "one_pixel": Layer((1, 3, 3, 40), (3, 3, 24), tail="relu"),
    "row": Layer((1, 1, 50, 7), (1, 5, 6), (1, 2), ((0, 0), (2, 2))),
}


def layer_graph(layer: Layer) -> Graph:
    """One convolution with bias and epilogue."""
    net = Net()
    kh, kw, oc = layer.kernel
    weight = net.weight(kh, kw, layer.shape[-1] // layer.group, oc)
    conv = Conv(layer.strides, layer.pads, layer.dilations, layer.group)
    y = net.node(conv, [net.input("x", layer.shape), weight, net.weight(oc)])
    return net.graph(add_tail(net, y, layer.tail))


for _name, _layer in LAYERS.items():
    add_case(f"conv_{_name}", partial(layer_graph, _layer))
