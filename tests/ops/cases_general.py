"""Movements of any rank and type, and arithmetic with broadcast operands."""

from __future__ import annotations

from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ir.tensor import MODEL_DTYPES, DType
from cannery.ops.elementwise import Add, Mul, Relu, Sigmoid, Sub
from cannery.ops.movement.op import Cast, Expand, Identity, Pad, Slice, Transpose
from ops.cases import Net, add_case, case

SHAPE = (2, 4, 5, 3)

MOVES: dict[str, Op] = {
    "transpose_image": Transpose((0, 3, 1, 2)),
    "transpose_all": Transpose((3, 1, 0, 2)),
    "pad_constant": Pad(((0, 0), (1, 2), (2, 0), (0, 0)), -1.5),
    "pad_channels_and_batch": Pad(((1, 0), (0, 0), (0, 0), (2, 3))),
    "pad_reflect": Pad(((0, 0), (3, 2), (1, 4), (2, 1)), 0.0, "reflect"),
    "pad_edge": Pad(((1, 0), (1, 2), (0, 6), (2, 0)), 0.0, "edge"),
    "slice_steps": Slice((0, 3, 0, 2), (2, 0, 5, -1), (1, -2, 2, -1)),
    "slice_box": Slice((1, 1, 2, 0), (2, 4, 5, 3), (1, 1, 1, 1)),
    "expand": Expand((3, 2, 4, 5, 3)),
}


def move_graph(op: Op, dtype: DType, *, tail: bool) -> Graph:
    """One movement, and a ReLU after it."""
    net = Net()
    y = net.node(op, [net.input("x", SHAPE, dtype)])
    return net.graph(net.node(Relu(), [y]) if tail else y)


for _name, _op in MOVES.items():
    add_case(f"move_{_name}", lambda op=_op: move_graph(op, DType.FLOAT32, tail=True))
    if not getattr(_op, "value", 0.0):
        add_case(f"move_int16_{_name}", lambda op=_op: move_graph(op, DType.INT16, tail=False))
for _to in MODEL_DTYPES:
    for _from in (DType.FLOAT32, DType.UINT8, DType.INT64, DType.BOOL):
        add_case(
            f"cast_{_from.value}_to_{_to.value}",
            lambda to=_to, dtype=_from: move_graph(Cast(to), dtype, tail=False),
        )


@case
def broadcast_gate() -> Graph:
    net = Net()
    x, gate = net.input("x", (1, 4, 5, 11)), net.input("gate", (1, 1, 1, 11))
    y = net.node(Mul(), [x, net.node(Sigmoid(), [gate])])
    return net.graph(net.node(Add(), [y, x]))


@case
def broadcast_rows_and_columns() -> Graph:
    net = Net()
    rows, columns = net.input("rows", (3, 5, 1, 1)), net.input("columns", (1, 1, 6, 4))
    y = net.node(Sub(), [rows, columns])
    return net.graph(net.node(Mul(), [y, net.weight(5, 1, 4)]))


@case
def broadcast_scalar() -> Graph:
    net = Net()
    return net.graph(net.node(Add(), [net.input("s", ()), net.input("x", (37,))]))


@case
def constant_alone() -> Graph:
    net = Net()
    return net.graph(net.node(Identity(), [net.weight(3, 7)]))


#: Transposed matrices: runs of axes that change places, with tails of blocks and with few lines.
MATRICES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "sequence": ((1, 13, 7), (0, 2, 1)),
    "few_channels": ((1, 9, 2), (0, 2, 1)),
    "few_rows": ((1, 3, 10), (0, 2, 1)),
    "image": ((1, 6, 5, 3), (0, 3, 1, 2)),
    "image_back": ((1, 5, 3, 4), (0, 2, 3, 1)),
    "matrix": ((1, 8, 8), (0, 2, 1)),
    "small": ((1, 3, 3), (0, 2, 1)),
}


def matrix_graph(shape: tuple[int, ...], perm: tuple[int, ...]) -> Graph:
    net = Net()
    return net.graph(net.node(Transpose(perm), [net.input("x", shape)]))


for _name, _matrix in MATRICES.items():
    add_case(f"transpose_{_name}", lambda matrix=_matrix: matrix_graph(*matrix))
