"""The largest sums that layers of integers can make, by which none overflows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.quantized.arithmetic import LARGEST_SUM, largest_of
from cannery.ops.quantized.matmul import QuantizedProduct, parts
from cannery.ops.quantized.recurrent import QuantizedRecurrent


@dataclass(frozen=True)
class SumBound:
    """The largest magnitude that a layer's sums of integer products can have, with any inputs."""

    layer: str
    largest: int

    @property
    def fits(self) -> bool:
        """Whether int32 holds all of them."""
        return self.largest <= LARGEST_SUM


def integer_sums(graph: Graph) -> tuple[SumBound, ...]:
    """The largest sums of the layers that multiply integers by constant weights.

    Each input may have any value of its type, unsigned bytes those of signed ones as well; outputs
    of recurrent layers, which they read again, are at most their `bound`.
    """
    found = []
    for node in graph.nodes:
        if isinstance(node.op, QuantizedRecurrent) and node.inputs[1] in graph.constants:
            r = np.abs(np.asarray(graph.constants[node.inputs[1]], np.int64))
            sums = r.sum(axis=1) * node.op.bound
            found.append(SumBound(node.name, int(sums.max(initial=0))))
        if not isinstance(node.op, QuantizedProduct):
            continue
        constants = [graph.constants.get(name) if name else None for name in node.inputs]
        _, w, following = parts(node.op, (graph.types[node.inputs[0]], *constants[1:]))
        start = following[3]
        weights = np.abs(np.asarray(w, np.int64))
        sums = weights.reshape(-1, weights.shape[-1]).sum(axis=0)
        largest = sums * largest_of(graph.types[node.inputs[0]].dtype)
        if start is not None:
            largest = largest + np.abs(np.asarray(start, np.int64))
        found.append(SumBound(node.name, int(largest.max(initial=0))))
    return tuple(found)
