"""Values in half precision: their types, and the same graph as if they were float32.

Between layers that compute in half precision, values have the type HALF. Operators know nothing of
it: they infer types, and schedules make kernels, of float32, and what they say holds for HALF. Only
an operator that `converts` has inputs and outputs of different types. Constants stay float32; those
of layers in half precision hold numbers that float16 has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.registry import Op, RefArray
from cannery.ir.tensor import DType, TensorType


def infer_types(op: Op, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
    """The types of an operator's outputs. Raises ModelError, see `Op.infer`."""
    if op.converts or not any(t is not None and t.dtype is DType.HALF for t in inputs):
        return op.infer(*inputs)
    found = op.infer(*(None if t is None else widened(t) for t in inputs))
    return tuple(replace(t, dtype=DType.HALF) if t.dtype is DType.FLOAT32 else t for t in found)


def widened(type_: TensorType) -> TensorType:
    """The same type with float32 in place of half precision."""
    return replace(type_, dtype=DType.FLOAT32) if type_.dtype is DType.HALF else type_


def as_float32(graph: Graph) -> Graph:
    """The graph as if it knew no half precision: for schedules, not for running it."""

    def find() -> Graph:
        return replace(graph, types={name: widened(t) for name, t in graph.types.items()})

    return graph.once("as float32", (), find)


def halves_at(graph: Graph, nodes: Sequence[Node]) -> bool:
    """Whether any of these nodes reads or computes values in half precision."""
    types = graph.types
    return any(
        types[value].dtype is DType.HALF
        for node in nodes
        for value in (*node.inputs, *node.outputs)
        if value
    )


def rounded_to_half(x: RefArray) -> RefArray:
    """Numbers rounded to the nearest float16, ties to even, as float64; large ones are infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(np.float16).astype(np.float64)
