"""Convolutions with many zero weights: single ones, whole vectors, whole channels."""

from __future__ import annotations

from functools import partial

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.conv.op import Conv
from ops.cases import Net, add_case
from ops.epilogues import add_tail

ONE = (1, 1)
SAME3 = ((1, 1), (1, 1))

#: Kernel size, channels, stride, share of zeros, epilogue.
CASES: dict[str, tuple[int, tuple[int, int], int, float, str]] = {
    "most": (3, (4, 6), 1, 0.8, "relu"),
    "most_stride": (3, (3, 5), 2, 0.8, "scale add"),
    "all": (3, (2, 4), 1, 1.0, "relu"),
    "few": (1, (5, 20), 1, 0.3, ""),
}


def sparse_graph(
    size: int, channels: tuple[int, int], stride: int, zeros: float, tail: str
) -> Graph:
    """One convolution whose first output channel and last input channel are zero, too."""
    net = Net()
    ic, oc = channels
    w = net.rng.standard_normal((size, size, ic, oc)).astype(np.float32)
    w[net.rng.random(w.shape) < zeros] = 0.0
    w[..., 0] = w[:, :, -1] = 0.0
    x = net.input("x", (1, 7, 21, ic))
    conv = Conv((stride, stride), SAME3 if size == 3 else ((0, 0), (0, 0)), ONE)
    y = net.node(conv, [x, net.constant("w", w), net.weight(oc)])
    return net.graph(add_tail(net, y, tail))


for _name, _case in CASES.items():
    add_case(f"conv_zeros_{_name}", partial(sparse_graph, *_case))
