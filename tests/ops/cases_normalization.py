"""Normalisations: over any axes and groups, with and without scale and bias."""

from __future__ import annotations

from functools import partial

from cannery.ir.graph import Graph
from cannery.ir.registry import Op
from cannery.ops.normalization.op import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
)
from ops.cases import Net, add_case
from ops.epilogues import add_tail

IMAGE = (2, 5, 6, 7)
EPSILON = 1e-3


def parameters(op: Op, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of scale and bias."""
    if isinstance(op, LayerNormalization):
        return tuple(shape[a] for a in op.axes)
    assert isinstance(op, (BatchNormalization, GroupNormalization))
    return (shape[op.axis],)


def normalization_graph(op: Op, shape: tuple[int, ...], given: str, tail: str) -> Graph:
    """One normalisation. `given` names scale and bias, in capitals where they are inputs."""
    net = Net()
    dims = parameters(op, shape)
    inputs = [net.input("x", shape)]
    for name in ("scale", "bias"):
        if name in given:
            inputs.append(net.weight(*dims))
        else:
            inputs.append(net.input(name, dims) if name.upper() in given else "")
    if isinstance(op, BatchNormalization):
        inputs += [net.weight(*dims), net.weight(*dims, positive=True)]
    return net.graph(add_tail(net, net.node(op, inputs), tail))


def layer(*axes: int) -> Op:
    return LayerNormalization(axes, EPSILON)


def group(groups: int, axis: int) -> Op:
    return GroupNormalization(groups, axis, EPSILON)


#: Operator, shape, parameters, epilogue.
CASES: dict[str, tuple[Op, tuple[int, ...], str, str]] = {
    "layer": (layer(3), (2, 3, 4, 37), "scale bias", "scale add relu"),
    "layer_sequence": (layer(2), (2, 9, 64), "SCALE BIAS", ""),
    "layer_dense": (layer(1), (3, 20), "", ""),
    "layer_image": (layer(1, 2, 3), IMAGE, "scale bias", "add"),
    "layer_rows": (layer(1), IMAGE, "scale bias", "scale"),
    "layer_columns": (layer(2), IMAGE, "bias", "add"),
    "layer_rows_channels": (layer(1, 3), IMAGE, "scale", ""),
    "layer_batch": (layer(0), (3, 20), "scale bias", ""),
    "layer_rank_5": (layer(1, 4), (2, 3, 4, 5, 6), "scale bias", ""),
    "group": (group(4, 3), (2, 3, 5, 24), "scale bias", "scale"),
    "group_one": (group(1, 3), (2, 3, 5, 24), "scale bias", "relu"),
    "group_pairs": (group(12, 3), (2, 3, 5, 24), "SCALE bias", ""),
    "group_instance": (group(24, 3), (2, 3, 5, 24), "scale bias", "scale add"),
    "group_sequence": (group(2, 2), (2, 20, 6), "scale bias", ""),
    "group_first": (group(3, 1), (2, 6, 5, 7), "scale bias", "scale"),
    "batch": (BatchNormalization(3, EPSILON), (2, 3, 5, 24), "scale bias", "relu"),
    "batch_rows": (BatchNormalization(1, EPSILON), IMAGE, "scale bias", "scale add"),
    "batch_columns": (BatchNormalization(2, EPSILON), IMAGE, "scale bias", ""),
    "batch_dense": (BatchNormalization(1, EPSILON), (3, 5), "scale bias", ""),
}

for _name, _case in CASES.items():
    add_case(f"normalization_{_name}", partial(normalization_graph, *_case))
