"""Layers in half precision: the graph with conversions around them.

What belongs together is a step: a layer and the elementwise operators that join it. It computes in
half precision as a whole, so its activations and weights are float16; between a step of half
precision and one of float32 stands a Cast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from cannery.ir.graph import Array, Graph, Node
from cannery.ir.tensor import DType, TensorType
from cannery.lowering.lower import cut
from cannery.ops.movement.op import Cast
from cannery.quantization.halves import rounded
from cannery.quantization.precision import Precision, compute_as
from cannery.schedule.program import Step
from cannery.schedule.schedule import legal
from cannery.target.isa import isa

#: What processors with arithmetic in half precision have at least.
ISA = isa("neon64half")


def compute_in_half(graph: Graph, max_error: float, samples: Path | None = None) -> Graph:
    """The graph with those layers in half precision that bear it, see `compute_as`."""
    return compute_as(HALF, graph, max_error, samples)


def worthwhile(graph: Graph, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Those of the steps that multiply, or are joined to such ones by values of half precision;
    others only where more numbers would be converted without them.
    """
    found = {step.name for step in steps if step.macs(graph)}
    makers = {v: step.name for step in steps for node in step.nodes for v in node.outputs}
    pairs = [(step.name, makers[v]) for step in steps for v in step.inputs if v in makers]
    before = -1
    while before != (before := len(found)):
        found |= {name for pair in pairs if found & set(pair) for name in pair}
    for step in steps:
        if step.name in found and not step.macs(graph) and _costs_more(graph, step, found, makers):
            found.remove(step.name)
    return tuple(step for step in steps if step.name in found)


def _costs_more(graph: Graph, step: Step, half: Collection[str], makers: Mapping[str, str]) -> bool:
    """Whether more numbers are converted with a step in half precision than without it.

    `half` are the names of all steps in it, `makers` those of what computes each value.
    """

    def inside(value: str) -> bool:
        """Whether the other side of a value is in half precision."""
        if value in step.inputs:
            return makers.get(value) in half
        readers = [makers.get(node.outputs[0]) for node in graph.consumers(value)]
        return value not in graph.outputs and all(name in half for name in readers)

    around = {*step.inputs, *step.outputs}
    counts = [graph.types[v].elements * (-1 if inside(v) else 1) for v in around]
    return sum(counts) > 0


def able_steps(graph: Graph) -> tuple[Step, ...]:
    """The steps of a float32 graph that kernels in half precision can compute."""
    typed = {name: _half(type_) for name, type_ in graph.types.items()}
    typed |= {name: graph.types[name] for name in graph.constants}
    half = replace(graph, types=typed)
    return tuple(step for step in cut(graph) if _floats(graph, step) and legal(half, step, ISA))


def _floats(graph: Graph, step: Step) -> bool:
    values = (*step.inputs, *step.outputs)
    if not step.inputs or any(node.op.converts for node in step.nodes):
        return False
    return all(graph.types[value].dtype is DType.FLOAT32 for value in values)


def _half(type_: TensorType) -> TensorType:
    return replace(type_, dtype=DType.HALF) if type_.dtype is DType.FLOAT32 else type_


def in_half(graph: Graph, steps: Sequence[Step]) -> Graph:
    """The graph with these steps in half precision, and conversions where others begin."""
    return _Writer(graph, {node.outputs[0] for step in steps for node in step.nodes}).graph()


def _inputs(step: Step) -> set[str]:
    return {name for node in step.nodes for name in node.inputs}


HALF = Precision(
    "float16", "half precision", "no layer can compute in half precision",
    "it has no kernel in half precision",
    able_steps, worthwhile, in_half, _inputs,
)  # fmt: skip


@dataclass
class _Writer:
    """Writes the nodes anew; `half` are the first outputs of those in half precision."""

    old: Graph
    half: Collection[str]
    nodes: list[Node] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    #: Names of values and constants by their old ones and whether they are in half precision.
    names: dict[tuple[str, bool], str] = field(default_factory=dict)

    def graph(self) -> Graph:
        """The whole graph."""
        for name in self.old.inputs:
            self._add(name, name, half=False)
        for node in self.old.nodes:
            self._node(node)
        return replace(
            self.old, nodes=tuple(self.nodes), types=self.types, constants=self.constants
        )

    def _node(self, node: Node) -> None:
        half = node.outputs[0] in self.half
        inputs = tuple(self._operand(name, half=half) if name else "" for name in node.inputs)
        shown = [
            self._unique(f"{name}/half") if half and name in self.old.outputs else name
            for name in node.outputs
        ]
        self.nodes.append(replace(node, inputs=inputs, outputs=tuple(shown)))
        for old, new in zip(node.outputs, shown, strict=True):
            self._add(old, new, half=half)

    def _operand(self, name: str, *, half: bool) -> str:
        if name in self.old.constants and (name, half) not in self.names:
            return self._constant(name, half=half)
        return self.names[name, half]

    def _add(self, old: str, new: str, *, half: bool) -> None:
        """A value that now exists; it is converted at once if anything reads it otherwise."""
        type_ = self.old.types[old]
        self.names[old, half] = new
        self.types[new] = _half(type_) if half else type_
        if type_.dtype is not DType.FLOAT32:
            self.names[old, not half] = new
            return
        readers = (node.outputs[0] in self.half for node in self.old.consumers(old))
        if any(reader != half for reader in readers) or (half and old in self.old.outputs):
            to = DType.FLOAT32 if half else DType.HALF
            made = old if new != old else self._unique(f"{old}/{to.value}")
            self.nodes.append(Node(Cast(to), made, (new,), (made,)))
            self.names[old, not half] = made
            self.types[made] = replace(type_, dtype=to)

    def _constant(self, name: str, *, half: bool) -> str:
        array = self.old.constants[name]
        there = self.names.get((name, not half))
        new = self._unique(f"{name}/half") if there and half else name
        if there == name and not half:
            new = self._unique(f"{name}/float32")
        rounds = half and array.dtype == np.float32
        self.constants[new] = rounded(array) if rounds else array
        self.types[new] = self.old.types[name]
        self.names[name, half] = new
        return new

    def _unique(self, name: str) -> str:
        taken = self.old.types.keys() | self.types.keys()
        number = next(k for k in range(len(taken) + 1) if f"{name}{k or ''}" not in taken)
        return f"{name}{number or ''}"
