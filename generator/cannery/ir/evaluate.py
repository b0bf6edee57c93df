"""Runs a graph with the numpy references, in float64: the judge of everything that is emitted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cannery.ir.graph import Graph
from cannery.ops.registry import RefArray


def widen(array: RefArray) -> RefArray:
    """float32 as float64; everything else as it is."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def evaluate_all(graph: Graph, inputs: Mapping[str, RefArray]) -> dict[str, RefArray]:
    """Every value of the graph by name, float64 where it is float. Inputs by name."""
    values: dict[str, RefArray] = {name: widen(a) for name, a in graph.constants.items()}
    for name in graph.inputs:
        values[name] = widen(inputs[name])
    for node in graph.nodes:
        results = node.op.reference(*(values[i] if i else None for i in node.inputs))
        values.update(zip(node.outputs, results, strict=True))
    return values


def evaluate(graph: Graph, inputs: Mapping[str, RefArray]) -> dict[str, RefArray]:
    """The outputs by name, in the model's order."""
    values = evaluate_all(graph, inputs)
    return {name: values[name] for name in graph.outputs}
