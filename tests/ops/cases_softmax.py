"""Softmax and its logarithm: along any axis, short and long, with epilogues."""

from __future__ import annotations

from functools import partial

from cannery.ir.graph import Graph
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


def softmax_graph(shape: tuple[int, ...], axis: int, tail: str, *, log: bool) -> Graph:
    """One softmax with its epilogue."""
    net = Net()
    op = LogSoftmax(axis) if log else Softmax(axis)
    return net.graph(add_tail(net, net.node(op, [net.input("x", shape)]), tail))


for _name, _case in CASES.items():
    for _log in (False, True):
        add_case(
            f"{'log_' if _log else ''}softmax_{_name}",
            partial(softmax_graph, *_case, log=_log),
        )
