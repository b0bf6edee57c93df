"""The values of a network's runs beside what they should be, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cannery.execution.dump import Shown
from cannery.execution.program import Sample
from cannery.execution.samples import relative_error
from cannery.ir.evaluate import evaluate_all
from cannery.ir.graph import Graph
from cannery.ir.registry import RefArray
from cannery.ops.same_bits import differing_layers

#: Where two references of a value are so close, it is the same value before the passes and after.
_SAME = 1e-5

#: The kind of a value that was there before, in another layout.
COPY = "copy"


@dataclass(frozen=True)
class Deviation:
    """The element that is farthest off, and in which sample."""

    sample: int
    element: tuple[int, ...]
    found: float
    expected: float


@dataclass(frozen=True)
class Row:
    """One value: the error of its worst sample relative to its largest element, and the bound.

    `step` is the C function that completes it, `beside` what it was compared with; without that
    there is nothing to compare it with, and `error` is None.
    """

    value: str
    kind: str
    step: str
    beside: str
    error: float | None
    bound: float
    worst: Deviation | None

    @property
    def deviates(self) -> bool:
        """Whether it is off by more than the bound."""
        return self.error is not None and not self.error <= self.bound


@dataclass(frozen=True)
class Compared:
    """All values that were stored, in the order of the runs, and why others were not."""

    rows: tuple[Row, ...]
    unseen: Mapping[str, str]

    @property
    def first(self) -> Row | None:
        """The first that deviates."""
        return next((row for row in self.rows if row.deviates), None)


#: Values of one sample by name.
Arrays = Mapping[str, RefArray]


@dataclass(frozen=True)
class Judge:
    """What values should be: those of the model's own graph, where they are still the same values
    after the passes, else what the references make of the graph that was compiled.

    `file` is the model as its file has it. `others` are those of a framework, by name, and alone
    count if there are any; `title` names it.
    """

    file: Graph
    model: Graph
    graph: Graph
    own: Sequence[Arrays]
    compiled: Sequence[Arrays]
    others: Sequence[Arrays] = ()
    title: str = ""

    def expected(self, value: str) -> tuple[str, list[RefArray]]:
        """What a value is compared with: its name (empty: nothing), and an array per sample."""
        kept = self._kept(value)
        if value in self.graph.inputs:
            return "input", [arrays[value] for arrays in self.compiled]
        if self.title:
            known = kept and all(value in arrays for arrays in self.others)
            return (self.title, [a[value] for a in self.others]) if known else ("", [])
        if kept:
            return "model", [arrays[value] for arrays in self.own]
        return "compiled graph", [arrays[value] for arrays in self.compiled]

    def _kept(self, value: str) -> bool:
        """Whether a value means the same in the model; an output has to."""
        if value not in self.model.types or value in self.model.constants:
            return False
        if self.model.types[value].shape != self.graph.types[value].shape:
            return False
        if value in self.model.outputs:
            return True
        pairs = zip(self.own, self.compiled, strict=True)
        return all(relative_error(own[value], new[value]) <= _SAME for own, new in pairs)


def make_judge(file: Graph, model: Graph, graph: Graph, samples: Sequence[Sample]) -> Judge:
    """The judge of a model, as its file has it and as `judge_graph`, and of what is compiled."""
    with np.errstate(all="ignore"):
        own = [evaluate_all(model, sample) for sample in samples]
        compiled = own if model is graph else [evaluate_all(graph, sample) for sample in samples]
    return Judge(file, model, graph, own, compiled)


def compare_values(
    judge: Judge, values: Sequence[Shown], runs: Sequence[Mapping[int, RefArray]], bound: float
) -> Compared:
    """The values of the runs, one for each sample, by their numbers in `values`.

    `bound` is that of errors. Values of the model's file that are not among them are `unseen`.
    """
    rows: list[Row] = []
    seen = set(judge.graph.inputs)
    for number, shown in enumerate(values):
        if shown.step >= 0:
            kind = COPY if shown.value in seen else _kind(judge.graph, shown.value)
            rows.append(_row(judge, shown, kind, [run[number] for run in runs], bound))
        seen.add(shown.value)
    return Compared(tuple(rows), _unseen(judge, seen))


def _kind(graph: Graph, value: str) -> str:
    producer = graph.producer(value)
    return producer.op.kind if producer else COPY


def _row(judge: Judge, shown: Shown, kind: str, found: Sequence[RefArray], bound: float) -> Row:
    title, expected = judge.expected(shown.value)
    if not title:
        return Row(shown.value, kind, shown.symbol, "", None, bound, None)
    pairs = list(zip(found, expected, strict=True))
    errors = [relative_error(y, r) for y, r in pairs]
    worst = max(range(len(pairs)), key=lambda k: errors[k])
    deviation = _deviation(worst, *pairs[worst])
    least = _unit(judge, expected) if shown.type.dtype.numpy.kind in "iu" else 0.0
    error = errors[worst]
    return Row(shown.value, kind, shown.symbol, title, error, max(bound, least), deviation)


def _unit(judge: Judge, expected: Iterable[RefArray]) -> float:
    """What one unit of an integer is worth where processors may disagree about last bits."""
    if not differing_layers(judge.graph):
        return 0.0
    largest = max((float(np.max(np.abs(r), initial=0)) for r in expected), default=0.0)
    return 1.0 / largest if largest else 1.0


def _deviation(sample: int, found: RefArray, expected: RefArray) -> Deviation | None:
    """The element that is farthest off; one that is not finite on one side alone comes first."""
    if not found.size:
        return None
    y, r = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.where(y == r, 0.0, np.abs(y - r))
    off[np.isnan(off)] = np.inf
    off[np.isnan(y) & np.isnan(r)] = 0.0
    place = np.unravel_index(int(np.argmax(off)), off.shape)
    return Deviation(sample, tuple(map(int, place)), float(y[place]), float(r[place]))


def _unseen(judge: Judge, seen: set[str]) -> dict[str, str]:
    """Values of the model that no run stores, and why."""
    graph, found = judge.graph, {}
    for node in judge.file.nodes:
        for value in node.outputs:
            if value not in seen:
                found[value] = _why(graph, value, seen)
    return found


def _why(graph: Graph, value: str, seen: set[str]) -> str:
    if value in graph.constants:
        return "a constant"
    node = graph.producer(value)
    if node is None:
        return "replaced when the network was simplified"
    while node is not None and node.outputs[0] not in seen:
        readers = graph.consumers(node.outputs[0])
        node = readers[0] if readers and len(readers[0].outputs) == 1 else None
    return f"computed within {node.outputs[0]!r}" if node else "never stored"
