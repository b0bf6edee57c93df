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

from cannery.choose.bisect import longest
from cannery.choose.rounding import MARGIN, rounded_outputs
from cannery.errors import OptionError
from cannery.execution.samples import errors_by_output
from cannery.ir.graph import Array, Graph, HalfLayers, Node
from cannery.ir.tensor import DType, TensorType
from cannery.lowering.lower import cut
from cannery.ops.movement.op import Cast
from cannery.quantization.halves import enough, rounded
from cannery.quantization.judge import Judge
from cannery.schedule.program import Step
from cannery.schedule.schedule import legal
from cannery.target.isa import isa

#: What processors with arithmetic in half precision have at least.
ISA = isa("neon64half")


OPTION = "--compute-as"

#: The error where numbers overflow; its square is a float.
WORST = 1e100


def compute_in_half(graph: Graph, max_error: float, samples: Path | None = None) -> Graph:
    """The graph with those layers in half precision that bear it, and `Graph.half_layers`.

    `samples` is a .npz file of typical inputs (None: seeded ones). Raises OptionError if there are
    none, and if the error cannot be kept.
    """
    able = worthwhile(graph, able_steps(graph))
    if not able:
        raise OptionError(
            "no layer can compute in half precision", where=OPTION,
            cure="leave it out, or take --weights-as float16",
        )  # fmt: skip
    judge = _Judge.of(graph, samples)
    chosen, kept = able, dict[str, str]()
    error = judge.error(able)
    if not MARGIN * error <= max_error:
        chosen, kept = _bearable(judge, able, max_error, error)
        error = judge.error(chosen)
    for step in able:
        if step not in chosen and step.name not in kept:
            kept[step.name] = "only its neighbours would gain"
    return _marked(graph, chosen, kept, error, len(judge.samples))


@dataclass(frozen=True)
class _Judge(Judge):
    """By the error with layers in half precision."""

    def error(self, steps: Sequence[Step]) -> float:
        """The largest error of an output with these steps in half precision."""
        made = in_half(self.graph, steps)
        outputs = [rounded_outputs(made, sample) for sample in self.samples]
        return _finite(max(errors_by_output(outputs, self.expected).values()))

    def alone(self, step: Step) -> float:
        """The same for one step, on the last sample."""
        found = rounded_outputs(in_half(self.graph, [step]), self.samples[-1])
        return _finite(max(errors_by_output([found], self.expected[-1:]).values()))


def _finite(error: float) -> float:
    return error if np.isfinite(error) else WORST


def _bearable(
    judge: _Judge, able: Sequence[Step], max_error: float, error: float
) -> tuple[tuple[Step, ...], dict[str, str]]:
    """The steps to compute in half precision if all together, with this error, lose too much; why
    not the others.

    Those that lose least per multiply-accumulate come first; errors of layers add up like random
    numbers, by their squares.
    """
    alone = {step.name: judge.alone(step) for step in able}
    work = {step.name: step.macs(judge.graph) + 1 for step in able}
    order = sorted(able, key=lambda step: (alone[step.name] ** 2 / work[step.name], step.name))

    def joined(some: Sequence[Step]) -> tuple[Step, ...]:
        return worthwhile(judge.graph, [step for step in able if step in some])

    def bears(some: Sequence[Step]) -> bool:
        tried = joined(some)
        return bool(tried) and MARGIN * judge.error(tried) <= max_error

    most = longest(order, bears)
    chosen = joined(most)
    if not chosen:
        raise OptionError(
            f"layers in half precision cost the outputs {error:.2g}, with a margin more than "
            f"--max-error {max_error:g}",
            where=OPTION, cure=f"allow more, such as --max-error {enough(error):g}",
        )  # fmt: skip
    kept = {step.name: f"alone it loses {alone[step.name]:.2g}" for step in order[len(most) :]}
    return chosen, kept


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


def _marked(
    graph: Graph, steps: Sequence[Step], kept: Mapping[str, str], error: float, samples: int
) -> Graph:
    made = in_half(graph, steps)
    floats = {step.name for step in cut(graph) if step.macs(graph)}
    others = floats - {step.name for step in steps} - kept.keys()
    reasons = dict.fromkeys(sorted(others), "it has no kernel in half precision") | {**kept}
    before = sum(int(array.nbytes) for array in graph.constants.values())
    read = {name for step in steps for node in step.nodes for name in node.inputs}
    saved = sum(int(graph.constants[name].nbytes) // 2 for name in read & graph.constants.keys())
    facts = HalfLayers(
        tuple(step.name for step in steps), tuple(reasons.items()), error, samples,
        before, before - saved,
    )  # fmt: skip
    return replace(made, half_layers=facts)


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
