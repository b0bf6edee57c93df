"""Reductions: every operator over the usual axes, one operator over all kinds of axes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from cannery.ir.graph import Graph
from cannery.ops.reduce.op import (
    ReduceL1,
    ReduceL2,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Reduction,
)
from ops.cases import Net, add_case
from ops.epilogues import add_tail


@dataclass(frozen=True)
class Reduce:
    """A case: shape of x, reduced axes, epilogue."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    keepdims: bool = False
    tail: str = ""


OPERATORS: tuple[type[Reduction], ...] = (
    ReduceL1, ReduceL2, ReduceLogSumExp, ReduceMax, ReduceMean, ReduceMin, ReduceProd, ReduceSum,
    ReduceSumSquare,
)  # fmt: skip

EACH = {
    "pool": Reduce((2, 5, 6, 21), (1, 2), tail="relu scale"),
    "channels": Reduce((2, 3, 4, 23), (3,)),
    "all": Reduce((3, 5, 3, 4), (1, 2, 3), keepdims=True, tail="add"),
}

AXES = {
    "rows": Reduce((2, 5, 6, 7), (1,), tail="scale add"),
    "columns": Reduce((2, 7, 9, 13), (2,), tail="scale add"),
    "batch": Reduce((3, 9), (0,)),
    "batch_and_columns": Reduce((2, 7, 9, 13), (0, 2), tail="scale"),
    "everything": Reduce((2, 7, 3, 5), (0, 1, 2, 3)),
    "nothing": Reduce((2, 3, 4, 5), (), tail="tanh"),
    "sequence": Reduce((2, 50, 9), (1,), keepdims=True, tail="scale"),
    "features": Reduce((2, 13, 9), (2,), keepdims=True),
    "vector": Reduce((9,), (0,)),
    "rank_5": Reduce((2, 3, 4, 5, 6), (1, 3)),
    "rank_5_last": Reduce((2, 3, 4, 5, 6), (2, 4)),
    "one": Reduce((2, 1, 3, 4), (1,)),
    "few_channels": Reduce((1, 4, 4, 3), (1, 2)),
    "many_channels": Reduce((1, 3, 3, 150), (1, 2), tail="add"),
    "one_channel": Reduce((2, 9, 9, 1), (1, 2)),
    "wide_plane": Reduce((1, 9, 70, 2), (1, 2), keepdims=True),
}


def reduce_graph(operator: type[Reduction], r: Reduce) -> Graph:
    """One reduction with its epilogue."""
    net = Net()
    y = net.node(operator(r.axes, r.keepdims), [net.input("x", r.shape)])
    return net.graph(add_tail(net, y, r.tail))


for _operator in OPERATORS:
    for _name, _case in EACH.items():
        add_case(
            f"{_operator.__name__}_{_name}",
            partial(reduce_graph, _operator, _case),
            tolerance=2e-5,
        )
for _operator in (ReduceMean, ReduceMax):
    for _name, _case in AXES.items():
        add_case(f"{_operator.__name__}_{_name}", partial(reduce_graph, _operator, _case))
