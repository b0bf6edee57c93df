"""Runs a graph with the numpy references, in float64: the judge of everything that is emitted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

from cannery.deadline import check_time
from cannery.errors import CanneryError
from cannery.ir.graph import Graph, Node
from cannery.ir.half import rounded_to_half
from cannery.ir.registry import RefArray
from cannery.ir.tensor import DType


def widen(array: RefArray) -> RefArray:
    """float32 as float64; everything else as it is."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


class Values(dict[str, RefArray]):
    """Values by name, float64 where they are float.

    Constants are widened where they are read, so that large ones do not exist twice. In a quantised
    network, each result is rounded to float32: so sums, products, maxima and the like, which are
    rounded once, are what every processor computes, to the last bit. Results in half precision are
    rounded to it.

    With `only`, other values are dropped once the nodes that read them are `done`.
    """

    def __init__(
        self, graph: Graph, inputs: Mapping[str, RefArray], only: Collection[str] | None = None
    ) -> None:
        super().__init__({name: widen(inputs[name]) for name in graph.inputs})
        self._constants = graph.constants
        self._types = graph.types
        self._rounds = graph.quantization is not None
        self._kept = only
        self._readers = Counter(name for node in graph.nodes for name in node.inputs)

    def __missing__(self, name: str) -> RefArray:
        return widen(self._constants[name])

    def _operand(self, node: Node, name: str) -> RefArray:
        """An input of a node, widened unless the node does that itself."""
        if node.op.widens and name not in self:
            return self._constants[name]
        return self[name]

    def compute(self, node: Node) -> None:
        """Add the outputs of a node whose inputs are known. Raises OutOfTimeError.

        Raises CanneryError if they do not fit into memory.
        """
        check_time()
        try:
            results = self._results(node)
        except MemoryError:
            raise CanneryError(
                "out of memory: trying a network keeps all its values, 8 bytes per number",
                where=node.name,
                cure="free some memory, or take a network with smaller values",
            ) from None
        self.update(zip(node.outputs, results, strict=True))
        self.done(node)

    def done(self, node: Node) -> None:
        """Note that a node has read its inputs."""
        if self._kept is None:
            return
        for name in node.inputs:
            self._readers[name] -= 1
            if not self._readers[name] and name not in self._kept:
                self.pop(name, None)

    def _results(self, node: Node) -> tuple[RefArray, ...]:
        results = node.op.reference(*(self._operand(node, i) if i else None for i in node.inputs))
        if any(self._types[y].dtype is DType.HALF for y in node.outputs):
            return tuple(rounded_to_half(array) for array in results)
        if not self._rounds:
            return results
        with np.errstate(over="ignore"):
            return tuple(_rounded(array) for array in results)


def _rounded(array: RefArray) -> RefArray:
    return widen(array.astype(np.float32)) if array.dtype.kind == "f" else array


def evaluate_all(graph: Graph, inputs: Mapping[str, RefArray]) -> dict[str, RefArray]:
    """Every value of the graph by name, float64 where it is float. Inputs by name."""
    values = Values(graph, inputs)
    values.update({name: widen(a) for name, a in graph.constants.items()})
    for node in graph.nodes:
        values.compute(node)
    return values


def recomputed(
    graph: Graph, values: Mapping[str, RefArray], new: Mapping[str, RefArray]
) -> dict[str, RefArray]:
    """What becomes of `values`, which are all of the graph, if constants are `new`.

    Only those that depend on the new ones are computed; the result has these.
    """
    found = dict(new)
    for node in graph.nodes:
        if any(i in found for i in node.inputs):
            check_time()
            arrays = [found.get(i, values[i]) if i else None for i in node.inputs]
            found.update(zip(node.outputs, node.op.reference(*arrays), strict=True))
    return found


def evaluate(graph: Graph, inputs: Mapping[str, RefArray]) -> dict[str, RefArray]:
    """The outputs by name, in the model's order."""
    values = Values(graph, inputs, only=graph.outputs)
    for node in graph.nodes:
        values.compute(node)
    return {name: values[name] for name in graph.outputs}
