"""Softmax and its logarithm: along any axis, short and long, with epilogues."""

from __future__ import annotations

from functools import partial

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.elementwise import Add, Mul
from cannery.ops.softmax.op import LogSoftmax, Softmax
from ops.cases import Net, add_case
from ops.epilogues import add_tail

#: Shape, axis, epilogue.
CASES: dict[str, tuple[tuple[int, ...], int, str]] = {
    "two": ((1, 2), 1, ""),
    "two_rows": ((3, 41, 2), 2, "scale"),
    "two_pixels": ((1, 5, 9, 2), 3, "relu"),
    "two_planes": ((1, 2, 5, 7), 1, "scale add"),
    "ten": ((3, 10), 1, ""),
    "one": ((2, 1), 1, ""),
    "long": ((1, 259), 1, "scale add"),
    "longer": ((2, 600), 1, ""),
    "pixels": ((2, 5, 6, 3), 3, "scale"),
    "pixels_relu": ((1, 5, 6, 20), 3, "relu"),
    "four_pixels": ((2, 5, 9, 4), 3, "scale relu"),
    "pixels_add": ((1, 5, 6, 4), 3, "add"),
    "rows": ((2, 5, 6, 7), 1, ""),
    "columns": ((2, 5, 6, 7), 2, "scale add"),
    "many_rows": ((1, 40, 3, 7), 1, "scale"),
    "sequence": ((2, 5, 37), 1, ""),
    "batch": ((3, 5), 0, ""),
    "rank_1": ((6,), 0, ""),
    "rank_5": ((2, 3, 4, 5, 6), 2, ""),
    "rank_5_last": ((2, 3, 4, 5, 6), 4, ""),
    "one_channel": ((1, 4, 5, 1), 2, "add"),
}


#: The same of numbers whose exponentials no float holds, in both directions.
FAR: dict[str, tuple[tuple[int, ...], int]] = {
    "two": ((2, 9, 2), 2), "few": ((3, 6), 1), "ten": ((5, 10), 1), "long": ((2, 259), 1),
    "pixels": ((1, 3, 4, 5), 3), "rows": ((1, 5, 3, 4), 1), "columns": ((1, 3, 6, 7), 2),
}  # fmt: skip


def softmax_graph(
    shape: tuple[int, ...], axis: int, tail: str, *, log: bool, shift: float = 0.0
) -> Graph:
    """One softmax with its epilogue; with `shift`, of rows around it and its negative in turn."""
    net = Net()
    op = LogSoftmax(axis) if log else Softmax(axis)
    x = net.input("x", shape)
    if shift:
        rows = [d if k == (axis == 0) else 1 for k, d in enumerate(shape)]
        signs = np.where(np.arange(max(rows)) % 2, -shift, shift).astype(np.float32)
        x = net.node(Add(), [x, net.constant("far", signs.reshape(rows))])
    return net.graph(add_tail(net, net.node(op, [x]), tail))


for _log in (False, True):
    for _name, _case in CASES.items():
        add_case(
            f"{'log_' if _log else ''}softmax_{_name}",
            partial(softmax_graph, *_case, log=_log),
        )
    for _name, _far in FAR.items():
        add_case(
            f"{'log_' if _log else ''}softmax_far_{_name}",
            partial(softmax_graph, *_far, "", log=_log, shift=150.0), tolerance=1e-4,
        )  # fmt: skip


def own_input_graph(shape: tuple[int, ...], axis: int) -> Graph:
    """A softmax times what it is of: that must not be overwritten before."""
    net = Net()
    x = net.input("x", shape)
    return net.graph(net.node(Mul(), [net.node(Softmax(axis), [x]), x]))


for _name, _own in {
    "pixels": ((2, 5, 6, 7), 3),
    "planes": ((2, 5, 6, 7), 1),
    "long": ((2, 259), 1),
}.items():
    add_case(f"softmax_own_{_name}", partial(own_input_graph, *_own))
