"""Checks the numbers of an imported model: weights that training broke are reported, not used."""

from __future__ import annotations

import numpy as np

from cannery.errors import ModelError
from cannery.ir.graph import Graph, Node
from cannery.ops.conv.op import Conv
from cannery.ops.conv_transpose.op import ConvTranspose
from cannery.ops.matmul.op import MatMul
from cannery.ops.normalization.op import BatchNormalization

#: Operators whose constants must be finite; others may add infinity or compare with it.
_FINITE = (BatchNormalization, Conv, ConvTranspose, MatMul)

_CURE = "training has diverged or the file is damaged: save a sound model"


def check_numbers(graph: Graph) -> None:
    """Raises ModelError for NaN among the constants, infinite weights and variances below 0."""
    for node in graph.nodes:
        for name in node.inputs:
            if name in graph.constants:
                _check(graph, node, name)
        if isinstance(node.op, BatchNormalization):
            _check_variance(graph, node, node.op.epsilon)


def _check(graph: Graph, node: Node, name: str) -> None:
    array = graph.constants[name]
    if array.dtype.kind != "f":
        return
    sound = np.isfinite(array) if isinstance(node.op, _FINITE) else ~np.isnan(array)
    if not sound.all():
        bad = np.unravel_index(int(np.argmin(sound)), array.shape)
        place = [int(k) for k in bad]
        raise ModelError(
            f"the weight {name!r} is {array[bad]} at {place}", where=f"layer {node.name!r}",
            cure=_CURE,
        )  # fmt: skip


def _check_variance(graph: Graph, node: Node, epsilon: float) -> None:
    variance = graph.constants.get(node.inputs[4])
    if variance is not None and not np.all(variance.astype(np.float64) + epsilon > 0.0):
        least = float(variance.min())
        raise ModelError(
            f"a variance of {least:g} with epsilon {epsilon:g} has no square root",
            where=f"layer {node.name!r}", cure=_CURE,
        )  # fmt: skip
