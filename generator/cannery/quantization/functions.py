"""Functions of one value: elementwise operators that together become one table of integers.

Each element of x * sigmoid(x), sqrt(abs(x)) or where(x > 0, x, exp(x)) depends on one element of x
alone. So a table holds all 256 results for int8; for int16 lines are drawn between its entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cannery.ir.graph import Graph, Node
from cannery.ir.numeric import F64, f64
from cannery.ir.registry import Elementwise, RefArray
from cannery.ir.tensor import DType
from cannery.ops.same_bits import ROUNDED_ONCE
from cannery.ops.scalar.base import Pointwise
from cannery.quantization.calibration import Observed

#: Why a function may stay floats.
LOSES_TOO_MUCH = "as a table it would lose more than --max-loss"
NO_TABLE = "no table is as precise as int16"


@dataclass(frozen=True)
class Function:
    """The nodes that compute a value from `source` alone, in order."""

    source: str
    nodes: tuple[Node, ...]
    constants: Mapping[str, RefArray]

    @property
    def value(self) -> str:
        """What the last one computes."""
        return self.nodes[-1].output

    @property
    def differs(self) -> bool:
        """Whether processors may disagree about its results if they are computed with floats."""
        return not all(isinstance(node.op, ROUNDED_ONCE) for node in self.nodes)

    def at(self, x: F64) -> F64:
        """The results, of any shape; where there are none, NaN or infinity."""
        known: dict[str, RefArray] = {self.source: x}
        known |= {name: array.reshape(()) for name, array in self.constants.items()}
        with np.errstate(all="ignore"):
            for node in self.nodes:
                (known[node.output],) = node.op.reference(*(known[i] for i in node.inputs))
        return f64(known[self.value])

    def sensitivity(self, seen: Observed) -> float:
        """How far rounding x to bytes moves results on average, relative to the largest one."""
        largest = seen.spreads[self.source].largest
        x = np.linspace(-largest, largest, 257)
        found, half = self.at(x), largest / 254
        found = found[np.isfinite(found)]
        with np.errstate(all="ignore"):
            moved = np.abs(self.at(x + half) - self.at(x - half))
        size = float(np.abs(found).max(initial=0.0))
        return float(np.nan_to_num(moved, posinf=size).mean()) / size if size else 0.0


def source_of(graph: Graph, seen: Observed, sources: Mapping[str, str], node: Node) -> str:
    """The one value whose elements each element of a node's result depends on; empty if there is
    none. `sources` are those of the nodes before it.
    """
    if not isinstance(node.op, Elementwise | Pointwise) or len(node.outputs) != 1:
        return ""
    types, result = graph.types, graph.types[node.output]
    if result.dtype not in (DType.FLOAT32, DType.BOOL):
        return ""
    found = set[str]()
    for value in node.inputs:
        if value in graph.constants and types[value].elements == 1:
            continue
        found.add(sources.get(value, value))
    if len(found) != 1:
        return ""
    (source,) = found
    usable = source and source not in graph.constants and seen.is_finite(source)
    same = usable and types[source].shape == result.shape
    return source if same else ""


def find_functions(graph: Graph, seen: Observed, sources: Mapping[str, str]) -> dict[str, Function]:
    """By result, the functions of one value whose results anything else reads."""
    found: dict[str, Function] = {}
    places = {node.outputs[0]: place for place, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        value = node.outputs[0]
        source = sources.get(value)
        readers = graph.consumers(value)
        inside = all(sources.get(reader.outputs[0]) == source for reader in readers)
        if source is None or not seen.is_finite(value):
            continue
        if inside and value not in graph.outputs:
            continue
        found[value] = _function(graph, places, source, node)
    return found


def _function(graph: Graph, places: Mapping[str, int], source: str, last: Node) -> Function:
    """The nodes on all ways from `source` to the result of the last one."""
    nodes: dict[str, Node] = {}
    constants: dict[str, RefArray] = {}
    waiting = [last]
    while waiting:
        node = waiting.pop()
        nodes[node.output] = node
        for value in node.inputs:
            producer = graph.producer(value)
            if value in graph.constants:
                constants[value] = graph.constants[value]
            elif value != source and producer is not None and value not in nodes:
                waiting.append(producer)
    order = sorted(nodes, key=lambda value: places[value])
    return Function(source, tuple(nodes[value] for value in order), constants)
